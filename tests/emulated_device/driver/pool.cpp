#include "pool.h"

#include <cstring>

#include "capture.h"
#include "graph.h"
#include "scheduler.h"

namespace emulator {

CUresult FreeOperation::run(Work&) const {
    Lock lock(driver_mutex());
    memory::release(pointer);
    return CUDA_SUCCESS;
}

CUresult AllocOperation::run(Work&) const {
    Lock lock(driver_mutex());
    return memory::graph_commit(*allocation);
}

namespace pool {

size_t accounted(size_t bytes) { return (bytes + memory::alignment - 1) / memory::alignment * memory::alignment; }

Ref<Pool> create_default(Device& device) {
    auto pool = make<Pool>();
    pool->device = device.ordinal;
    pool->is_default = true;
    pool->properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    pool->properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device.ordinal}};
    state().pools.add(pool);
    return pool;
}

namespace {
Ref<Pool> shared_default(Space space) {
    auto pool = make<Pool>();
    pool->is_default = true;
    pool->space = space;
    pool->properties.allocType = space == Space::managed ? CU_MEM_ALLOCATION_TYPE_MANAGED : CU_MEM_ALLOCATION_TYPE_PINNED;
    pool->properties.location.type = space == Space::managed ? CU_MEM_LOCATION_TYPE_NONE : CU_MEM_LOCATION_TYPE_HOST;
    state().pools.add(pool);
    return pool;
}
}  // namespace

void create_shared_defaults() {
    if (state().devices.empty()) return;
    state().host_pool = shared_default(Space::host);
    state().managed_pool = shared_default(Space::managed);
}

}  // namespace pool

