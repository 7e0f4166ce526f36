"""Numba in captures: streams both ways, what is recorded, what is refused and how it is said. Real Numba."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.topology import NodeKind
from tests.cuda import kit as cuda_kit
from tests.interop import kit

cuda: Any = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
dispatch: Any = importlib.import_module("numba.cuda.dispatcher")
core: Any = importlib.import_module("cuda.core")


@pytest.fixture
def adapter() -> Any:
    """graphcap's side of it."""
    return importlib.import_module("graphcap.interop.numba")


@pytest.fixture
def x() -> Any:
    """Ten numbers on the device."""
    return cuda.to_device(np.arange(10, dtype=np.float32))


# -- streams -------------------------------------------------------------------------------------------------------------


def test_a_graphcap_stream_for_numba(adapter: Any, x: Any) -> None:
    stream = cuda_kit.make_stream()
    handle = stream.handle
    external = adapter.external_stream(stream)
    assert int(external) == handle
    del stream
    gc.collect()
    target = np.zeros(10, np.float32)
    x.copy_to_host(target, stream=external)
    external.synchronize()
    assert target.tolist() == list(range(10))
    with graphcap.Stream("cuda") as current:
        assert int(adapter.external_stream()) == current.handle
    with pytest.raises(TypeError, match="expected a CUDA stream"):
        adapter.external_stream("no stream")


def test_a_numba_stream_for_graphcap(x: Any) -> None:
    numbas = cuda.stream()
    stream = graphcap.Stream.wrap(numbas, "cuda")
    y = cuda.device_array(10, np.float32)
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        y.copy_to_device(x, stream=numbas)
    graph.replay(stream=numbas)
    numbas.synchronize()
    assert y.copy_to_host().tolist() == list(range(10))
    assert [node.kind for node in graph.topology().nodes] == [NodeKind.MEMCPY]


def test_numbas_default_streams_cannot_be_captured() -> None:
    for stream in (cuda.default_stream(), cuda.legacy_default_stream()):
        wrapped = graphcap.Stream.wrap(stream, "cuda")
        with pytest.raises(graphcap.CaptureStateError, match="default stream"), wrapped, graphcap.Graph("cuda"):
            pass


def test_a_numba_stream_of_another_device_is_refused() -> None:
    if len(cuda.gpus) < 2:
        pytest.skip("needs a real machine with a second GPU, or the emulated driver")
    with cuda.gpus[1]:
        other = cuda.stream()
    with pytest.raises(ValueError, match="cuda:1"):
        graphcap.Stream.wrap(other, "cuda:0")
    assert graphcap.Stream.wrap(other, "cuda:1").device == "cuda:1"


# -- recorded ------------------------------------------------------------------------------------------------------------


def test_copies_to_a_captured_stream_are_recorded_and_do_nothing_yet(adapter: Any, x: Any) -> None:
    y, h = cuda.device_array(10, np.float32), np.full(10, -1, np.float32)
    graphcap.synchronize("cuda")
    cuda.to_device(np.full(10, -1, np.float32), to=y)
    stream = graphcap.Stream("cuda")
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        s = adapter.external_stream()
        y.copy_to_device(x, stream=s)
        y.copy_to_host(h, stream=s)
    assert (y.copy_to_host() == -1).all()
    assert (h == -1).all()
    assert [node.params["direction"] for node in graph.topology().nodes] == ["DtoD", "DtoH"]
    graph.replay()
    graphcap.synchronize("cuda")
    assert h.tolist() == list(range(10))


def test_numba_events_fork_and_join_a_capture(adapter: Any, x: Any) -> None:
    a, b = cuda.device_array(10, np.float32), cuda.device_array(10, np.float32)
    origin, side = graphcap.Stream("cuda"), graphcap.Stream("cuda")
    graph = graphcap.Graph("cuda", keep_graph=True)
    with origin, graph:
        s, t = adapter.external_stream(origin), adapter.external_stream(side)
        a.copy_to_device(x, stream=s)
        forked, joined = cuda.event(timing=False), cuda.event(timing=False)
        forked.record(s)
        forked.wait(t)
        b.copy_to_device(x, stream=t)
        joined.record(t)
        joined.wait(s)
    assert len(graph.topology().nodes) == 2
    graph.replay()
    graphcap.synchronize("cuda")
    assert b.copy_to_host().tolist() == list(range(10))


