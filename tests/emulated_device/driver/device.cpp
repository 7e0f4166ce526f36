// Initialisation, devices and their properties.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "call.h"
#include "capture.h"
#include "control.h"
#include "memory.h"
#include "pool.h"
#include "protection.h"
#include "scheduler.h"

namespace emulator {

Device* device_at(CUdevice ordinal) {
    auto& devices = state().devices;
    return ordinal >= 0 && static_cast<size_t>(ordinal) < devices.size() ? devices[ordinal].get() : nullptr;
}

namespace {

size_t environment(const char* name, size_t fallback) {
    const char* text = std::getenv(name);
    return text && *text ? std::strtoull(text, nullptr, 10) : fallback;
}

void initialise() {
    auto& s = state();
    if (s.initialised) return;
    const size_t count = std::min<size_t>(environment("GRAPHCAP_EMULATED_DEVICES", 2), 64);
    const size_t total = environment("GRAPHCAP_EMULATED_MEMORY", size_t{8} << 30);
    for (size_t i = 0; i < count; ++i) {
        auto device = std::make_unique<Device>();
        device->ordinal = static_cast<int>(i);
        device->total = device->limit = total;
        device->default_pool = device->current_pool = pool::create_default(*device);
        s.devices.push_back(std::move(device));
    }
    pool::create_shared_defaults();
    scheduler::seed(environment("GRAPHCAP_EMULATED_SEED", 0));
    if (environment("GRAPHCAP_EMULATED_PROTECTION", 0)) protection::set(true);
    s.initialised = true;
}

int attribute(const Device& device, CUdevice_attribute name) {
    switch (name) {
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
            return 1024;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
            return 64;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
            return 2147483647;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
            return 65535;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
            return 48 * 1024;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
            return 227 * 1024;
        case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
            return 65536;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
            return 32;
        case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
            return 2147483647;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
            return 65536;
        case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
            return 1000000;
        case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
            return 512;
        case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
            return 32;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
            return 4;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
            return 2048;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
            return 32;
        case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
            return 2;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
            return 9;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
            return 0;
        case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
            return device.ordinal + 1;
        case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
            return 1 << 20;
        case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
            return 64;
        case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
            return 2;
        case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
            return 0;
        case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
        case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
        case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
        case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
        case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
        case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
        case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
            return 1;
        default:
            return 0;  // includes everything that is not emulated
    }
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuInit(unsigned int flags) CALL(cuInit, nothing, nullptr) {
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    initialise();
    return state().devices.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDriverGetVersion(int* version) CALL(cuDriverGetVersion, nothing, nullptr) {
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    // Clients ask for entry points by the version that introduced them, and refuse drivers older than their toolkit.
    *version = static_cast<int>(environment("GRAPHCAP_EMULATED_DRIVER_VERSION", CUDA_VERSION));
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) CALL(cuDeviceGet, initialised, nullptr) {
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (!device_at(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDeviceGetCount(int* count) CALL(cuDeviceGetCount, initialised, nullptr) {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<int>(state().devices.size());
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDeviceGetName(char* name, int length, CUdevice dev) CALL(cuDeviceGetName, initialised, nullptr) {
    if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (!device_at(dev)) return CUDA_ERROR_INVALID_DEVICE;
    std::strncpy(name, "graphcap emulated device", static_cast<size_t>(length));
    name[length - 1] = 0;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) CALL(cuDeviceGetUuid, initialised, nullptr) {
    if (!uuid) return CUDA_ERROR_INVALID_VALUE;
    if (!device_at(dev)) return CUDA_ERROR_INVALID_DEVICE;
    std::memset(uuid, 0, sizeof *uuid);
    std::memcpy(uuid->bytes, "graphcap", 8);
    uuid->bytes[15] = static_cast<char>(dev);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDeviceTotalMem(size_t* bytes, CUdevice dev) CALL(cuDeviceTotalMem, initialised, nullptr) {
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    const Device* device = device_at(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = device->limit;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute name, CUdevice dev)
CALL(cuDeviceGetAttribute, initialised, nullptr) {
    if (!value || name <= 0 || name >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
    const Device* device = device_at(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute(*device, name);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDeviceGetPCIBusId(char* id, int length, CUdevice dev) CALL(cuDeviceGetPCIBusId, initialised, nullptr) {
    if (!id || length < 13) return CUDA_ERROR_INVALID_VALUE;
    if (!device_at(dev)) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(id, static_cast<size_t>(length), "0000:%02x:00.0", dev + 1);
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDeviceComputeCapability(int* major, int* minor, CUdevice dev)
CALL(cuDeviceComputeCapability, initialised, nullptr) {
    if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
    if (!device_at(dev)) return CUDA_ERROR_INVALID_DEVICE;
    *major = 9;
    *minor = 0;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDeviceCanAccessPeer(int* answer, CUdevice dev, CUdevice peer)
CALL(cuDeviceCanAccessPeer, initialised, nullptr) {
    if (!answer) return CUDA_ERROR_INVALID_VALUE;
    if (!device_at(dev) || !device_at(peer)) return CUDA_ERROR_INVALID_DEVICE;
    *answer = dev != peer;
    return CUDA_SUCCESS;
} END_CALL

CUresult CUDAAPI cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute name, CUdevice source, CUdevice target)
CALL(cuDeviceGetP2PAttribute, initialised, nullptr) {
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    if (!device_at(source) || !device_at(target) || source == target) return CUDA_ERROR_INVALID_DEVICE;
    switch (name) {
        case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
            *value = 1;
            return CUDA_SUCCESS;
        case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
        case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
            *value = 0;
            return CUDA_SUCCESS;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
} END_CALL

EXPORT int graphcap_emulator_memory_limit(uint64_t bytes, int ordinal) {
    Lock lock(driver_mutex());
    initialise();
    Device* device = device_at(ordinal);
    if (!device) return 0;
    device->limit = bytes ? bytes : device->total;
    return 1;
}

EXPORT uint64_t graphcap_emulator_counts(graphcap_count* out, uint64_t capacity) {
    Lock lock(driver_mutex());
    const auto& s = state();
    size_t contexts = 0, pools = 0, streams = 0;
    s.contexts.each([&](const Context& context) { contexts += !context.primary; });
    s.pools.each([&](const Pool& pool) { pools += !pool.is_default; });
    s.streams.each([&](const Stream&) { ++streams; });
    const graphcap_count counts[] = {
        {"context", static_cast<int64_t>(contexts)},  // beyond the primary ones
        {"stream", static_cast<int64_t>(streams)},
        {"event", static_cast<int64_t>(s.events.live())},
        {"graph", static_cast<int64_t>(s.graphs.live())},
        {"graph_exec", static_cast<int64_t>(s.executables.live())},
        {"graph_node", static_cast<int64_t>(s.nodes.live())},
        {"module", static_cast<int64_t>(s.modules.live())},
        {"library", static_cast<int64_t>(s.libraries.live())},
        {"kernel", static_cast<int64_t>(s.kernels.live())},
        {"function", static_cast<int64_t>(s.functions.live())},
        {"mem_pool", static_cast<int64_t>(pools)},
        {"user_object", static_cast<int64_t>(s.user_objects.live())},
        {"device_allocation", static_cast<int64_t>(memory::live_count(memory::Space::device))},
        {"host_allocation", static_cast<int64_t>(memory::live_count(memory::Space::host))},
        {"managed_allocation", static_cast<int64_t>(memory::live_count(memory::Space::managed))},
        {"capture", static_cast<int64_t>(s.captures.size())},
        {"unfinished_work", static_cast<int64_t>(scheduler::unfinished())},
    };
    const size_t count = sizeof counts / sizeof *counts;
    for (size_t i = 0; out && i < count && i < capacity; ++i) out[i] = counts[i];
    return count;
}

}  // extern "C"
}  // namespace emulator