namespace {

// Which memory a pool of these properties holds.
CUresult space_of(const CUmemLocation& location, CUmemAllocationType type, Space& out) {
    switch (location.type) {
        case CU_MEM_LOCATION_TYPE_DEVICE:
            if (!device_at(location.id)) return CUDA_ERROR_INVALID_DEVICE;
            out = type == CU_MEM_ALLOCATION_TYPE_MANAGED ? Space::managed : Space::device;
            break;
        case CU_MEM_LOCATION_TYPE_HOST:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
            out = type == CU_MEM_ALLOCATION_TYPE_MANAGED ? Space::managed : Space::host;
            break;
        case CU_MEM_LOCATION_TYPE_NONE:
            if (type != CU_MEM_ALLOCATION_TYPE_MANAGED) return CUDA_ERROR_INVALID_VALUE;
            out = Space::managed;
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
    return type == CU_MEM_ALLOCATION_TYPE_MANAGED || type == CU_MEM_ALLOCATION_TYPE_PINNED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult pool_for(CUmemoryPool* out, const CUmemLocation* location, CUmemAllocationType type, bool current) {
    Space space;
    if (!out || !location) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult error = space_of(*location, type, space)) return error;
    Pool* pool = space == Space::host ? state().host_pool.get() : state().managed_pool.get();
    if (space == Space::device) {
        Device* device = device_at(location->id);
        pool = current ? device->current_pool.get() : device->default_pool.get();
    }
    *out = handle_of<CUmemoryPool>(pool);
    return CUDA_SUCCESS;
}

Pool* find(CUmemoryPool handle) { return state().pools.find(handle); }

// In a capture: an allocation node, whose address is fixed from now on.
CUresult allocate_in_capture(Stream& stream, Device& device, size_t bytes, const CUmemPoolProps& properties, CUdeviceptr* out) {
    if (stream.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    Ref<Operation> operation;
    if (const CUresult error = graph::make_allocation(device, bytes, properties, operation)) return error;
    if (const CUresult error = capture::record(stream, operation)) return error;
    *out = static_cast<AllocOperation&>(*operation).allocation->address;
    return CUDA_SUCCESS;
}

CUresult allocate(Stream& stream, Pool& pool, size_t bytes, CUdeviceptr* out) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    Device* device = device_at(pool.device);
    if (stream.capture && pool.space != Space::device) return CUDA_ERROR_NOT_SUPPORTED;
    if (stream.capture) return allocate_in_capture(stream, *device, bytes, pool.properties, out);
    if (!bytes) {
        *out = 0;
        return CUDA_SUCCESS;
    }
    if (stream.legacy)
        if (const CUresult refused = capture::legacy_use(*stream.context, capture::Use::work)) return refused;
    memory::Allocation* allocation;
    const size_t size = pool::accounted(bytes);
    if (pool.properties.maxSize && pool.used + size > pool.properties.maxSize) return CUDA_ERROR_OUT_OF_MEMORY;
    if (const CUresult error = memory::allocate(*device, bytes, pool.space, allocation)) return error;
    allocation->pool = Ref<Pool>(&pool);
    pool.used += size;
    pool.reserved += size;
    pool.used_high = std::max(pool.used_high, pool.used);
    pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
    *out = allocation->start;
    return CUDA_SUCCESS;
}

// Memory whose free was submitted but has not run yet comes back by waiting, which is what is done before a refusal.
CUresult allocate_or_wait(Lock& lock, Stream& given, Pool& pool_given, size_t bytes, CUdeviceptr* out) {
    const Ref<Stream> stream(&given);  // both may lose their handles while the lock is open
    const Ref<Pool> pool(&pool_given);
    const CUresult first = allocate(*stream, *pool, bytes, out);
    if (first != CUDA_ERROR_OUT_OF_MEMORY || stream->capture || !scheduler::unfinished()) return first;
    scheduler::wait_idle(lock, *stream->context);
    return allocate(*stream, *pool, bytes, out);
}

CUresult attribute(Pool& pool, CUmemPool_attribute name, void* value, bool write) {
    auto flag = [&](int& field) {
        if (write)
            std::memcpy(&field, value, sizeof(int));
        else
            std::memcpy(value, &field, sizeof(int));
        return CUDA_SUCCESS;
    };
    auto amount = [&](size_t& field, bool may_write, size_t reset) {
        if (!write) {
            const cuuint64_t out = field;
            std::memcpy(value, &out, sizeof out);
            return CUDA_SUCCESS;
        }
        cuuint64_t in;
        std::memcpy(&in, value, sizeof in);
        if (!may_write || (reset != SIZE_MAX && in != 0)) return CUDA_ERROR_INVALID_VALUE;
        field = reset == SIZE_MAX ? in : reset;
        return CUDA_SUCCESS;
    };
    switch (name) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
            return flag(pool.reuse[0]);
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
            return flag(pool.reuse[1]);
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
            return flag(pool.reuse[2]);
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
            return amount(pool.threshold, true, SIZE_MAX);
        case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
            return amount(pool.reserved, false, 0);
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
            return amount(pool.reserved_high, true, pool.reserved);
        case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
            return amount(pool.used, false, 0);
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
            return amount(pool.used_high, true, pool.used);
        default:
            return write ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    }
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool* out, CUdevice dev) CALL(cuDeviceGetMemPool, initialised, nullptr) {
    Device* device = device_at(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = handle_of<CUmemoryPool>(device->current_pool.get());
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice dev) CALL(cuDeviceGetDefaultMemPool, initialised, nullptr) {
    Device* device = device_at(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = handle_of<CUmemoryPool>(device->default_pool.get());
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle) CALL(cuDeviceSetMemPool, initialised, nullptr) {
    Device* device = device_at(dev);
    Pool* pool = find(handle);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (!pool || pool->device != dev) return CUDA_ERROR_INVALID_VALUE;
    device->current_pool = Ref<Pool>(pool);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type)
CALL(cuMemGetMemPool, initialised, nullptr) {
    return pool_for(out, location, type, true);
} END_CALL

CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type)
CALL(cuMemGetDefaultMemPool, initialised, nullptr) {
    return pool_for(out, location, type, false);
} END_CALL

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) CALL(cuMemPoolCreate, initialised, nullptr) {
    Space space;
    if (!out || !properties) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult error = space_of(properties->location, properties->allocType, space)) return error;
    constexpr auto none = CU_MEM_HANDLE_TYPE_NONE, file = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (properties->handleTypes != none && properties->handleTypes != file) return CUDA_ERROR_NOT_SUPPORTED;
    auto pool = make<Pool>();
    pool->space = space;
    pool->device = space == Space::device ? properties->location.id : 0;
    pool->properties = *properties;
    *out = reinterpret_cast<CUmemoryPool>(state().pools.add(pool));
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool handle) CALL(cuMemPoolDestroy, release, nullptr) {
    Pool* pool = find(handle);
    if (!pool || pool->is_default) return CUDA_ERROR_INVALID_VALUE;
    for (auto& device : state().devices)
        if (device->current_pool.get() == pool) device->current_pool = device->default_pool;
    state().pools.remove(pool->handle);  // allocations keep the object
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool handle, size_t) CALL(cuMemPoolTrimTo, initialised, nullptr) {
    return find(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;  // nothing unused is ever kept
} END_CALL

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute name, void* value)
CALL(cuMemPoolGetAttribute, initialised, nullptr) {
    Pool* pool = find(handle);
    if (!pool || !value) return CUDA_ERROR_INVALID_VALUE;
    return attribute(*pool, name, value, false);
} END_CALL

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute name, void* value)
CALL(cuMemPoolSetAttribute, initialised, nullptr) {
    Pool* pool = find(handle);
    if (!pool || !value) return CUDA_ERROR_INVALID_VALUE;
    return attribute(*pool, name, value, true);
} END_CALL

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* map, size_t count)
CALL(cuMemPoolSetAccess, initialised, nullptr) {
    Pool* pool = find(handle);
    if (!pool || (count && !map)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
        if (!device_at(map[i].location.id)) return CUDA_ERROR_INVALID_DEVICE;
    }
    for (size_t i = 0; i < count; ++i) pool->access[map[i].location.id] = map[i].flags;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags* out, CUmemoryPool handle, CUmemLocation* location)
