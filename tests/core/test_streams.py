"""The thread's current streams, the CPU's events, and what streams refuse."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.backends.cpu import cpu_backend
from graphcap.backends.host_errors import HostErrors
from graphcap.interface import CaptureStatus


def _stream(**options: Any) -> graphcap.Stream:
    make: Any = graphcap.Stream
    stream: graphcap.Stream = make("cpu", **options)
    return stream


def test_stream_builds_the_backends_own() -> None:
    """Design 3: ``graphcap.Stream("cpu")`` is the CPU's stream, and an instance of the common class."""
    stream = _stream()
    assert isinstance(stream, graphcap.Stream)
    assert stream.backend is cpu_backend()
    assert repr(stream) == f"<graphcap.Stream cpu:0 handle={stream.handle:#x}>"
    make: Any = graphcap.Event
    assert isinstance(make("cpu"), graphcap.Event)


def test_streams_left_in_the_wrong_order() -> None:
    """Stream.__exit__: crossed ``with`` blocks are told, and the stack is not left crooked."""
    one, two = _stream(), _stream()
    one.__enter__()
    two.__enter__()
    with pytest.raises(RuntimeError, match="Nest"):
        one.__exit__(None, None, None)
    two_or_one = graphcap.current_stream("cpu")
    assert two_or_one in (one, two)
    two_or_one.__exit__(None, None, None)
    assert graphcap.current_stream("cpu").is_default


def test_current_stream_is_of_the_thread() -> None:
    """Design 3: each thread has its own stack; a new thread starts on the default stream."""
    stream = _stream()
    seen: list[bool] = []
    with stream:
        thread = threading.Thread(target=lambda: seen.append(graphcap.current_stream("cpu").is_default))
        thread.start()
        thread.join()
        assert graphcap.current_stream("cpu") == stream
    assert seen == [True]


@pytest.mark.parametrize("shape", [(6,), (2, 3), (3, 2)])
@pytest.mark.parametrize("dtype", ["f4", "i2", "c16", "?"])
def test_copy_is_numpys(shape: tuple[int, ...], dtype: str) -> None:
    """Stream.copy: all bytes, in order; equal to NumPy's reinterpretation where shape or type differ."""
    random = np.random.default_rng(0)
    source = (random.random(6) * 100).astype(dtype).reshape(shape)
    target = np.zeros(source.nbytes, np.uint8)
    stream = _stream()
    stream.copy(target, source)
    assert target.tobytes() == source.tobytes()
    back = np.zeros(6, dtype)
    stream.copy(back, target)
    np.testing.assert_array_equal(back, source.ravel())


def test_copy_refusals() -> None:
    """Stream.copy: unequal sizes, read-only targets and gaps are ValueErrors; other things are TypeErrors."""
    stream = _stream()
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    strided = np.zeros(8)[::2]
    for target, source in ((np.zeros(4), np.zeros(5)), (frozen, np.ones(4)), (strided, np.zeros(32, np.uint8))):
        with pytest.raises(ValueError):
            stream.copy(target, source)
    nothing: Any = object()
    for target, source in ((nothing, np.zeros(4)), (np.zeros(4), nothing)):
        with pytest.raises(TypeError):
            stream.copy(target, source)


@pytest.mark.parametrize(("dtype", "value"), [("u1", 300), ("i1", -129), ("f4", 1e300), ("f4", 1j), ("i4", 2**40)])
def test_fill_with_what_does_not_fit(dtype: str, value: complex) -> None:
    """Stream.fill: a value that the item cannot hold is a ValueError, and nothing is written."""
    target = np.ones(4, dtype)
    with pytest.raises(ValueError, match="fit"):
        _stream().fill(target, value)
    assert (target == 1).all()


def test_launch_needs_a_callable() -> None:
    """CPU launch: any callable; anything else is a TypeError."""
    with pytest.raises(TypeError, match="callable"):
        _stream().launch("np.add")


def test_launch_keeps_arguments_and_options() -> None:
    """CPU launch: arguments and options of the capture come back at every replay."""
    seen: list[tuple[Any, ...]] = []

    def kernel(*args: Any, **options: Any) -> str:
        seen.append((args, options))
        return "dropped"

    stream, graph = _stream(), graphcap.Graph("cpu")
    with stream, graph:
        stream.launch(kernel, 1, "two", three=3)
    graph.replay()
    graph.replay()
    assert seen == [((1, "two"), {"three": 3})] * 2


def test_error_of_a_kernel_names_its_node() -> None:
    """CPU launch: what a kernel raises passes to the caller of ``replay``, with a note; the rest did not run."""
    stream, graph = _stream(), graphcap.Graph("cpu")
    target = np.zeros(2)

    def divide() -> None:
        raise ZeroDivisionError

    with stream, graph:
        stream.launch(len, "first")
        stream.launch(divide)
        stream.fill(target, 1.0)
    with pytest.raises(ZeroDivisionError) as caught:
        graph.replay()
    (note,) = getattr(caught.value, "__notes__", [])
    assert "node 1" in note
    assert "divide" in note
    assert not target.any()


def test_replay_inside_its_own_replay_is_refused() -> None:
    """S-D38: one executable never overlaps itself, so a node that replays its own graph would wait for ever."""
    stream, graph = _stream(), graphcap.Graph("cpu")
    with stream, graph:
        stream.launch(lambda: graph.replay())
    with pytest.raises(graphcap.GraphStateError, match="replay"):
        graph.replay()
    graph.reset()


