"""CuPy takes part in captures: streams, allocations, what it refuses, and what it leaves behind."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import graphcap
from tests.emulated_device import control, loader


@pytest.fixture
def cupy(cp: Any) -> Any:
    """The module."""
    return cp


def _reserved() -> int:
    gc.collect()
    graphcap.synchronize("cuda")
    graphcap.empty_cache("cuda")
    return int(graphcap.memory_stats("cuda")["reserved_bytes.current"])


def test_a_graphcap_stream_is_cupys_current_one_and_the_other_way_round(cupy: Any) -> None:
    stream, foreign = graphcap.Stream("cuda"), cupy.cuda.Stream(non_blocking=True)
    before = cupy.cuda.get_current_stream()
    with stream:
        assert cupy.cuda.get_current_stream().ptr == stream.handle
        with foreign:
            assert graphcap.current_stream("cuda").handle == foreign.ptr
            with stream:
                assert graphcap.current_stream("cuda") == stream
                assert cupy.cuda.get_current_stream().ptr == stream.handle
            assert graphcap.current_stream("cuda").handle == foreign.ptr
        with cupy.cuda.Stream.null:
            assert graphcap.current_stream("cuda").is_default
        assert graphcap.current_stream("cuda") == stream
    assert cupy.cuda.get_current_stream() == before


def test_cupy_9655_rebinding_inside_a_capture_replays_right(cupy: Any) -> None:
    x = cupy.arange(256, dtype=cupy.float32)
    with graphcap.capture("cuda", warmup=lambda: x * 2 + 1) as graph:
        y = x * 2
        y = y + 1
    canaries = [cupy.full(256, 7, cupy.float32) for _ in range(200)]
    for start in (0, 10, 20):
        x[...] = cupy.arange(start, start + 256, dtype=cupy.float32)
        graph.replay()
        assert cupy.asnumpy(y).tolist() == [2 * v + 1 for v in range(start, start + 256)]
    assert all((cupy.asnumpy(canary) == 7).all() for canary in canaries)


def test_allocations_go_to_the_pool_and_the_allocator_is_put_back(cupy: Any) -> None:
    mine = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(mine.malloc):
        before = cupy.cuda.get_allocator()
        with graphcap.capture("cuda") as graph:
            a = cupy.zeros(1000, cupy.float32)
        assert cupy.cuda.get_allocator() == before
    segments = graphcap.memory_snapshot("cuda")["segments"]
    (owner,) = (s for s in segments if s["address"] <= a.data.ptr < s["address"] + s["total_size"])
    assert tuple(owner["pool_id"]) == graph.pool()
    with pytest.raises(ZeroDivisionError), graphcap.capture("cuda"):
        cupy.zeros(10)
        _ = 1 // 0
    assert cupy.cuda.get_allocator() is not None


def test_arrays_outlive_the_graph_and_free_on_any_thread(cupy: Any) -> None:
    before = _reserved()
    with graphcap.capture("cuda") as graph:
        held = [cupy.full(1 << 20, 3, cupy.uint8)]
    graph.replay()
    graphcap.synchronize("cuda")
    graph.reset()
    del graph
    assert (cupy.asnumpy(held[0]) == 3).all()
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert _reserved() == before


@pytest.mark.parametrize("what", ["cuBLAS", "cuSOLVER", "cuRAND"])
def test_cupy_6290_what_cupy_refuses_is_explained(cupy: Any, what: str) -> None:
    a = cupy.eye(8, dtype=cupy.float32)
    work: Any = {
        "cuBLAS": lambda: a @ a,
        "cuSOLVER": lambda: cupy.linalg.svd(a),
        "cuRAND": lambda: cupy.random.rand(8),
    }[what]
    try:
        work()  # warm
    except cupy.cuda.cusolver.CUSOLVERError:
        assert loader.load() == "emulated"  # which has no cuSOLVER; CuPy's own refusal comes first in a capture
    with pytest.raises(graphcap.CaptureForbiddenError, match=r"6290|Split|Copy") as caught, graphcap.capture("cuda"):
        work()
    assert caught.value.__cause__ is not None
    with graphcap.capture("cuda") as graph:
        b = a * 2
    graph.replay()
    assert cupy.asnumpy(b).tolist() == (2 * np.eye(8)).tolist()


def test_reading_a_value_inside_a_capture_is_explained(cupy: Any) -> None:
    a = cupy.ones(4)
    with pytest.raises(graphcap.CaptureError), graphcap.capture("cuda"):
        a.get()
    with graphcap.capture("cuda") as graph:
        b = a + 1
    graph.replay()
    assert cupy.asnumpy(b).tolist() == [2] * 4


def test_cupy_failure4_a_query_that_invalidates_in_silence_is_found_at_the_end(cupy: Any) -> None:
    a = cupy.ones(4)
    stream = cupy.cuda.Stream(non_blocking=True)
    with pytest.raises(graphcap.CaptureError), graphcap.capture("cuda", stream=stream):
        a += 1
        _ = stream.done
        a += 1


def test_host_functions_of_cupy_run_on_every_replay(cupy: Any) -> None:
    hits: list[str] = []
    with graphcap.capture("cuda") as graph:
        cupy.cuda.get_current_stream().launch_host_func(hits.append, "x")
    gc.collect()
    for _ in range(3):
        graph.replay()
    graphcap.synchronize("cuda")
    assert hits == ["x"] * 3


def test_libuipc_472_strict_capture_catches_work_on_the_null_stream(cupy: Any) -> None:
    a = cupy.ones(4, cupy.float32)
    kernel = cupy.RawKernel('extern "C" __global__ void inc(float *a) { a[threadIdx.x] += 1; }', "inc")
    kernel((1,), (4,), (a,))

    def leak() -> None:
        with cupy.cuda.Stream.null:
            kernel((1,), (4,), (a,))

    with pytest.raises(graphcap.CaptureError), graphcap.capture("cuda", strict=True):
        leak()


def test_an_fft_plan_made_in_the_capture_stays_valid(cupy: Any) -> None:
    x = cupy.arange(64, dtype=cupy.complex64)
    cupy.fft.fft(x)
    cupy.fft.config.get_plan_cache().clear()
    with graphcap.capture("cuda") as graph:
        y = cupy.fft.fft(x)
    graph.replay()
    np.testing.assert_allclose(cupy.asnumpy(y), np.fft.fft(np.arange(64)), rtol=1e-4, atol=1e-2)
    graph.reset()
    np.testing.assert_allclose(cupy.asnumpy(cupy.fft.fft(x)), np.fft.fft(np.arange(64)), rtol=1e-4, atol=1e-2)


def test_buffers_become_cupy_arrays(cupy: Any) -> None:
    buffer: Any = graphcap.allocate(16, device="cuda")
    array = cupy.asarray(buffer)
    array[...] = 5
    assert cupy.asnumpy(cupy.from_dlpack(buffer)).tolist() == [5] * 16


def test_array_namespace_is_cupy(cupy: Any) -> None:
    assert graphcap.array_namespace("cuda") is cupy


def test_a_wrapped_stream_of_cupy_is_entered_as_itself(cupy: Any) -> None:
    foreign = cupy.cuda.Stream(non_blocking=True)
    with graphcap.Stream.wrap(foreign, "cuda"):
        assert cupy.cuda.get_current_stream() is foreign


def test_temporaries_are_used_again_and_other_streams_keep_the_users_allocator(cupy: Any) -> None:
    stream, other = graphcap.Stream("cuda"), cupy.cuda.Stream(non_blocking=True)
    with other:
        cupy.empty(5, cupy.uint8)  # CuPy's own pool cannot ask the driver while a capture is open
    asked: list[int] = []

    def mine(size: int) -> Any:
        asked.append(size)
        return cupy.get_default_memory_pool().malloc(size)

    graph = graphcap.Graph("cuda")
    with cupy.cuda.using_allocator(mine):
        with stream, graph:
            first = cupy.empty(1000, cupy.uint8)
            address = first.data.ptr
            del first
            assert cupy.empty(1000, cupy.uint8).data.ptr == address
            assert not asked
            with other:
                cupy.empty(5, cupy.uint8)
            assert asked == [5]
            kept = cupy.zeros(10)
        cupy.empty(7, cupy.uint8)
        assert asked == [5, 7]
    graph.replay()
    assert cupy.asnumpy(kept).tolist() == [0] * 10


def test_arrays_in_a_reference_cycle_give_their_memory_back(cupy: Any) -> None:
    """CuPy's own hook for allocators loses it: the collector takes the memory object apart before it is freed."""
    before = _reserved()
    with graphcap.capture("cuda") as graph:
        cycle: dict[str, Any] = {"array": cupy.zeros(1 << 20, cupy.uint8)}
        cycle["self"] = cycle
    graph.reset()
    del graph, cycle
    assert _reserved() == before


