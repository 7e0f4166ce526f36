/* Integer intrinsics: bit counts, wide products, averages, byte shuffles, dot products. */
#ifndef GRAPHCAP_BITS_H
#define GRAPHCAP_BITS_H

GRAPHCAP_FUNCTION int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
GRAPHCAP_FUNCTION int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
GRAPHCAP_FUNCTION int __ffs(int x) { return __builtin_ffs(x); }
GRAPHCAP_FUNCTION int __ffsll(long long x) { return __builtin_ffsll(x); }
GRAPHCAP_FUNCTION int __popc(unsigned x) { return __builtin_popcount(x); }
GRAPHCAP_FUNCTION int __popcll(unsigned long long x) { return __builtin_popcountll(x); }

GRAPHCAP_FUNCTION unsigned __brev(unsigned x) {
    x = (x & 0x55555555u) << 1 | (x >> 1 & 0x55555555u);
    x = (x & 0x33333333u) << 2 | (x >> 2 & 0x33333333u);
    x = (x & 0x0f0f0f0fu) << 4 | (x >> 4 & 0x0f0f0f0fu);
    return __builtin_bswap32(x);
}
GRAPHCAP_FUNCTION unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}

/* Each nibble of the selector picks one of eight bytes: x's are 0 to 3, y's 4 to 7. With the nibble's top bit set the
   byte's sign is spread over the whole byte instead. */
GRAPHCAP_FUNCTION unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned nibble = selector >> 4 * i & 15;
        unsigned byte = (unsigned)(bytes >> 8 * (nibble & 7)) & 255;
        if (nibble & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}

/* The shift is taken modulo 32, or clamped to 32 in the forms that end in c. */
GRAPHCAP_FUNCTION unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
GRAPHCAP_FUNCTION unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
GRAPHCAP_FUNCTION unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
GRAPHCAP_FUNCTION unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

GRAPHCAP_FUNCTION int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
GRAPHCAP_FUNCTION unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
GRAPHCAP_FUNCTION long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
GRAPHCAP_FUNCTION unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
GRAPHCAP_FUNCTION int mulhi(int x, int y) { return __mulhi(x, y); }
GRAPHCAP_FUNCTION unsigned mulhi(unsigned x, unsigned y) { return __umulhi(x, y); }
GRAPHCAP_FUNCTION unsigned umulhi(unsigned x, unsigned y) { return __umulhi(x, y); }
GRAPHCAP_FUNCTION long long mul64hi(long long x, long long y) { return __mul64hi(x, y); }
GRAPHCAP_FUNCTION unsigned long long umul64hi(unsigned long long x, unsigned long long y) { return __umul64hi(x, y); }

/* The low 32 bits of the product of the low 24 bits of each. */
GRAPHCAP_FUNCTION int __mul24(int x, int y) {
    return (int)(unsigned)((long long)((int)((unsigned)x << 8) >> 8) * ((int)((unsigned)y << 8) >> 8));
}
GRAPHCAP_FUNCTION unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffffu) * (y & 0xffffffu); }
GRAPHCAP_FUNCTION int mul24(int x, int y) { return __mul24(x, y); }
GRAPHCAP_FUNCTION unsigned umul24(unsigned x, unsigned y) { return __umul24(x, y); }

GRAPHCAP_FUNCTION unsigned __sad(int x, int y, unsigned z) {
    return z + (x > y ? (unsigned)x - (unsigned)y : (unsigned)y - (unsigned)x);
}
GRAPHCAP_FUNCTION unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x > y ? x - y : y - x); }
GRAPHCAP_FUNCTION int __hadd(int x, int y) { return (int)(((long long)x + y) >> 1); }
GRAPHCAP_FUNCTION int __rhadd(int x, int y) { return (int)(((long long)x + y + 1) >> 1); }
GRAPHCAP_FUNCTION unsigned __uhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y) >> 1); }
GRAPHCAP_FUNCTION unsigned __urhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y + 1) >> 1); }

