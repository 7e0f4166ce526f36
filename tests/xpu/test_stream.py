"""Streams over dpctl queues: copies, fills, launches, events, wrapping; and what each refuses."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any

import dpctl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphcap
from graphcap.backends.xpu import kernels
from graphcap.backends.xpu._dpctl import usm_memory

DTYPES = [
    np.dtype(code) for code in ("?", "i1", "u1", "i2", "u2", "f2", "i4", "u4", "f4", "i8", "u8", "f8", "c8", "c16")
]


class UsmArray:
    """A minimal USM array, as dpnp's look from outside: a shape, strides and a type over dpctl memory."""

    def __init__(
        self,
        memory: Any,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        *,
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
        read_only: bool = False,
    ) -> None:
        self.memory = memory
        self.shape = shape
        self.nbytes = int(np.prod(shape)) * dtype.itemsize
        self.__sycl_usm_array_interface__ = {
            "data": (memory._pointer, read_only),
            "shape": shape,
            "strides": strides,
            "typestr": dtype.str,
            "version": 1,
            "offset": offset,
            "syclobj": memory.sycl_queue,
        }


def shared(stream: Any, nbytes: int) -> Any:
    return usm_memory("shared", nbytes, stream.queue, 512)


@settings(max_examples=60, deadline=None)
@given(dtype=st.sampled_from(DTYPES), count=st.integers(0, 100), offset=st.integers(0, 3), data=st.data())
@pytest.mark.parametrize("tier", ["xpu", "xpu_software"])
def test_fill_sets_every_item(tier: str, dtype: np.dtype[Any], count: int, offset: int, data: st.DataObject) -> None:
    """`fill` of a typed USM array equals NumPy's, item by item, and touches nothing around it."""
    from tests.xpu.tiers import register_software_tier

    register_software_tier()
    stream: Any = graphcap.registry.get_backend(tier).create_stream(0)
    if dtype.kind == "b":
        value: Any = data.draw(st.booleans())
    elif dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        value = data.draw(st.integers(int(bounds.min), int(bounds.max)) | st.sampled_from([0, 1, int(bounds.max)]))
    else:
        value = data.draw(st.integers(-100, 100)) / 4
    memory = shared(stream, (count + 8) * dtype.itemsize)
    view = np.asarray(memory).view(dtype)
    view[:] = np.arange(count + 8).astype(dtype)
    expected = view.copy()
    expected[offset : offset + count] = value
    stream.fill(UsmArray(memory, (count,), dtype, offset=offset), value)
    stream.synchronize()
    np.testing.assert_array_equal(view, expected)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("u1", 256), ("i1", 128), ("i4", 2**31), ("f4", 1e300), ("i4", "seven"), ("f8", 1j)],
)
def test_fill_with_what_does_not_fit(stream: Any, dtype: str, value: Any) -> None:
    memory = shared(stream, 64)
    view = np.asarray(memory)
    view[:] = 7
    with pytest.raises(ValueError, match="fit"):
        stream.fill(UsmArray(memory, (4,), np.dtype(dtype)), value)
    stream.synchronize()
    assert (view == 7).all()


def test_fill_of_items_without_a_kernel(stream: Any) -> None:
    memory = shared(stream, 96)
    array = UsmArray(memory, (4,), np.dtype("S3"))
    with pytest.raises(graphcap.UnsupportedError, match="3 bytes"):
        stream.fill(array, b"abc")


def test_fill_of_a_misaligned_range(stream: Any) -> None:
    memory = shared(stream, 64)
    array = UsmArray(memory, (2,), np.dtype("i4"))
    array.__sycl_usm_array_interface__["data"] = (memory._pointer + 1, False)
    with pytest.raises(ValueError, match="aligned"):
        stream.fill(array, 123456)


def test_fill_of_host_memory(stream: Any) -> None:
    with pytest.raises(TypeError, match="host"):
        stream.fill(np.zeros(3), 1)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["device", "shared", "host"])
