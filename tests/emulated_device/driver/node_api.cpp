// The driver's functions on single nodes: adding them, reading and setting what they do.
#include <cstring>

#include "conditional.h"
#include "graph_build.h"
#include "kernel.h"
#include "memory.h"

namespace emulator {
namespace {

CUresult add(CUgraphNode* out, CUgraph graph_handle, const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count,
             const Ref<Operation>& operation) {
    Graph* graph = graph::find(graph_handle);
    if (!graph || !out) return CUDA_ERROR_INVALID_VALUE;
    std::vector<Dependency> dependencies;
    if (const CUresult error = graph::resolve_dependencies(*graph, nodes, data, count, dependencies)) return error;
    if (const CUresult error = graph::check_placement(*graph, *operation)) return error;
    *out = handle_of<CUgraphNode>(graph::add_node(*graph, operation, std::move(dependencies)));
    return CUDA_SUCCESS;
}

bool inside(const Graph& graph, const Graph& candidate) {
    for (const Graph* at = &graph; at; at = at->owner ? at->owner->graph : nullptr)
        if (at == &candidate) return true;
    return false;
}

// What was made for a node that could not be added.
void discard(Operation& operation, bool moved) {
    if (operation.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) conditional::discard(static_cast<ConditionalOperation&>(operation));
    if (operation.type == CU_GRAPH_NODE_TYPE_GRAPH && !moved) graph::destroy(*static_cast<ChildOperation&>(operation).body);
}

// The node, if it is of this kind.
template <class T>
const T* operation_of(CUgraphNode handle, CUgraphNodeType type) {
    const Node* node = graph::find(handle);
    return node && node->operation->type == type ? static_cast<const T*>(node->operation.get()) : nullptr;
}

CUresult set(CUgraphNode handle, CUgraphNodeType type, const Ref<Operation>& operation) {
    Node* node = graph::find(handle);
    if (!node || node->operation->type != type) return CUDA_ERROR_INVALID_VALUE;
    node->operation = operation;
    return CUDA_SUCCESS;
}

// Builds with `make`, then adds. Refusals of the graph come first, so that nothing is built for a dead one.
template <class F>
CUresult build_and_add(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, size_t count, F&& make_operation) {
    if (!out || !graph::find(graph)) return CUDA_ERROR_INVALID_VALUE;
    Ref<Operation> operation;
    if (const CUresult error = make_operation(operation)) return error;
    return add(out, graph, nodes, nullptr, count, operation);
}

template <class F>
CUresult build_and_set(CUgraphNode node, CUgraphNodeType type, F&& make_operation) {
    const Node* found = graph::find(node);
    if (!found || found->operation->type != type) return CUDA_ERROR_INVALID_VALUE;
    Ref<Operation> operation;
    if (const CUresult error = make_operation(operation)) return error;
    return set(node, type, operation);
}

void write_kernel(const KernelOperation& operation, CUDA_KERNEL_NODE_PARAMS& out) {
    out = {};
    out.func = operation.function;
    if (state().kernels.find(operation.function)) {
        out.func = nullptr;
        out.kern = reinterpret_cast<CUkernel>(operation.function);
    }
    out.gridDimX = operation.grid[0];
    out.gridDimY = operation.grid[1];
    out.gridDimZ = operation.grid[2];
    out.blockDimX = operation.block[0];
    out.blockDimY = operation.block[1];
    out.blockDimZ = operation.block[2];
    out.sharedMemBytes = operation.shared;
    out.kernelParams = const_cast<void**>(operation.parameters.data());
    out.ctx = handle_of<CUcontext>(operation.context);
}

const KernelAttributes& attributes_of(CUgraphNode handle) {
    static const KernelAttributes none;
    const auto* operation = operation_of<KernelOperation>(handle, CU_GRAPH_NODE_TYPE_KERNEL);
    return operation ? operation->attributes : none;
}

Ref<KernelOperation> with_attributes(const KernelOperation& from, const KernelAttributes& attributes) {
    auto copy = make<KernelOperation>();
    copy->code = from.code;
    copy->context = from.context;
    copy->function = from.function;
    std::memcpy(copy->grid, from.grid, sizeof copy->grid);
    std::memcpy(copy->block, from.block, sizeof copy->block);
    copy->shared = from.shared;
    copy->storage = from.storage;
    for (size_t i = 0; i < from.parameters.size(); ++i) copy->parameters.push_back(copy->storage.data() + from.code->offsets[i]);
    copy->attributes = attributes;
    return copy;
}

CUresult read_parameters(CUgraphNode handle, CUgraphNodeParams& out) {
    const Node* node = graph::find(handle);
    if (!node) return CUDA_ERROR_INVALID_VALUE;
    std::memset(&out, 0, sizeof out);
    out.type = node->operation->type;
    switch (out.type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: {
            CUDA_KERNEL_NODE_PARAMS p;
            write_kernel(static_cast<const KernelOperation&>(*node->operation), p);
            std::memcpy(&out.kernel, &p, sizeof p);
            return CUDA_SUCCESS;
        }
        case CU_GRAPH_NODE_TYPE_MEMCPY: {
            const auto& operation = static_cast<const CopyOperation&>(*node->operation);
            out.memcpy.copyParams = operation.parameters;
            out.memcpy.copyCtx = handle_of<CUcontext>(operation.context);
            return CUDA_SUCCESS;
        }
        case CU_GRAPH_NODE_TYPE_MEMSET: {
            const auto& operation = static_cast<const FillOperation&>(*node->operation);
            const auto& p = operation.parameters;
            out.memset = {p.dst, p.pitch, p.value, p.elementSize, p.width, p.height, handle_of<CUcontext>(operation.context)};
            return CUDA_SUCCESS;
        }
        case CU_GRAPH_NODE_TYPE_HOST: {
            const auto& operation = static_cast<const HostOperation&>(*node->operation);
            out.host.fn = operation.fn;
            out.host.userData = operation.user_data;
            return CUDA_SUCCESS;
        }
        case CU_GRAPH_NODE_TYPE_GRAPH:
            out.graph.graph = handle_of<CUgraph>(static_cast<const ChildOperation&>(*node->operation).body.get());
            return CUDA_SUCCESS;
        case CU_GRAPH_NODE_TYPE_EMPTY:
            return CUDA_SUCCESS;
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
            out.eventRecord.event = handle_of<CUevent>(static_cast<const EventOperation&>(*node->operation).event.get());
            return CUDA_SUCCESS;
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
            out.eventWait.event = handle_of<CUevent>(static_cast<const EventOperation&>(*node->operation).event.get());
            return CUDA_SUCCESS;
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
            const auto& operation = static_cast<const AllocOperation&>(*node->operation);
            out.alloc.poolProps = operation.properties;
            out.alloc.accessDescs = operation.access.data();
            out.alloc.accessDescCount = operation.access.size();
            out.alloc.bytesize = operation.bytes;
            out.alloc.dptr = operation.allocation->address;
            return CUDA_SUCCESS;
        }
        case CU_GRAPH_NODE_TYPE_MEM_FREE:
            out.free.dptr = static_cast<const FreeOperation&>(*node->operation).pointer;
            return CUDA_SUCCESS;
        case CU_GRAPH_NODE_TYPE_CONDITIONAL: {
            const auto& operation = static_cast<const ConditionalOperation&>(*node->operation);
            out.conditional.handle = operation.condition;
            out.conditional.type = operation.kind;
            out.conditional.size = static_cast<unsigned>(operation.bodies.size());
            out.conditional.phGraph_out = const_cast<CUgraph*>(operation.body_handles.data());
            out.conditional.ctx = handle_of<CUcontext>(operation.context);
            return CUDA_SUCCESS;
        }
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult add_generic(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count,
                     CUgraphNodeParams* p) {
    Graph* graph = graph::find(handle);
    if (!out || !graph || !p) return CUDA_ERROR_INVALID_VALUE;
    std::vector<Dependency> dependencies;
    if (const CUresult error = graph::resolve_dependencies(*graph, nodes, data, count, dependencies)) return error;
    Ref<Operation> operation;
    if (p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
        if (const CUresult error = conditional::build(*graph, p->conditional, operation)) return error;
    } else if (p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        if (const CUresult error = graph::build_allocation(p->alloc, operation)) return error;
    } else if (p->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
        if (const CUresult error = graph::make_free(p->free.dptr, operation)) return error;
    } else if (p->type == CU_GRAPH_NODE_TYPE_GRAPH && graph::find(p->graph.graph) && inside(*graph, *graph::find(p->graph.graph))) {
        return CUDA_ERROR_INVALID_VALUE;  // a graph in itself: refused, code not confirmed (E-39)
    } else if (const CUresult error = build::from_node_parameters(*p, operation)) {
        return error;
    }
    const CUresult result = add(out, handle, nodes, data, count, operation);
    const bool move = p->type == CU_GRAPH_NODE_TYPE_GRAPH && p->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    if (result != CUDA_SUCCESS) {
        discard(*operation, move);
        return result;
    }
    if (move) static_cast<ChildOperation&>(*operation).body->moved = true;
    if (p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) p->alloc.dptr = static_cast<AllocOperation&>(*operation).allocation->address;
    if (p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        p->conditional.phGraph_out = static_cast<ConditionalOperation&>(*operation).body_handles.data();
    return CUDA_SUCCESS;
}

CUresult set_generic(CUgraphNode handle, CUgraphNodeParams* p) {
    const Node* node = graph::find(handle);
    if (!node || !p || node->operation->type != p->type) return CUDA_ERROR_INVALID_VALUE;
    if (p->type == CU_GRAPH_NODE_TYPE_GRAPH) return CUDA_ERROR_NOT_SUPPORTED;
    Ref<Operation> operation;
    if (const CUresult error = build::from_node_parameters(*p, operation)) return error;
    if (p->type == CU_GRAPH_NODE_TYPE_KERNEL)
        operation = with_attributes(static_cast<KernelOperation&>(*operation), attributes_of(handle));
    return set(handle, p->type, operation);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                                   size_t count, CUgraphNodeParams* p) CALL(cuGraphAddNode, initialised, nullptr) {
    return add_generic(out, graph, nodes, data, count, p);
} END_CALL

EXPORT CUresult CUDAAPI graphcap_cuGraphAddNode_v12020(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, size_t count,
                                                       CUgraphNodeParams* p) CALL(cuGraphAddNode, initialised, nullptr) {
    return add_generic(out, graph, nodes, nullptr, count, p);
} END_CALL

#if CUDA_VERSION >= 13040
CUresult CUDAAPI cuGraphAddNode_v3(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                                   size_t count, CUgraphNodeParams* p) CALL(cuGraphAddNode, initialised, nullptr) {
    return add_generic(out, graph, nodes, data, count, p);
} END_CALL

CUresult CUDAAPI cuGraphNodeSetParams_v2(CUgraphNode node, CUgraphNodeParams* p) CALL(cuGraphNodeSetParams, initialised, nullptr) {
    return set_generic(node, p);
} END_CALL
#endif

CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* p) CALL(cuGraphNodeSetParams, initialised, nullptr) {
    return set_generic(node, p);
} END_CALL

#if CUDA_VERSION >= 13020
CUresult CUDAAPI cuGraphNodeGetParams(CUgraphNode node, CUgraphNodeParams* p) CALL(cuGraphNodeGetParams, initialised, nullptr) {
    return p ? read_parameters(node, *p) : CUDA_ERROR_INVALID_VALUE;
} END_CALL
#endif

CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, size_t count)
CALL(cuGraphAddEmptyNode, initialised, nullptr) {
    return add(out, graph, nodes, nullptr, count, make<EmptyOperation>());
} END_CALL

CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, size_t count,
                                      const CUDA_KERNEL_NODE_PARAMS* p) CALL(cuGraphAddKernelNode, context, nullptr) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    return build_and_add(out, graph, nodes, count, [&](Ref<Operation>& made) { return build::kernel(*p, {}, made); });
} END_CALL