def test_empty_arrays_need_no_memory(cupy: Any) -> None:
    with graphcap.capture("cuda") as graph:
        empty = cupy.zeros((0, 3))
        other = cupy.ones(3)
    graph.replay()
    assert empty.shape == (0, 3)
    assert cupy.asnumpy(other).tolist() == [1] * 3


@pytest.mark.parametrize("error", [NotImplementedError("of something else"), ValueError("capture the flag")])
def test_other_errors_pass_unchanged(cupy: Any, error: Exception) -> None:
    allocator, stream = cupy.cuda.get_allocator(), cupy.cuda.get_current_stream()
    with pytest.raises(type(error)) as caught, graphcap.capture("cuda"):
        cupy.zeros(3)
        raise error
    assert caught.value is error
    assert cupy.cuda.get_allocator() == allocator
    assert cupy.cuda.get_current_stream() == stream


def test_cupy_imported_inside_the_with_block_takes_part(cupy: Any) -> None:
    program = """
from tests.emulated_device import cupy_tree, loader
import graphcap
loader.load()
s = graphcap.Stream("cuda")
m = s.allocate(4)
with s:
    cupy_tree.load()
    import cupy
    assert cupy.cuda.get_current_stream() == cupy.cuda.Stream.null
    x = cupy.arange(4.0)
    cupy.cuda.Stream.null.synchronize()
    x * 2
    with graphcap.Graph("cuda") as g:
        assert cupy.cuda.get_current_stream().ptr == s.handle
        y = x * 2
    assert cupy.cuda.get_current_stream() == cupy.cuda.Stream.null
g.replay()
graphcap.synchronize("cuda")
assert cupy.asnumpy(y).tolist() == [0, 2, 4, 6]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_inputs_from_before_the_capture_live_as_long_as_the_graph(cupy: Any) -> None:
    """pytorch#170646, cupy#9655: the input's name is gone, its memory is not."""
    before = cupy.get_default_memory_pool().used_bytes()
    x = cupy.arange(4096, dtype=cupy.float32)
    x + 1
    with graphcap.capture("cuda") as graph:
        y = x + 1
    del x
    assert cupy.get_default_memory_pool().used_bytes() - before >= 4096 * 4
    canaries = [cupy.full(4096, -1, cupy.float32) for _ in range(20)]
    graph.replay()
    assert cupy.asnumpy(y).tolist() == list(range(1, 4097))
    assert all((cupy.asnumpy(canary) == -1).all() for canary in canaries)
    del canaries
    graph.reset()
    graphcap.synchronize("cuda")
    assert cupy.get_default_memory_pool().used_bytes() == before


