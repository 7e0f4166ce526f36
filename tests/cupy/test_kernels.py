"""Kernels that users write, in every form that CuPy takes them, against values computed on the host."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

N = 1000


def _raw(cp: Any, name: str, text: str, *options: str) -> Any:
    return cp.RawKernel(text, name, options=options)


def test_static_shared_memory(cp: Any) -> None:
    """A block reverses its part: every thread reads what another wrote."""
    kernel = _raw(
        cp,
        "turn",
        r"""
extern "C" __global__ void turn(const float* x, float* y) {
    __shared__ float part[128];
    part[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 128 + threadIdx.x] = part[127 - threadIdx.x];
}""",
    )
    x = cp.arange(512, dtype="f4")
    y = cp.zeros_like(x)
    kernel((4,), (128,), (x, y))
    np.testing.assert_array_equal(y.get(), np.arange(512, dtype="f4").reshape(4, 128)[:, ::-1].ravel())


def test_dynamic_shared_memory(cp: Any) -> None:
    """Its size is given at the launch."""
    kernel = _raw(
        cp,
        "total",
        r"""
extern "C" __global__ void total(const int* x, int* y, int n) {
    extern __shared__ int part[];
    part[threadIdx.x] = threadIdx.x < n ? x[threadIdx.x] : 0;
    for (int step = blockDim.x / 2; step; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    }
    if (!threadIdx.x) *y = part[0];
}""",
    )
    x, y = cp.arange(200, dtype="i4"), cp.zeros(1, dtype="i4")
    kernel((1,), (256,), (x, y, np.int32(200)), shared_mem=256 * 4)
    assert int(y[0]) == 199 * 200 // 2


def test_blocks_and_grids_of_two_dimensions(cp: Any) -> None:
    """A transpose, with threads beyond the edge that return early."""
    kernel = _raw(
        cp,
        "turn",
        r"""
extern "C" __global__ void turn(const double* x, double* y, int rows, int columns) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows || column >= columns) return;
    y[column * rows + row] = x[row * columns + column];
}""",
    )
    x = np.random.default_rng(1).normal(size=(37, 21))
    y = cp.empty((21, 37))
    kernel((3, 5), (8, 8), (cp.asarray(x), y, np.int32(37), np.int32(21)))
    np.testing.assert_array_equal(y.get(), x.T)


def test_warp_operations(cp: Any) -> None:
    """A shuffle sum and a ballot, over two warps of a block."""
    kernel = _raw(
        cp,
        "warps",
        r"""
extern "C" __global__ void warps(const float* x, float* sums, unsigned* votes) {
    float v = x[threadIdx.x];
    unsigned vote = __ballot_sync(0xffffffffu, v > 40);
    for (int step = 16; step; step /= 2) v += __shfl_down_sync(0xffffffffu, v, step);
    if (threadIdx.x % 32 == 0) { sums[threadIdx.x / 32] = v; votes[threadIdx.x / 32] = vote; }
}""",
    )
    x, sums, votes = cp.arange(64, dtype="f4"), cp.zeros(2, dtype="f4"), cp.zeros(2, dtype="u4")
    kernel((1,), (64,), (x, sums, votes))
    assert sums.get().tolist() == [sum(range(32)), sum(range(32, 64))]
    assert votes.get().tolist() == [0, sum(1 << lane for lane in range(32) if lane + 32 > 40)]


def test_a_barrier_that_counts(cp: Any) -> None:
    """Every thread learns for how many the condition holds."""
    kernel = _raw(
        cp,
        "count",
        'extern "C" __global__ void count(int* y) { y[threadIdx.x] = __syncthreads_count(threadIdx.x % 3 == 0); }',
    )
    y = cp.zeros(100, dtype="i4")
    kernel((1,), (100,), (y,))
    assert (y.get() == 34).all()


def test_atomic_operations(cp: Any) -> None:
    """Added, smallest, largest, exchanged if equal."""
    kernel = _raw(
        cp,
        "atomics",
        r"""
extern "C" __global__ void atomics(int* n, float* s, int* low, int* high, unsigned* once) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(n, 1); atomicAdd(s, 0.5f); atomicMin(low, i - 7); atomicMax(high, i);
    if (atomicCAS(once, 0u, 1u) == 0u) atomicAdd(once + 1, 1u);
}""",
    )
    n, s, low, high = cp.zeros(1, "i4"), cp.zeros(1, "f4"), cp.zeros(1, "i4"), cp.zeros(1, "i4")
    once = cp.zeros(2, "u4")
    kernel((8,), (64,), (n, s, low, high, once))
    assert (int(n[0]), float(s[0]), int(low[0]), int(high[0])) == (512, 256.0, -7, 511)
    assert once.get().tolist() == [1, 1]


def test_constant_and_device_variables(cp: Any) -> None:
    """The host writes one before the launch, and reads the other after it."""
    module = cp.RawModule(
        code=r"""
