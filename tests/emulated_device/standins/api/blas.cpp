// libcublas.so.13 for the emulated device: the functions that do work. All others refuse (names/cublas.txt).
// The types and numbers are those of the library's public documentation.
#include "blas_calls.h"
#include "device.h"
#include "scalars.h"

using namespace standins;

namespace {

enum status {
    success = 0,
    not_initialized = 1,
    alloc_failed = 3,
    invalid_value = 7,
    execution_failed = 13,
    not_supported = 15
};
enum { compute_16f = 64, compute_16f_pedantic = 65, compute_32f = 68, compute_64f = 70, compute_64f_pedantic = 71,
       compute_32f_last = 78 };
enum { type_32f = 0, type_64f = 1, type_16f = 2, type_c32f = 4, type_c64f = 5, type_16bf = 14 };

struct handle {
    CUstream stream = nullptr;
    int device_pointers = 0;
    int math_mode = 0;
    int atomics_mode = 0;
    CUdeviceptr scratch = 0;  // where a result for the host waits
};

typedef complex<float> cfloat;
typedef complex<double> cdouble;

template <class T> struct letter;
template <> struct letter<float> { static constexpr char value = 's'; };
template <> struct letter<double> { static constexpr char value = 'd'; };
template <> struct letter<cfloat> { static constexpr char value = 'c'; };
template <> struct letter<cdouble> { static constexpr char value = 'z'; };

template <class T> std::string named(const char* name) { return std::string(name) + '_' + letter<T>::value; }

int outcome(CUresult error) { return error ? execution_failed : success; }

template <class T, class Call> int run(handle* h, const char* name, int64_t blocks, const Call& call) {
    return outcome(launch(named<T>(name).c_str(), blocks, h->stream, call));
}

template <class T> factor<T> take(const handle* h, const T* given) {
    factor<T> out = {};
    if (h->device_pointers)
        out.at = given;
    else
        out.value = *given;
    return out;
}

int64_t at_least_one(int64_t n) { return n > 1 ? n : 1; }
bool unknown(int operation) { return operation < as_is || operation > conjugated; }
int64_t divided(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Puts a result where the pointer mode wants it. A result for the host is waited for.
template <class Result, class Call> int with_result(handle* h, const std::string& kernel, Call call, Result* result) {
    if (!result) return invalid_value;
    call.result = h->device_pointers ? static_cast<void*>(result) : reinterpret_cast<void*>(h->scratch);
    if (const CUresult error = launch(kernel.c_str(), 1, h->stream, call)) return outcome(error);
    if (h->device_pointers) return success;
    Result value;
    if (const CUresult error = cuMemcpyDtoHAsync(&value, h->scratch, sizeof value, h->stream)) return outcome(error);
    if (const CUresult error = cuStreamSynchronize(h->stream)) return outcome(error);
    *result = value;
    return success;
}

template <class T> vector_call<T> one_vector(int n, const T* x, int stride) {
    vector_call<T> call = {};
    call.n = n > 0 && stride > 0 ? n : 0;
    call.x = const_cast<T*>(x);
    call.stride_x = stride;
    return call;
}

template <class T> vector_call<T> two_vectors(int n, const T* x, int stride_x, const T* y, int stride_y) {
    vector_call<T> call = {};
    call.n = n > 0 ? n : 0;
    call.x = const_cast<T*>(x);
    call.y = const_cast<T*>(y);
    call.stride_x = stride_x;
    call.stride_y = stride_y;
    return call;
}

// What all products of matrices share: the checks, and the number of tiles.
template <class T> int gemm(handle* h, const std::string& kernel, gemm_call<T> call) {
    if (!h) return not_initialized;
    if (call.m < 0 || call.n < 0 || call.k < 0 || call.batch < 0 || unknown(call.transpose_a) || unknown(call.transpose_b))
        return invalid_value;
    const int64_t rows_a = call.transpose_a == as_is ? call.m : call.k, rows_b = call.transpose_b == as_is ? call.k : call.n;
    if (call.a.lead < at_least_one(rows_a) || call.b.lead < at_least_one(rows_b) || call.c.lead < at_least_one(call.m))
        return invalid_value;
    const int64_t blocks = divided(call.m, 32) * divided(call.n, 32) * call.batch;
    return outcome(launch(kernel.c_str(), blocks, h->stream, call));
}

template <class T>
int gemm(handle* h, int ta, int tb, int m, int n, int k, const T* alpha, matrix a, matrix b, const T* beta, matrix c, int batch) {
    if (!h) return not_initialized;
    if (!alpha || !beta) return invalid_value;
    gemm_call<T> call = {a, b, c, take(h, alpha), take(h, beta), m, n, k, batch, ta, tb};
    return gemm(h, named<T>("gemm"), call);
}

template <class T> matrix one(T* data, int lead) { return {const_cast<void*>(static_cast<const void*>(data)), lead, 0, 0}; }
template <class T> matrix spaced(T* data, int lead, long long distance) {
    return {const_cast<void*>(static_cast<const void*>(data)), lead, distance, 0};
}
template <class T> matrix pointers(T* data, int lead) { return {const_cast<void*>(static_cast<const void*>(data)), lead, 0, 1}; }

// Which kernel serves these types; nullptr: none.
const char* mixed_kernel(int a, int b, int c, int compute) {
    if (a != b) return nullptr;
    const bool single = compute >= compute_32f && compute <= compute_32f_last && compute != compute_64f && compute != compute_64f_pedantic &&
                        compute != 72 && compute != 73;
    const bool half_compute = compute == compute_16f || compute == compute_16f_pedantic;
    const bool twice = compute == compute_64f || compute == compute_64f_pedantic;
    if (a == type_16f && c == type_16f && (single || half_compute)) return "gemm_h";
    if (a == type_16f && c == type_32f && single) return "gemm_hs";
    if (a == type_16bf && c == type_16bf && single) return "gemm_b";
    if (a == type_16bf && c == type_32f && single) return "gemm_bs";
    if (a == type_32f && c == type_32f && single) return "gemm_s";
    if (a == type_64f && c == type_64f && twice) return "gemm_d";
    if (a == type_c32f && c == type_c32f && single) return "gemm_c";
    if (a == type_c64f && c == type_c64f && twice) return "gemm_z";
    return nullptr;
}

template <class T> factor<T> take_mixed(const handle* h, const void* given, bool half_precision) {
    factor<T> out = {};
    if (h->device_pointers) {
        out.at = given;
        out.half_precision = half_precision;
    } else {
        out.value = *static_cast<const T*>(given);
    }
    return out;
}
template <> factor<float> take_mixed(const handle* h, const void* given, bool half_precision) {
    factor<float> out = {};
    out.half_precision = half_precision;
    if (h->device_pointers)
        out.at = given;
    else
        out.value = half_precision ? static_cast<float>(*static_cast<const half*>(given)) : *static_cast<const float*>(given);
    return out;
}

template <class T>
int gemm_of(handle* h, const char* kernel, int ta, int tb, int m, int n, int k, const void* alpha, matrix a, matrix b,
            const void* beta, matrix c, int batch, bool half_precision) {
    gemm_call<T> call = {a, b, c, take_mixed<T>(h, alpha, half_precision), take_mixed<T>(h, beta, half_precision),
                         m, n, k, batch, ta, tb};
    return gemm(h, kernel, call);
}

int gemm_mixed(handle* h, int ta, int tb, int m, int n, int k, const void* alpha, matrix a, int type_a, matrix b, int type_b,
               const void* beta, matrix c, int type_c, int batch, int compute) {
    if (!h) return not_initialized;
    if (!alpha || !beta) return invalid_value;
    const char* kernel = mixed_kernel(type_a, type_b, type_c, compute);
    if (!kernel) return not_supported;
    const bool halves = compute == compute_16f || compute == compute_16f_pedantic;
    if (type_c == type_64f) return gemm_of<double>(h, kernel, ta, tb, m, n, k, alpha, a, b, beta, c, batch, false);
    if (type_c == type_c32f) return gemm_of<cfloat>(h, kernel, ta, tb, m, n, k, alpha, a, b, beta, c, batch, false);
    if (type_c == type_c64f) return gemm_of<cdouble>(h, kernel, ta, tb, m, n, k, alpha, a, b, beta, c, batch, false);
    return gemm_of<float>(h, kernel, ta, tb, m, n, k, alpha, a, b, beta, c, batch, halves);
}

template <class T>
int gemv(handle* h, int trans, int m, int n, const T* alpha, const T* a, int lda, const T* x, int incx, const T* beta, T* y,
         int incy) {
    if (!h) return not_initialized;
    if (m < 0 || n < 0 || unknown(trans) || lda < at_least_one(m) || !incx || !incy || !alpha || !beta) return invalid_value;
    matrix_call<T> call = {};
    call.a = const_cast<T*>(a), call.b = const_cast<T*>(x), call.c = y;
    call.m = m, call.n = n, call.lead_a = lda, call.stride_x = incx, call.stride_y = incy, call.transpose_a = trans;
    call.alpha = take(h, alpha), call.beta = take(h, beta);
    return m && n ? run<T>(h, "gemv", divided(trans == as_is ? m : n, 64), call) : success;
}

template <class T>
int ger(handle* h, int m, int n, const T* alpha, const T* x, int incx, const T* y, int incy, T* a, int lda, bool conjugate_y) {
    if (!h) return not_initialized;
    if (m < 0 || n < 0 || lda < at_least_one(m) || !incx || !incy || !alpha) return invalid_value;
    matrix_call<T> call = {};
    call.a = a, call.b = const_cast<T*>(x), call.c = const_cast<T*>(y);
    call.m = m, call.n = n, call.lead_a = lda, call.stride_x = incx, call.stride_y = incy;
    call.transpose_b = conjugate_y ? conjugated : as_is;
    call.alpha = take(h, alpha);
    return m ? run<T>(h, "ger", n, call) : success;
}

template <class T>
int syrk(handle* h, int uplo, int trans, int n, int k, const T* alpha, const T* a, int lda, const T* beta, T* c, int ldc) {
    if (!h) return not_initialized;
    if (n < 0 || k < 0 || uplo < lower || uplo > upper || (trans != as_is && trans != transposed) || !alpha || !beta ||
        lda < at_least_one(trans == as_is ? n : k) || ldc < at_least_one(n))
        return invalid_value;
    matrix_call<T> call = {};
    call.a = const_cast<T*>(a), call.c = c, call.n = n, call.k = k, call.lead_a = lda, call.lead_c = ldc;
    call.transpose_a = trans, call.uplo = uplo, call.alpha = take(h, alpha), call.beta = take(h, beta);
    return run<T>(h, "syrk", n, call);
}

template <class T>
int geam(handle* h, int ta, int tb, int m, int n, const T* alpha, const T* a, int lda, const T* beta, const T* b, int ldb, T* c,
         int ldc) {
    if (!h) return not_initialized;
    if (m < 0 || n < 0 || unknown(ta) || unknown(tb) || !alpha || !beta || lda < at_least_one(ta == as_is ? m : n) ||
        ldb < at_least_one(tb == as_is ? m : n) || ldc < at_least_one(m))
        return invalid_value;
    if ((c == a && (lda != ldc || ta != as_is)) || (c == b && (ldb != ldc || tb != as_is))) return invalid_value;
    matrix_call<T> call = {};
    call.a = const_cast<T*>(a), call.b = const_cast<T*>(b), call.c = c, call.m = m, call.n = n;
    call.lead_a = lda, call.lead_b = ldb, call.lead_c = ldc, call.transpose_a = ta, call.transpose_b = tb;
    call.alpha = take(h, alpha), call.beta = take(h, beta);
    return m ? run<T>(h, "geam", n, call) : success;
}

template <class T>
int dgmm(handle* h, int where, int m, int n, const T* a, int lda, const T* x, int incx, T* c, int ldc) {
    if (!h) return not_initialized;
    if (m < 0 || n < 0 || where < left || where > right || lda < at_least_one(m) || ldc < at_least_one(m)) return invalid_value;
    matrix_call<T> call = {};
    call.a = const_cast<T*>(a), call.b = const_cast<T*>(x), call.c = c, call.m = m, call.n = n;
    call.lead_a = lda, call.lead_c = ldc, call.stride_x = incx, call.side = where;
    return m ? run<T>(h, "dgmm", n, call) : success;
}

template <class T>
int trsm(handle* h, int where, int uplo, int trans, int diagonal, int m, int n, const T* alpha, const T* a, int lda, T* b,
         int ldb) {
    if (!h) return not_initialized;
    if (m < 0 || n < 0 || where < left || where > right || uplo < lower || uplo > upper || unknown(trans) || diagonal < 0 ||
        diagonal > 1 || !alpha || lda < at_least_one(where == left ? m : n) || ldb < at_least_one(m))
        return invalid_value;
    matrix_call<T> call = {};
    call.a = const_cast<T*>(a), call.b = b, call.m = m, call.n = n, call.lead_a = lda, call.lead_b = ldb;
    call.side = where, call.uplo = uplo, call.transpose_a = trans, call.unit_diagonal = diagonal;
    call.alpha = take(h, alpha);
    return m && n ? run<T>(h, "trsm", where == left ? n : m, call) : success;
}

template <class T> int axpy(handle* h, int n, const T* alpha, const T* x, int incx, T* y, int incy) {
    if (!h) return not_initialized;
    if (!alpha) return invalid_value;
    auto call = two_vectors(n, x, incx, y, incy);
    call.alpha = take(h, alpha);
    return run<T>(h, "axpy", divided(call.n, 4096), call);
}

template <class T> int scal(handle* h, int n, const T* alpha, T* x, int incx) {
    if (!h) return not_initialized;
    if (!alpha) return invalid_value;
    auto call = one_vector(n, x, incx);
    call.alpha = take(h, alpha);
    return run<T>(h, "scal", divided(call.n, 4096), call);
}

template <class R> int scal_real(handle* h, int n, const R* alpha, complex<R>* x, int incx) {
    if (!h) return not_initialized;
    if (!alpha) return invalid_value;
    auto call = one_vector(n, x, incx);
    if (h->device_pointers)
        call.alpha.at = alpha;
    else
        call.alpha.value = complex<R>(*alpha);
    return run<complex<R>>(h, "scal_real", divided(call.n, 4096), call);
}

template <class T>
int dot(handle* h, int n, const T* x, int incx, const T* y, int incy, T* result, bool conjugate_x) {
    if (!h) return not_initialized;
    auto call = two_vectors(n, x, incx, y, incy);
    call.conjugate = conjugate_x;
    return with_result(h, named<T>("dot"), call, result);
}

template <class T, class R> int reduce(handle* h, const char* name, int n, const T* x, int incx, R* result) {
    if (!h) return not_initialized;
    return with_result(h, named<T>(name), one_vector(n, x, incx), result);
}

}  // namespace

EXPORT int cublasCreate_v2(handle** out) {
    if (!out) return invalid_value;
    if (!need_context()) return not_initialized;
    auto* h = new handle;
    if (cuMemAlloc(&h->scratch, 64)) {
        delete h;
        return alloc_failed;
    }
    *out = h;
    return success;
}
EXPORT int cublasDestroy_v2(handle* h) {
    if (!h) return not_initialized;
    cuMemFree(h->scratch);  // the context may be gone, and the memory with it
    delete h;
    return success;
}
EXPORT int cublasGetVersion_v2(handle*, int* version) {
    if (!version) return invalid_value;
    *version = 130000;
    return success;
}
EXPORT int cublasSetStream_v2(handle* h, CUstream stream) {
    if (!h) return not_initialized;
    h->stream = stream;
    return success;
}
EXPORT int cublasSetWorkspace_v2(handle* h, void*, size_t) { return h ? success : not_initialized; }

#define SETTING(Name, field, suffix)                               \
    EXPORT int cublasSet##Name##suffix(handle* h, int value) {     \
        if (!h) return not_initialized;                            \
        h->field = value;                                          \
        return success;                                            \
    }                                                              \
    EXPORT int cublasGet##Name##suffix(handle* h, int* value) {    \
        if (!h) return not_initialized;                            \
        if (!value) return invalid_value;                          \
        *value = h->field;                                         \
        return success;                                            \
    }