EXPORT CUresult CUDAAPI graphcap_cuGraphAddKernelNode_v10000(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, size_t count,
                                                             const CUDA_KERNEL_NODE_PARAMS_v1* p)
CALL(cuGraphAddKernelNode, context, nullptr) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS wide{};
    std::memcpy(&wide, p, sizeof *p);
    return build_and_add(out, graph, nodes, count, [&](Ref<Operation>& made) { return build::kernel(wide, {}, made); });
} END_CALL

CUresult CUDAAPI cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* p)
CALL(cuGraphKernelNodeGetParams, initialised, nullptr) {
    const auto* operation = operation_of<KernelOperation>(node, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!operation || !p) return CUDA_ERROR_INVALID_VALUE;
    write_kernel(*operation, *p);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* p)
CALL(cuGraphKernelNodeSetParams, context, nullptr) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    return build_and_set(node, CU_GRAPH_NODE_TYPE_KERNEL,
                         [&](Ref<Operation>& made) { return build::kernel(*p, attributes_of(node), made); });
} END_CALL

CUresult CUDAAPI cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID name, CUkernelNodeAttrValue* value)
CALL(cuGraphKernelNodeGetAttribute, initialised, nullptr) {
    const auto* operation = operation_of<KernelOperation>(node, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!operation || !value) return CUDA_ERROR_INVALID_VALUE;
    return kernel::read_attribute(operation->attributes, name, *value);
} END_CALL

CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID name, const CUkernelNodeAttrValue* value)
CALL(cuGraphKernelNodeSetAttribute, initialised, nullptr) {
    const auto* operation = operation_of<KernelOperation>(node, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!operation || !value) return CUDA_ERROR_INVALID_VALUE;
    KernelAttributes attributes = operation->attributes;
    if (const CUresult error = kernel::apply_attribute(attributes, name, *value)) return error;
    return set(node, CU_GRAPH_NODE_TYPE_KERNEL, with_attributes(*operation, attributes));
} END_CALL

CUresult CUDAAPI cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from)
CALL(cuGraphKernelNodeCopyAttributes, initialised, nullptr) {
    const auto* target = operation_of<KernelOperation>(to, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!target || !operation_of<KernelOperation>(from, CU_GRAPH_NODE_TYPE_KERNEL)) return CUDA_ERROR_INVALID_VALUE;
    return set(to, CU_GRAPH_NODE_TYPE_KERNEL, with_attributes(*target, attributes_of(from)));
} END_CALL

CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, size_t count, const CUDA_MEMCPY3D* p,
                                      CUcontext ctx) CALL(cuGraphAddMemcpyNode, context, nullptr) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    return build_and_add(out, graph, nodes, count,
                         [&](Ref<Operation>& made) { return build::copy(*p, build::context_or_current(ctx), made, true); });
} END_CALL

