"""Through ``cuda.core.Program``, launched and captured by graphcap."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from cuda.core import Device, Program, ProgramOptions

import graphcap
from tests.cuda.kit import DeviceArray, host, make_stream

SOURCE = """
template <class T> __global__ void axpy(int n, T a, const T *x, T *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void block_sums(const double *x, double *sums, int n) {
    extern __shared__ double part[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (int half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}
"""


def options() -> ProgramOptions:
    device = Device()
    device.set_current()
    return ProgramOptions(arch=f"sm_{device.arch}", std="c++17")


@pytest.fixture(scope="module")
def code() -> Any:
    return Program(SOURCE, "c++", options()).compile("cubin", name_expressions=("axpy<float>", "axpy<double>"))


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_a_template_captured_and_replayed(code: Any, name: str) -> None:
    stream = make_stream()
    kernel = code.get_kernel(f"axpy<{'float' if name == 'float32' else 'double'}>")
    n, scalar = 1000, np.dtype(name).type
    x = DeviceArray(np.arange(n, dtype=name), stream)
    y = DeviceArray(np.ones(n, name), stream)
    graph = graphcap.Graph("cuda")
    with stream, graph:
        stream.launch(kernel, -(-n // 128), 128, np.int32(n), scalar(0.5), x, y)
    np.testing.assert_array_equal(host(y.buffer, name), np.ones(n))
    with stream:
        for _ in range(3):
            graph.replay()
    stream.synchronize()
    np.testing.assert_array_equal(host(y.buffer, name), 1 + 1.5 * np.arange(n))


def test_a_chain_with_shared_memory_and_changed_inputs(code: Any) -> None:
    stream = make_stream()
    n, blocks = 1000, 8
    x, sums = DeviceArray(np.zeros(n), stream), DeviceArray(np.zeros(blocks), stream)
    y = DeviceArray(np.zeros(n), stream)
    graph = graphcap.Graph("cuda")
    with stream, graph:
        stream.fill(y.buffer, 0)
        stream.launch(code.get_kernel("axpy<double>"), 8, 128, np.int32(n), 2.0, x, y)
        stream.launch(code.get_kernel("block_sums"), blocks, 128, y, sums, np.int32(n), shared=8 * 128)
    rng = np.random.default_rng(0)
    for _ in range(5):
        values = rng.integers(-1000, 1000, n).astype(float)
        stream.copy(x, values)
        with stream:
            graph.replay()
        stream.synchronize()
        expected = np.append(2 * values, np.zeros(24)).reshape(blocks, 128).sum(axis=1)
        np.testing.assert_array_equal(host(sums.buffer, np.float64), expected)


def test_a_kernel_lives_as_long_as_the_graph_that_uses_it() -> None:
    stream = make_stream()
    x, y = DeviceArray(np.arange(64.0), stream), DeviceArray(np.zeros(64), stream)
    graph = graphcap.Graph("cuda")
    made = Program(SOURCE, "c++", options()).compile("cubin", name_expressions=("axpy<double>",))
    with stream, graph:
        stream.launch(made.get_kernel("axpy<double>"), 1, 64, np.int32(64), 3.0, x, y)
    del made
    gc.collect()
    with stream:
        graph.replay()
    stream.synchronize()
    np.testing.assert_array_equal(host(y.buffer, np.float64), 3 * np.arange(64.0))


def test_a_compile_error_carries_the_log() -> None:
    program = Program("__global__ void k() {\n  nowhere();\n}", "c++", options())
    with pytest.raises(Exception, match=r'\(2\): error: identifier "nowhere" is undefined'):
        program.compile("cubin")


def test_ptx_cannot_be_run() -> None:
    """What stands for PTX is a description; the emulated driver takes it for the PTX that it refuses."""
    from tests.emulated_device import harness

    if not harness.emulated():
        pytest.skip("a real driver runs PTX")
    device = Device()
    made = Program(SOURCE, "c++", ProgramOptions(arch=f"compute_{device.arch}")).compile("ptx")
    with pytest.raises(Exception, match="NO_BINARY"):
        made.get_kernel("block_sums")