@pytest.mark.parametrize("count", [7, 40_000])  # below and above what is copied at once
def test_copy_there_and_back(stream: Any, kind: str, order: Any, count: int) -> None:
    """Bytes survive every kind of memory; a host source may be changed as soon as the call has returned."""
    source = np.asarray(np.random.default_rng(3).random((count, 3)), order=order)
    expected = source.copy()
    buffer = stream.allocate(source.nbytes, kind)
    target = np.empty_like(source)
    stream.copy(buffer, source)
    source[:] = -1
    stream.copy(target, buffer)
    np.testing.assert_array_equal(target, expected)  # without a synchronise: the host array is ours again


def test_copy_of_buffers_like_bytes(stream: Any) -> None:
    buffer = stream.allocate(5)
    stream.copy(buffer, b"hello")
    target = bytearray(5)
    stream.copy(target, buffer)
    assert target == b"hello"
    stream.copy(buffer, memoryview(b"world"))
    stream.copy(target, buffer)
    assert target == b"world"


@pytest.mark.parametrize(
    ("dst", "src", "error"),
    [
        ("device 8", "host 12", ValueError),
        ("host read-only", "device 8", ValueError),
        ("device 8", "host strided", ValueError),
        ("host strided", "device 8", ValueError),
        ("usm strided", "device 8", ValueError),
        ("usm read-only", "device 8", ValueError),
        ("device 8", "list", TypeError),
        ("device 8", "objects", TypeError),
        ("list", "device 8", TypeError),
        ("usm overlapping", "usm", ValueError),
        ("host F", "host C", ValueError),
    ],
)
def test_copy_refuses(stream: Any, dst: str, src: str, error: type[Exception]) -> None:
    memory = shared(stream, 64)
    frozen = np.zeros(8, np.uint8)
    frozen.flags.writeable = False
    things: dict[str, Any] = {
        "device 8": stream.allocate(8),
        "host 12": np.zeros(12, np.uint8),
        "host read-only": frozen,
        "host strided": np.zeros(16, np.uint8)[::2],
        "host C": np.zeros((2, 3)),
        "host F": np.zeros((2, 3), order="F"),
        "usm": UsmArray(memory, (32,), np.dtype("u1")),
        "usm overlapping": UsmArray(memory, (32,), np.dtype("u1"), offset=16),
        "usm strided": UsmArray(memory, (8,), np.dtype("u1"), strides=(2,)),
        "usm read-only": UsmArray(memory, (8,), np.dtype("u1"), read_only=True),
        "list": [1, 2],
        "objects": np.array([None]),
    }
    with pytest.raises(error, match="copy"):
        stream.copy(things[dst], things[src])
    graph = graphcap.Graph(stream.device)
    with stream, graph:
        with pytest.raises(error, match="copy"):
            stream.copy(things[dst], things[src])
        stream.fill(things["device 8"], 0)
    graph.replay(stream)


def test_usm_arrays_take_part(device: str, stream: Any) -> None:
    """Arrays of other libraries over USM memory are copied, filled and passed to kernels, in and out of a capture."""
    memory = shared(stream, 4 * 12)
    view = np.asarray(memory).view(np.int32)
    view[:] = 0
    array = UsmArray(memory, (2, 4), np.dtype("i4"), strides=(1, 2), offset=4)  # Fortran order is contiguous too
    kernel = kernels.load(stream, "arithmetic", "add_scalar_i32")
    graph = graphcap.Graph(device)
    with stream, graph:
        stream.launch(kernel, [array, np.int32(5), np.uint64(8)], 8)
    graph.replay(stream)
    graph.replay(stream)
    stream.synchronize()
    np.testing.assert_array_equal(view, [0, 0, 0, 0] + [10] * 8)


class Flags:
    writable = True


class UsmNdarray:
    """Looks as the arrays of dpctl and dpnp do: reading the USM interface waits for the queue, whatever it does."""

    def __init__(self, memory: Any, count: int, offset: int) -> None:
        self.usm = memory
        self.shape, self.strides, self.dtype = (count,), (1,), np.dtype(np.int32)
        self.flags = Flags()
        self.sycl_queue = memory.sycl_queue
        self._pointer = memory._pointer + 4 * offset

    @property
    def usm_data(self) -> Any:
        return self.usm

    @property
    def __sycl_usm_array_interface__(self) -> Any:
        raise AssertionError("this waits for the queue")