CUresult CUDAAPI cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* p) CALL(cuGraphMemcpyNodeGetParams, initialised, nullptr) {
    const auto* operation = operation_of<CopyOperation>(node, CU_GRAPH_NODE_TYPE_MEMCPY);
    if (!operation || !p) return CUDA_ERROR_INVALID_VALUE;
    *p = operation->parameters;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* p)
CALL(cuGraphMemcpyNodeSetParams, context, nullptr) {
    const auto* before = operation_of<CopyOperation>(node, CU_GRAPH_NODE_TYPE_MEMCPY);
    if (!before || !p) return CUDA_ERROR_INVALID_VALUE;
    return build_and_set(node, CU_GRAPH_NODE_TYPE_MEMCPY,
                         [&](Ref<Operation>& made) { return build::copy(*p, before->context, made, true); });
} END_CALL

CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, size_t count,
                                      const CUDA_MEMSET_NODE_PARAMS* p, CUcontext ctx)
CALL(cuGraphAddMemsetNode, context, nullptr) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    return build_and_add(out, graph, nodes, count,
                         [&](Ref<Operation>& made) { return build::fill(*p, build::context_or_current(ctx), made, true); });
} END_CALL

CUresult CUDAAPI cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* p)
CALL(cuGraphMemsetNodeGetParams, initialised, nullptr) {
    const auto* operation = operation_of<FillOperation>(node, CU_GRAPH_NODE_TYPE_MEMSET);
    if (!operation || !p) return CUDA_ERROR_INVALID_VALUE;
    *p = operation->parameters;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p)
