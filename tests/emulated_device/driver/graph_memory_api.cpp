// Allocation and free nodes, and the figures of graph-owned memory.
#include <cstring>

#include "conditional.h"
#include "memory.h"

namespace emulator {
namespace {

CUresult add(CUgraphNode* out, Graph& graph, const CUgraphNode* nodes, size_t count, const Ref<Operation>& operation) {
    std::vector<Dependency> dependencies;
    if (const CUresult error = graph::resolve_dependencies(graph, nodes, nullptr, count, dependencies)) return error;
    if (const CUresult error = graph::check_placement(graph, *operation)) return error;
    *out = handle_of<CUgraphNode>(graph::add_node(graph, operation, std::move(dependencies)));
    return CUDA_SUCCESS;
}

}  // namespace

CUresult graph::build_allocation(const CUDA_MEM_ALLOC_NODE_PARAMS_v2& p, Ref<Operation>& out) {
    if (p.poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED || p.poolProps.handleTypes) return CUDA_ERROR_INVALID_VALUE;
    if (p.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    Device* device = device_at(p.poolProps.location.id);
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (p.accessDescCount > state().devices.size() || (p.accessDescCount && !p.accessDescs)) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult error = make_allocation(*device, p.bytesize, p.poolProps, out)) return error;
    static_cast<AllocOperation&>(*out).access.assign(p.accessDescs, p.accessDescs + p.accessDescCount);
    return CUDA_SUCCESS;
}

extern "C" {

CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes, size_t count,
                                        CUDA_MEM_ALLOC_NODE_PARAMS* p) CALL(cuGraphAddMemAllocNode, initialised, nullptr) {
    Graph* graph = graph::find(handle);
    if (!out || !graph || !p) return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEM_ALLOC_NODE_PARAMS_v2 q{};
    q.poolProps = p->poolProps;
    q.accessDescs = p->accessDescs;
    q.accessDescCount = p->accessDescCount;
    q.bytesize = p->bytesize;
    Ref<Operation> operation;
    if (const CUresult error = graph::build_allocation(q, operation)) return error;
    if (const CUresult error = add(out, *graph, nodes, count, operation)) return error;
    p->dptr = static_cast<AllocOperation&>(*operation).allocation->address;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuGraphMemAllocNodeGetParams(CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS* p)
CALL(cuGraphMemAllocNodeGetParams, initialised, nullptr) {
    const Node* node = graph::find(handle);
    if (!node || !p || node->operation->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC) return CUDA_ERROR_INVALID_VALUE;
    const auto& operation = static_cast<const AllocOperation&>(*node->operation);
    *p = {};
    p->poolProps = operation.properties;
    p->accessDescs = operation.access.data();
    p->accessDescCount = operation.access.size();
    p->bytesize = operation.bytes;
    p->dptr = operation.allocation->address;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* nodes, size_t count, CUdeviceptr pointer)
CALL(cuGraphAddMemFreeNode, initialised, nullptr) {
    Graph* graph = graph::find(handle);
    if (!out || !graph) return CUDA_ERROR_INVALID_VALUE;
    Ref<Operation> operation;
    if (const CUresult error = graph::make_free(pointer, operation)) return error;
    return add(out, *graph, nodes, count, operation);
} END_CALL

CUresult CUDAAPI cuGraphMemFreeNodeGetParams(CUgraphNode handle, CUdeviceptr* out)
CALL(cuGraphMemFreeNodeGetParams, initialised, nullptr) {
    const Node* node = graph::find(handle);
    if (!node || !out || node->operation->type != CU_GRAPH_NODE_TYPE_MEM_FREE) return CUDA_ERROR_INVALID_VALUE;
    *out = static_cast<const FreeOperation&>(*node->operation).pointer;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice dev) CALL(cuDeviceGraphMemTrim, initialised, nullptr) {
    return device_at(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;  // idle memory is never kept
} END_CALL

CUresult CUDAAPI cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute name, void* value)
CALL(cuDeviceGetGraphMemAttribute, initialised, nullptr) {
    const Device* device = device_at(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    cuuint64_t out;
    switch (name) {
        case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
            out = device->graph_used;
            break;
        case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
            out = device->graph_used_high;
            break;
        case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
            out = device->graph_reserved;
            break;
        case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
            out = device->graph_reserved_high;
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
    std::memcpy(value, &out, sizeof out);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDeviceSetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute name, void* value)
CALL(cuDeviceSetGraphMemAttribute, initialised, nullptr) {
    Device* device = device_at(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    cuuint64_t wanted = 0;
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&wanted, value, sizeof wanted);
    if (wanted) return CUDA_ERROR_INVALID_VALUE;
    if (name == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
        device->graph_used_high = device->graph_used;
    else if (name == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        device->graph_reserved_high = device->graph_reserved;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
} END_CALL

}  // extern "C"
}  // namespace emulator
