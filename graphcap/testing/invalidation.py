"""Rule 4 and the forbidden calls: what breaks a capture, for whom, and what a broken capture still answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.interface import CaptureStatus, GraphCaptureMode
from graphcap.testing.case import NBYTES, ConformanceCase, N, in_thread, needs_mode, status, vector
from graphcap.testing.fixtures import BackendFixtures

__all__ = ["Invalidation"]

GLOBAL, THREAD_LOCAL, RELAXED = GraphCaptureMode.GLOBAL, GraphCaptureMode.THREAD_LOCAL, GraphCaptureMode.RELAXED

_BREAKS: dict[str, Callable[[BackendFixtures, graphcap.Stream], object]] = {
    "stream-synchronize": lambda fx, stream: stream.synchronize(),
    "stream-query": lambda fx, stream: stream.query(),
    "event-synchronize": lambda fx, stream: stream.record().synchronize(),
    "event-query": lambda fx, stream: stream.record().query(),
    "device-synchronize": lambda fx, stream: graphcap.synchronize(fx.device),
}
"""Calls that conflict with a capture in every mode (S-D15)."""


def _causes(error: BaseException) -> Iterator[BaseException]:
    found = error.__cause__
    while found is not None:
        yield found
        found = found.__cause__


class Invalidation(ConformanceCase):
    """A forbidden call fails, breaks the whole capture, and every later call on it tells the first cause."""

    @pytest.mark.parametrize("call", list(_BREAKS))
    @pytest.mark.parametrize("mode", list(GraphCaptureMode))
    def test_forbidden_in_every_mode(self, fx: BackendFixtures, mode: GraphCaptureMode, call: str) -> None:
        """Rules 4 and 6 (900, 907): waiting for or asking about captured work is refused, and breaks the capture."""
        if mode not in (*fx.capabilities.capture_modes, GraphCaptureMode.DEFAULT):
            pytest.skip(f"backend {fx.backend.name} lacks the capture mode {mode.name.lower()!r}")
        x = fx.upload(vector(1))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device, capture_mode=mode)
        with stream:
            graph.capture_begin()
            stream.fill(x, 0)
            with pytest.raises(graphcap.CaptureForbiddenError) as first:
                _BREAKS[call](fx, stream)
            assert first.value.asked
            assert first.value.cure
            assert status(stream) is CaptureStatus.INVALIDATED
            assert not stream.is_capturing
            with pytest.raises(graphcap.CaptureInvalidatedError) as later:
                graph.capture_end()
            assert first.value in _causes(later.value)
        assert status(stream) is CaptureStatus.NONE
        np.testing.assert_array_equal(fx.download(x), vector(1))
        with pytest.raises(graphcap.GraphStateError):
            graph.replay(stream)
        self.assert_can_capture(fx, stream, graph)

    def test_every_later_call_tells_the_first_cause(self, fx: BackendFixtures) -> None:
        """Rule 4: work, records, waits, asking again: all raise ``CaptureInvalidatedError`` with the first cause."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        stream, other = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream:
            graph.capture_begin()
            event = stream.record()
            with pytest.raises(graphcap.CaptureForbiddenError) as first:
                stream.query()
            calls: list[Callable[[], object]] = [
                lambda: stream.fill(x, 0),
                lambda: stream.copy(x, y),
                lambda: fx.launch_axpy(stream, x, 2, x, y),
                lambda: stream.host_call(print),
                lambda: stream.record(),
                lambda: stream.wait(event),
                lambda: other.wait(event),
                lambda: stream.synchronize(),
                lambda: stream.query(),
                graph.replay,
                graph.pool,
                graph.capture_begin,
                graph.capture_end,
            ]
            for call in calls:
                with pytest.raises(graphcap.CaptureInvalidatedError) as later:
                    call()
                assert first.value in _causes(later.value)
        np.testing.assert_array_equal(fx.download(x), vector(1))

    def test_second_offence_changes_nothing(self, fx: BackendFixtures) -> None:
        """Rule 4, E-6: the first cause is kept, whatever follows."""
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream:
            graph.capture_begin()
            with pytest.raises(graphcap.CaptureForbiddenError) as first:
                stream.synchronize()
            with pytest.raises(graphcap.CaptureError):
                graphcap.synchronize(fx.device)
            with pytest.raises(graphcap.CaptureInvalidatedError) as later:
                graph.capture_end()
        assert first.value in _causes(later.value)

    def test_whole_sequence_is_broken(self, fx: BackendFixtures) -> None:
        """E-5: an offence on a fork breaks the origin and every sibling; after the end all are free (E-4)."""
        x = fx.upload(vector(1))
        origin, left, right = (fx.make_stream() for _ in range(3))
        graph = graphcap.Graph(fx.device)
        with origin:
            graph.capture_begin()
            start = origin.record()
            left.wait(start)
            right.wait(start)
            right.fill(x, 0)
            with pytest.raises(graphcap.CaptureForbiddenError):
                left.synchronize()
            for stream in (origin, left, right):
                assert stream.capture_status is CaptureStatus.INVALIDATED
                with pytest.raises(graphcap.CaptureInvalidatedError):
                    stream.fill(x, 0)
            with pytest.raises(graphcap.CaptureInvalidatedError):
                graph.capture_end()
        for stream in (origin, left, right):
            self.assert_can_capture(fx, stream, graph)
        np.testing.assert_array_equal(fx.download(x), vector(1))

    def test_other_captures_live_on(self, fx: BackendFixtures) -> None:
        """E-14: an offence on one capture's own stream does not break another."""
        x = fx.upload(vector(1))
        one, two = fx.make_stream(), fx.make_stream()
        first, second = graphcap.Graph(fx.device), graphcap.Graph(fx.device)
        with one:
            first.capture_begin()
        with two:
            second.capture_begin()
        with pytest.raises(graphcap.CaptureForbiddenError):
            one.query()
        assert two.is_capturing
        two.fill(x, 0)
        with two:
            second.capture_end()
        with one, pytest.raises(graphcap.CaptureInvalidatedError):
            first.capture_end()
        second.replay(two)
        assert not fx.download(x).any()

    def test_device_synchronize_from_another_thread(self, fx: BackendFixtures) -> None:
        """E-19: waiting for the device breaks captures of all threads, whatever their mode."""
        stream = fx.make_stream()
        mode = RELAXED if RELAXED in fx.capabilities.capture_modes else GraphCaptureMode.DEFAULT
        graph = graphcap.Graph(fx.device, capture_mode=mode)
        with stream:
            graph.capture_begin()
            with pytest.raises(graphcap.CaptureForbiddenError):
                in_thread(lambda: graphcap.synchronize(fx.device))
            assert stream.capture_status is CaptureStatus.INVALIDATED
            with pytest.raises(graphcap.CaptureInvalidatedError):
                graph.capture_end()
        self.assert_can_capture(fx, stream, graph)

    def test_replay_on_a_capturing_stream(self, fx: BackendFixtures) -> None:
        """Graph.replay, E-17: a replay on a capturing stream is refused, adds no node, and breaks the capture."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        done = self.captured(fx, out, 2, x, y)
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream:
            graph.capture_begin()
            with pytest.raises(graphcap.CaptureForbiddenError):
                done.replay()
            with pytest.raises(graphcap.CaptureInvalidatedError):
                graph.capture_end()
        assert not fx.download(out).any()
        done.replay(stream)
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    def test_reset_ends_a_broken_capture(self, fx: BackendFixtures) -> None:
        """Rule 4: ``reset`` leaves the state too, and raises nothing."""
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream:
            graph.capture_begin()
            with pytest.raises(graphcap.CaptureForbiddenError):
                stream.synchronize()
            graph.reset()
        self.assert_can_capture(fx, stream, graph)

    def test_buffers_of_a_broken_capture_stay_valid(self, fx: BackendFixtures) -> None:
        """Rule 5: what was allocated in a capture that broke stays usable until it is dropped."""
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream:
            graph.capture_begin()
            buffer = fx.allocate(NBYTES)
            with pytest.raises(graphcap.CaptureForbiddenError):
                stream.synchronize()
            with pytest.raises(graphcap.CaptureInvalidatedError):
                graph.capture_end()
        taken = fx.poison(NBYTES, stream)
        stream.copy(buffer, vector(3))
        np.testing.assert_array_equal(fx.download(buffer), vector(3))
        assert all(other.ptr != buffer.ptr for other in taken)

    # -- the modes (S-D8 to S-D10) -------------------------------------------------------------------------------

    _UNSAFE: tuple[tuple[str, Callable[[graphcap.Stream, graphcap.Event], Any]], ...] = (
        ("synchronize", lambda idle, event: idle.synchronize()),
        ("query", lambda idle, event: idle.query()),
        ("event-synchronize", lambda idle, event: event.synchronize()),
        ("event-query", lambda idle, event: event.query()),
    )
    unsafe = pytest.mark.parametrize("call", [call for _, call in _UNSAFE], ids=[name for name, _ in _UNSAFE])

    def _try(
        self, fx: BackendFixtures, mode: GraphCaptureMode, attempt: Callable[[Callable[[], Any]], Any], call: Any
    ) -> bool:
        """Whether `call` on an idle stream, made through `attempt`, is refused while a capture of `mode` is open."""
        x = fx.upload(vector(1))
        stream, idle = fx.make_stream(), fx.make_stream()
        event = idle.record()
        idle.synchronize()
        graph = graphcap.Graph(fx.device, capture_mode=mode)
        with stream:
            graph.capture_begin()
            stream.fill(x, 0)
            try:
                attempt(lambda: call(idle, event))
            except graphcap.CaptureForbiddenError:
                with pytest.raises(graphcap.CaptureInvalidatedError):
                    graph.capture_end()
                return True
            graph.capture_end()
        graph.replay(stream)
        assert not fx.download(x).any()
        return False

    @unsafe
    @needs_mode(GLOBAL)
    def test_global_mode_own_thread(self, fx: BackendFixtures, call: Any) -> None:
        """S-D8: in global mode unsafe calls are refused, and break the capture."""
        assert self._try(fx, GLOBAL, lambda unsafe: unsafe(), call)

    @unsafe
    @needs_mode(GLOBAL)
    def test_global_mode_other_thread(self, fx: BackendFixtures, call: Any) -> None:
        """S-D8: … on every thread."""
        assert self._try(fx, GLOBAL, in_thread, call)

    @unsafe
    @needs_mode(THREAD_LOCAL)
    def test_thread_local_mode_own_thread(self, fx: BackendFixtures, call: Any) -> None:
        """S-D9: in thread-local mode they are refused to the capturing thread."""
        assert self._try(fx, THREAD_LOCAL, lambda unsafe: unsafe(), call)

    @unsafe
    @needs_mode(THREAD_LOCAL)
    def test_thread_local_mode_other_thread(self, fx: BackendFixtures, call: Any) -> None:
        """S-D9: … and to no other."""
        assert not self._try(fx, THREAD_LOCAL, in_thread, call)

    @unsafe
    @needs_mode(RELAXED)
    def test_relaxed_mode_own_thread(self, fx: BackendFixtures, call: Any) -> None:
        """S-D10: in relaxed mode calls about uncaptured work are allowed."""
        assert not self._try(fx, RELAXED, lambda unsafe: unsafe(), call)

    @unsafe
    @needs_mode(RELAXED)
    def test_relaxed_mode_other_thread(self, fx: BackendFixtures, call: Any) -> None:
        """S-D10: … everywhere."""
        assert not self._try(fx, RELAXED, in_thread, call)

    @needs_mode(GLOBAL)
    def test_capture_on_another_thread(self, fx: BackendFixtures) -> None:
        """S-D8: a global capture of another thread refuses this thread's unsafe calls."""
        idle, stream = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device, capture_mode=GLOBAL)

        def begin() -> None:
            with stream:
                graph.capture_begin()

        in_thread(begin)
        with pytest.raises(graphcap.CaptureForbiddenError):
            idle.synchronize()
        assert stream.capture_status is CaptureStatus.INVALIDATED
        graph.reset()
        idle.synchronize()