def test_numba_arrays_are_arguments_of_graphcaps_launches(x: Any) -> None:
    y = cuda.device_array(10, np.float32)
    stream: Any = graphcap.Stream("cuda")
    graph = graphcap.Graph("cuda")
    with stream, graph:
        stream.launch(cuda_kit.kernel("scale"), 1, 32, y, x, np.float32(3), np.int32(10))
        stream.fill(x, 5)
    for factor in (1, 5):
        graph.replay()
        graphcap.synchronize("cuda")
        expected = 3.0 * np.arange(10) if factor == 1 else np.full(10, 15.0)
        assert y.copy_to_host().tolist() == expected.tolist()
    with pytest.raises(ValueError, match="contiguous"):
        stream.copy(y[::2], x[::2])


def test_bound_inputs(x: Any) -> None:
    y = cuda.device_array(10, np.float32)
    stream: Any = graphcap.Stream("cuda")
    graph = graphcap.Graph("cuda")
    with stream, graph:
        stream.copy(y, x)
    graph.bind(x=x)
    graph.replay(stream, inputs={"x": cuda.to_device(np.full(10, 4, np.float32))})
    stream.synchronize()
    assert y.copy_to_host().tolist() == [4] * 10
    with pytest.raises(ValueError, match="x"):
        graph.replay(inputs={"x": cuda.to_device(np.zeros(11, np.float32))})


def test_a_graphed_callable_gets_and_gives_numba_arrays(x: Any) -> None:
    seen: list[Any] = []

    def double(a: Any) -> Any:
        seen.append(a)
        out = cuda.device_array_like(a)
        stream: Any = graphcap.current_stream("cuda")
        stream.launch(cuda_kit.kernel("scale"), 1, 32, out, a, np.float32(2), np.int32(10))
        return out

    f = graphcap.make_graphed_callable(double, device="cuda")
    for start in (0, 5):
        result = f(cuda.to_device(np.arange(start, start + 10, dtype=np.float32)))
        graphcap.synchronize("cuda")
        assert isinstance(result, cuda.devicearray.DeviceNDArray)
        assert result.copy_to_host().tolist() == (2.0 * np.arange(start, start + 10)).tolist()
    assert f.captures == 1
    assert isinstance(seen[0], cuda.devicearray.DeviceNDArray)


# -- refused -------------------------------------------------------------------------------------------------------------

_REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "copy to host": (lambda x, s: x.copy_to_host(), "copy to the host.*default stream"),
    "copy from host": (lambda x, s: x.copy_to_device(np.zeros(10, np.float32)), "copy from the host"),
    "to device": (lambda x, s: cuda.to_device(np.zeros(10)), "copy from the host"),
    "device to device": (lambda x, s: cuda.device_array(10, np.float32).copy_to_device(x), "copy between"),
    "set items": (lambda x, s: x.__setitem__(slice(None), 3), "copy"),
    "read an item": (lambda x, s: x[3], "copy to the host"),
    "synchronize": (lambda x, s: cuda.synchronize(), "cuCtxSynchronize"),
    "stream synchronize": (lambda x, s: s.synchronize(), "cuStreamSynchronize"),
    "pinned memory": (lambda x, s: cuda.pinned_array(10), "cuMemHostAlloc"),
}


@pytest.mark.parametrize("what", _REFUSED)
def test_what_cannot_be_captured_is_named_with_the_users_line(adapter: Any, x: Any, what: str) -> None:
    """User problems B: the error comes at the call, names it, the line and a way out; the stream captures again at once."""
    work, words = _REFUSED[what]
    stream = graphcap.Stream("cuda")
    with pytest.raises(graphcap.CaptureForbiddenError, match=words) as caught, stream, graphcap.Graph("cuda"):
        stream.fill(x, 1)
        work(x, adapter.external_stream())
    assert __file__ in str(caught.value)
    assert caught.value.cure
    assert x.copy_to_host().tolist() == list(range(10)), "nothing ran"
    graph = graphcap.Graph("cuda")
    with stream, graph:
        stream.fill(x, 1)
    graph.replay()
    graphcap.synchronize("cuda")
    assert x.copy_to_host().tolist() == [1] * 10


