"""Atomic operations against a model that replays them one after the other, in the order that the results themselves tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.emulated_device.harness import Board
from tests.kernel_headers.programs import Array, Program

TYPES: dict[str, tuple[str, type[np.generic]]] = {
    "int": ("int", np.int32),
    "uint": ("unsigned", np.uint32),
    "ll": ("long long", np.int64),
    "ull": ("unsigned long long", np.uint64),
    "float": ("float", np.float32),
    "double": ("double", np.float64),
}
OFFERED = {
    "Add": ("int", "uint", "ull", "float", "double"),
    "Sub": ("int", "uint"),
    "Exch": ("int", "uint", "ull", "float"),
    "Min": ("int", "uint", "ll", "ull"),
    "Max": ("int", "uint", "ll", "ull"),
    "And": ("int", "uint", "ull"),
    "Or": ("int", "uint", "ull"),
    "Xor": ("int", "uint", "ull"),
    "Inc": ("uint",),
    "Dec": ("uint",),
}
MODEL: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda old, v: old + v,
    "Sub": lambda old, v: old - v,
    "Exch": lambda old, v: v,
    "Min": min,
    "Max": max,
    "And": lambda old, v: old & v,
    "Or": lambda old, v: old | v,
    "Xor": lambda old, v: old ^ v,
    "Inc": lambda old, v: 0 if old >= v else old + 1,
    "Dec": lambda old, v: v if old == 0 or old > v else old - 1,
}
CASES = [(name, kind) for name, kinds in OFFERED.items() for kind in kinds]
SCOPES = ("", "_block", "_system")


def one_thread(name: str, kind: str, scope: str) -> str:
    """A single thread goes through the values, so that the order is known."""
    word = TYPES[kind][0]
    return (
        f'extern "C" __global__ void {name}_{kind}{scope}({word} *at, {word} *before, const {word} *values, int n) {{ '
        f"for (int i = 0; i < n; ++i) before[i] = atomic{name}{scope}(at, values[i]); }}"
    )


PROGRAM = Program(
    *(one_thread(name, kind, scope) for name, kind in CASES for scope in SCOPES),
    *(
        f"""
        extern "C" __global__ void cas_{kind}({word} *at, {word} *before, const {word} *compare, const {word} *values, int n) {{
            for (int i = 0; i < n; ++i)
                before[i] = i % 3 == 0 ? atomicCAS(at, compare[i], values[i])
                    : i % 3 == 1 ? atomicCAS_block(at, compare[i], values[i]) : atomicCAS_system(at, compare[i], values[i]);
        }}
        """
        for kind, word in (
            ("int", "int"),
            ("uint", "unsigned"),
            ("ull", "unsigned long long"),
            ("ushort", "unsigned short"),
        )
    ),
    """
    extern "C" __global__ void tickets(unsigned *next, unsigned *mine, unsigned long long *sum, float *fsum, double *dsum) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        mine[i] = atomicAdd(next, 1u);
        atomicAdd(sum, (unsigned long long)i << 33);
        atomicAdd(fsum, 0.5f);
        atomicAdd(dsum, 0.25);
    }
    extern "C" __global__ void in_shared(int *out) {
        __shared__ int bins[8];
        if (threadIdx.x < 8) bins[threadIdx.x] = 0;
        __syncthreads();
        atomicAdd(&bins[threadIdx.x % 8], (int)threadIdx.x);
        __syncthreads();
        atomicMax(&bins[3], (int)threadIdx.x * 100);
        __syncthreads();
        if (threadIdx.x < 8) out[threadIdx.x] = bins[threadIdx.x];
    }
    extern "C" __global__ void locked(int *lock, int *counter) {
        for (bool done = false; !done;) {
            if (atomicCAS(lock, 0, 1) == 0) {
                *(volatile int *)counter = *(volatile int *)counter + 1;
                __threadfence();
                atomicExch(lock, 0);
                done = true;
            }
        }
    }
    struct __align__(16) Wide { long long low, high; };
    extern "C" __global__ void wide(Wide *at, Wide *out) {
        out[0] = atomicCAS(at, Wide{1, 2}, Wide{3, 4});
        out[1] = atomicCAS(at, Wide{1, 2}, Wide{5, 6});
        out[2] = atomicExch(at, Wide{7, 8});
    }
    extern "C" __global__ void vectors(float2 *two, float4 *four, float4 *out) {
        float2 a = atomicAdd(two, make_float2(1, 2));
        float4 b = atomicAdd(four, make_float4(1, 2, 3, 4));
        out[0] = make_float4(a.x, a.y, b.x, b.w);
    }
    """,
)


def numbers(dtype: type[np.generic], name: str) -> Array:
    draw = np.random.default_rng(11)
    if issubclass(dtype, np.floating):
        return draw.standard_normal(64).astype(dtype)
    if name in ("Inc", "Dec"):
        return draw.integers(0, 5, 64).astype(dtype)
    info = np.iinfo(dtype)  # type: ignore[type-var]
    return draw.integers(info.min, info.max, 64, dtype, endpoint=True)


def wrapped(value: Any, dtype: type[np.generic]) -> Any:
    """As the type holds it: integers wrap, floats are rounded."""
    if issubclass(dtype, np.floating):
        return dtype(value)
    bits = np.dtype(dtype).itemsize * 8
    value = int(value) & ((1 << bits) - 1)
    return value - (1 << bits) if issubclass(dtype, np.signedinteger) and value >> (bits - 1) else value


@pytest.mark.parametrize(("name", "kind"), CASES, ids=[f"{name}-{kind}" for name, kind in CASES])
def test_operations(board: Board, name: str, kind: str) -> None:
    """Each gives the old value; the last one stays. Scopes make no difference to one thread."""
    dtype = TYPES[kind][1]
    values = numbers(dtype, name)
    first = values[-1:].copy()
    state, expected = wrapped(first[0], dtype), []
    for value in values.tolist():
        expected.append(state)
        state = wrapped(MODEL[name](state, wrapped(value, dtype)), dtype)
    for scope in SCOPES:
        at, before, _ = PROGRAM.run(
            board, f"{name}_{kind}{scope}", first, np.zeros(64, dtype), values, np.int32(64), block=1
        )
        assert before.tolist() == [dtype(x).item() for x in expected]
        assert at[0] == dtype(state)


@pytest.mark.parametrize("kind", ["int", "uint", "ull", "ushort"])
def test_compare_and_swap(board: Board, kind: str) -> None:
    dtype = np.uint16 if kind == "ushort" else TYPES[kind][1]
    draw = np.random.default_rng(12)
    compare, values = (draw.integers(0, 3, 90).astype(dtype) for _ in range(2))
    at, before, *_ = PROGRAM.run(
        board, f"cas_{kind}", np.zeros(1, dtype), np.zeros(90, dtype), compare, values, np.int32(90), block=1
    )
    state, expected = 0, []
    for c, v in zip(compare.tolist(), values.tolist(), strict=True):
        expected.append(state)
        state = v if state == c else state
    assert before.tolist() == expected
    assert at[0] == state


def test_every_thread_counts_once(board: Board) -> None:
    count = 4 * 96
    following, mine, total, fsum, dsum = PROGRAM.run(
        board, "tickets", np.zeros(1, np.uint32), np.zeros(count, np.uint32), np.zeros(1, np.uint64),
        np.zeros(1, np.float32), np.zeros(1), grid=4, block=96,
    )  # fmt: skip
    assert following[0] == count
    assert sorted(mine.tolist()) == list(range(count))
    assert int(total[0]) == sum(range(count)) << 33
    assert (fsum[0], dsum[0]) == (count / 2, count / 4)


def test_shared_memory(board: Board) -> None:
    (out,) = PROGRAM.run(board, "in_shared", np.zeros(8, np.int32), block=64)
    assert out.tolist() == [6300 if i == 3 else sum(range(i, 64, 8)) for i in range(8)]


def test_a_lock(board: Board) -> None:
    """The usual form, in which the lock is taken and given back within one turn of the loop."""
    lock, counter = PROGRAM.run(board, "locked", np.zeros(1, np.int32), np.zeros(1, np.int32), grid=3, block=40)
    assert (lock[0], counter[0]) == (0, 120)


def test_sixteen_bytes(board: Board) -> None:
    at, out = PROGRAM.run(board, "wide", np.array([1, 2]), np.zeros((3, 2), np.int64), block=1)
    assert out.tolist() == [[1, 2], [3, 4], [3, 4]]
    assert at.tolist() == [7, 8]


def test_vectors(board: Board) -> None:
    two, four, out = PROGRAM.run(
        board, "vectors", np.ones(2, np.float32), np.ones(4, np.float32), np.zeros(4, np.float32), block=1
    )
    assert (two.tolist(), four.tolist(), out.tolist()) == ([2, 3], [2, 3, 4, 5], [1, 1, 1, 1])