/* The offset-th set bit at or above the base (below it, if the offset is negative); all ones if there is none. */
GRAPHCAP_FUNCTION unsigned __fns(unsigned mask, unsigned base, int offset) {
    if (offset == 0) return mask >> (base & 31) & 1 ? base : ~0u;
    const int step = offset > 0 ? 1 : -1;
    int left = offset > 0 ? offset : -offset;
    for (int bit = (int)base; bit >= 0 && bit < 32; bit += step)
        if ((mask >> bit & 1) && --left == 0) return (unsigned)bit;
    return ~0u;
}

namespace graphcap_detail {

/* Applies a function to each 8- or 16-bit part of the words. */
template <class Part, class F> GRAPHCAP_FUNCTION unsigned by_parts(unsigned x, unsigned y, F f) {
    unsigned result = 0;
    for (unsigned shift = 0; shift < 32; shift += 8 * sizeof(Part)) {
        const auto part = (typename std::make_unsigned<Part>::type)f((Part)(x >> shift), (Part)(y >> shift));
        result |= (unsigned)part << shift;
    }
    return result;
}

}  // namespace graphcap_detail

GRAPHCAP_FUNCTION int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; ++i) c += (signed char)(a >> 8 * i) * (signed char)(b >> 8 * i);
    return c;
}
GRAPHCAP_FUNCTION unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; ++i) c += (unsigned)(unsigned char)(a >> 8 * i) * (unsigned char)(b >> 8 * i);
    return c;
}
GRAPHCAP_FUNCTION int __dp2a_lo(int a, int b, int c) {
    return c + (short)a * (signed char)b + (short)(a >> 16) * (signed char)(b >> 8);
}
GRAPHCAP_FUNCTION int __dp2a_hi(int a, int b, int c) { return __dp2a_lo(a, b >> 16, c); }
GRAPHCAP_FUNCTION unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) {
    return c + (a & 0xffffu) * (b & 0xffu) + (a >> 16) * (b >> 8 & 0xffu);
}
GRAPHCAP_FUNCTION unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) { return __dp2a_lo(a, b >> 16, c); }

/* SIMD within a word: four bytes (…4) or two halves (…2), signed (s) or not (u). */
#define GRAPHCAP_SIMD(name, Part, expression)                                                           \
    GRAPHCAP_FUNCTION unsigned name(unsigned x, unsigned y) {                                            \
        return graphcap_detail::by_parts<Part>(x, y, [](int a, int b) { return (int)(expression); });    \
    }