class DpnpArray:
    """A dpnp array wraps the former."""

    def __init__(self, array: UsmNdarray) -> None:
        self._array_obj = array

    def get_array(self) -> Any:
        raise AssertionError("this waits for the queue")

    __sycl_usm_array_interface__ = property(get_array)


@pytest.mark.parametrize("wrapped", [False, True])
def test_arrays_whose_interface_waits(device: str, stream: Any, wrapped: bool) -> None:
    """dpctl's and dpnp's arrays take part without a wait, which would end the process in a capture."""
    memory = shared(stream, 4 * 8)
    view = np.asarray(memory).view(np.int32)
    view[:] = 1
    plain = UsmNdarray(memory, 4, 3)
    array = DpnpArray(plain) if wrapped else plain
    kernel = kernels.load(stream, "arithmetic", "add_scalar_i32")
    out = np.zeros(4, np.int32)
    graph = graphcap.Graph(device)
    with stream, graph:
        stream.fill(array, 7)
        stream.launch(kernel, [array, np.int32(5), np.uint64(4)], 4)
        stream.copy(out, array)
    graph.replay(stream)
    stream.synchronize()
    np.testing.assert_array_equal(view, [1, 1, 1, 12, 12, 12, 12, 1])
    np.testing.assert_array_equal(out, 12)
    plain.flags.writable = False
    with pytest.raises(ValueError, match="read-only"):
        stream.fill(array, 7)


@pytest.mark.parametrize(
    ("args", "error", "says"),
    [
        (lambda b: [b, 1, np.uint64(1)], TypeError, "numpy.int32"),
        (lambda b: [b, 1.0, np.uint64(1)], TypeError, "numpy.float32"),
        (lambda b: [b, np.int32(1)], ValueError, "takes 3 arguments, not 2"),
        (lambda b: [b, np.int32(1), np.uint64(1), np.uint64(1)], ValueError, "takes 3 arguments, not 4"),
        (lambda b: [np.zeros(4), np.int32(1), np.uint64(1)], TypeError, "host memory"),
        (lambda b: [b, "x", np.uint64(1)], TypeError, "type str"),
        (lambda b: [b, np.array(None), np.uint64(1)], TypeError, "Python object"),
        (lambda b: b, TypeError, "list or a tuple"),
    ],
)
def test_launch_refuses_arguments(stream: Any, args: Any, error: type[Exception], says: str) -> None:
    kernel = kernels.load(stream, "arithmetic", "add_scalar_i32")
    buffer = stream.allocate(64)
    with pytest.raises(error, match=says):
        stream.launch(kernel, args(buffer), 1)


@pytest.mark.parametrize(
    ("sizes", "error", "says"),
    [
        (((0,),), ValueError, "positive"),
        (((1, 1, 1, 1),), ValueError, "one to three"),
        (((),), ValueError, "one to three"),
        (((2.5,),), TypeError, "integers"),
        (((True,),), TypeError, "integers"),
        (((12,), (5,)), ValueError, "divide"),
        (((12,), (2, 2)), ValueError, "dimensions"),
        (((1 << 20,), (1 << 20,)), ValueError, "at most"),
        ((), TypeError, "missing"),
        (((1,), None, 3), TypeError, "too many"),
    ],
)
def test_launch_refuses_sizes(stream: Any, sizes: tuple[Any, ...], error: type[Exception], says: str) -> None:
    kernel = kernels.load(stream, "arithmetic", "add_scalar_i32")
    buffer = stream.allocate(64)
    with pytest.raises(error, match=says):
        stream.launch(kernel, [buffer, np.int32(1), np.uint64(1)], *sizes)


def test_launch_refuses_what_is_no_kernel(stream: Any) -> None:
    with pytest.raises(TypeError, match="SyclKernel"):
        stream.launch(print, [], 1)
    kernel = kernels.load(stream, "arithmetic", "add_scalar_i32")
    with pytest.raises(TypeError, match="unknown option"):
        stream.launch(kernel, [], 1, grid=3)
    with pytest.raises(TypeError, match="twice"):
        stream.launch(kernel, [], 1, global_size=3)


