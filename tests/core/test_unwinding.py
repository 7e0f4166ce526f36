"""Rule 5 where something fails while a capture is being thrown away, and a thousand times over."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap import _gc_pause
from graphcap.backends import base
from graphcap.backends.cpu import captures
from graphcap.backends.cpu.graph import CPUGraphImpl
from graphcap.backends.cpu.source import HostSegments
from graphcap.backends.cpu.stream import CPUStream


class Boom(Exception):
    pass


def _stream() -> graphcap.Stream:
    make: Any = graphcap.Stream
    stream: graphcap.Stream = make("cpu")
    return stream


def _notes(error: BaseException) -> list[str]:
    return [str(note) for note in getattr(error, "__notes__", [])]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Whatever a test breaks, no capture, pause or pool use may be left of it."""
    yield
    assert captures.open_captures == []
    assert _gc_pause._open == 0
    assert gc.isenabled()
    make_room = graphcap.Graph("cpu")
    stream = _stream()
    with stream, make_room:
        stream.fill(np.zeros(4), 1.0)


def test_second_failure_becomes_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 5: a failure while unwinding is a note on the user's exception, which passes all the same."""
    graph, stream = graphcap.Graph("cpu"), _stream()
    abandon = CPUGraphImpl._abandon

    def fail(self: CPUGraphImpl) -> None:
        abandon(self)
        raise OSError("the device is gone")

    boom = Boom("mine")
    with pytest.raises(Boom) as caught, stream, graph:
        monkeypatch.setattr(CPUGraphImpl, "_abandon", fail)
        raise boom
    assert caught.value is boom
    assert any("the device is gone" in note for note in _notes(boom))
    monkeypatch.undo()
    graph.reset()


def test_all_steps_of_unwinding_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 5: one failing step does not keep the others from running; each failure is told."""
    graph, stream = graphcap.Graph("cpu"), _stream()
    abandon, drop = CPUGraphImpl._abandon, CPUGraphImpl._drop_executable

    def fail_to_abandon(self: CPUGraphImpl) -> None:
        abandon(self)
        raise OSError("first trouble")

    def fail_to_drop(self: CPUGraphImpl) -> None:
        drop(self)
        raise OSError("second trouble")

    with pytest.raises(Boom) as caught, stream, graph:
        monkeypatch.setattr(CPUGraphImpl, "_abandon", fail_to_abandon)
        monkeypatch.setattr(CPUGraphImpl, "_drop_executable", fail_to_drop)
        raise Boom
    notes = "\n".join(_notes(caught.value))
    assert "first trouble" in notes
    assert "second trouble" in notes
    monkeypatch.undo()
    graph.reset()
    assert not stream.is_capturing


def test_failing_instantiation_leaves_a_new_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design 1: ``capture_end`` always ends the capture; if instantiating fails the object is new again."""
    graph, stream = graphcap.Graph("cpu"), _stream()

    def fail(self: CPUGraphImpl) -> None:
        raise graphcap.DriverError("instantiate", 2, "OUT_OF_MEMORY")

    monkeypatch.setattr(CPUGraphImpl, "_instantiate", fail)
    with pytest.raises(graphcap.DriverError), stream, graph:
        stream.fill(np.zeros(4), 1.0)
    with pytest.raises(graphcap.GraphStateError):
        graph.pool()
    monkeypatch.undo()
    with stream, graph:
        stream.fill(np.zeros(4), 1.0)
    graph.replay(stream)


