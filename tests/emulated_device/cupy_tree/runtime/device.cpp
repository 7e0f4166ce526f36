// The driver and the thread's context; devices, peers, limits.
#include <dlfcn.h>

#include <cstring>
#include <map>
#include <mutex>

#include "driver.h"

namespace runtime {
namespace {

thread_local int chosen_device = 0;  // of cudaSetDevice; counts while the thread has no context

// The runtime's attribute numbers are the driver's.
int attribute(int number, CUdevice device) {
    int value = 0;
    return driver::cuDeviceGetAttribute(&value, number, device) == cudaSuccess ? value : 0;
}

cudaError_t device_handle(int ordinal, CUdevice* device) {
    if (const cudaError_t error = need_driver()) return error;
    int count = 0;
    if (const cudaError_t error = driver::cuDeviceGetCount(&count)) return error;
    if (ordinal < 0 || ordinal >= count) return cudaErrorInvalidDevice;
    return driver::cuDeviceGet(device, ordinal);
}

}  // namespace

void* driver_function(const char* name) {
    using Lookup = int (*)(const char*, void**, int, unsigned long long, int*);
    static const auto lookup = [] {
        void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        return reinterpret_cast<Lookup>(library ? dlsym(library, "cuGetProcAddress_v2") : nullptr);
    }();
    constexpr int version = 12000;  // of the forms declared in driver.h
    void* found = nullptr;
    return lookup && lookup(name, &found, version, 0, nullptr) == 0 ? found : nullptr;
}

cudaError_t need_driver() {
    static const cudaError_t state = [] {
        if (!driver_function("cuInit")) return cudaErrorInsufficientDriver;
        return driver::cuInit(0);
    }();
    return state;
}

cudaError_t primary_context(int ordinal, CUcontext* context) {
    CUdevice device = 0;
    if (const cudaError_t error = device_handle(ordinal, &device)) return error;
    static std::mutex mutex;
    static auto* kept = new std::map<int, CUcontext>;
    std::lock_guard lock(mutex);
    CUcontext& known = (*kept)[ordinal];
    if (!known)
        if (const cudaError_t error = driver::cuDevicePrimaryCtxRetain(&known, device)) {
            known = nullptr;
            return error;
        }
    *context = known;
    return cudaSuccess;
}

cudaError_t need_context() {
    if (const cudaError_t error = need_driver()) return error;
    CUcontext context = nullptr;
    if (const cudaError_t error = driver::cuCtxGetCurrent(&context)) return error;
    if (context) return cudaSuccess;
    if (const cudaError_t error = primary_context(chosen_device, &context)) return error;
    return driver::cuCtxSetCurrent(context);
}

}  // namespace runtime

using namespace runtime;

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
    if (!version) return remember(cudaErrorInvalidValue);
    *version = 0;  // also without a driver
    if (!driver_function("cuDriverGetVersion")) return cudaSuccess;
    TRY(driver::cuDriverGetVersion(version));
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
    if (!version) return remember(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
    if (!count) return remember(cudaErrorInvalidValue);
    *count = 0;
    TRY(need_driver());
    TRY(driver::cuDeviceGetCount(count));
    return *count ? cudaSuccess : remember(cudaErrorNoDevice);
}

// The device of the current context, whoever made it current; else the thread's choice.
cudaError_t cudaGetDevice(int* device) {
    if (!device) return remember(cudaErrorInvalidValue);
    TRY(need_driver());
    CUcontext context = nullptr;
    TRY(driver::cuCtxGetCurrent(&context));
    *device = chosen_device;
    if (context) TRY(driver::cuCtxGetDevice(device));
    return cudaSuccess;
}

// Since CUDA 12 this makes the primary context at once, and current to the thread.
cudaError_t cudaSetDevice(int device) {
    CUcontext context = nullptr;
    TRY(primary_context(device, &context));
    TRY(driver::cuCtxSetCurrent(context));
    chosen_device = device;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr number, int ordinal) {
    CUdevice device = 0;
    TRY(device_handle(ordinal, &device));
    TRY(driver::cuDeviceGetAttribute(value, number, device));
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* bus_id, int bytes, int ordinal) {
    CUdevice device = 0;
    TRY(device_handle(ordinal, &device));
    TRY(driver::cuDeviceGetPCIBusId(bus_id, bytes, device));
    return cudaSuccess;
}

