// What CuPy's cub.pyx is compiled against in place of CuPy's own header of this name. No function needs a workspace; CuPy is
// told one byte, as CUB tells it where none is needed.
#pragma once

#include "graphcap_primitives.h"

#include <stdexcept>
#include <string>

#ifndef CUPY_CUB_VERSION_CODE
#define CUPY_CUB_VERSION_CODE 0
#endif

#define CUPY_CUB_SUM 0
#define CUPY_CUB_MIN 1
#define CUPY_CUB_MAX 2
#define CUPY_CUB_ARGMIN 3
#define CUPY_CUB_ARGMAX 4
#define CUPY_CUB_CUMSUM 5
#define CUPY_CUB_CUMPROD 6
#define CUPY_CUB_PROD 7

typedef struct CUstream_st* cudaStream_t;

namespace graphcap_cub {

// cub.pyx has to declare these functions with `except +` (standins.cython_source), or an exception ends the process.
inline void check(const char* what, int result) {
    if (!result) return;
    if (result == GRAPHCAP_NOT_OFFERED)
        throw std::runtime_error(std::string(what) + ": not offered by the stand-in of the emulated device for this type");
    throw std::runtime_error(std::string(what) + ": the driver returned " + std::to_string(result));
}

inline intptr_t number(cudaStream_t stream) { return reinterpret_cast<intptr_t>(stream); }

}  // namespace graphcap_cub

inline void cub_device_reduce(void*, size_t&, void* x, void* y, int items, cudaStream_t stream, int operation, int element) {
    graphcap_cub::check("reduce", graphcap_reduce(element, operation, x, y, 1, items, graphcap_cub::number(stream)));
}
inline void cub_device_segmented_reduce(void*, size_t&, void* x, void* y, int segments, int length, cudaStream_t stream,
                                        int operation, int element) {
    graphcap_cub::check("segmented reduce",
                        graphcap_reduce(element, operation, x, y, segments, length, graphcap_cub::number(stream)));
}
inline void cub_device_scan(void*, size_t&, void*, void* y, int items, cudaStream_t stream, int operation, int element) {
    graphcap_cub::check("scan", graphcap_scan(element, operation, y, items, graphcap_cub::number(stream)));
}
inline void cub_device_histogram_range(void*, size_t&, void* x, void* y, int edges, void* bins, size_t samples,
                                       cudaStream_t stream, int element) {
    graphcap_cub::check("histogram", graphcap_histogram(element, x, static_cast<int64_t>(samples), bins, 0,
                                                        static_cast<int64_t*>(y), edges - 1, graphcap_cub::number(stream)));
}
inline void cub_device_histogram_even(void*, size_t&, void* x, void* y, int edges, int lower, int upper, size_t samples,
                                      cudaStream_t stream, int element) {
    if (upper - lower != edges - 1) throw std::runtime_error("histogram: the stand-in has bins of width one only");
    graphcap_cub::check("histogram", graphcap_histogram(element, x, static_cast<int64_t>(samples), nullptr, lower,
                                                        static_cast<int64_t*>(y), edges - 1, graphcap_cub::number(stream)));
}
inline size_t cub_device_reduce_get_workspace_size(void*, void*, int, cudaStream_t, int, int) { return 1; }
inline size_t cub_device_segmented_reduce_get_workspace_size(void*, void*, int, int, cudaStream_t, int, int) { return 1; }
inline size_t cub_device_scan_get_workspace_size(void*, void*, int, cudaStream_t, int, int) { return 1; }
inline size_t cub_device_histogram_range_get_workspace_size(void*, void*, int, void*, size_t, cudaStream_t, int) { return 1; }
inline size_t cub_device_histogram_even_get_workspace_size(void*, void*, int, int, int, size_t, cudaStream_t, int) { return 1; }
