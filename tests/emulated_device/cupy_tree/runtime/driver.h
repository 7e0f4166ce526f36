// The driver as the runtime library calls it: each function is looked up by name in the libcuda.so.1 that the process has.
#pragma once

#include <atomic>

#include "cuda_runtime.h"

namespace runtime {

// The address of a driver function in its form of CUDA 12.0, or null.
void* driver_function(const char* name);

// One function of the driver with the types of its arguments. Results of the driver and of the runtime have the same numbers
// wherever both know the result. What the driver does not have is "not supported".
template <class... A>
class DriverCall {
public:
    constexpr explicit DriverCall(const char* name) : name_(name) {}
    cudaError_t operator()(A... arguments) const {
        void* address = address_.load(std::memory_order_acquire);
        if (!address) address_.store(address = driver_function(name_), std::memory_order_release);
        if (!address) return cudaErrorNotSupported;
        return static_cast<cudaError_t>(reinterpret_cast<int (*)(A...)>(address)(arguments...));
    }

private:
    const char* name_;
    mutable std::atomic<void*> address_{nullptr};
};

// Remembers a failure as the thread's last error, and hands it on.
cudaError_t remember(cudaError_t error);

// Makes sure that the driver is initialised (need_driver), and that the thread has a current context (need_context): the one
// it has, else the primary context of its device.
cudaError_t need_driver();
cudaError_t need_context();

// The primary context of a device, retained once and kept for the life of the process.
cudaError_t primary_context(int device, CUcontext* context);

}  // namespace runtime

// Leaves the enclosing function with a failure of the expression.
#define TRY(expression)                                                                \
    do {                                                                               \
        if (const cudaError_t error_ = (expression)) return runtime::remember(error_); \
    } while (0)

// The body of most calls: a context, then one call of the driver.
#define FORWARD(call)                   \
    {                                   \
        TRY(runtime::need_context());   \
        TRY(runtime::driver::call);     \
        return cudaSuccess;             \
    }

// What the emulated device does not offer fails; it never seems to work.
#define NOT_OFFERED \
    { return runtime::remember(cudaErrorNotSupported); }

