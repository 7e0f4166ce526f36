"""CuPy's products and its thin wrappers of BLAS on the BLAS stand-in, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.standins.interface import letters, reseed

Array = np.ndarray[Any, Any]

FLOATS = "efdFD"


def values(seed: int, shape: Any, dtype: str) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if dtype in "FD":
        x = x + 1j * rng.standard_normal(shape)
    return np.asarray(x * 4 if dtype in "bhilq" else x).astype(dtype)


def close(cp: Any, got: Any, expected: Any, terms: int = 64) -> None:
    """Equal to within the rounding of the dtype; the expectation comes from wider numbers."""
    got = cp.asnumpy(got)
    assert got.shape == np.shape(expected)
    if got.dtype.kind in "iu":
        np.testing.assert_array_equal(got, expected)
    else:
        eps = float(np.finfo(got.dtype).eps)
        np.testing.assert_allclose(
            got, expected, rtol=4 * eps, atol=4 * terms * float(np.finfo(np.float32).eps if eps > 1e-7 else eps)
        )


def wide(x: Array) -> Array:
    return x.astype({"c": np.complex128, "f": np.float64}.get(x.dtype.kind, x.dtype))


@pytest.mark.parametrize("dtype", letters("efdFDbilq", "efDl"))
@pytest.mark.parametrize(
    ("left", "right"),
    [((5, 7), (7, 4)), ((64, 65), (65, 66)), ((7,), (7,)), ((5, 7), (7,)), ((7,), (7, 4)), ((3, 5, 7), (3, 7, 4)), ((2, 3, 5, 7), (7, 4)),
     ((5, 7), (3, 7, 4)), ((3, 1, 5, 7), (1, 2, 7, 4)), ((3, 5, 7), (7,)), ((7,), (3, 7, 4)), ((0, 7), (7, 4)), ((5, 0), (0, 4))],
)  # fmt: skip
def test_matmul(cp: Any, dtype: str, left: Any, right: Any) -> None:
    a, b = values(1, left, dtype), values(2, right, dtype)
    close(cp, cp.asarray(a) @ cp.asarray(b), wide(a) @ wide(b))


@pytest.mark.parametrize("dtype", letters(FLOATS, "fD"))
@pytest.mark.parametrize("view", ["T", "H", "step", "flip", "fortran"])
def test_matmul_of_views(cp: Any, dtype: str, view: str) -> None:
    def look(x: Any) -> Any:
        return {"T": lambda: x.T, "H": lambda: x.conj().T, "step": lambda: x[::2, ::3], "flip": lambda: x[::-1, ::-1],
                "fortran": lambda: (cp if isinstance(x, cp.ndarray) else np).asfortranarray(x)}[view]()  # fmt: skip

    a, b = values(3, (40, 60), dtype), values(4, (60, 40) if view in ("T", "H", "flip", "fortran") else (40, 60), dtype)
    da, db = cp.asarray(a), cp.asarray(b)
    x, y, dx, dy = look(a), look(b), look(da), look(db)
    if view == "step":
        y, dy = y.T, dy.T
    close(cp, dx @ dy, wide(x) @ wide(y))


@settings(max_examples=25)
@given(
    dtype=st.sampled_from(FLOATS), m=st.integers(1, 50), n=st.integers(1, 50), k=st.integers(1, 90), swap=st.tuples(st.booleans(), st.booleans()),
    seed=st.integers(0, 10**6),
)  # fmt: skip
def test_dot_of_every_shape(cp: Any, dtype: str, m: int, n: int, k: int, swap: tuple[bool, bool], seed: int) -> None:
    reseed(seed % 50)
    a = values(seed, (k, m) if swap[0] else (m, k), dtype)
    b = values(seed + 1, (n, k) if swap[1] else (k, n), dtype)
    da, db = cp.asarray(a), cp.asarray(b)
    a, b, da, db = (
        (a.T if swap[0] else a),
        (b.T if swap[1] else b),
        (da.T if swap[0] else da),
        (db.T if swap[1] else db),
    )
    out = cp.full((m, n), np.nan, dtype)
    cp.dot(da, db, out)
    close(cp, out, wide(a) @ wide(b), 4 * k)
    reseed(0)


CALLS: dict[str, Callable[..., Any]] = {
    "tensordot": lambda xp, a, b, v: xp.tensordot(a, b, axes=([1], [0])),
    "tensordot of two axes": lambda xp, a, b, v: xp.tensordot(a, b.T, axes=2),
    "einsum of a product": lambda xp, a, b, v: xp.einsum("ij,jk->ik", a, b),
    "einsum of a batch": lambda xp, a, b, v: xp.einsum("bij,bjk->bik", xp.stack([a, a * 2]), xp.stack([b, b])),
    "einsum of three": lambda xp, a, b, v: xp.einsum("ij,jk,k->i", a, b, v[:6]),
    "einsum of a trace": lambda xp, a, b, v: xp.einsum("ij,ji->", a, b),
    "inner": lambda xp, a, b, v: xp.inner(a, b.T),
    "inner of vectors": lambda xp, a, b, v: xp.inner(v, v),
    "outer": lambda xp, a, b, v: xp.outer(v, v),
    "vdot": lambda xp, a, b, v: xp.vdot(v, v * 2),
    "vdot of matrices": lambda xp, a, b, v: xp.vdot(a, b.T),
    "dot of vectors": lambda xp, a, b, v: xp.dot(v, v),
    "kron": lambda xp, a, b, v: xp.kron(a, b),
    "trace": lambda xp, a, b, v: xp.trace(a @ b),
    "matrix_power": lambda xp, a, b, v: xp.linalg.matrix_power(a @ b / 10, 3),
    "norm": lambda xp, a, b, v: xp.linalg.norm(a),
    "norm of rows": lambda xp, a, b, v: xp.linalg.norm(a, axis=1),
    "cov": lambda xp, a, b, v: xp.cov(a),
    "corrcoef": lambda xp, a, b, v: xp.corrcoef(a),
    "convolve": lambda xp, a, b, v: xp.convolve(v, v[:3]),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", letters("fdFD", "F"))
def test_what_is_made_of_products(cp: Any, name: str, dtype: str) -> None:
    a, b, v = values(5, (6, 8), dtype), values(6, (8, 6), dtype), values(7, 11, dtype)
    got = CALLS[name](cp, *(cp.asarray(x) for x in (a, b, v)))
    close(cp, got, CALLS[name](np, *(wide(x) for x in (a, b, v))), 300)


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("out", ["device", "host", None])
def test_the_thin_wrappers(cp: Any, dtype: str, out: str | None) -> None:
    """``cupy.cublas`` in both pointer modes: a result array on the device, one on the host, and none."""
    from cupy import cublas

    x, y = values(8, 50, dtype), values(9, 50, dtype)
    dx, dy, real = cp.asarray(x), cp.asarray(y), dtype.lower()

    def ask(name: str, result: str, *arguments: Any) -> Any:
        where = None if out is None else (cp if out == "device" else np).zeros((), result)
        got = getattr(cublas, name)(*arguments, out=where)
        return cp.asnumpy(where if where is not None else got)

    close(cp, ask("nrm2", real, dx), np.linalg.norm(wide(x)))
    close(cp, ask("asum", real, dx), (np.abs(x.real) + np.abs(x.imag)).sum(), 200)
    if dtype in "fd":
        close(cp, ask("dot", dtype, dx, dy), wide(x) @ wide(y))
    else:
        close(cp, ask("dotu", dtype, dx, dy), wide(x) @ wide(y))
        close(cp, ask("dotc", dtype, dx, dy), np.vdot(wide(x), wide(y)))
    one_norm = np.abs(x.real) + np.abs(x.imag)
    assert ask("iamax", "i", dx) == 1 + one_norm.argmax()
    assert ask("iamin", "i", dx) == 1 + one_norm.argmin()
    alpha = {"device": cp.asarray(2.5, dtype), "host": np.array(2.5, dtype), None: 2.5}[out]
    cublas.axpy(alpha, dx, dy)
    close(cp, dy, wide(y) + 2.5 * wide(x))
    cublas.scal(alpha, dx)
    close(cp, dx, 2.5 * wide(x))


@pytest.mark.parametrize("dtype", "fdFD")
def test_the_thin_wrappers_of_matrices(cp: Any, dtype: str) -> None:
    from cupy import cublas

    a, b, x, y = values(1, (6, 8), dtype), values(2, (6, 8), dtype), values(3, 8, dtype), values(4, 6, dtype)
    da, db, dx, dy = (cp.asarray(z) for z in (a, b, x, y))
    close(cp, cublas.geam("N", "N", 2, da, 3, db), 2 * wide(a) + 3 * wide(b))
    close(cp, cublas.geam("T", "T", 2, da, 3, db), (2 * wide(a) + 3 * wide(b)).T)
    close(cp, cublas.dgmm("L", da, dy), wide(y)[:, None] * wide(a))
    close(cp, cublas.dgmm("R", da, dx), wide(a) * wide(x))
    close(cp, cublas.gemm("N", "T", da, db), wide(a) @ wide(b).T)
    square = cp.asfortranarray(cp.zeros((6, 6), dtype))
    cublas.syrk("N", da, out=square, lower=True)
    close(cp, cp.tril(square), np.tril(wide(a) @ wide(a).T))
    out = cp.zeros(6, dtype)
    cublas.gemv("N", 2, cp.asfortranarray(da), dx, 0, out)
    close(cp, out, 2 * (wide(a) @ wide(x)))
    rank = cp.asfortranarray(da)
    (cublas.ger if dtype in "fd" else cublas.geru)(2, dy, dx, rank)
    close(cp, rank, wide(a) + 2 * np.outer(wide(y), wide(x)))


def test_products_go_by_the_order_of_the_current_stream(cp: Any, seeds: range) -> None:
    for seed in seeds:
        reseed(seed)
        stream, other = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
        a = values(seed, (30, 30), "f")
        with stream:
            x = cp.asarray(a)
            y = x @ x
            x += 1
            z = y @ x
            done = stream.record()
        with other:
            other.wait_event(done)
            w = z @ z
        got = cp.asnumpy(w, stream=other)
        z64 = wide(a) @ wide(a) @ (wide(a) + 1)
        np.testing.assert_allclose(got, z64 @ z64, rtol=0, atol=1e-5 * float(np.abs(z64 @ z64).max()))


def test_cupy_itself_refuses_products_in_a_capture(cp: Any) -> None:
    x, stream = cp.ones((3, 3)), cp.cuda.Stream(non_blocking=True)
    x @ x
    with stream:
        stream.begin_capture()
        with pytest.raises(NotImplementedError, match="cuBLAS"):
            x @ x
        stream.end_capture()


REFUSED: dict[str, Callable[..., Any]] = {
    "solve": lambda cp, a: cp.linalg.solve(a, a),
    "inv": lambda cp, a: cp.linalg.inv(a),
    "svd": lambda cp, a: cp.linalg.svd(a),
    "eigh": lambda cp, a: cp.linalg.eigh(a),
    "qr": lambda cp, a: cp.linalg.qr(a),
    "cholesky": lambda cp, a: cp.linalg.cholesky(a),
    "det": lambda cp, a: cp.linalg.det(a),
    "solve of a batch": lambda cp, a: cp.linalg.solve(cp.stack([a, a]), cp.stack([a, a])),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.usefixtures("emulated")
def test_solvers_refuse(cp: Any, name: str) -> None:
    """cuSOLVER has no stand-in: nothing gives a wrong number, everything raises."""
    with pytest.raises(Exception, match=r"NOT_SUPPORTED|nvJitLink|not on the emulated device|not supported"):
        REFUSED[name](cp, cp.eye(3) * 2)


@pytest.mark.usefixtures("emulated")
def test_sparse_products_refuse(cp: Any) -> None:
    with pytest.raises(Exception, match=r"NOT_SUPPORTED|nvJitLink|not on the emulated device|not supported"):
        from cupyx.scipy import sparse

        sparse.csr_matrix(cp.eye(3)) @ cp.ones(3)
