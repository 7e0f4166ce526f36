"""Guests on a CUDA device, by DLPack and ``__cuda_array_interface__``: arrays of Numba, buffers of cuda.core, and graphcap's own."""

from __future__ import annotations

import gc
import importlib
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.interop import arrays
from tests.cuda import kit as cuda_kit
from tests.cuda.kit import host, make_stream
from tests.interop import kit

core: Any = pytest.importorskip("cuda.core", reason="cuda-core is not installed")
utils: Any = importlib.import_module("cuda.core.utils")


class ByDlpack:
    """A device array of a library that has DLPack and no array interface, as JAX's bfloat16 arrays and PyTorch's may be."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.asked: list[int | None] = []

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        self.asked.append(stream)
        return self.array.__dlpack__(stream=-1, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        found: tuple[int, int] = self.array.__dlpack_device__()
        return found


class Interface:
    """A device array with an array interface that names a stream."""

    def __init__(self, array: Any, stream: int | None) -> None:
        self.array, self.nbytes = array, array.nbytes
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "stream": stream}


def typed(values: Any, dtype: Any = np.float32) -> Any:
    """A typed array in memory of graphcap."""
    given = np.asarray(values, dtype)
    stream = make_stream()
    found = arrays.as_array(stream.allocate(given.nbytes), given.shape, given.dtype)
    stream.copy(found, given)
    stream.synchronize()
    return found


def test_a_typed_array_over_a_buffer() -> None:
    array = typed([[1, 2, 3], [4, 5, 6]])
    assert (array.shape, array.dtype, array.ndim, array.size, array.nbytes) == ((2, 3), np.float32, 2, 6, 24)
    assert host(array).tolist() == [1, 2, 3, 4, 5, 6]
    view = utils.StridedMemoryView.from_dlpack(array, stream_ptr=-1)
    assert (view.ptr, view.shape, view.dtype) == (array.ptr, (2, 3), np.float32)
    stream = make_stream()
    stream.fill(array, 7.5)
    stream.synchronize()
    assert host(array).tolist() == [7.5] * 6
    with pytest.raises(ValueError, match="take 11 bytes"):
        arrays.as_array(graphcap.allocate(10, "cuda"), 11, np.uint8)


@pytest.mark.parametrize("wrap", [ByDlpack, lambda array: Interface(array, None), lambda array: array])
def test_guests_in_copies_launches_fills_and_bound_inputs(wrap: Any) -> None:
    x, y, z = (wrap(typed(v)) for v in (np.arange(10), np.zeros(10), np.zeros(10)))
    stream = make_stream()
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        stream.launch(cuda_kit.kernel("scale"), 1, 32, y, x, np.float32(3), np.int32(10))
        stream.copy(z, y)
        stream.fill(x, 1)
    graph.bind(x=x)
    graph.replay(stream, inputs={"x": wrap(typed(np.arange(5, 15)))})
    stream.synchronize()
    found = np.zeros(10, np.float32)
    stream.copy(found, z)
    stream.synchronize()
    assert found.tolist() == (3.0 * np.arange(5, 15)).tolist()
    with pytest.raises(ValueError, match="x"):
        graph.replay(inputs={"x": wrap(typed(np.arange(11)))})


def test_the_graph_keeps_a_guest() -> None:
    x, y = typed(np.arange(10)), typed(np.zeros(10))
    guest = ByDlpack(x)
    alive = weakref.ref(x)
    stream = make_stream()
    graph = graphcap.Graph("cuda")
    with stream, graph:
        stream.copy(y, guest)
    del x, guest
    gc.collect()
    assert alive() is not None
    graph.replay()
    assert host(y).tolist() == list(range(10))
    graph.reset()
    kit.settled()
    assert alive() is None


def test_a_graphed_callable_gets_typed_arrays_for_guests() -> None:
    seen: list[Any] = []

    def double(a: Any) -> Any:
        seen.append(a)
        stream: Any = graphcap.current_stream("cuda")
        out = arrays.as_array(stream.allocate(a.nbytes), a.shape, a.dtype)
        stream.launch(cuda_kit.kernel("scale"), 1, 32, out, a, np.float32(2), np.int32(10))
        return out

    f = graphcap.make_graphed_callable(double, device="cuda")
    for start in (0, 5):
        result = f(ByDlpack(typed(np.arange(start, start + 10))))
        assert host(result).tolist() == (2.0 * np.arange(start, start + 10)).tolist()
        assert (result.shape, result.dtype) == ((10,), np.float32)
    assert f.captures == 1
    assert isinstance(seen[0], arrays.CUDAArray)


# -- order ---------------------------------------------------------------------------------------------------------------


def _slow_fill(array: Any, value: float) -> Any:
    """A stream on which the array is filled once the event is set."""
    producer, go = make_stream(), threading.Event()
    producer.host_call(go.wait, 30)
    producer.fill(array, value)
    return producer, go


def test_dlpacks_producer_is_told_the_consumers_stream() -> None:
    guest, stream = ByDlpack(typed([1])), make_stream()
    stream.copy(guest, typed([2]))
    assert guest.asked[-1] == stream.handle
    default = graphcap.current_stream("cuda")
    default.copy(guest, typed([3]))
    assert guest.asked[-1] == 1
    four = typed([4])
    graph = graphcap.Graph("cuda")
    with stream, graph:
        stream.copy(guest, four)
    assert guest.asked[-1] == -1, "a graph cannot wait for eager work"


def test_an_array_interface_without_a_stream_gives_way_to_dlpack() -> None:
    """PyTorch's is of version 2: only DLPack makes it put its work before ours."""

    class Old(ByDlpack):
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {**self.array.__cuda_array_interface__, "version": 2}

    guest, stream = Old(typed([1])), make_stream()
    stream.copy(guest, typed([2]))
    assert guest.asked == [stream.handle]
    assert host(guest.array).tolist() == [2]