@pytest.mark.parametrize("again", [False, True])
def test_failing_reinstantiation_keeps_the_executable(monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    """Rule 10: if making it again fails, the earlier executable still replays, and another try may succeed."""
    target = np.zeros(4)
    graph, stream = graphcap.Graph("cpu", keep_graph=True), _stream()
    with stream, graph:
        stream.fill(target, 1.0)
    if again:
        graph.instantiate()

    def fail(self: CPUGraphImpl) -> None:
        raise graphcap.DriverError("instantiate", 2, "OUT_OF_MEMORY")

    monkeypatch.setattr(CPUGraphImpl, "_instantiate", fail)
    with pytest.raises(graphcap.DriverError):
        graph.instantiate()
    if again:
        graph.replay()
        assert target.all()
    monkeypatch.undo()
    graph.replay()
    assert target.all()
    assert len(graph.topology().nodes) == 1


def test_refused_device_capture_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """S-B8, S-B17: if the device's capture does not begin, routing, pool use and pause are undone."""
    pool = graphcap.MemPool("cpu")
    graph, stream = graphcap.Graph("cpu", pool=pool), _stream()

    def fail(self: CPUGraphImpl, stream: graphcap.Stream, mode: Any) -> Any:
        raise graphcap.DriverError("begin", 900, "UNSUPPORTED")

    monkeypatch.setattr(CPUGraphImpl, "_begin", fail)
    with pytest.raises(graphcap.DriverError), stream:
        graph.capture_begin()
    assert pool.use_count() == 1
    assert gc.isenabled()
    assert graphcap.allocate(16, "cpu").pool_id == (0, 0)
    monkeypatch.undo()
    with stream, graph:
        stream.fill(np.zeros(4), 1.0)
    assert pool.use_count() == 2


def test_reset_in_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 5: a body that resets its own graph does not get one, and is told so."""
    graph, stream = graphcap.Graph("cpu"), _stream()
    with pytest.raises(graphcap.CaptureStateError), stream, graph:
        graph.reset()
    assert not stream.is_capturing


def test_nested_capture_is_refused_and_the_outer_goes_on() -> None:
    """Rule 2: a ``capture()`` inside a capture is an error of its own; the outer graph is unharmed by it."""
    target = np.zeros(4)
    with graphcap.capture("cpu") as outer:
        stream = graphcap.current_stream("cpu")
        stream.fill(target, 1.0)
        with pytest.raises(graphcap.CaptureStateError), graphcap.capture("cpu"):
            pytest.fail("the inner body ran")
    outer.replay()
    assert target.all()


def test_thousand_errors_on_one_graph() -> None:
    """Issue 2: an exception in the body, 1,000 times over: no leak, pool bytes at their start value, capture works."""
    graph, stream, fork = graphcap.Graph("cpu"), _stream(), _stream()
    target = np.zeros(64, np.float32)
    objects: list[int] = []

    def once(turn: int) -> None:
        try:
            with stream, graph:
                buffer = graphcap.allocate(256, "cpu")
                stream.fill(buffer, 1)
                fork.wait(stream)
                fork.copy(target, buffer)
                if turn % 3 == 0:
                    fork.synchronize()
                if turn % 3 == 1:
                    stream.wait(fork)
                raise Boom(turn)
        except (Boom, graphcap.CaptureForbiddenError):
            pass

    for turn in range(10):
        once(turn)
    gc.collect()
    graphcap.empty_cache("cpu")
    before = graphcap.memory_stats("cpu")
    for turn in range(1000):
        once(turn)
        if turn % 100 == 99:
            gc.collect()
            objects.append(len(gc.get_objects()))
    graphcap.empty_cache("cpu")
    after = graphcap.memory_stats("cpu")
    for key in ("allocated_bytes", "reserved_bytes", "active_bytes", "segments", "blocks"):
        assert after[f"{key}.current"] == before[f"{key}.current"]
    # The statistics of the latest 256 pools that are gone are kept (S-C40), so the number settles after those.
    assert objects[-1] - objects[3] < 20, f"objects pile up: {objects}"
    with stream, graph:
        stream.fill(target, 2.0)
    graph.replay(stream)
    assert (target == 2).all()


def test_graph_that_cannot_be_dropped_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules for errors: trouble inside a finalizer becomes a GraphcapWarning."""
    graph, stream = graphcap.Graph("cpu"), _stream()
    with stream, graph:
        stream.fill(np.zeros(4), 1.0)
    drop = CPUGraphImpl._drop_executable

    def fail(self: CPUGraphImpl) -> None:
        drop(self)
        raise OSError("the device is gone")

    monkeypatch.setattr(CPUGraphImpl, "_drop_executable", fail)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del graph
        gc.collect()
    assert [warning.category for warning in caught] == [graphcap.GraphcapWarning]
    assert "the device is gone" in str(caught[0].message)


class _Hook:
    """A framework's part that notes what it is asked, and may fail."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.fail_at = ""

    def _step(self, name: str) -> Any:
        self.events.append(name)
        if self.fail_at == name:
            raise RuntimeError(f"failed at {name}")
        return lambda: self.events.append(f"undo {name}")

    def stream_entered(self, stream: graphcap.Stream) -> Any:
        return self._step("stream")

    def current_stream(self, backend: Any, device: int) -> graphcap.Stream | None:
        return None

    def capture_begun(self, stream: graphcap.Stream, pool: tuple[int, int], retain: Any) -> Any:
        retain(self)
        return self._step("capture")

    def explain(self, error: BaseException) -> BaseException | None:
        self.events.append("explain")
        return LookupError("explained") if self.fail_at == "explain" else None


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> _Hook:
    found = _Hook()
    entry = base._HookEntry("sys", "unused:unused", found)
    monkeypatch.setattr(base, "_hooks", {"CPU": [entry]})
    return found


def test_hooks_take_part_in_order(hook: _Hook) -> None:
    """backends/base: a framework hears of stream and capture, and is undone in reverse order."""
    graph, stream = graphcap.Graph("cpu"), _stream()
    with stream, graph:
        stream.fill(np.zeros(4), 1.0)
    assert hook.events == ["stream", "capture", "undo capture", "undo stream"]


@pytest.mark.parametrize("fail_at", ["stream", "capture"])
def test_failing_hook_undoes_everything(hook: _Hook, fail_at: str) -> None:
    """Rule 5: a hook that fails leaves no capture, no current stream and no pool use behind."""
    pool = graphcap.MemPool("cpu")
    graph, stream = graphcap.Graph("cpu", pool=pool), _stream()
    hook.fail_at = fail_at
    with pytest.raises(RuntimeError, match=f"failed at {fail_at}"), stream, graph:
        pytest.fail("the body ran")
    assert not stream.is_capturing
    assert graphcap.current_stream("cpu").is_default
    assert pool.use_count() == 1
    hook.fail_at = ""
    with stream, graph:
        stream.fill(np.zeros(4), 1.0)
    graph.replay(stream)


def test_hooks_are_undone_after_an_error(hook: _Hook) -> None:
    """Rule 5: also when the body raises."""
    graph, stream = graphcap.Graph("cpu"), _stream()
    with pytest.raises(Boom), stream, graph:
        raise Boom
    assert hook.events == ["stream", "capture", "undo capture", "explain", "undo stream"]


def test_hook_explains_an_error(hook: _Hook) -> None:
    """backends/base: a framework may say what its own error means; the user's stays the cause, the capture is over."""
    graph, stream = graphcap.Graph("cpu"), _stream()
    hook.fail_at = "explain"
    with pytest.raises(LookupError, match="explained") as caught, stream, graph:
        raise Boom
    assert isinstance(caught.value.__cause__, Boom)
    assert not stream.is_capturing


def test_graph_dropped_inside_an_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 18, F4: a graph with an open capture that dies in the middle of an allocation gives back all it held."""
    pool = graphcap.MemPool("cpu")
    stream, other = _stream(), _stream()
    impl = graphcap.create_graph_impl("cpu")
    assert impl is not None
    with stream:
        impl.capture_begin(pool.id)
    held = [impl]
    del impl
    allocate = HostSegments.allocate_segment

    def drop_and_allocate(self: HostSegments, nbytes: int, on: int) -> int:
        held.clear()
        return allocate(self, nbytes, on)

    monkeypatch.setattr(HostSegments, "allocate_segment", drop_and_allocate)
    assert other.allocate(32 << 20).nbytes == 32 << 20
    assert held == []
    assert not stream.is_capturing
    assert pool.use_count() == 1
    graph = graphcap.Graph("cpu", pool=pool)
    with stream, graph:
        stream.fill(np.zeros(4), 1.0)
    graph.replay(stream)


@pytest.mark.parametrize("where", ["body", "warmup"])
def test_order_after_an_error_in_capture(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current stream waits for the side stream, whose warm-up and restoring of arrays may still run."""
    waits: list[tuple[Any, Any]] = []
    wait = CPUStream.wait

    def spy(self: CPUStream, event: Any, **options: Any) -> None:
        waits.append((self, event))
        wait(self, event, **options)

    def fail(place: str) -> None:
        if place == where:
            raise Boom(place)

    monkeypatch.setattr(CPUStream, "wait", spy)
    outer, side = _stream(), _stream()
    with pytest.raises(Boom), outer, graphcap.capture("cpu", stream=side, warmup=lambda: fail("warmup")):
        fail("body")
    assert waits == [(side, outer), (outer, side)]


def test_failing_wait_after_an_error_in_capture_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 5: the user's exception passes."""
    outer, side = _stream(), _stream()
    wait = CPUStream.wait

    def fail(self: CPUStream, event: Any, **options: Any) -> None:
        if self is outer:
            raise OSError("the device is gone")
        wait(self, event, **options)

    monkeypatch.setattr(CPUStream, "wait", fail)
    with pytest.raises(Boom) as caught, outer, graphcap.capture("cpu", stream=side):
        raise Boom
    assert any("the device is gone" in note for note in _notes(caught.value))


def test_replay_on_a_capturing_stream_says_what_to_do() -> None:
    """E-17, design 5: the message speaks of the replay and of its cure; the capture is broken by it."""
    with graphcap.capture("cpu") as graph:
        graphcap.current_stream("cpu").fill(np.zeros(2), 1.0)
    stream, outer = _stream(), graphcap.Graph("cpu")
    with pytest.raises(graphcap.CaptureInvalidatedError) as ended, stream, outer:
        with pytest.raises(graphcap.CaptureForbiddenError, match="cannot be recorded") as caught:
            graph.replay()
        assert "replay(stream=" in caught.value.cure
        with pytest.raises(graphcap.CaptureInvalidatedError):
            graph.replay()
    assert ended.value.__cause__ is caught.value
    graph.replay()


@pytest.mark.parametrize("how", ["graph", "capture"])
def test_an_empty_capture_is_told_at_the_users_line(how: str) -> None:
    """Rule 7, however it was captured."""
    make: Any = graphcap.Stream
    with pytest.warns(graphcap.EmptyGraphWarning) as told:
        if how == "graph":
            with make("cpu"), graphcap.Graph("cpu"):
                pass
        else:
            with graphcap.capture("cpu"):
                pass
    assert [warning.filename for warning in told] == [__file__]