def test_launch_with_names_and_scalars_of_many_kinds(stream: Any) -> None:
    """Sizes by name; scalars as NumPy scalars and 0-d arrays; a range larger than the data does no harm."""
    buffer = stream.allocate(4 * 4, "shared")
    view = np.asarray(buffer).view(np.int32)
    view[:] = 1
    kernel = kernels.load(stream, "arithmetic", "scale_i32")
    stream.launch(kernel, args=(buffer, np.array(5, np.int32), np.uint64(3)), global_size=np.int64(64), local_size=(8,))
    stream.synchronize()
    np.testing.assert_array_equal(view, [5, 5, 5, 1])


# -- order -----------------------------------------------------------------------------------------------------------


def test_work_waits_for_host_calls_and_they_for_work(stream: Any) -> None:
    """A stream keeps the order of kernels, copies and host calls, and says that it is busy while a call blocks."""
    gate = threading.Event()
    buffer = stream.allocate(4, "shared")
    view = np.asarray(buffer).view(np.int32)
    view[:] = 1
    seen: list[int] = []
    kernel = kernels.load(stream, "arithmetic", "scale_i32")
    stream.launch(kernel, [buffer, np.int32(3), np.uint64(1)], 1)
    stream.host_call(lambda: seen.append(int(view[0])))
    stream.host_call(gate.wait, 60)
    stream.launch(kernel, [buffer, np.int32(5), np.uint64(1)], 1)
    event = stream.record()
    stream.host_call(lambda: seen.append(int(view[0])))
    assert not stream.query()
    assert not event.query()
    gate.set()
    event.synchronize()
    assert event.query()
    stream.synchronize()
    assert stream.query()
    assert seen == [3, 15]


def test_events_order_streams(device: str, stream: Any) -> None:
    """A stream that waits for an event does its work after that of the other, also if that is held up on the host."""
    other = stream.backend.create_stream(0)
    gate = threading.Event()
    a = stream.allocate(4, "shared")
    view = np.asarray(a).view(np.int32)
    view[:] = 2
    kernel = kernels.load(stream, "arithmetic", "scale_i32")
    stream.host_call(gate.wait, 60)
    stream.launch(kernel, [a, np.int32(10), np.uint64(1)], 1)
    other.wait(stream.record())
    other.launch(kernel, [a, np.int32(7), np.uint64(1)], 1)
    done = other.record()
    assert not done.query()
    time.sleep(0.02)
    assert view[0] == 2
    gate.set()
    other.synchronize()
    assert done.query()
    assert view[0] == 140


def test_events_that_were_never_recorded(device: str, stream: Any) -> None:
    event = stream.backend.create_event(0)
    assert event.query()
    event.synchronize()
    stream.wait(event)
    with pytest.raises(graphcap.UnsupportedError, match="timing"):
        event.elapsed_since(event)
    with pytest.raises(graphcap.UnsupportedError, match="timing"):
        stream.record(timing=True)
    with pytest.raises(graphcap.UnsupportedError, match="external"):
        stream.record(external=True)
    with pytest.raises(graphcap.UnsupportedError, match="external"):
        stream.wait(event, external=True)


def test_streams_and_events_of_another_backend(stream: Any) -> None:
    cpu: Any = graphcap.registry.get_backend("cpu").create_stream(0)
    with pytest.raises(TypeError, match="XPU events"):
        stream.wait(cpu.record())
    with pytest.raises(TypeError, match="XPU events"):
        stream.record(cpu.record())


def test_failing_host_calls_are_told_together(stream: Any) -> None:
    def fail(text: str) -> None:
        raise RuntimeError(text)

    stream.host_call(fail, "first")
    stream.host_call(fail, "second")
    with pytest.raises(RuntimeError, match="first") as caught:
        stream.synchronize()
    notes = " ".join(getattr(caught.value, "__notes__", ()))
    assert "second" in notes
    assert "fail" in notes
    stream.synchronize()


