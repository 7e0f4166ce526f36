/* The arithmetic behind half and bfloat16: numbers of 16 bits as words, converted with any rounding.
 *
 * Sums, products, quotients and roots of such numbers can be rounded to float first and then to 16 bits, as float has more
 * than twice their digits; a multiply-add cannot, see `fused`.
 */
#ifndef GRAPHCAP_SMALL_FLOAT_H
#define GRAPHCAP_SMALL_FLOAT_H

#include "../graphcap_cuda.h"

namespace graphcap_detail {

/* The formats differ in how many of the 15 bits are the fraction's. */
template <int fraction> struct small_format {
    static constexpr int bias = (1 << (14 - fraction)) - 1, least = 1 - bias; /* least exponent of a normal number */
    static constexpr unsigned short infinity = (unsigned short)(0x7fffu >> fraction << fraction), nan = 0x7fff;

    static unsigned short from_double(double x, rounding mode) {
        const unsigned long long word = bits_as<unsigned long long>(x);
        const unsigned short sign = (unsigned short)(word >> 48 & 0x8000u);
        if (x != x) return nan;
        if (std::isinf(x)) return sign | infinity;
        if (x == 0) return sign;
        const int field = (int)(word >> 52 & 2047), exponent = field ? field - 1023 : -1022;
        const unsigned long long digits = (word & ((1ull << 52) - 1)) | (field ? 1ull << 52 : 0); /* |x| = digits / 2^52 * 2^exponent */
        const int at_least = exponent < least ? least : exponent;
        const int shift = 52 + at_least - fraction - exponent; /* bits that do not fit */
        unsigned long long kept = shift > 63 ? 0 : digits >> shift;
        const unsigned long long rest = shift > 63 ? 1 : digits & ((1ull << shift) - 1);
        const unsigned long long half = shift > 63 ? 2 : 1ull << (shift - 1);
        const bool away = mode == to_nearest ? rest > half || (rest == half && (kept & 1)) : mode == up ? rest && !sign : mode == down ? rest && sign : false;
        kept += away;
        /* The leading digit counts as one step of the exponent; a carry moves it on by itself. */
        const unsigned long long result = ((unsigned long long)(at_least - least) << fraction) + kept;
        if (result >= infinity) {
            const bool finite = mode == to_zero || (mode == up && sign) || (mode == down && !sign);
            return sign | (unsigned short)(infinity - finite);
        }
        return sign | (unsigned short)result;
    }
    static unsigned short from_float(float x) {
#ifdef __F16C__
        if (fraction == 10) { /* the instruction takes four at a time; 0: to nearest */
            typedef float four_floats __attribute__((vector_size(16)));
            return x == x ? (unsigned short)__builtin_ia32_vcvtps2ph(four_floats{x}, 0)[0] : nan;
        }
#endif
        if (fraction == 7) {
            const unsigned word = bits_as<unsigned>(x);
            return x == x ? (unsigned short)((word + 0x7fffu + (word >> 16 & 1)) >> 16) : nan;
        }
        return from_double(x, to_nearest);
    }
    /* Integers of 64 bits have more digits than double: what is lost is kept as a last bit that is set. */
    static unsigned short from_unsigned(unsigned long long x, rounding mode) {
        if (x >> 53) return from_double((double)(x >> 11 | ((x & 0x7ff) != 0)) * 2048, mode);
        return from_double((double)x, mode);
    }
    static unsigned short from_signed(long long x, rounding mode) {
        if (x >= 0) return from_unsigned((unsigned long long)x, mode);
        const rounding mirrored = mode == up ? down : mode == down ? up : mode;
        return 0x8000u | from_unsigned(-(unsigned long long)x, mirrored);
    }
    static float to_float(unsigned short word) {
        if (fraction == 7) return bits_as<float>((unsigned)word << 16);
#ifdef __F16C__
        typedef short eight_words __attribute__((vector_size(16)));
        return __builtin_ia32_vcvtph2ps(eight_words{(short)word})[0];
#else
        const unsigned sign = (word & 0x8000u) << 16, exponent = (word & 0x7fffu) >> fraction, digits = word & ((1u << fraction) - 1);
        if (exponent == (0x7fffu >> fraction)) return bits_as<float>(sign | (digits ? 0x7fc00000u : 0x7f800000u) | digits << (23 - fraction));
        const float size = exponent ? bits_as<float>((exponent + 127 - bias) << 23 | digits << (23 - fraction))
                                    : (float)digits * bits_as<float>((unsigned)(127 + least - fraction) << 23);
        return sign ? -size : size;
#endif
    }
};

/* a * b + c of small numbers, rounded once by the caller: the product is exact, and if the sum is not, its last bit is set
   ("round to odd"), so that it cannot look like a tie. */
GRAPHCAP_FUNCTION double fused(double a, double b, double c) {
    const double product = opaque(a * b), sum = opaque(product + c);
    if (!std::isfinite(sum)) return sum;
    const double added = opaque(sum - product), lost = (product - opaque(sum - added)) + (c - added);
    if (lost == 0) return sum;
    unsigned long long word = bits_as<unsigned long long>(sum);
    if ((lost < 0) != (sum < 0)) --word; /* towards zero */
    return bits_as<double>(word | 1);
}

}  // namespace graphcap_detail

#endif
