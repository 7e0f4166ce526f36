#include "executable.h"

#include <algorithm>

#include "memory.h"

namespace emulator {

Executable::~Executable() {
    graph::release_users(users);
    if (graph) graph::destroy(*graph);
}

namespace executable {
namespace {

// Where a node of the graph begins and ends in a plan: child graphs take many steps.
struct Span {
    unsigned entry, exit;
};

void connect(Plan& plan, unsigned from, unsigned to) {
    plan.steps[from].successors.push_back(to);
    ++plan.steps[to].predecessors;
}

unsigned add_step(Plan& plan, const Node& node, const Ref<Operation>& operation) {
    Step step;
    step.operation = operation;
    step.enabled = node.enabled;
    step.node_index = node.index;
    plan.steps.push_back(std::move(step));
    return static_cast<unsigned>(plan.steps.size() - 1);
}

Ref<Plan> make_plan(const Graph& graph);

void splice(Plan& plan, const Graph& graph, std::vector<unsigned>* entries, std::vector<unsigned>* exits) {
    std::unordered_map<const Node*, Span> spans;
    for (const Node* node : graph::order(graph)) {
        Span span;
        const auto type = node->operation->type;
        if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
            static const Ref<Operation> empty = make<EmptyOperation>();
            span.entry = add_step(plan, *node, empty);
            span.exit = add_step(plan, *node, empty);
            std::vector<unsigned> in, out;
            splice(plan, *static_cast<const ChildOperation&>(*node->operation).body, &in, &out);
            for (unsigned step : in) connect(plan, span.entry, step);
            for (unsigned step : out) connect(plan, step, span.exit);
            if (in.empty()) connect(plan, span.entry, span.exit);
        } else {
            span.entry = span.exit = add_step(plan, *node, node->operation);
            if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
                for (const auto& body : static_cast<const ConditionalOperation&>(*node->operation).bodies)
                    plan.steps[span.entry].bodies.push_back(make_plan(*body));
            if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD || type == CU_GRAPH_NODE_TYPE_WAIT_EVENT ||
                type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE)
                plan.event_steps.push_back(span.entry);
        }
        spans[node] = span;
        for (const Dependency& dependency : node->dependencies) connect(plan, spans[dependency.node].exit, span.entry);
        if (node->dependencies.empty() && entries) entries->push_back(span.entry);
        if (node->dependents.empty() && exits) exits->push_back(span.exit);
    }
}

Ref<Plan> make_plan(const Graph& graph) {
    auto plan = make<Plan>();
    splice(*plan, graph, nullptr, nullptr);
    for (unsigned i = 0; i < plan->steps.size(); ++i)
        if (plan->steps[i].predecessors == 0) plan->roots.push_back(i);
    return plan;
}

void index_nodes(Executable& executable, const Graph& graph) {
    for (const auto& node : graph.nodes) {
        executable.nodes[node->original] = node.get();
        if (node->operation->type == CU_GRAPH_NODE_TYPE_GRAPH)
            index_nodes(executable, *static_cast<const ChildOperation&>(*node->operation).body);
        if (node->operation->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
            for (const auto& body : static_cast<const ConditionalOperation&>(*node->operation).bodies) index_nodes(executable, *body);
    }
}

bool unused_condition(const Graph& graph) {
    return std::any_of(graph.conditionals.begin(), graph.conditionals.end(), [](const auto& entry) { return !entry.second->used; });
}

}  // namespace

Executable* find(CUgraphExec handle) { return state().executables.find(handle); }

Node* node_of(Executable& executable, CUgraphNode handle) {
    const Node* node = graph::find(handle);
    if (!node) return nullptr;
    auto found = executable.nodes.find(node->serial);
    return found == executable.nodes.end() ? nullptr : found->second;
}

Plan& plan_of(Executable& executable) {
    if (!executable.plan) executable.plan = make_plan(*executable.graph);
    return *executable.plan;
}

CUresult instantiate(CUgraphExec* out, Graph& graph, unsigned long long flags, CUgraphInstantiateResult& result,
                     CUgraphNode& error_node) {
    constexpr unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                         CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                                         CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    result = CUDA_GRAPH_INSTANTIATE_ERROR;
    error_node = nullptr;
    if (flags & ~known) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) && (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH))
        return CUDA_ERROR_INVALID_VALUE;  // S-D35
    if (graph.owner || graph::captured_into(graph)) return CUDA_ERROR_INVALID_VALUE;
    if (graph::cyclic(graph)) {
        result = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (unused_condition(graph)) {
        result = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
        return CUDA_ERROR_INVALID_VALUE;
    }
    const bool single = graph::has_memory_nodes(graph) || graph::has_conditionals(graph);
    if (single && graph.executables) return CUDA_ERROR_NOT_SUPPORTED;  // S-D32, D50
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        for (const auto& node : graph.nodes) {
            const auto type = node->operation->type;
            if (type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_MEMSET ||
                type == CU_GRAPH_NODE_TYPE_GRAPH || type == CU_GRAPH_NODE_TYPE_EMPTY)
                continue;
            result = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
            error_node = handle_of<CUgraphNode>(node.get());
            return CUDA_ERROR_NOT_SUPPORTED;
        }
    auto executable = make<Executable>();
    executable->number = state().next_graph++;
    executable->graph = graph::clone(graph, false);
    executable->source = Ref<Graph>(&graph);
    executable->flags = flags;
    executable->context = current_context();
    executable->has_memory = graph::has_memory_nodes(graph);
    executable->has_conditions = graph::has_conditionals(graph);
    executable->users = std::move(executable->graph->users);
    executable->graph->users.clear();
    index_nodes(*executable, *executable->graph);
    plan_of(*executable);
    ++graph.executables;
    *out = reinterpret_cast<CUgraphExec>(state().executables.add(executable));
    result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return CUDA_SUCCESS;
}

}  // namespace executable
}  // namespace emulator
