// Allocation, pinned and managed memory, pointer attributes.
#include <cstring>

#include "capture.h"
#include "memory.h"
#include "pool.h"
#include "scheduler.h"

namespace emulator {
namespace {

using memory::Space;

CUresult allocate(CUdeviceptr* out, size_t bytes, Space space) {
    if (const CUresult refused = capture::unsafe_call()) return refused;
    if (!out || !bytes) return CUDA_ERROR_INVALID_VALUE;
    memory::Allocation* allocation;
    if (const CUresult error = memory::allocate(*current_context()->device, bytes, space, allocation)) return error;
    *out = allocation->start;
    return CUDA_SUCCESS;
}

CUresult allocate_host(void** out, size_t bytes, unsigned flags) {
    if (const CUresult refused = capture::unsafe_call()) return refused;
    if (!out || (flags & ~7u)) return CUDA_ERROR_INVALID_VALUE;
    if (!bytes) {
        *out = nullptr;
        return CUDA_SUCCESS;
    }
    memory::Allocation* allocation;
    if (const CUresult error = memory::allocate(*current_context()->device, bytes, Space::host, allocation)) return error;
    allocation->host_flags = flags;
    *out = reinterpret_cast<void*>(allocation->start);
    return CUDA_SUCCESS;
}

CUresult attribute(void* data, CUpointer_attribute name, CUdeviceptr pointer) {
    const memory::Allocation* allocation = memory::containing(pointer);
    auto put = [&](auto value) {
        std::memcpy(data, &value, sizeof value);
        return CUDA_SUCCESS;
    };
    if (!data) return CUDA_ERROR_INVALID_VALUE;
    if (!allocation) return CUDA_ERROR_INVALID_VALUE;
    switch (name) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            return put(allocation->pool ? CUcontext{} : handle_of<CUcontext>(allocation->context));
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            return put(static_cast<unsigned>(allocation->space == Space::host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            return put(pointer);
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            if (allocation->space == Space::device) return CUDA_ERROR_INVALID_VALUE;
            return put(reinterpret_cast<void*>(pointer));
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
            return put(0u);
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            return put(static_cast<unsigned long long>(allocation->id));
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            return put(static_cast<unsigned>(allocation->space == Space::managed));
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            return put(allocation->device->ordinal);
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            return put(static_cast<CUdeviceptr>(allocation->start));
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            return put(allocation->bytes);
        case CU_POINTER_ATTRIBUTE_MAPPED:
            return put(1u);
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
            return put(handle_of<CUmemoryPool>(allocation->pool.get()));
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
    }
}

// cuPointerGetAttributes answers zero where the single query is an error.
void attribute_or_zero(void* data, CUpointer_attribute name, CUdeviceptr pointer) {
    if (attribute(data, name, pointer) == CUDA_SUCCESS) return;
    switch (name) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_MAPPED:
            std::memset(data, 0, sizeof(unsigned));
            return;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: {
            const int none = -2;
            std::memcpy(data, &none, sizeof none);
            return;
        }
        default:
            std::memset(data, 0, sizeof(void*));
    }
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemGetInfo(size_t* available, size_t* total) CALL(cuMemGetInfo, context, nullptr) {
    if (!available || !total) return CUDA_ERROR_INVALID_VALUE;
    const Device& device = *current_context()->device;
    *total = device.limit;
    *available = device.limit > device.used ? device.limit - device.used : 0;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuMemAlloc(CUdeviceptr* out, size_t bytes) CALL(cuMemAlloc, context, nullptr) {
    return allocate(out, bytes, Space::device);
} END_CALL

CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned int element)
CALL(cuMemAllocPitch, context, nullptr) {
    if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16)) return CUDA_ERROR_INVALID_VALUE;
    if (width > (size_t{1} << 40) || height > (size_t{1} << 20)) return CUDA_ERROR_OUT_OF_MEMORY;
    const size_t row = (width + 511) / 512 * 512;
    const CUresult result = allocate(out, row * height, Space::device);
    if (result == CUDA_SUCCESS) *pitch = row;
    return result;
} END_CALL

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int flags) CALL(cuMemAllocManaged, context, nullptr) {
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
    return allocate(out, bytes, Space::managed);
} END_CALL

