// The kernels of the BLAS stand-in. Matrices are column-major, as in BLAS. Sums of float are kept in double in the dot
// products, and in float in products of matrices (half and bfloat16 too).
#include "graphcap_kernel.h"

#include "blas_calls.h"
#include "scalars.h"

namespace standins {
namespace {

constexpr int tile = 32, depth = 64, rows_per_thread = 64;

int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

template <class T> T read(const factor<T>& f) { return f.at ? *static_cast<const T*>(f.at) : f.value; }
template <> float read(const factor<float>& f) {
    if (!f.at) return f.value;
    return f.half_precision ? static_cast<float>(*static_cast<const half*>(f.at)) : *static_cast<const float*>(f.at);
}

// Negative strides run from the end, as in BLAS.
template <class T> T& at(T* x, int64_t i, int64_t n, int64_t stride) {
    return x[stride >= 0 ? i * stride : (i - n + 1) * stride];
}

template <class T> T element(const T* a, int64_t lead, int64_t row, int64_t column, int operation) {
    if (operation == as_is) return a[row + column * lead];
    const T value = a[column + row * lead];
    return operation == conjugated ? conjugate(value) : value;
}

template <class T> T* place(const matrix& m, int64_t batch) {
    if (m.pointers) return static_cast<T**>(m.data)[batch];
    return static_cast<T*>(m.data) + batch * m.distance;
}

// One block computes a tile of C.
template <class In, class Out, class T> void gemm(gemm_call<T> call) {
    const int64_t tiles_m = (call.m + tile - 1) / tile, tiles_n = (call.n + tile - 1) / tile;
    const int64_t block = GRAPHCAP_BLOCK_X;
    const int64_t i0 = block % tiles_m * tile, j0 = block / tiles_m % tiles_n * tile, batch = block / (tiles_m * tiles_n);
    const int64_t rows = smaller(tile, call.m - i0), columns = smaller(tile, call.n - j0);
    const T alpha = read(call.alpha), beta = read(call.beta), zero = T(0);
    T sum[tile][tile] = {};
    if (!(alpha == zero)) {
        const In* a = place<In>(call.a, batch);
        const In* b = place<In>(call.b, batch);
        T part_a[depth][tile], part_b[depth][tile];
        for (int64_t k0 = 0; k0 < call.k; k0 += depth) {
            const int64_t steps = smaller(depth, call.k - k0);
            for (int64_t k = 0; k < steps; ++k) {
                for (int64_t i = 0; i < rows; ++i)
                    part_a[k][i] = T(element(a, call.a.lead, i0 + i, k0 + k, call.transpose_a));
                for (int64_t i = rows; i < tile; ++i) part_a[k][i] = zero;
                for (int64_t j = 0; j < columns; ++j)
                    part_b[k][j] = T(element(b, call.b.lead, k0 + k, j0 + j, call.transpose_b));
            }
            for (int64_t k = 0; k < steps; ++k)
                for (int64_t j = 0; j < columns; ++j) {
                    const T factor_b = part_b[k][j];
                    for (int i = 0; i < tile; ++i) sum[j][i] += part_a[k][i] * factor_b;
                }
        }
    }
    Out* c = place<Out>(call.c, batch);
    for (int64_t j = 0; j < columns; ++j)
        for (int64_t i = 0; i < rows; ++i) {
            Out& out = c[i0 + i + (j0 + j) * call.c.lead];
            T value = alpha == zero ? zero : alpha * sum[j][i];
            if (!(beta == zero)) value += beta * T(out);  // what is not wanted may be nan
            out = Out(value);
        }
}

// y = alpha op(A) x + beta y. A thread computes some elements of y.
template <class T> void gemv(matrix_call<T> call) {
    const bool plain = call.transpose_a == as_is;
    const int64_t length = plain ? call.m : call.n, terms = plain ? call.n : call.m;
    const int64_t first = static_cast<int64_t>(GRAPHCAP_BLOCK_X) * rows_per_thread, count = smaller(rows_per_thread, length - first);
    const T alpha = read(call.alpha), beta = read(call.beta), zero = T(0);
    T sum[rows_per_thread] = {};
    if (!(alpha == zero))
        for (int64_t k = 0; k < terms; ++k) {
            const T x = at(call.b, k, terms, call.stride_x);
            for (int64_t i = 0; i < count; ++i) sum[i] += element(call.a, call.lead_a, first + i, k, call.transpose_a) * x;
        }
    for (int64_t i = 0; i < count; ++i) {
        T& y = at(call.c, first + i, length, call.stride_y);
        T value = alpha == zero ? zero : alpha * sum[i];
        if (!(beta == zero)) value += beta * y;
        y = value;
    }
}

// A += alpha x y^T, or y^H where conjugated. A thread for each column.
template <class T> void ger(matrix_call<T> call) {
    const int64_t j = GRAPHCAP_BLOCK_X;
    T y = at(call.c, j, call.n, call.stride_y);
    if (call.transpose_b == conjugated) y = conjugate(y);
    y = read(call.alpha) * y;
    for (int64_t i = 0; i < call.m; ++i) call.a[i + j * call.lead_a] += at(call.b, i, call.m, call.stride_x) * y;
}

// C = alpha op(A) op(A)^T + beta C in one triangle. A thread for each column.
template <class T> void syrk(matrix_call<T> call) {
    const int64_t j = GRAPHCAP_BLOCK_X, first = call.uplo == lower ? j : 0, end = call.uplo == lower ? call.n : j + 1;
    const T alpha = read(call.alpha), beta = read(call.beta), zero = T(0);
    for (int64_t i = first; i < end; ++i) {
        T sum = zero;
        if (!(alpha == zero))
            for (int64_t k = 0; k < call.k; ++k)
                sum += element(call.a, call.lead_a, i, k, call.transpose_a) * element(call.a, call.lead_a, j, k, call.transpose_a);
        T& out = call.c[i + j * call.lead_c];
        T value = alpha == zero ? zero : alpha * sum;
        if (!(beta == zero)) value += beta * out;
        out = value;
    }
}

// C = alpha op(A) + beta op(B). A thread for each column.
template <class T> void geam(matrix_call<T> call) {
    const int64_t j = GRAPHCAP_BLOCK_X;
    const T alpha = read(call.alpha), beta = read(call.beta), zero = T(0);
    for (int64_t i = 0; i < call.m; ++i) {
        T value = zero;
        if (!(alpha == zero)) value += alpha * element(call.a, call.lead_a, i, j, call.transpose_a);
        if (!(beta == zero)) value += beta * element(call.b, call.lead_b, i, j, call.transpose_b);
        call.c[i + j * call.lead_c] = value;
    }
}

// C = diag(x) A or A diag(x). A thread for each column.
template <class T> void dgmm(matrix_call<T> call) {
    const int64_t j = GRAPHCAP_BLOCK_X, length = call.side == left ? call.m : call.n;
    for (int64_t i = 0; i < call.m; ++i)
        call.c[i + j * call.lead_c] =
            call.a[i + j * call.lead_a] * at(call.b, call.side == left ? i : j, length, call.stride_x);
}

// Solves op(A) X = alpha B or X op(A) = alpha B in the place of B. A thread for each column, or row, of B.
template <class T> void trsm(matrix_call<T> call) {
    const int64_t which = GRAPHCAP_BLOCK_X, order = call.side == left ? call.m : call.n;
    T* b = call.side == left ? call.b + which * call.lead_b : call.b + which;
    const int64_t step = call.side == left ? 1 : call.lead_b;
    const bool swapped = (call.transpose_a != as_is) != (call.side == right);  // x A = b is A^T x = b
    const bool forward = (call.uplo == lower) != swapped;
    const T alpha = read(call.alpha), zero = T(0);
    for (int64_t done = 0; done < order; ++done) {
        const int64_t i = forward ? done : order - 1 - done;
        T value = alpha == zero ? zero : alpha * b[i * step];
        for (int64_t before = 0; before < done; ++before) {
            const int64_t k = forward ? before : order - 1 - before;
            T coefficient = swapped ? call.a[k + i * call.lead_a] : call.a[i + k * call.lead_a];
            if (call.transpose_a == conjugated) coefficient = conjugate(coefficient);
            value = value - coefficient * b[k * step];
        }
        if (!call.unit_diagonal) {
            T diagonal = call.a[i + i * call.lead_a];
            if (call.transpose_a == conjugated) diagonal = conjugate(diagonal);
            value = value / diagonal;
        }
        b[i * step] = value;
    }
}

template <class T> void axpy(vector_call<T> call) {
    const T alpha = read(call.alpha);
    const int64_t first = static_cast<int64_t>(GRAPHCAP_BLOCK_X) * 4096, end = smaller(call.n, first + 4096);
    if (alpha == T(0)) return;
    for (int64_t i = first; i < end; ++i) at(call.y, i, call.n, call.stride_y) += alpha * at(call.x, i, call.n, call.stride_x);
}

template <class T> void scal(vector_call<T> call) {
    const T alpha = read(call.alpha);
    const int64_t first = static_cast<int64_t>(GRAPHCAP_BLOCK_X) * 4096, end = smaller(call.n, first + 4096);
    for (int64_t i = first; i < end; ++i) call.x[i * call.stride_x] = alpha * call.x[i * call.stride_x];
}

// A real factor for complex numbers: in device pointer mode it is the real number that is read.
template <class T> void scal_real(vector_call<complex<T>> call) {
    const T alpha = call.alpha.at ? *static_cast<const T*>(call.alpha.at) : call.alpha.value.re;
    const int64_t first = static_cast<int64_t>(GRAPHCAP_BLOCK_X) * 4096, end = smaller(call.n, first + 4096);
    for (int64_t i = first; i < end; ++i) {
        complex<T>& x = call.x[i * call.stride_x];
        x = {alpha * x.re, alpha * x.im};
    }
}

template <class T> void dot(vector_call<T> call) {
    typedef typename wide<T>::type W;
    W sum = W(0);
    for (int64_t i = 0; i < call.n; ++i) {
        const T x = at(call.x, i, call.n, call.stride_x);
        sum += W(call.conjugate ? conjugate(x) : x) * W(at(call.y, i, call.n, call.stride_y));
    }
    *static_cast<T*>(call.result) = T(sum);
}

template <class T> double first_norm(T x) { return std::fabs(x); }
template <class T> double first_norm(complex<T> x) { return std::fabs(x.re) + std::fabs(x.im); }

// Scaled, so that squares neither overflow nor vanish.
struct norm {
    double scale = 0, squares = 1;
    bool nan = false;
    void take(double x) {
        x = std::fabs(x);
        if (std::isnan(x)) nan = true;
        if (x == 0 || nan) return;
        if (std::isinf(x) || std::isinf(scale)) {
            scale = std::numeric_limits<double>::infinity();
            squares = 1;
        } else if (scale < x) {
            squares = 1 + squares * (scale / x) * (scale / x);
            scale = x;
        } else {
            squares += (x / scale) * (x / scale);
        }
    }
    double value() const { return nan ? std::numeric_limits<double>::quiet_NaN() : scale * std::sqrt(squares); }
};

template <class T> void take(norm& n, T x) { n.take(x); }
template <class T> void take(norm& n, complex<T> x) {
    n.take(x.re);
    n.take(x.im);
}

template <class T> void nrm2(vector_call<T> call) {
    norm n;
    for (int64_t i = 0; i < call.n; ++i) take(n, call.x[i * call.stride_x]);
    typedef typename real_of<T>::type R;
    *static_cast<R*>(call.result) = static_cast<R>(n.value());
}

template <class T> void asum(vector_call<T> call) {
    double sum = 0;
    for (int64_t i = 0; i < call.n; ++i) sum += first_norm(call.x[i * call.stride_x]);
    typedef typename real_of<T>::type R;
    *static_cast<R*>(call.result) = static_cast<R>(sum);
}

// The number, counted from 1, of the first element of largest (smallest) absolute value; 0 where there is none.
template <class T> void amax(vector_call<T> call) {
    int64_t found = 0;
    double best = 0;
    for (int64_t i = 0; i < call.n; ++i) {
        const double size = first_norm(call.x[i * call.stride_x]);
        if (!found || size > best) best = size, found = i + 1;
    }
    *static_cast<int*>(call.result) = static_cast<int>(found);
}

template <class T> void amin(vector_call<T> call) {
    int64_t found = 0;
    double best = 0;
    for (int64_t i = 0; i < call.n; ++i) {
        const double size = first_norm(call.x[i * call.stride_x]);
        if (!found || size < best) best = size, found = i + 1;
    }
    *static_cast<int*>(call.result) = static_cast<int>(found);
}

typedef complex<float> cfloat;
typedef complex<double> cdouble;

#define REGISTER(name, ...) \
    graphcap_detail::entry<decltype(&__VA_ARGS__)>::of<&__VA_ARGS__> entry_##name(#name);
#define REGISTER_FOUR(name) \
    REGISTER(name##_s, name<float>)   \
    REGISTER(name##_d, name<double>)  \
    REGISTER(name##_c, name<cfloat>)  \
    REGISTER(name##_z, name<cdouble>)

REGISTER(gemm_s, gemm<float, float, float>)
REGISTER(gemm_d, gemm<double, double, double>)
REGISTER(gemm_c, gemm<cfloat, cfloat, cfloat>)
REGISTER(gemm_z, gemm<cdouble, cdouble, cdouble>)
REGISTER(gemm_h, gemm<half, half, float>)
REGISTER(gemm_hs, gemm<half, float, float>)
REGISTER(gemm_b, gemm<bfloat16, bfloat16, float>)
REGISTER(gemm_bs, gemm<bfloat16, float, float>)
REGISTER_FOUR(gemv)
REGISTER_FOUR(ger)
REGISTER_FOUR(syrk)
REGISTER_FOUR(geam)
REGISTER_FOUR(dgmm)
REGISTER_FOUR(trsm)
REGISTER_FOUR(axpy)
REGISTER_FOUR(scal)
REGISTER(scal_real_c, scal_real<float>)
REGISTER(scal_real_z, scal_real<double>)
REGISTER_FOUR(dot)
REGISTER_FOUR(nrm2)
REGISTER_FOUR(asum)
REGISTER_FOUR(amax)
REGISTER_FOUR(amin)

}  // namespace
}  // namespace standins
