"""Sort, scan, reduce and histogram against NumPy, through the C interface that CuPy's modules are compiled against."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as cu
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.emulated_device import control, harness
from tests.emulated_device.harness import Board, ok
from tests.standins.interface import interface, library

Array = np.ndarray[Any, Any]

#: CuPy's numbers of the element types.
ELEMENTS = dict(
    enumerate(
        [
            "int8",
            "uint8",
            "int16",
            "uint16",
            "int32",
            "uint32",
            "int64",
            "uint64",
            "float16",
            "float32",
            "float64",
            "complex64",
            "complex128",
            "bool",
        ]
    )
)
NUMBERS = {np.dtype(name): number for number, name in ELEMENTS.items()}
SUM, MIN, MAX, ARGMIN, ARGMAX, CUMSUM, CUMPROD, PROD = range(8)
NO_MEMORY, NOT_OFFERED, INVALID_VALUE = -1, -2, 1


class Workspace:
    """Temporary memory as CuPy gives it: a pointer for the time of the call."""

    def __init__(self, board: Board, *, empty: bool = False) -> None:
        ffi = interface()
        self.live: dict[int, int] = {}
        self.asked: list[int] = []

        @ffi.callback("char *(void *, size_t)")  # type: ignore[untyped-decorator]
        def allocate(owner: Any, nbytes: int) -> Any:
            self.asked.append(nbytes)
            if empty:
                return ffi.NULL
            pointer = board.buffer(nbytes, None)
            self.live[pointer] = nbytes
            return ffi.cast("char *", pointer)

        @ffi.callback("int (void *, char *)")  # type: ignore[untyped-decorator]
        def release(owner: Any, memory: Any) -> int:
            del self.live[int(ffi.cast("uintptr_t", memory))]
            return 0

        self._kept = allocate, release
        self.value = ffi.new("graphcap_workspace *", [allocate, release, ffi.NULL])[0]


def shape_of(array: Array) -> Any:
    return interface().new("ptrdiff_t[]", list(array.shape))


def arrays(max_side: int = 40) -> Any:
    """Arrays of every element type, with repeated values, nans, infinities and both zeros."""

    def of(dtype: np.dtype[Any]) -> Any:
        if dtype.kind == "f":
            elements = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan]) | hnp.from_dtype(dtype)
        elif dtype.kind == "c":
            part = st.sampled_from([0.0, 1.0, -1.0, np.nan, np.inf])
            elements = st.builds(complex, part, part) | hnp.from_dtype(dtype)
        else:
            elements = hnp.from_dtype(dtype)
        return hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=3, max_side=max_side), elements=elements)

    return st.sampled_from(sorted(NUMBERS, key=str)).flatmap(of)


def same(got: Array, expected: Array) -> None:
    """Equal, nans included; -0 and 0 are one value to a sort."""
    np.testing.assert_array_equal(got, expected)


@settings(max_examples=80)
@given(x=arrays(), seed=st.integers(0, 999))
def test_sort(x: Array, seed: int) -> None:
    with harness.board() as board:
        control.seed(seed)
        work, pointer, stream = Workspace(board), board.upload(x), board.stream()
        status = library("primitives").graphcap_sort(
            NUMBERS[x.dtype], pointer, shape_of(x), x.ndim, int(stream), work.value
        )
        assert status == 0
        got = board.read(pointer, x.dtype, x.size).reshape(x.shape)
        assert work.asked == [x.nbytes]
        assert not work.live
    same(got, np.sort(x, axis=-1, kind="stable"))


@settings(max_examples=80)
@given(x=arrays(), seed=st.integers(0, 999))
def test_argsort_is_stable(x: Array, seed: int) -> None:
    with harness.board() as board:
        control.seed(seed)
        work, pointer, index, stream = Workspace(board), board.upload(x), board.buffer(x.size * 8), board.stream()
        status = library("primitives").graphcap_argsort(
            NUMBERS[x.dtype], index, pointer, shape_of(x), x.ndim, int(stream), work.value
        )
        assert status == 0
        got = board.read(index, np.int64, x.size).reshape(x.shape)
    same(got, np.argsort(x, axis=-1, kind="stable"))


@settings(max_examples=60)
@given(x=arrays(12), seed=st.integers(0, 999))
def test_lexsort(x: Array, seed: int) -> None:
    keys = x.reshape(x.shape[0], -1)
    with harness.board() as board:
        control.seed(seed)
        work, pointer, index, stream = (
            Workspace(board),
            board.upload(keys),
            board.buffer(keys.shape[1] * 8),
            board.stream(),
        )
        status = library("primitives").graphcap_lexsort(
            NUMBERS[x.dtype], index, pointer, *keys.shape, int(stream), work.value
        )
        assert status == 0
        got = board.read(index, np.int64, keys.shape[1])
    same(got, np.lexsort(keys))


def test_long_rows_and_many_rows(board: Board) -> None:
    rng, stream = np.random.default_rng(1), board.stream()
    for shape in ((100_000,), (5000, 7), (3, 1, 4000)):
        x = rng.standard_normal(shape).astype(np.float32)
        work, pointer = Workspace(board), board.upload(x)
        assert library("primitives").graphcap_sort(9, pointer, shape_of(x), x.ndim, int(stream), work.value) == 0
        same(board.read(pointer, np.float32, x.size).reshape(shape), np.sort(x))


def reduced(x: Array, operation: int) -> Array:
    """NumPy's reduction of each row, in the row's own type."""
    with np.errstate(all="ignore"):
        if operation == SUM:
            return np.asarray(x.sum(-1, dtype=x.dtype))
        if operation == PROD:
            return np.asarray(x.prod(-1, dtype=x.dtype))
        return np.asarray(x.min(-1) if operation == MIN else x.max(-1))


@pytest.mark.parametrize("name", [n for n in ELEMENTS.values() if n != "bool"])
@pytest.mark.parametrize("operation", [SUM, PROD, MIN, MAX])
@pytest.mark.parametrize("shape", [(1, 1), (1, 1000), (3, 17), (2000, 3)])
def test_reduce(board: Board, name: str, operation: int, shape: tuple[int, int]) -> None:
    rng, dtype = np.random.default_rng(2), np.dtype(name)
    x = rng.integers(1, 4, shape).astype(dtype) if dtype.kind in "iu" else (rng.random(shape) + 0.5).astype(dtype)
    if dtype.kind == "c":
        x += (1j * rng.standard_normal(shape)).astype(dtype)
    if operation == PROD and dtype.kind in "fc":
        x = np.asarray(np.exp(1j * x.imag) if dtype.kind == "c" else 1 + (x - 1) / shape[1], dtype)
    pointer, out, stream = board.upload(x), board.buffer(shape[0] * 16), board.stream()
    assert library("primitives").graphcap_reduce(NUMBERS[dtype], operation, pointer, out, *shape, int(stream)) == 0
    got = board.read(out, dtype, shape[0])
    if dtype.kind in "fc":
        wide = x.astype(np.complex128 if dtype.kind == "c" else np.float64)
        np.testing.assert_allclose(got, reduced(wide, operation), rtol=20 * np.finfo(dtype).eps)
    else:
        same(got, reduced(x, operation))


@settings(max_examples=60)
@given(x=arrays())
def test_extremes_and_their_places(x: Array) -> None:
    """nan wins, and the first of equal ones, as in NumPy."""
    x = x.ravel()
    with harness.board() as board:
        pointer, out, stream = board.upload(x), board.buffer(32), board.stream()
        got = []
        for operation in (ARGMIN, ARGMAX):
            assert (
                library("primitives").graphcap_reduce(NUMBERS[x.dtype], operation, pointer, out, 1, x.size, int(stream))
                == 0
            )
            got.append(int(board.read(out, np.int32, 1)[0]))
    assert got == [int(np.argmin(x)), int(np.argmax(x))]


@pytest.mark.parametrize("name", [n for n in ELEMENTS.values() if n != "bool"])
@pytest.mark.parametrize("operation", [CUMSUM, CUMPROD])
@pytest.mark.parametrize("n", [0, 1, 300])
def test_scan(board: Board, name: str, operation: int, n: int) -> None:
    rng, dtype = np.random.default_rng(3), np.dtype(name)
    x = rng.integers(1, 4, n).astype(dtype) if dtype.kind in "iu" else (1 + rng.standard_normal(n) / 300).astype(dtype)
    pointer, stream = board.upload(x if n else np.zeros(1, dtype)), board.stream()
    assert library("primitives").graphcap_scan(NUMBERS[dtype], operation, pointer, n, int(stream)) == 0
    got = board.read(pointer, dtype, n) if n else x
    numpy_scan = np.cumsum if operation == CUMSUM else np.cumprod
    if dtype.kind in "fc":
        wide = x.astype(np.complex128 if dtype.kind == "c" else np.float64)
        np.testing.assert_allclose(got, numpy_scan(wide), rtol=20 * np.finfo(dtype).eps)
    else:
        with np.errstate(all="ignore"):
            same(got, numpy_scan(x, dtype=dtype))


@pytest.mark.parametrize("name", ["uint8", "int32", "int64", "float32", "float64", "float16"])
def test_histogram(board: Board, name: str) -> None:
    rng, dtype = np.random.default_rng(4), np.dtype(name)
    x = rng.integers(0, 50, 1000).astype(dtype)
    edges = np.array([3, 7, 7.5, 20, 41], np.float64 if dtype.kind in "iu" else dtype)
    stream, counts = board.stream(), board.buffer(32)
    lib = library("primitives")
    assert (
        lib.graphcap_histogram(NUMBERS[dtype], board.upload(x), 1000, board.upload(edges), 0, counts, 4, int(stream))
        == 0
    )
    inside = x[x < 41]  # the last bin is open at its end
    same(board.read(counts, np.int64, 4), np.histogram(inside, edges)[0])
    if dtype.kind in "iu":
        counts = board.buffer(8 * 50)
        assert lib.graphcap_histogram(NUMBERS[dtype], board.upload(x), 1000, 0, 0, counts, 50, int(stream)) == 0
        same(board.read(counts, np.int64, 50), np.bincount(x, minlength=50))


def test_a_captured_sort_sorts_what_is_there_at_the_replay(board: Board) -> None:
    rng, stream = np.random.default_rng(5), board.stream()
    work, pointer = Workspace(board), board.buffer(400)
    shape = interface().new("ptrdiff_t[]", [4, 25])
    graph = board.capture(
        stream, lambda: library("primitives").graphcap_sort(9, pointer, shape, 2, int(stream), work.value), 2
    )
    executable = board.instantiate(graph)
    for seed in range(10):
        control.seed(seed)
        x = rng.standard_normal((4, 25)).astype(np.float32)
        ok(cu.cuMemcpyHtoD(pointer, x.ctypes.data, x.nbytes))
        ok(cu.cuGraphLaunch(executable, stream))
        same(board.read(pointer, np.float32, 100).reshape(4, 25), np.sort(x))


def test_the_order_of_the_stream_holds(board: Board) -> None:
    for seed in range(20):
        control.seed(seed)
        stream, x = board.stream(), np.arange(64, dtype=np.float32)[::-1].copy()
        work, a, b = Workspace(board), board.upload(x), board.buffer(256)
        assert library("primitives").graphcap_sort(9, a, shape_of(x), 1, int(stream), work.value) == 0
        board.launch(board.kernel("copy"), stream, np.uint64(b), np.uint64(a), np.int32(64), grid=1, block=64)
        assert library("primitives").graphcap_scan(9, CUMSUM, a, 64, int(stream)) == 0
        same(board.read(b, np.float32, 64), x[::-1])
        same(board.read(a, np.float32, 64), np.cumsum(x[::-1]))


def test_what_is_refused(board: Board) -> None:
    lib, stream, pointer, one = library("primitives"), int(board.stream()), board.buffer(64), np.zeros(4, np.float32)
    work = Workspace(board, empty=True)
    assert lib.graphcap_sort(9, pointer, shape_of(one), 1, stream, work.value) == NO_MEMORY
    assert lib.graphcap_sort(14, pointer, shape_of(one), 1, stream, work.value) == NOT_OFFERED
    assert lib.graphcap_reduce(9, CUMSUM, pointer, pointer, 1, 4, stream) == NOT_OFFERED
    assert lib.graphcap_reduce(9, MIN, pointer, pointer, 1, 0, stream) == INVALID_VALUE
    assert lib.graphcap_scan(9, SUM, pointer, 4, stream) == NOT_OFFERED
    assert lib.graphcap_histogram(11, pointer, 4, pointer, 0, pointer, 2, stream) == NOT_OFFERED
    control.fail("cuLaunchKernel", 1, 999)
    assert lib.graphcap_scan(9, CUMSUM, pointer, 4, stream) == 999
