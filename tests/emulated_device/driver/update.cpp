// Changing an executable: whole-graph update and single nodes (S-D42 to D46, evidence D.8).
#include <algorithm>
#include <cstring>

#include "capture.h"
#include "copy.h"
#include "executable.h"
#include "graph_build.h"
#include "kernel.h"
#include "memory.h"

namespace emulator {
namespace {

struct Verdict {
    CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    const Node* node = nullptr;
    const Node* from = nullptr;
    bool ok() const { return result == CU_GRAPH_EXEC_UPDATE_SUCCESS; }
};

size_t position(const Graph& graph, const Node* node) {
    for (size_t i = 0; i < graph.nodes.size(); ++i)
        if (graph.nodes[i].get() == node) return i;
    return graph.nodes.size();
}

size_t roots(const Graph& graph) {
    return static_cast<size_t>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                             [](const Ref<Node>& node) { return node->dependencies.empty(); }));
}

bool same_kind_of_copy(const CopyOperation& a, const CopyOperation& b) {
    const auto &p = a.parameters, &q = b.parameters;
    auto side = [](CUmemorytype type, uintptr_t pointer) { return copy::device_side(type, pointer); };
    if (side(p.srcMemoryType, copy::source_of(p)) != side(q.srcMemoryType, copy::source_of(q))) return false;
    if (side(p.dstMemoryType, copy::target_of(p)) != side(q.dstMemoryType, copy::target_of(q))) return false;
    const bool flat = p.Height == 1 && p.Depth == 1 && q.Height == 1 && q.Depth == 1;
    return flat || (p.WidthInBytes == q.WidthInBytes && p.Height == q.Height && p.Depth == q.Depth);
}

Verdict compare(const Graph& have, const Graph& want, unsigned long long flags, bool top, const Graph* source);

