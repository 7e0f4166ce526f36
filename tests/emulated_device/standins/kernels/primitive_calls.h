// What the stand-in for CuPy's Thrust and CUB functions hands to its kernels. Included by both.
#pragma once

#include <stdint.h>

namespace standins {

// CuPy's numbers for element types and operations.
enum element { i8, u8, i16, u16, i32, u32, i64, u64, f16, f32, f64, c64, c128, boolean, element_count };
enum operation { sum = 0, minimum = 1, maximum = 2, argmin = 3, argmax = 4, cumsum = 5, cumprod = 6, product = 7 };

constexpr int64_t element_bytes[element_count] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8, 8, 16, 1};

struct sort_call {
    void* data;       // rows of keys, each sorted by itself
    uint64_t* index;  // for argsort and lexsort: the order, as positions in the row
    void* scratch;    // as large as what is moved
    int64_t rows, length, keys;  // keys: of a lexsort, the last the most important
};

struct reduce_call {
    const void* data;
    void* out;
    int64_t segments, length;
    int operation;
};

struct histogram_call {
    const void* data;
    const void* edges;  // null: bins of width one that begin at `lowest`
    int64_t* counts;
    int64_t samples, bins;
    int64_t lowest;
};

}  // namespace standins
