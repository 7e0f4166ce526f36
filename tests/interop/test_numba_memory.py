"""Numba's device arrays from graphcap's pools: real Numba, on whichever driver answers."""

from __future__ import annotations

import gc
import importlib
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import graphcap
from tests.cuda import kit as cuda_kit
from tests.interop import kit
from tests.interop.kit import address

cuda: Any = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")


@pytest.fixture
def plugin() -> Any:
    """The adapter."""
    return importlib.import_module("graphcap.interop.numba")


def test_arrays_come_from_graphcap_and_go_back() -> None:
    before = kit.allocated()
    a = cuda.to_device(np.arange(1000, dtype=np.float32))
    b = cuda.device_array((10, 10))
    view = a[100:200]
    assert kit.pool_of(address(a)) == (0, 0)
    assert kit.allocated() == before + 4096 + 1024
    del a, b
    assert kit.allocated() == before + 4096, "a view keeps the whole array"
    assert view.copy_to_host().tolist() == list(range(100, 200))
    del view
    assert kit.allocated() == before


def test_pinned_mapped_and_managed_memory_stay_numbas() -> None:
    before = kit.allocated()
    pinned = cuda.pinned_array(10)
    mapped = cuda.mapped_array(10)
    pinned[:] = 3
    d = cuda.device_array(10)
    d.copy_to_device(pinned)
    assert d.copy_to_host().tolist() == [3] * 10
    assert kit.allocated() == before + 512
    del pinned, mapped, d
    assert kit.allocated() == before
    assert cuda.current_context().get_memory_info().total > 0


def test_arrays_made_in_a_capture_come_from_its_pool_and_temporaries_are_used_again() -> None:
    stream = graphcap.Stream("cuda")
    x = cuda.to_device(np.arange(100, dtype=np.float32))
    y = cuda.device_array(100, np.float32)
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        s = _external()
        t = cuda.device_array(100, np.float32)
        t.copy_to_device(x, stream=s)
        first = address(t)
        del t
        t = cuda.device_array(100, np.float32)
        assert address(t) == first, "a temporary that died in the capture is used again by the capture"
        t.copy_to_device(x, stream=s)
        y.copy_to_device(t, stream=s)
    assert kit.pool_of(first) == graph.pool()
    canaries = [cuda.to_device(np.full(100, 7, np.float32)) for _ in range(50)]
    assert all(kit.pool_of(address(c)) == (0, 0) for c in canaries)
    for start in (0, 10, 20):
        x.copy_to_device(np.arange(start, start + 100, dtype=np.float32))
        graph.replay()
        graphcap.synchronize("cuda")
        assert y.copy_to_host().tolist() == list(range(start, start + 100))
    assert all((c.copy_to_host() == 7).all() for c in canaries)


def test_an_array_of_a_capture_outlives_its_graph_and_dies_on_another_thread() -> None:
    stream = graphcap.Stream("cuda")
    before = kit.allocated()
    graph = graphcap.Graph("cuda")
    with stream, graph:
        held = [cuda.device_array(1 << 20, np.uint8)]
        stream.fill(held[0], 3)
    graph.replay()
    graphcap.synchronize("cuda")
    graph.reset()
    del graph
    assert (held[0].copy_to_host() == 3).all()
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert kit.allocated() == before
    assert graphcap.empty_cache("cuda") > 0


def test_use_mem_pool_counts_for_numba() -> None:
    pool = graphcap.MemPool("cuda")
    with graphcap.use_mem_pool(pool):
        a = cuda.device_array(100)
    b = cuda.device_array(100)
    assert kit.pool_of(address(a)) == pool.id
    assert kit.pool_of(address(b)) == (0, 0)
    del pool
    gc.collect()
    a.copy_to_device(np.ones(100))
    assert a.copy_to_host().tolist() == [1] * 100, "a live array keeps the memory of a pool that is gone"


def test_memory_waits_for_work_of_the_default_stream_and_of_numbas_own_streams() -> None:
    """Numba never tells where an array is used: what is freed is not handed out before blocking streams are done."""
    side = cuda.stream()
    busy = threading.Event()
    graphcap_side = graphcap.Stream.wrap(side, "cuda")
    a = cuda.device_array(1 << 16, np.uint8)
    place = address(a)
    graphcap_side.host_call(busy.wait, 30)
    a.copy_to_device(np.zeros(1 << 16, np.uint8), stream=side)
    del a
    gc.collect()
    b = cuda.device_array(1 << 16, np.uint8)
    overlap = address(b) == place
    busy.set()
    assert not overlap
    before = kit.allocated()
    del b
    assert kit.allocated() == before - (1 << 16)


def test_record_stream_covers_a_non_blocking_stream(plugin: Any) -> None:
    side = graphcap.Stream("cuda")
    busy = threading.Event()
    a = cuda.device_array(3 << 16, np.uint8)
    place = address(a)
    plugin.record_stream(a[10:20], side)
    side.host_call(busy.wait, 30)
    del a
    gc.collect()
    b = cuda.device_array(3 << 16, np.uint8)
    overlap = address(b) == place
    busy.set()
    graphcap.synchronize("cuda")
    assert not overlap
    with pytest.raises(TypeError, match="Numba device array"):
        plugin.record_stream(np.ones(3), side)
    with pytest.raises(ValueError, match="no memory from graphcap"):
        plugin.record_stream(cuda.as_cuda_array(cuda_kit.device([1.0])), side)


