// The driver's functions on graphs as a whole: creation, nodes, edges, clones, identity.
#include <algorithm>
#include <cstring>

#include "graph.h"
#include "graph_build.h"

namespace emulator {
namespace {

// Fills a caller's array by the driver's protocol: null asks for the count; more room than needed is filled with null.
CUresult fill_array(const std::vector<const Node*>& nodes, CUgraphNode* out, size_t* count) {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    if (!out) {
        *count = nodes.size();
        return CUDA_SUCCESS;
    }
    const size_t room = *count;
    for (size_t i = 0; i < room; ++i) out[i] = i < nodes.size() ? handle_of<CUgraphNode>(nodes[i]) : nullptr;
    *count = std::min(room, nodes.size());
    return CUDA_SUCCESS;
}

struct Edge {
    const Node* from;
    const Node* to;
    CUgraphEdgeData data;
};

std::vector<Edge> edges_of(const Graph& graph) {
    std::vector<Edge> edges;
    for (const auto& node : graph.nodes)
        for (const Dependency& dependency : node->dependencies) edges.push_back({dependency.node, node.get(), dependency.data});
    return edges;
}

CUresult fill_edges(const std::vector<Edge>& edges, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count,
                    bool may_hold_data, bool want_from, bool want_to) {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    if ((want_from && want_to) ? (!from != !to) : false) return CUDA_ERROR_INVALID_VALUE;
    if (!from && !to) {
        if (data) return CUDA_ERROR_INVALID_VALUE;
        *count = edges.size();
        return CUDA_SUCCESS;
    }
    if (!data || !may_hold_data)
        for (const Edge& edge : edges)
            if (!graph::plain(edge.data)) return CUDA_ERROR_LOSSY_QUERY;
    const size_t room = *count;
    for (size_t i = 0; i < room; ++i) {
        const bool filled = i < edges.size();
        if (from) from[i] = filled ? handle_of<CUgraphNode>(edges[i].from) : nullptr;
        if (to) to[i] = filled ? handle_of<CUgraphNode>(edges[i].to) : nullptr;
        if (data && filled) data[i] = edges[i].data;
    }
    *count = std::min(room, edges.size());
    return CUDA_SUCCESS;
}

CUresult get_edges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count, bool with_data) {
    const Graph* graph = graph::find(handle);
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    return fill_edges(edges_of(*graph), from, to, data, count, with_data, true, true);
}

CUresult get_dependencies(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data, size_t* count, bool with_data) {
    const Node* node = graph::find(handle);
    if (!node) return CUDA_ERROR_INVALID_VALUE;
    std::vector<Edge> edges;
    for (const Dependency& dependency : node->dependencies) edges.push_back({dependency.node, node, dependency.data});
    return fill_edges(edges, out, nullptr, data, count, with_data, true, false);
}

CUresult get_dependents(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data, size_t* count, bool with_data) {
    const Node* node = graph::find(handle);
    if (!node) return CUDA_ERROR_INVALID_VALUE;
    std::vector<Edge> edges;
    for (const Node* next : node->dependents)
        for (const Dependency& dependency : next->dependencies)
            if (dependency.node == node) edges.push_back({node, next, dependency.data});
    return fill_edges(edges, nullptr, out, data, count, with_data, false, true);
}

bool has_edge(const Node& from, const Node& to) {
    return std::any_of(to.dependencies.begin(), to.dependencies.end(), [&](const Dependency& one) { return one.node == &from; });
}

struct Pair {
    Node *from, *to;
    CUgraphEdgeData data;
};

// The whole batch is looked at before any of it is applied; whether the driver keeps earlier pairs is not known (E-27).
CUresult resolve_pairs(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data, size_t count,
                       bool adding, std::vector<Pair>& pairs) {
    const Graph* graph = graph::find(handle);
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    if (!count) return CUDA_SUCCESS;
    if (!from || !to) return CUDA_ERROR_INVALID_VALUE;
    if (count > graph->nodes.size() * graph->nodes.size()) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
        Node *a = graph::find(from[i]), *b = graph::find(to[i]);
        if (!a || !b || a == b || a->graph != graph || b->graph != graph) return CUDA_ERROR_INVALID_VALUE;
        if (has_edge(*a, *b) == adding) return CUDA_ERROR_INVALID_VALUE;
        for (const Pair& earlier : pairs)
            if (earlier.from == a && earlier.to == b) return CUDA_ERROR_INVALID_VALUE;
        CUgraphEdgeData d = data ? data[i] : CUgraphEdgeData{};
        if (d.type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC) return CUDA_ERROR_INVALID_VALUE;
        if (!adding)
            for (const Dependency& one : b->dependencies)
                if (one.node == a && !graph::same_data(one.data, d))
                    return data ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_LOSSY_QUERY;
        pairs.push_back({a, b, d});
    }
    return CUDA_SUCCESS;
}