SETTING(MathMode, math_mode, )
SETTING(AtomicsMode, atomics_mode, )
EXPORT int cublasSetPointerMode_v2(handle* h, int value) {
    if (!h) return not_initialized;
    if (value != 0 && value != 1) return invalid_value;
    h->device_pointers = value;
    return success;
}
EXPORT int cublasGetPointerMode_v2(handle* h, int* value) {
    if (!h) return not_initialized;
    if (!value) return invalid_value;
    *value = h->device_pointers;
    return success;
}
EXPORT int cublasGetStream_v2(handle* h, CUstream* stream) {
    if (!h) return not_initialized;
    if (!stream) return invalid_value;
    *stream = h->stream;
    return success;
}

#define FOR_ALL(X) X(S, float) X(D, double) X(C, cfloat) X(Z, cdouble)

#define GENERAL(L, T)                                                                                                         \
    EXPORT int cublas##L##gemm_v2(handle* h, int ta, int tb, int m, int n, int k, const T* alpha, const T* a, int lda,        \
                                  const T* b, int ldb, const T* beta, T* c, int ldc) {                                        \
        return gemm(h, ta, tb, m, n, k, alpha, one(a, lda), one(b, ldb), beta, one(c, ldc), 1);                               \
    }                                                                                                                         \
    EXPORT int cublas##L##gemmBatched(handle* h, int ta, int tb, int m, int n, int k, const T* alpha, const T* const* a,      \
                                      int lda, const T* const* b, int ldb, const T* beta, T* const* c, int ldc, int batch) {  \
        return gemm(h, ta, tb, m, n, k, alpha, pointers(a, lda), pointers(b, ldb), beta, pointers(c, ldc), batch);            \
    }                                                                                                                         \
    EXPORT int cublas##L##gemmStridedBatched(handle* h, int ta, int tb, int m, int n, int k, const T* alpha, const T* a,      \
                                             int lda, long long sa, const T* b, int ldb, long long sb, const T* beta, T* c,   \
                                             int ldc, long long sc, int batch) {                                              \
        return gemm(h, ta, tb, m, n, k, alpha, spaced(a, lda, sa), spaced(b, ldb, sb), beta, spaced(c, ldc, sc), batch);      \
    }                                                                                                                         \
    EXPORT int cublas##L##gemv_v2(handle* h, int trans, int m, int n, const T* alpha, const T* a, int lda, const T* x,        \
                                  int incx, const T* beta, T* y, int incy) {                                                  \
        return gemv(h, trans, m, n, alpha, a, lda, x, incx, beta, y, incy);                                                   \
    }                                                                                                                         \
    EXPORT int cublas##L##syrk_v2(handle* h, int uplo, int trans, int n, int k, const T* alpha, const T* a, int lda,          \
                                  const T* beta, T* c, int ldc) {                                                             \
        return syrk(h, uplo, trans, n, k, alpha, a, lda, beta, c, ldc);                                                       \
    }                                                                                                                         \
    EXPORT int cublas##L##geam(handle* h, int ta, int tb, int m, int n, const T* alpha, const T* a, int lda, const T* beta,   \
                               const T* b, int ldb, T* c, int ldc) {                                                          \
        return geam(h, ta, tb, m, n, alpha, a, lda, beta, b, ldb, c, ldc);                                                    \
    }                                                                                                                         \
    EXPORT int cublas##L##dgmm(handle* h, int where, int m, int n, const T* a, int lda, const T* x, int incx, T* c, int ldc) { \
        return dgmm(h, where, m, n, a, lda, x, incx, c, ldc);                                                                 \
    }                                                                                                                         \
    EXPORT int cublas##L##trsm_v2(handle* h, int where, int uplo, int trans, int diagonal, int m, int n, const T* alpha,      \
                                  const T* a, int lda, T* b, int ldb) {                                                       \
        return trsm(h, where, uplo, trans, diagonal, m, n, alpha, a, lda, b, ldb);                                            \
    }                                                                                                                         \
    EXPORT int cublas##L##axpy_v2(handle* h, int n, const T* alpha, const T* x, int incx, T* y, int incy) {                   \
        return axpy(h, n, alpha, x, incx, y, incy);                                                                           \
    }                                                                                                                         \
    EXPORT int cublas##L##scal_v2(handle* h, int n, const T* alpha, T* x, int incx) { return scal(h, n, alpha, x, incx); }