def test_an_input_that_the_capture_itself_drops_is_kept(cupy: Any) -> None:
    x = cupy.arange(4096, dtype=cupy.float32)
    other = cupy.cuda.Stream(non_blocking=True)
    with other:
        x * 2
        cupy.full(4096, -1, cupy.float32)
    with graphcap.capture("cuda") as graph:
        x = x * 2  # the only name of the input
        with other:  # whose memory this would be given
            canary = cupy.full(4096, -1, cupy.float32)
    graph.replay()
    assert cupy.asnumpy(x).tolist() == [2.0 * n for n in range(4096)]
    graph.replay()
    assert cupy.asnumpy(x).tolist() == [2.0 * n for n in range(4096)]
    assert (cupy.asnumpy(canary) == -1).all()


def test_only_what_nodes_use_is_kept(cupy: Any) -> None:
    used, unused = cupy.zeros(1 << 16, cupy.uint8), cupy.zeros(1 << 20, cupy.uint8)
    used + 1
    with graphcap.capture("cuda") as graph:
        used + 1
    before = cupy.get_default_memory_pool().used_bytes()
    del used
    assert cupy.get_default_memory_pool().used_bytes() == before
    del unused
    assert cupy.get_default_memory_pool().used_bytes() == before - (1 << 20)
    graph.replay()