// Letters of either case, and a domain that may be left out, as the documentation allows.
cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* bus_id) {
    if (!device || !bus_id) return remember(cudaErrorInvalidValue);
    int count = 0;
    TRY(cudaGetDeviceCount(&count));
    for (int ordinal = 0; ordinal < count; ++ordinal) {
        char known[32] = "";
        TRY(cudaDeviceGetPCIBusId(known, sizeof known, ordinal));
        const char* short_form = std::strchr(known, ':');
        if (!strcasecmp(known, bus_id) || (short_form && !strcasecmp(short_form + 1, bus_id))) {
            *device = ordinal;
            return cudaSuccess;
        }
    }
    return remember(cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int ordinal) {
    if (!p) return remember(cudaErrorInvalidValue);
    CUdevice device = 0;
    TRY(device_handle(ordinal, &device));
    std::memset(p, 0, sizeof *p);
    TRY(driver::cuDeviceGetName(p->name, sizeof p->name, device));
    TRY(driver::cuDeviceGetUuid(&p->uuid, device));
    TRY(driver::cuDeviceTotalMem(&p->totalGlobalMem, device));
    const auto get = [device](int number) { return attribute(number, device); };
    p->maxThreadsPerBlock = get(1);
    for (int axis = 0; axis < 3; ++axis) {
        p->maxThreadsDim[axis] = get(2 + axis);
        p->maxGridSize[axis] = get(5 + axis);
        p->maxTexture3D[axis] = get(24 + axis);
        p->maxTexture2DLayered[axis] = get(27 + axis);
        p->maxTexture3DAlt[axis] = get(47 + axis);
        p->maxSurface3D[axis] = get(58 + axis);
        p->maxSurface2DLayered[axis] = get(63 + axis);
        p->maxTexture2DLinear[axis] = get(70 + axis);
    }
    for (int axis = 0; axis < 2; ++axis) {
        p->maxTexture2D[axis] = get(22 + axis);
        p->maxTexture1DLayered[axis] = get(42 + axis);
        p->maxTexture2DGather[axis] = get(45 + axis);
        p->maxTextureCubemapLayered[axis] = get(53 + axis);
        p->maxSurface2D[axis] = get(56 + axis);
        p->maxSurface1DLayered[axis] = get(61 + axis);
        p->maxSurfaceCubemapLayered[axis] = get(67 + axis);
        p->maxTexture2DMipmap[axis] = get(73 + axis);
    }
    p->sharedMemPerBlock = get(8);
    p->totalConstMem = get(9);
    p->warpSize = get(10);
    p->memPitch = get(11);
    p->regsPerBlock = get(12);
    p->textureAlignment = get(14);
    p->multiProcessorCount = get(16);
    p->integrated = get(18);
    p->canMapHostMemory = get(19);
    p->maxTexture1D = get(21);
    p->surfaceAlignment = get(30);
    p->concurrentKernels = get(31);
    p->ECCEnabled = get(32);
    p->pciBusID = get(33);
    p->pciDeviceID = get(34);
    p->tccDriver = get(35);
    p->memoryBusWidth = get(37);
    p->l2CacheSize = get(38);
    p->maxThreadsPerMultiProcessor = get(39);
    p->asyncEngineCount = get(40);
    p->unifiedAddressing = get(41);
    p->pciDomainID = get(50);
    p->texturePitchAlignment = get(51);
    p->maxTextureCubemap = get(52);
    p->maxSurface1D = get(55);
    p->maxSurfaceCubemap = get(66);
    p->major = get(75);
    p->minor = get(76);
    p->maxTexture1DMipmap = get(77);
    p->streamPrioritiesSupported = get(78);
    p->globalL1CacheSupported = get(79);
    p->localL1CacheSupported = get(80);
    p->sharedMemPerMultiprocessor = get(81);
    p->regsPerMultiprocessor = get(82);
    p->managedMemory = get(83);
    p->isMultiGpuBoard = get(84);
    p->multiGpuBoardGroupID = get(85);
    p->hostNativeAtomicSupported = get(86);
    p->pageableMemoryAccess = get(88);
    p->concurrentManagedAccess = get(89);
    p->computePreemptionSupported = get(90);
    p->canUseHostPointerForRegisteredMem = get(91);
    p->cooperativeLaunch = get(95);
    p->sharedMemPerBlockOptin = get(97);
    p->hostRegisterSupported = get(99);
    p->pageableMemoryAccessUsesHostPageTables = get(100);
    p->directManagedMemAccessFromHost = get(101);
    p->maxBlocksPerMultiProcessor = get(106);
    p->persistingL2CacheMaxSize = get(108);
    p->accessPolicyMaxWindowSize = get(109);
    p->reservedSharedMemPerBlock = get(111);
    p->sparseCudaArraySupported = get(112);
    p->hostRegisterReadOnlySupported = get(113);
    p->timelineSemaphoreInteropSupported = get(114);
    p->memoryPoolsSupported = get(115);
    p->gpuDirectRDMASupported = get(116);
    p->gpuDirectRDMAFlushWritesOptions = get(117);
    p->gpuDirectRDMAWritesOrdering = get(118);
    p->memoryPoolSupportedHandleTypes = get(119);
    p->clusterLaunch = get(120);
    p->deferredMappingCudaArraySupported = get(121);
    p->ipcEventSupported = get(125);
    p->unifiedFunctionPointers = get(129);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) FORWARD(cuCtxSynchronize())

cudaError_t cudaDeviceCanAccessPeer(int* can_access, int ordinal, int peer) {
    CUdevice device = 0, other = 0;
    TRY(device_handle(ordinal, &device));
    TRY(device_handle(peer, &other));
    TRY(driver::cuDeviceCanAccessPeer(can_access, device, other));
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
    CUcontext context = nullptr;
    TRY(need_context());
    TRY(primary_context(peer, &context));
    TRY(driver::cuCtxEnablePeerAccess(context, flags));
    return cudaSuccess;
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
    CUcontext context = nullptr;
    TRY(need_context());
    TRY(primary_context(peer, &context));
    TRY(driver::cuCtxDisablePeerAccess(context));
    return cudaSuccess;
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) FORWARD(cuCtxGetLimit(value, limit))
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) FORWARD(cuCtxSetLimit(limit, value))

// No profiler is attached: a call that starts or stops one has nothing to do, as on a machine without one.
cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
cudaError_t cudaProfilerStop(void) { return cudaSuccess; }

}  // extern "C"