def test_host_call_that_ends_the_program_does_not(stream: Any) -> None:
    """SystemExit and KeyboardInterrupt of a host call come out where somebody waits, not on a thread of the runtime."""

    def leave() -> None:
        raise SystemExit(3)

    stream.host_call(leave)
    with pytest.raises(SystemExit):
        stream.synchronize()


def test_what_host_calls_hold_is_let_go(device: str, stream: Any) -> None:
    """Eager calls hold their function until they ran; captured ones as long as the graph lives."""

    class Owner:
        def __call__(self) -> None:
            return None

    eager, captured = Owner(), Owner()
    gone = weakref.ref(eager)
    stream.host_call(eager)
    del eager
    stream.synchronize()
    gc.collect()
    assert gone() is None
    graph = graphcap.Graph(device)
    with stream, graph:
        stream.host_call(captured)
    alive = weakref.ref(captured)
    del captured
    gc.collect()
    assert alive() is not None
    graph.replay(stream)
    stream.synchronize()
    graph.reset()
    gc.collect()
    assert alive() is None


# -- wrapping --------------------------------------------------------------------------------------------------------


def test_wrap_gives_one_stream_per_queue(device: str, stream: Any) -> None:
    """However often a queue is wrapped, it has one capture status: the wrappers are one object."""
    wrap: Any = graphcap.Stream.wrap
    queue = dpctl.SyclQueue(property="in_order")
    wrapped = wrap(queue, device)
    again = wrap(dpctl.SyclQueue(queue._get_capsule()), device)
    assert wrapped is again
    assert wrapped == again
    assert wrapped != stream
    assert wrap(stream.queue, device) is stream
    assert wrap(wrapped, device) is wrapped
    default = stream.backend.default_stream(0)
    assert wrap(default.queue, device) is default

    graph = graphcap.Graph(device)
    buffer = wrapped.allocate(4, "shared")
    np.asarray(buffer)[:] = 1
    with wrapped, graph:
        again.fill(buffer, 9)
        assert wrapped.is_capturing
    assert (np.asarray(buffer) == 1).all()
    graph.replay(wrapped)
    wrapped.synchronize()
    assert (np.asarray(buffer) == 9).all()


def test_wrap_refuses(device: str, stream: Any) -> None:
    wrap: Any = graphcap.Stream.wrap
    with pytest.raises(ValueError, match="in_order"):
        wrap(dpctl.SyclQueue(), device)
    with pytest.raises(TypeError, match="SyclQueue"):
        wrap(object(), device)
    sub = stream.queue.sycl_device.create_sub_devices(partition=1)[0] if _has_sub_devices(stream) else None
    if sub is not None:
        with pytest.raises(ValueError, match="another device"):
            wrap(dpctl.SyclQueue(sub, property="in_order"), device)
    with pytest.raises(graphcap.UnsupportedError, match="priorit"):
        stream.backend.create_stream(0, priority=1)
    with pytest.raises(ValueError, match="device"):
        stream.backend.create_stream(99)


def _has_sub_devices(stream: Any) -> bool:
    return bool(stream.queue.sycl_device.partition_max_sub_devices)


def test_a_stream_may_die_with_work_in_flight(device: str, stream: Any) -> None:
    """The queue lives, and its handle stays taken, until its work is done: handles name work to the memory manager."""
    backend = stream.backend
    gate = threading.Event()
    short_lived = backend.create_stream(0)
    handle = short_lived.handle
    buffer = stream.allocate(64, "shared")
    np.asarray(buffer)[:] = 1
    short_lived.host_call(gate.wait, 60)
    short_lived.fill(buffer, 2)
    del short_lived
    gc.collect()
    others = [backend.create_stream(0) for _ in range(20)]
    assert handle not in [other.handle for other in others]
    assert not backend.point_of(handle, 0).is_done()
    gate.set()
    graphcap.synchronize(device)
    assert (np.asarray(buffer) == 2).all()
    backend.sweep()
    assert backend.point_of(handle, 0).is_done()