def test_raw_memory_that_nobody_owns_is_told(cupy: Any) -> None:
    address = cupy.cuda.runtime.malloc(4096)
    try:
        memory = cupy.cuda.UnownedMemory(address, 4096, None, 0)
        kernel = cupy.RawKernel('extern "C" __global__ void set(float *a) { a[threadIdx.x] = 1; }', "set")
        kernel((1,), (4,), (cupy.ndarray(4, cupy.float32, cupy.cuda.MemoryPointer(memory, 0)),))
        with pytest.warns(graphcap.UnownedPointerWarning, match=r"kernel 'set'"), graphcap.capture("cuda"):
            kernel((1,), (4,), (np.uint64(address),))
    finally:
        cupy.cuda.runtime.free(address)


@pytest.mark.usefixtures("emulated")  # whose log of calls says where each launch went
def test_replays_follow_cupys_current_stream(cupy: Any) -> None:
    """Also when the graph has settled on a stream: by CuPy's `with`, by `use()`, on other threads, and back."""
    x = cupy.zeros(1)
    cupy.cuda.runtime.deviceSynchronize()  # non-blocking streams do not wait for the default stream
    with graphcap.capture("cuda") as graph:
        x += 1
    first, second = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    own = graphcap.Stream("cuda")
    expected = []
    begin = len(control.calls())

    def replay(handle: int) -> None:
        for _ in range(3):
            graph.replay()
            expected.append(handle)

    def on_another_thread() -> None:
        replay(0)
        with second:
            replay(second.ptr)

    replay(0)
    with first:
        replay(first.ptr)
        with own:
            replay(own.handle)
            with second:
                replay(second.ptr)
            replay(own.handle)
        thread = threading.Thread(target=on_another_thread)
        thread.start()
        thread.join()
        replay(first.ptr)
    replay(0)
    second.use()
    replay(second.ptr)
    cupy.cuda.Stream.null.use()
    replay(0)
    launches = [c.stream for c in control.calls()[begin:] if c.name == "cuGraphLaunch" and not c.result]
    assert launches == expected
    graphcap.synchronize("cuda")
    assert float(x[0]) == len(expected)


def test_a_settled_replay_costs_one_look_at_cupy(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphcap.backends import base

    x = cupy.zeros(1)
    cupy.cuda.runtime.deviceSynchronize()  # non-blocking streams do not wait for the default stream
    with graphcap.capture("cuda") as graph:
        x += 1
    with cupy.cuda.Stream(non_blocking=True):
        for _ in range(200):
            graph.replay()
        monkeypatch.setattr(base, "framework_hooks", lambda name: pytest.fail("the long way"))
        for _ in range(10):
            graph.replay()
        monkeypatch.undo()
    replay: Any = graph.replay
    with pytest.raises(TypeError, match="nothing else"):
        replay(None, 3)
    graphcap.synchronize("cuda")
    assert float(x[0]) == 210
