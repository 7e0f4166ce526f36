"""Streams, events and buffers: foreign streams, priorities, operands, kernel arguments, interfaces, pinned memory."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.backends.cuda import cuda_backend
from tests.cuda import kit
from tests.cuda.kit import DeviceArray, device, host, make_stream


class _Protocol:
    def __init__(self, handle: int) -> None:
        self.handle_ = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.handle_)


class _Ptr:
    def __init__(self, handle: int) -> None:
        self.ptr = handle


@pytest.mark.parametrize("make", [_Protocol, _Ptr, int], ids=["__cuda_stream__", "ptr", "int"])
def test_a_foreign_stream_captures_and_replays(make: Any) -> None:
    own = make_stream()
    wrapped: Any = graphcap.Stream.wrap(make(own.handle), "cuda")
    assert wrapped == own
    assert wrapped.__cuda_stream__() == (0, own.handle)
    memory = own.allocate(16)
    graph = graphcap.Graph("cuda")
    with wrapped, graph:
        wrapped.fill(memory, 3)
    graph.replay(stream=make(own.handle))
    assert host(memory, np.uint8).tolist() == [3] * 16


@pytest.mark.parametrize("thing", [object(), "cuda", 1.5, True, None])
def test_what_is_no_stream_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="no CUDA stream"):
        graphcap.Stream.wrap(thing, "cuda")


def test_the_two_names_of_the_default_stream_are_one() -> None:
    assert graphcap.Stream.wrap(1, "cuda") == graphcap.Stream.wrap(0, "cuda") == cuda_backend().default_stream(0)
    assert graphcap.Stream.wrap(1, "cuda").is_default


def test_priorities_are_checked() -> None:
    stream = make_stream(priority=-1)
    stream.synchronize()
    with pytest.raises(ValueError, match="priorities"):
        make_stream(priority=99)


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "f2", "i4", "f4", "f8", "i8", "c8", "c16"])
@pytest.mark.parametrize("value", [0, 1, 7])
def test_fills_of_every_item_size(dtype: str, value: int) -> None:
    array = device(np.full(33, 5), dtype)
    stream = make_stream()
    stream.fill(array, value)
    stream.synchronize()
    assert host(array, dtype).tolist() == np.full(33, value, dtype).tolist()


def test_fills_of_wide_items_are_captured() -> None:
    array = device(np.zeros(10), "f8")
    with graphcap.capture("cuda") as graph:
        graphcap.current_stream("cuda").fill(array, 1.1)
    graph.replay()
    assert host(array, "f8").tolist() == [1.1] * 10


@pytest.mark.parametrize(("dtype", "value"), [("u1", 256), ("i2", 40000), ("f4", "a"), ("u1", -1)])
def test_a_value_that_does_not_fit_is_refused(dtype: str, value: Any) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        make_stream().fill(device(np.zeros(4), dtype), value)


def test_operands_that_cannot_be_copied_are_refused_before_the_driver_is_asked() -> None:
    stream = make_stream()
    array = device(np.zeros(4))
    with pytest.raises(ValueError, match="16 bytes, the source 8"):
        stream.copy(array, np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="not contiguous"):
        stream.copy(array, np.zeros(8, np.float32)[::2])
    with pytest.raises(ValueError, match="read-only"):
        stream.copy(b"1234567890123456", array)
    with pytest.raises(TypeError, match="int"):
        stream.copy(array, 5)
    with pytest.raises(TypeError, match="Python objects"):
        stream.copy(array, np.array([None, None]))
    array.strides = (8,)
    with pytest.raises(ValueError, match="not contiguous"):
        stream.fill(array, 0)
    array.strides, array.read_only = (4,), True
    with pytest.raises(ValueError, match="read-only"):
        stream.fill(array, 0)
    with pytest.raises(TypeError, match="host memory"):
        stream.fill(np.zeros(4), 0)


def test_copies_in_all_directions_and_of_nothing() -> None:
    stream = make_stream()
    a, b = device([1, 2, 3]), device([0, 0, 0])
    out, other = np.zeros(3, np.float32), np.zeros(3, np.float32)
    stream.copy(b, a)
    stream.copy(out, b)
    stream.synchronize()
    stream.copy(other, out)
    stream.copy(stream.allocate(0), b"")
    stream.fill(stream.allocate(0), 1)
    stream.synchronize()
    assert other.tolist() == [1, 2, 3]


def test_eager_copies_from_temporaries_are_safe() -> None:
    stream = make_stream()
    arrays = [DeviceArray(np.full(1000, i, np.float32), stream) for i in range(50)]
    stream.synchronize()
    assert all((host(array) == i).all() for i, array in enumerate(arrays))


def test_kernel_arguments_take_the_parameters_size() -> None:
    out = device(np.zeros(6), "f8")
    stream = make_stream()
    stream.launch(kit.kernel("store_all"), 1, 1, out, -3, -300, 70000, 1 << 40, 1.5, 2.25)
    assert host(out, "f8").tolist() == [-3, -300, 70000, float(1 << 40), 1.5, 2.25]
    arguments = np.int8(1), np.int16(2), np.int32(3), np.int64(4), np.float32(5), np.float64(6)
    stream.launch(int(kit.kernel("store_all").handle), 1, 1, out.buffer.ptr, *arguments)
    assert host(out, "f8").tolist() == [1, 2, 3, 4, 5, 6]


def test_kernel_arguments_that_do_not_fit_are_refused() -> None:
    stream, out = make_stream(), device(np.zeros(6), "f8")
    launch = stream.launch
    kernel = kit.kernel("store_all")
    with pytest.raises(TypeError, match="takes 7 arguments, 1 were given"):
        launch(kernel, 1, 1, out)
    with pytest.raises(ValueError, match="argument 1 has 8 bytes"):
        launch(kernel, 1, 1, out, np.float64(1), 1, 1, 1, 1.0, 1.0)
    with pytest.raises(ValueError, match="does not fit a parameter of 1 bytes"):
        launch(kernel, 1, 1, out, 1000, 1, 1, 1, 1.0, 1.0)
    with pytest.raises(TypeError, match="argument 0 is of type ndarray"):
        launch(kernel, 1, 1, np.zeros(6), 1, 1, 1, 1, 1.0, 1.0)
    with pytest.raises(ValueError, match="grid"):
        launch(kit.kernel("empty"), 0, 1)
    with pytest.raises(ValueError, match="block"):
        launch(kit.kernel("empty"), 1, (1, 1, 1, 1))
    with pytest.raises(TypeError, match="handle of a kernel"):
        launch(print, 1, 1)
    with pytest.raises(TypeError, match="unknown option"):
        launch(kit.kernel("empty"), 1, 1, cluster=2)


def test_a_buffers_array_interface_names_its_stream_and_none_while_it_captures() -> None:
    stream = make_stream()
    buffer = stream.allocate(100)
    assert buffer.__cuda_array_interface__ == {
        "shape": (100,), "typestr": "|u1", "data": (buffer.ptr, False), "strides": None, "version": 3,
        "stream": stream.handle,
    }  # fmt: skip
    with stream, graphcap.Graph("cuda"):
        stream.fill(buffer, 1)
        assert buffer.__cuda_array_interface__["stream"] is None
    assert graphcap.current_stream("cuda").allocate(1).__cuda_array_interface__["stream"] == 1


def test_dlpack_gives_the_same_memory_to_cuda_core() -> None:
    utils = pytest.importorskip("cuda.core.utils")
    stream = make_stream()
    buffer = stream.allocate(64)
    assert buffer.__dlpack_device__() == (2, 0)
    view = utils.StridedMemoryView.from_dlpack(buffer, stream_ptr=stream.handle)
    assert (view.ptr, view.shape) == (buffer.ptr, (64,))
    with pytest.raises(BufferError, match="as it is"):
        buffer.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="DLPack device"):
        buffer.__dlpack__(dl_device=(1, 0))


def test_pinned_memory_has_a_pool_of_its_own() -> None:
    stream = make_stream()
    pinned = stream.allocate_pinned(1000)
    view = np.asarray(pinned)
    view[:] = 4
    memory = stream.allocate(1000)
    stream.copy(memory, pinned)
    stream.synchronize()
    assert host(memory, np.uint8).tolist() == [4] * 1000
    assert cuda_backend().pinned_allocator(0).stats()["allocated_bytes.current"] >= 1000
    assert np.asarray(stream.allocate_pinned(0)).size == 0
    with pytest.raises(ValueError, match="negative"):
        stream.allocate_pinned(-1)


def test_events_tell_what_they_cannot_do() -> None:
    stream = make_stream()
    make: Any = graphcap.Event
    timed, plain = make("cuda", timing=True), make("cuda")
    assert plain.query()
    with pytest.raises(ValueError, match="timing=True"):
        plain.elapsed_since(timed)
    with pytest.raises(ValueError, match="not recorded yet"):
        timed.elapsed_since(timed)
    with pytest.raises(ValueError, match="does not capture"):
        stream.record(plain, external=True)
    with pytest.raises(ValueError, match="does not capture"):
        stream.wait(plain, external=True)
    graph = graphcap.Graph("cuda")
    memory = stream.allocate(1)
    with stream, graph:
        stream.fill(memory, 1)
        stream.record(plain)
        assert plain.is_captured
    other = make_stream()
    with pytest.raises(graphcap.CaptureIsolationError, match="capture that is over"):
        other.wait(plain)
    with pytest.raises(graphcap.CaptureForbiddenError, match="last recorded in a capture"):
        plain.query()
    stream.record(plain)
    other.wait(plain)
    plain.synchronize()


_EXIT = """
import gc, sys
from tests.emulated_device import loader
loader.load()
import graphcap
s = graphcap.Stream("cuda")
m = s.allocate(64)
g = graphcap.Graph("cuda", keep_graph=True)
with s, g:
    s.fill(m, 1)
    s.host_call(print, "ran")
with s:
    g.replay()
    e = s.record()
    if sys.argv[1] == "open":
        h = graphcap.Graph("cuda")
        h.capture_begin()
        s.fill(m, 2)
    if sys.argv[1] == "cycle":
        cycle = [g, s, m, e]
        cycle.append(cycle)
"""


@pytest.mark.parametrize("what", ["closed", "open", "cycle"])
def test_the_interpreter_ends_without_noise(what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _EXIT, what], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")


def test_importing_the_backend_loads_no_driver() -> None:
    program = "import graphcap.backends.cuda, sys; sys.exit('cuda.bindings.driver' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=120, check=False).returncode == 0


def test_without_a_driver_the_status_names_reason_and_cure() -> None:
    program = "import graphcap; s = graphcap.backend_status()['CUDA']; print(s.ok, '|', s.reason, '|', s.cure)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.startswith("False | "), done.stderr
    reason, cure = done.stdout.split("|")[1:]
    assert ("driver" in reason and "driver" in cure) or "device" in reason