def test_an_array_interfaces_stream_is_waited_for() -> None:
    array, out = typed([0, 0]), typed([0, 0])
    producer, go = _slow_fill(array, 5)
    stream = make_stream()
    stream.copy(out, Interface(array, producer.handle))
    assert not stream.query()
    go.set()
    assert host(out).tolist() == [5, 5]


def test_a_capture_does_not_wait_for_the_stream_of_an_eager_array() -> None:
    array, out = typed([1, 2]), typed([0, 0])
    other, stream = make_stream(), make_stream()
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        stream.copy(out, Interface(array, other.handle))
        stream.copy(out, Interface(array, 1))
    assert len(graph.topology().nodes) == 2
    graph.replay()
    assert host(out).tolist() == [1, 2]


def test_an_eager_stream_is_not_drawn_into_a_capture_by_an_array() -> None:
    array, out = typed([1, 2]), typed([0, 0])
    capturing, eager = make_stream(), make_stream()
    graph = graphcap.Graph("cuda")
    with capturing, graph:
        capturing.fill(array, 3)
        eager.copy(out, Interface(array, capturing.handle))
        assert not eager.is_capturing
    eager.synchronize()
    assert host(out).tolist() == [1, 2]


def test_exporting_a_buffer_orders_the_consumer_after_it() -> None:
    producer, go = make_stream(), threading.Event()
    memory = producer.allocate(8)
    producer.host_call(go.wait, 30)
    producer.fill(memory, 9)
    consumer = make_stream()
    memory.__dlpack__(stream=consumer.handle)
    assert not consumer.query()
    go.set()
    consumer.synchronize()
    assert host(memory, np.uint8).tolist() == [9] * 8


@pytest.mark.parametrize("make", [lambda memory: memory, lambda memory: arrays.as_array(memory, (2,), np.float32)])
def test_exporting_from_a_capture_to_a_stream_outside_it_is_refused(make: Any) -> None:
    stream, other, side = make_stream(), make_stream(), make_stream()
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        inside = make(stream.allocate(8))
        stream.fill(inside, 1)
        for number in (None, 1, 2, other.handle):
            with pytest.raises(graphcap.CaptureForbiddenError, match=r"stream=-1"):
                inside.__dlpack__(stream=number)
        assert inside.__dlpack__(stream=-1) is not None
        assert inside.__dlpack__(stream=stream.handle) is not None
        side.wait(stream)
        assert inside.__dlpack__(stream=side.handle) is not None
        stream.wait(side)
        with pytest.raises(BufferError, match="forbids 0"):
            inside.__dlpack__(stream=0)
        with pytest.raises(BufferError, match="copy"):
            inside.__dlpack__(stream=-1, copy=True)
        with pytest.raises(BufferError, match="not on"):
            inside.__dlpack__(stream=-1, dl_device=(1, 0))
    assert len(graph.topology().nodes) == 1
    graph.replay()
    assert host(inside).tolist() == host(inside).tolist()


