"""USM memory through the pool manager: kinds, views, pools, what a graph keeps alive."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import dpctl.memory
import numpy as np
import pytest

import graphcap
from graphcap.backends.xpu import kernels
from graphcap.backends.xpu.segments import USMSegments

MIB = 1 << 20


@pytest.mark.parametrize("kind", ["device", "shared", "host"])
def test_kinds(stream: Any, kind: str) -> None:
    """dpctl sees the bytes of a buffer as USM of its kind, without a copy and at the buffer's own address."""
    buffer = stream.allocate(1000, kind)
    assert buffer.ptr % 512 == 0
    assert len(buffer) == buffer.nbytes == 1000
    view = dpctl.memory.as_usm_memory(buffer)
    assert (view._pointer, view.nbytes, view.get_usm_type()) == (buffer.ptr, 1000, kind)
    assert view.sycl_context == stream.target.queue.sycl_context
    assert buffer.memory.get_usm_type() == kind
    assert kind in repr(buffer)
    if kind == "device":
        with pytest.raises(TypeError, match=r"stream\.copy"):
            np.asarray(buffer)
    else:
        host = np.asarray(buffer)
        host[:] = 9
        out = np.zeros(1000, np.uint8)
        stream.copy(out, buffer)
        np.testing.assert_array_equal(out, 9)


def test_kinds_that_do_not_exist(stream: Any) -> None:
    with pytest.raises(ValueError, match="'device', 'shared', 'host'"):
        stream.allocate(8, "pinned")
    with pytest.raises(ValueError, match="negative"):
        stream.allocate(-1)


def test_empty_buffer(stream: Any) -> None:
    """No bytes: no address, no memory, and copies and fills of it do nothing."""
    for kind in ("device", "shared"):
        buffer = stream.allocate(0, kind)
        assert (buffer.ptr, buffer.memory) == (0, None)
        stream.copy(buffer, b"")
        stream.fill(buffer, 1)
        kernel = kernels.load(stream, "arithmetic", "add_scalar_i32")
        with pytest.raises(ValueError, match="empty"):
            stream.launch(kernel, [buffer, np.int32(1), np.uint64(0)], 1)
    assert np.asarray(stream.allocate(0, "host")).size == 0


def test_views_keep_the_memory(stream: Any) -> None:
    """A dpctl view or a NumPy view of a buffer holds the block; the block goes back with the last of them."""
    manager = stream.backend.allocator_of(0, "shared")
    before = manager.stats()["allocated_bytes.current"]
    buffer = stream.allocate(MIB, "shared")
    view = dpctl.memory.as_usm_memory(buffer)
    host = np.asarray(buffer)
    del buffer
    gc.collect()
    assert manager.stats()["allocated_bytes.current"] == before + MIB
    del view
    gc.collect()
    assert manager.stats()["allocated_bytes.current"] == before + MIB
    del host
    gc.collect()
    assert manager.stats()["allocated_bytes.current"] == before


@pytest.mark.parametrize("kind", ["device", "shared", "host"])
def test_memory_of_a_capture_comes_from_its_pool(device: str, stream: Any, kind: str) -> None:
    """Rules 14 and 15 for every kind: the graph's pool id on the blocks, and the segments back once nobody needs them."""
    manager = stream.backend.allocator_of(0, kind)
    graph = graphcap.Graph(device)
    with stream, graph:
        buffer = stream.allocate(3 * MIB, kind)
        outside = stream.backend.create_stream(0).allocate(64, kind)
        stream.fill(buffer, 1)
    assert buffer.pool_id == graph.pool()
    assert outside.pool_id == (0, 0)
    pool = graph.pool()
    assert manager.stats()["pools"][pool]["reserved_bytes.current"] == 20 * MIB
    graph.replay(stream)
    graph.reset()
    del buffer
    gc.collect()
    graphcap.synchronize(device)
    graphcap.empty_cache(device)
    assert manager.stats()["pools"].get(pool, {}).get("reserved_bytes.current", 0) == 0