CUresult add_dependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data, size_t count) {
    std::vector<Pair> pairs;
    if (const CUresult error = resolve_pairs(handle, from, to, data, count, true, pairs)) return error;
    for (const Pair& pair : pairs) {
        pair.to->dependencies.push_back({pair.from, pair.data});
        pair.from->dependents.push_back(pair.to);
    }
    return CUDA_SUCCESS;
}

CUresult remove_dependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
                             size_t count) {
    std::vector<Pair> pairs;
    if (const CUresult error = resolve_pairs(handle, from, to, data, count, false, pairs)) return error;
    if (count && graph::has_memory_nodes(*graph::find(handle))) return CUDA_ERROR_NOT_SUPPORTED;  // S-D32
    for (const Pair& pair : pairs) {
        auto& in = pair.to->dependencies;
        in.erase(std::find_if(in.begin(), in.end(), [&](const Dependency& one) { return one.node == pair.from; }));
        auto& out = pair.from->dependents;
        out.erase(std::find(out.begin(), out.end(), pair.to));
    }
    return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGraphCreate(CUgraph* out, unsigned int flags) CALL(cuGraphCreate, initialised, nullptr) {
    if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
    *out = handle_of<CUgraph>(graph::create().get());
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuGraphDestroy(CUgraph handle) CALL(cuGraphDestroy, release, nullptr) {
    Graph* graph = graph::find(handle);
    if (!graph || graph->owner || graph::captured_into(*graph)) return CUDA_ERROR_INVALID_VALUE;
    graph::destroy(*graph);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuGraphClone(CUgraph* out, CUgraph handle) CALL(cuGraphClone, initialised, nullptr) {
    const Graph* graph = graph::find(handle);
    if (!graph || !out || graph::captured_into(*graph)) return CUDA_ERROR_INVALID_VALUE;
    if (graph::has_memory_nodes(*graph) || graph::has_conditionals(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
    *out = handle_of<CUgraph>(graph::clone(*graph, true).get());
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph handle)
CALL(cuGraphNodeFindInClone, initialised, nullptr) {
    const Graph* clone = graph::find(handle);
    const Node* node = graph::find(original);
    if (!out || !clone || !node || !clone->cloned_from || clone->cloned_from != node->graph->capture_id)
        return CUDA_ERROR_INVALID_VALUE;
    for (const auto& candidate : clone->nodes)
        if (candidate->original == node->serial) {
            *out = handle_of<CUgraphNode>(candidate.get());
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
} END_CALL

CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode handle) CALL(cuGraphDestroyNode, release, nullptr) {
    Node* node = graph::find(handle);
    if (!node) return CUDA_ERROR_INVALID_VALUE;
    if (graph::captured_into(*node->graph)) return CUDA_ERROR_INVALID_VALUE;  // S-D28: no removal while captured into
    if (graph::has_memory_nodes(*node->graph)) return CUDA_ERROR_NOT_SUPPORTED;
    graph::remove_node(*node);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuGraphGetNodes(CUgraph handle, CUgraphNode* out, size_t* count) CALL(cuGraphGetNodes, initialised, nullptr) {
    const Graph* graph = graph::find(handle);
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    std::vector<const Node*> nodes;
    for (const auto& node : graph->nodes) nodes.push_back(node.get());
    return fill_array(nodes, out, count);
} END_CALL

CUresult CUDAAPI cuGraphGetRootNodes(CUgraph handle, CUgraphNode* out, size_t* count)
CALL(cuGraphGetRootNodes, initialised, nullptr) {
    const Graph* graph = graph::find(handle);
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    std::vector<const Node*> nodes;
    for (const auto& node : graph->nodes)
        if (node->dependencies.empty()) nodes.push_back(node.get());
    return fill_array(nodes, out, count);
} END_CALL

CUresult CUDAAPI cuGraphGetEdges_v2(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count)
CALL(cuGraphGetEdges, initialised, nullptr) {
    return get_edges(handle, from, to, data, count, true);
} END_CALL

EXPORT CUresult CUDAAPI graphcap_cuGraphGetEdges_v10000(CUgraph handle, CUgraphNode* from, CUgraphNode* to, size_t* count)
CALL(cuGraphGetEdges, initialised, nullptr) {
    return get_edges(handle, from, to, nullptr, count, false);
} END_CALL

CUresult CUDAAPI cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data, size_t* count)
CALL(cuGraphNodeGetDependencies, initialised, nullptr) {
    return get_dependencies(handle, out, data, count, true);
} END_CALL

EXPORT CUresult CUDAAPI graphcap_cuGraphNodeGetDependencies_v10000(CUgraphNode handle, CUgraphNode* out, size_t* count)
CALL(cuGraphNodeGetDependencies, initialised, nullptr) {
    return get_dependencies(handle, out, nullptr, count, false);
} END_CALL

CUresult CUDAAPI cuGraphNodeGetDependentNodes_v2(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data, size_t* count)
CALL(cuGraphNodeGetDependentNodes, initialised, nullptr) {
    return get_dependents(handle, out, data, count, true);
} END_CALL

EXPORT CUresult CUDAAPI graphcap_cuGraphNodeGetDependentNodes_v10000(CUgraphNode handle, CUgraphNode* out, size_t* count)
CALL(cuGraphNodeGetDependentNodes, initialised, nullptr) {
    return get_dependents(handle, out, nullptr, count, false);
} END_CALL

CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                           const CUgraphEdgeData* data, size_t count)
CALL(cuGraphAddDependencies, initialised, nullptr) {
    return add_dependencies(handle, from, to, data, count);
} END_CALL

EXPORT CUresult CUDAAPI graphcap_cuGraphAddDependencies_v10000(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                                               size_t count) CALL(cuGraphAddDependencies, initialised, nullptr) {
    return add_dependencies(handle, from, to, nullptr, count);
} END_CALL

CUresult CUDAAPI cuGraphRemoveDependencies_v2(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                              const CUgraphEdgeData* data, size_t count)
CALL(cuGraphRemoveDependencies, initialised, nullptr) {
    return remove_dependencies(handle, from, to, data, count);
} END_CALL

EXPORT CUresult CUDAAPI graphcap_cuGraphRemoveDependencies_v10000(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                                                  size_t count)
CALL(cuGraphRemoveDependencies, initialised, nullptr) {
    return remove_dependencies(handle, from, to, nullptr, count);
} END_CALL

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* out) CALL(cuGraphNodeGetType, initialised, nullptr) {
    const Node* node = graph::find(handle);
    if (!node || !out) return CUDA_ERROR_INVALID_VALUE;
    *out = node->operation->type;
    return CUDA_SUCCESS;
} END_CALL

#if CUDA_VERSION >= 13010
CUresult CUDAAPI cuGraphNodeGetContainingGraph(CUgraphNode handle, CUgraph* out)
CALL(cuGraphNodeGetContainingGraph, initialised, nullptr) {
    const Node* node = graph::find(handle);
    if (!node || !out) return CUDA_ERROR_INVALID_VALUE;
    *out = handle_of<CUgraph>(node->graph);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuGraphNodeGetLocalId(CUgraphNode handle, unsigned int* out) CALL(cuGraphNodeGetLocalId, initialised, nullptr) {
    const Node* node = graph::find(handle);
    if (!node || !out) return CUDA_ERROR_INVALID_VALUE;
    *out = node->index;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuGraphNodeGetToolsId(CUgraphNode handle, unsigned long long* out)
CALL(cuGraphNodeGetToolsId, initialised, nullptr) {
    const Node* node = graph::find(handle);
    if (!node || !out) return CUDA_ERROR_INVALID_VALUE;
    *out = static_cast<unsigned long long>(node->graph->number) << 32 | node->index;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuGraphGetId(CUgraph handle, unsigned int* out) CALL(cuGraphGetId, initialised, nullptr) {
    const Graph* graph = graph::find(handle);
    if (!graph || !out) return CUDA_ERROR_INVALID_VALUE;
    *out = graph->number;
    return CUDA_SUCCESS;
} END_CALL
#endif

}  // extern "C"
}  // namespace emulator
