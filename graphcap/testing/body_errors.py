"""Rule 5: the body of a capture raises, with anything, anywhere; nothing is left of the capture."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.interface import CaptureStatus
from graphcap.testing.case import NBYTES, ConformanceCase, allocated, reserved, vector
from graphcap.testing.fixtures import BackendFixtures

__all__ = ["BodyErrors"]


class Boom(Exception):
    """What the user's own code raises."""


_KINDS: list[type[BaseException]] = [Boom, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, StopIteration]


class BodyErrors(ConformanceCase):
    """The user's exception passes unchanged, streams are restored, the same objects can capture again at once."""

    @pytest.mark.parametrize("kind", _KINDS)
    @pytest.mark.parametrize("keep_graph", [False, True])
    def test_exception_passes_unchanged(self, fx: BackendFixtures, kind: type[BaseException], keep_graph: bool) -> None:
        """Rule 5: the very object, without a note, cause or context; then the same graph and stream capture again."""
        x = fx.upload(vector(1))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device, keep_graph)
        boom = kind("in the body")
        with pytest.raises(kind) as caught, stream, graph:
            stream.fill(x, 0)
            raise boom
        assert caught.value is boom
        assert boom.__cause__ is None
        assert boom.__context__ is None
        assert not getattr(boom, "__notes__", [])
        assert stream.capture_status is CaptureStatus.NONE
        assert gc.isenabled()
        np.testing.assert_array_equal(fx.download(x), vector(1))
        for serve in (graph.replay, graph.pool, graph.instantiate, graph.topology):
            with pytest.raises(graphcap.GraphStateError):
                serve()
        self.assert_can_capture(fx, stream, graph)

    def test_forks_are_released_too(self, fx: BackendFixtures) -> None:
        """Rule 5: forked streams that were not joined are free as well, and no second error appears."""
        x = fx.upload(vector(1))
        origin, fork = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with pytest.raises(Boom), origin, graph:
            fork.wait(origin.record())
            fork.fill(x, 0)
            raise Boom
        self.assert_can_capture(fx, fork, graph)
        self.assert_can_capture(fx, origin, graph)

    def test_current_streams_are_restored(self, fx: BackendFixtures) -> None:
        """Rule 5: nested current streams unwind one by one."""
        outer, inner = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with outer:
            with pytest.raises(Boom), inner, graph:
                raise Boom
            assert graphcap.current_stream(fx.device) == outer

    def test_forbidden_call_as_the_body_error(self, fx: BackendFixtures) -> None:
        """Rules 4 and 5: a forbidden call's own error leaves the block as it is, not an error about the broken end."""
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with pytest.raises(graphcap.CaptureForbiddenError) as caught, stream, graph:
            stream.synchronize()
        assert not getattr(caught.value, "__notes__", [])
        self.assert_can_capture(fx, stream, graph)

    def test_error_after_a_break(self, fx: BackendFixtures) -> None:
        """Rules 4 and 5: the body hides a break and then raises: its exception is the one that passes."""
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        boom = Boom()
        with pytest.raises(Boom) as caught, stream, graph:
            with pytest.raises(graphcap.CaptureForbiddenError):
                stream.query()
            raise boom
        assert caught.value is boom
        self.assert_can_capture(fx, stream, graph)

    def test_hidden_break_comes_out_at_the_end(self, fx: BackendFixtures) -> None:
        """Rule 4: a body that swallows the break does not get a graph."""
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with pytest.raises(graphcap.CaptureInvalidatedError), stream, graph:
            try:
                stream.query()
            except graphcap.CaptureForbiddenError:
                pass
        self.assert_can_capture(fx, stream, graph)

    def test_memory_of_the_body(self, fx: BackendFixtures) -> None:
        """Rule 5: arrays made in the body stay valid; once they die their memory is back."""
        start = allocated(fx.device)
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        kept: list[Any] = []
        with pytest.raises(Boom), stream, graph:
            kept.append(fx.allocate(NBYTES))
            stream.fill(kept[0], 0)
            raise Boom
        pool = kept[0].pool_id
        assert pool != (0, 0)
        taken = fx.poison(NBYTES, stream)
        stream.copy(kept[0], vector(7))
        np.testing.assert_array_equal(fx.download(kept[0]), vector(7))
        assert allocated(fx.device) > start
        kept.clear()
        taken.clear()
        gc.collect()
        graphcap.synchronize(fx.device)
        assert allocated(fx.device) == start
        graphcap.empty_cache(fx.device)
        assert reserved(fx.device, pool) == 0

    def test_user_pool_after_an_error(self, fx: BackendFixtures) -> None:
        """Rules 5 and 16: the pool is not left open: the same id serves the next capture at once."""
        x = fx.upload(vector(1))
        handle = graphcap.graph_pool_handle()
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device, pool=handle)
        for _ in range(3):
            with pytest.raises(Boom), stream, graph:
                stream.fill(fx.allocate(NBYTES), 0)
                raise Boom
        with stream, graph:
            stream.fill(x, 0)
        assert graph.pool() == handle
        graph.replay(stream)
        assert not fx.download(x).any()

    def test_what_the_body_owned_is_let_go(self, fx: BackendFixtures) -> None:
        """Rules 5 and 12: host callbacks, their arguments and retained objects die with the thrown-away capture."""

        class Owned:
            def __call__(self) -> None:
                pytest.fail("a host call of a thrown-away capture ran")

        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        retained, called = Owned(), Owned()
        watch = [weakref.ref(retained), weakref.ref(called)]
        try:
            with stream, graph:
                graph.retain(retained)
                stream.host_call(called)
                raise Boom
        except Boom:
            pass
        del retained, called
        gc.collect()
        stream.synchronize()
        gc.collect()
        assert [ref() for ref in watch] == [None, None]

    def test_body_errors_many_times(self, fx: BackendFixtures) -> None:
        """Rule 5: fifty failed captures with forks, buffers and host calls leave bytes and streams as they were."""
        origin, fork = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        used: list[int] = []
        for turn in range(50):
            with pytest.raises(Boom), origin, graph:
                buffer = fx.allocate(NBYTES * 100)
                origin.fill(buffer, turn)
                fork.wait(origin.record())
                fork.host_call(print, "never")
                if turn % 2:
                    origin.wait(fork.record())
                del buffer
                raise Boom
            graphcap.empty_cache(fx.device)
            used.append(reserved(fx.device))
        assert used[-1] == used[0]
        self.assert_can_capture(fx, origin, graph)

    def test_error_in_capture_function(self, fx: BackendFixtures) -> None:
        """Rule 5 for ``capture()``: the same, with its own side stream."""
        outer = fx.make_stream()
        boom = Boom()
        with outer:
            with pytest.raises(Boom) as caught, graphcap.capture(fx.device) as graph:
                graphcap.current_stream(fx.device).fill(fx.allocate(NBYTES), 0)
                raise boom
            assert caught.value is boom
            assert graphcap.current_stream(fx.device) == outer
            with pytest.raises(graphcap.GraphStateError):
                graph.replay()
        assert gc.isenabled()

    def test_error_in_warmup(self, fx: BackendFixtures) -> None:
        """Rule 5 for ``capture(warmup=…)``: what the warm-up raises passes; preserved arrays are restored."""
        x = fx.upload(vector(1))

        def warmup() -> None:
            graphcap.current_stream(fx.device).fill(x, 0)
            raise Boom

        with (
            pytest.raises(Boom),
            fx.make_stream(),
            graphcap.capture(fx.device, warmup=warmup, preserve=[x]),
        ):
            pytest.fail("the body ran after a failed warm-up")
        np.testing.assert_array_equal(fx.download(x), vector(1))