extern "C" {
__constant__ float factors[4];
__device__ float last;
__global__ void apply(float* x) { x[threadIdx.x] *= factors[threadIdx.x]; if (threadIdx.x == 3) last = x[3]; }
}"""
    )
    factors = cp.ndarray((4,), dtype="f4", memptr=module.get_global("factors"))
    factors[...] = cp.asarray([1, 2, 3, 4], dtype="f4")
    x = cp.full(4, 10, dtype="f4")
    module.get_function("apply")((1,), (4,), (x,))
    assert x.get().tolist() == [10, 20, 30, 40]
    assert float(cp.ndarray((), dtype="f4", memptr=module.get_global("last"))) == 40


def test_templates_by_name_expressions(cp: Any) -> None:
    """Two instances of a template, and one in a namespace."""
    expressions = ["fill<float>", "fill<int>", "inner::twice<double, 3>"]
    module = cp.RawModule(
        code=r"""
template <typename T> __global__ void fill(T* x, T value) { x[threadIdx.x] = value + T(threadIdx.x) / 2; }
namespace inner {
template <typename T, int n> __global__ void twice(T* x) { if (threadIdx.x < n) x[threadIdx.x] *= 2; }
}""",
        options=("-std=c++17",),
        name_expressions=expressions,
    )
    fill_float, fill_int, twice = (module.get_function(name) for name in expressions)
    x, i = cp.zeros(4, dtype="f4"), cp.zeros(4, dtype="i4")
    fill_float((1,), (4,), (x, np.float32(1)))
    fill_int((1,), (4,), (i, np.int32(1)))
    d = cp.ones(4)
    twice((1,), (4,), (d,))
    assert x.get().tolist() == [1, 1.5, 2, 2.5]
    assert i.get().tolist() == [1, 1, 2, 2]
    assert d.get().tolist() == [2, 2, 2, 1]


def test_half_precision(cp: Any) -> None:
    """The header of half precision, with its conversions and operators."""
    kernel = _raw(
        cp,
        "halves",
        r"""
#include <cuda_fp16.h>
extern "C" __global__ void halves(const __half* x, __half* y) {
    int i = threadIdx.x;
    y[i] = __float2half(__half2float(x[i]) * 2.0f) + x[i];
}""",
    )
    x = np.array([1, 2.5, -3, 0.125], dtype="f2")
    y = cp.zeros(4, dtype="f2")
    kernel((1,), (4,), (cp.asarray(x), y))
    np.testing.assert_array_equal(y.get(), x * np.float16(3))


def test_complex_numbers(cp: Any) -> None:
    """CuPy's complex header."""
    kernel = _raw(
        cp,
        "turn",
        r"""
#include <cupy/complex.cuh>
extern "C" __global__ void turn(const complex<float>* x, complex<float>* y) {
    y[threadIdx.x] = x[threadIdx.x] * complex<float>(0, 1) + conj(x[threadIdx.x]);
}""",
    )
    x = np.array([1 + 2j, -3 + 0.5j], dtype="c8")
    y = cp.zeros(2, dtype="c8")
    kernel((1,), (2,), (cp.asarray(x), y))
    np.testing.assert_allclose(y.get(), x * 1j + x.conj(), rtol=1e-6)


def test_vector_types(cp: Any) -> None:
    """Four numbers as one value."""
    kernel = _raw(
        cp,
        "vectors",
        r"""
extern "C" __global__ void vectors(const float4* x, float2* y) {
    float4 v = x[threadIdx.x];
    y[threadIdx.x] = make_float2(v.x + v.y, v.z * v.w);
}""",
    )
    x = np.arange(12, dtype="f4")
    y = cp.zeros((3, 2), dtype="f4")
    kernel((1,), (3,), (cp.asarray(x), y))
    assert y.get().tolist() == [[1, 6], [9, 42], [17, 110]]


def test_what_the_compiler_refuses_is_told(cp: Any) -> None:
    """The exception carries the compiler's words and the text."""
    kernel = _raw(cp, "wrong", 'extern "C" __global__ void wrong(int* x) { x[0] = no_such_name; }')
    with pytest.raises(cp.cuda.compiler.CompileException, match="no_such_name"):
        kernel((1,), (1,), (cp.zeros(1, dtype="i4"),))


def test_a_structure_by_value(cp: Any) -> None:
    """A one-element structured array is a parameter by value."""
    kernel = _raw(
        cp,
        "line",
        r"""
struct Line { double slope; float offset; int n; };
extern "C" __global__ void line(Line l, double* y) { if (threadIdx.x < l.n) y[threadIdx.x] = l.slope * threadIdx.x + l.offset; }""",
    )
    parameters = np.zeros(1, dtype=np.dtype([("slope", "f8"), ("offset", "f4"), ("n", "i4")], align=True))
    parameters[0] = (2.5, 1.0, 3)
    y = cp.zeros(4)
    kernel((1,), (4,), (parameters, y))
    assert y.get().tolist() == [1, 3.5, 6, 0]


