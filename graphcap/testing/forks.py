"""Rule 6: forks and joins by events, and each way to get them wrong with its own error."""

from __future__ import annotations

import numpy as np
import pytest

import graphcap
from graphcap.interface import CaptureStatus
from graphcap.testing.case import ConformanceCase, N, capturing, in_thread, vector
from graphcap.testing.fixtures import BackendFixtures

__all__ = ["Forks"]


class Forks(ConformanceCase):
    """A stream that waits for an event of a capture joins it; before the end every fork must be joined back."""

    def test_diamond(self, fx: BackendFixtures) -> None:
        """Rule 6, S-D24: fork and join; values as if one after the other, edges only where work depends."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        left, right, out = (fx.upload(np.zeros(N, np.float32)) for _ in range(3))
        origin, fork = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device, keep_graph=True)
        with origin, graph:
            fx.launch_axpy(origin, x, 2, x, y)
            fork.wait(origin.record())
            assert capturing(fork)
            assert fork.capture_id == origin.capture_id
            fx.launch_axpy(fork, right, 3, x, y)
            fx.launch_axpy(origin, left, 1, x, y)
            origin.wait(fork.record())
            fx.launch_axpy(origin, out, 2, left, right)
        assert not capturing(fork)
        topology = graph.topology()
        assert (len(topology.nodes), len(topology.edges), topology.depth) == (4, 4, 3)
        assert (len(topology.roots), len(topology.leaves)) == (1, 1)
        assert len(list(topology.unordered_pairs())) == 1
        graph.replay(origin)
        stepped = 2 * vector(1) + vector(2)
        expected = 2 * (stepped + vector(2)) + (3 * stepped + vector(2))
        np.testing.assert_array_equal(fx.download(out), expected)

    def test_wait_takes_a_stream(self, fx: BackendFixtures) -> None:
        """Stream.wait: a stream stands for an event recorded on it now; so fork and join need no names."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        origin, fork = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with origin, graph:
            fork.wait(origin)
            fx.launch_axpy(fork, out, 2, x, y)
            origin.wait(fork)
        graph.replay(origin)
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    def test_many_forks(self, fx: BackendFixtures) -> None:
        """S-D24, S-D25: several streams wait for one event; each is joined; a nested fork comes back by its parent."""
        y = fx.upload(vector(2))
        parts = [fx.upload(vector(i)) for i in range(5)]
        origin, *forks = (fx.make_stream() for _ in range(5))
        nested = fx.make_stream()
        graph = graphcap.Graph(fx.device, keep_graph=True)
        with origin, graph:
            start = origin.record()
            for fork, part in zip(forks, parts, strict=False):
                fork.wait(start)
                fx.launch_axpy(fork, part, 2, part, y)
            nested.wait(forks[0].record())
            fx.launch_axpy(nested, parts[4], 3, parts[4], y)
            forks[0].wait(nested.record())
            for fork in forks:
                origin.wait(fork.record())
            fx.launch_axpy(origin, parts[0], 1, parts[0], parts[4])
        graph.replay(origin)
        deep = 3 * vector(4) + vector(2)
        np.testing.assert_array_equal(fx.download(parts[0]), 2 * vector(0) + vector(2) + deep)
        for i in (1, 2, 3):
            np.testing.assert_array_equal(fx.download(parts[i]), 2 * vector(i) + vector(2))
        topology = graph.topology()
        assert len(topology.nodes) == 6
        assert len(topology.roots) == 4
        assert len(topology.leaves) == 1

    def test_order_across_streams_holds_in_every_replay(self, fx: BackendFixtures) -> None:
        """S-D24: work ping-pongs between two streams twenty times; the dependency chain is kept."""
        x, y = fx.upload(vector(1)), fx.upload(vector(1))
        origin, fork = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device, keep_graph=True)
        with origin, graph:
            here, there = origin, fork
            for step in range(20):
                there.wait(here.record())
                fx.launch_axpy(there, x, 1 + step % 2, x, y)
                here, there = there, here
            if here is not origin:
                origin.wait(here.record())
        expected = vector(1)
        for _ in range(2):
            graph.replay(origin)
            for step in range(20):
                expected = (1 + step % 2) * expected + vector(1)
        np.testing.assert_array_equal(fx.download(x), expected)
        assert graph.topology().depth == 20

    def test_work_before_the_fork_is_eager(self, fx: BackendFixtures) -> None:
        """E-9: only what the forked stream gets after it joined is captured."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        before, after = fx.upload(np.zeros(N, np.float32)), fx.upload(np.zeros(N, np.float32))
        origin, fork = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with origin, graph:
            fx.launch_axpy(fork, before, 2, x, y)
            fork.wait(origin.record())
            fx.launch_axpy(fork, after, 3, x, y)
            origin.wait(fork.record())
        np.testing.assert_array_equal(fx.download(before), 2 * vector(1) + vector(2))
        assert not fx.download(after).any()
        graph.replay(origin)
        np.testing.assert_array_equal(fx.download(after), 3 * vector(1) + vector(2))

    def test_fork_without_work_needs_no_join(self, fx: BackendFixtures) -> None:
        """E-8: a fork that did nothing is not unjoined, and is free after the end."""
        x = fx.upload(vector(1))
        origin, fork = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with origin, graph:
            stream_event = origin.record()
            fork.wait(stream_event)
            origin.fill(x, 0)
        assert fork.capture_status is CaptureStatus.NONE
        graph.replay(origin)
        assert not fx.download(x).any()

    def test_events_leave_no_node(self, fx: BackendFixtures) -> None:
        """E-10: record and wait make edges, no nodes."""
        x = fx.upload(vector(1))
        origin, fork = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device, keep_graph=True)
        with origin, graph:
            origin.fill(x, 0)
            fork.wait(origin.record())
            fork.fill(x, 1)
            origin.wait(fork.record())
            origin.record()
        assert len(graph.topology().nodes) == 2

    def test_stream_and_event_can_be_used_again(self, fx: BackendFixtures) -> None:
        """E-16: after the end of one capture the forked stream and the event serve the next."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        origin, fork = fx.make_stream(), fx.make_stream()
        event = origin.record()
        for factor in (2, 3):
            graph = graphcap.Graph(fx.device)
            with origin, graph:
                fork.wait(origin.record(event))
                fx.launch_axpy(fork, out, factor, x, y)
                origin.wait(fork.record(event))
            graph.replay(origin)
            np.testing.assert_array_equal(fx.download(out), factor * vector(1) + vector(2))
        fx.launch_axpy(fork, out, 1, x, y)
        np.testing.assert_array_equal(fx.download(out), vector(1) + vector(2))

    def test_rerecorded_event_means_the_last_record(self, fx: BackendFixtures) -> None:
        """S-D25: a wait refers to the last record before it."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        origin, fork = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device, keep_graph=True)
        with origin, graph:
            event = origin.record()
            fx.launch_axpy(origin, x, 2, x, y)
            origin.record(event)
            fork.wait(event)
            fx.launch_axpy(fork, x, 3, x, y)
            origin.wait(fork.record(event))
        graph.replay(origin)
        np.testing.assert_array_equal(fx.download(x), 3 * (2 * vector(1) + vector(2)) + vector(2))
        assert len(graph.topology().roots) == 1

    def test_fork_by_another_thread(self, fx: BackendFixtures) -> None:
        """E-13: another thread may fork, work, and hand its event back."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        origin, fork = fx.make_stream(), fx.make_stream()

        def work() -> graphcap.Event:
            fork.wait(origin.record())
            fx.launch_axpy(fork, out, 2, x, y)
            return fork.record()

        graph = graphcap.Graph(fx.device)
        with origin, graph:
            origin.wait(in_thread(work))
        graph.replay(origin)
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    # -- the ways to get it wrong --------------------------------------------------------------------------------

    def test_unjoined_fork(self, fx: BackendFixtures) -> None:
        """Rule 6 (904): the error names the stream; afterwards everything is free at once (E-4)."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        origin, fork = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with pytest.raises(graphcap.UnjoinedStreamError) as caught, origin, graph:
            fork.wait(origin.record())
            fx.launch_axpy(fork, out, 2, x, y)
        assert f"{fork.handle:#x}" in str(caught.value)
        assert caught.value.cure
        assert fork.capture_status is CaptureStatus.NONE
        assert not fx.download(out).any()
        with pytest.raises(graphcap.GraphStateError):
            graph.replay(origin)
        self.assert_can_capture(fx, origin, graph)
        self.assert_can_capture(fx, fork, graph)

    def test_work_after_the_join(self, fx: BackendFixtures) -> None:
        """Rule 6 (904): a fork that works on after it was joined is unjoined again (E-8)."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        origin, fork = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with pytest.raises(graphcap.UnjoinedStreamError), origin, graph:
            fork.wait(origin.record())
            fx.launch_axpy(fork, out, 2, x, y)
            origin.wait(fork.record())
            fx.launch_axpy(fork, out, 3, x, y)
        self.assert_can_capture(fx, origin, graph)

    def test_wait_across_two_captures(self, fx: BackendFixtures) -> None:
        """Rule 6 (902): two captures cannot be joined; the attempt breaks both (S-D21)."""
        one, two = fx.make_stream(), fx.make_stream()
        x, z = fx.upload(vector(1)), fx.upload(vector(2))
        first, second = graphcap.Graph(fx.device), graphcap.Graph(fx.device)
        with one:
            first.capture_begin()
        with two:
            second.capture_begin()
        one.fill(x, 0)
        two.fill(z, 0)
        event = one.record()
        with pytest.raises(graphcap.CaptureIsolationError):
            two.wait(event)
        assert one.capture_status is CaptureStatus.INVALIDATED
        assert two.capture_status is CaptureStatus.INVALIDATED
        with one, pytest.raises(graphcap.CaptureInvalidatedError):
            first.capture_end()
        with two, pytest.raises(graphcap.CaptureInvalidatedError):
            second.capture_end()
        np.testing.assert_array_equal(fx.download(x), vector(1))
        self.assert_can_capture(fx, one, first)
        self.assert_can_capture(fx, two, second)

    def test_wait_for_work_outside_the_capture(self, fx: BackendFixtures) -> None:
        """Rule 6 (905): a capturing stream cannot depend on work that was submitted outside the capture.

        What the refusal leaves of the capture is not known on hardware (evidence, question 2), so it is thrown away.
        """
        x = fx.upload(vector(1))
        origin, other = fx.make_stream(), fx.make_stream()
        other.fill(x, 0)
        event = other.record()
        other.synchronize()
        graph = graphcap.Graph(fx.device)
        with origin:
            graph.capture_begin()
            with pytest.raises(graphcap.CaptureIsolationError):
                origin.wait(event)
            graph.reset()
        assert not other.is_capturing
        self.assert_can_capture(fx, origin, graph)

    def test_wait_for_earlier_work_of_the_same_stream(self, fx: BackendFixtures) -> None:
        """Rule 6 (905): also an event that the origin stream itself recorded before the capture began."""
        origin = fx.make_stream()
        event = origin.record()
        graph = graphcap.Graph(fx.device)
        with origin:
            graph.capture_begin()
            with pytest.raises(graphcap.CaptureIsolationError):
                origin.wait(event)
            graph.reset()
        self.assert_can_capture(fx, origin, graph)

    def test_join_of_a_broken_capture(self, fx: BackendFixtures) -> None:
        """E-7: an idle stream that waits for an event of a broken capture is refused and stays outside."""
        x = fx.upload(vector(1))
        origin, idle = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with origin:
            graph.capture_begin()
            event = origin.record()
            with pytest.raises(graphcap.CaptureForbiddenError):
                origin.synchronize()
            with pytest.raises(graphcap.CaptureInvalidatedError):
                idle.wait(event)
            assert idle.capture_status is CaptureStatus.NONE
            with pytest.raises(graphcap.CaptureInvalidatedError):
                graph.capture_end()
        idle.fill(x, 0)
        assert not fx.download(x).any()