def test_a_launch_on_the_default_stream_is_refused_and_one_on_the_captured_stream_keeps_its_arrays(x: Any) -> None:
    """Numba compiles kernels by NVIDIA's compiler only; the launch that its dispatcher looks up is called as it does."""
    stream = graphcap.Stream("cuda")
    y = cuda.device_array(10, np.float32)
    config, kernel = core.LaunchConfig(grid=1, block=32), cuda_kit.kernel("scale")
    arguments = (kit.address(y), kit.address(x), np.float32(3), np.int32(10))
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        dispatch.launch(core.Stream.from_handle(stream.handle), config, kernel, *arguments)
    graph.replay()
    graphcap.synchronize("cuda")
    assert y.copy_to_host().tolist() == (3.0 * np.arange(10)).tolist()
    with (
        pytest.raises(graphcap.CaptureForbiddenError, match=r"kernel launch.*default stream"),
        stream,
        graphcap.Graph("cuda"),
    ):
        dispatch.launch(core.Stream.from_handle(0), config, kernel, *arguments)
    dispatch.launch(core.Stream.from_handle(0), config, kernel, *arguments)
    graphcap.synchronize("cuda")


def test_a_relaxed_capture_lets_default_stream_work_pass(x: Any) -> None:
    stream = graphcap.Stream("cuda")
    graph = graphcap.Graph("cuda", capture_mode="relaxed")
    with stream, graph:
        stream.fill(x, 1)
        assert x.copy_to_host().tolist() == list(range(10))


def test_a_strict_capture_has_the_driver_refuse_it(x: Any) -> None:
    strict = graphcap.capture("cuda", strict=True, capture_mode="relaxed")
    with pytest.raises(graphcap.CaptureForbiddenError, match="external_stream"), strict:
        x.copy_to_host()


def test_other_threads_are_left_alone(x: Any) -> None:
    import threading

    found: list[Any] = []
    stream = graphcap.Stream("cuda")
    with stream, graphcap.Graph("cuda"):
        stream.fill(x, 1)
        thread = threading.Thread(target=lambda: found.append(x.copy_to_host()))
        thread.start()
        thread.join()
    assert found[0].tolist() == list(range(10))


def test_the_threads_own_default_stream_is_refused_unless_it_is_what_is_captured(x: Any) -> None:
    own = cuda.per_thread_default_stream()
    y = cuda.device_array(10, np.float32)
    with pytest.raises(graphcap.CaptureForbiddenError, match="default stream"), graphcap.capture("cuda"):
        y.copy_to_device(x, stream=own)
    graph = graphcap.Graph("cuda")
    with graphcap.Stream.wrap(own, "cuda"), graph:
        y.copy_to_device(x, stream=own)
    graph.replay()
    graphcap.synchronize("cuda")
    assert y.copy_to_host().tolist() == list(range(10))


def test_captures_of_several_threads(x: Any, adapter: Any) -> None:
    """Each is recorded, refused and restored by itself, while others begin and end."""
    import threading

    troubles: list[BaseException] = []

    def work() -> None:
        try:
            stream = graphcap.Stream("cuda")
            y = cuda.device_array(10, np.float32)
            for _ in range(20):
                graph = graphcap.Graph("cuda", keep_graph=True)
                with stream, graph:
                    y.copy_to_device(x, stream=adapter.external_stream())
                    with pytest.raises(graphcap.CaptureForbiddenError):
                        y.copy_to_host()
                assert len(graph.topology().nodes) == 1
                graph.replay(stream)
                stream.synchronize()
        except BaseException as error:
            troubles.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == []
    assert x.copy_to_host().tolist() == list(range(10))


