// The driver's copy and set functions.
#include <cstring>

#include "capture.h"
#include "copy.h"
#include "graph_build.h"
#include "memory.h"
#include "faults.h"
#include "scheduler.h"

namespace emulator {
namespace {

constexpr auto host = CU_MEMORYTYPE_HOST;
constexpr auto device = CU_MEMORYTYPE_DEVICE;
constexpr auto unified = CU_MEMORYTYPE_UNIFIED;

template <class T>
uintptr_t address(T pointer) {
    if constexpr (std::is_pointer_v<T>)
        return reinterpret_cast<uintptr_t>(pointer);
    else
        return static_cast<uintptr_t>(pointer);
}

// Memory of the program's that the driver does not know: copied from at the call, and written before the call returns.
bool pageable(CUmemorytype type, uintptr_t pointer) {
    return !copy::device_side(type, pointer) && !memory::containing(pointer);
}

CUresult stage(CopyOperation& operation) {
    const CUDA_MEMCPY3D& p = operation.parameters;
    operation.staged.resize(copy::bytes_of(p));
    const size_t pitch = p.srcPitch ? p.srcPitch : p.WidthInBytes;
    const size_t slice = pitch * (p.srcHeight ? p.srcHeight : p.Height);
    const char* first = reinterpret_cast<const char*>(copy::source_of(p)) + p.srcXInBytes + p.srcY * pitch + p.srcZ * slice;
    unsigned char* to = operation.staged.data();
    for (size_t z = 0; z < p.Depth; ++z)
        for (size_t y = 0; y < p.Height; ++y, to += p.WidthInBytes)
            if (!faults::try_copy(to, first + z * slice + y * pitch, p.WidthInBytes)) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult copy_in(Lock& lock, Stream& stream, const CUDA_MEMCPY3D& p, bool synchronous) {
    if (!copy::bytes_of(p)) return CUDA_SUCCESS;
    Ref<Operation> operation;
    if (stream.capture && stream.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (const CUresult error = build::copy(p, stream.context, operation, false)) return error;
    const bool from_pageable = pageable(p.srcMemoryType, copy::source_of(p));
    const bool to_pageable = pageable(p.dstMemoryType, copy::target_of(p));
    if (!stream.capture && from_pageable)
        if (const CUresult error = stage(static_cast<CopyOperation&>(*operation))) return error;
    const Ref<Stream> keep(&stream);
    if (const CUresult error = capture::enqueue(stream, operation)) return error;
    if (stream.capture || !(synchronous || to_pageable)) return CUDA_SUCCESS;
    Context& context = *stream.context;
    scheduler::wait(lock, Ref<Work>(stream.tail));
    return context.sticky;
}

Stream& default_stream() {
    Stream* stream = nullptr;
    resolve_stream(nullptr, stream);
    return *stream;
}

CUresult copy_now(Lock& lock, const CUDA_MEMCPY3D& p) {
    Stream& stream = default_stream();
    // With a blocking capture open the legacy stream cannot be used: 906. With a non-blocking one the copy runs at once,
    // outside the graph (evidence D19, E-21).
    if (const CUresult refused = capture::legacy_use(*stream.context, capture::Use::work)) return refused;
    if (stream.capture) return capture::forbidden_on(stream);
    return copy_in(lock, stream, p, true);
}

CUresult copy_async(Lock& lock, CUstream handle, const CUDA_MEMCPY3D& p) {
    Stream* stream;
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    return copy_in(lock, *stream, p, false);
}

CUDA_MEMCPY3D from_2d(const CUDA_MEMCPY2D& q) {
    CUDA_MEMCPY3D p{};
    p.srcXInBytes = q.srcXInBytes;
    p.srcY = q.srcY;
    p.srcMemoryType = q.srcMemoryType;
    p.srcHost = q.srcHost;
    p.srcDevice = q.srcDevice;
    p.srcArray = q.srcArray;
    p.srcPitch = q.srcPitch;
    p.dstXInBytes = q.dstXInBytes;
    p.dstY = q.dstY;
    p.dstMemoryType = q.dstMemoryType;
    p.dstHost = q.dstHost;
    p.dstDevice = q.dstDevice;
    p.dstArray = q.dstArray;
    p.dstPitch = q.dstPitch;
    p.WidthInBytes = q.WidthInBytes;
    p.Height = q.Height;
    p.Depth = 1;
    return p;
}

CUresult set(Lock& lock, Stream& stream, CUdeviceptr to, size_t pitch, unsigned value, unsigned element, size_t width, size_t height,
             bool synchronous) {
    if (!width || !height) return CUDA_SUCCESS;
    if (stream.capture && stream.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    CUDA_MEMSET_NODE_PARAMS p{};
    p.dst = to;
    p.pitch = pitch;
    p.value = value;
    p.elementSize = element;
    p.width = width;
    p.height = height;
    Ref<Operation> operation;
    if (const CUresult error = build::fill(p, stream.context, operation, false)) return error;
    const Ref<Stream> keep(&stream);
    if (const CUresult error = capture::enqueue(stream, operation)) return error;
    if (stream.capture || !synchronous) return CUDA_SUCCESS;
    Context& context = *stream.context;
    scheduler::wait(lock, Ref<Work>(stream.tail));
    return context.sticky;
}

CUresult set_now(Lock& lock, CUdeviceptr to, size_t pitch, unsigned value, unsigned element, size_t width, size_t height) {
    Stream& stream = default_stream();
    if (const CUresult refused = capture::legacy_use(*stream.context, capture::Use::work)) return refused;
    if (stream.capture) return capture::forbidden_on(stream);
    return set(lock, stream, to, pitch, value, element, width, height, true);
}

CUresult set_async(Lock& lock, CUstream handle, CUdeviceptr to, size_t pitch, unsigned value, unsigned element, size_t width,
                   size_t height) {
    Stream* stream;
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    return set(lock, *stream, to, pitch, value, element, width, height, false);
}

CUresult check_peer(CUcontext target, CUcontext source) {
    return state().contexts.find(target) && state().contexts.find(source) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t n) CALL(cuMemcpyHtoD, context, nullptr) {
    return copy_now(lock, copy::linear(device, to, host, address(from), n));
} END_CALL

CUresult CUDAAPI cuMemcpyDtoH(void* to, CUdeviceptr from, size_t n) CALL(cuMemcpyDtoH, context, nullptr) {
    return copy_now(lock, copy::linear(host, address(to), device, from, n));
} END_CALL

CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t n) CALL(cuMemcpyDtoD, context, nullptr) {
    return copy_now(lock, copy::linear(device, to, device, from, n));
} END_CALL

CUresult CUDAAPI cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) CALL(cuMemcpy, context, nullptr) {
    return copy_now(lock, copy::linear(unified, to, unified, from, n));
} END_CALL

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t n)
CALL(cuMemcpyPeer, context, nullptr) {
    if (const CUresult error = check_peer(to_context, from_context)) return error;
    return copy_now(lock, copy::linear(device, to, device, from, n));
} END_CALL

CUresult CUDAAPI cuMemcpy2D(const CUDA_MEMCPY2D* p) CALL(cuMemcpy2D, context, nullptr) {
    return p ? copy_now(lock, from_2d(*p)) : CUDA_ERROR_INVALID_VALUE;
} END_CALL

CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* p) CALL(cuMemcpy2DUnaligned, context, nullptr) {
    return p ? copy_now(lock, from_2d(*p)) : CUDA_ERROR_INVALID_VALUE;
} END_CALL

CUresult CUDAAPI cuMemcpy3D(const CUDA_MEMCPY3D* p) CALL(cuMemcpy3D, context, nullptr) {
    return p ? copy_now(lock, *p) : CUDA_ERROR_INVALID_VALUE;
} END_CALL

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t n, CUstream stream)
CALL(cuMemcpyHtoDAsync, context, stream) {
    return copy_async(lock, stream, copy::linear(device, to, host, address(from), n));
} END_CALL