def test_an_eager_buffer_is_exported_into_a_capture() -> None:
    memory, stream = graphcap.allocate(8, "cuda"), make_stream()
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        memory.__dlpack__(stream=stream.handle)  # type: ignore[attr-defined]
        stream.fill(memory, 2)
    assert len(graph.topology().nodes) == 1


# -- refused -------------------------------------------------------------------------------------------------------------


def test_bad_guests() -> None:
    stream, good = make_stream(), typed([1, 2, 3, 4])

    class Strided(ByDlpack):
        def __dlpack__(self, **options: Any) -> Any:
            whole = core.Buffer.from_handle(good.ptr, 16, owner=good)
            view = utils.StridedMemoryView.from_buffer(whole, shape=(2,), strides=(2,), dtype=np.dtype(np.float32))
            return view.__dlpack__(stream=-1)

    with pytest.raises(ValueError, match="contiguous"):
        stream.copy(Strided(good), good)
    with pytest.raises(ValueError, match="stream 0"):
        stream.copy(Interface(good, 0), good)
    with pytest.raises(TypeError, match="__dlpack__"):
        stream.copy(object(), good)
    read_only = arrays.CUDAArray(good, good.ptr, (4,), np.float32, device_index=0, read_only=True)
    with pytest.raises(ValueError, match="read-only"):
        stream.copy(read_only, good)
    with pytest.raises(ValueError, match="read-only"):
        stream.fill(ByDlpack(read_only), 0)


def test_host_guests_are_host_memory() -> None:
    """A JAX array of the CPU: uploaded by a copy; the graph owns it."""
    jax = pytest.importorskip("jax", reason="jax is not installed")
    stream, y = make_stream(), typed(np.zeros(100))
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        stream.copy(y, jax.device_put(np.arange(100, dtype=np.float32), jax.devices("cpu")[0]))
    gc.collect()
    graph.replay()
    assert host(y).tolist() == list(range(100))
    assert graph.topology().nodes[0].params["direction"] == "HtoD"


def test_a_view_of_a_device_guest() -> None:
    x = typed(np.arange(6).reshape(2, 3))
    view = arrays.from_dlpack(ByDlpack(x))
    assert (view.ptr, view.shape, view.dtype) == (x.ptr, (2, 3), np.float32)
    bytes_of = arrays.from_dlpack(graphcap.allocate(10, "cuda"))
    assert (bytes_of.shape, bytes_of.dtype) == ((10,), np.uint8)
    with pytest.raises(ValueError, match="host memory"):
        arrays.from_dlpack(np.ones(3), device="cuda")
    with pytest.raises(ValueError, match="cuda:0"):
        arrays.from_dlpack(x, device="cpu")


def test_numba_takes_a_typed_array() -> None:
    cuda: Any = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
    array = typed(np.arange(5))
    assert cuda.as_cuda_array(array).copy_to_host().tolist() == list(range(5))
    made = cuda.to_device(np.arange(5, dtype=np.float32))
    bound = made.bind(cuda.stream())
    stream = make_stream()
    stream.copy(array, bound)
    stream.synchronize()


def test_streams_of_other_devices_are_refused() -> None:
    if not graphcap.backend_status()["CUDA"].details["devices"][1:]:
        pytest.skip("needs a real machine with a second GPU, or the emulated driver")
    make: Any = graphcap.Stream
    other = make("cuda:1")
    for stream in (other.handle, core.Device(0).create_stream(other)):
        with pytest.raises(ValueError, match="cuda:1"):
            graphcap.Stream.wrap(stream, "cuda:0")
    memory = other.allocate(4)
    graph = graphcap.Graph("cuda:1")
    with other, graph:
        other.fill(memory, 1)
        assert graphcap.Stream.wrap(other.handle, "cuda:1").is_capturing, "asking must not break the capture"
    graph.replay()
    first = graphcap.Graph("cuda:0")
    with pytest.raises(ValueError, match="cuda:1"):
        first.replay(other.handle)
