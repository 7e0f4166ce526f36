"""Barriers that count, fences and clocks, assertions and traps, cached loads, and what cuda::std has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as cu
from cuda.core import Device

import graphcap
from tests.cuda import kit
from tests.emulated_device import harness
from tests.emulated_device.harness import Board
from tests.kernel_headers.programs import Program

PROGRAM = Program(
    """
    #include <cuda/std/bit>
    #include <cuda/std/cstdint>
    #include <cuda/std/limits>
    #include <cuda/std/tuple>
    #include <cuda/std/type_traits>
    #include <cuda/std/utility>
    #include <cuda/atomic>
    #include <math_constants.h>

    extern "C" __global__ void counting(int *count, int *all, int *some, int few) {
        int i = threadIdx.x;
        if (i >= 70) return;  // threads that have returned count for nothing
        count[i] = __syncthreads_count(i % 3 == 0);
        all[i] = __syncthreads_and(few ? i < 5 : i < 500);
        some[i] = __syncthreads_or(few ? i == 69 : i < 0);
    }
    extern "C" __global__ void clocks(long long *out, int *order) {
        long long before = clock64();
        clock_t ticks = clock();
        __nanosleep(1000);
        __threadfence_block(); __threadfence(); __threadfence_system();
        order[0] = clock64() >= before && clock() - ticks >= 0;
        out[0] = before;
    }
    extern "C" __global__ void asserting(int limit) { assert((int)threadIdx.x < limit && "too many threads"); }
    extern "C" __global__ void trapping(int when) { if ((int)threadIdx.x == when) __trap(); }
    extern "C" __global__ void cached(float *out, const float *__restrict__ in, const int4 *four) {
        out[0] = __ldg(in) + __ldcg(in + 1) + __ldca(in + 2) + __ldcs(in + 3);
        int4 v = __ldg(four);
        out[1] = v.x + v.w;
        __stcg(out + 2, 7.0f); __stcs(out + 3, 8.0f); __stwt(out + 4, 9.0f);
    }
    extern "C" __global__ void standard(unsigned long long *out, const unsigned *in) {
        out[0] = cuda::std::byteswap((unsigned short)in[0]);
        out[1] = cuda::std::byteswap(in[0]);
        out[2] = cuda::std::byteswap((unsigned long long)in[0]);
        out[3] = cuda::std::bit_cast<unsigned>(1.0f);
        out[4] = cuda::std::numeric_limits<cuda::std::int64_t>::max();
        out[5] = cuda::std::get<1>(cuda::std::make_tuple(1, 41u)) + cuda::std::is_same<int, int>::value;
        out[6] = cuda::std::countl_zero(in[0]) * 1000 + cuda::std::popcount(in[0]);
        int a = 1, b = 2;
        cuda::std::swap(a, b);
        out[7] = a * 10 + b;
    }
    extern "C" __global__ void references(int *at, int *before) {
        cuda::atomic_ref<int, cuda::thread_scope_device> ref(*at);
        before[threadIdx.x] = ref.fetch_add(2, cuda::std::memory_order_relaxed);
        ref.fetch_max(5);
        int expected = -1;
        if (ref.compare_exchange_strong(expected, 99)) ref.store(-5);
    }
    extern "C" __global__ void constants(double *out) {
        out[0] = CUDART_PI; out[1] = CUDART_INF; out[2] = CUDART_NAN; out[3] = CUDART_PI_F; out[4] = CUDART_INF_F;
        out[5] = CUDART_MIN_DENORM; out[6] = CUDART_MAX_NORMAL_F; out[7] = CUDART_SQRT_TWO; out[8] = CUDART_LN2_F;
    }
    __device__ __forceinline__ int helper(int x) { return x + 1; }
    __host__ __device__ __noinline__ int slow(int x) { return x * 2; }
    extern "C" __global__ void __launch_bounds__(128, 2) bounded(int *out, const __grid_constant__ int by) {
        out[threadIdx.x] = slow(helper(threadIdx.x)) + by;
    }
    """
)


@pytest.mark.parametrize("few", [0, 1])
def test_barriers_that_count(board: Board, few: int) -> None:
    count, every, some = PROGRAM.run(
        board, "counting", *(np.full(80, -1, np.int32) for _ in range(3)), np.int32(few), block=80
    )
    assert set(count[:70].tolist()) == {len(range(0, 70, 3))}
    assert set((every[:70] != 0).tolist()) == {not few}
    assert set((some[:70] != 0).tolist()) == {bool(few)}
    assert (count[70:] == -1).all()


def test_clocks_go_forward(board: Board) -> None:
    _, order = PROGRAM.run(board, "clocks", np.zeros(1, np.int64), np.zeros(1, np.int32), block=1)
    assert order[0] == 1


@pytest.mark.skipif(not harness.emulated(), reason="on a GPU the context is lost with it")
@pytest.mark.parametrize(
    ("kernel", "argument", "error"),
    [("asserting", 20, cu.CUresult.CUDA_ERROR_ASSERT), ("trapping", 31, cu.CUresult.CUDA_ERROR_LAUNCH_FAILED)],
)
def test_faults(board: Board, kernel: str, argument: int, error: Any) -> None:
    PROGRAM.run(board, kernel, np.int32(argument + 20))
    with pytest.raises(harness.DriverCallError) as raised:
        PROGRAM.run(board, kernel, np.int32(argument), np.zeros(1))
    assert raised.value.code == error


def test_cached_loads_and_stores(board: Board) -> None:
    out, *_ = PROGRAM.run(
        board,
        "cached",
        np.zeros(5, np.float32),
        np.arange(1, 5, dtype=np.float32),
        np.arange(4, dtype=np.int32),
        block=1,
    )
    assert out.tolist() == [10, 3, 7, 8, 9]


def test_standard_library(board: Board) -> None:
    out, _ = PROGRAM.run(board, "standard", np.zeros(8, np.uint64), np.array([0x01020304], np.uint32), block=1)
    assert [int(x) for x in out] == [
        0x0403, 0x04030201, 0x0403020100000000, 0x3F800000, (1 << 63) - 1, 42, 7 * 1000 + 5, 21,
    ]  # fmt: skip


def test_atomic_references(board: Board) -> None:
    at, before = PROGRAM.run(board, "references", np.zeros(1, np.int32), np.zeros(32, np.int32))
    assert sorted(before.tolist()) == [0, *range(5, 67, 2)]
    assert at[0] == 67


def test_constants(board: Board) -> None:
    (out,) = PROGRAM.run(board, "constants", np.zeros(9), block=1)
    expected = [np.pi, np.inf, np.nan, np.float32(np.pi), np.inf, 5e-324, np.finfo(np.float32).max, np.sqrt(2)]
    np.testing.assert_array_equal(out, [*expected, np.float32(np.log(2))])


def test_keywords(board: Board) -> None:
    (out,) = PROGRAM.run(board, "bounded", np.zeros(32, np.int32), np.int32(3))
    assert out.tolist() == [2 * (i + 1) + 3 for i in range(32)]


CONDITION = Program(
    """
    extern "C" __device__ __cudart_builtin__ void CUDARTAPI cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned int value);

    extern "C" __global__ void decide(cudaGraphConditionalHandle handle, const int *value) {
        cudaGraphSetConditional(handle, *value > 3);
    }
    """
)


@pytest.mark.parametrize(("value", "expected"), [(1, 1), (7, 5)])
def test_a_condition_set_by_kernel_text(value: int, expected: int) -> None:
    chosen, memory = kit.device([value], np.int32), kit.device([1], np.uint8)
    Device().set_current()
    decide = CONDITION.function("decide")
    stream = kit.make_stream()
    graph = graphcap.Graph("cuda")
    with stream, graph:
        condition = stream.condition(0)
        stream.launch(int(decide), 1, 1, condition, chosen)
        with stream.if_(condition) as body:
            body.fill(memory, 5)
    graph.replay()
    assert kit.host(memory, np.uint8).tolist() == [expected]
    graph.reset()


FREE = Program(
    """
    typedef long long ssize_t;
    __constant__ double M_PI_2 = 1.5;
    __device__ float gamma = 2;
    __device__ int index(int x) { return x + 1; }
    __device__ int ffs(int x) { return __ffs(x); }
    extern "C" __global__ void own_names(ssize_t *out, const int *in) {
        __builtin_assume(in[0] > 0);
        __assume(in[1] > 0);
        out[0] = (ssize_t)(M_PI_2 * gamma);
        out[1] = index(in[0]);
        out[2] = ffs(in[1]);
    }
    """
)


def test_names_that_cuda_leaves_free(board: Board) -> None:
    """The host's C library has them all."""
    out, _ = FREE.run(board, "own_names", np.zeros(3, np.int64), np.array([4, 8], np.int32), block=1)
    assert out.tolist() == [3, 5, 4]
