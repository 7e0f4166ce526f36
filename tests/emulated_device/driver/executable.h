// Executable graphs.
#pragma once

#include "graph.h"
#include "scheduler.h"

namespace emulator {

struct Executable : Counted {
    unsigned number = 0;
    Ref<Graph> graph;   // the executable's own deep copy
    Ref<Graph> source;  // instantiated from
    std::unordered_map<uint64_t, Node*> nodes;  // serial of the template's node -> ours, at any depth
    Ref<Plan> plan;     // made when first needed, dropped when a parameter changes
    unsigned long long flags = 0;
    Ref<Work> last;     // launches of one executable never overlap (S-D38)
    UserReferences users;
    Context* context = nullptr;
    bool has_memory = false, has_conditions = false;
    ~Executable() override;
};

namespace executable {

Executable* find(CUgraphExec handle);
// The executable's copy of a template's node; null when it has none.
Node* node_of(Executable& executable, CUgraphNode handle);
Plan& plan_of(Executable& executable);
CUresult instantiate(CUgraphExec* out, Graph& graph, unsigned long long flags, CUgraphInstantiateResult& result,
                     CUgraphNode& error_node);

}  // namespace executable
}  // namespace emulator
