"""Rules 9 and 12: what a graph owns, what waits while a capture is open, and what may die when."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.interface import GraphCaptureMode
from graphcap.testing.case import NBYTES, ConformanceCase, N, allocated, in_thread, reserved, vector
from graphcap.testing.fixtures import BackendFixtures

__all__ = ["Lifetimes"]


class Token:
    """Something that can be watched, called, and passed as an argument."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *args: Any) -> None:
        self.calls += 1


@contextlib.contextmanager
def held_back(fx: BackendFixtures, stream: graphcap.Stream) -> Iterator[None]:
    """Keep what the block submits to `stream` from running until the block is left (where work can be in flight)."""
    gate = threading.Event()
    in_time: list[bool] = []
    if fx.capabilities.asynchronous:
        stream.host_call(lambda: in_time.append(gate.wait(60)))
    try:
        yield
    finally:
        gate.set()
    stream.synchronize()
    assert in_time in ([], [True]), "the block waited for the device"


class Lifetimes(ConformanceCase):
    """Nothing that a replay will touch dies before the graph; nothing else is kept; destruction waits for captures."""

    # -- rule 12 -------------------------------------------------------------------------------------------------

    def test_graph_owns_host_callbacks(self, fx: BackendFixtures) -> None:
        """Rule 12: a host call's function and arguments live until ``reset``, and no longer."""
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        function, argument = Token(), Token()
        watch = [weakref.ref(function), weakref.ref(argument)]
        with stream, graph:
            stream.host_call(function, argument)
        del function, argument
        gc.collect()
        for count in (1, 2):
            graph.replay(stream)
            stream.synchronize()
            owner = watch[0]()
            assert owner is not None
            assert owner.calls == count
            del owner
        assert watch[1]() is not None
        graph.reset()
        graphcap.synchronize(fx.device)
        gc.collect()
        assert [ref() for ref in watch] == [None, None]

    @pytest.mark.parametrize("end", ["reset", "drop"])
    def test_retain(self, fx: BackendFixtures, end: str) -> None:
        """Rule 12: what is handed to ``retain`` lives until ``reset`` or until the graph dies."""
        x = fx.upload(vector(1))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        token = Token()
        watch = weakref.ref(token)
        with stream, graph:
            assert graph.retain(token) is token
            stream.fill(x, 0)
        del token
        graph.replay(stream)
        stream.synchronize()
        gc.collect()
        assert watch() is not None
        if end == "reset":
            graph.reset()
        else:
            del graph
        graphcap.synchronize(fx.device)
        gc.collect()
        assert watch() is None

    @pytest.mark.parametrize("work", ["copy", "launch"])
    def test_graph_owns_the_buffers_it_reads(self, fx: BackendFixtures, work: str) -> None:
        """Rule 12: a buffer that the captured work uses may be dropped; its memory is not handed out again."""
        out, source = fx.upload(np.zeros(N, np.float32)), fx.upload(vector(5))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            if work == "copy":
                stream.copy(out, source)
            else:
                fx.launch_axpy(stream, out, 1, source, source)
        address = source.ptr
        del source
        gc.collect()
        taken = fx.poison(NBYTES, stream)
        assert all(buffer.ptr != address for buffer in taken)
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(out), vector(5) * (1 if work == "copy" else 2))

    def test_graph_owns_the_buffers_it_writes(self, fx: BackendFixtures) -> None:
        """Rule 12: so a replay never writes into memory that belongs to somebody else by now."""
        scratch = fx.upload(vector(1))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            stream.fill(scratch, 0xEE)
        del scratch
        gc.collect()
        taken = fx.poison(NBYTES, stream)
        graph.replay(stream)
        for buffer in taken:
            np.testing.assert_array_equal(fx.download(buffer, np.uint8), np.full(NBYTES, 0xAB, np.uint8))

    def test_graph_owns_host_arrays(self, fx: BackendFixtures) -> None:
        """Rule 12: a host array that a captured copy reads lives as long as the graph."""
        out = fx.upload(np.zeros(N, np.float32))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            stream.copy(out, vector(9))
        gc.collect()
        _ = [np.full(N, -5, np.float32) for _ in range(64)]
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(out), vector(9))

    def test_graph_owns_buffers_of_its_pool(self, fx: BackendFixtures) -> None:
        """Rule 12: memory from the capture's pool is not handed out while the graph can replay."""
        x, out = fx.upload(vector(3)), fx.upload(np.zeros(N, np.float32))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            inner = fx.allocate(NBYTES)
            address = inner.ptr
            stream.copy(inner, x)
            stream.copy(out, inner)
            del inner
        gc.collect()
        graphcap.empty_cache(fx.device)
        with stream:
            taken = [fx.allocate(NBYTES) for _ in range(8)]
        assert all(buffer.ptr != address for buffer in taken)
        for _ in range(2):
            graph.replay(stream)
            np.testing.assert_array_equal(fx.download(out), vector(3))

    @pytest.mark.parametrize("end", ["reset", "drop"])
    def test_buffers_outlive_the_graph(self, fx: BackendFixtures, end: str) -> None:
        """Rules 12 and 15: a buffer made in the capture keeps its contents after the graph is gone."""
        x = fx.upload(vector(2))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            made = fx.allocate(NBYTES)
            fx.launch_axpy(stream, made, 2, x, x)
        graph.replay(stream)
        stream.synchronize()
        if end == "reset":
            graph.reset()
        else:
            del graph
        gc.collect()
        graphcap.empty_cache(fx.device)
        taken = fx.poison(NBYTES, stream)
        np.testing.assert_array_equal(fx.download(made), 3 * vector(2))
        assert all(buffer.ptr != made.ptr for buffer in taken)

    @pytest.mark.parametrize("end", ["reset", "drop"])
    def test_end_with_a_replay_in_flight(self, fx: BackendFixtures, end: str) -> None:
        """Rule 12: ``reset`` and dropping the last reference do not wait for a replay, nor harm it."""
        x, out = fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        stream = fx.make_stream()
        token = Token()
        watch = weakref.ref(token)
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            inner = fx.allocate(NBYTES)
            fx.launch_axpy(stream, inner, 2, x, x)
            stream.host_call(token)
            fx.launch_axpy(stream, out, 1, inner, x)
            del inner
        with held_back(fx, stream):
            graph.replay(stream)
            if end == "reset":
                graph.reset()
            else:
                del graph
            gc.collect()
        np.testing.assert_array_equal(fx.download(out), 4 * vector(2))
        assert token.calls == 1
        del token
        graphcap.synchronize(fx.device)
        gc.collect()
        assert watch() is None

    def test_recapture_with_a_replay_in_flight(self, fx: BackendFixtures) -> None:
        """Rule 12: the same object may capture again while its earlier self still runs."""
        x, out, second = fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32)), fx.upload(np.zeros(N, np.float32))
        stream, other = fx.make_stream(), fx.make_stream()
        graph = self.captured(fx, out, 2, x, x)
        with held_back(fx, stream):
            graph.replay(stream)
            graph.reset()
            with other, graph:
                fx.launch_axpy(other, second, 3, x, x)
        np.testing.assert_array_equal(fx.download(out), 3 * vector(2))
        graph.replay(other)
        np.testing.assert_array_equal(fx.download(second), 4 * vector(2))

    @pytest.mark.parametrize("keep_graph", [False, True])
    @pytest.mark.parametrize("end", ["reset", "drop"])
    def test_memory_is_back_at_once(self, fx: BackendFixtures, keep_graph: bool, end: str) -> None:
        """Rules 12 and 15: when the graph lets go, so do its buffers; no garbage collection is needed."""
        before = allocated(fx.device)
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device, keep_graph)
        gc.disable()
        try:
            with stream, graph:
                made = fx.allocate(NBYTES)
                stream.fill(made, 0)
                fx.launch_axpy(stream, made, 2, made, made)
                del made
            graph.replay(stream)
            stream.synchronize()
            if end == "reset":
                graph.reset()
            else:
                del graph
            graphcap.synchronize(fx.device)
            assert allocated(fx.device) == before
        finally:
            gc.enable()

    def test_graph_outlives_its_streams(self, fx: BackendFixtures) -> None:
        """Rule 12: the streams of the capture may be dropped."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        origin, fork = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with origin, graph:
            fork.wait(origin.record())
            fx.launch_axpy(fork, out, 2, x, y)
            origin.wait(fork.record())
            del fork
        del origin
        gc.collect()
        graph.replay(fx.make_stream())
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    def test_reset_on_another_thread(self, fx: BackendFixtures) -> None:
        """GraphImplInterface: ``reset`` may run on any thread."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        graph = self.captured(fx, out, 2, x, y)
        in_thread(graph.reset)
        self.assert_can_capture(fx, fx.make_stream(), graph)

    # -- rule 9 --------------------------------------------------------------------------------------------------

    def test_collector_is_paused(self, fx: BackendFixtures) -> None:
        """Rule 9: the cyclic garbage collector stands still while a Graph captures, and runs again after."""
        x = fx.upload(vector(1))
        assert gc.isenabled()
        graph = graphcap.Graph(fx.device)
        with fx.make_stream() as stream, graph:
            assert not gc.isenabled()
            stream.fill(x, 0)
        assert gc.isenabled()
        with graphcap.capture(fx.device):
            assert not gc.isenabled()
            graphcap.current_stream(fx.device).fill(x, 0)
        assert gc.isenabled()

    def test_collector_pauses_overlap(self, fx: BackendFixtures) -> None:
        """Rule 9: it runs again when the last of several captures is over, in whatever order they end."""
        x = fx.upload(vector(1))
        one, two = fx.make_stream(), fx.make_stream()
        first, second = graphcap.Graph(fx.device), graphcap.Graph(fx.device)
        with one:
            first.capture_begin()
            one.fill(x, 0)
        with two:
            second.capture_begin()
            two.fill(x, 0)
        with one:
            first.capture_end()
        assert not gc.isenabled()
        with two:
            second.capture_end()
        assert gc.isenabled()

    def test_collector_that_was_off_stays_off(self, fx: BackendFixtures) -> None:
        """Rule 9: who had switched it off finds it off."""
        x = fx.upload(vector(1))
        gc.disable()
        try:
            with fx.make_stream() as stream, graphcap.Graph(fx.device):
                stream.fill(x, 0)
            assert not gc.isenabled()
        finally:
            gc.enable()

    def test_collector_after_a_refused_begin(self, fx: BackendFixtures) -> None:
        """Rule 9: a ``capture_begin`` that was refused leaves the collector running; so does ``reset``."""
        graph = graphcap.Graph(fx.device)
        with fx.default_stream(), pytest.raises(graphcap.CaptureStateError):
            graph.capture_begin()
        assert gc.isenabled()
        with fx.make_stream():
            graph.capture_begin()
            graph.reset()
        assert gc.isenabled()

    _DROPS: tuple[tuple[str, Callable[[dict[str, Any]], object]], ...] = (
        ("graph", lambda things: things.pop("graph")),
        ("reset", lambda things: things["graph"].reset()),
        ("event", lambda things: things.pop("event")),
        ("stream", lambda things: things.pop("stream")),
        ("buffer", lambda things: things.pop("buffer")),
        ("cycle", lambda things: things.pop("cycle").clear() or gc.collect()),
    )

    @pytest.mark.parametrize("drop", [drop for _, drop in _DROPS], ids=[name for name, _ in _DROPS])
    @pytest.mark.parametrize("mode", [GraphCaptureMode.GLOBAL, GraphCaptureMode.THREAD_LOCAL, GraphCaptureMode.DEFAULT])
    def test_things_dropped_while_a_capture_is_open(
        self, fx: BackendFixtures, mode: GraphCaptureMode, drop: Callable[[dict[str, Any]], object]
    ) -> None:
        """Rule 9: graphs, events, streams and buffers may be dropped during a capture; it does not notice (E-18)."""
        if mode not in (*fx.capabilities.capture_modes, GraphCaptureMode.DEFAULT):
            pytest.skip(f"backend {fx.backend.name} lacks the capture mode {mode.name.lower()!r}")
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        other = fx.make_stream()
        things: dict[str, Any] = {
            "graph": self.captured(fx, out, 3, x, y),
            "event": other.record(),
            "stream": fx.make_stream(),
            "buffer": fx.upload(vector(4)),
        }
        things["graph"].replay(other)
        graphcap.synchronize(fx.device)
        cycle: list[Any] = [self.captured(fx, out, 4, x, y), fx.upload(vector(4))]
        cycle.append(cycle)
        things["cycle"] = [cycle]
        del cycle
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device, capture_mode=mode)
        with stream, graph:
            fx.launch_axpy(stream, out, 2, x, y)
            drop(things)
            assert stream.is_capturing
            fx.launch_axpy(stream, out, 1, out, y)
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + 2 * vector(2))

    def test_no_memory_goes_back_during_a_capture(self, fx: BackendFixtures) -> None:
        """Rules 9 and 15: whatever is dropped and emptied, the reserved bytes do not sink while a capture is open."""
        x = fx.upload(vector(1))
        done = graphcap.Graph(fx.device)
        with fx.make_stream() as stream, done:
            stream.fill(fx.allocate(NBYTES), 0)
        pool = done.pool()
        big = fx.make_stream().allocate(32 << 20)
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            before = reserved(fx.device)
            done.reset()
            del big
            assert graphcap.empty_cache(fx.device) == 0
            assert reserved(fx.device) == before
            assert reserved(fx.device, pool) > 0
            stream.fill(x, 0)
        graph.replay(stream)
        assert not fx.download(x).any()
        assert graphcap.empty_cache(fx.device) >= 32 << 20
        assert reserved(fx.device, pool) == 0
