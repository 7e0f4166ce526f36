/* Half precision: 5 bits of exponent, 10 of fraction. */
#ifndef GRAPHCAP_CUDA_FP16_H
#define GRAPHCAP_CUDA_FP16_H

#include "graphcap/small_float.h"

#define SMALL __half
#define SMALL2 __half2
#define RAW __half_raw
#define RAW2 __half2_raw
#define FORMAT graphcap_detail::small_format<10>
#include "graphcap/small_float.inc"
GRAPHCAP_NAMED_CONVERSIONS(half)
#include "graphcap/small_float_end.inc"

typedef __half half;
typedef __half2 half2;
typedef __half nv_half;
typedef __half __nv_half;
typedef __half2 nv_half2;
typedef __half2 __nv_half2;

#define CUDART_INF_FP16 __ushort_as_half(0x7c00u)
#define CUDART_NAN_FP16 __ushort_as_half(0x7fffu)
#define CUDART_ONE_FP16 __ushort_as_half(0x3c00u)
#define CUDART_ZERO_FP16 __ushort_as_half(0x0000u)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half(0x8000u)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half(0x7bffu)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half(0x0001u)

#endif