CUresult CUDAAPI cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t n, CUstream stream)
CALL(cuMemcpyDtoHAsync, context, stream) {
    return copy_async(lock, stream, copy::linear(host, address(to), device, from, n));
} END_CALL

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream)
CALL(cuMemcpyDtoDAsync, context, stream) {
    return copy_async(lock, stream, copy::linear(device, to, device, from, n));
} END_CALL

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream) CALL(cuMemcpyAsync, context, stream) {
    return copy_async(lock, stream, copy::linear(unified, to, unified, from, n));
} END_CALL

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t n,
                                   CUstream handle) CALL(cuMemcpyPeerAsync, context, handle) {
    if (const CUresult error = check_peer(to_context, from_context)) return error;
    Stream* stream;
    if (const CUresult error = resolve_stream(handle, stream)) return error;
    if (stream->capture) return capture::forbidden_on(*stream);  // evidence 2: unsupported in captures
    return copy_async(lock, handle, copy::linear(device, to, device, from, n));
} END_CALL

CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D* p, CUstream stream) CALL(cuMemcpy2DAsync, context, stream) {
    return p ? copy_async(lock, stream, from_2d(*p)) : CUDA_ERROR_INVALID_VALUE;
} END_CALL

CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D* p, CUstream stream) CALL(cuMemcpy3DAsync, context, stream) {
    return p ? copy_async(lock, stream, *p) : CUDA_ERROR_INVALID_VALUE;
} END_CALL