namespace runtime::driver {

#define DRIVER(name, ...) inline const DriverCall<__VA_ARGS__> name(#name)

DRIVER(cuInit, unsigned int);
DRIVER(cuDriverGetVersion, int*);
DRIVER(cuGetErrorString, int, const char**);
DRIVER(cuDeviceGet, CUdevice*, int);
DRIVER(cuDeviceGetCount, int*);
DRIVER(cuDeviceGetName, char*, int, CUdevice);
DRIVER(cuDeviceGetUuid, CUuuid*, CUdevice);
DRIVER(cuDeviceTotalMem, size_t*, CUdevice);
DRIVER(cuDeviceGetAttribute, int*, int, CUdevice);
DRIVER(cuDeviceGetPCIBusId, char*, int, CUdevice);
DRIVER(cuDeviceCanAccessPeer, int*, CUdevice, CUdevice);
DRIVER(cuDevicePrimaryCtxRetain, CUcontext*, CUdevice);
DRIVER(cuDeviceGetDefaultMemPool, CUmemoryPool*, CUdevice);
DRIVER(cuDeviceGetMemPool, CUmemoryPool*, CUdevice);
DRIVER(cuDeviceSetMemPool, CUdevice, CUmemoryPool);
DRIVER(cuCtxGetCurrent, CUcontext*);
DRIVER(cuCtxSetCurrent, CUcontext);
DRIVER(cuCtxGetDevice, CUdevice*);
DRIVER(cuCtxSynchronize);
DRIVER(cuCtxEnablePeerAccess, CUcontext, unsigned int);
DRIVER(cuCtxDisablePeerAccess, CUcontext);
DRIVER(cuCtxGetLimit, size_t*, int);
DRIVER(cuCtxSetLimit, int, size_t);
DRIVER(cuMemAlloc, CUdeviceptr*, size_t);
DRIVER(cuMemAllocManaged, CUdeviceptr*, size_t, unsigned int);
DRIVER(cuMemAllocAsync, CUdeviceptr*, size_t, CUstream);
DRIVER(cuMemAllocFromPoolAsync, CUdeviceptr*, size_t, CUmemoryPool, CUstream);
DRIVER(cuMemHostAlloc, void**, size_t, unsigned int);
DRIVER(cuMemHostRegister, void*, size_t, unsigned int);
DRIVER(cuMemHostUnregister, void*);
DRIVER(cuMemFree, CUdeviceptr);
DRIVER(cuMemFreeHost, void*);
DRIVER(cuMemFreeAsync, CUdeviceptr, CUstream);
DRIVER(cuMemGetInfo, size_t*, size_t*);
DRIVER(cuMemPrefetchAsync, CUdeviceptr, size_t, CUdevice, CUstream);
DRIVER(cuMemAdvise, CUdeviceptr, size_t, int, CUdevice);
DRIVER(cuPointerGetAttributes, unsigned int, int*, void**, CUdeviceptr);
DRIVER(cuMemcpy, CUdeviceptr, CUdeviceptr, size_t);
DRIVER(cuMemcpyHtoD, CUdeviceptr, const void*, size_t);
DRIVER(cuMemcpyDtoH, void*, CUdeviceptr, size_t);
DRIVER(cuMemcpyDtoD, CUdeviceptr, CUdeviceptr, size_t);
DRIVER(cuMemcpyAsync, CUdeviceptr, CUdeviceptr, size_t, CUstream);
DRIVER(cuMemcpyHtoDAsync, CUdeviceptr, const void*, size_t, CUstream);
DRIVER(cuMemcpyDtoHAsync, void*, CUdeviceptr, size_t, CUstream);
DRIVER(cuMemcpyDtoDAsync, CUdeviceptr, CUdeviceptr, size_t, CUstream);
DRIVER(cuMemcpyPeer, CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
DRIVER(cuMemcpyPeerAsync, CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream);
DRIVER(cuMemcpy3D, const CUDA_MEMCPY3D*);
DRIVER(cuMemcpy3DAsync, const CUDA_MEMCPY3D*, CUstream);
DRIVER(cuMemsetD8, CUdeviceptr, unsigned char, size_t);
DRIVER(cuMemsetD8Async, CUdeviceptr, unsigned char, size_t, CUstream);
DRIVER(cuMemPoolCreate, CUmemoryPool*, const cudaMemPoolProps*);
DRIVER(cuMemPoolDestroy, CUmemoryPool);
DRIVER(cuMemPoolTrimTo, CUmemoryPool, size_t);
DRIVER(cuMemPoolGetAttribute, CUmemoryPool, int, void*);
DRIVER(cuMemPoolSetAttribute, CUmemoryPool, int, void*);
DRIVER(cuStreamCreate, CUstream*, unsigned int);
DRIVER(cuStreamCreateWithPriority, CUstream*, unsigned int, int);
DRIVER(cuStreamGetFlags, CUstream, unsigned int*);
DRIVER(cuStreamGetPriority, CUstream, int*);
DRIVER(cuStreamDestroy, CUstream);
DRIVER(cuStreamSynchronize, CUstream);
DRIVER(cuStreamQuery, CUstream);
DRIVER(cuStreamWaitEvent, CUstream, CUevent, unsigned int);
DRIVER(cuStreamAddCallback, CUstream, cudaStreamCallback_t, void*, unsigned int);
DRIVER(cuLaunchHostFunc, CUstream, CUhostFn, void*);
DRIVER(cuStreamBeginCapture, CUstream, int);
DRIVER(cuStreamEndCapture, CUstream, CUgraph*);
DRIVER(cuStreamIsCapturing, CUstream, int*);
DRIVER(cuThreadExchangeStreamCaptureMode, int*);
DRIVER(cuEventCreate, CUevent*, unsigned int);
DRIVER(cuEventDestroy, CUevent);
DRIVER(cuEventRecord, CUevent, CUstream);
DRIVER(cuEventQuery, CUevent);
DRIVER(cuEventSynchronize, CUevent);
DRIVER(cuEventElapsedTime, float*, CUevent, CUevent);
DRIVER(cuGraphDestroy, CUgraph);
DRIVER(cuGraphExecDestroy, CUgraphExec);
DRIVER(cuGraphInstantiate, CUgraphExec*, CUgraph, unsigned long long);
DRIVER(cuGraphLaunch, CUgraphExec, CUstream);
DRIVER(cuGraphUpload, CUgraphExec, CUstream);
DRIVER(cuGraphDebugDotPrint, CUgraph, const char*, unsigned int);

#undef DRIVER

}  // namespace runtime::driver
