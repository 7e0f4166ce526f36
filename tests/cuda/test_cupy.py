"""CuPy takes part in captures. Its wheel needs a real driver: these tests run under ``make gpu-check``."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import threading
from typing import Any

import numpy as np
import pytest

import graphcap
from tests.cuda import kit

_HERE = importlib.util.find_spec("cupy") is not None and not kit.is_emulated()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not _HERE, reason="the CuPy wheel needs a real driver: run `make gpu-check` on a machine with a GPU"
    ),
]


@pytest.fixture
def cupy() -> Any:
    """The module."""
    return importlib.import_module("cupy")


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
    work()  # warm
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
