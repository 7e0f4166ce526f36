// What the Fourier transform stand-in hands to its kernels. Included by both.
#pragma once

#include <stdint.h>

namespace standins {

constexpr int most_axes = 3;

// Where an element of a batch lies: batch * distance + (index in a box of `box`) * stride, in elements.
struct layout {
    int64_t box[most_axes];
    int64_t stride, distance;
};

struct fft_call {
    const void* in;
    void* out;
    void* scratch;  // `scratch_bytes` for each block
    int64_t scratch_bytes;
    int64_t length[most_axes];
    layout from, to;
    int64_t batch;
    int axes;
    int sign;  // of the exponent: -1 forward, 1 inverse
};

// The length of the power of two by which the transform of n goes (Bluestein), or n where n has small factors only.
inline int64_t working_length(int64_t n) {
    int64_t rest = n;
    for (int64_t p = 2; p <= 13; ++p)
        while (rest % p == 0) rest /= p;
    if (rest == 1) return n;
    int64_t m = 1;
    while (m < 2 * n - 1) m *= 2;
    return m;
}

// In complex<double>: the box, two lines, and what a transform needs.
inline int64_t fft_scratch_bytes(const int64_t* length, int axes) {
    int64_t total = 1, longest = 1;
    for (int i = 0; i < axes; ++i) {
        total *= length[i];
        const int64_t working = working_length(length[i]);
        if (working > longest) longest = working;
    }
    return (total + 7 * longest) * 16;
}

}  // namespace standins