def test_attributes_of_a_kernel(cp: Any) -> None:
    """What occupancy and launch limits go by."""
    kernel = _raw(
        cp,
        "shared",
        'extern "C" __global__ void shared(int* x) { __shared__ int s[64]; s[threadIdx.x] = x[0]; __syncthreads(); x[0] = s[0]; }',
    )
    assert kernel.shared_size_bytes in (0, 256)  # the emulated device does not count static shared memory
    assert 1 <= kernel.max_threads_per_block <= 1024
    assert kernel.num_regs >= 0


def test_an_elementwise_kernel_with_all_its_parts(cp: Any) -> None:
    """Raw argument, preamble, loop preparation."""
    kernel = cp.ElementwiseKernel(
        "T x, raw T table, int32 n",
        "T y",
        "y = scaled(x) + table[(i + shift) % n]",
        "with_parts",
        preamble="template <typename T> __device__ T scaled(T x) { return 3 * x; }",
        loop_prep="int shift = 1",
    )
    x, table = np.arange(N, dtype="f8"), np.array([10.0, 20.0, 30.0])
    found = kernel(cp.asarray(x), cp.asarray(table), 3)
    np.testing.assert_array_equal(found.get(), 3 * x + table[(np.arange(N) + 1) % 3])


def test_a_reduction_kernel(cp: Any) -> None:
    """A norm, over everything and along an axis."""
    kernel = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm_of")
    x = np.random.default_rng(2).normal(size=(30, 40))
    np.testing.assert_allclose(kernel(cp.asarray(x)).get(), np.sqrt((x * x).sum()), rtol=1e-12)
    np.testing.assert_allclose(kernel(cp.asarray(x), axis=1).get(), np.sqrt((x * x).sum(axis=1)), rtol=1e-12)


@pytest.mark.parametrize("shape", [(N,), (20, 30)])
def test_fused_elementwise_work(cp: Any, shape: tuple[int, ...]) -> None:
    """One kernel of several calls."""

    @cp.fuse()  # type: ignore[untyped-decorator]
    def fused(x: Any, y: Any) -> Any:
        return cp.sqrt(x * x + y * y) - cp.abs(y)

    x, y = np.random.default_rng(3).normal(size=(2, *shape))
    np.testing.assert_allclose(
        fused(cp.asarray(x), cp.asarray(y)).get(), np.sqrt(x * x + y * y) - abs(y), rtol=1e-12, atol=1e-12
    )


def test_fused_work_with_a_reduction(cp: Any) -> None:
    """The reduction at its end is part of it."""

    @cp.fuse()  # type: ignore[untyped-decorator]
    def fused(x: Any) -> Any:
        return cp.sum(x * x + 1, axis=0)

    x = np.random.default_rng(4).normal(size=(12, 7))
    np.testing.assert_allclose(fused(cp.asarray(x)).get(), (x * x + 1).sum(axis=0), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:cupyx.jit.rawkernel is experimental:FutureWarning")
def test_python_text_as_a_kernel(cp: Any) -> None:
    """``cupyx.jit`` with shared memory and a barrier."""
    from cupyx import jit

    x, y = cp.arange(256, dtype="f4"), cp.zeros(256, dtype="f4")
    _turned(jit)[4, 64](x, y)
    np.testing.assert_array_equal(y.get(), np.arange(256, dtype="f4").reshape(4, 64)[:, ::-1].ravel())


def _turned(jit: Any) -> Any:
    import cupy

    def turn(x, y):  # type: ignore[no-untyped-def]  # compiled as CUDA C++
        part = jit.shared_memory(cupy.float32, 64)
        i = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        part[jit.threadIdx.x] = x[i]
        jit.syncthreads()
        y[i] = part[63 - jit.threadIdx.x]

    return jit.rawkernel()(turn)


def test_threads_that_wait_at_different_barriers_are_an_error(emulated: None, cp: Any) -> None:
    """A device would hang or go wrong; here the launch fails. In a process of its own, whose context it breaks."""
    program = """
from tests.emulated_device import cupy_tree
cupy_tree.load()
import cupy
kernel = cupy.RawKernel('extern "C" __global__ void apart(int* x) {'
                        ' if (threadIdx.x) __syncthreads(); else { while (atomicAdd(x, 0) == 0) __syncwarp(0xffffffffu); } }', "apart")
x = cupy.zeros(1, dtype="i4")
kernel((1,), (64,), (x,))
try:
    cupy.cuda.Device().synchronize()
except cupy.cuda.runtime.CUDARuntimeError as error:
    print(error.status)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split() == ["719"], done.stderr
