"""The C interfaces of the stand-ins, as these tests call them: declared from the libraries' public documentation."""

from __future__ import annotations

import functools
from typing import Any

import cffi
import numpy as np
import pytest

from tests.emulated_device import control, standins
from tests.emulated_device.harness import Board, emulated

#: The letters of BLAS.
DTYPES = {"S": np.float32, "D": np.float64, "C": np.complex64, "Z": np.complex128}


def letters(every: str, quick: str) -> list[Any]:
    """Parameters: the types in ``quick`` always, the others among the slow tests."""
    return [letter if letter in quick else pytest.param(letter, marks=pytest.mark.slow) for letter in every]


def reseed(seed: int) -> None:
    """Draw the order of work from this seed; a real device goes its own way."""
    if emulated():
        control.seed(seed)


_BLAS = """
int cublasCreate_v2(void **handle);
int cublasDestroy_v2(void *handle);
int cublasGetVersion_v2(void *handle, int *version);
int cublasSetStream_v2(void *handle, uintptr_t stream);
int cublasGetStream_v2(void *handle, uintptr_t *stream);
int cublasSetPointerMode_v2(void *handle, int mode);
int cublasGetPointerMode_v2(void *handle, int *mode);
int cublasSetMathMode(void *handle, int mode);
int cublasGetMathMode(void *handle, int *mode);
int cublasSetWorkspace_v2(void *handle, uintptr_t memory, size_t bytes);
int cublasSgemmEx(void *h, int ta, int tb, int m, int n, int k, uintptr_t alpha, uintptr_t a, int ka, int lda, uintptr_t b, int kb,
                  int ldb, uintptr_t beta, uintptr_t c, int kc, int ldc);
int cublasGemmEx(void *h, int ta, int tb, int m, int n, int k, uintptr_t alpha, uintptr_t a, int ka, int lda, uintptr_t b, int kb,
                 int ldb, uintptr_t beta, uintptr_t c, int kc, int ldc, int compute, int algorithm);
int cublasGemmStridedBatchedEx(void *h, int ta, int tb, int m, int n, int k, uintptr_t alpha, uintptr_t a, int ka, int lda,
    long long sa, uintptr_t b, int kb, int ldb, long long sb, uintptr_t beta, uintptr_t c, int kc, int ldc, long long sc,
    int batch, int compute, int algorithm);
int cublasCsscal_v2(void *h, int n, uintptr_t alpha, uintptr_t x, int incx);
int cublasZdscal_v2(void *h, int n, uintptr_t alpha, uintptr_t x, int incx);
"""
_BLAS_EACH = """
int cublas{L}gemm_v2(void *h, int ta, int tb, int m, int n, int k, uintptr_t alpha, uintptr_t a, int lda, uintptr_t b, int ldb,
                     uintptr_t beta, uintptr_t c, int ldc);
int cublas{L}gemmBatched(void *h, int ta, int tb, int m, int n, int k, uintptr_t alpha, uintptr_t a, int lda, uintptr_t b,
                         int ldb, uintptr_t beta, uintptr_t c, int ldc, int batch);
int cublas{L}gemmStridedBatched(void *h, int ta, int tb, int m, int n, int k, uintptr_t alpha, uintptr_t a, int lda, long long sa,
    uintptr_t b, int ldb, long long sb, uintptr_t beta, uintptr_t c, int ldc, long long sc, int batch);
int cublas{L}gemv_v2(void *h, int t, int m, int n, uintptr_t alpha, uintptr_t a, int lda, uintptr_t x, int incx, uintptr_t beta,
                     uintptr_t y, int incy);
int cublas{L}syrk_v2(void *h, int uplo, int t, int n, int k, uintptr_t alpha, uintptr_t a, int lda, uintptr_t beta, uintptr_t c,
                     int ldc);
int cublas{L}geam(void *h, int ta, int tb, int m, int n, uintptr_t alpha, uintptr_t a, int lda, uintptr_t beta, uintptr_t b,
                  int ldb, uintptr_t c, int ldc);
int cublas{L}dgmm(void *h, int side, int m, int n, uintptr_t a, int lda, uintptr_t x, int incx, uintptr_t c, int ldc);
int cublas{L}trsm_v2(void *h, int side, int uplo, int t, int diagonal, int m, int n, uintptr_t alpha, uintptr_t a, int lda,
                     uintptr_t b, int ldb);
int cublas{L}axpy_v2(void *h, int n, uintptr_t alpha, uintptr_t x, int incx, uintptr_t y, int incy);
int cublas{L}scal_v2(void *h, int n, uintptr_t alpha, uintptr_t x, int incx);
"""
_GER = "int cublas{N}_v2(void *h, int m, int n, uintptr_t alpha, uintptr_t x, int incx, uintptr_t y, int incy, uintptr_t a, int lda);\n"
_DOT = "int cublas{N}_v2(void *h, int n, uintptr_t x, int incx, uintptr_t y, int incy, uintptr_t result);\n"
_REDUCTION = "int cublas{N}_v2(void *h, int n, uintptr_t x, int incx, uintptr_t result);\n"
_GERS = ["Sger", "Dger", "Cgeru", "Cgerc", "Zgeru", "Zgerc"]
_DOTS = ["Sdot", "Ddot", "Cdotu", "Cdotc", "Zdotu", "Zdotc"]
_REDUCTIONS = ["Snrm2", "Dnrm2", "Scnrm2", "Dznrm2", "Sasum", "Dasum", "Scasum", "Dzasum"]
_REDUCTIONS += [f"I{letter}{name}" for name in ("amax", "amin") for letter in "sdcz"]

