"""Parameters: numbers in captured work that may change from replay to replay."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.testing.case import NBYTES, ConformanceCase, N, allocated, in_thread, needs, vector
from graphcap.testing.fixtures import BackendFixtures

__all__ = ["Parameters"]


class Parameters(ConformanceCase):
    """Issue 9: a parameter's value at a replay is what the replay computes with, on every backend by the same calls."""

    @staticmethod
    def operands(fx: BackendFixtures) -> tuple[Any, Any, Any]:
        return fx.upload(np.zeros(N, np.float32)), fx.upload(vector(1)), fx.upload(vector(2))

    @needs("parameters")
    @pytest.mark.parametrize("keep_graph", [False, True])
    def test_value_at_the_replay(self, fx: BackendFixtures, keep_graph: bool) -> None:
        """Set between replays, by attribute or as an input: what is computed is what eager work with that number computes."""
        out, x, y = self.operands(fx)
        a = graphcap.parameter(np.float32(2), name="a")
        graph = self.captured(fx, out, a, x, y, keep_graph=keep_graph)  # type: ignore[arg-type]  # a parameter as well
        assert not fx.download(out).any()
        for value in (2, 5, -3, 5):
            a.value = value
            graph.replay()
            np.testing.assert_array_equal(fx.download(out), value * vector(1) + vector(2))
        graph.replay(inputs={"a": 7})
        np.testing.assert_array_equal(fx.download(out), 7 * vector(1) + vector(2))
        graph.replay()
        np.testing.assert_array_equal(fx.download(out), 7 * vector(1) + vector(2))
        assert a.value == 7

    @needs("parameters")
    def test_eager_work_takes_the_value_now(self, fx: BackendFixtures) -> None:
        """Outside a capture a parameter is its number."""
        out, x, y = self.operands(fx)
        a = graphcap.parameter(3, dtype=np.float32)
        stream = fx.make_stream()
        fx.launch_axpy(stream, out, a, x, y)
        a.value = 4
        fx.launch_axpy(stream, out, a, out, y)
        stream.synchronize()
        np.testing.assert_array_equal(fx.download(out), 4 * (3 * vector(1) + vector(2)) + vector(2))

    @needs("parameters")
    def test_a_plain_number_stays(self, fx: BackendFixtures) -> None:
        """Beside a parameter, too."""
        out, x, y = self.operands(fx)
        a = graphcap.parameter(np.float32(2), name="a")
        graph = graphcap.Graph(fx.device)
        with fx.make_stream() as stream, graph:
            fx.launch_axpy(stream, out, 3, x, y)
            fx.launch_axpy(stream, out, a, out, y)
        graph.replay(inputs={"a": 5})
        np.testing.assert_array_equal(fx.download(out), 5 * (3 * vector(1) + vector(2)) + vector(2))

    @needs("parameters")
    def test_shared_by_nodes_and_graphs(self, fx: BackendFixtures) -> None:
        """One assignment reaches every node of every graph."""
        a = graphcap.parameter(np.float32(1), name="a")
        outs, graphs = [], []
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        for _ in range(2):
            out = fx.upload(np.zeros(N, np.float32))
            graph = graphcap.Graph(fx.device)
            with fx.make_stream() as stream, graph:
                fx.launch_axpy(stream, out, a, x, y)
                fx.launch_axpy(stream, out, a, out, y)
            outs.append(out)
            graphs.append(graph)
        for value in (1, 3):
            a.value = value
            for graph in graphs:
                graph.replay()
            for out in outs:
                np.testing.assert_array_equal(fx.download(out), value * (value * vector(1) + vector(2)) + vector(2))

    @needs("parameters")
    def test_expressions(self, fx: BackendFixtures) -> None:
        """Arithmetic on parameters is worked out again; several parameters may change at once."""
        out, x, y = self.operands(fx)
        a = graphcap.parameter(np.float32(4), name="a")
        b = graphcap.parameter(np.float32(2), name="b")
        graph = self.captured(fx, out, a / b - np.float32(1), x, y)
        assert set(graph.parameters) == {"a", "b"}
        graph.replay()
        np.testing.assert_array_equal(fx.download(out), vector(1) + vector(2))
        graph.replay(inputs={"a": 12, "b": 3})
        np.testing.assert_array_equal(fx.download(out), 3 * vector(1) + vector(2))

    @needs("parameters")
    def test_replays_in_flight_keep_theirs(self, fx: BackendFixtures) -> None:
        """Ten replays with ten values and no wait between them."""
        x, y = fx.upload(vector(1)), fx.upload(np.zeros(N, np.float32))
        a = graphcap.parameter(np.float32(0), name="a")
        graph = graphcap.Graph(fx.device)
        with fx.make_stream() as stream, graph:
            fx.launch_axpy(stream, y, a, x, y)
        with stream:
            for value in range(1, 11):
                a.value = value
                graph.replay()
        np.testing.assert_array_equal(fx.download(y), 55 * vector(1))

    @needs("parameters")
    def test_refused_values_change_nothing(self, fx: BackendFixtures) -> None:
        """Wrong kind, too large, or no number at all; also when only an expression does not fit."""
        out, x, y = self.operands(fx)
        a = graphcap.parameter(np.float32(2), name="a")
        graph = graphcap.Graph(fx.device)
        with fx.make_stream() as stream, graph:
            fx.launch_axpy(stream, out, a, x, y)
            fx.launch_axpy(stream, out, np.float32(1) / a, out, y)
        for value, error in (
            (1e39, OverflowError),
            (1j, TypeError),
            ("2", TypeError),
            (None, TypeError),
            (True, TypeError),
        ):
            with pytest.raises(error, match=r"\ba\b"):
                a.value = value
            with pytest.raises(error, match=r"\ba\b"):
                graph.replay(inputs={"a": value})
            assert a.value == 2
        graph.replay()
        np.testing.assert_array_equal(fx.download(out), np.float32(0.5) * (2 * vector(1) + vector(2)) + vector(2))

    @needs("parameters")
    def test_value_reads_are_refused_in_a_capture(self, fx: BackendFixtures) -> None:
        """``float(a)``, ``if a:`` and their like name the parameter; nothing has happened, so the capture goes on."""
        out, x, y = self.operands(fx)
        a = graphcap.parameter(np.float32(2), name="a")
        graph = graphcap.Graph(fx.device, keep_graph=True)
        with fx.make_stream() as stream, graph:
            reads: list[Any] = [
                float,
                int,
                bool,
                complex,
                round,
                lambda p: p == 2 or None,
                lambda p: p.value,
                np.asarray,
            ]
            for read in reads:
                with pytest.raises(graphcap.CaptureForbiddenError, match="capturing"):
                    read(a)
            with pytest.raises(graphcap.CaptureForbiddenError, match="capturing"):
                a.value = 3
            fx.launch_axpy(stream, out, a, x, y)
        assert (float(a), a == 2, len(graph.topology().nodes)) == (2.0, True, 1)
        graph.replay()
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    @needs("parameters")
    def test_fills(self, fx: BackendFixtures) -> None:
        """A fill takes one as well: every byte of an untyped buffer."""
        x = fx.upload(vector())
        level = graphcap.parameter(1, name="level")
        graph = graphcap.Graph(fx.device)
        with fx.make_stream() as stream, graph:
            stream.fill(x, level)
        for value in (1, 0, 171):
            graph.replay(inputs={"level": value})
            assert (fx.download(x, np.uint8) == value).all()
        with pytest.raises(OverflowError, match="level"):
            level.value = 256
        with pytest.raises(OverflowError, match="level"):
            level.value = -1

    @needs("parameters")
    def test_forks_keep_their_order(self, fx: BackendFixtures) -> None:
        """After a change the graph still has its edges: two branches, joined."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        left, right, out = (fx.upload(np.zeros(N, np.float32)) for _ in range(3))
        a = graphcap.parameter(np.float32(1), name="a")
        graph = graphcap.Graph(fx.device, keep_graph=True)
        stream, side = fx.make_stream(), fx.make_stream()
        with stream, graph:
            side.wait(stream)
            fx.launch_axpy(stream, left, a, x, y)
            fx.launch_axpy(side, right, a + a, x, y)
            stream.wait(side)
            fx.launch_axpy(stream, out, a, left, right)
        for value in (1, 2, 5):
            graph.replay(inputs={"a": value})
            branches = value * vector(1) + vector(2), 2 * value * vector(1) + vector(2)
            np.testing.assert_array_equal(fx.download(out), value * branches[0] + branches[1])

    @needs("parameters")
    def test_instantiated_again(self, fx: BackendFixtures) -> None:
        """A new executable of the old template has the value of now, not that of the capture."""
        out, x, y = self.operands(fx)
        a = graphcap.parameter(np.float32(2), name="a")
        graph = self.captured(fx, out, a, x, y, keep_graph=True)  # type: ignore[arg-type]  # as above
        graph.replay(inputs={"a": 3})
        graph.instantiate()
        graph.replay()
        np.testing.assert_array_equal(fx.download(out), 3 * vector(1) + vector(2))

    @needs("parameters")
    def test_captured_again(self, fx: BackendFixtures) -> None:
        """After ``reset()`` a graph knows the parameters of its new capture only."""
        out, x, y = self.operands(fx)
        a, b = graphcap.parameter(np.float32(2), name="a"), graphcap.parameter(np.float32(3), name="b")
        graph = self.captured(fx, out, a, x, y)  # type: ignore[arg-type]  # as above
        graph.reset()
        assert not graph.parameters
        with fx.make_stream() as stream, graph:
            fx.launch_axpy(stream, out, b, x, y)
        assert graph.parameters == {"b": b}
        with pytest.raises(ValueError, match="'a' is neither bound nor a parameter"):
            graph.replay(inputs={"a": 1})
        a.value = 9
        graph.replay()
        np.testing.assert_array_equal(fx.download(out), 3 * vector(1) + vector(2))

    @needs("parameters")
    def test_bound_by_another_name(self, fx: BackendFixtures) -> None:
        """One without a name of its own, beside a bound array; one that the graph does not use is refused."""
        out, x, y = self.operands(fx)
        a = graphcap.parameter(np.float32(2))
        graph = self.captured(fx, out, a, x, y)  # type: ignore[arg-type]  # as above
        assert not graph.parameters
        graph.bind(factor=a, x=x)
        graph.replay(inputs={"factor": 3, "x": fx.upload(vector(5))})
        np.testing.assert_array_equal(fx.download(out), 3 * vector(5) + vector(2))
        with pytest.raises(ValueError, match="does not use"):
            graph.bind(other=graphcap.parameter(1.0))
        graph.reset()

    @needs("parameters")
    def test_the_topology_names_them(self, fx: BackendFixtures) -> None:
        """Which node takes which."""
        out, x, y = self.operands(fx)
        a = graphcap.parameter(np.float32(2), name="a")
        graph = graphcap.Graph(fx.device, keep_graph=True)
        with fx.make_stream() as stream, graph:
            fx.launch_axpy(stream, out, a, x, y)
            fx.launch_axpy(stream, out, 2, x, y)
        first, second = graph.topology().nodes
        assert first.params["parameters"] == ("a",)
        assert "parameters" not in second.params

    @needs("parameters")
    def test_graphs_that_died(self, fx: BackendFixtures) -> None:
        """A parameter keeps no graph alive and goes on without; a graph keeps its parameters."""
        out, x, y = self.operands(fx)
        a = graphcap.parameter(np.float32(2), name="a")
        graph = self.captured(fx, out, a, x, y)  # type: ignore[arg-type]  # as above
        gone = weakref.ref(graph.impl)
        del graph
        fx.poison(NBYTES)
        gc.collect()
        assert gone() is None
        a.value = 1e30
        a.value = 3
        other = self.captured(fx, out, a, x, y)  # type: ignore[arg-type]  # as above
        del a
        gc.collect()
        other.replay(inputs={"a": 4})
        np.testing.assert_array_equal(fx.download(out), 4 * vector(1) + vector(2))

    @needs("parameters")
    def test_many_changes_need_no_more_memory(self, fx: BackendFixtures) -> None:
        """Temporaries of the capture are not held by what remembers the parameter."""
        out, x, y = self.operands(fx)
        a = graphcap.parameter(np.float32(2), name="a")
        graph = graphcap.Graph(fx.device)
        with fx.make_stream() as stream, graph:
            for _ in range(4):
                temporary = stream.allocate(NBYTES)
                fx.launch_axpy(stream, temporary, a, x, y)
                fx.launch_axpy(stream, out, a, temporary, y)
                del temporary
        before = allocated(fx.device)
        for value in range(20):
            graph.replay(inputs={"a": value})
        np.testing.assert_array_equal(fx.download(out), 19 * (19 * vector(1) + vector(2)) + vector(2))
        assert allocated(fx.device) == before

    @needs("parameters")
    def test_from_another_thread(self, fx: BackendFixtures) -> None:
        """Set on one thread, replayed on another."""
        out, x, y = self.operands(fx)
        a = graphcap.parameter(np.float32(2), name="a")
        graph = self.captured(fx, out, a, x, y)  # type: ignore[arg-type]  # as above
        graph.replay()
        graphcap.synchronize(fx.device)
        in_thread(lambda: setattr(a, "value", 6))
        graph.replay()
        np.testing.assert_array_equal(fx.download(out), 6 * vector(1) + vector(2))

    @needs("parameters")
    def test_not_in_host_calls(self, fx: BackendFixtures) -> None:
        """A host call may run long after its replay was asked for: it is told to read the value itself."""
        a = graphcap.parameter(2.0, name="a")
        seen: list[float] = []
        stream = fx.make_stream()
        with pytest.raises(TypeError, match=r"host_call\(\).*`.value`"):
            stream.host_call(seen.append, a)
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            stream.host_call(lambda: seen.append(a.value))
        for value in (2.0, 3.5):
            a.value = value
            graph.replay()
            graphcap.synchronize(fx.device)
        assert seen[-1] == 3.5
