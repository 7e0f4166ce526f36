/* The fast float intrinsics. They are exact here, where a GPU is approximate; the limits that the guide names are kept.
 *
 * The C library declares several of these names for itself, so they are macros, set after its headers were read.
 */
#ifndef GRAPHCAP_FAST_MATH_H
#define GRAPHCAP_FAST_MATH_H

#define __expf graphcap_expf
#define __exp10f graphcap_exp10f
#define __logf graphcap_logf
#define __log2f graphcap_log2f
#define __log10f graphcap_log10f
#define __sinf graphcap_sinf
#define __cosf graphcap_cosf
#define __tanf graphcap_tanf
#define __tanhf graphcap_tanhf
#define __sincosf graphcap_sincosf
#define __powf graphcap_powf
#define __isnan graphcap_isnan
#define __isnanf graphcap_isnan
#define __isinf graphcap_isinf
#define __isinff graphcap_isinf
#define __finite graphcap_finite
#define __finitef graphcap_finite
#define __signbit graphcap_signbit
#define __signbitf graphcap_signbit

GRAPHCAP_FUNCTION float __expf(float x) { return expf(x); }
GRAPHCAP_FUNCTION float __exp10f(float x) { return exp10f(x); }
GRAPHCAP_FUNCTION float __logf(float x) { return logf(x); }
GRAPHCAP_FUNCTION float __log2f(float x) { return log2f(x); }
GRAPHCAP_FUNCTION float __log10f(float x) { return log10f(x); }
GRAPHCAP_FUNCTION float __sinf(float x) { return sinf(x); }
GRAPHCAP_FUNCTION float __cosf(float x) { return cosf(x); }
GRAPHCAP_FUNCTION float __tanf(float x) { return tanf(x); }
GRAPHCAP_FUNCTION float __tanhf(float x) { return tanhf(x); }
GRAPHCAP_FUNCTION void __sincosf(float x, float *s, float *c) { sincosf(x, s, c); }
GRAPHCAP_FUNCTION float __powf(float x, float y) { return powf(x, y); }
GRAPHCAP_FUNCTION int __isnan(double x) { return std::isnan(x); }
GRAPHCAP_FUNCTION int __isinf(double x) { return std::isinf(x); }
GRAPHCAP_FUNCTION int __finite(double x) { return std::isfinite(x); }
GRAPHCAP_FUNCTION int __signbit(double x) { return std::signbit(x); }

/* Divisors between 2^126 and 2^128 give 0, and NaN for an infinite dividend. */
GRAPHCAP_FUNCTION float __fdividef(float x, float y) {
    const float size = std::fabs(y);
    if (size > 0x1p126f && !std::isinf(y)) return std::isinf(x) ? NAN : std::copysign(0.0f, x * std::copysign(1.0f, y));
    return x / y;
}
GRAPHCAP_FUNCTION float __frsqrt_rn(float x) { return (float)(1 / std::sqrt((double)x)); }
/* Into [0, 1]; a NaN becomes 0. */
GRAPHCAP_FUNCTION float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1.0f : 0.0f; }
GRAPHCAP_FUNCTION float saturate(float x) { return __saturatef(x); }

#endif
