/* Arithmetic with the rounding in its name: __fadd_rz and its family.
 *
 * The processor does the rounding. Operands and result pass through empty assembly, so the compiler can neither move the
 * operation out of the section with the other rounding, nor join it with a neighbour into one multiply-add (these
 * functions are documented never to be joined).
 */
#ifndef GRAPHCAP_ROUNDING_H
#define GRAPHCAP_ROUNDING_H

namespace graphcap_detail {

enum rounding : unsigned { to_nearest = 0, down = 0x2000, up = 0x4000, to_zero = 0x6000 }; /* as in MXCSR */

template <class T> GRAPHCAP_FUNCTION T opaque(T value) {
    __asm__ volatile("" : "+x"(value));
    return value;
}

/* While one lives, operations on opaque operands round its way. */
class rounding_section {
public:
    explicit rounding_section(rounding mode) : before(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr((before & ~0x6000u) | mode); }
    ~rounding_section() { __builtin_ia32_ldmxcsr(before); }
    rounding_section(const rounding_section &) = delete;

private:
    unsigned before;
};

}  // namespace graphcap_detail

#define GRAPHCAP_ROUNDED(letter, T, suffix, mode)                                                            \
    GRAPHCAP_FUNCTION T __##letter##add_##suffix(T a, T b) { GRAPHCAP_ROUNDED_BODY(T, mode, opaque(a) + opaque(b)) }  \
    GRAPHCAP_FUNCTION T __##letter##sub_##suffix(T a, T b) { GRAPHCAP_ROUNDED_BODY(T, mode, opaque(a) - opaque(b)) }  \
    GRAPHCAP_FUNCTION T __##letter##mul_##suffix(T a, T b) { GRAPHCAP_ROUNDED_BODY(T, mode, opaque(a) * opaque(b)) }  \
    GRAPHCAP_FUNCTION T __##letter##div_##suffix(T a, T b) { GRAPHCAP_ROUNDED_BODY(T, mode, opaque(a) / opaque(b)) }  \
    GRAPHCAP_FUNCTION T __##letter##rcp_##suffix(T a) { GRAPHCAP_ROUNDED_BODY(T, mode, opaque(T(1)) / opaque(a)) }    \
    GRAPHCAP_FUNCTION T __##letter##sqrt_##suffix(T a) { GRAPHCAP_ROUNDED_BODY(T, mode, std::sqrt(opaque(a))) }
#define GRAPHCAP_ROUNDED_BODY(T, mode, expression)           \
    using graphcap_detail::opaque;                           \
    graphcap_detail::rounding_section section(graphcap_detail::mode); \
    return opaque((T)(expression));

GRAPHCAP_ROUNDED(f, float, rd, down)
GRAPHCAP_ROUNDED(f, float, ru, up)
GRAPHCAP_ROUNDED(f, float, rz, to_zero)
GRAPHCAP_ROUNDED(d, double, rd, down)
GRAPHCAP_ROUNDED(d, double, ru, up)
GRAPHCAP_ROUNDED(d, double, rz, to_zero)

/* The usual rounding needs no section. */
#undef GRAPHCAP_ROUNDED_BODY
#define GRAPHCAP_ROUNDED_BODY(T, mode, expression) \
    using graphcap_detail::opaque;                 \
    return opaque((T)(expression));
GRAPHCAP_ROUNDED(f, float, rn, to_nearest)
GRAPHCAP_ROUNDED(d, double, rn, to_nearest)

#undef GRAPHCAP_ROUNDED
#undef GRAPHCAP_ROUNDED_BODY

#define GRAPHCAP_FMA(name, T, mode)                                                                                   \
    GRAPHCAP_FUNCTION T name(T a, T b, T c) {                                                                         \
        using graphcap_detail::opaque;                                                                                \
        graphcap_detail::rounding_section section(graphcap_detail::mode);                                             \
        return opaque(std::fma(opaque(a), opaque(b), opaque(c)));                                            \
    }
GRAPHCAP_FMA(__fmaf_rn, float, to_nearest)
GRAPHCAP_FMA(__fmaf_rd, float, down)
GRAPHCAP_FMA(__fmaf_ru, float, up)
GRAPHCAP_FMA(__fmaf_rz, float, to_zero)
GRAPHCAP_FMA(__fma_rn, double, to_nearest)
GRAPHCAP_FMA(__fma_rd, double, down)
GRAPHCAP_FMA(__fma_ru, double, up)
GRAPHCAP_FMA(__fma_rz, double, to_zero)
#undef GRAPHCAP_FMA

GRAPHCAP_FUNCTION float __fmaf_ieee_rn(float a, float b, float c) { return __fmaf_rn(a, b, c); }
GRAPHCAP_FUNCTION float __fmaf_ieee_rd(float a, float b, float c) { return __fmaf_rd(a, b, c); }
GRAPHCAP_FUNCTION float __fmaf_ieee_ru(float a, float b, float c) { return __fmaf_ru(a, b, c); }
GRAPHCAP_FUNCTION float __fmaf_ieee_rz(float a, float b, float c) { return __fmaf_rz(a, b, c); }

#endif