FOR_ALL(GENERAL)

#define RANK_ONE(L, T, suffix, conjugate_y)                                                                                    \
    EXPORT int cublas##L##ger##suffix(handle* h, int m, int n, const T* alpha, const T* x, int incx, const T* y, int incy, T* a, \
                                      int lda) {                                                                               \
        return ger(h, m, n, alpha, x, incx, y, incy, a, lda, conjugate_y);                                                     \
    }
RANK_ONE(S, float, _v2, false)
RANK_ONE(D, double, _v2, false)
RANK_ONE(C, cfloat, u_v2, false)
RANK_ONE(C, cfloat, c_v2, true)
RANK_ONE(Z, cdouble, u_v2, false)
RANK_ONE(Z, cdouble, c_v2, true)

#define DOT(L, T, suffix, conjugate_x)                                                                                        \
    EXPORT int cublas##L##dot##suffix(handle* h, int n, const T* x, int incx, const T* y, int incy, T* result) {              \
        return dot(h, n, x, incx, y, incy, result, conjugate_x);                                                              \
    }
DOT(S, float, _v2, false)
DOT(D, double, _v2, false)
DOT(C, cfloat, u_v2, false)
DOT(C, cfloat, c_v2, true)
DOT(Z, cdouble, u_v2, false)
DOT(Z, cdouble, c_v2, true)

