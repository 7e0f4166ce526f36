// How a stand-in runs its kernels: as ordinary launches on the caller's stream, through the driver API alone. So its work is
// ordered with the stream's, is captured like any other, and touches device memory only while it runs.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <string>

// The library's kernels, put into it by the builder.
extern "C" const char graphcap_standin_kernels[];

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace standins {

// The libraries that these stand in for are clients of the CUDA runtime: a thread without a context gets that of its device. The
// runtime knows which device that is; without one it is the first.
inline bool need_context() {
    const auto there = [] {
        CUcontext context = nullptr;
        return cuCtxGetCurrent(&context) == CUDA_SUCCESS && context;
    };
    if (there()) return true;
    if (void* runtime = dlsym(RTLD_DEFAULT, "cudaFree"))
        reinterpret_cast<int (*)(void*)>(runtime)(nullptr);  // makes the context, and frees nothing
    if (there()) return true;
    static const CUcontext first = [] {
        CUcontext made = nullptr;
        return cuInit(0) || cuDevicePrimaryCtxRetain(&made, 0) ? nullptr : made;
    }();
    return first && cuCtxSetCurrent(first) == CUDA_SUCCESS;
}

// The driver keeps one copy of the image for the process; a kernel handle serves every context.
inline CUresult find_kernel(const char* name, CUkernel* out) {
    static auto* mutex = new std::mutex;
    static auto* found = new std::map<std::string, CUkernel>;
    static CUlibrary library = nullptr;
    std::lock_guard<std::mutex> lock(*mutex);
    const auto known = found->find(name);
    if (known != found->end()) {
        *out = known->second;
        return CUDA_SUCCESS;
    }
    if (!library) {
        const CUresult error = cuLibraryLoadData(&library, graphcap_standin_kernels, nullptr, nullptr, 0, nullptr, nullptr, 0);
        if (error) return error;
    }
    const CUresult error = cuLibraryGetKernel(out, library, name);
    if (!error) (*found)[name] = *out;
    return error;
}

// Every kernel takes one structure, which the driver copies at the call.
template <class Call> CUresult launch(const char* name, int64_t blocks, CUstream stream, Call call) {
    if (blocks <= 0) return CUDA_SUCCESS;
    if (blocks > 0x7fffffff) return CUDA_ERROR_INVALID_VALUE;
    if (!need_context()) return CUDA_ERROR_INVALID_CONTEXT;
    CUkernel kernel;
    if (const CUresult error = find_kernel(name, &kernel)) return error;
    void* parameters[] = {&call};
    return cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), static_cast<unsigned>(blocks), 1, 1, 1, 1, 1, 0, stream,
                          parameters, nullptr);
}

}  // namespace standins
