/* bfloat16: the upper half of a float. */
#ifndef GRAPHCAP_CUDA_BF16_H
#define GRAPHCAP_CUDA_BF16_H

#include "graphcap/small_float.h"

#define SMALL __nv_bfloat16
#define SMALL2 __nv_bfloat162
#define RAW __nv_bfloat16_raw
#define RAW2 __nv_bfloat162_raw
#define FORMAT graphcap_detail::small_format<7>
#include "graphcap/small_float.inc"
GRAPHCAP_NAMED_CONVERSIONS(bfloat16)
#include "graphcap/small_float_end.inc"

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

#define CUDART_INF_BF16 __ushort_as_bfloat16(0x7f80u)
#define CUDART_NAN_BF16 __ushort_as_bfloat16(0x7fffu)
#define CUDART_ONE_BF16 __ushort_as_bfloat16(0x3f80u)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16(0x0000u)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16(0x8000u)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16(0x7f7fu)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16(0x0001u)

#endif
