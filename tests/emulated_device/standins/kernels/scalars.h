// Numbers that the host compiler does not have, or whose arithmetic would cost too much: half, bfloat16, complex.
#pragma once

#include <stdint.h>
#include <string.h>

#include <cmath>
#include <limits>

namespace standins {

// IEEE binary16. Arithmetic is that of float, rounded to nearest even when stored.
struct half {
    uint16_t bits = 0;

    half() = default;
    half(float value) : bits(encode(value)) {}
    operator float() const { return decode(bits); }

    static float decode(uint16_t h) {
        const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, fraction = h & 0x3ffu;
        uint32_t out;
        if (exponent == 31) {
            out = sign | 0x7f800000u | fraction << 13;
        } else if (exponent) {
            out = sign | (exponent + 112) << 23 | fraction << 13;
        } else {
            const float tiny = static_cast<float>(fraction) * 0x1p-24f;
            memcpy(&out, &tiny, 4);
            out |= sign;
        }
        float value;
        memcpy(&value, &out, 4);
        return value;
    }

    static uint16_t encode(float value) {
        uint32_t in;
        memcpy(&in, &value, 4);
        const uint16_t sign = static_cast<uint16_t>(in >> 16 & 0x8000u);
        in &= 0x7fffffffu;
        if (in > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | (in >> 13 & 0x3ffu));  // nan
        if (in >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds past the largest
        if (in < 0x38800000u) {  // subnormal: adding half of one lets float arithmetic round to the right place
            float magnitude;
            memcpy(&magnitude, &in, 4);
            magnitude += 0.5f;
            memcpy(&in, &magnitude, 4);
            return static_cast<uint16_t>(sign | (in - 0x3f000000u));
        }
        return static_cast<uint16_t>(sign | ((in + 0xfffu + (in >> 13 & 1u) - 0x38000000u) >> 13));
    }
};

struct bfloat16 {
    uint16_t bits = 0;

    bfloat16() = default;
    bfloat16(float value) {
        uint32_t in;
        memcpy(&in, &value, 4);
        bits = static_cast<uint16_t>((in & 0x7fffffffu) > 0x7f800000u ? in >> 16 | 0x40u : (in + 0x7fffu + (in >> 16 & 1u)) >> 16);
    }
    operator float() const {
        const uint32_t out = static_cast<uint32_t>(bits) << 16;
        float value;
        memcpy(&value, &out, 4);
        return value;
    }
};

// Complex numbers with the plain formulas (std::complex looks for nans and infinities in every product).
template <class T> struct complex {
    T re, im;

    complex() : re(0), im(0) {}
    complex(T real, T imaginary = 0) : re(real), im(imaginary) {}
    template <class U> explicit complex(const complex<U>& other) : re(static_cast<T>(other.re)), im(static_cast<T>(other.im)) {}
    complex operator+(const complex& o) const { return {re + o.re, im + o.im}; }
    complex operator-(const complex& o) const { return {re - o.re, im - o.im}; }
    complex operator*(const complex& o) const { return {re * o.re - im * o.im, re * o.im + im * o.re}; }
    complex operator/(const complex& o) const {
        if (std::fabs(o.re) >= std::fabs(o.im)) {
            const T ratio = o.im / o.re, scale = o.re + o.im * ratio;
            return {(re + im * ratio) / scale, (im - re * ratio) / scale};
        }
        const T ratio = o.re / o.im, scale = o.re * ratio + o.im;
        return {(re * ratio + im) / scale, (im * ratio - re) / scale};
    }
    complex& operator+=(const complex& o) { return *this = *this + o; }
    bool operator==(const complex& o) const { return re == o.re && im == o.im; }
};

template <class T> T conjugate(T x) { return x; }
template <class T> complex<T> conjugate(complex<T> x) { return {x.re, -x.im}; }

// In what a long sum of these is kept.
template <class T> struct wide { typedef T type; };
template <> struct wide<half> { typedef float type; };
template <> struct wide<float> { typedef double type; };
template <> struct wide<complex<float>> { typedef complex<double> type; };

template <class T> struct real_of { typedef T type; };
template <class T> struct real_of<complex<T>> { typedef T type; };

}  // namespace standins
