"""cuda.core buffers from graphcap's pools: the real package, on whichever driver answers."""

from __future__ import annotations

import gc
import importlib
import threading
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.backends.cuda import cuda_backend
from tests.cuda import kit as cuda_kit
from tests.interop import kit

core: Any = pytest.importorskip("cuda.core", reason="cuda-core is not installed")


@pytest.fixture
def resource() -> Any:
    """A resource over the default pool."""
    return _resource()


@pytest.fixture
def device() -> Any:
    """The first device, current."""
    found = core.Device(0)
    found.set_current()
    return found


def _resource(*args: Any, **options: Any) -> Any:
    module: Any = importlib.import_module("graphcap.interop.cuda_core")
    return module.PoolMemoryResource(*args, **options)


def test_buffers_come_from_graphcap_and_go_back(resource: Any, device: Any) -> None:
    stream = device.create_stream()
    before = kit.allocated()
    buffer = resource.allocate(1000, stream=stream)
    assert (buffer.size, buffer.device_id, buffer.memory_resource) == (1000, 0, resource)
    assert (buffer.is_device_accessible, buffer.is_host_accessible, buffer.is_managed) == (True, False, False)
    assert kit.pool_of(int(buffer.handle)) == (0, 0)
    assert kit.allocated() == before + 1024
    buffer.fill(np.uint8(5), stream=stream)
    stream.sync()
    assert cuda_kit.host(core_bytes(buffer), np.uint8).tolist() == [5] * 1000
    buffer.close()
    assert kit.allocated() == before
    buffer = resource.allocate(1000, stream=stream)
    del buffer
    assert kit.allocated() == before


class core_bytes:  # noqa: N801  # used like a function
    """A cuda.core buffer as bytes, with the attribute that the kit reads."""

    def __init__(self, buffer: Any) -> None:
        self.nbytes = buffer.size
        self.__cuda_array_interface__ = {
            "shape": (buffer.size,),
            "typestr": "|u1",
            "data": (int(buffer.handle), False),
            "version": 3,
        }


def test_a_private_pool(device: Any) -> None:
    pool = graphcap.MemPool("cuda")
    resource = _resource(pool)
    assert resource.pool is pool
    stream = device.create_stream()
    buffer = resource.allocate(100, stream=stream)
    assert kit.pool_of(int(buffer.handle)) == pool.id
    identity = pool.id
    del pool, resource
    gc.collect()
    assert kit.pool_of(int(buffer.handle)) == identity, "a live buffer keeps its resource, and that the pool"
    buffer.close(stream)


def test_a_devices_memory_resource(device: Any) -> None:
    before = device.memory_resource
    resource = _resource()
    device.memory_resource = resource
    try:
        stream = device.create_stream()
        a = device.allocate(64, stream=stream)
        a.fill(np.uint8(3), stream=stream)
        b = a.copy_to(stream=stream)
        stream.sync()
        assert {buffer.memory_resource for buffer in (a, b)} == {resource}
        assert cuda_kit.host(core_bytes(b), np.uint8).tolist() == [3] * 64
    finally:
        device.memory_resource = before


def test_graphcaps_streams_and_odd_sizes(resource: Any) -> None:
    stream = graphcap.Stream("cuda")
    buffer = resource.allocate(64, stream=stream)
    buffer.fill(np.uint8(7), stream=core.Device(0).create_stream(stream))
    stream.synchronize()
    assert cuda_kit.host(core_bytes(buffer), np.uint8).tolist() == [7] * 64
    empty = resource.allocate(0, stream=stream)
    assert empty.size == 0
    empty.close()
    with pytest.raises(ValueError, match="negative"):
        resource.allocate(-1, stream=stream)
    with pytest.raises(TypeError, match="CUDA stream"):
        resource.allocate(1, stream="no")


