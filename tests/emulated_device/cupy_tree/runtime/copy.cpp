// Copies between linear memory. Copies to and from arrays are in not_offered.cpp.
#include "driver.h"

using namespace runtime;

namespace {

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    switch (kind) {
        case cudaMemcpyHostToDevice: return driver::cuMemcpyHtoD(address(to), from, bytes);
        case cudaMemcpyDeviceToHost: return driver::cuMemcpyDtoH(to, address(from), bytes);
        case cudaMemcpyDeviceToDevice: return driver::cuMemcpyDtoD(address(to), address(from), bytes);
        case cudaMemcpyHostToHost:
        case cudaMemcpyDefault: return driver::cuMemcpy(address(to), address(from), bytes);
    }
    return cudaErrorInvalidMemcpyDirection;
}

cudaError_t copy_in_stream(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    switch (kind) {
        case cudaMemcpyHostToDevice: return driver::cuMemcpyHtoDAsync(address(to), from, bytes, stream);
        case cudaMemcpyDeviceToHost: return driver::cuMemcpyDtoHAsync(to, address(from), bytes, stream);
        case cudaMemcpyDeviceToDevice: return driver::cuMemcpyDtoDAsync(address(to), address(from), bytes, stream);
        case cudaMemcpyHostToHost:
        case cudaMemcpyDefault: return driver::cuMemcpyAsync(address(to), address(from), bytes, stream);
    }
    return cudaErrorInvalidMemcpyDirection;
}

bool from_host(cudaMemcpyKind kind) { return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost; }
bool to_host(cudaMemcpyKind kind) { return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost; }

void set_source(CUDA_MEMCPY3D& copy, const void* from, size_t pitch, size_t height, cudaMemcpyKind kind) {
    copy.srcMemoryType = kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED : from_host(kind) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    if (from_host(kind))
        copy.srcHost = from;
    else
        copy.srcDevice = address(from);
    copy.srcPitch = pitch;
    copy.srcHeight = height;
}

void set_target(CUDA_MEMCPY3D& copy, void* to, size_t pitch, size_t height, cudaMemcpyKind kind) {
    copy.dstMemoryType = kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED : to_host(kind) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    if (to_host(kind))
        copy.dstHost = to;
    else
        copy.dstDevice = address(to);
    copy.dstPitch = pitch;
    copy.dstHeight = height;
}

cudaError_t plane(CUDA_MEMCPY3D& copy, void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                  cudaMemcpyKind kind) {
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
    set_source(copy, from, from_pitch, height, kind);
    set_target(copy, to, to_pitch, height, kind);
    copy.WidthInBytes = width;
    copy.Height = height;
    copy.Depth = 1;
    return cudaSuccess;
}

cudaError_t volume(CUDA_MEMCPY3D& copy, const cudaMemcpy3DParms* p) {
    if (!p) return cudaErrorInvalidValue;
    if (p->srcArray || p->dstArray) return cudaErrorNotSupported;  // arrays do not exist on the emulated device
    if (p->kind < cudaMemcpyHostToHost || p->kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    if (p->extent.width > p->srcPtr.pitch || p->extent.width > p->dstPtr.pitch) return cudaErrorInvalidPitchValue;
    set_source(copy, p->srcPtr.ptr, p->srcPtr.pitch, p->srcPtr.ysize, p->kind);
    set_target(copy, p->dstPtr.ptr, p->dstPtr.pitch, p->dstPtr.ysize, p->kind);
    copy.srcXInBytes = p->srcPos.x;
    copy.srcY = p->srcPos.y;
    copy.srcZ = p->srcPos.z;
    copy.dstXInBytes = p->dstPos.x;
    copy.dstY = p->dstPos.y;
    copy.dstZ = p->dstPos.z;
    copy.WidthInBytes = p->extent.width;
    copy.Height = p->extent.height;
    copy.Depth = p->extent.depth;
    return cudaSuccess;
}

bool nothing_in(const CUDA_MEMCPY3D& copy) { return !copy.WidthInBytes || !copy.Height || !copy.Depth; }

}  // namespace

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    TRY(need_context());
    if (bytes) TRY(copy(to, from, bytes, kind));
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    TRY(need_context());
    if (bytes) TRY(copy_in_stream(to, from, bytes, kind, stream));
    return cudaSuccess;
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
    CUcontext target = nullptr, source = nullptr;
    TRY(need_context());
    TRY(primary_context(to_device, &target));
    TRY(primary_context(from_device, &source));
    if (bytes) TRY(driver::cuMemcpyPeer(address(to), target, address(from), source, bytes));
    return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream) {
    CUcontext target = nullptr, source = nullptr;
    TRY(need_context());
    TRY(primary_context(to_device, &target));
    TRY(primary_context(from_device, &source));
    if (bytes) TRY(driver::cuMemcpyPeerAsync(address(to), target, address(from), source, bytes, stream));
    return cudaSuccess;
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
    CUDA_MEMCPY3D copy = {};
    TRY(need_context());
    TRY(plane(copy, to, to_pitch, from, from_pitch, width, height, kind));
    if (!nothing_in(copy)) TRY(driver::cuMemcpy3D(&copy));
    return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
    CUDA_MEMCPY3D copy = {};
    TRY(need_context());
    TRY(plane(copy, to, to_pitch, from, from_pitch, width, height, kind));
    if (!nothing_in(copy)) TRY(driver::cuMemcpy3DAsync(&copy, stream));
    return cudaSuccess;
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* parameters) {
    CUDA_MEMCPY3D copy = {};
    TRY(need_context());
    TRY(volume(copy, parameters));
    if (!nothing_in(copy)) TRY(driver::cuMemcpy3D(&copy));
    return cudaSuccess;
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* parameters, cudaStream_t stream) {
    CUDA_MEMCPY3D copy = {};
    TRY(need_context());
    TRY(volume(copy, parameters));
    if (!nothing_in(copy)) TRY(driver::cuMemcpy3DAsync(&copy, stream));
    return cudaSuccess;
}

}  // extern "C"