#define GRAPHCAP_SIMD_SIZES(stem, suffix, sign, expression)                                             \
    GRAPHCAP_SIMD(stem##suffix##4, sign char, expression)                                                \
    GRAPHCAP_SIMD(stem##suffix##2, sign short, expression)
#define GRAPHCAP_SIMD_BOTH(stem, expression)                                                            \
    GRAPHCAP_SIMD_SIZES(stem, s, signed, expression)                                                     \
    GRAPHCAP_SIMD_SIZES(stem, u, unsigned, expression)

GRAPHCAP_SIMD_SIZES(__vadd, , unsigned, a + b)
GRAPHCAP_SIMD_SIZES(__vsub, , unsigned, a - b)
GRAPHCAP_SIMD_SIZES(__vcmpeq, , unsigned, a == b ? -1 : 0)
GRAPHCAP_SIMD_SIZES(__vcmpne, , unsigned, a != b ? -1 : 0)
GRAPHCAP_SIMD_SIZES(__vseteq, , unsigned, a == b)
GRAPHCAP_SIMD_SIZES(__vsetne, , unsigned, a != b)
GRAPHCAP_SIMD_BOTH(__vcmpgt, a > b ? -1 : 0)
GRAPHCAP_SIMD_BOTH(__vcmpge, a >= b ? -1 : 0)
GRAPHCAP_SIMD_BOTH(__vcmplt, a < b ? -1 : 0)
GRAPHCAP_SIMD_BOTH(__vcmple, a <= b ? -1 : 0)
GRAPHCAP_SIMD_BOTH(__vsetgt, a > b)
GRAPHCAP_SIMD_BOTH(__vsetge, a >= b)
GRAPHCAP_SIMD_BOTH(__vsetlt, a < b)
GRAPHCAP_SIMD_BOTH(__vsetle, a <= b)
GRAPHCAP_SIMD_BOTH(__vmax, a > b ? a : b)
GRAPHCAP_SIMD_BOTH(__vmin, a < b ? a : b)
GRAPHCAP_SIMD_BOTH(__vabsdiff, a > b ? a - b : b - a)
GRAPHCAP_SIMD_SIZES(__vhadd, u, unsigned, (a + b) >> 1)
GRAPHCAP_SIMD_SIZES(__vavg, s, signed, (a + b + (a + b >= 0)) >> 1)
GRAPHCAP_SIMD_SIZES(__vavg, u, unsigned, (a + b + 1) >> 1)
GRAPHCAP_SIMD(__vaddus4, unsigned char, a + b > 255 ? 255 : a + b)
GRAPHCAP_SIMD(__vaddus2, unsigned short, a + b > 65535 ? 65535 : a + b)
GRAPHCAP_SIMD(__vaddss4, signed char, a + b > 127 ? 127 : a + b < -128 ? -128 : a + b)
GRAPHCAP_SIMD(__vaddss2, signed short, a + b > 32767 ? 32767 : a + b < -32768 ? -32768 : a + b)
GRAPHCAP_SIMD_SIZES(__vsub, us, unsigned, a > b ? a - b : 0)
GRAPHCAP_SIMD(__vsubss4, signed char, a - b > 127 ? 127 : a - b < -128 ? -128 : a - b)
GRAPHCAP_SIMD(__vsubss2, signed short, a - b > 32767 ? 32767 : a - b < -32768 ? -32768 : a - b)

#undef GRAPHCAP_SIMD_BOTH
#undef GRAPHCAP_SIMD_SIZES
#undef GRAPHCAP_SIMD

#define GRAPHCAP_SIMD_ONE(stem, expression)                                                                             \
    GRAPHCAP_FUNCTION unsigned stem##4(unsigned x) {                                                                     \
        return graphcap_detail::by_parts<signed char>(x, 0, [](int a, int) { constexpr int top = 127; (void)top; return (int)(expression); }); \
    }                                                                                                                    \
    GRAPHCAP_FUNCTION unsigned stem##2(unsigned x) {                                                                     \
        return graphcap_detail::by_parts<signed short>(x, 0, [](int a, int) { constexpr int top = 32767; (void)top; return (int)(expression); }); \
    }
GRAPHCAP_SIMD_ONE(__vabs, a < 0 ? -a : a)
GRAPHCAP_SIMD_ONE(__vneg, -a)
GRAPHCAP_SIMD_ONE(__vabsss, a < -top ? top : a < 0 ? -a : a)
GRAPHCAP_SIMD_ONE(__vnegss, a < -top ? top : -a)
#undef GRAPHCAP_SIMD_ONE

GRAPHCAP_FUNCTION unsigned __vsads4(unsigned x, unsigned y) {
    unsigned sum = 0;
    for (int i = 0; i < 32; i += 8) sum += (unsigned)__builtin_abs((signed char)(x >> i) - (signed char)(y >> i));
    return sum;
}
GRAPHCAP_FUNCTION unsigned __vsadu4(unsigned x, unsigned y) {
    unsigned sum = 0;
    for (int i = 0; i < 32; i += 8) sum += (unsigned)__builtin_abs((int)(x >> i & 255) - (int)(y >> i & 255));
    return sum;
}

#endif