def test_replays_of_one_graph_do_not_overlap() -> None:
    """S-D38: eight threads replay one graph with an in-place step; every step counts."""
    stream, graph = _stream(), graphcap.Graph("cpu")
    target = np.zeros(64)

    def step(array: Any) -> None:
        before = array.copy()
        before += 1
        array[...] = before

    with stream, graph:
        stream.launch(step, target)

    def work() -> None:
        for _ in range(50):
            graph.replay()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (target == 400).all()


def test_blocking_fork_blocks_the_default_stream() -> None:
    """S-D22: it is the blocking streams of a capture that count, the forked ones too."""
    origin, fork = _stream(), _stream(blocking=True)
    target = np.zeros(2)
    graph = graphcap.Graph("cpu")
    default = cpu_backend().default_stream(0)
    with origin, graph:
        default.fill(target, 1.0)
        fork.wait(origin)
        with pytest.raises(graphcap.CaptureForbiddenError, match="default stream"):
            _ = default.capture_status
        origin.fill(target, 2.0)
    assert (target == 1).all()
    graph.replay(origin)
    assert (target == 2).all()


def test_work_on_the_default_stream_breaks_a_blocking_capture() -> None:
    """E-23 (906 from work): on the CPU the strict choice is made: the capture is broken."""
    origin = _stream(blocking=True)
    graph = graphcap.Graph("cpu")
    with origin:
        graph.capture_begin()
        with pytest.raises(graphcap.CaptureForbiddenError):
            cpu_backend().default_stream(0).fill(np.zeros(2), 1.0)
        assert origin.capture_status is CaptureStatus.INVALIDATED
        graph.reset()


def test_external_needs_a_capture() -> None:
    """S-D26: the external flag outside a capture is a ValueError."""
    stream = _stream()
    with pytest.raises(ValueError, match="external"):
        stream.record(external=True)
    with pytest.raises(ValueError, match="external"):
        stream.wait(stream.record(), external=True)


def test_event_of_a_capture_that_is_over() -> None:
    """CPU, the strict choice for evidence question 3: such an event marks nothing; record it again."""
    stream, other = _stream(), _stream()
    graph = graphcap.Graph("cpu")
    with stream, graph:
        stream.fill(np.zeros(2), 1.0)
        event = stream.record()
    assert event.is_captured
    with pytest.raises(graphcap.CaptureIsolationError, match="over"):
        other.wait(event)
    with pytest.raises(graphcap.CaptureForbiddenError):
        event.query()
    again = stream.record(event)
    assert not again.is_captured
    other.wait(again)
    assert again.query()


def test_host_errors_asked_for_by_two_threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kept exception is raised once; who comes second finds nothing."""
    errors = HostErrors()
    errors.keep(ZeroDivisionError("fails"))

    class Late:
        """A lock for which another thread was first."""

        def __enter__(self) -> None:
            errors.kept.clear()

        def __exit__(self, *exc: object) -> None:
            pass

    monkeypatch.setattr(errors, "_lock", Late())
    errors.raise_first()


def test_work_on_its_way_when_another_thread_ends_the_capture() -> None:
    """Such work came after the capture: it runs at once, and the ended graph does not grow."""
    graph, stream, fork = graphcap.Graph("cpu", keep_graph=True), _stream(), _stream()
    x = np.zeros(4)
    with stream, graph:
        fork.wait(stream)
        fork.fill(x, 1.0)
        stream.wait(fork)
        capture: Any = fork.capture  # type: ignore[attr-defined]  # the CPU's streams have one
    assert not capture.add(fork, None)
    fork.fill(x, 5.0)
    assert (x == 5.0).all()
    assert len(graph.topology().nodes) == 1


@pytest.mark.parametrize("replay", ["native", "python"])
@pytest.mark.parametrize("how", ["launch", "host_call"])
def test_error_state_belongs_to_the_node(how: str, replay: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A callable is replayed under the ``numpy.errstate`` of its capture, as a recorded NumPy call is."""
    monkeypatch.setenv("GRAPHCAP_CPU_REPLAY", replay)
    graph, stream, zero = graphcap.Graph("cpu"), _stream(), np.zeros(3)
    seen: list[str] = []

    def kernel(x: Any) -> None:
        seen.append(np.geterr()["divide"])
        np.divide(1.0, x)

    with stream, graph, np.errstate(divide="raise"):
        getattr(stream, how)(kernel, zero)
    with stream, pytest.raises(FloatingPointError), np.errstate(all="ignore"):
        graph.replay()
        stream.synchronize()
    assert seen == ["raise"]
    assert np.geterr()["divide"] == "warn"


@pytest.mark.parametrize("captures", [False, True])
def test_host_call_of_what_cannot_be_called(captures: bool) -> None:
    """Refused where it is given, not kept until the next synchronise; a capture goes on."""
    stream, graph, nothing = _stream(), graphcap.Graph("cpu"), 5
    call: Any = stream.host_call
    with stream, graph if captures else contextlib.nullcontext():
        with pytest.raises(TypeError, match="must be callable, not int"):
            call(nothing)
        stream.fill(np.zeros(2), 1.0)
    stream.synchronize()
