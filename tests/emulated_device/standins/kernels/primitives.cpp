// Sorting, scanning and reducing, for every element type that CuPy's Thrust and CUB modules take. A thread does a row, or a
// segment. Sorts are stable; nans come last, and complex numbers go by real and then imaginary part, as in NumPy.
#include "graphcap_kernel.h"

#include "primitive_calls.h"
#include "scalars.h"

#include <algorithm>
#include <type_traits>

namespace standins {
namespace {

template <class T> bool before(T a, T b) { return a < b; }
template <> bool before(float a, float b) { return a < b || (std::isnan(b) && !std::isnan(a)); }
template <> bool before(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }
template <> bool before(half a, half b) { return before(static_cast<float>(a), static_cast<float>(b)); }

// NumPy's order: R + Rj, R + nan j, nan + R j, nan + nan j.
template <class T> bool before(complex<T> a, complex<T> b) {
    const bool nan_a = std::isnan(a.re), nan_b = std::isnan(b.re), late_a = std::isnan(a.im), late_b = std::isnan(b.im);
    if (nan_a != nan_b) return nan_b;
    if (!nan_a && late_a != late_b) return late_b;
    if (!nan_a && a.re != b.re) return a.re < b.re;
    return before(a.im, b.im);
}

struct Earlier {
    template <class T> bool operator()(const T& a, const T& b) const { return before(a, b); }
};

// A stable merge sort between two arrays. The result lies in the first.
template <class V, class Less> void merge_sort(V* values, V* scratch, int64_t n, Less less) {
    constexpr int64_t run = 16;
    for (int64_t start = 0; start < n; start += run)
        for (int64_t i = start + 1, end = std::min(start + run, n); i < end; ++i) {
            const V value = values[i];
            int64_t j = i;
            for (; j > start && less(value, values[j - 1]); --j) values[j] = values[j - 1];
            values[j] = value;
        }
    V *from = values, *to = scratch;
    for (int64_t width = run; width < n; width *= 2) {
        for (int64_t start = 0; start < n; start += 2 * width) {
            const int64_t middle = std::min(start + width, n), end = std::min(start + 2 * width, n);
            std::merge(from + start, from + middle, from + middle, from + end, to + start, less);
        }
        std::swap(from, to);
    }
    if (from != values) std::copy(from, from + n, values);
}

template <class Row> void each_row(int64_t rows, Row one) {
    for (int64_t row = GRAPHCAP_BLOCK_X; row < rows; row += GRAPHCAP_GRID_X) one(row);
}

template <class T> void sort(sort_call call) {
    each_row(call.rows, [&](int64_t row) {
        const int64_t start = row * call.length;
        merge_sort(static_cast<T*>(call.data) + start, static_cast<T*>(call.scratch) + start, call.length, Earlier());
    });
}
template <> void sort<bool>(sort_call call) { sort<uint8_t>(call); }

template <class T> void order_by(const T* keys, uint64_t* index, uint64_t* scratch, int64_t n) {
    merge_sort(index, scratch, n, [keys](uint64_t a, uint64_t b) { return before(keys[a], keys[b]); });
}

template <class T> void argsort(sort_call call) {
    each_row(call.rows, [&](int64_t row) {
        const int64_t start = row * call.length;
        uint64_t* index = call.index + start;
        for (int64_t i = 0; i < call.length; ++i) index[i] = static_cast<uint64_t>(i);
        order_by(static_cast<const T*>(call.data) + start, index, static_cast<uint64_t*>(call.scratch) + start, call.length);
    });
}

template <class T> void lexsort(sort_call call) {
    if (GRAPHCAP_BLOCK_X) return;
    for (int64_t i = 0; i < call.length; ++i) call.index[i] = static_cast<uint64_t>(i);
    for (int64_t key = 0; key < call.keys; ++key)
        order_by(static_cast<const T*>(call.data) + key * call.length, call.index, static_cast<uint64_t*>(call.scratch), call.length);
}

// In what a sum is kept: integers wrap as their type does.
template <class T> struct sum_of { typedef typename wide<T>::type type; };
template <> struct sum_of<bool> { typedef uint8_t type; };

// In what a product is kept: a complex one that overflows on the way is nan, as on a GPU, and not the infinity that it would
// be if it were cut down at the end.
template <class T> struct product_of : sum_of<T> {};
template <class T> struct product_of<complex<T>> { typedef complex<T> type; };

template <class T> bool is_nan(T) { return false; }
template <> bool is_nan(float x) { return std::isnan(x); }
template <> bool is_nan(double x) { return std::isnan(x); }
template <> bool is_nan(half x) { return std::isnan(static_cast<float>(x)); }
template <class T> bool is_nan(complex<T> x) { return std::isnan(x.re) || std::isnan(x.im); }

// Whether a takes the place of b as the extreme: nan wins, and the first of two.
template <class T> bool beats(T a, T b, bool largest) {
    if (is_nan(b)) return false;
    if (is_nan(a)) return true;
    return largest ? before(b, a) : before(a, b);
}

// What CUB writes for argmin and argmax: CuPy reads the first four bytes.
template <class T> int64_t extreme(const T* x, int64_t n, bool largest) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; ++i)
        if (beats(x[i], x[best], largest)) best = i;
    return best;
}