Verdict compare_node(const Node& have, const Node& want, unsigned long long flags) {
    auto refuse = [&](CUgraphExecUpdateResult result) { return Verdict{result, &want, nullptr}; };
    if (have.operation->type != want.operation->type) return refuse(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    switch (want.operation->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: {
            const auto &a = static_cast<const KernelOperation&>(*have.operation), &b = static_cast<const KernelOperation&>(*want.operation);
            if (a.context != b.context) return refuse(CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE);
            if (a.attributes.device_updatable || b.attributes.device_updatable) return refuse(CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED);
            if (a.attributes.cooperative != b.attributes.cooperative) return refuse(CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
            if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) && a.attributes.priority != b.attributes.priority)
                return refuse(CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
            return {};
        }
        case CU_GRAPH_NODE_TYPE_MEMCPY: {
            const auto &a = static_cast<const CopyOperation&>(*have.operation), &b = static_cast<const CopyOperation&>(*want.operation);
            return a.context == b.context && same_kind_of_copy(a, b) ? Verdict{} : refuse(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
        }
        case CU_GRAPH_NODE_TYPE_MEMSET: {
            const auto &a = static_cast<const FillOperation&>(*have.operation), &b = static_cast<const FillOperation&>(*want.operation);
            const auto &p = a.parameters, &q = b.parameters;
            const bool flat = p.height == 1 && q.height == 1;
            const bool same = p.width == q.width && p.height == q.height && p.elementSize == q.elementSize && p.pitch == q.pitch;
            return a.context == b.context && (flat || same) ? Verdict{} : refuse(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
        }
        case CU_GRAPH_NODE_TYPE_GRAPH: {
            const Verdict inner = compare(*static_cast<const ChildOperation&>(*have.operation).body,
                                          *static_cast<const ChildOperation&>(*want.operation).body, flags, false, nullptr);
            return inner;
        }
        case CU_GRAPH_NODE_TYPE_CONDITIONAL: {
            const auto &a = static_cast<const ConditionalOperation&>(*have.operation),
                       &b = static_cast<const ConditionalOperation&>(*want.operation);
            if (a.kind != b.kind || a.bodies.size() != b.bodies.size() || a.context != b.context)
                return refuse(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
            for (size_t i = 0; i < a.bodies.size(); ++i) {
                const Verdict inner = compare(*a.bodies[i], *b.bodies[i], flags, false, nullptr);
                if (!inner.ok()) return inner;
            }
            return {};
        }
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
            const auto &a = static_cast<const AllocOperation&>(*have.operation), &b = static_cast<const AllocOperation&>(*want.operation);
            return a.allocation.get() == b.allocation.get() ? Verdict{} : refuse(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
        }
        case CU_GRAPH_NODE_TYPE_MEM_FREE: {
            const auto &a = static_cast<const FreeOperation&>(*have.operation), &b = static_cast<const FreeOperation&>(*want.operation);
            return a.pointer == b.pointer ? Verdict{} : refuse(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
        }
        default:
            return {};
    }
}

// The order of checks, and which refusal a different number of nodes is, follow what NVIDIA's driver was seen to answer.
Verdict compare(const Graph& have, const Graph& want, unsigned long long flags, bool top, const Graph* source) {
    auto refuse = [](CUgraphExecUpdateResult result) { return Verdict{result, nullptr, nullptr}; };
    const bool same_graph = source == &want;
    if (have.nodes.size() != want.nodes.size()) {
        if (top && same_graph && want.nodes.size() < have.nodes.size()) return refuse(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
        return refuse(roots(have) != roots(want) ? CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED
                                                 : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    }
    if (top && !same_graph && want.destroyed_nodes) return refuse(CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED);
    for (size_t i = 0; i < want.nodes.size(); ++i) {
        const Node &a = *have.nodes[i], &b = *want.nodes[i];
        bool same = a.dependencies.size() == b.dependencies.size() && a.dependents.size() == b.dependents.size();
        for (size_t j = 0; same && j < a.dependencies.size(); ++j)
            same = position(have, a.dependencies[j].node) == position(want, b.dependencies[j].node) &&
                   graph::same_data(a.dependencies[j].data, b.dependencies[j].data);
        if (!same) return Verdict{CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, &b, nullptr};
    }
    for (size_t i = 0; i < want.nodes.size(); ++i) {
        const Verdict verdict = compare_node(*have.nodes[i], *want.nodes[i], flags);
        if (!verdict.ok()) return verdict;
    }
    return {};
}

// Takes the new operations over, keeping the executable's own nodes and inner graphs.
void apply(Graph& have, const Graph& want) {
    for (size_t i = 0; i < want.nodes.size(); ++i) {
        Node& node = *have.nodes[i];
        const Operation& wanted = *want.nodes[i]->operation;
        if (wanted.type == CU_GRAPH_NODE_TYPE_GRAPH) {
            apply(*static_cast<ChildOperation&>(*node.operation).body, *static_cast<const ChildOperation&>(wanted).body);
        } else if (wanted.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
            auto& mine = static_cast<ConditionalOperation&>(*node.operation);
            const auto& theirs = static_cast<const ConditionalOperation&>(wanted);
            mine.condition = theirs.condition;
            for (size_t b = 0; b < mine.bodies.size(); ++b) apply(*mine.bodies[b], *theirs.bodies[b]);
        } else {
            node.operation = want.nodes[i]->operation;
        }
    }
    have.conditionals = want.conditionals;
}

CUresult update(CUgraphExec exec_handle, CUgraph graph_handle, Verdict& verdict) {
    Executable* executable = executable::find(exec_handle);
    const Graph* graph = graph::find(graph_handle);
    if (!executable || !graph || graph->owner || graph::captured_into(*graph)) return CUDA_ERROR_INVALID_VALUE;
    verdict = compare(*executable->graph, *graph, executable->flags, true, executable->source.get());
    if (!verdict.ok()) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    apply(*executable->graph, *graph);
    UserReferences fresh = graph->users;
    for (auto& user : fresh) user.first->count += user.second;
    graph::release_users(executable->users);
    executable->users = std::move(fresh);
    executable->plan = {};
    return CUDA_SUCCESS;
}

// Replaces what one node of the executable does.
CUresult set_node(CUgraphExec exec_handle, CUgraphNode node_handle, CUgraphNodeType type,
                  const std::function<CUresult(const Node&, Ref<Operation>&)>& make_operation) {
    Executable* executable = executable::find(exec_handle);
    if (!executable) return CUDA_ERROR_INVALID_VALUE;
    Node* node = executable::node_of(*executable, node_handle);
    if (!node || node->operation->type != type) return CUDA_ERROR_INVALID_VALUE;
    Ref<Operation> operation;
    if (const CUresult error = make_operation(*node, operation)) return error;
    Node probe;
    probe.operation = operation;
    if (!compare_node(*node, probe, executable->flags).ok()) return CUDA_ERROR_INVALID_VALUE;
    node->operation = operation;
    executable->plan = {};
    return CUDA_SUCCESS;
}

CUresult set_kernel(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& p) {
    return set_node(exec, node, CU_GRAPH_NODE_TYPE_KERNEL, [&](const Node& old, Ref<Operation>& made) {
        return build::kernel(p, static_cast<const KernelOperation&>(*old.operation).attributes, made);
    });
}

CUresult set_child(CUgraphExec exec_handle, CUgraphNode node_handle, CUgraph child) {
    Executable* executable = executable::find(exec_handle);
    const Graph* graph = graph::find(child);
    if (!executable || !graph || graph::captured_into(*graph)) return CUDA_ERROR_INVALID_VALUE;
    Node* node = executable::node_of(*executable, node_handle);
    if (!node || node->operation->type != CU_GRAPH_NODE_TYPE_GRAPH) return CUDA_ERROR_INVALID_VALUE;
    Graph& body = *static_cast<ChildOperation&>(*node->operation).body;
    if (!compare(body, *graph, executable->flags, false, nullptr).ok()) return CUDA_ERROR_INVALID_VALUE;
    apply(body, *graph);
    executable->plan = {};
    return CUDA_SUCCESS;
}

bool can_be_disabled(const Node* node) {
    if (!node) return false;
    const auto type = node->operation->type;
    return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMSET || type == CU_GRAPH_NODE_TYPE_MEMCPY;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info)
CALL(cuGraphExecUpdate, context, nullptr) {
    if (!info) return CUDA_ERROR_INVALID_VALUE;
    Verdict verdict;
    const CUresult result = update(exec, graph, verdict);
    if (result == CUDA_ERROR_INVALID_VALUE) return result;
    info->result = verdict.result;
    info->errorNode = handle_of<CUgraphNode>(verdict.node);
    info->errorFromNode = handle_of<CUgraphNode>(verdict.from);
    return result;
} END_CALL

EXPORT CUresult CUDAAPI graphcap_cuGraphExecUpdate_v10020(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node,
                                                          CUgraphExecUpdateResult* out) CALL(cuGraphExecUpdate, context, nullptr) {
    if (!error_node || !out) return CUDA_ERROR_INVALID_VALUE;
    Verdict verdict;
    const CUresult result = update(exec, graph, verdict);
    if (result == CUDA_ERROR_INVALID_VALUE) return result;
    *out = verdict.result;
    *error_node = handle_of<CUgraphNode>(verdict.node);
    return result;
} END_CALL

CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* p)
CALL(cuGraphExecKernelNodeSetParams, context, nullptr) {
    return p ? set_kernel(exec, node, *p) : CUDA_ERROR_INVALID_VALUE;
} END_CALL

EXPORT CUresult CUDAAPI graphcap_cuGraphExecKernelNodeSetParams_v10010(CUgraphExec exec, CUgraphNode node,
                                                                       const CUDA_KERNEL_NODE_PARAMS_v1* p)
CALL(cuGraphExecKernelNodeSetParams, context, nullptr) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS wide{};
    std::memcpy(&wide, p, sizeof *p);
    return set_kernel(exec, node, wide);
} END_CALL

CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* p, CUcontext ctx)
CALL(cuGraphExecMemcpyNodeSetParams, context, nullptr) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    return set_node(exec, node, CU_GRAPH_NODE_TYPE_MEMCPY, [&](const Node&, Ref<Operation>& made) {
        return build::copy(*p, build::context_or_current(ctx), made, true);
    });
} END_CALL

CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p, CUcontext ctx)
CALL(cuGraphExecMemsetNodeSetParams, context, nullptr) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    return set_node(exec, node, CU_GRAPH_NODE_TYPE_MEMSET, [&](const Node&, Ref<Operation>& made) {
        return build::fill(*p, build::context_or_current(ctx), made, true);
    });
} END_CALL

CUresult CUDAAPI cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p)
CALL(cuGraphExecHostNodeSetParams, context, nullptr) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    return set_node(exec, node, CU_GRAPH_NODE_TYPE_HOST, [&](const Node&, Ref<Operation>& made) { return build::host(*p, made); });
} END_CALL