def test_graph_owns_what_its_nodes_use(device: str, stream: Any) -> None:
    """Rule 12: buffers, dpctl memory, host arrays and kernels live as long as the graph, and no longer (trap C5)."""

    class Array(np.ndarray[Any, Any]):
        pass

    source = np.full(64, 3, np.uint8).view(Array)
    usm = dpctl.memory.MemoryUSMShared(64, queue=stream.target.queue)
    buffer = stream.allocate(64)
    owners = [weakref.ref(thing) for thing in (source, buffer)]
    graph = graphcap.Graph(device)
    with stream, graph:
        stream.copy(buffer, source)
        stream.copy(usm, buffer)
    kept = np.asarray(usm)
    del source, usm, buffer
    gc.collect()
    assert all(owner() is not None for owner in owners)
    filler = [stream.allocate(64) for _ in range(8)]
    for other in filler:
        stream.fill(other, 0xEE)
    graph.replay(stream)
    stream.synchronize()
    np.testing.assert_array_equal(kept, 3)
    graph.reset()
    gc.collect()
    assert all(owner() is None for owner in owners)


def test_eager_work_keeps_foreign_memory(stream: Any) -> None:
    """dpctl frees USM at once, also under a running kernel; memory given to a stream lives until the work is done."""
    gate = threading.Event()
    usm = dpctl.memory.MemoryUSMShared(4, queue=stream.target.queue)
    dead: list[int] = []

    class Owner:
        def __init__(self, memory: Any) -> None:
            self.memory = memory
            self.__sycl_usm_array_interface__ = memory.__sycl_usm_array_interface__

    owner = Owner(usm)
    weakref.finalize(owner, dead.append, 1)
    stream.host_call(gate.wait, 60)
    kernel = kernels.load(stream, "arithmetic", "add_scalar_i32")
    stream.launch(kernel, [owner, np.int32(1), np.uint64(1)], 1)
    del owner
    gc.collect()
    assert not dead
    gate.set()
    stream.synchronize()
    gc.collect()
    assert dead


def test_use_on_another_stream_defers_the_block(device: str, stream: Any) -> None:
    """A buffer freed while another stream still uses it is not handed out again before that use is done (S-C26)."""
    other = stream.backend.create_stream(0)
    gate = threading.Event()
    buffer = stream.allocate(5 * MIB)
    address = buffer.ptr
    other.host_call(gate.wait, 60)
    other.fill(buffer, 7)
    del buffer
    again = stream.allocate(5 * MIB)
    assert again.ptr != address
    gate.set()
    graphcap.synchronize(device)
    del again
    later = [stream.allocate(5 * MIB) for _ in range(4)]
    assert address in [block.ptr for block in later]


def test_out_of_memory_names_the_kind(stream: Any) -> None:
    with pytest.raises(graphcap.OutOfMemoryError) as caught:
        stream.allocate(1 << 46, "shared")
    assert caught.value.requested == 1 << 46
    assert "USM shared memory" in str(caught.value.__cause__)


def test_debug_mode_of_the_manager_can_look_at_usm(stream: Any) -> None:
    """The segment source lets the pool manager's debug mode write and read device memory."""
    buffer = stream.allocate(4096)
    source = USMSegments(stream.backend, 0, "device")
    source.fill(buffer.ptr + 100, 50, 0x5A, stream.handle)
    found = source.read(buffer.ptr + 99, 52, stream.handle)
    assert found[1:51] == b"\x5a" * 50
    out = np.empty(4096, np.uint8)
    stream.copy(out, buffer)
    assert (out[100:150] == 0x5A).all()


def test_empty_cache_of_all_kinds(device: str, stream: Any) -> None:
    """One call by device string gives back the caches of every kind of memory."""
    for kind in ("device", "shared", "host"):
        buffer = stream.allocate(30 * MIB, kind)
        del buffer
    gc.collect()
    graphcap.synchronize(device)
    graphcap.empty_cache(device)
    for kind in ("device", "shared", "host"):
        stats = stream.backend.allocator_of(0, kind).stats()
        assert stats["reserved_bytes.current"] < 30 * MIB
