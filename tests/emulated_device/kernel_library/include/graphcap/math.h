/* Device functions that the C library does not have, and float overloads of those that it has for double alone.
 *
 * Everything else (exp, sinf, isnan, ...) is the host's <cmath>, within the error that CUDA's guide allows.
 */
#ifndef GRAPHCAP_MATH_H
#define GRAPHCAP_MATH_H

#include "special.h"

/* Newer C libraries have some of these names. */
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 41)
#define GRAPHCAP_HAS_PI_FUNCTIONS 1
#endif
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 42)
#define GRAPHCAP_HAS_RSQRT 1
#endif

/* One function in three spellings: f(double), ff(float) and the overload f(float). */
#define GRAPHCAP_DOUBLE_AND_FLOAT(name, of)                                           \
    GRAPHCAP_FUNCTION double name(double x) { return graphcap_detail::of(x); }         \
    GRAPHCAP_FUNCTION float name##f(float x) { return (float)graphcap_detail::of((double)x); } \
    GRAPHCAP_FUNCTION float name(float x) { return name##f(x); }

#ifdef GRAPHCAP_HAS_RSQRT
GRAPHCAP_FUNCTION float rsqrt(float x) { return rsqrtf(x); }
#else
GRAPHCAP_DOUBLE_AND_FLOAT(rsqrt, rsqrt)
#endif
#ifdef GRAPHCAP_HAS_PI_FUNCTIONS
GRAPHCAP_FUNCTION float sinpi(float x) { return sinpif(x); }
GRAPHCAP_FUNCTION float cospi(float x) { return cospif(x); }
#else
GRAPHCAP_DOUBLE_AND_FLOAT(sinpi, sinpi)
GRAPHCAP_DOUBLE_AND_FLOAT(cospi, cospi)
#endif
GRAPHCAP_DOUBLE_AND_FLOAT(rcbrt, rcbrt)
GRAPHCAP_DOUBLE_AND_FLOAT(erfinv, erfinv)
GRAPHCAP_DOUBLE_AND_FLOAT(erfcinv, erfcinv)
GRAPHCAP_DOUBLE_AND_FLOAT(erfcx, erfcx)
GRAPHCAP_DOUBLE_AND_FLOAT(normcdf, normcdf)
GRAPHCAP_DOUBLE_AND_FLOAT(normcdfinv, normcdfinv)
GRAPHCAP_DOUBLE_AND_FLOAT(cyl_bessel_i0, bessel_i0)
GRAPHCAP_DOUBLE_AND_FLOAT(cyl_bessel_i1, bessel_i1)
#undef GRAPHCAP_DOUBLE_AND_FLOAT

GRAPHCAP_FUNCTION float exp10(float x) { return exp10f(x); }
GRAPHCAP_FUNCTION float j0(float x) { return j0f(x); }
GRAPHCAP_FUNCTION float j1(float x) { return j1f(x); }
GRAPHCAP_FUNCTION float jn(int n, float x) { return jnf(n, x); }
GRAPHCAP_FUNCTION float y0(float x) { return y0f(x); }
GRAPHCAP_FUNCTION float y1(float x) { return y1f(x); }
GRAPHCAP_FUNCTION float yn(int n, float x) { return ynf(n, x); }

GRAPHCAP_FUNCTION void sincos(float x, float *s, float *c) { sincosf(x, s, c); }
GRAPHCAP_FUNCTION void sincospi(double x, double *s, double *c) { *s = sinpi(x), *c = cospi(x); }
GRAPHCAP_FUNCTION void sincospif(float x, float *s, float *c) { *s = sinpif(x), *c = cospif(x); }
GRAPHCAP_FUNCTION void sincospi(float x, float *s, float *c) { sincospif(x, s, c); }

GRAPHCAP_FUNCTION float fdividef(float x, float y) { return x / y; }
GRAPHCAP_FUNCTION double fdivide(double x, double y) { return x / y; }

/* Lengths of vectors, and their reciprocals, without overflow on the way. */
GRAPHCAP_FUNCTION double norm(int n, const double *x) { return graphcap_detail::length(n, x); }
GRAPHCAP_FUNCTION double norm3d(double a, double b, double c) {
    const double x[] = {a, b, c};
    return norm(3, x);
}
GRAPHCAP_FUNCTION double norm4d(double a, double b, double c, double d) {
    const double x[] = {a, b, c, d};
    return norm(4, x);
}
GRAPHCAP_FUNCTION double rnorm(int n, const double *x) { return 1 / norm(n, x); }
GRAPHCAP_FUNCTION double rnorm3d(double a, double b, double c) { return 1 / norm3d(a, b, c); }
GRAPHCAP_FUNCTION double rnorm4d(double a, double b, double c, double d) { return 1 / norm4d(a, b, c, d); }
GRAPHCAP_FUNCTION double rhypot(double x, double y) { return 1 / hypot(x, y); }
GRAPHCAP_FUNCTION float normf(int n, const float *x) { return (float)graphcap_detail::length(n, x); }
GRAPHCAP_FUNCTION float norm3df(float a, float b, float c) { return (float)norm3d(a, b, c); }
GRAPHCAP_FUNCTION float norm4df(float a, float b, float c, float d) { return (float)norm4d(a, b, c, d); }
GRAPHCAP_FUNCTION float rnormf(int n, const float *x) { return (float)(1 / graphcap_detail::length(n, x)); }
GRAPHCAP_FUNCTION float rnorm3df(float a, float b, float c) { return (float)rnorm3d(a, b, c); }
GRAPHCAP_FUNCTION float rnorm4df(float a, float b, float c, float d) { return (float)rnorm4d(a, b, c, d); }
GRAPHCAP_FUNCTION float rhypotf(float x, float y) { return (float)rhypot((double)x, (double)y); }
GRAPHCAP_FUNCTION float rhypot(float x, float y) { return rhypotf(x, y); }

#endif
