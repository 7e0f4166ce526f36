/* The older complex numbers: pairs of floats or doubles with functions. */
#ifndef GRAPHCAP_CU_COMPLEX_H
#define GRAPHCAP_CU_COMPLEX_H

#include "graphcap_cuda.h"

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

namespace graphcap_detail {

/* Scaled by the larger part of the divisor, so that nothing overflows on the way. */
template <class C> GRAPHCAP_FUNCTION C quotient(C a, C b) {
    const auto scale = 1 / (std::fabs(b.x) + std::fabs(b.y));
    const auto ax = a.x * scale, ay = a.y * scale, bx = b.x * scale, by = b.y * scale;
    const auto inverse = 1 / (bx * bx + by * by);
    return C{(ax * bx + ay * by) * inverse, (ay * bx - ax * by) * inverse};
}
template <class C> GRAPHCAP_FUNCTION C product(C a, C b) { return C{a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }

}  // namespace graphcap_detail

#define GRAPHCAP_OLD_COMPLEX(C, T, suffix, make)                                                                    \
    GRAPHCAP_FUNCTION C make(T re, T im) { return C{re, im}; }                                                      \
    GRAPHCAP_FUNCTION T cuCreal##suffix(C z) { return z.x; }                                                        \
    GRAPHCAP_FUNCTION T cuCimag##suffix(C z) { return z.y; }                                                        \
    GRAPHCAP_FUNCTION C cuConj##suffix(C z) { return C{z.x, -z.y}; }                                                \
    GRAPHCAP_FUNCTION C cuCadd##suffix(C a, C b) { return C{a.x + b.x, a.y + b.y}; }                                \
    GRAPHCAP_FUNCTION C cuCsub##suffix(C a, C b) { return C{a.x - b.x, a.y - b.y}; }                                \
    GRAPHCAP_FUNCTION C cuCmul##suffix(C a, C b) { return graphcap_detail::product(a, b); }                         \
    GRAPHCAP_FUNCTION C cuCdiv##suffix(C a, C b) { return graphcap_detail::quotient(a, b); }                        \
    GRAPHCAP_FUNCTION T cuCabs##suffix(C z) { return std::hypot(z.x, z.y); }                                        \
    GRAPHCAP_FUNCTION C cuCfma##suffix(C a, C b, C c) { return cuCadd##suffix(cuCmul##suffix(a, b), c); }
GRAPHCAP_OLD_COMPLEX(cuFloatComplex, float, f, make_cuFloatComplex)
GRAPHCAP_OLD_COMPLEX(cuDoubleComplex, double, , make_cuDoubleComplex)
#undef GRAPHCAP_OLD_COMPLEX

GRAPHCAP_FUNCTION cuComplex make_cuComplex(float re, float im) { return make_cuFloatComplex(re, im); }
GRAPHCAP_FUNCTION cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex z) { return make_cuDoubleComplex(z.x, z.y); }
GRAPHCAP_FUNCTION cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex z) { return make_cuFloatComplex((float)z.x, (float)z.y); }

#endif
