"""The BLAS stand-in against NumPy, through its C interface."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as cu
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulated_device import control, harness
from tests.emulated_device.harness import Board, code, ok
from tests.standins.interface import DTYPES, Blas, address

Array = np.ndarray[Any, Any]

NOT_INITIALIZED, INVALID_VALUE, EXECUTION_FAILED, NOT_SUPPORTED = 1, 7, 13, 15
R_32F, R_64F, R_16F, C_32F, C_64F, R_16BF = 0, 1, 2, 4, 5, 14
COMPUTE_16F, COMPUTE_32F, COMPUTE_TF32, COMPUTE_64F = 64, 68, 77, 70


def values(rng: np.random.Generator, shape: Any, dtype: Any) -> Array:
    """Numbers of order one, in Fortran order."""
    out = rng.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        out = out + 1j * rng.standard_normal(shape)
    return np.asfortranarray(out.astype(dtype))


def padded(rng: np.random.Generator, matrix: Array, extra: int) -> Array:
    """A column-major buffer whose leading dimension is larger by ``extra``; what lies between is nan."""
    out = np.full((matrix.shape[0] + extra, matrix.shape[1]), np.nan, matrix.dtype, order="F")
    out[: matrix.shape[0]] = matrix
    return out


def op(matrix: Array, operation: int) -> Array:
    return matrix if operation == 0 else matrix.T if operation == 1 else matrix.conj().T


def tolerance(dtype: Any) -> float:
    return 200 * float(np.finfo(dtype).eps)


def upload(board: Board, matrix: Array) -> int:
    return board.upload(matrix.ravel(order="F"))


def read(board: Board, pointer: int, shape: tuple[int, ...], dtype: Any) -> Array:
    return board.read(pointer, dtype, int(np.prod(shape))).reshape(shape, order="F")


@pytest.mark.parametrize("letter", DTYPES)
@pytest.mark.parametrize("ta", [0, 1, 2])
@pytest.mark.parametrize("tb", [0, 1, 2])
@pytest.mark.parametrize("device", [False, True])
def test_gemm_of_every_dtype_and_transposition(board: Board, letter: str, ta: int, tb: int, device: bool) -> None:
    rng, (m, n, k) = np.random.default_rng(1), (37, 45, 70)
    dtype: Any = DTYPES[letter]
    a, b = values(rng, (m, k) if ta == 0 else (k, m), dtype), values(rng, (k, n) if tb == 0 else (n, k), dtype)
    c = values(rng, (m, n), dtype)
    alpha, beta = (dtype(1.5 - 0.5j), dtype(0.25j - 2)) if letter in "CZ" else (dtype(1.5), dtype(-2))
    at, bt, ct = padded(rng, a, 3), padded(rng, b, 1), padded(rng, c, 2)
    blas = Blas(board)
    blas.pointer_mode(device)
    factors = blas.factor(alpha, dtype), blas.factor(beta, dtype)
    where = [board.upload(f) if device else address(f) for f in factors]
    pc = upload(board, ct)
    status = blas(
        f"{letter}gemm_v2",
        ta,
        tb,
        m,
        n,
        k,
        where[0],
        upload(board, at),
        len(at),
        upload(board, bt),
        len(bt),
        where[1],
        pc,
        len(ct),
    )
    assert status == 0
    got = read(board, pc, ct.shape, dtype)
    np.testing.assert_allclose(got[:m], alpha * (op(a, ta) @ op(b, tb)) + beta * c, rtol=0, atol=100 * tolerance(dtype))
    assert np.isnan(got[m:]).all()  # what lies between the columns is left alone


@settings(max_examples=60)
@given(
    letter=st.sampled_from(sorted(DTYPES)), m=st.integers(0, 70), n=st.integers(0, 70), k=st.integers(0, 140),
    ta=st.integers(0, 2), tb=st.integers(0, 2), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_gemm_of_every_shape(letter: str, m: int, n: int, k: int, ta: int, tb: int, seed: int) -> None:
    dtype, rng = DTYPES[letter], np.random.default_rng(seed)
    a, b = values(rng, (m, k) if ta == 0 else (k, m), dtype), values(rng, (k, n) if tb == 0 else (n, k), dtype)
    with harness.board() as board:
        blas = Blas(board)
        one, zero, pc = (
            blas.factor(1, dtype),
            blas.factor(0, dtype),
            board.upload(np.full(max(m * n, 1), np.nan, dtype)),
        )
        control.seed(seed % 1000)
        pa, pb = (upload(board, x if x.size else np.zeros(1, dtype)) for x in (a, b))
        args = (pa, max(len(a), 1), pb, max(len(b), 1), address(zero), pc, max(m, 1))
        assert blas(f"{letter}gemm_v2", ta, tb, m, n, k, address(one), *args) == 0
        got = board.read(pc, dtype, m * n).reshape((m, n), order="F") if m * n else np.zeros((m, n), dtype)
    np.testing.assert_allclose(got, op(a, ta) @ op(b, tb), rtol=0, atol=100 * tolerance(dtype))


def test_beta_zero_does_not_read_c_and_alpha_zero_does_not_read_a_and_b(board: Board) -> None:
    blas = Blas(board)
    nan, one, zero = board.upload(np.full(4, np.nan)), blas.factor(1, float), blas.factor(0, float)
    a, c = board.upload(np.eye(2).ravel()), board.upload(np.full(4, np.nan))
    assert blas("Dgemm_v2", 0, 0, 2, 2, 2, address(one), a, 2, a, 2, address(zero), c, 2) == 0
    np.testing.assert_array_equal(board.read(c, float, 4), np.eye(2).ravel())
    assert blas("Dgemm_v2", 0, 0, 2, 2, 2, address(zero), nan, 2, nan, 2, address(one), c, 2) == 0
    np.testing.assert_array_equal(board.read(c, float, 4), np.eye(2).ravel())


@pytest.mark.parametrize("letter", DTYPES)
@pytest.mark.parametrize("kind", ["strided", "pointers", "same b for all"])
def test_batches(board: Board, letter: str, kind: str) -> None:
    dtype, rng, (m, n, k, batch) = DTYPES[letter], np.random.default_rng(2), (5, 40, 33, 7)
    a, b = values(rng, (m, k, batch), dtype), values(rng, (k, n, batch), dtype)
    blas = Blas(board)
    one, zero = blas.factor(1, dtype), blas.factor(0, dtype)
    pa, pb, pc = upload(board, a), upload(board, b), board.buffer(m * n * batch * a.itemsize)
    if kind == "pointers":
        tables = [board.upload(np.array([p + i * size * a.itemsize for i in range(batch)], np.uint64))
                  for p, size in ((pa, m * k), (pb, k * n), (pc, m * n))]  # fmt: skip
        args: list[Any] = [tables[0], m, tables[1], k, address(zero), tables[2], m, batch]
        status = blas(f"{letter}gemmBatched", 0, 0, m, n, k, address(one), *args)
    else:
        step = 0 if kind == "same b for all" else k * n
        args = [pa, m, m * k, pb, k, step, address(zero), pc, m, m * n, batch]
        status = blas(f"{letter}gemmStridedBatched", 0, 0, m, n, k, address(one), *args)
    assert status == 0
    got = read(board, pc, (m, n, batch), dtype)
    for i in range(batch):
        right = b[:, :, 0] if kind == "same b for all" else b[:, :, i]
        np.testing.assert_allclose(got[:, :, i], a[:, :, i] @ right, rtol=0, atol=100 * tolerance(dtype))


MIXED = [
    (np.float16, R_16F, np.float16, R_16F, COMPUTE_32F, np.float32),
    (np.float16, R_16F, np.float16, R_16F, COMPUTE_16F, np.float16),
    (np.float16, R_16F, np.float32, R_32F, COMPUTE_32F, np.float32),
    (np.float32, R_32F, np.float32, R_32F, COMPUTE_TF32, np.float32),
    (np.float64, R_64F, np.float64, R_64F, COMPUTE_64F, np.float64),
    (np.complex64, C_32F, np.complex64, C_32F, COMPUTE_32F, np.complex64),
    (np.complex128, C_64F, np.complex128, C_64F, COMPUTE_64F, np.complex128),
]


@pytest.mark.parametrize(("dtype", "kind", "out", "out_kind", "compute", "scale"), MIXED)
@pytest.mark.parametrize("device", [False, True])
def test_gemm_with_types_as_arguments(
    board: Board, dtype: Any, kind: int, out: Any, out_kind: int, compute: int, scale: Any, device: bool
) -> None:
    rng, (m, n, k) = np.random.default_rng(3), (33, 20, 50)
    a, b, c = values(rng, (m, k), dtype), values(rng, (k, n), dtype), values(rng, (m, n), out)
    blas = Blas(board)
    blas.pointer_mode(device)
    alpha, beta = blas.factor(0.5, scale), blas.factor(2, scale)
    where = [board.upload(f) if device else address(f) for f in (alpha, beta)]
    pa, pb, pc = (upload(board, x) for x in (a, b, c))
    status = blas("GemmEx", 0, 0, m, n, k, where[0], pa, kind, m, pb, kind, k, where[1], pc, out_kind, m, compute, -1)
    assert status == 0
    wide = np.complex128 if np.issubdtype(dtype, np.complexfloating) else np.float64
    expected = 0.5 * (a.astype(wide) @ b.astype(wide)) + 2 * c.astype(wide)
    np.testing.assert_allclose(
        read(board, pc, (m, n), out), expected, rtol=2 * float(np.finfo(out).eps), atol=50 * tolerance(np.float32)
    )
    args = [pa, kind, m, 0, pb, kind, k, 0, where[1], pc, out_kind, m, 0, 1, compute, -1]
    assert blas("GemmStridedBatchedEx", 0, 0, m, n, k, where[0], *args) == 0


def test_bfloat16(board: Board) -> None:
    blas, a = Blas(board), np.array([[1.0, 2.0], [3.0, 0.3]], np.float32)
    bits = ((a.view(np.uint32) + 0x7FFF + (a.view(np.uint32) >> 16 & 1)) >> 16).astype(np.uint16)
    held = (bits.astype(np.uint32) << 16).view(np.float32)
    pa, pc, one, zero = upload(board, bits), board.buffer(16), blas.factor(1, np.float32), blas.factor(0, np.float32)
    args = [pa, R_16BF, 2, pa, R_16BF, 2, address(zero), pc, R_32F, 2, COMPUTE_32F, -1]
    assert blas("GemmEx", 0, 0, 2, 2, 2, address(one), *args) == 0
    np.testing.assert_allclose(read(board, pc, (2, 2), np.float32), held @ held, rtol=1e-6)


def test_half_numbers_are_converted_as_numpy_does(board: Board) -> None:
    """All 65536 halves times one, and all floats next to a rounding border, to half."""
    blas, one, zero = Blas(board), np.ones(1, np.float16), np.zeros(1, np.float16)
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    pa, pb, pc = board.upload(every), board.upload(one), board.buffer(65536 * 4)
    half, single = (R_16F, 65536), (R_16F, 1)
    args = [pa, *half, pb, *single, address(blas.factor(0, np.float32)), pc]
    alpha = blas.factor(1, np.float32)
    assert blas("GemmEx", 0, 0, 65536, 1, 1, address(alpha), *args, R_32F, 65536, COMPUTE_32F, -1) == 0
    np.testing.assert_array_equal(board.read(pc, np.float32, 65536), every.astype(np.float32))
    finite = np.sort(every[np.isfinite(every)].astype(np.float32))
    middle = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    borders = np.concatenate([middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf)),
                              np.array([65519.996, 65520, 1e9, -1e9], np.float32)])  # fmt: skip
    for alpha_value in borders[
        :: max(1, len(borders) // 300)
    ]:  # the factor is a float, so it brings any float to the conversion
        alpha = blas.factor(alpha_value, np.float32)
        args = [pb, *single, pb, *single, address(blas.factor(0, np.float32)), pc, R_16F, 1, COMPUTE_32F, -1]
        assert blas("GemmEx", 0, 0, 1, 1, 1, address(alpha), *args) == 0
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(board.read(pc, np.float16, 1)[0], alpha_value.astype(np.float16))
    assert zero[0] == 0


@pytest.mark.parametrize("letter", DTYPES)
@pytest.mark.parametrize("trans", [0, 1, 2])
@pytest.mark.parametrize("strides", [(1, 1), (2, -3)])
def test_gemv(board: Board, letter: str, trans: int, strides: tuple[int, int]) -> None:
    dtype, rng, (m, n) = DTYPES[letter], np.random.default_rng(4), (150, 70)
    a, (sx, sy) = values(rng, (m, n), dtype), strides
    nx, ny = (n, m) if trans == 0 else (m, n)
    x, y = values(rng, nx, dtype), values(rng, ny, dtype)
    spread_x, spread_y = np.zeros(nx * abs(sx), dtype), np.zeros(ny * abs(sy), dtype)
    spread_x[:: abs(sx)], spread_y[:: abs(sy)] = x[:: 1 if sx > 0 else -1], y[:: 1 if sy > 0 else -1]
    blas = Blas(board)
    alpha, beta, pa, px, py = (
        blas.factor(2, dtype),
        blas.factor(3, dtype),
        upload(board, a),
        upload(board, spread_x),
        upload(board, spread_y),
    )
    assert blas(f"{letter}gemv_v2", trans, m, n, address(alpha), pa, m, px, sx, address(beta), py, sy) == 0
    got = board.read(py, dtype, spread_y.size)[:: abs(sy)][:: 1 if sy > 0 else -1]
    np.testing.assert_allclose(got, 2 * (op(a, trans) @ x) + 3 * y, rtol=0, atol=100 * tolerance(dtype))


@pytest.mark.parametrize("name", ["Sger", "Dger", "Cgeru", "Cgerc", "Zgeru", "Zgerc"])
def test_ger(board: Board, name: str) -> None:
    dtype, rng, (m, n) = DTYPES[name[0]], np.random.default_rng(5), (9, 14)
    x, y, a = values(rng, m, dtype), values(rng, n, dtype), values(rng, (m, n), dtype)
    blas = Blas(board)
    alpha, pa = blas.factor(2, dtype), upload(board, a)
    assert blas(f"{name}_v2", m, n, address(alpha), upload(board, x), 1, upload(board, y), 1, pa, m) == 0
    right = y.conj() if name.endswith("c") else y
    np.testing.assert_allclose(
        read(board, pa, (m, n), dtype), a + 2 * np.outer(x, right), rtol=0, atol=tolerance(dtype)
    )


@pytest.mark.parametrize("name", ["Sdot", "Ddot", "Cdotu", "Cdotc", "Zdotu", "Zdotc"])
@pytest.mark.parametrize("device", [False, True])
@pytest.mark.parametrize("n", [0, 1, 1000])
def test_dot(board: Board, name: str, device: bool, n: int) -> None:
    dtype, rng = DTYPES[name[0]], np.random.default_rng(6)
    x, y = values(rng, max(n, 1), dtype), values(rng, max(2 * n, 1), dtype)
    blas, out = Blas(board), np.full(1, np.nan, dtype)
    blas.pointer_mode(device)
    where = board.upload(out) if device else address(out)
    assert blas(f"{name}_v2", n, upload(board, x), 1, upload(board, y), 2, where) == 0
    got = board.read(where, dtype, 1) if device else out
    left = x[:n].conj() if name.endswith("c") else x[:n]
    np.testing.assert_allclose(got[0], (left * y[: 2 * n : 2]).sum(), rtol=0, atol=100 * tolerance(dtype))


def _one_norm(x: Array) -> Any:
    return np.abs(x.real) + np.abs(x.imag)


@pytest.mark.parametrize("letter", DTYPES)
@pytest.mark.parametrize("device", [False, True])
def test_norms_sums_and_extremes(board: Board, letter: str, device: bool) -> None:
    dtype, rng = DTYPES[letter], np.random.default_rng(7)
    x = values(rng, 1001, dtype)
    real = x.real.dtype
    blas, px = Blas(board), upload(board, x)
    blas.pointer_mode(device)

    def ask(name: str, result: Any) -> Any:
        out = np.zeros(1, result)
        where = board.upload(out) if device else address(out)
        assert blas(f"{name}_v2", 1001, px, 1, where) == 0
        return (board.read(where, result, 1) if device else out)[0]

    prefix = {"S": "S", "D": "D", "C": "Sc", "Z": "Dz"}[letter]
    np.testing.assert_allclose(ask(f"{prefix}nrm2", real), np.linalg.norm(x), rtol=tolerance(real))
    np.testing.assert_allclose(ask(f"{prefix}asum", real), _one_norm(x).sum(), rtol=tolerance(real))
    assert ask(f"I{letter.lower()}amax", np.int32) == 1 + np.argmax(_one_norm(x))
    assert ask(f"I{letter.lower()}amin", np.int32) == 1 + np.argmin(_one_norm(x))


def test_of_equal_extremes_the_first_counts(board: Board) -> None:
    blas, out, x = Blas(board), np.zeros(1, np.int32), board.upload(np.array([1.0, -3, 3, 0, 0]))
    assert blas("Idamax_v2", 5, x, 1, address(out)) == 0
    assert out[0] == 2
    assert blas("Idamin_v2", 5, x, 1, address(out)) == 0
    assert out[0] == 4
    assert blas("Idamax_v2", 0, x, 1, address(out)) == 0
    assert out[0] == 0


def test_norms_neither_overflow_nor_vanish(board: Board) -> None:
    blas, out = Blas(board), np.zeros(1)
    for values_, expected in (
        ([3e300, 4e300], 5e300),
        ([3e-300, 4e-300], 5e-300),
        ([np.inf, 1], np.inf),
        ([np.nan, 1], np.nan),
    ):
        assert blas("Dnrm2_v2", 2, board.upload(np.array(values_, float)), 1, address(out)) == 0
        np.testing.assert_allclose(out[0], expected, rtol=1e-14)


@pytest.mark.parametrize("letter", DTYPES)
@pytest.mark.parametrize("device", [False, True])
def test_axpy_and_scal(board: Board, letter: str, device: bool) -> None:
    dtype, rng, n = DTYPES[letter], np.random.default_rng(8), 5000
    x, y = values(rng, n, dtype), values(rng, n, dtype)
    blas, factor = Blas(board), np.array([1.5], dtype)
    blas.pointer_mode(device)
    alpha, px, py = board.upload(factor) if device else address(factor), upload(board, x), upload(board, y)
    assert blas(f"{letter}axpy_v2", n, alpha, px, 1, py, -1) == 0
    np.testing.assert_allclose(board.read(py, dtype, n), y + 1.5 * x[::-1], rtol=0, atol=tolerance(dtype))
    assert blas(f"{letter}scal_v2", n, alpha, px, 1) == 0
    np.testing.assert_allclose(board.read(px, dtype, n), 1.5 * x, rtol=tolerance(dtype))
    if letter in "CZ":
        name, real = ("Csscal", np.float32) if letter == "C" else ("Zdscal", np.float64)
        small = np.array([4], real)
        where = board.upload(small) if device else address(small)
        assert blas(f"{name}_v2", n, where, px, 1) == 0
        np.testing.assert_allclose(board.read(px, dtype, n), 6 * x, rtol=tolerance(dtype))


@pytest.mark.parametrize("letter", DTYPES)
@pytest.mark.parametrize(("uplo", "trans"), list(itertools.product([0, 1], [0, 1])))
def test_syrk_writes_one_triangle(board: Board, letter: str, uplo: int, trans: int) -> None:
    dtype, rng, (n, k) = DTYPES[letter], np.random.default_rng(9), (12, 7)
    a, c = values(rng, (n, k) if trans == 0 else (k, n), dtype), values(rng, (n, n), dtype)
    blas = Blas(board)
    alpha, beta, pc = blas.factor(2, dtype), blas.factor(3, dtype), upload(board, c)
    assert (
        blas(f"{letter}syrk_v2", uplo, trans, n, k, address(alpha), upload(board, a), len(a), address(beta), pc, n) == 0
    )
    full = 2 * (op(a, trans) @ op(a, trans).T) + 3 * c
    triangle = np.tri(n, dtype=bool) if uplo == 0 else np.tri(n, dtype=bool).T
    np.testing.assert_allclose(
        read(board, pc, (n, n), dtype), np.where(triangle, full, c), rtol=0, atol=10 * tolerance(dtype)
    )


@pytest.mark.parametrize("letter", DTYPES)
@pytest.mark.parametrize(("ta", "tb"), list(itertools.product([0, 1, 2], [0, 1, 2])))
def test_geam(board: Board, letter: str, ta: int, tb: int) -> None:
    dtype, rng, (m, n) = DTYPES[letter], np.random.default_rng(10), (6, 11)
    a, b = values(rng, (m, n) if ta == 0 else (n, m), dtype), values(rng, (m, n) if tb == 0 else (n, m), dtype)
    blas = Blas(board)
    alpha, beta, pc = blas.factor(2, dtype), blas.factor(-1, dtype), board.buffer(m * n * a.itemsize)
    args = [address(alpha), upload(board, a), len(a), address(beta), upload(board, b), len(b), pc, m]
    assert blas(f"{letter}geam", ta, tb, m, n, *args) == 0
    np.testing.assert_allclose(read(board, pc, (m, n), dtype), 2 * op(a, ta) - op(b, tb), rtol=0, atol=tolerance(dtype))


@pytest.mark.parametrize("letter", DTYPES)
@pytest.mark.parametrize("side", [0, 1])
def test_dgmm(board: Board, letter: str, side: int) -> None:
    dtype, rng, (m, n) = DTYPES[letter], np.random.default_rng(11), (6, 11)
    a, x = values(rng, (m, n), dtype), values(rng, n if side else m, dtype)
    blas, pc = Blas(board), board.buffer(m * n * a.itemsize)
    assert blas(f"{letter}dgmm", side, m, n, upload(board, a), m, upload(board, x), 1, pc, m) == 0
    expected = a * x if side else a * x[:, None]
    np.testing.assert_allclose(read(board, pc, (m, n), dtype), expected, rtol=0, atol=tolerance(dtype))


@pytest.mark.parametrize("letter", DTYPES)
@pytest.mark.parametrize(("side", "uplo", "trans", "unit"), list(itertools.product([0, 1], [0, 1], [0, 1, 2], [0, 1])))
def test_trsm(board: Board, letter: str, side: int, uplo: int, trans: int, unit: int) -> None:
    dtype, rng, (m, n) = DTYPES[letter], np.random.default_rng(12), (8, 5)
    order = n if side else m
    a, b = 0.1 * values(rng, (order, order), dtype) + 3 * np.eye(order, dtype=dtype), values(rng, (m, n), dtype)
    triangle = (
        (np.tril(a) if uplo == 0 else np.triu(a))
        if not unit
        else (np.tril(a, -1) if uplo == 0 else np.triu(a, 1)) + np.eye(order)
    )
    blas = Blas(board)
    alpha, pb = blas.factor(2, dtype), upload(board, b)
    args = [address(alpha), upload(board, np.asfortranarray(a)), order, pb, m]
    assert blas(f"{letter}trsm_v2", side, uplo, trans, unit, m, n, *args) == 0
    x = read(board, pb, (m, n), dtype)
    left = x @ op(triangle, trans) if side else op(triangle, trans) @ x
    np.testing.assert_allclose(left, 2 * b, rtol=0, atol=20 * tolerance(dtype))


# --- order, capture, refusals -----------------------------------------------------------------------------------------------


def test_the_result_for_the_host_waits_for_the_stream(board: Board) -> None:
    """``dot`` sees what the stream wrote before it, under every order of work."""
    for seed in range(20):
        control.seed(seed)
        blas, out, x = Blas(board), np.zeros(1, np.float32), board.buffer(400)
        board.launch(board.kernel("fill"), blas.stream, np.uint64(x), np.float32(2), np.int32(100), grid=1, block=128)
        assert blas("Sdot_v2", 100, x, 1, x, 1, address(out)) == 0
        assert out[0] == 400


def test_work_goes_by_the_order_of_its_stream(board: Board) -> None:
    """A chain of products between fills on one stream, and a wait for it on another."""
    for seed in range(30):
        control.seed(seed)
        blas, other = Blas(board), board.stream()
        a, c = board.upload(np.full(16, 1, np.float32)), board.buffer(64)
        one, event = blas.factor(1, np.float32), board.event()
        zero = blas.factor(0, np.float32)
        board.launch(board.kernel("fill"), blas.stream, np.uint64(a), np.float32(3), np.int32(16), grid=1, block=16)
        assert blas("Sgemm_v2", 0, 0, 4, 4, 4, address(one), a, 4, a, 4, address(zero), c, 4) == 0
        one[0] = zero[0] = 77  # factors are taken at the call
        board.launch(board.kernel("fill"), blas.stream, np.uint64(a), np.float32(5), np.int32(16), grid=1, block=16)
        ok(cu.cuEventRecord(event, blas.stream))
        ok(cu.cuStreamWaitEvent(other, event, 0))
        board.launch(
            board.kernel("scale"), other, np.uint64(a), np.uint64(c), np.float32(2), np.int32(16), grid=1, block=16
        )
        np.testing.assert_array_equal(board.read(a, np.float32, 16), np.full(16, 72))


def test_a_captured_product_runs_at_every_replay_with_what_is_there_then(board: Board) -> None:
    rng = np.random.default_rng(13)
    blas, m = Blas(board), 40
    a, b, c = board.buffer(m * m * 8), board.buffer(m * m * 8), board.buffer(m * m * 8)
    one, zero = blas.factor(1, np.float64), blas.factor(0, np.float64)
    graph = board.capture(
        blas.stream, lambda: blas("Dgemm_v2", 0, 0, m, m, m, address(one), a, m, b, m, address(zero), c, m)
    )
    assert ok(cu.cuGraphGetNodes(graph, 10))[1] == 1
    executable = board.instantiate(graph)
    assert not board.read(c, np.float64, m * m).any()  # nothing ran while capturing
    for seed in range(5):
        control.seed(seed)
        x, y = values(rng, (m, m), float), values(rng, (m, m), float)
        for pointer, matrix in ((a, x), (b, y)):
            ok(cu.cuMemcpyHtoD(pointer, matrix.ctypes.data, matrix.nbytes))
        ok(cu.cuGraphLaunch(executable, blas.stream))
        np.testing.assert_allclose(read(board, c, (m, m), float), x @ y, rtol=0, atol=1e-12)


def test_a_captured_dot_writes_to_the_device_and_is_refused_for_the_host(board: Board) -> None:
    blas, x = Blas(board), board.upload(np.arange(4, dtype=np.float32))
    out, result = np.zeros(1, np.float32), board.buffer(4)
    blas.pointer_mode(True)
    graph = board.capture(blas.stream, lambda: blas("Sdot_v2", 4, x, 1, x, 1, result))
    ok(cu.cuGraphLaunch(board.instantiate(graph), blas.stream))
    assert board.read(result, np.float32, 1)[0] == 14
    blas.pointer_mode(False)
    ok(cu.cuStreamBeginCapture(blas.stream, cu.CUstreamCaptureMode(1)))
    assert blas("Sdot_v2", 4, x, 1, x, 1, address(out)) == EXECUTION_FAILED
    error, _ = cu.cuStreamEndCapture(blas.stream)
    assert int(error) == 901  # waiting for a stream that captures ends the capture


def test_settings_are_kept(board: Board) -> None:
    from tests.standins.interface import interface, library

    blas, number, stream = Blas(board), interface().new("int *"), interface().new("uintptr_t *")
    assert blas("GetVersion_v2", number) == 0
    assert number[0] // 10000 == 13
    assert blas("GetStream_v2", stream) == 0
    assert stream[0] == int(blas.stream)
    assert blas("SetMathMode", 1) == 0
    assert blas("GetMathMode", number) == 0
    assert number[0] == 1
    blas.pointer_mode(True)
    assert blas("GetPointerMode_v2", number) == 0
    assert number[0] == 1
    assert blas("SetPointerMode_v2", 2) == INVALID_VALUE
    assert blas("SetWorkspace_v2", 0, 0) == 0
    assert library("cublas").cublasSetStream_v2(interface().NULL, 0) == NOT_INITIALIZED


def test_wrong_arguments_are_refused(board: Board) -> None:
    blas, one = Blas(board), np.ones(1, np.float32)
    a, f = board.buffer(64), address(one)
    assert blas("Sgemm_v2", 0, 0, -1, 4, 4, f, a, 4, a, 4, f, a, 4) == INVALID_VALUE
    assert blas("Sgemm_v2", 0, 0, 4, 4, 4, f, a, 3, a, 4, f, a, 4) == INVALID_VALUE
    assert blas("Sgemm_v2", 1, 0, 4, 4, 2, f, a, 1, a, 4, f, a, 4) == INVALID_VALUE
    assert blas("Sgemm_v2", 3, 0, 4, 4, 4, f, a, 4, a, 4, f, a, 4) == INVALID_VALUE
    assert blas("Sgemv_v2", 0, 4, 4, f, a, 4, a, 0, f, a, 1) == INVALID_VALUE
    assert blas("GemmEx", 0, 0, 2, 2, 2, f, a, 3, 2, a, 3, 2, f, a, 3, 2, COMPUTE_32F, -1) == NOT_SUPPORTED
    assert blas("GemmEx", 0, 0, 2, 2, 2, f, a, R_64F, 2, a, R_64F, 2, f, a, R_64F, 2, COMPUTE_32F, -1) == NOT_SUPPORTED


def test_a_launch_that_the_driver_refuses_is_a_failure(board: Board) -> None:
    blas, one = Blas(board), np.ones(1, np.float32)
    a, f = board.buffer(64), address(one)
    assert blas("Sgemm_v2", 0, 0, 4, 4, 4, f, a, 4, a, 4, f, a, 4) == 0
    control.fail("cuLaunchKernel", 1, 999)
    assert blas("Sgemm_v2", 0, 0, 4, 4, 4, f, a, 4, a, 4, f, a, 4) == EXECUTION_FAILED


def test_a_matrix_that_is_not_there_is_an_error_of_the_device(board: Board) -> None:
    blas, one = Blas(board), np.ones(1, np.float32)
    a, f = board.buffer(64), address(one)
    assert blas("Sgemm_v2", 0, 0, 400, 400, 400, f, a, 400, a, 400, f, a, 400) == 0
    assert code(cu.cuStreamSynchronize(blas.stream)) == 700
