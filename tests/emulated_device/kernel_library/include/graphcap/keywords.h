/* CUDA's keywords that mean nothing, or something plain, to the host compiler. */
#ifndef GRAPHCAP_KEYWORDS_H
#define GRAPHCAP_KEYWORDS_H

#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDACC_VER_BUILD__ 0
#define CUDA_VERSION 13000
#define CUDART_VERSION 13000
#define __CUDA_API_VERSION 13000

#define __device__
#define __host__
#define __tile_global__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __block_size__(...)
#define __nv_pure__
#define __device_builtin__
#define __cudart_builtin__
#define CUDARTAPI
#define CUDARTAPI_CDECL

/* Promises to the optimizer. */
#define __builtin_assume(condition) ((condition) ? (void)0 : __builtin_unreachable())
#define __assume(condition) __builtin_assume(condition)

/* What a device function here is: one of many in a translation unit that uses few. */
#define GRAPHCAP_FUNCTION static inline __attribute__((unused))

#endif