CUresult CUDAAPI cuMemFree(CUdeviceptr pointer) CALL(cuMemFree, release, nullptr) {
    if (const CUresult refused = capture::unsafe_call()) return refused;
    if (!pointer) return CUDA_SUCCESS;
    memory::Allocation* allocation = memory::at(pointer);
    const GraphAllocation* graph = memory::graph_allocation(pointer);
    if (!allocation && !(graph && graph->promised)) return CUDA_ERROR_INVALID_VALUE;
    if (allocation && (allocation->global || (allocation->space == Space::host && !allocation->pool))) return CUDA_ERROR_INVALID_VALUE;
    if (inside_callback()) return CUDA_ERROR_NOT_PERMITTED;
    // Waits for everything that may still use the memory, as the driver does.
    scheduler::wait_all_idle(lock);
    allocation = memory::at(pointer);
    if (!allocation) return CUDA_ERROR_INVALID_VALUE;  // what was submitted before has freed it
    if (allocation->graph) allocation->graph->promised = false;
    memory::release(pointer);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer)
CALL(cuMemGetAddressRange, context, nullptr) {
    const memory::Allocation* allocation = memory::containing(pointer);
    if (!allocation) return CUDA_ERROR_NOT_FOUND;
    if (base) *base = allocation->start;
    if (bytes) *bytes = allocation->bytes;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuMemAllocHost(void** out, size_t bytes) CALL(cuMemAllocHost, context, nullptr) {
    return allocate_host(out, bytes, 0);
} END_CALL

CUresult CUDAAPI cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) CALL(cuMemHostAlloc, context, nullptr) {
    return allocate_host(out, bytes, flags);
} END_CALL

CUresult CUDAAPI cuMemFreeHost(void* pointer) CALL(cuMemFreeHost, release, nullptr) {
    if (const CUresult refused = capture::unsafe_call()) return refused;
    if (!pointer) return CUDA_SUCCESS;
    const auto start = reinterpret_cast<uintptr_t>(pointer);
    const memory::Allocation* allocation = memory::at(start);
    if (!allocation || allocation->space != Space::host || allocation->registered || allocation->pool) return CUDA_ERROR_INVALID_VALUE;
    if (inside_callback()) return CUDA_ERROR_NOT_PERMITTED;
    scheduler::wait_all_idle(lock);
    memory::release(start);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr* out, void* pointer, unsigned int flags)
CALL(cuMemHostGetDevicePointer, context, nullptr) {
    const memory::Allocation* allocation = memory::containing(reinterpret_cast<uintptr_t>(pointer));
    if (!out || flags || !allocation || allocation->space != Space::host) return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<CUdeviceptr>(pointer);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuMemHostGetFlags(unsigned int* flags, void* pointer) CALL(cuMemHostGetFlags, context, nullptr) {
    const memory::Allocation* allocation = memory::containing(reinterpret_cast<uintptr_t>(pointer));
    if (!flags || !allocation || allocation->space != Space::host) return CUDA_ERROR_INVALID_VALUE;
    *flags = allocation->host_flags;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuMemHostRegister(void* pointer, size_t bytes, unsigned int flags) CALL(cuMemHostRegister, context, nullptr) {
    if (const CUresult refused = capture::unsafe_call()) return refused;
    const auto start = reinterpret_cast<uintptr_t>(pointer);
    if (!pointer || !bytes || (flags & ~15u) || start + bytes < start) return CUDA_ERROR_INVALID_VALUE;
    if (memory::in_arena(start)) return CUDA_ERROR_INVALID_VALUE;
    if (memory::overlaps(start, bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    memory::register_range(start, bytes, current_context());
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuMemHostUnregister(void* pointer) CALL(cuMemHostUnregister, release, nullptr) {
    if (const CUresult refused = capture::unsafe_call()) return refused;
    const auto start = reinterpret_cast<uintptr_t>(pointer);
    const memory::Allocation* allocation = memory::at(start);
    if (!allocation || !allocation->registered) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    if (inside_callback()) return CUDA_ERROR_NOT_PERMITTED;
    scheduler::wait_all_idle(lock);
    memory::release(start);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuPointerGetAttribute(void* data, CUpointer_attribute name, CUdeviceptr pointer)
CALL(cuPointerGetAttribute, context, nullptr) {
    return attribute(data, name, pointer);
} END_CALL

CUresult CUDAAPI cuPointerGetAttributes(unsigned int count, CUpointer_attribute* names, void** data, CUdeviceptr pointer)
CALL(cuPointerGetAttributes, context, nullptr) {
    if (count && (!names || !data)) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i)
        if (!data[i]) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i) attribute_or_zero(data[i], names[i], pointer);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuPointerSetAttribute(const void* value, CUpointer_attribute name, CUdeviceptr pointer)
CALL(cuPointerSetAttribute, context, nullptr) {
    if (!value || name != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !memory::containing(pointer)) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;  // copies of the emulated device are synchronous or not by their kind alone
} END_CALL

}  // extern "C"
}  // namespace emulator
