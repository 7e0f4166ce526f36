/* Conversions between numbers, and between numbers and their bits.
 *
 * Floating point to integer saturates. A NaN becomes 0, except that from double, and to any 64-bit integer, it becomes
 * the top bit alone (PTX ISA, "cvt").
 */
#ifndef GRAPHCAP_CONVERSIONS_H
#define GRAPHCAP_CONVERSIONS_H

namespace graphcap_detail {

template <class T> GRAPHCAP_FUNCTION T rounded(T x, rounding mode) {
    switch (mode) {
        case down: return std::floor(x);
        case up: return std::ceil(x);
        case to_zero: return std::trunc(x);
        default: return std::nearbyint(x);
    }
}

template <class Integer, class Float> GRAPHCAP_FUNCTION Integer saturated(Float x, rounding mode) {
    typedef std::numeric_limits<Integer> limits;
    if (x != x)
        return sizeof(Float) == 8 || sizeof(Integer) == 8 ? (Integer)((typename std::make_unsigned<Integer>::type)1 << (8 * sizeof(Integer) - 1))
                                                          : (Integer)0;
    x = rounded(x, mode);
    const Float top = (Float)((unsigned long long)limits::max() / 2 + 1) * 2; /* one more than the greatest, a power of two */
    if (x >= top) return limits::max();
    if (limits::is_signed ? x < -top : x < 0) return limits::min();
    return (Integer)x;
}

template <class Float, class Integer> GRAPHCAP_FUNCTION Float from_integer(Integer x, rounding mode) {
    __asm__ volatile("" : "+r"(x));
    if (mode == to_nearest) return (Float)x;
    rounding_section section(mode);
    __asm__ volatile("" : "+r"(x));
    if (sizeof(Integer) == 8 && !std::numeric_limits<Integer>::is_signed && (long long)x < 0) {
        /* There is no instruction for these: half of it, with the lost bit kept sticky, and then doubled. */
        long long half = (long long)((unsigned long long)x >> 1 | ((unsigned long long)x & 1));
        __asm__ volatile("" : "+r"(half));
        return opaque((Float)half) * 2;
    }
    return opaque((Float)x);
}

GRAPHCAP_FUNCTION float to_float(double x, rounding mode) {
    rounding_section section(mode);
    return opaque((float)opaque(x));
}

}  // namespace graphcap_detail

#define GRAPHCAP_CONVERSIONS(suffix, mode)                                                                                                  \
    GRAPHCAP_FUNCTION int __float2int_##suffix(float x) { return graphcap_detail::saturated<int>(x, graphcap_detail::mode); }               \
    GRAPHCAP_FUNCTION unsigned __float2uint_##suffix(float x) { return graphcap_detail::saturated<unsigned>(x, graphcap_detail::mode); }    \
    GRAPHCAP_FUNCTION long long __float2ll_##suffix(float x) { return graphcap_detail::saturated<long long>(x, graphcap_detail::mode); }    \
    GRAPHCAP_FUNCTION unsigned long long __float2ull_##suffix(float x) {                                                                    \
        return graphcap_detail::saturated<unsigned long long>(x, graphcap_detail::mode);                                                    \
    }                                                                                                                                       \
    GRAPHCAP_FUNCTION int __double2int_##suffix(double x) { return graphcap_detail::saturated<int>(x, graphcap_detail::mode); }             \
    GRAPHCAP_FUNCTION unsigned __double2uint_##suffix(double x) { return graphcap_detail::saturated<unsigned>(x, graphcap_detail::mode); }  \
    GRAPHCAP_FUNCTION long long __double2ll_##suffix(double x) { return graphcap_detail::saturated<long long>(x, graphcap_detail::mode); }  \
    GRAPHCAP_FUNCTION unsigned long long __double2ull_##suffix(double x) {                                                                  \
        return graphcap_detail::saturated<unsigned long long>(x, graphcap_detail::mode);                                                    \
    }                                                                                                                                       \
    GRAPHCAP_FUNCTION float __int2float_##suffix(int x) { return graphcap_detail::from_integer<float>(x, graphcap_detail::mode); }          \
    GRAPHCAP_FUNCTION float __uint2float_##suffix(unsigned x) { return graphcap_detail::from_integer<float>((long long)x, graphcap_detail::mode); } \
    GRAPHCAP_FUNCTION float __ll2float_##suffix(long long x) { return graphcap_detail::from_integer<float>(x, graphcap_detail::mode); }     \
    GRAPHCAP_FUNCTION float __ull2float_##suffix(unsigned long long x) { return graphcap_detail::from_integer<float>(x, graphcap_detail::mode); } \
    GRAPHCAP_FUNCTION double __ll2double_##suffix(long long x) { return graphcap_detail::from_integer<double>(x, graphcap_detail::mode); }  \
    GRAPHCAP_FUNCTION double __ull2double_##suffix(unsigned long long x) {                                                                  \
        return graphcap_detail::from_integer<double>(x, graphcap_detail::mode);                                                             \
    }                                                                                                                                       \
    GRAPHCAP_FUNCTION float __double2float_##suffix(double x) { return graphcap_detail::to_float(x, graphcap_detail::mode); }
GRAPHCAP_CONVERSIONS(rn, to_nearest)
GRAPHCAP_CONVERSIONS(rz, to_zero)
GRAPHCAP_CONVERSIONS(ru, up)
GRAPHCAP_CONVERSIONS(rd, down)
#undef GRAPHCAP_CONVERSIONS

GRAPHCAP_FUNCTION double __int2double_rn(int x) { return x; }
GRAPHCAP_FUNCTION double __uint2double_rn(unsigned x) { return x; }

GRAPHCAP_FUNCTION int __float_as_int(float x) { return graphcap_detail::bits_as<int>(x); }
GRAPHCAP_FUNCTION unsigned __float_as_uint(float x) { return graphcap_detail::bits_as<unsigned>(x); }
GRAPHCAP_FUNCTION float __int_as_float(int x) { return graphcap_detail::bits_as<float>(x); }
GRAPHCAP_FUNCTION float __uint_as_float(unsigned x) { return graphcap_detail::bits_as<float>(x); }
GRAPHCAP_FUNCTION long long __double_as_longlong(double x) { return graphcap_detail::bits_as<long long>(x); }
GRAPHCAP_FUNCTION double __longlong_as_double(long long x) { return graphcap_detail::bits_as<double>(x); }
GRAPHCAP_FUNCTION int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
GRAPHCAP_FUNCTION int __double2loint(double x) { return (int)__double_as_longlong(x); }
GRAPHCAP_FUNCTION double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low));
}


#endif
