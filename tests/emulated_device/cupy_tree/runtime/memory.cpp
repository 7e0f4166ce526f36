// Memory: allocation, pools, attributes, sets.
#include <cstring>

#include "driver.h"

using namespace runtime;

namespace {

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

// An allocation of nothing is a null pointer and a success in the runtime, and an error in the driver.
template <class Allocate>
cudaError_t allocate(void** pointer, size_t bytes, Allocate&& call) {
    if (!pointer) return remember(cudaErrorInvalidValue);
    TRY(need_context());
    CUdeviceptr made = 0;
    if (bytes) TRY(call(&made));
    *pointer = reinterpret_cast<void*>(made);
    return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
    return allocate(pointer, bytes, [=](CUdeviceptr* made) { return driver::cuMemAlloc(made, bytes); });
}

cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned int flags) {
    if (!bytes) return remember(cudaErrorInvalidValue);
    return allocate(pointer, bytes, [=](CUdeviceptr* made) { return driver::cuMemAllocManaged(made, bytes, flags); });
}

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
    return allocate(pointer, bytes, [=](CUdeviceptr* made) { return driver::cuMemAllocAsync(made, bytes, stream); });
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
    return allocate(pointer, bytes, [=](CUdeviceptr* made) { return driver::cuMemAllocFromPoolAsync(made, bytes, pool, stream); });
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
    if (!pointer) return remember(cudaErrorInvalidValue);
    TRY(need_context());
    *pointer = nullptr;
    if (bytes) TRY(driver::cuMemHostAlloc(pointer, bytes, flags));
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned int flags) FORWARD(cuMemHostRegister(pointer, bytes, flags))
cudaError_t cudaHostUnregister(void* pointer) FORWARD(cuMemHostUnregister(pointer))

cudaError_t cudaFree(void* pointer) {
    TRY(need_context());
    if (pointer) TRY(driver::cuMemFree(address(pointer)));
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void* pointer) {
    TRY(need_context());
    if (pointer) TRY(driver::cuMemFreeHost(pointer));
    return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) FORWARD(cuMemFreeAsync(address(pointer), stream))
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) FORWARD(cuMemGetInfo(free, total))

// Memory that CUDA does not know is no error: it is "unregistered", with the host's address and no device.
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* pointer) {
    if (!out || !pointer) return remember(cudaErrorInvalidValue);
    TRY(need_context());
    int type = 0, managed = 0, ordinal = -2;
    CUdeviceptr on_device = 0;
    void* on_host = nullptr;
    int wanted[] = {2, 3, 4, 8, 9};  // memory type, device pointer, host pointer, is managed, device ordinal
    void* values[] = {&type, &on_device, &on_host, &managed, &ordinal};
    TRY(driver::cuPointerGetAttributes(5, wanted, values, address(pointer)));
    std::memset(out->reserved, 0, sizeof out->reserved);
    out->type = managed                         ? cudaMemoryTypeManaged
                : type == CU_MEMORYTYPE_DEVICE  ? cudaMemoryTypeDevice
                : type == CU_MEMORYTYPE_HOST    ? cudaMemoryTypeHost
                                                : cudaMemoryTypeUnregistered;
    const bool known = out->type != cudaMemoryTypeUnregistered;
    out->device = known ? ordinal : -2;
    out->devicePointer = known ? reinterpret_cast<void*>(on_device) : nullptr;
    out->hostPointer = known ? on_host : const_cast<void*>(pointer);
    return cudaSuccess;
}

cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, cudaMemLocation location, unsigned int, cudaStream_t stream)
    FORWARD(cuMemPrefetchAsync(address(pointer), bytes, location.id, stream))
cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location)
    FORWARD(cuMemAdvise(address(pointer), bytes, advice, location.id))

cudaError_t cudaMemset(void* pointer, int value, size_t bytes) {
    TRY(need_context());
    if (bytes) TRY(driver::cuMemsetD8(address(pointer), static_cast<unsigned char>(value), bytes));
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream) {
    TRY(need_context());
    if (bytes) TRY(driver::cuMemsetD8Async(address(pointer), static_cast<unsigned char>(value), bytes, stream));
    return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) FORWARD(cuDeviceGetDefaultMemPool(pool, device))
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) FORWARD(cuDeviceGetMemPool(pool, device))
cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) FORWARD(cuDeviceSetMemPool(device, pool))
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) FORWARD(cuMemPoolCreate(pool, properties))
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) FORWARD(cuMemPoolDestroy(pool))
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes) FORWARD(cuMemPoolTrimTo(pool, bytes))
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value)
    FORWARD(cuMemPoolGetAttribute(pool, attribute, value))
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value)
    FORWARD(cuMemPoolSetAttribute(pool, attribute, value))

}  // extern "C"
