#include "graph.h"

#include <algorithm>
#include <cstring>

#include "memory.h"
#include "scheduler.h"

namespace emulator {

ChildOperation::ChildOperation(Ref<Graph> graph) : Operation(CU_GRAPH_NODE_TYPE_GRAPH), body(std::move(graph)) {}
ChildOperation::~ChildOperation() = default;
ConditionalOperation::~ConditionalOperation() = default;
AllocOperation::AllocOperation(Ref<GraphAllocation> target)
    : Operation(CU_GRAPH_NODE_TYPE_MEM_ALLOC), allocation(std::move(target)) {}
AllocOperation::~AllocOperation() = default;
FreeOperation::FreeOperation(Ref<GraphAllocation> target)
    : Operation(CU_GRAPH_NODE_TYPE_MEM_FREE), pointer(target->address), allocation(target) {
    allocation->freed_by_node = true;
}
FreeOperation::~FreeOperation() {
    if (allocation) allocation->freed_by_node = false;
}
Graph::~Graph() = default;

namespace graph {
namespace {

void remove_edges(Node& node) {
    for (const Dependency& dependency : node.dependencies) {
        auto& out = dependency.node->dependents;
        out.erase(std::remove(out.begin(), out.end(), &node), out.end());
    }
    for (Node* next : node.dependents) {
        auto& in = next->dependencies;
        in.erase(std::remove_if(in.begin(), in.end(), [&](const Dependency& one) { return one.node == &node; }), in.end());
    }
    node.dependencies.clear();
    node.dependents.clear();
}

// Graphs inside a node die with it.
std::vector<Ref<Graph>> inner_graphs(const Operation& operation) {
    if (operation.type == CU_GRAPH_NODE_TYPE_GRAPH) return {static_cast<const ChildOperation&>(operation).body};
    if (operation.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) return static_cast<const ConditionalOperation&>(operation).bodies;
    return {};
}

Ref<Operation> clone_operation(const Ref<Operation>& operation, bool with_handles, Node& owner) {
    if (operation->type == CU_GRAPH_NODE_TYPE_GRAPH) {
        auto body = clone(*static_cast<ChildOperation&>(*operation).body, with_handles);
        body->owner = &owner;
        return make<ChildOperation>(body);
    }
    if (operation->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
        const auto& from = static_cast<ConditionalOperation&>(*operation);
        auto copy = make<ConditionalOperation>();
        copy->condition = from.condition;
        copy->kind = from.kind;
        copy->context = from.context;
        for (const auto& body : from.bodies) {
            copy->bodies.push_back(clone(*body, with_handles));
            copy->bodies.back()->owner = &owner;
            copy->body_handles.push_back(handle_of<CUgraph>(copy->bodies.back().get()));
        }
        return copy;
    }
    return operation;
}

template <class F>
bool any_graph(const Graph& graph, F&& predicate) {
    for (const auto& node : graph.nodes) {
        if (predicate(*node)) return true;
        for (const auto& inner : inner_graphs(*node->operation))
            if (any_graph(*inner, predicate)) return true;
    }
    return false;
}

}  // namespace

Graph* find(CUgraph handle) { return state().graphs.find(handle); }
Node* find(CUgraphNode handle) { return state().nodes.find(handle); }

Ref<Graph> create() {
    auto graph = make<Graph>();
    graph->number = state().next_graph++;
    graph->capture_id = state().next_serial++;
    graph->context = current_context();
    state().graphs.add(graph);
    return graph;
}

void destroy(Graph& target) {
    const Ref<Graph> graph(&target);
    if (graph->capture) graph->capture->invalidated = true;  // a body that is captured into, of a graph that goes
    for (const auto& node : graph->nodes) {
        if (node->handle) state().nodes.remove(node->handle);
        for (const auto& inner : inner_graphs(*node->operation)) destroy(*inner);
        node->dependencies.clear();
        node->dependents.clear();
    }
    graph->nodes.clear();
    release_users(graph->users);
    if (graph->handle) state().graphs.remove(graph->handle);
    graph->handle = 0;
}

Node* add_node(Graph& graph, const Ref<Operation>& operation, std::vector<Dependency> dependencies) {
    auto node = make<Node>();
    node->graph = &graph;
    node->index = graph.next_index++;
    node->serial = state().next_serial++;
    node->operation = operation;
    node->dependencies = std::move(dependencies);
    for (const Dependency& dependency : node->dependencies) dependency.node->dependents.push_back(node.get());
    state().nodes.add(node);
    graph.nodes.push_back(node);
    for (const auto& inner : inner_graphs(*operation)) inner->owner = node.get();
    if (operation->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        graph.conditionals[static_cast<ConditionalOperation&>(*operation).condition]->used = true;
    return node.get();
}

void remove_node(Node& target) {
    const Ref<Node> node(&target);
    Graph& graph = *node->graph;
    remove_edges(*node);
    for (const auto& inner : inner_graphs(*node->operation)) destroy(*inner);
    state().nodes.remove(node->handle);
    node->handle = 0;
    auto& all = graph.nodes;
    all.erase(std::find_if(all.begin(), all.end(), [&](const Ref<Node>& one) { return one.get() == node.get(); }));
    ++graph.destroyed_nodes;
}

CUresult check_placement(const Graph& graph, const Operation& operation) {
    const bool in_body = graph.owner && graph.owner->operation && graph.owner->operation->type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
    const bool in_child = graph.owner && !in_body;
    switch (operation.type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
        case CU_GRAPH_NODE_TYPE_EMPTY:
        case CU_GRAPH_NODE_TYPE_GRAPH:
        case CU_GRAPH_NODE_TYPE_MEMSET:
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            return CUDA_SUCCESS;
        case CU_GRAPH_NODE_TYPE_CONDITIONAL:
            return in_child ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        case CU_GRAPH_NODE_TYPE_MEM_FREE:
            return in_body || (in_child && !graph.moved) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
        default:
            return in_body ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
    }
}

CUresult resolve_dependencies(const Graph& graph, const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count,
                              std::vector<Dependency>& out) {
    if (count && !nodes) return CUDA_ERROR_INVALID_VALUE;
    if (count > graph.nodes.size()) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
        Node* node = find(nodes[i]);
        if (!node || node->graph != &graph) return CUDA_ERROR_INVALID_VALUE;
        for (const Dependency& earlier : out)
            if (earlier.node == node) return CUDA_ERROR_INVALID_VALUE;
        out.push_back({node, data ? data[i] : CUgraphEdgeData{}});
        if (out.back().data.type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC) return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

bool same_data(const CUgraphEdgeData& a, const CUgraphEdgeData& b) {
    return a.from_port == b.from_port && a.to_port == b.to_port && a.type == b.type;
}

bool plain(const CUgraphEdgeData& data) { return same_data(data, CUgraphEdgeData{}); }

bool has_memory_nodes(const Graph& graph) {
    return any_graph(graph, [](const Node& node) {
        return node.operation->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node.operation->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
    });
}

bool has_conditionals(const Graph& graph) {
    return any_graph(graph, [](const Node& node) { return node.operation->type == CU_GRAPH_NODE_TYPE_CONDITIONAL; });
}

std::vector<const Node*> order(const Graph& graph) {
    std::unordered_map<const Node*, size_t> waiting;
    std::vector<const Node*> result;
    for (const auto& node : graph.nodes) {
        waiting[node.get()] = node->dependencies.size();
        if (node->dependencies.empty()) result.push_back(node.get());
    }
    for (size_t i = 0; i < result.size(); ++i)
        for (const Node* next : result[i]->dependents)
            if (--waiting[next] == 0) result.push_back(next);
    return result;
}

bool captured_into(const Graph& graph) {
    if (graph.capture) return true;
    for (const auto& node : graph.nodes)
        for (const auto& inner : inner_graphs(*node->operation))
            if (captured_into(*inner)) return true;
    return false;
}

bool cyclic(const Graph& graph) {
    if (order(graph).size() != graph.nodes.size()) return true;
    for (const auto& node : graph.nodes)
        for (const auto& inner : inner_graphs(*node->operation))
            if (cyclic(*inner)) return true;
    return false;
}

Ref<Graph> clone(const Graph& graph, bool with_handles) {
    Ref<Graph> copy = with_handles ? create() : make<Graph>();
    if (!with_handles) copy->number = state().next_graph++;
    copy->cloned_from = graph.capture_id;
    copy->context = graph.context;
    copy->conditionals = graph.conditionals;
    copy->next_index = graph.next_index;
    copy->moved = graph.moved;
    std::unordered_map<const Node*, Node*> match;
    for (const auto& node : graph.nodes) {
        auto twin = make<Node>();
        twin->graph = copy.get();
        twin->index = node->index;
        twin->serial = state().next_serial++;
        twin->original = node->serial;
        twin->enabled = node->enabled;
        twin->operation = clone_operation(node->operation, with_handles, *twin);
        if (with_handles) state().nodes.add(twin);
        copy->nodes.push_back(twin);
        match[node.get()] = twin.get();
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
        for (const Dependency& dependency : graph.nodes[i]->dependencies)
            copy->nodes[i]->dependencies.push_back({match[dependency.node], dependency.data});
        for (const Node* next : graph.nodes[i]->dependents) copy->nodes[i]->dependents.push_back(match[next]);
    }
    copy->users = graph.users;
    for (auto& user : copy->users) user.first->count += user.second;
    return copy;
}

}  // namespace graph
}  // namespace emulator