_RAND = """
int curandCreateGenerator(void **generator, int type);
int curandDestroyGenerator(void *generator);
int curandGetVersion(int *version);
int curandSetStream(void *generator, uintptr_t stream);
int curandSetPseudoRandomGeneratorSeed(void *generator, unsigned long long seed);
int curandSetGeneratorOffset(void *generator, unsigned long long offset);
int curandSetGeneratorOrdering(void *generator, int order);
int curandGenerate(void *generator, uintptr_t out, size_t n);
int curandGenerateLongLong(void *generator, uintptr_t out, size_t n);
int curandGenerateUniform(void *generator, uintptr_t out, size_t n);
int curandGenerateUniformDouble(void *generator, uintptr_t out, size_t n);
int curandGenerateNormal(void *generator, uintptr_t out, size_t n, float mean, float deviation);
int curandGenerateNormalDouble(void *generator, uintptr_t out, size_t n, double mean, double deviation);
int curandGenerateLogNormal(void *generator, uintptr_t out, size_t n, float mean, float deviation);
int curandGenerateLogNormalDouble(void *generator, uintptr_t out, size_t n, double mean, double deviation);
int curandGeneratePoisson(void *generator, uintptr_t out, size_t n, double rate);
"""

_FFT = """
int cufftCreate(int *plan);
int cufftDestroy(int plan);
int cufftGetVersion(int *version);
int cufftSetStream(int plan, uintptr_t stream);
int cufftSetAutoAllocation(int plan, int on);
int cufftSetWorkArea(int plan, uintptr_t memory);
int cufftMakePlan1d(int plan, int n, int kind, int batch, size_t *work);
int cufftMakePlanMany(int plan, int axes, int *n, int *in_box, int in_stride, int in_distance, int *out_box, int out_stride,
                      int out_distance, int kind, int batch, size_t *work);
int cufftExecC2C(int plan, uintptr_t in, uintptr_t out, int direction);
int cufftExecZ2Z(int plan, uintptr_t in, uintptr_t out, int direction);
int cufftExecR2C(int plan, uintptr_t in, uintptr_t out);
int cufftExecD2Z(int plan, uintptr_t in, uintptr_t out);
int cufftExecC2R(int plan, uintptr_t in, uintptr_t out);
int cufftExecZ2D(int plan, uintptr_t in, uintptr_t out);
"""

_PRIMITIVES = """
typedef struct { char *(*allocate)(void *, size_t); int (*release)(void *, char *); void *owner; } graphcap_workspace;
int graphcap_sort(int element, uintptr_t data, ptrdiff_t *shape, size_t dimensions, intptr_t stream, graphcap_workspace work);
int graphcap_argsort(int element, uintptr_t index, uintptr_t data, ptrdiff_t *shape, size_t dimensions, intptr_t stream,
                     graphcap_workspace work);
int graphcap_lexsort(int element, uintptr_t index, uintptr_t keys, size_t count, size_t length, intptr_t stream,
                     graphcap_workspace work);
int graphcap_reduce(int element, int operation, uintptr_t data, uintptr_t out, int64_t segments, int64_t length, intptr_t stream);
int graphcap_scan(int element, int operation, uintptr_t data, int64_t length, intptr_t stream);
int graphcap_histogram(int element, uintptr_t data, int64_t samples, uintptr_t edges, int64_t lowest, uintptr_t counts, int64_t bins,
                       intptr_t stream);
"""


@functools.cache
def interface() -> Any:
    """The declarations of all stand-ins."""
    ffi = cffi.FFI()
    ffi.cdef(_BLAS + "".join(_BLAS_EACH.replace("{L}", letter) for letter in DTYPES))
    for template, functions in ((_GER, _GERS), (_DOT, _DOTS), (_REDUCTION, _REDUCTIONS)):
        ffi.cdef("".join(template.replace("{N}", name) for name in functions))
    ffi.cdef(_RAND + _FFT + _PRIMITIVES)
    return ffi


@functools.cache
def library(name: str) -> Any:
    """One stand-in, loaded."""
    standins.load()
    return interface().dlopen(str(standins.build(name)))


def address(value: np.ndarray[Any, Any]) -> int:
    """Where a factor or result for the host lies; the caller keeps it alive."""
    return int(value.ctypes.data)


class Blas:
    """A handle of the BLAS stand-in. Calls return the library's status."""

    def __init__(self, board: Board, stream: Any = None) -> None:
        self.board = board
        self.lib = library("cublas")
        out = interface().new("void **")
        assert self.lib.cublasCreate_v2(out) == 0
        self.handle = out[0]
        board.later(lambda: self.lib.cublasDestroy_v2(self.handle))
        self.stream = board.stream() if stream is None else stream
        assert self.lib.cublasSetStream_v2(self.handle, int(self.stream)) == 0

    def __call__(self, name: str, *arguments: Any) -> int:
        return int(getattr(self.lib, f"cublas{name}")(self.handle, *arguments))

    def pointer_mode(self, device: bool) -> None:
        """Take factors from, and put results into, device memory."""
        assert self("SetPointerMode_v2", int(device)) == 0

    def factor(self, value: Any, dtype: Any) -> np.ndarray[Any, Any]:
        """A factor for the host pointer mode."""
        return np.array([value], dtype)
