"""graphcap with NVIDIA's own Python packages: cuda.core programs captured, and captured graphs replayed by cuda.bindings."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.backends.cuda import CUDAGraphImpl, cuda_backend
from tests.cuda import kit
from tests.cuda.kit import device, host, make_stream

core: Any = pytest.importorskip("cuda.core")


@pytest.fixture
def core_device() -> Any:
    """The first device of cuda.core, made current."""
    found = core.Device(0)
    found.set_current()
    return found


def test_a_cuda_core_program_is_captured_on_its_own_stream(core_device: Any) -> None:
    stream = core_device.create_stream()
    x, y, z = device(np.arange(100)), device(np.zeros(100)), device(np.zeros(100))
    config = core.LaunchConfig(grid=1, block=128)
    source = core.Buffer.from_handle(y.buffer.ptr, y.nbytes, owner=y)
    target = core.Buffer.from_handle(z.buffer.ptr, z.nbytes, owner=z)
    graph = graphcap.Graph("cuda", keep_graph=True)
    wrapped = graphcap.Stream.wrap(stream, "cuda")
    with wrapped, graph:
        core.launch(stream, config, kit.kernel("scale"), y.buffer.ptr, x.buffer.ptr, np.float32(3), np.int32(100))
        source.copy_to(target, stream=stream)
    assert host(z).tolist() == [0] * 100
    assert [str(node.kind) for node in graph.topology().nodes] == ["kernel", "memcpy"]
    for start in (0, 50):
        make_stream().copy(x, np.arange(start, start + 100, dtype=np.float32))
        graphcap.synchronize("cuda")
        graph.replay(stream=stream)
        stream.sync()
        assert host(z).tolist() == (3.0 * np.arange(start, start + 100)).tolist()


def test_a_cuda_core_stream_forks_from_and_joins_a_capture(core_device: Any) -> None:
    stream, foreign = make_stream(), core_device.create_stream()
    memory = stream.allocate(64)
    graph = graphcap.Graph("cuda")
    with stream, graph:
        stream.fill(memory, 1)
        side = graphcap.Stream.wrap(foreign, "cuda")
        side.wait(stream)
        core.Buffer.from_handle(memory.ptr, 64, owner=memory).fill(np.uint8(9), stream=foreign)
        stream.wait(side)
    graph.replay()
    assert host(memory, np.uint8).tolist() == [9] * 64


def test_graphcaps_streams_are_cuda_cores(core_device: Any) -> None:
    own = make_stream()
    stream = core_device.create_stream(own)
    memory = own.allocate(16)
    core.Buffer.from_handle(memory.ptr, 16, owner=memory).fill(np.uint8(5), stream=stream)
    own.synchronize()
    assert host(memory, np.uint8).tolist() == [5] * 16


def test_a_captured_graph_is_replayed_by_handle_through_the_bindings() -> None:
    cu: Any = importlib.import_module("cuda.bindings.driver")
    stream = make_stream()
    x, y = device([1, 2, 3]), device([0, 0, 0])
    hits: list[int] = []
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        stream.launch(kit.kernel("scale"), 1, 32, y, x, np.float32(4), np.int32(3))
        stream.host_call(hits.append, 1)
    graph.instantiate()
    impl = graph.impl
    assert isinstance(impl, CUDAGraphImpl)
    with cuda_backend().device_guard(0):
        for _ in range(3):
            assert int(cu.cuGraphLaunch(impl.raw_graph_exec(), stream.handle)[0]) == 0
        error, own = cu.cuGraphInstantiate(impl.raw_graph(), 0)
        assert int(error) == 0
        assert int(cu.cuGraphLaunch(own, stream.handle)[0]) == 0
        stream.synchronize()
        assert int(cu.cuGraphExecDestroy(own)[0]) == 0
    assert host(y).tolist() == [4, 8, 12]
    assert hits == [1] * 4


@pytest.mark.gpu
def test_a_captured_graph_is_replayed_through_the_runtime() -> None:
    """The handles of the two APIs are the same objects. The runtime library takes a real driver only."""
    if kit.is_emulated():
        pytest.skip("cuda.bindings.runtime needs a real driver")
    runtime: Any = importlib.import_module("cuda.bindings.runtime")
    stream = make_stream()
    x, y = device([1, 2, 3]), device([0, 0, 0])
    graph = graphcap.Graph("cuda")
    with stream, graph:
        stream.launch(kit.kernel("scale"), 1, 32, y, x, np.float32(4), np.int32(3))
    impl = graph.impl
    assert isinstance(impl, CUDAGraphImpl)
    (error,) = runtime.cudaGraphLaunch(impl.raw_graph_exec(), stream.handle)
    assert int(error) == 0
    (error,) = runtime.cudaStreamSynchronize(stream.handle)
    assert int(error) == 0
    assert host(y).tolist() == [4, 8, 12]


def test_work_of_a_capture_begun_by_cuda_core_is_recorded_too(core_device: Any) -> None:
    stream = core_device.create_stream()
    wrapped = graphcap.Stream.wrap(stream, "cuda")
    memory = wrapped.allocate(16)
    hits: list[str] = []
    builder = stream.create_graph_builder().begin_building()
    wrapped.fill(memory, 8)
    wrapped.host_call(hits.append, "x")
    graph = builder.end_building().complete()
    for _ in range(2):
        graph.launch(stream)
    stream.sync()
    assert host(memory, np.uint8).tolist() == [8] * 16
    assert hits == ["x", "x"]
    graph.close()
    builder.close()