@pytest.mark.skipif(not cuda_kit.is_emulated(), reason="a real driver may do anything with a stream that is gone")
def test_a_stream_that_is_gone_when_its_array_dies_does_no_harm(plugin: Any) -> None:
    a = cuda.device_array(100)
    plugin.record_stream(a, graphcap.Stream("cuda"))
    handle = graphcap.Stream("cuda").handle  # destroyed at once
    block = plugin._blocks.block(address(a))
    cuda_kit_allocator().record_stream(block, handle)
    before = kit.allocated()
    del a, block
    assert kit.allocated() < before


def cuda_kit_allocator() -> Any:
    """The device's memory manager."""
    from graphcap.backends.cuda import cuda_backend

    return cuda_backend().allocator(0)


def test_out_of_memory_is_graphcaps_and_leaves_nothing_behind() -> None:
    graphcap.empty_cache("cuda")
    before = kit.allocated()
    graphcap.set_memory_limit(int(graphcap.memory_stats("cuda")["reserved_bytes.current"]) + (1 << 20), "cuda")
    try:
        with pytest.raises(graphcap.OutOfMemoryError, match="limit"):
            cuda.device_array(1 << 30, np.uint8)
    finally:
        graphcap.set_memory_limit(None, "cuda")
    assert kit.allocated() == before
    assert cuda.device_array(10).size == 10


def test_two_devices_have_their_own_memory() -> None:
    if len(cuda.gpus) < 2:
        pytest.skip("needs a real machine with a second GPU, or the emulated driver")
    with cuda.gpus[1]:
        a = cuda.to_device(np.arange(10.0))
        assert a.copy_to_host().tolist() == list(range(10))
    segments = graphcap.memory_snapshot("cuda:1")["segments"]
    assert any(s["address"] <= address(a) < s["address"] + s["total_size"] for s in segments)
    assert kit.pool_of(address(a)) is None
    del a
    assert kit.allocated("cuda:1") == 0


def test_a_graph_keeps_a_numba_array_that_it_uses() -> None:
    """User problems A: the array is dropped after the capture, and 200 others of its size are made."""
    stream = graphcap.Stream("cuda")
    x, y = cuda.to_device(np.arange(64, dtype=np.float32)), cuda.device_array(64, np.float32)
    alive = weakref.ref(x)
    graph = graphcap.Graph("cuda")
    with stream, graph:
        y.copy_to_device(x, stream=_external())
    del x
    gc.collect()
    assert alive() is not None
    canaries = [cuda.to_device(np.full(64, 7, np.float32)) for _ in range(200)]
    graph.replay()
    graphcap.synchronize("cuda")
    assert y.copy_to_host().tolist() == list(range(64))
    assert all((c.copy_to_host() == 7).all() for c in canaries)
    graph.reset()
    kit.settled()
    assert alive() is None


def test_a_host_array_given_to_a_captured_copy_is_kept() -> None:
    """User problems L: the source is a temporary; later temporaries of its size must not be read instead."""
    stream = graphcap.Stream("cuda")
    y = cuda.device_array(4096, np.float32)
    graph = graphcap.Graph("cuda")
    with stream, graph:
        y.copy_to_device(np.arange(4096, dtype=np.float32), stream=_external())
    junk = [np.full(4096, -1, np.float32) for _ in range(50)]
    graph.replay()
    graphcap.synchronize("cuda")
    assert y.copy_to_host().tolist() == list(range(4096))
    assert len(junk) == 50


def _external() -> Any:
    adapter: Any = importlib.import_module("graphcap.interop.numba")
    return adapter.external_stream()


# -- turning it on -------------------------------------------------------------------------------------------------------


def test_by_environment() -> None:
    printed = kit.child(
        """
        from numba import cuda
        a = cuda.device_array(10)
        print(type(cuda.current_context().memory_manager).__name__, graphcap.memory_stats("cuda")["blocks.current"])
        """,
        NUMBA_CUDA_MEMORY_MANAGER="graphcap.interop.numba",
    )
    assert printed == "GraphcapMemoryManager 1"


def test_too_late_is_said() -> None:
    printed = kit.child(
        """
        from numba import cuda
        import graphcap.interop.numba as adapter
        cuda.device_array(10)
        try:
            adapter.use_graphcap_memory()
        except graphcap.PoolStateError as error:
            print(error)
        """
    )
    assert "device 0 already" in printed
    assert "NumbaCUDAMemoryManager" in printed


def test_the_end_of_the_process_is_quiet() -> None:
    """Arrays, eager and of a capture, that are alive at the very end; and Numba's own close()."""
    for last in ("", "cuda.close()"):
        kit.child(
            f"""
            from numba import cuda
            import graphcap.interop.numba as adapter
            adapter.use_graphcap_memory()
            a = cuda.device_array(10)
            s = graphcap.Stream("cuda")
            g = graphcap.Graph("cuda")
            with s, g:
                b = cuda.device_array(10)
                s.fill(b, 0)
            {last}
            """
        )