#define REDUCTION(Name, kernel, T, R)                                                                                         \
    EXPORT int cublas##Name##_v2(handle* h, int n, const T* x, int incx, R* result) { return reduce(h, kernel, n, x, incx, result); }
REDUCTION(Snrm2, "nrm2", float, float)
REDUCTION(Dnrm2, "nrm2", double, double)
REDUCTION(Scnrm2, "nrm2", cfloat, float)
REDUCTION(Dznrm2, "nrm2", cdouble, double)
REDUCTION(Sasum, "asum", float, float)
REDUCTION(Dasum, "asum", double, double)
REDUCTION(Scasum, "asum", cfloat, float)
REDUCTION(Dzasum, "asum", cdouble, double)
REDUCTION(Isamax, "amax", float, int)
REDUCTION(Idamax, "amax", double, int)
REDUCTION(Icamax, "amax", cfloat, int)
REDUCTION(Izamax, "amax", cdouble, int)
REDUCTION(Isamin, "amin", float, int)
REDUCTION(Idamin, "amin", double, int)
REDUCTION(Icamin, "amin", cfloat, int)
REDUCTION(Izamin, "amin", cdouble, int)

EXPORT int cublasCsscal_v2(handle* h, int n, const float* alpha, cfloat* x, int incx) { return scal_real(h, n, alpha, x, incx); }
EXPORT int cublasZdscal_v2(handle* h, int n, const double* alpha, cdouble* x, int incx) { return scal_real(h, n, alpha, x, incx); }

