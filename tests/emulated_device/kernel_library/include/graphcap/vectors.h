/* Vector types: members, sizes and alignments of the table in the CUDA C++ programming guide, section "Built-in Vector Types". */
#ifndef GRAPHCAP_VECTORS_H
#define GRAPHCAP_VECTORS_H

#define GRAPHCAP_VECTORS(name, T, align2, align4)                                                          \
    struct name##1 { T x; };                                                                               \
    struct __attribute__((aligned(align2))) name##2 { T x, y; };                                           \
    struct name##3 { T x, y, z; };                                                                         \
    struct __attribute__((aligned(align4))) name##4 { T x, y, z, w; };                                     \
    GRAPHCAP_FUNCTION name##1 make_##name##1(T x) { return name##1{x}; }                                   \
    GRAPHCAP_FUNCTION name##2 make_##name##2(T x, T y) { return name##2{x, y}; }                           \
    GRAPHCAP_FUNCTION name##3 make_##name##3(T x, T y, T z) { return name##3{x, y, z}; }                   \
    GRAPHCAP_FUNCTION name##4 make_##name##4(T x, T y, T z, T w) { return name##4{x, y, z, w}; }

/* Since CUDA 13 the 32-byte vectors also exist with their alignment in the name. */
#define GRAPHCAP_VECTORS_ALIGNED(name, T, align)                                                           \
    struct __attribute__((aligned(align))) name##4_##align##a { T x, y, z, w; };                           \
    GRAPHCAP_FUNCTION name##4_##align##a make_##name##4_##align##a(T x, T y, T z, T w) {                   \
        return name##4_##align##a{x, y, z, w};                                                             \
    }

GRAPHCAP_VECTORS(char, signed char, 2, 4)
GRAPHCAP_VECTORS(uchar, unsigned char, 2, 4)
GRAPHCAP_VECTORS(short, short, 4, 8)
GRAPHCAP_VECTORS(ushort, unsigned short, 4, 8)
GRAPHCAP_VECTORS(int, int, 8, 16)
GRAPHCAP_VECTORS(uint, unsigned int, 8, 16)
GRAPHCAP_VECTORS(long, long, 16, 16)
GRAPHCAP_VECTORS(ulong, unsigned long, 16, 16)
GRAPHCAP_VECTORS(longlong, long long, 16, 16)
GRAPHCAP_VECTORS(ulonglong, unsigned long long, 16, 16)
GRAPHCAP_VECTORS(float, float, 8, 16)
GRAPHCAP_VECTORS(double, double, 16, 16)
GRAPHCAP_VECTORS_ALIGNED(long, long, 16)
GRAPHCAP_VECTORS_ALIGNED(long, long, 32)
GRAPHCAP_VECTORS_ALIGNED(ulong, unsigned long, 16)
GRAPHCAP_VECTORS_ALIGNED(ulong, unsigned long, 32)
GRAPHCAP_VECTORS_ALIGNED(longlong, long long, 16)
GRAPHCAP_VECTORS_ALIGNED(longlong, long long, 32)
GRAPHCAP_VECTORS_ALIGNED(ulonglong, unsigned long long, 16)
GRAPHCAP_VECTORS_ALIGNED(ulonglong, unsigned long long, 32)
GRAPHCAP_VECTORS_ALIGNED(double, double, 16)
GRAPHCAP_VECTORS_ALIGNED(double, double, 32)

#undef GRAPHCAP_VECTORS
#undef GRAPHCAP_VECTORS_ALIGNED

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return uint3{x, y, z}; }
};

#endif