template <class T> void reduce(reduce_call call) {
    typedef typename sum_of<T>::type W;
    each_row(call.segments, [&](int64_t segment) {
        const T* x = static_cast<const T*>(call.data) + segment * call.length;
        T& out = static_cast<T*>(call.out)[segment];
        switch (call.operation) {
            case sum: {
                W total = W(0);
                for (int64_t i = 0; i < call.length; ++i) total = W(total + W(x[i]));
                out = T(total);
                break;
            }
            case product: {
                typedef typename product_of<T>::type P;
                P total = P(1);
                for (int64_t i = 0; i < call.length; ++i) total = P(total * P(x[i]));
                out = T(total);
                break;
            }
            case minimum:
            case maximum:
                out = x[extreme(x, call.length, call.operation == maximum)];
                break;
            case argmin:
            case argmax:
                *static_cast<int32_t*>(call.out) = static_cast<int32_t>(extreme(x, call.length, call.operation == argmax));
        }
    });
}

// In place, from left to right.
template <class T> void scan(reduce_call call) {
    if (GRAPHCAP_BLOCK_X) return;
    typedef typename sum_of<T>::type W;
    T* x = static_cast<T*>(call.out);
    W total = W(call.operation == cumprod ? 1 : 0);
    for (int64_t i = 0; i < call.length; ++i) {
        total = W(call.operation == cumprod ? total * W(x[i]) : total + W(x[i]));
        x[i] = T(total);
    }
}

// Bins are half open, the last one too; CuPy moves its last edge. Samples in no bin are left out.
template <class T> void histogram(histogram_call call) {
    if (GRAPHCAP_BLOCK_X) return;
    typedef typename std::conditional<std::is_integral<T>::value, double, T>::type Edge;
    const Edge* edges = static_cast<const Edge*>(call.edges);
    const T* x = static_cast<const T*>(call.data);
    std::fill(call.counts, call.counts + call.bins, 0);
    for (int64_t i = 0; i < call.samples; ++i) {
        int64_t bin = -1;
        if (edges) {
            const Edge value = static_cast<Edge>(x[i]);
            if (is_nan(value)) continue;
            bin = std::upper_bound(edges, edges + call.bins + 1, value) - edges - 1;
        } else {
            bin = static_cast<int64_t>(x[i]) - call.lowest;
        }
        if (bin >= 0 && bin < call.bins) ++call.counts[bin];
    }
}

typedef complex<float> cfloat;
typedef complex<double> cdouble;

#define REGISTER(name, ...) graphcap_detail::entry<decltype(&__VA_ARGS__)>::of<&__VA_ARGS__> entry_##name(#name);
#define REGISTER_REAL(name)          \
    REGISTER(name##_0, name<int8_t>)   \
    REGISTER(name##_1, name<uint8_t>)  \
    REGISTER(name##_2, name<int16_t>)  \
    REGISTER(name##_3, name<uint16_t>) \
    REGISTER(name##_4, name<int32_t>)  \
    REGISTER(name##_5, name<uint32_t>) \
    REGISTER(name##_6, name<int64_t>)  \
    REGISTER(name##_7, name<uint64_t>) \
    REGISTER(name##_8, name<half>)     \
    REGISTER(name##_9, name<float>)    \
    REGISTER(name##_10, name<double>)  \
    REGISTER(name##_13, name<bool>)
#define REGISTER_ALL(name)           \
    REGISTER_REAL(name)              \
    REGISTER(name##_11, name<cfloat>)  \
    REGISTER(name##_12, name<cdouble>)

REGISTER_ALL(sort)
REGISTER_ALL(argsort)
REGISTER_ALL(lexsort)
REGISTER_ALL(reduce)
REGISTER_ALL(scan)
REGISTER_REAL(histogram)

}  // namespace
}  // namespace standins
