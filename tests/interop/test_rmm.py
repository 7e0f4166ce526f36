"""RMM over graphcap's pools.

RMM's extension modules load without a GPU, and its callback resource and the adaptors around it work on whichever driver answers.
Its device buffers ask NVIDIA's runtime library, which takes a real driver only: they are in ``tests/gpu_check``.
"""

from __future__ import annotations

import gc
import importlib
import threading
from typing import Any

import numpy as np
import pytest

import graphcap
from tests.cuda import kit as cuda_kit
from tests.interop import kit

adapter: Any = importlib.import_module("graphcap.interop.rmm")


class Bytes:
    """Memory by address, as bytes."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.nbytes = nbytes
        self.__cuda_array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 3}


@pytest.fixture
def rmm() -> Any:
    """The package."""
    return pytest.importorskip("rmm", reason="rmm is not installed")


@pytest.fixture
def streams(rmm: Any) -> Any:
    """How RMM sees a stream."""
    return importlib.import_module("rmm.pylibrmm.stream").Stream


# -- the two functions, without RMM ------------------------------------------------------------------------------------


def test_the_callables_allocate_and_free_in_stream_order() -> None:
    callbacks = adapter.Callbacks()
    stream, other = cuda_kit.make_stream(), cuda_kit.make_stream()
    before = kit.allocated()
    first = callbacks.allocate(3 << 16, stream)
    callbacks.deallocate(first, 3 << 16, stream)
    assert callbacks.allocate(3 << 16, stream) == first, "the same stream has it again at once"
    busy = threading.Event()
    other.host_call(busy.wait, 30)
    callbacks.deallocate(first, 3 << 16, other)
    second = callbacks.allocate(3 << 16, stream)
    busy.set()
    other.synchronize()
    assert second != first, "freed on another stream, it waits for that stream's work"
    callbacks.deallocate(second, 3 << 16, stream.handle)
    assert callbacks.blocks_out == 0
    assert kit.allocated() == before
    assert callbacks.allocate(0, stream) == 0
    callbacks.deallocate(0, 0, stream)
    with pytest.raises(graphcap.PoolStateError, match="not out"):
        callbacks.deallocate(second, 3 << 16, stream)


def test_the_callables_use_a_private_pool_and_the_pool_of_a_capture() -> None:
    pool = graphcap.MemPool("cuda")
    callbacks = adapter.Callbacks(pool)
    stream = cuda_kit.make_stream()
    place = callbacks.allocate(64, stream)
    assert kit.pool_of(place) == pool.id
    graph = graphcap.Graph("cuda")
    with stream, graph:
        inside = callbacks.allocate(64, stream)
        stream.fill(Bytes(inside, 64), 5)
    assert kit.pool_of(inside) == graph.pool()
    graph.replay()
    assert cuda_kit.host(Bytes(inside, 64), np.uint8).tolist() == [5] * 64
    graph.reset()
    thread = threading.Thread(target=callbacks.deallocate, args=(inside, 64, stream))
    thread.start()
    thread.join()
    callbacks.deallocate(place, 64, stream)
    assert callbacks.blocks_out == 0


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="MemPool"):
        adapter.Callbacks("no pool")
    with pytest.raises(TypeError, match="CUDA stream"):
        adapter.Callbacks().allocate(1, "no stream")
    if graphcap.backend_status()["CUDA"].details["devices"][1:]:
        with pytest.raises(ValueError, match="not of cuda:0"):
            adapter.Callbacks(graphcap.MemPool("cuda:1"), device="cuda:0")


# -- with RMM ----------------------------------------------------------------------------------------------------------


def test_rmms_resource_serves_from_the_pool(rmm: Any, streams: Any) -> None:
    pool = graphcap.MemPool("cuda")
    resource = adapter.memory_resource(pool)
    assert isinstance(resource, rmm.mr.DeviceMemoryResource)
    own = cuda_kit.make_stream()
    stream = streams(own)
    place = resource.allocate(1000, stream)
    assert kit.pool_of(place) == pool.id
    own.fill(Bytes(place, 1000), 3)
    own.synchronize()
    assert cuda_kit.host(Bytes(place, 1000), np.uint8).tolist() == [3] * 1000
    resource.deallocate(place, 1000, stream)
    assert resource.callbacks.blocks_out == 0


def test_rmms_adaptors_around_it(rmm: Any, streams: Any) -> None:
    resource = adapter.memory_resource()
    counted = rmm.mr.StatisticsResourceAdaptor(resource)
    limited = rmm.mr.LimitingResourceAdaptor(counted, allocation_limit=4096)
    stream = streams(cuda_kit.make_stream())
    place = limited.allocate(1024, stream)
    assert counted.allocation_counts.current_bytes == 1024
    with pytest.raises(MemoryError):
        limited.allocate(8192, stream)
    limited.deallocate(place, 1024, stream)
    assert counted.allocation_counts.current_bytes == 0
    assert resource.callbacks.blocks_out == 0


def test_rmm_in_a_capture(rmm: Any, streams: Any) -> None:
    resource = adapter.memory_resource()
    own = cuda_kit.make_stream()
    stream = streams(own)
    out = own.allocate(64)
    graph = graphcap.Graph("cuda")
    with own, graph:
        first = resource.allocate(64, stream)
        own.fill(Bytes(first, 64), 1)
        resource.deallocate(first, 64, stream)
        second = resource.allocate(64, stream)
        assert second == first
        own.fill(Bytes(second, 64), 2)
        own.copy(out, Bytes(second, 64))
    resource.deallocate(second, 64, stream)
    eager = [resource.allocate(64, stream) for _ in range(20)]
    assert first not in eager
    graph.replay()
    assert cuda_kit.host(out, np.uint8).tolist() == [2] * 64
    for place in eager:
        resource.deallocate(place, 64, stream)


def test_errors_come_through_rmm(rmm: Any, streams: Any) -> None:
    """RMM turns what a callback raises into its own errors: MemoryError stays one, the rest keeps its class or its words."""
    resource = adapter.memory_resource()
    own = cuda_kit.make_stream()
    stream = streams(own)
    graphcap.set_memory_limit(int(graphcap.memory_stats("cuda")["reserved_bytes.current"]) + (1 << 20), "cuda")
    try:
        with pytest.raises(MemoryError, match="limit"):
            resource.allocate(1 << 30, stream)
    finally:
        graphcap.set_memory_limit(None, "cuda")
    core: Any = importlib.import_module("cuda.core")
    core.Device(0).set_current()
    capturing = core.Device(0).create_stream()
    builder = capturing.create_graph_builder().begin_building()
    with pytest.raises(RuntimeError, match="not graphcap's"):
        resource.allocate(64, streams(capturing))
    builder.end_building()
    builder.close()


def test_the_resource_keeps_what_rmm_points_to(rmm: Any, streams: Any) -> None:
    resource = adapter.memory_resource(graphcap.MemPool("cuda"))
    gc.collect()
    stream = streams(cuda_kit.make_stream())
    resource.deallocate(resource.allocate(64, stream), 64, stream)


def test_without_rmm_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "rmm.mr", None)
    with pytest.raises(graphcap.BackendUnavailableError, match="pip install rmm-cu13"):
        adapter.memory_resource()
