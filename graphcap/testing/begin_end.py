"""Rules 2, 3, 7 and 8: where, how and on what a capture begins and ends."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.interface import CaptureStatus, GraphCaptureMode
from graphcap.testing.case import NBYTES, ConformanceCase, N, in_thread, needs, needs_mode, reserved, vector
from graphcap.testing.fixtures import BackendFixtures

__all__ = ["BeginAndEnd"]

GLOBAL, THREAD_LOCAL, RELAXED = GraphCaptureMode.GLOBAL, GraphCaptureMode.THREAD_LOCAL, GraphCaptureMode.RELAXED


class BeginAndEnd(ConformanceCase):
    """A capture begins on the current stream and ends there, on the same thread; wrong tries leave it as it was."""

    def test_default_stream_is_refused(self, fx: BackendFixtures) -> None:
        """Rule 2: the default stream cannot be captured, and the message says what to do."""
        graph = graphcap.Graph(fx.device)
        with fx.default_stream(), pytest.raises(graphcap.CaptureStateError) as caught:
            graph.capture_begin()
        assert "Stream" in caught.value.cure
        self.assert_can_capture(fx, fx.make_stream(), graph)

    def test_no_current_stream_is_the_default_stream(self, fx: BackendFixtures) -> None:
        """Rule 2: with no stream made current the default stream is meant; refused the same way."""
        graph = graphcap.Graph(fx.device)
        with pytest.raises(graphcap.CaptureStateError), graph:
            pytest.fail("the body ran although the capture could not begin")
        assert gc.isenabled()

    def test_stream_that_captures_already(self, fx: BackendFixtures) -> None:
        """Rule 2 (401): a second capture on a capturing stream is refused; the first goes on unharmed."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        stream = fx.make_stream()
        graph, second = graphcap.Graph(fx.device), graphcap.Graph(fx.device)
        with stream, graph:
            with pytest.raises(graphcap.CaptureStateError):
                second.capture_begin()
            fx.launch_axpy(stream, out, 2, x, y)
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))
        self.assert_can_capture(fx, stream, second)

    def test_stream_that_joined_a_capture(self, fx: BackendFixtures) -> None:
        """Rule 2 (401): nor can a capture begin on a stream that was forked into another."""
        x = fx.upload(vector(1))
        origin, fork = fx.make_stream(), fx.make_stream()
        graph, second = graphcap.Graph(fx.device), graphcap.Graph(fx.device)
        with origin, graph:
            origin.fill(x, 0)
            fork.wait(origin.record())
            with fork, pytest.raises(graphcap.CaptureStateError):
                second.capture_begin()
        graph.replay(origin)
        assert not fx.download(x).any()

    def test_stream_of_a_broken_capture(self, fx: BackendFixtures) -> None:
        """E-6 (401): nor on a stream whose capture is broken and not ended."""
        stream = fx.make_stream()
        graph, second = graphcap.Graph(fx.device), graphcap.Graph(fx.device)
        with stream:
            graph.capture_begin()
            with pytest.raises(graphcap.CaptureForbiddenError):
                stream.synchronize()
            with pytest.raises(graphcap.CaptureStateError):
                second.capture_begin()
            graph.reset()
        self.assert_can_capture(fx, stream, second)

    def test_end_on_the_wrong_stream(self, fx: BackendFixtures) -> None:
        """Rules 2 and 6: ending while another stream is current is refused, and nothing is undone."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        stream, other = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream:
            graph.capture_begin()
            fx.launch_axpy(stream, out, 2, x, y)
            with other, pytest.raises(graphcap.CaptureStateError):
                graph.capture_end()
            assert stream.is_capturing
            graph.capture_end()
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    def test_end_on_a_forked_stream(self, fx: BackendFixtures) -> None:
        """Rules 2 and 6: a forked stream is a wrong stream too (E-1 is kept from the driver)."""
        x = fx.upload(vector(1))
        origin, fork = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with origin:
            graph.capture_begin()
            fork.wait(origin.record())
            fork.fill(x, 0)
            origin.wait(fork.record())
            with fork, pytest.raises(graphcap.CaptureStateError):
                graph.capture_end()
            graph.capture_end()
        graph.replay(origin)
        assert not fx.download(x).any()

    def test_with_block_left_on_the_wrong_stream(self, fx: BackendFixtures) -> None:
        """Rules 2 and 5: if the block cannot end its capture rightly, it is thrown away, and the error tells."""
        x = fx.upload(vector(1))
        stream, other = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream:
            graph.__enter__()
            stream.fill(x, 0)
            other.__enter__()
            try:
                with pytest.raises(graphcap.CaptureStateError):
                    graph.__exit__(None, None, None)
            finally:
                other.__exit__(None, None, None)
            assert stream.capture_status is CaptureStatus.NONE
            with pytest.raises(graphcap.GraphStateError):
                graph.replay()
        self.assert_can_capture(fx, stream, graph)

    def test_end_on_the_wrong_thread(self, fx: BackendFixtures) -> None:
        """Rules 2 and 6 (908): unless the mode is relaxed, only the thread that began may end; the capture goes on."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)

        def end() -> None:
            with stream:
                graph.capture_end()

        with stream:
            graph.capture_begin()
            fx.launch_axpy(stream, out, 2, x, y)
            with pytest.raises(graphcap.CaptureStateError, match="thread"):
                in_thread(end)
            assert stream.is_capturing
            graph.capture_end()
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    @needs_mode(RELAXED)
    def test_relaxed_capture_may_end_on_another_thread(self, fx: BackendFixtures) -> None:
        """Rule 2: in relaxed mode any thread may end the capture."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device, capture_mode=RELAXED)

        def end() -> None:
            with stream:
                graph.capture_end()

        with stream:
            graph.capture_begin()
            fx.launch_axpy(stream, out, 2, x, y)
        in_thread(end)
        assert gc.isenabled()
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    @needs("legacy_stream")
    def test_status_of_the_default_stream(self, fx: BackendFixtures) -> None:
        """S-D22 (906): while a blocking stream captures, asking the default stream is refused; the capture lives on."""
        x = fx.upload(vector(1))
        stream = fx.make_stream(blocking=True)
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            with pytest.raises(graphcap.CaptureForbiddenError):
                _ = fx.default_stream().capture_status
            assert stream.is_capturing
            stream.fill(x, 0)
        graph.replay(stream)
        assert not fx.download(x).any()

    @needs("legacy_stream")
    def test_host_call_on_the_default_stream(self, fx: BackendFixtures) -> None:
        """S-D22 (906): nor may work go there. What is left of the capture is not known on hardware (E-23)."""
        stream = fx.make_stream(blocking=True)
        graph = graphcap.Graph(fx.device)
        calls: list[int] = []
        with stream:
            graph.capture_begin()
            with pytest.raises(graphcap.CaptureForbiddenError):
                fx.default_stream().host_call(calls.append, 1)
            graph.reset()
        assert calls == []
        self.assert_can_capture(fx, stream, graph)

    @needs("legacy_stream")
    def test_default_stream_beside_a_non_blocking_capture(self, fx: BackendFixtures) -> None:
        """S-D23: streams are non-blocking unless asked otherwise, so the default stream works on, uncaptured."""
        x, z = fx.upload(vector(1)), fx.upload(vector(2))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device, keep_graph=True)
        with stream, graph:
            assert fx.default_stream().capture_status is CaptureStatus.NONE
            stream.fill(x, 0)
            fx.default_stream().fill(z, 0)
        assert not fx.download(z).any()
        np.testing.assert_array_equal(fx.download(x), vector(1))
        assert len(graph.topology().nodes) == 1

    # -- rule 3 --------------------------------------------------------------------------------------------------

    @needs_mode(THREAD_LOCAL)
    def test_default_mode_is_thread_local(self, fx: BackendFixtures) -> None:
        """Rule 3: unsafe calls are refused to the capturing thread alone."""
        x = fx.upload(vector(1))
        stream, idle = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream:
            graph.capture_begin()
            in_thread(idle.synchronize)
            assert stream.is_capturing
            stream.fill(x, 0)
            with pytest.raises(graphcap.CaptureForbiddenError):
                idle.synchronize()
            with pytest.raises(graphcap.CaptureInvalidatedError):
                graph.capture_end()
        np.testing.assert_array_equal(fx.download(x), vector(1))

    @pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
    def test_unknown_mode_falls_back_with_one_warning(self, fx: BackendFixtures, mode: GraphCaptureMode) -> None:
        """Rule 3: a backend without the mode warns once per object and uses its own; one with it does not warn."""
        x = fx.upload(vector(1))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device, capture_mode=mode)
        for turn in range(2):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                with stream, graph:
                    stream.fill(x, 0)
            graph.replay(stream)
            graph.reset()
            told = [warning for warning in caught if issubclass(warning.category, graphcap.GraphcapWarning)]
            expected = 0 if mode in fx.capabilities.capture_modes or turn else 1
            assert len(told) == expected

    # -- rule 7 --------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("keep_graph", [False, True])
    def test_empty_capture_warns(self, fx: BackendFixtures, keep_graph: bool) -> None:
        """Rule 7: no node was captured: a warning; the graph can be replayed and does nothing."""
        x = fx.upload(vector(1))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device, keep_graph)
        with pytest.warns(graphcap.EmptyGraphWarning), stream, graph:
            pass
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(x), vector(1))
        if keep_graph:
            assert len(graph.topology().nodes) == 0

    @pytest.mark.parametrize("keep_graph", [False, True])
    def test_empty_capture_where_warnings_are_errors(self, fx: BackendFixtures, keep_graph: bool) -> None:
        """Rule 7: the state is committed before the warning, so that one turned into an error breaks nothing."""
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device, keep_graph)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(graphcap.EmptyGraphWarning), stream, graph:
                pass
        assert stream.capture_status is CaptureStatus.NONE
        assert gc.isenabled()
        graph.replay(stream)
        assert graph.pool().first > 0
        graph.reset()
        self.assert_can_capture(fx, stream, graph)

    def test_fork_and_join_without_work_is_empty(self, fx: BackendFixtures) -> None:
        """E-10: events alone make an empty graph."""
        origin, fork = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with pytest.warns(graphcap.EmptyGraphWarning), origin, graph:
            fork.wait(origin.record())
            origin.wait(fork.record())
        graph.replay(origin)

    # -- rule 8 --------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("keep_graph", [False, True])
    def test_begin_on_a_captured_graph(self, fx: BackendFixtures, keep_graph: bool) -> None:
        """Rule 8: refused until ``reset()``; the graph it holds is unharmed."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        graph = self.captured(fx, out, 2, x, y, keep_graph=keep_graph)
        stream = fx.make_stream()
        with pytest.raises(graphcap.CaptureStateError, match="reset") as caught, stream:
            graph.capture_begin()
        assert caught.value.cure
        assert stream.capture_status is CaptureStatus.NONE
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))
        graph.reset()
        self.assert_can_capture(fx, stream, graph)

    def test_recapture_gets_a_new_pool(self, fx: BackendFixtures) -> None:
        """Rule 8: with ``pool=None`` each capture has its own pool id."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        graph = graphcap.Graph(fx.device)
        seen: list[Any] = []
        for factor in (1, 2, 3):
            with fx.make_stream() as stream, graph:
                fx.launch_axpy(stream, out, factor, x, y)
            graph.replay(stream)
            np.testing.assert_array_equal(fx.download(out), factor * vector(1) + vector(2))
            seen.append(graph.pool())
            graph.reset()
        assert len(set(seen)) == 3
        assert all(pool.first > 0 and pool.second == 0 for pool in seen)

    def test_begin_releases_freeable_pools(self, fx: BackendFixtures) -> None:
        """Rule 8: what a dropped graph left cached goes back when the next capture begins."""
        graph = graphcap.Graph(fx.device)
        with fx.make_stream() as stream, graph:
            stream.fill(fx.allocate(NBYTES), 0)
        pool = graph.pool()
        graph.reset()
        assert reserved(fx.device, pool) > 0
        with stream, graph:
            assert reserved(fx.device, pool) == 0
            stream.fill(fx.allocate(NBYTES), 0)