def test_a_capture_allocates_from_its_pool_and_uses_temporaries_again(device: Any) -> None:
    resource = _resource(graphcap.MemPool("cuda"))
    stream = device.create_stream()
    out = resource.allocate(64, stream=stream)
    graph = graphcap.Graph("cuda", keep_graph=True)
    with graphcap.Stream.wrap(stream, "cuda"), graph:
        a = resource.allocate(64, stream=stream)
        a.fill(np.uint8(1), stream=stream)
        first = int(a.handle)
        a.close()
        b = resource.allocate(64, stream=stream)
        assert int(b.handle) == first
        b.fill(np.uint8(2), stream=stream)
        b.copy_to(out, stream=stream)
        del b
    assert kit.pool_of(first) == graph.pool()
    canaries = [resource.allocate(64, stream=stream) for _ in range(30)]
    for canary in canaries:
        canary.fill(np.uint8(9), stream=stream)
    graph.replay(stream)
    graph.replay(stream)
    stream.sync()
    assert cuda_kit.host(core_bytes(out), np.uint8).tolist() == [2] * 64
    assert all(int(canary.handle) != first for canary in canaries)
    assert all(cuda_kit.host(core_bytes(canary), np.uint8).tolist() == [9] * 64 for canary in canaries)


def test_a_buffer_of_a_capture_outlives_the_graph(resource: Any, device: Any) -> None:
    stream = device.create_stream()
    before = kit.allocated()
    graph = graphcap.Graph("cuda")
    with graphcap.Stream.wrap(stream, "cuda"), graph:
        buffer = resource.allocate(64, stream=stream)
        buffer.fill(np.uint8(4), stream=stream)
    graph.replay(stream)
    graph.reset()
    del graph
    kit.settled()
    assert cuda_kit.host(core_bytes(buffer), np.uint8).tolist() == [4] * 64
    held = [buffer]
    del buffer
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert kit.allocated() == before


def test_a_graph_keeps_the_buffers_that_graphcap_captured(resource: Any, device: Any) -> None:
    """cuda-python#2039: a buffer that is dropped after the capture is not handed out again while the graph lives."""
    stream = device.create_stream()
    source, target = resource.allocate(64, stream=stream), resource.allocate(64, stream=stream)
    source.fill(np.uint8(6), stream=stream)
    wrapped = graphcap.Stream.wrap(stream, "cuda")
    graph = graphcap.Graph("cuda")
    with wrapped, graph:
        wrapped.copy(target, source)
    place = int(source.handle)
    del source
    junk = [resource.allocate(64, stream=stream) for _ in range(30)]
    for buffer in junk:
        buffer.fill(np.uint8(9), stream=stream)
    graph.replay(stream)
    stream.sync()
    assert cuda_kit.host(core_bytes(target), np.uint8).tolist() == [6] * 64
    assert place not in {int(buffer.handle) for buffer in junk}


def test_a_buffer_closed_on_another_stream_waits_for_that_streams_work(resource: Any, device: Any) -> None:
    stream, other = device.create_stream(), device.create_stream()
    busy = threading.Event()
    buffer = resource.allocate(5 << 16, stream=stream)
    place = int(buffer.handle)
    graphcap.Stream.wrap(other, "cuda").host_call(busy.wait, 30)
    buffer.close(other)
    second = resource.allocate(5 << 16, stream=stream)
    overlap = int(second.handle) == place
    busy.set()
    other.sync()
    assert not overlap