CUresult CUDAAPI cuMemsetD8(CUdeviceptr to, unsigned char v, size_t n) CALL(cuMemsetD8, context, nullptr) {
    return set_now(lock, to, 0, v, 1, n, 1);
} END_CALL
CUresult CUDAAPI cuMemsetD16(CUdeviceptr to, unsigned short v, size_t n) CALL(cuMemsetD16, context, nullptr) {
    return set_now(lock, to, 0, v, 2, n, 1);
} END_CALL
CUresult CUDAAPI cuMemsetD32(CUdeviceptr to, unsigned int v, size_t n) CALL(cuMemsetD32, context, nullptr) {
    return set_now(lock, to, 0, v, 4, n, 1);
} END_CALL
CUresult CUDAAPI cuMemsetD2D8(CUdeviceptr to, size_t pitch, unsigned char v, size_t w, size_t h) CALL(cuMemsetD2D8, context, nullptr) {
    return set_now(lock, to, pitch, v, 1, w, h);
} END_CALL
CUresult CUDAAPI cuMemsetD2D16(CUdeviceptr to, size_t pitch, unsigned short v, size_t w, size_t h)
CALL(cuMemsetD2D16, context, nullptr) {
    return set_now(lock, to, pitch, v, 2, w, h);
} END_CALL
CUresult CUDAAPI cuMemsetD2D32(CUdeviceptr to, size_t pitch, unsigned int v, size_t w, size_t h)
CALL(cuMemsetD2D32, context, nullptr) {
    return set_now(lock, to, pitch, v, 4, w, h);
} END_CALL
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream stream) CALL(cuMemsetD8Async, context, stream) {
    return set_async(lock, stream, to, 0, v, 1, n, 1);
} END_CALL
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr to, unsigned short v, size_t n, CUstream stream)
CALL(cuMemsetD16Async, context, stream) {
    return set_async(lock, stream, to, 0, v, 2, n, 1);
} END_CALL
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned int v, size_t n, CUstream stream)
CALL(cuMemsetD32Async, context, stream) {
    return set_async(lock, stream, to, 0, v, 4, n, 1);
} END_CALL
CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char v, size_t w, size_t h, CUstream stream)
CALL(cuMemsetD2D8Async, context, stream) {
    return set_async(lock, stream, to, pitch, v, 1, w, h);
} END_CALL
CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short v, size_t w, size_t h, CUstream stream)
CALL(cuMemsetD2D16Async, context, stream) {
    return set_async(lock, stream, to, pitch, v, 2, w, h);
} END_CALL
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int v, size_t w, size_t h, CUstream stream)
CALL(cuMemsetD2D32Async, context, stream) {
    return set_async(lock, stream, to, pitch, v, 4, w, h);
} END_CALL

}  // extern "C"
}  // namespace emulator