CALL(cuGraphMemsetNodeSetParams, context, nullptr) {
    const auto* before = operation_of<FillOperation>(node, CU_GRAPH_NODE_TYPE_MEMSET);
    if (!before || !p) return CUDA_ERROR_INVALID_VALUE;
    return build_and_set(node, CU_GRAPH_NODE_TYPE_MEMSET,
                         [&](Ref<Operation>& made) { return build::fill(*p, before->context, made, true); });
} END_CALL

CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, size_t count,
                                    const CUDA_HOST_NODE_PARAMS* p) CALL(cuGraphAddHostNode, initialised, nullptr) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    return build_and_add(out, graph, nodes, count, [&](Ref<Operation>& made) { return build::host(*p, made); });
} END_CALL

CUresult CUDAAPI cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* p)
CALL(cuGraphHostNodeGetParams, initialised, nullptr) {
    const auto* operation = operation_of<HostOperation>(node, CU_GRAPH_NODE_TYPE_HOST);
    if (!operation || !p) return CUDA_ERROR_INVALID_VALUE;
    p->fn = operation->fn;
    p->userData = operation->user_data;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p)
CALL(cuGraphHostNodeSetParams, initialised, nullptr) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    return build_and_set(node, CU_GRAPH_NODE_TYPE_HOST, [&](Ref<Operation>& made) { return build::host(*p, made); });
} END_CALL

CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, size_t count, CUgraph child_handle)
CALL(cuGraphAddChildGraphNode, initialised, nullptr) {
    Graph* child = graph::find(child_handle);
    if (!child || child_handle == graph) return CUDA_ERROR_INVALID_VALUE;  // itself: E-39
    Ref<Operation> operation;
    if (!out || !graph::find(graph)) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult error = build::child(*child, false, operation)) return error;
    const CUresult result = add(out, graph, nodes, nullptr, count, operation);
    if (result != CUDA_SUCCESS) discard(*operation, false);
    return result;
} END_CALL

CUresult CUDAAPI cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* out)
CALL(cuGraphChildGraphNodeGetGraph, initialised, nullptr) {
    const auto* operation = operation_of<ChildOperation>(node, CU_GRAPH_NODE_TYPE_GRAPH);
    if (!operation || !out) return CUDA_ERROR_INVALID_VALUE;
    *out = handle_of<CUgraph>(operation->body.get());
    return CUDA_SUCCESS;
} END_CALL

#define EVENT_NODE_FUNCTIONS(Word, word, TYPE)                                                                                  \
    CUresult CUDAAPI cuGraphAddEvent##Word##Node(CUgraphNode* out, CUgraph graph, const CUgraphNode* nodes, size_t count,       \
                                                 CUevent event) CALL(cuGraphAddEvent##Word##Node, initialised, nullptr) {       \
        return build_and_add(out, graph, nodes, count, [&](Ref<Operation>& made) { return build::event(TYPE, event, made); });  \
    } END_CALL                                                                                                                  \
    CUresult CUDAAPI cuGraphEvent##Word##NodeGetEvent(CUgraphNode node, CUevent* out)                                           \
    CALL(cuGraphEvent##Word##NodeGetEvent, initialised, nullptr) {                                                              \
        const auto* operation = operation_of<EventOperation>(node, TYPE);                                                       \
        if (!operation || !out) return CUDA_ERROR_INVALID_VALUE;                                                                \
        *out = handle_of<CUevent>(operation->event.get());                                                                      \
        return CUDA_SUCCESS;                                                                                                    \
    } END_CALL                                                                                                                  \
    CUresult CUDAAPI cuGraphEvent##Word##NodeSetEvent(CUgraphNode node, CUevent event)                                          \
    CALL(cuGraphEvent##Word##NodeSetEvent, initialised, nullptr) {                                                              \
        return build_and_set(node, TYPE, [&](Ref<Operation>& made) { return build::event(TYPE, event, made); });                \
    } END_CALL

EVENT_NODE_FUNCTIONS(Record, record, CU_GRAPH_NODE_TYPE_EVENT_RECORD)
EVENT_NODE_FUNCTIONS(Wait, wait, CU_GRAPH_NODE_TYPE_WAIT_EVENT)

}  // extern "C"
}  // namespace emulator