CALL(cuMemPoolGetAccess, initialised, nullptr) {
    if (const CUresult refused = capture::unsafe_call()) return refused;  // evidence 2
    Pool* pool = find(handle);
    if (!out || !pool || !location) return CUDA_ERROR_INVALID_VALUE;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    if (!device_at(location->id)) return CUDA_ERROR_INVALID_DEVICE;
    auto found = pool->access.find(location->id);
    if (location->id == pool->device)
        *out = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    else
        *out = found == pool->access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : found->second;
    return CUDA_SUCCESS;
} END_CALL

// What leaves the process is the allocation's number; nothing here takes it in again.
CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData* out, CUdeviceptr pointer)
CALL(cuMemPoolExportPointer, context, nullptr) {
    if (const CUresult refused = capture::unsafe_call()) return refused;  // evidence 2
    const memory::Allocation* allocation = memory::at(pointer);
    if (!out || !allocation || !allocation->pool || !allocation->pool->properties.handleTypes) return CUDA_ERROR_INVALID_VALUE;
    std::memset(out, 0, sizeof *out);
    std::memcpy(out->reserved, &allocation->id, sizeof allocation->id);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream handle) CALL(cuMemAllocAsync, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    return allocate_or_wait(lock, *stream, *stream->context->device->current_pool, bytes, out);
} END_CALL

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool_handle, CUstream handle)
CALL(cuMemAllocFromPoolAsync, context, handle) {
    Stream* stream;
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    Pool* pool = find(pool_handle);
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    return allocate_or_wait(lock, *stream, *pool, bytes, out);
} END_CALL

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) CALL(cuMemFreeAsync, release, handle) {
    Stream* stream;
    if (!current_context() && (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD))
        return CUDA_ERROR_INVALID_CONTEXT;
    stream = state().streams.find(handle);
    if (!stream)
        if (const CUresult error = resolve_stream(handle, stream)) return error;
    if (stream->capture) {
        if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        Ref<Operation> operation;
        if (const CUresult error = graph::make_free(pointer, operation)) return error;
        return capture::record(*stream, operation);
    }
    GraphAllocation* graph = memory::graph_allocation(pointer);
    memory::Allocation* allocation = memory::at(pointer);
    if (graph) {
        if (!graph->promised) return CUDA_ERROR_INVALID_VALUE;  // its graph was never launched, or it is freed already
    } else if (!allocation || (allocation->space != Space::device && !allocation->pool) || allocation->global || allocation->freeing) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    auto operation = make<FreeOperation>();
    operation->pointer = pointer;
    if (const CUresult error = capture::enqueue(*stream, operation)) return error;
    if (graph)
        graph->promised = false;
    else
        allocation->freeing = true;
    return CUDA_SUCCESS;
} END_CALL

}  // extern "C"
}  // namespace emulator
