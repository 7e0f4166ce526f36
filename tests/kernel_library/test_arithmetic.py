"""Arithmetic as a GPU does it, where a host compiler would do otherwise or stop the process.

Sources: PTX ISA, ``cvt`` (destinations are saturated; NaN becomes 0 in 32 bits, the smallest number in 64), ``div`` (division
by zero gives an unspecified value, and no trap); CUDA C++ wraps signed overflow.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.emulated_device import harness
from tests.emulated_device.harness import Board
from tests.kernel_library.kit import Module, compiled, emulated_only

INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
NAMES = {
    np.int8: "signed char",
    np.uint8: "unsigned char",
    np.int16: "short",
    np.uint16: "unsigned short",
    np.int32: "int",
    np.uint32: "unsigned int",
    np.int64: "long long",
    np.uint64: "unsigned long long",
}
DIVISIONS = """
template <class T> __global__ void divide(const T *a, const T *b, T *q, T *r) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    q[i] = a[i] / b[i];
    r[i] = a[i] % b[i];
}
"""


def operands(dtype: type[np.integer]) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    info = np.iinfo(dtype)
    edges = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 100]
    edges += [-1, -2, -7] if info.min else []
    rng = np.random.default_rng(info.bits)
    drawn = rng.integers(info.min, info.max, 19, dtype, endpoint=True)
    values = np.concatenate([np.array(edges, dtype), drawn])
    a, b = np.meshgrid(values, values)
    pad = -a.size % 32
    return np.append(a.ravel(), np.ones(pad, dtype)), np.append(b.ravel(), np.ones(pad, dtype))


@pytest.fixture
def divisions(board: Board) -> Module:
    return Module(board, compiled(DIVISIONS, expressions=tuple(f"divide<{name}>" for name in NAMES.values())))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_integer_division(divisions: Module, dtype: type[np.integer]) -> None:
    """Truncating; the smallest number divided by -1 stays; a divisor of zero gives something, and no fault."""
    a, b = operands(dtype)
    _, _, q, r = divisions.run(f"divide<{NAMES[dtype]}>", a, b, a * 0, a * 0, grid=a.size // 32, block=32)
    exact_a, exact_b = a.astype(object), b.astype(object)
    proper = b != 0
    quotients = [
        abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        for x, y in zip(exact_a[proper], exact_b[proper], strict=True)
    ]
    wrapped = np.array([int(x) & (2**64 - 1) for x in quotients], np.uint64).astype(dtype)
    np.testing.assert_array_equal(q[proper], wrapped)
    np.testing.assert_array_equal(r[proper], a[proper] - wrapped * b[proper])
    if harness.emulated() and np.dtype(dtype).itemsize >= 4:  # narrower types are divided as int
        assert (q[~proper] == ~dtype(0)).all()
        np.testing.assert_array_equal(r[~proper], a[~proper])


CONVERSIONS = """
extern "C" __global__ void convert(const float *x, const double *y, int *i, int *j, long long *k, long long *l,
                                   unsigned long long *m) {
    int n = threadIdx.x;
    i[n] = (int)x[n]; j[n] = static_cast<int>(y[n]); k[n] = (long long)x[n]; l[n] = y[n]; m[n] = y[n];
}
"""


def test_conversions_saturate(board: Board) -> None:
    powers = [2.0**n for n in (31, 32, 53, 62, 63, 64)]
    others = [0, 1.9, 300.5, 2**31 - 128, 2.0**31 + 256, 5e9, 1e30, np.inf]
    x = np.array([*powers, *others, *(-one for one in powers + others), np.nan], np.float32)
    y = x.astype(np.float64)
    y[0] = 2147483647.75
    n = x.size
    zeros = [np.zeros(n, dtype) for dtype in (np.int32, np.int32, np.int64, np.int64, np.uint64)]
    _, _, i, j, k, ll, m = Module(board, CONVERSIONS).run("convert", x, y, *zeros, block=n)

    def saturated(values: NDArray[np.floating], low: int, high: int, of_nan: int) -> list[int]:
        return [of_nan if np.isnan(v) else high if v >= high else low if v <= low else int(v) for v in values]

    assert i.tolist() == saturated(x, -(2**31), 2**31 - 1, 0)
    assert j.tolist() == saturated(y, -(2**31), 2**31 - 1, 0)
    assert k.tolist() == saturated(x, -(2**63), 2**63 - 1, -(2**63))
    assert ll.tolist() == saturated(y, -(2**63), 2**63 - 1, -(2**63))
    positive = y >= 0
    assert m[positive].tolist() == saturated(y[positive], 0, 2**64 - 1, 0)


def test_conversions_from_memory_and_in_loops(board: Board) -> None:
    """The address may be in the register that the result goes to."""
    source = """
    struct Row { int pad; float value; };
    extern "C" __global__ void gather(const Row *rows, const double *table, int n, int *out) {
        long long sum = 0;
        for (int i = 0; i < n; ++i) sum += (int)rows[(int)table[i]].value * (i % 2 ? 1 : -1);
        out[0] = (int)(float)sum;
        out[1] = (int)rows[1].value > 0 ? (int)table[2] : (int)table[1];
    }
    """
    rows = np.array([(0, 1.5), (0, 2.5), (0, 1e20), (0, -7.9)], [("pad", "i4"), ("value", "f4")])
    table = np.array([3.9, 0.1, 1.0, 2.0])
    out = Module(board, source).run("gather", rows, table, np.int32(4), np.zeros(2, np.int32))[2]
    assert out.tolist() == [2**31 - 1, 1]


def test_signed_overflow_wraps(board: Board) -> None:
    source = """
    extern "C" __global__ void k(int *x, int by, long long *y) {
        x[1] = x[0] + by; x[2] = (x[0] + by > x[0]); x[3] = x[0] * 2; y[1] = y[0] + by;
        int steps = 0;
        for (int i = x[0] - 3; i > 0 && steps < 100; ++i) ++steps;
        x[4] = steps;
    }
    """
    x = np.array([2**31 - 1, 0, 0, 0, 0], np.int32)
    out, wide = Module(board, source).run("k", x, np.int32(1), np.array([2**63 - 1, 0], np.int64))
    assert out.tolist() == [2**31 - 1, -(2**31), 0, -2, 4]
    assert wide[1] == -(2**63)


def test_products_are_contracted_unless_told_otherwise(board: Board) -> None:
    source = (
        'extern "C" __global__ void k(float *x, double *y) { x[3] = x[0] * x[1] + x[2]; y[3] = y[0] * y[1] + y[2]; }'
    )
    x = np.array([1 + 2.0**-12, 1 + 2.0**-12, -1, 0], np.float32)
    y = np.array([1 + 2.0**-27, 1 + 2.0**-27, -1, 0])
    fused = (2.0**-11 + 2.0**-24, 2.0**-26 + 2.0**-54)
    rounded = (2.0**-11, 2.0**-26)
    for options, expected in [((), fused), (("--fmad=true",), fused), (("--fmad=false",), rounded)]:
        a, b = Module(board, compiled(source, *options)).run("k", x, y)
        assert (float(a[3]), float(b[3])) == expected


def test_memory_may_be_read_as_another_type(board: Board) -> None:
    source = """
    extern "C" __global__ void k(float *x, int *same) {
        float before = *x;
        *same = 0x40000000;
        x[1] = before + *x;
        x[2] = *(int *)&before == 0x3f800000;
    }
    """
    module = Module(board, source)
    where = board.upload(np.array([1, 0, 0], np.float32))
    board.launch(module.function("k"), board.stream(), np.uint64(where), np.uint64(where))
    assert board.read(where, np.float32, 3).tolist() == [2, 3, 1]


@emulated_only
def test_a_function_without_its_return_value_is_an_error_and_the_process_lives(board: Board) -> None:
    from cuda.bindings import driver as cu

    module = Module(
        board,
        """
        __device__ __noinline__ int sometimes(int x) { if (x > 0) return 3; }
        extern "C" __global__ void k(int *x) { x[0] = sometimes(x[0]); }
        """,
    )
    assert module.run("k", np.array([1], np.int32))[0][0] == 3
    where = board.upload(np.array([-1], np.int32))
    board.launch(module.function("k"), board.stream(), np.uint64(where))
    assert cu.cuCtxSynchronize()[0] != cu.CUresult.CUDA_SUCCESS