def test_a_capture_of_cuda_core_itself_is_refused(resource: Any, device: Any) -> None:
    """Nobody could say when its graph is gone. Its capture is unharmed."""
    stream = device.create_stream()
    builder = stream.create_graph_builder().begin_building()
    with pytest.raises(graphcap.CaptureForbiddenError, match=r"not graphcap's[\s\S]*Capture with graphcap"):
        resource.allocate(64, stream=builder)
    buffer = graphcap.allocate(16, "cuda")
    graphcap.Stream.wrap(stream, "cuda").fill(buffer, 1)
    graph = builder.end_building().complete()
    graph.launch(stream)
    stream.sync()
    assert cuda_kit.host(buffer, np.uint8).tolist() == [1] * 16
    graph.close()
    builder.close()


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="MemPool"):
        _resource("no pool")
    with pytest.raises(ValueError, match="CUDA devices"):
        _resource(device="cpu")
    if graphcap.backend_status()["CUDA"].details["devices"][1:]:
        pool = graphcap.MemPool("cuda:1")
        assert _resource(pool).device_id == 1
        with pytest.raises(ValueError, match="another device"):
            _resource(pool, device="cuda:0")


def test_out_of_memory_is_graphcaps(resource: Any, device: Any) -> None:
    stream = device.create_stream()
    graphcap.set_memory_limit(int(graphcap.memory_stats("cuda")["reserved_bytes.current"]) + (1 << 20), "cuda")
    try:
        with pytest.raises(graphcap.OutOfMemoryError, match="limit"):
            resource.allocate(1 << 30, stream=stream)
    finally:
        graphcap.set_memory_limit(None, "cuda")


def test_cuda_cores_errors_in_a_capture_are_explained(device: Any) -> None:
    stream = device.create_stream()
    memory = graphcap.allocate(16, "cuda")
    wrapped = graphcap.Stream.wrap(stream, "cuda")
    refused = pytest.raises(graphcap.CaptureForbiddenError, match=r"cuda\.core inside a capture")
    with refused as caught, wrapped, graphcap.Graph("cuda"):
        wrapped.fill(memory, 1)
        stream.sync()
    assert __file__ in str(caught.value)
    assert caught.value.__cause__ is not None
    with pytest.raises(ValueError, match="own"), wrapped, graphcap.Graph("cuda"):
        raise ValueError("own")


def test_a_buffer_that_dies_inside_the_allocator_is_freed_later(
    resource: Any, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 18: a finalizer in the middle of ``allocate``, of a buffer to be freed on another stream than its own."""
    stream, other = device.create_stream(), device.create_stream()
    before = kit.allocated()
    held = [resource.allocate(64, stream=stream)]
    held[0].set_deallocation_stream(other)
    source, _ = cuda_backend()._sources[0]
    grow = source.allocate_segment

    def grow_while_it_dies(nbytes: int, stream: int) -> int:
        held.clear()
        return grow(nbytes, stream)

    monkeypatch.setattr(source, "allocate_segment", grow_while_it_dies)
    graphcap.empty_cache("cuda")
    large = resource.allocate(64 << 20, stream=stream)
    assert held == [], "the allocator grew, and the buffer died meanwhile"
    large.close()
    resource.allocate(64, stream=stream).close()
    assert kit.allocated() == before


def test_foreign_buffers_are_operands(device: Any) -> None:
    """A ``cuda.core.Buffer`` has no array interface: it is bytes, as graphcap's own buffers are."""
    resource = _resource()
    stream: Any = graphcap.Stream("cuda")
    a, b = resource.allocate(40, stream=stream), resource.allocate(40, stream=stream)
    stream.fill(a, 255)
    stream.copy(b, a)
    x = cuda_kit.device(np.arange(10))
    stream.launch(cuda_kit.kernel("scale"), 1, 32, a, x, np.float32(2), np.int32(10))
    found = np.zeros(10, np.float32)
    stream.copy(found, a)
    stream.synchronize()
    assert found.tolist() == (2.0 * np.arange(10)).tolist()
    assert cuda_kit.host(core_bytes(b), np.uint8).tolist() == [255] * 40
    graph = graphcap.Graph("cuda")
    with stream, graph:
        stream.copy(b, a)
    graph.bind(a=a)
    graph.replay(inputs={"a": resource.allocate(40, stream=stream)})
    b.close()
    with pytest.raises((ValueError, RuntimeError, TypeError), match="closed"):
        stream.copy(a, b)
    stream.synchronize()
