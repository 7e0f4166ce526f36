#include "graph_build.h"

#include "kernel.h"
#include "memory.h"

namespace emulator::build {

Context* context_or_current(CUcontext handle) { return handle ? state().contexts.find(handle) : current_context(); }

CUresult kernel(const CUDA_KERNEL_NODE_PARAMS& p, const KernelAttributes& attributes, Ref<Operation>& out) {
    // A null function is error 98 of the runtime (E-28); the driver's list has no such number, and this is its own for it.
    const CUfunction handle = p.func ? p.func : reinterpret_cast<CUfunction>(p.kern);
    if (!handle) return CUDA_ERROR_INVALID_HANDLE;
    Context* context = nullptr;
    KernelCode* code = kernel::code_of(handle, context);
    if (!code) return CUDA_ERROR_INVALID_HANDLE;
    if (p.ctx && state().kernels.find(handle)) context = state().contexts.find(p.ctx);
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    auto operation = make<KernelOperation>();
    operation->code = Ref<KernelCode>(code);
    operation->context = context;
    operation->function = handle;
    const unsigned shape[6] = {p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ};
    for (int i = 0; i < 3; ++i) {
        operation->grid[i] = shape[i];
        operation->block[i] = shape[i + 3];
    }
    operation->shared = p.sharedMemBytes;
    operation->attributes = attributes;
    if (const CUresult error = kernel::check_shape(*operation)) return error;
    if (const CUresult error = kernel::take_parameters(*code, p.kernelParams, p.extra, *operation)) return error;
    out = operation;
    return CUDA_SUCCESS;
}

CUresult host(const CUDA_HOST_NODE_PARAMS& p, Ref<Operation>& out) {
    if (!p.fn) return CUDA_ERROR_INVALID_VALUE;
    out = make<HostOperation>(p.fn, p.userData);
    return CUDA_SUCCESS;
}

CUresult event(CUgraphNodeType type, CUevent handle, Ref<Operation>& out) {
    Event* event = state().events.find(handle);
    if (!event) return CUDA_ERROR_INVALID_VALUE;
    out = make<EventOperation>(type, Ref<Event>(event));
    return CUDA_SUCCESS;
}

CUresult child(Graph& graph, bool move, Ref<Operation>& out) {
    if (graph.owner || graph::captured_into(graph)) return CUDA_ERROR_INVALID_VALUE;
    if (graph::has_conditionals(graph)) return CUDA_ERROR_NOT_SUPPORTED;
    if (!move && graph::has_memory_nodes(graph)) return CUDA_ERROR_NOT_SUPPORTED;  // S-D32
    Ref<Graph> body = move ? Ref<Graph>(&graph) : graph::clone(graph, true);
    out = make<ChildOperation>(body);
    return CUDA_SUCCESS;
}

CUresult from_node_parameters(const CUgraphNodeParams& p, Ref<Operation>& out) {
    switch (p.type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: {
            CUDA_KERNEL_NODE_PARAMS q{p.kernel.func,      p.kernel.gridDimX, p.kernel.gridDimY,       p.kernel.gridDimZ,
                                      p.kernel.blockDimX, p.kernel.blockDimY, p.kernel.blockDimZ,     p.kernel.sharedMemBytes,
                                      p.kernel.kernelParams, p.kernel.extra,  p.kernel.kern,          p.kernel.ctx};
            return kernel(q, {}, out);
        }
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            return copy(p.memcpy.copyParams, context_or_current(p.memcpy.copyCtx), out, true);
        case CU_GRAPH_NODE_TYPE_MEMSET: {
            CUDA_MEMSET_NODE_PARAMS q{p.memset.dst, p.memset.pitch, p.memset.value, p.memset.elementSize, p.memset.width, p.memset.height};
            return fill(q, context_or_current(p.memset.ctx), out, true);
        }
        case CU_GRAPH_NODE_TYPE_HOST: {
            CUDA_HOST_NODE_PARAMS q{p.host.fn, p.host.userData};
            return host(q, out);
        }
        case CU_GRAPH_NODE_TYPE_GRAPH: {
            Graph* graph = graph::find(p.graph.graph);
            if (!graph) return CUDA_ERROR_INVALID_VALUE;
            if (p.graph.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE && p.graph.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
                return CUDA_ERROR_INVALID_VALUE;
            return child(*graph, p.graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE, out);
        }
        case CU_GRAPH_NODE_TYPE_EMPTY:
            out = make<EmptyOperation>();
            return CUDA_SUCCESS;
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
            return event(p.type, p.eventRecord.event, out);
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
            return event(p.type, p.eventWait.event, out);
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
    }
}

}  // namespace emulator::build

namespace emulator::graph {

CUresult make_allocation(Device& device, size_t bytes, const CUmemPoolProps& properties, Ref<Operation>& out) {
    if (bytes > device.total) return CUDA_ERROR_OUT_OF_MEMORY;  // E-32
    const size_t size = bytes ? bytes : 1;                      // size 0 is accepted (evidence D30)
    const uintptr_t address = memory::reserve_address(device, size);
    if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
    auto allocation = make<GraphAllocation>();
    allocation->address = address;
    allocation->bytes = size;
    allocation->device = &device;
    memory::remember_graph_allocation(*allocation);
    auto operation = make<AllocOperation>(allocation);
    operation->properties = properties;
    operation->bytes = bytes;
    out = operation;
    return CUDA_SUCCESS;
}

CUresult make_free(CUdeviceptr pointer, Ref<Operation>& out) {
    GraphAllocation* allocation = pointer ? memory::graph_allocation(pointer) : nullptr;
    if (!allocation || allocation->freed_by_node) return CUDA_ERROR_INVALID_VALUE;  // S-D30, D31: once only
    out = make<FreeOperation>(Ref<GraphAllocation>(allocation));
    return CUDA_SUCCESS;
}

}  // namespace emulator::graph