EXPORT int cublasSgemmEx(handle* h, int ta, int tb, int m, int n, int k, const float* alpha, const void* a, int type_a, int lda,
                         const void* b, int type_b, int ldb, const float* beta, void* c, int type_c, int ldc) {
    return gemm_mixed(h, ta, tb, m, n, k, alpha, one(a, lda), type_a, one(b, ldb), type_b, beta, one(c, ldc), type_c, 1, compute_32f);
}
EXPORT int cublasGemmEx(handle* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int type_a, int lda,
                        const void* b, int type_b, int ldb, const void* beta, void* c, int type_c, int ldc, int compute, int) {
    return gemm_mixed(h, ta, tb, m, n, k, alpha, one(a, lda), type_a, one(b, ldb), type_b, beta, one(c, ldc), type_c, 1, compute);
}
EXPORT int cublasGemmStridedBatchedEx(handle* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a,
                                      int type_a, int lda, long long sa, const void* b, int type_b, int ldb, long long sb,
                                      const void* beta, void* c, int type_c, int ldc, long long sc, int batch, int compute, int) {
    return gemm_mixed(h, ta, tb, m, n, k, alpha, spaced(a, lda, sa), type_a, spaced(b, ldb, sb), type_b, beta,
                      spaced(c, ldc, sc), type_c, batch, compute);
}
