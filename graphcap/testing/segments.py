"""Captures of callables made of steps: graph, eager step, graph."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.testing.case import NBYTES, ConformanceCase, N, allocated, needs, vector
from graphcap.testing.fixtures import BackendFixtures
from graphcap.topology import NodeKind

__all__ = ["Segments"]


class Segments(ConformanceCase):
    """Issue 9, ``capture(on_forbidden="split")``: what cannot be captured is called between graphs, and the results are eager ones."""

    @staticmethod
    def add(fx: BackendFixtures, x: Any, y: Any) -> Any:
        """A step that can be captured: a new buffer of ``2 x + y``."""
        stream = graphcap.current_stream(fx.device)
        out = stream.allocate(NBYTES)
        fx.launch_axpy(stream, out, 2, x, y)
        return out

    @staticmethod
    def read(fx: BackendFixtures, x: Any) -> Any:
        """A step that cannot: it waits, looks at values on the host, and makes a new buffer of their squares."""
        stream = graphcap.current_stream(fx.device)
        host = np.empty(N, np.float32)
        stream.copy(host, x)
        stream.synchronize()
        out = stream.allocate(NBYTES)
        stream.copy(out, np.square(host % 7))
        stream.synchronize()
        return out

    def expected(self, x: Any, y: Any) -> Any:
        """The whole of most tests, in NumPy."""
        return 2 * np.square((2 * x + y) % 7) + y

    @staticmethod
    def kinds(graph: graphcap.SegmentedGraph) -> list[str]:
        return [segment.kind for segment in graph.segments]

    def test_graph_eager_graph(self, fx: BackendFixtures) -> None:
        """Design 3, user problems 12: in order, equal to eager at every replay with new contents, on any stream."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        with graphcap.capture(fx.device, on_forbidden="split") as graph:
            first = graph.step(self.add, fx, x, y)
            second = graph.step(self.read, fx, first)
            third = graph.step(self.add, fx, second, y)
        assert self.kinds(graph) == ["graph", "eager", "graph"]
        assert isinstance(graph.segments[1].reason, graphcap.CaptureError)
        np.testing.assert_array_equal(fx.download(third), self.expected(vector(1), vector(2)))
        stream = fx.make_stream()
        for start in (3, 4, 5):
            new = fx.upload(vector(start))
            stream.copy(x, new)
            graph.replay(stream)
            np.testing.assert_array_equal(fx.download(third), self.expected(vector(start), vector(2)))

    @pytest.mark.parametrize("pattern", ["gge", "egg", "e", "ee", "gegeg", "ggg", "geeg"])
    def test_patterns(self, fx: BackendFixtures, pattern: str) -> None:
        """Neighbours share a graph; eager steps are segments each."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        with graphcap.capture(fx.device, on_forbidden="split") as graph:
            result = x
            for letter in pattern:
                result = graph.step(self.add, fx, result, y) if letter == "g" else graph.step(self.read, fx, result)
        wanted = [kind for i, kind in enumerate(pattern) if kind == "e" or pattern[i - 1 : i] != "g"]
        assert [kind[0] for kind in self.kinds(graph)] == wanted
        for start in (1, 6):
            stream = fx.make_stream()
            stream.copy(x, fx.upload(vector(start)))
            graph.replay(stream)
            values = vector(start)
            for letter in pattern:
                values = 2 * values + vector(2) if letter == "g" else np.square(values % 7)
            np.testing.assert_array_equal(fx.download(result), values)

    def test_no_half_recorded_step(self, fx: BackendFixtures) -> None:
        """What a refused step recorded before it was refused is in no graph; the steps before it are, once."""
        x, y, count = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))

        def half(value: Any) -> Any:
            stream = graphcap.current_stream(fx.device)
            fx.launch_axpy(stream, count, 1, y, count)
            return self.read(fx, value)

        with graphcap.capture(fx.device, on_forbidden="split", preserve=[count]) as graph:
            first = graph.step(self.add, fx, x, y)
            graph.step(half, first)
        assert self.kinds(graph) == ["graph", "eager"]
        assert graph.segments[0].graph is not None
        nodes = graph.segments[0].graph.topology().counts()
        assert nodes[NodeKind.KERNEL] == 1
        assert not fx.download(count).any()
        graph.replay()
        graph.replay()
        np.testing.assert_array_equal(fx.download(count), 2 * vector(2))

    def test_topology(self, fx: BackendFixtures) -> None:
        """Segments in order, graphs nested, the eager step a host node that says why."""
        from graphcap import dot

        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        with graphcap.capture(fx.device, on_forbidden="split") as graph:
            first = graph.step(self.add, fx, x, y)
            second = graph.step(self.read, fx, first)
            graph.step(self.add, fx, second, y)
        found = graph.topology()
        assert [node.kind for node in found.nodes] == [NodeKind.CHILD_GRAPH, NodeKind.HOST, NodeKind.CHILD_GRAPH]
        assert [(edge.source, edge.target) for edge in found.edges] == [(0, 1), (1, 2)]
        eager = found.node(1)
        assert eager.params["type"] == "eager step"
        assert eager.params["reason"]
        assert eager.name.endswith("read")
        inner = [found.graphs[name] for node in found.nodes for name in node.graphs]
        assert [one.counts()[NodeKind.KERNEL] for one in inner] == [1, 1]
        assert dot.read(dot.write(found).encode()) == found

    def test_state_advances_once_a_replay(self, fx: BackendFixtures) -> None:
        """The body's own run is undone for what `preserve` names; steps that work in place need no places for results."""
        state, y = fx.upload(vector(1)), fx.upload(vector(2))

        def advance() -> None:
            stream = graphcap.current_stream(fx.device)
            fx.launch_axpy(stream, state, 1, state, y)

        with graphcap.capture(fx.device, on_forbidden="split", preserve=[state]) as graph:
            graph.step(advance)
            graph.step(self.read, fx, state)
            graph.step(advance)
        np.testing.assert_array_equal(fx.download(state), vector(1))
        for turn in (1, 2, 3):
            graph.replay()
            np.testing.assert_array_equal(fx.download(state), vector(1) + 2 * turn * vector(2))

    @needs("parameters")
    def test_numbers_go_on_as_parameters(self, fx: BackendFixtures) -> None:
        """A number from an eager step is the number of that replay in the graphs after it."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))

        def largest(value: Any) -> Any:
            stream = graphcap.current_stream(fx.device)
            host = np.empty(N, np.float32)
            stream.copy(host, value)
            stream.synchronize()
            return host.max()

        def scale(factor: Any) -> None:
            fx.launch_axpy(graphcap.current_stream(fx.device), out, factor, x, y)

        with graphcap.capture(fx.device, on_forbidden="split") as graph:
            top = graph.step(largest, x)
            graph.step(scale, top)
        assert self.kinds(graph) == ["eager", "graph"]
        for start in (1, 5, 9):
            stream = fx.make_stream()
            stream.copy(x, fx.upload(vector(start)))
            graph.replay(stream)
            np.testing.assert_array_equal(fx.download(out), vector(start).max() * vector(start) + vector(2))
            assert top == vector(start).max()

    def test_an_object_from_an_eager_step_makes_its_users_eager(self, fx: BackendFixtures) -> None:
        """What no graph can take anew is not baked into one."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        made: list[Any] = []

        class Plan:
            factor = 2

        def plan(value: Any) -> Plan:
            self.read(fx, value)
            new = Plan()
            made.append(new)
            new.factor = len(made)
            return new

        def use(chosen: Plan, value: Any) -> Any:
            stream = graphcap.current_stream(fx.device)
            out = stream.allocate(NBYTES)
            fx.launch_axpy(stream, out, chosen.factor, value, y)
            return out

        with graphcap.capture(fx.device, on_forbidden="split") as graph:
            chosen = graph.step(plan, x)
            result = graph.step(use, chosen, x)
            graph.step(self.add, fx, result, y)
        assert self.kinds(graph) == ["eager", "eager", "graph"]
        assert "Plan" in str(graph.segments[1].reason)

    def test_errors_of_steps(self, fx: BackendFixtures) -> None:
        """At the first run, at the capture, at a replay: unchanged, with a note that names the step; then all is as before."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        fail = {"now": True}

        def fails(value: Any) -> Any:
            if fail["now"]:
                raise KeyError("no luck")
            return self.read(fx, value)

        stream = fx.make_stream()
        with stream:
            with (
                pytest.raises(KeyError, match="no luck") as caught,
                graphcap.capture(fx.device, on_forbidden="split") as graph,
            ):
                graph.step(self.add, fx, x, y)
                graph.step(fails, x)
            assert "step 1 ('" in getattr(caught.value, "__notes__", [""])[0]
            with pytest.raises(graphcap.GraphStateError, match="no segments"):
                graph.replay()
            fail["now"] = False
            with graphcap.capture(fx.device, on_forbidden="split") as graph:
                first = graph.step(self.add, fx, x, y)
                graph.step(fails, first)
                last = graph.step(self.add, fx, x, y)
            stream.fill(last, 0)
            fail["now"] = True
            with pytest.raises(KeyError, match="no luck"):
                graph.replay()
            assert not fx.download(last).any(), "a segment after the failed step was replayed"
            fail["now"] = False
            graph.replay()
            np.testing.assert_array_equal(fx.download(last), 2 * vector(1) + vector(2))

    def test_errors_while_captured(self, fx: BackendFixtures) -> None:
        """An error that is no refusal is no reason to split: it passes, and nothing is left open."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))

        def fails_captured(value: Any) -> Any:
            if graphcap.current_stream(fx.device).is_capturing:
                raise ZeroDivisionError
            return self.add(fx, value, y)

        with pytest.raises(ZeroDivisionError), graphcap.capture(fx.device, on_forbidden="split") as graph:
            graph.step(self.add, fx, x, y)
            graph.step(fails_captured, x)
        assert not graph.segments

    def test_results_of_another_shape(self, fx: BackendFixtures) -> None:
        """An eager step that gives something else than before is refused by name."""
        x = fx.upload(vector(1))
        size = {"now": NBYTES}

        def changes(value: Any) -> Any:
            self.read(fx, value)
            return graphcap.current_stream(fx.device).allocate(size["now"])

        with graphcap.capture(fx.device, on_forbidden="split") as graph:
            graph.step(changes, x)
        graph.replay()
        size["now"] = 2 * NBYTES
        with pytest.raises(graphcap.GraphStructureError, match="changes"):
            graph.replay()

    def test_it_is_off_by_default(self, fx: BackendFixtures) -> None:
        """A plain capture raises, and has no steps."""
        x = fx.upload(vector(1))
        with pytest.raises(graphcap.CaptureError), graphcap.capture(fx.device) as graph:
            assert not hasattr(graph, "step")
            self.read(fx, x)
        with pytest.raises(ValueError, match="on_forbidden"):
            graphcap.capture(fx.device, on_forbidden="join")  # type: ignore[call-overload]  # on purpose

    def test_order_of_calls(self, fx: BackendFixtures) -> None:
        """No step after the block, no replay in it or while capturing; a step inside a step is part of it."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        with graphcap.capture(fx.device, on_forbidden="split") as graph:
            inner: Callable[..., Any] = graph.step

            def outer() -> Any:
                return inner(self.add, fx, x, y)

            with pytest.raises(graphcap.GraphStateError, match="still open"):
                graph.replay()
            with pytest.raises(graphcap.GraphStateError, match="still open"):
                graph.topology()
            result = graph.step(outer)
        assert [segment.steps for segment in graph.segments] == [("outer",)]
        with pytest.raises(graphcap.GraphStateError, match="is over"):
            graph.step(self.add, fx, x, y)
        other = graphcap.Graph(fx.device)
        with pytest.raises(graphcap.CaptureForbiddenError), fx.make_stream(), other:
            graph.replay()
        graph.replay()
        np.testing.assert_array_equal(fx.download(result), 2 * vector(1) + vector(2))
        graph.reset()
        with pytest.raises(graphcap.GraphStateError, match="no segments"):
            graph.replay()

    def test_no_steps(self, fx: BackendFixtures) -> None:
        """Told, as an empty capture is."""
        with (
            pytest.warns(graphcap.EmptyGraphWarning, match="no steps"),
            graphcap.capture(fx.device, on_forbidden="split"),
        ):
            pass

    def test_bound_inputs(self, fx: BackendFixtures) -> None:
        """``bind`` and ``replay(inputs=...)`` as for a graph."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        with graphcap.capture(fx.device, on_forbidden="split") as graph:
            first = graph.step(self.add, fx, x, y)
            last = graph.step(self.read, fx, first)
        graph.bind(x=x)
        graph.replay(inputs={"x": fx.upload(vector(4))})
        np.testing.assert_array_equal(fx.download(last), np.square((2 * vector(4) + vector(2)) % 7))

    def test_memory(self, fx: BackendFixtures) -> None:
        """Graphs share one pool; replays need no more; all is given back with the graph."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        gc.collect()
        graphcap.synchronize(fx.device)
        before = allocated(fx.device)
        with graphcap.capture(fx.device, on_forbidden="split") as graph:
            result = x
            for _ in range(2):
                result = graph.step(self.add, fx, result, y)
                result = graph.step(self.read, fx, result)
        pools = {segment.graph.pool() for segment in graph.segments if segment.graph is not None}
        assert pools == {graph.pool()}
        graph.replay()
        graphcap.synchronize(fx.device)
        gc.collect()
        held = allocated(fx.device)
        for _ in range(5):
            graph.replay()
        graphcap.synchronize(fx.device)
        gc.collect()
        assert allocated(fx.device) == held
        del graph, result
        gc.collect()
        graphcap.synchronize(fx.device)
        gc.collect()
        assert allocated(fx.device) == before