CUresult CUDAAPI cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
CALL(cuGraphExecChildGraphNodeSetParams, context, nullptr) {
    return set_child(exec, node, child);
} END_CALL

CUresult CUDAAPI cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
CALL(cuGraphExecEventRecordNodeSetEvent, context, nullptr) {
    return set_node(exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, [&](const Node&, Ref<Operation>& made) {
        return build::event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, made);
    });
} END_CALL

CUresult CUDAAPI cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
CALL(cuGraphExecEventWaitNodeSetEvent, context, nullptr) {
    return set_node(exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, [&](const Node&, Ref<Operation>& made) {
        return build::event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, made);
    });
} END_CALL

CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* p)
CALL(cuGraphExecNodeSetParams, context, nullptr) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    if (p->type == CU_GRAPH_NODE_TYPE_GRAPH) return set_child(exec, node, p->graph.graph);
    return set_node(exec, node, p->type, [&](const Node& old, Ref<Operation>& made) {
        if (p->type == CU_GRAPH_NODE_TYPE_KERNEL) {
            CUDA_KERNEL_NODE_PARAMS q;
            static_assert(sizeof q == sizeof p->kernel, "two versions of one layout");
            std::memcpy(&q, &p->kernel, sizeof q);
            return build::kernel(q, static_cast<const KernelOperation&>(*old.operation).attributes, made);
        }
        return build::from_node_parameters(*p, made);
    });
} END_CALL

CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec exec_handle, CUgraphNode node_handle, unsigned int enabled)
CALL(cuGraphNodeSetEnabled, initialised, nullptr) {
    Executable* executable = executable::find(exec_handle);
    if (!executable) return CUDA_ERROR_INVALID_VALUE;
    Node* node = executable::node_of(*executable, node_handle);
    if (!can_be_disabled(node)) return CUDA_ERROR_INVALID_VALUE;  // E-29
    node->enabled = enabled != 0;
    executable->plan = {};
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuGraphNodeGetEnabled(CUgraphExec exec_handle, CUgraphNode node_handle, unsigned int* out)
CALL(cuGraphNodeGetEnabled, initialised, nullptr) {
    Executable* executable = executable::find(exec_handle);
    if (!executable || !out) return CUDA_ERROR_INVALID_VALUE;
    const Node* node = executable::node_of(*executable, node_handle);
    if (!can_be_disabled(node)) return CUDA_ERROR_INVALID_VALUE;
    *out = node->enabled;
    return CUDA_SUCCESS;
} END_CALL

}  // extern "C"
}  // namespace emulator