def test_an_array_on_a_broken_capture(x: Any) -> None:
    stream = graphcap.Stream("cuda")
    with pytest.raises(graphcap.CaptureInvalidatedError) as caught, stream, graphcap.Graph("cuda"):
        stream.fill(x, 1)
        with pytest.raises(graphcap.CaptureForbiddenError):
            stream.synchronize()
        cuda.device_array(10)
    assert isinstance(caught.value.__cause__, graphcap.CaptureForbiddenError)


def test_numba_is_left_as_it_was_however_the_capture_ended(x: Any) -> None:
    guard: Any = importlib.import_module("graphcap.interop._numba_guard")
    before = {p: getattr(importlib.import_module(p.module), p.name) for p in guard.POINTS}
    stream, other = graphcap.Stream("cuda"), graphcap.Stream("cuda")
    with stream, graphcap.Graph("cuda"):
        stream.fill(x, 1)
        assert any(getattr(importlib.import_module(p.module), p.name) is not before[p] for p in guard.POINTS)
        with other, graphcap.Graph("cuda"):
            other.fill(x, 1)
        with pytest.raises(graphcap.CaptureForbiddenError):
            x.copy_to_host()
    with pytest.raises(ZeroDivisionError), stream, graphcap.Graph("cuda"):
        _ = 1 // 0
    abandoned = graphcap.Graph("cuda")
    stream.__enter__()
    abandoned.capture_begin()
    abandoned.reset()
    stream.__exit__(None, None, None)
    assert {p: getattr(importlib.import_module(p.module), p.name) for p in guard.POINTS} == before
    assert cuda.current_context().deallocations.is_disabled is False


def test_numbas_frees_wait_for_the_end_of_the_capture() -> None:
    """User problems C: arrays of Numba's own memory die inside, more than it lets wait; cuMemFree would break the capture."""
    printed = kit.child(
        """
        from numba import cuda
        x = cuda.to_device(np.arange(10.0))
        doomed = [[cuda.device_array(10), cuda.pinned_array(10), cuda.event(), cuda.stream()] for _ in range(50)]
        stream = graphcap.Stream("cuda")
        graph = graphcap.Graph("cuda", capture_mode="global")
        with stream, graph:
            stream.fill(x, 1)
            doomed.clear()
            gc.collect()
            stream.fill(x, 2)
        graph.replay()
        graphcap.synchronize("cuda")
        print(x.copy_to_host().tolist() == [2] * 10, len(cuda.current_context().memory_manager.deallocations) >= 50)
        cuda.to_device(np.arange(10.0))
        del x
        print(len(cuda.current_context().memory_manager.deallocations) < 50)
        """
    )
    assert printed.split() == ["True", "True", "True"]


def test_a_broken_capture_stays_broken_in_words(adapter: Any, x: Any) -> None:
    stream = graphcap.Stream("cuda")
    with pytest.raises(graphcap.CaptureInvalidatedError), stream, graphcap.Graph("cuda"):
        s = adapter.external_stream()
        with pytest.raises(cuda.cudadrv.driver.CudaAPIError):
            s.synchronize()
        x.copy_to_host(np.zeros(10, np.float32), stream=s)


def test_without_graphcaps_memory_an_array_cannot_be_made_inside() -> None:
    printed = kit.child(
        """
        from numba import cuda
        x = cuda.to_device(np.arange(10.0))
        s = graphcap.Stream("cuda")
        try:
            with s, graphcap.Graph("cuda"):
                cuda.device_array(10)
        except graphcap.CaptureForbiddenError as error:
            print(error)
        import graphcap.interop.numba as adapter
        y = cuda.device_array(10)
        g = graphcap.Graph("cuda")
        with s, g:
            y.copy_to_device(x, stream=adapter.external_stream())
        del x
        gc.collect()
        junk = [cuda.to_device(np.full(10, 7.0)) for _ in range(50)]
        g.replay()
        graphcap.synchronize("cuda")
        print(y.copy_to_host().tolist() == list(range(10)))
        """
    )
    said, kept = printed.rsplit("\n", 1)
    assert "cuMemAlloc" in said
    assert "use_graphcap_memory" in said
    assert kept == "True"
