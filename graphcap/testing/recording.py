"""Rule 1 (recorded, never run) and what each kind of work does when it is replayed, against NumPy."""

from __future__ import annotations

import concurrent.futures
import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.testing.case import NBYTES, ConformanceCase, N, capturing, in_thread, vector
from graphcap.testing.fixtures import BackendFixtures

__all__ = ["Recording"]


class Recording(ConformanceCase):
    """Work given to a capturing stream is recorded; a replay does it, any number of times, on any stream."""

    def test_kernel_is_recorded_and_not_run(self, fx: BackendFixtures) -> None:
        """Rule 1: a kernel changes nothing until the replay, and each replay sees the then current inputs."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(5)), fx.upload(np.full(N, -1, np.float32))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            fx.launch_axpy(stream, out, 2, x, y)
        np.testing.assert_array_equal(fx.download(out), np.full(N, -1))
        with stream:
            graph.replay()
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(5))
        stream.copy(x, vector(100))
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(out), 2 * vector(100) + vector(5))

    def test_replays_follow_one_another(self, fx: BackendFixtures) -> None:
        """Rule 1: ten replays of an in-place step do ten steps, in order (x = 2x + y does not commute)."""
        x, y = fx.upload(vector(1)), fx.upload(vector(0))
        graph = self.captured(fx, x, 2, x, y)
        with fx.make_stream():
            for _ in range(10):
                graph.replay()
        expected = vector(1)
        for _ in range(10):
            expected = 2 * expected + vector(0)
        np.testing.assert_array_equal(fx.download(x), expected)

    def test_chain_keeps_its_order(self, fx: BackendFixtures) -> None:
        """Rule 1: work of one stream is replayed in the order of submission."""
        x, y = fx.upload(vector(1)), fx.upload(vector(3))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            for factor in (2, 3, 1, 2):
                fx.launch_axpy(stream, x, factor, x, y)
        graph.replay(stream)
        expected = vector(1)
        for factor in (2, 3, 1, 2):
            expected = factor * expected + vector(3)
        np.testing.assert_array_equal(fx.download(x), expected)

    def test_device_to_device_copy(self, fx: BackendFixtures) -> None:
        """Rule 1: ``copy`` between buffers is a node; it copies what the source holds at each replay."""
        src, dst = fx.upload(vector(1)), fx.upload(np.zeros(N, np.float32))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            stream.copy(dst, src)
        assert not fx.download(dst).any()
        for start in (7, 9):
            stream.copy(src, vector(start))
            graph.replay(stream)
            np.testing.assert_array_equal(fx.download(dst), vector(start))

    def test_copy_from_and_to_host(self, fx: BackendFixtures) -> None:
        """Rules 1 and 12: host arrays are read and written at each replay, and live as long as the graph."""
        buffer = fx.upload(np.zeros(N, np.float32))
        source, target = vector(4), np.zeros(N, np.float32)
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            stream.copy(buffer, source)
            stream.copy(target, buffer)
        assert not target.any()
        graph.replay(stream)
        stream.synchronize()
        np.testing.assert_array_equal(target, vector(4))
        source[:] = vector(40)
        graph.replay(stream)
        stream.synchronize()
        np.testing.assert_array_equal(target, vector(40))

    def test_fill_bytes(self, fx: BackendFixtures) -> None:
        """Rule 1: ``fill`` of an untyped buffer sets bytes, at each replay."""
        buffer = fx.upload(vector(1))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            stream.fill(buffer, 0x3C)
        np.testing.assert_array_equal(fx.download(buffer), vector(1))
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(buffer, np.uint8), np.full(NBYTES, 0x3C, np.uint8))

    @pytest.mark.parametrize("value", [-1, 256, 1000])
    def test_fill_value_that_does_not_fit(self, fx: BackendFixtures, value: int) -> None:
        """Stream.fill: a byte buffer takes 0 to 255; another value is a ValueError, also in a capture, and harmless."""
        buffer = fx.upload(vector(1))
        stream = fx.make_stream()
        with pytest.raises(ValueError):
            stream.fill(buffer, value)
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            with pytest.raises(ValueError):
                stream.fill(buffer, value)
            stream.fill(buffer, 0)
        graph.replay(stream)
        assert not fx.download(buffer).any()

    def test_copy_of_unequal_sizes(self, fx: BackendFixtures) -> None:
        """Stream.copy: unequal sizes are a ValueError; an argument error does not break the capture (E-23)."""
        small, big = fx.upload(vector(1)), fx.upload(np.zeros(2 * N, np.float32))
        stream = fx.make_stream()
        with pytest.raises(ValueError):
            stream.copy(big, small)
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            with pytest.raises(ValueError):
                stream.copy(big, small)
            assert stream.is_capturing
            stream.fill(big, 0)
        graph.replay(stream)
        assert not fx.download(big).any()

    def test_host_call_runs_on_every_replay(self, fx: BackendFixtures) -> None:
        """Rules 1 and 12: a host call is a node; its arguments are those of the capture."""
        calls: list[tuple[Any, ...]] = []
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            stream.host_call(lambda *args: calls.append(args), 1, "two")
        stream.synchronize()
        assert calls == []
        for count in (1, 2, 3):
            graph.replay(stream)
            stream.synchronize()
            assert calls == [(1, "two")] * count

    def test_host_call_in_order(self, fx: BackendFixtures) -> None:
        """Rule 1: a host call runs after the work before it and before the work behind it."""
        buffer = fx.upload(np.zeros(N, np.float32))
        seen = np.zeros(N, np.float32)
        notes: list[float] = []
        stream = fx.make_stream()
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            fx.launch_axpy(stream, buffer, 2, x, y)
            stream.copy(seen, buffer)
            stream.host_call(lambda: notes.append(float(seen.sum())))
            stream.fill(buffer, 0)
            stream.copy(seen, buffer)
        graph.replay(stream)
        stream.synchronize()
        assert notes == [float((2 * vector(1) + vector(2)).sum())]
        assert not seen.any()

    def test_eager_host_call(self, fx: BackendFixtures) -> None:
        """Stream.host_call: outside a capture it runs once, in stream order."""
        calls: list[int] = []
        stream = fx.make_stream()
        stream.host_call(calls.append, 1)
        stream.host_call(calls.append, 2)
        stream.synchronize()
        assert calls == [1, 2]

    def test_error_in_eager_host_call(self, fx: BackendFixtures) -> None:
        """Stream.host_call: what it raises is raised by the next synchronise, once."""
        stream = fx.make_stream()
        boom = ZeroDivisionError("in the host call")

        def fail() -> None:
            raise boom

        stream.host_call(fail)
        with pytest.raises(ZeroDivisionError) as caught:
            stream.synchronize()
        assert caught.value is boom
        stream.synchronize()

    @pytest.mark.parametrize("ask", ["synchronize", "replay"])
    def test_error_in_captured_host_call(self, fx: BackendFixtures, ask: str) -> None:
        """Rule 12 and Graph.replay: what a host call raised in a replay comes out at the next synchronise or replay."""
        stream = fx.make_stream()
        failing = [True, False]

        def fail_once() -> None:
            if failing.pop(0):
                raise KeyError("in the replay")

        graph = graphcap.Graph(fx.device)
        with stream, graph:
            stream.host_call(fail_once)
        graph.replay(stream)
        self._done(fx, stream)
        with pytest.raises(KeyError):
            stream.synchronize() if ask == "synchronize" else graph.replay(stream)
        while failing:
            graph.replay(stream)
            stream.synchronize()

    @staticmethod
    def _done(fx: BackendFixtures, stream: graphcap.Stream) -> None:
        """Wait for a stream without asking for the exceptions of its host calls."""
        if fx.capabilities.asynchronous:
            reached = threading.Event()
            stream.host_call(reached.set)
            assert reached.wait(60), "the stream did not get to a host call within a minute"

    def test_replay_on_another_stream(self, fx: BackendFixtures) -> None:
        """S-A29: a replay goes to the then current stream, not to the one of the capture."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        graph = self.captured(fx, out, 2, x, y)
        other = fx.make_stream()
        with other:
            graph.replay()
        other.synchronize()
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    def test_replay_on_the_default_stream(self, fx: BackendFixtures) -> None:
        """S-B28: replay on the default stream is fine."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        graph = self.captured(fx, out, 2, x, y)
        graph.replay()
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    def test_replay_and_eager_work_in_order(self, fx: BackendFixtures) -> None:
        """Rule 1: eager, replayed, eager on one stream gives what eager alone gives."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        graph = self.captured(fx, x, 2, x, y)
        stream = fx.make_stream()
        fx.launch_axpy(stream, x, 3, x, y)
        graph.replay(stream)
        fx.launch_axpy(stream, x, 1, x, y)
        graph.replay(stream)
        expected = vector(1)
        for factor in (3, 2, 1, 2):
            expected = factor * expected + vector(2)
        np.testing.assert_array_equal(fx.download(x), expected)

    def test_replay_from_another_thread(self, fx: BackendFixtures) -> None:
        """GraphImplInterface: a graph may be replayed by a thread that did not capture it."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        graph = self.captured(fx, out, 2, x, y)
        stream = fx.make_stream()
        in_thread(lambda: graph.replay(stream))
        stream.synchronize()
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    def test_one_executable_never_overlaps_itself(self, fx: BackendFixtures) -> None:
        """S-D38: four threads replay one graph with an in-place step on streams of their own; every step counts."""
        x, y = fx.upload(np.zeros(N, np.float32)), fx.upload(vector(1))
        graph = self.captured(fx, x, 1, x, y)
        streams = [fx.make_stream() for _ in range(4)]

        def work(stream: graphcap.Stream) -> None:
            for _ in range(10):
                graph.replay(stream)
            stream.synchronize()

        self._in_threads([functools.partial(work, stream) for stream in streams])
        np.testing.assert_array_equal(fx.download(x), 40 * vector(1))

    def test_threads_capture_at_the_same_time(self, fx: BackendFixtures) -> None:
        """S-D9, E-14: four threads capture and replay graphs of their own, with memory of their own, side by side."""
        inputs = [fx.upload(vector(index)) for index in range(4)]
        outputs = [fx.upload(np.zeros(N, np.float32)) for _ in range(4)]
        streams = [fx.make_stream() for _ in range(4)]
        together = threading.Barrier(4)
        graphs: list[graphcap.Graph] = []

        def work(index: int) -> None:
            stream, graph = streams[index], graphcap.Graph(fx.device)
            with stream, graph:
                together.wait(60)  # all four captures are open
                inner = fx.allocate(NBYTES)
                fx.launch_axpy(stream, inner, 2, inputs[index], inputs[index])
                fx.launch_axpy(stream, outputs[index], 1, inner, outputs[index])
                assert inner.pool_id != (0, 0)
                del inner
                together.wait(60)
            graphs.append(graph)
            for _ in range(3):
                graph.replay(stream)

        self._in_threads([functools.partial(work, index) for index in range(4)])
        assert len({graph.pool() for graph in graphs}) == 4
        for index, output in enumerate(outputs):
            np.testing.assert_array_equal(fx.download(output), 9 * vector(index))

    @staticmethod
    def _in_threads(work: list[Callable[[], object]]) -> None:
        """Run all at the same time to their ends; raise the first failure."""
        with concurrent.futures.ThreadPoolExecutor(len(work)) as pool:
            for done in [pool.submit(each) for each in work]:
                done.result()

    def test_work_from_another_thread_is_captured(self, fx: BackendFixtures) -> None:
        """E-13: other threads may submit to a capturing stream, in every mode; only ending is bound to a thread."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            in_thread(lambda: fx.launch_axpy(stream, out, 2, x, y))
        assert not fx.download(out).any()
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    def test_work_on_another_stream_is_not_captured(self, fx: BackendFixtures) -> None:
        """E-22: a stream that does not take part runs its work at once; the graph knows nothing of it."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        inside, outside = fx.upload(np.zeros(N, np.float32)), fx.upload(np.zeros(N, np.float32))
        stream, other = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device, keep_graph=True)
        with stream, graph:
            fx.launch_axpy(stream, inside, 2, x, y)
            fx.launch_axpy(other, outside, 3, x, y)
            assert not other.is_capturing
        np.testing.assert_array_equal(fx.download(outside), 3 * vector(1) + vector(2))
        assert not fx.download(inside).any()
        assert len(graph.topology().nodes) == 1

    def test_stream_says_that_it_captures(self, fx: BackendFixtures) -> None:
        """Rule 4: ``is_capturing``, ``capture_status`` and ``capture_id`` are legal at any time and tell the truth."""
        stream, other = fx.make_stream(), fx.make_stream()
        x = fx.upload(vector(1))
        assert not capturing(stream)
        assert stream.capture_id == 0
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            assert capturing(stream)
            assert stream.capture_id != 0
            assert not other.is_capturing
            assert other.capture_id == 0
            stream.fill(x, 0)
        assert not capturing(stream)
        assert stream.capture_id == 0

    def test_two_graphs_do_not_mix(self, fx: BackendFixtures) -> None:
        """Rule 1, E-14: two captures at once on one thread record their own work, and end in any order."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        first_out, second_out = fx.upload(np.zeros(N, np.float32)), fx.upload(np.zeros(N, np.float32))
        first, second = graphcap.Graph(fx.device, keep_graph=True), graphcap.Graph(fx.device, keep_graph=True)
        one, two = fx.make_stream(), fx.make_stream()
        with one:
            first.capture_begin()
        with two:
            second.capture_begin()
        assert one.capture_id != two.capture_id
        fx.launch_axpy(one, first_out, 2, x, y)
        fx.launch_axpy(two, second_out, 3, x, y)
        fx.launch_axpy(one, first_out, 1, first_out, y)
        with one:
            first.capture_end()
        with two:
            second.capture_end()
        assert (len(first.topology().nodes), len(second.topology().nodes)) == (2, 1)
        first.replay(one)
        second.replay(two)
        np.testing.assert_array_equal(fx.download(first_out), 2 * vector(1) + 2 * vector(2))
        np.testing.assert_array_equal(fx.download(second_out), 3 * vector(1) + vector(2))

    def test_buffers_made_in_the_capture(self, fx: BackendFixtures) -> None:
        """Rules 1 and 12: temporaries of the capture may be dropped in it; replays still compute right."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            for factor in (2, 3):
                inner = fx.allocate(NBYTES)
                fx.launch_axpy(stream, inner, factor, x, y)
                fx.launch_axpy(stream, out, 1, inner, out)
                del inner
        expected = np.zeros(N, np.float32)
        for _ in range(3):
            graph.replay(stream)
            for factor in (2, 3):
                expected = (factor * vector(1) + vector(2)) + expected
        np.testing.assert_array_equal(fx.download(out), expected)
