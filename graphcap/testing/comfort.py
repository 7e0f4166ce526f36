"""``capture()``, streams and events as users meet them, and what a missing capability says."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.testing.case import NBYTES, ConformanceCase, N, in_thread, needs, vector
from graphcap.testing.fixtures import BackendFixtures

__all__ = ["Comfort"]


class Comfort(ConformanceCase):
    """The comfortable way in, by the same rules; capabilities that a backend lacks are told, not guessed."""

    # -- capture() -----------------------------------------------------------------------------------------------

    def test_capture_on_a_side_stream(self, fx: BackendFixtures) -> None:
        """Design 3: ``capture()`` has its own stream, leaves the current one, and keeps the template."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        outer = fx.make_stream()
        with outer, graphcap.capture(fx.device) as graph:
            side = graphcap.current_stream(fx.device)
            assert side != outer
            assert side.is_capturing
            assert not outer.is_capturing
            fx.launch_axpy(side, out, 2, x, y)
        assert len(graph.topology().nodes) == 1
        assert not fx.download(out).any()
        graph.replay(outer)
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    def test_capture_on_a_given_stream(self, fx: BackendFixtures) -> None:
        """Design 3: ``stream=`` chooses it."""
        x = fx.upload(vector(1))
        mine = fx.make_stream()
        with graphcap.capture(fx.device, stream=mine) as graph:
            assert graphcap.current_stream(fx.device) == mine
            mine.fill(x, 0)
        graph.replay()
        assert not fx.download(x).any()

    def test_capture_without_a_device(self, fx: BackendFixtures, monkeypatch: pytest.MonkeyPatch) -> None:
        """Design 3: left out, the device is ``GRAPHCAP_DEVICE``."""
        monkeypatch.setenv("GRAPHCAP_DEVICE", fx.device)
        x = fx.upload(vector(1))
        with graphcap.capture() as graph:
            graphcap.current_stream().fill(x, 0)
        assert graph.device.partition(":")[0] == fx.device_type
        graph.replay()
        assert not fx.download(x).any()

    @pytest.mark.parametrize("count", [1, 3])
    def test_warmup_runs_eagerly(self, fx: BackendFixtures, count: int) -> None:
        """Design 3: the warm-up runs before the capture, on the stream of the capture, as often as asked."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        seen: list[bool] = []

        def work() -> None:
            stream = graphcap.current_stream(fx.device)
            seen.append(stream.is_capturing)
            fx.launch_axpy(stream, x, 2, x, y)

        with graphcap.capture(fx.device, warmup=work, warmup_count=count) as graph:
            work()
        assert seen == [False] * count + [True]
        expected = vector(1)
        for _ in range(count):
            expected = 2 * expected + vector(2)
        np.testing.assert_array_equal(fx.download(x), expected)
        assert len(graph.topology().nodes) == 1

    def test_preserve(self, fx: BackendFixtures) -> None:
        """Issue 2: ``preserve`` gives arrays their contents back after the warm-up, since a warm-up that advances a
        time step would be a silent error."""
        x, y, other = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(vector(5))

        def step() -> None:
            stream = graphcap.current_stream(fx.device)
            fx.launch_axpy(stream, x, 2, x, y)
            fx.launch_axpy(stream, other, 3, other, y)

        with graphcap.capture(fx.device, warmup=step, warmup_count=2, preserve=[x]) as graph:
            step()
        np.testing.assert_array_equal(fx.download(x), vector(1))
        twice = 3 * (3 * vector(5) + vector(2)) + vector(2)
        np.testing.assert_array_equal(fx.download(other), twice)
        graph.replay()
        np.testing.assert_array_equal(fx.download(x), 2 * vector(1) + vector(2))

    def test_order_with_the_current_stream(self, fx: BackendFixtures) -> None:
        """Design 3: the side stream follows the current stream's work, and the current stream follows the side's."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        outer = fx.make_stream()
        with outer:
            fx.launch_axpy(outer, x, 2, x, y)

            def step() -> None:
                fx.launch_axpy(graphcap.current_stream(fx.device), x, 3, x, y)

            with graphcap.capture(fx.device, warmup=step) as graph:
                step()
            fx.launch_axpy(outer, x, 1, x, y)
            graph.replay()
        expected = vector(1)
        for factor in (2, 3, 1, 3):
            expected = factor * expected + vector(2)
        np.testing.assert_array_equal(fx.download(x), expected)

    @needs("legacy_stream")
    def test_strict_capture_notices_a_leak(self, fx: BackendFixtures) -> None:
        """Design 3, S-D22: ``strict=True`` makes work fail that went to the default stream instead of the capture."""
        x = fx.upload(vector(1))
        calls: list[int] = []
        with pytest.raises(graphcap.CaptureForbiddenError), graphcap.capture(fx.device, strict=True):
            graphcap.current_stream(fx.device).fill(x, 0)
            fx.default_stream().host_call(calls.append, 1)
        assert calls == []
        np.testing.assert_array_equal(fx.download(x), vector(1))

    def test_strict_and_stream_exclude_each_other(self, fx: BackendFixtures) -> None:
        """capture: both at once is a ValueError."""
        with (
            pytest.raises(ValueError, match="strict"),
            graphcap.capture(fx.device, strict=True, stream=fx.make_stream()),
        ):
            pytest.fail("the body ran")

    # -- streams and events --------------------------------------------------------------------------------------

    def test_current_stream_nests(self, fx: BackendFixtures) -> None:
        """Design 3: ``with stream:`` makes it the thread's current stream, innermost first; other threads see theirs."""
        default = graphcap.current_stream(fx.device)
        one, two = fx.make_stream(), fx.make_stream()
        with one:
            assert graphcap.current_stream(fx.device) == one
            with two:
                assert graphcap.current_stream(fx.device) == two
                assert in_thread(lambda: graphcap.current_stream(fx.device)) == default
                with one:
                    assert graphcap.current_stream(fx.device) == one
            assert graphcap.current_stream(fx.device) == one
        assert graphcap.current_stream(fx.device) == default
        assert default.is_default

    def test_streams_are_equal_by_handle(self, fx: BackendFixtures) -> None:
        """Design 3: a stream equals itself, has a handle and a device string, and can be a key."""
        one, two = fx.make_stream(), fx.make_stream()
        assert one != two
        assert one.handle != two.handle
        assert {one: 1, two: 2}[one] == 1
        assert one.device.startswith(fx.device_type)
        assert graphcap.Stream.wrap(one, fx.device) is one
        assert one != object()

    def test_events_order_eager_work(self, fx: BackendFixtures) -> None:
        """Design 3: ``e = s.record(); t.wait(e)`` orders two streams outside captures too."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        one, two = fx.make_stream(), fx.make_stream()
        for factor in (2, 3, 2):
            fx.launch_axpy(one, x, factor, x, y)
            two.wait(one.record())
            fx.launch_axpy(two, x, 1, x, y)
            one.wait(two)
        one.synchronize()
        expected = vector(1)
        for factor in (2, 3, 2):
            expected = 1 * (factor * expected + vector(2)) + vector(2)
        np.testing.assert_array_equal(fx.download(x), expected)
        assert one.query()
        assert one.record().query() in (True, False)

    def test_event_that_was_never_recorded(self, fx: BackendFixtures) -> None:
        """Event.query: done, if never recorded; a wait for it holds nothing up."""
        make: Any = graphcap.Event
        event: graphcap.Event = make(fx.device)
        assert event.query()
        event.synchronize()
        stream = fx.make_stream()
        stream.wait(event)
        stream.synchronize()

    def test_foreign_events_are_refused(self, fx: BackendFixtures) -> None:
        """Stream.wait: what is no event of the backend is a TypeError."""
        stream = fx.make_stream()
        nothing: Any = object()
        with pytest.raises(TypeError):
            stream.wait(nothing)

    @needs("external_events", "event_timing")
    def test_timing_inside_a_graph(self, fx: BackendFixtures) -> None:
        """S-D26: external events are nodes that fire on every replay and can be asked outside."""
        x = fx.upload(vector(1))
        make: Any = graphcap.Event
        start, stop = make(fx.device, timing=True), make(fx.device, timing=True)
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device, keep_graph=True)
        with stream, graph:
            stream.record(start, external=True)
            stream.fill(x, 0)
            stream.record(stop, external=True)
        assert len(graph.topology().nodes) == 3
        for _ in range(2):
            graph.replay(stream)
            stop.synchronize()
            assert start.query()
            assert stop.elapsed_since(start) >= 0

    @needs("event_timing")
    def test_timing(self, fx: BackendFixtures) -> None:
        """Event.elapsed_since: seconds between two events; one without timing is a ValueError."""
        stream = fx.make_stream()
        start = stream.record(timing=True)
        stream.host_call(gc.isenabled)
        stop = stream.record(timing=True)
        stream.synchronize()
        assert stop.elapsed_since(start) >= 0
        plain = stream.record()
        stream.synchronize()
        with pytest.raises(ValueError):
            stop.elapsed_since(plain)

    # -- what is missing -----------------------------------------------------------------------------------------

    def _refused(self, fx: BackendFixtures, capability: str) -> Any:
        if getattr(fx.capabilities, capability):
            pytest.skip(f"backend {fx.backend.name} has the capability {capability!r}")
        return pytest.raises(graphcap.UnsupportedError)

    def _told(self, fx: BackendFixtures, error: graphcap.UnsupportedError, capability: str) -> None:
        assert error.backend == fx.backend.name
        assert error.capability == capability
        assert fx.backend.name in str(error)
        assert capability in str(error)

    @pytest.mark.parametrize("capability", ["graph_update", "upload"])
    def test_missing_graph_function(self, fx: BackendFixtures, capability: str) -> None:
        """Design 3: every name works, or raises ``UnsupportedError`` with the backend and the missing capability."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        graph = self.captured(fx, out, 2, x, y)
        with self._refused(fx, capability) as caught:
            graph.upload() if capability == "upload" else graph.update(graph)
        self._told(fx, caught.value, capability)
        graph.replay()
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    def test_missing_array_namespace(self, fx: BackendFixtures) -> None:
        """Design 3: as above, for arrays."""
        with self._refused(fx, "array_namespace") as caught:
            graphcap.array_namespace(fx.device)
        self._told(fx, caught.value, "array_namespace")

    def test_missing_parameters(self, fx: BackendFixtures) -> None:
        """Design 3: as above, for numbers that may change; nothing is recorded, and the capture goes on."""
        x, level = fx.upload(vector()), graphcap.parameter(1, name="level")
        graph = graphcap.Graph(fx.device, keep_graph=True)
        with fx.make_stream() as stream, graph:
            stream.fill(x, 7)
            with self._refused(fx, "parameters") as caught:
                stream.fill(x, level)
        self._told(fx, caught.value, "parameters")
        assert len(graph.topology().nodes) == 1
        graph.replay()
        assert (fx.download(x, np.uint8) == 7).all()

    def test_missing_wrap_stream(self, fx: BackendFixtures) -> None:
        """Design 3: as above, for streams of other libraries."""
        with self._refused(fx, "wrap_stream") as caught:
            graphcap.Stream.wrap(object(), fx.device)
        self._told(fx, caught.value, "wrap_stream")

    @needs("wrap_stream")
    def test_wrap_of_something_else(self, fx: BackendFixtures) -> None:
        """Stream.wrap: what is no stream at all is a TypeError."""
        with pytest.raises(TypeError):
            graphcap.Stream.wrap(object(), fx.device)

    def test_missing_priorities(self, fx: BackendFixtures) -> None:
        """Design 3: as above, for priorities."""
        make: Any = graphcap.Stream
        with self._refused(fx, "priorities") as caught:
            make(fx.device, priority=-1)
        self._told(fx, caught.value, "priorities")

    def test_missing_event_timing(self, fx: BackendFixtures) -> None:
        """Design 3: as above, for timing."""
        make: Any = graphcap.Event
        with self._refused(fx, "event_timing") as caught:
            make(fx.device, timing=True)
        self._told(fx, caught.value, "event_timing")

    def test_missing_external_events(self, fx: BackendFixtures) -> None:
        """Design 3: as above, for external events; the refusal does not break the capture."""
        x = fx.upload(vector(1))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            with self._refused(fx, "external_events") as caught:
                stream.record(external=True)
            stream.fill(x, 0)
        self._told(fx, caught.value, "external_events")
        graph.replay(stream)
        assert not fx.download(x).any()

    # -- buffers -------------------------------------------------------------------------------------------------

    def test_buffer(self, fx: BackendFixtures) -> None:
        """Design 3: a buffer tells its address, size and device, and has one owner."""
        buffer = fx.allocate(NBYTES)
        assert buffer.ptr > 0
        assert buffer.nbytes == len(buffer) == NBYTES
        assert buffer.device.startswith(fx.device_type)
        assert isinstance(buffer, graphcap.Buffer)
        assert f"{NBYTES}" in repr(buffer)

    @needs("host_can_read")
    def test_host_reads_without_a_copy(self, fx: BackendFixtures) -> None:
        """Capability host_can_read: NumPy sees the buffer's own bytes."""
        buffer = fx.upload(vector(3))
        graphcap.synchronize(fx.device)
        seen = np.asarray(buffer).view(np.uint8).view(np.float32)
        np.testing.assert_array_equal(seen, vector(3))
        stream = fx.make_stream()
        stream.fill(buffer, 0)
        stream.synchronize()
        assert not seen.any()

    def test_buffers_are_not_duplicated(self, fx: BackendFixtures) -> None:
        """Rule 12: a copy of a buffer object would free its memory twice."""
        buffer = fx.upload(vector(1))
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError):
                duplicate(buffer)
