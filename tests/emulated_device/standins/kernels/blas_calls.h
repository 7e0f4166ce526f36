// What the BLAS stand-in hands to its kernels. Included by both.
#pragma once

#include <stdint.h>

namespace standins {

// Where a matrix is: one, or a batch at equal distances, or a batch behind an array of pointers in device memory.
struct matrix {
    void* data;
    int64_t lead;      // leading dimension, in elements
    int64_t distance;  // between the matrices of a batch, in elements
    int pointers;      // data is an array of pointers
};

// A factor that is known at the call (host pointer mode) or read when the kernel runs (device pointer mode).
template <class T> struct factor {
    T value;
    const void* at;
    int half_precision;  // what `at` points to is a half
};

enum operation { as_is = 0, transposed = 1, conjugated = 2 };
enum fill { lower = 0, upper = 1 };
enum side { left = 0, right = 1 };

template <class T> struct gemm_call {
    matrix a, b, c;
    factor<T> alpha, beta;
    int64_t m, n, k, batch;
    int transpose_a, transpose_b;
};

template <class T> struct vector_call {
    T* x;
    T* y;
    void* result;
    int64_t n, stride_x, stride_y;
    factor<T> alpha;
    int conjugate;
};

template <class T> struct matrix_call {
    T *a, *b, *c;
    int64_t m, n, k, lead_a, lead_b, lead_c, stride_x, stride_y;
    factor<T> alpha, beta;
    int transpose_a, transpose_b, uplo, side, unit_diagonal;
};

}  // namespace standins
