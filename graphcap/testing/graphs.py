"""Rules 10, 11 and 13: template and executable, debug mode, topology and dump."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap import dot
from graphcap.inspection.agreement import disagreements
from graphcap.testing.case import ConformanceCase, N, needs, vector
from graphcap.testing.fixtures import BackendFixtures
from graphcap.topology import GraphTopology

__all__ = ["Graphs"]


class Graphs(ConformanceCase):
    """What becomes of a finished capture, and how it can be looked at."""

    # -- rule 10 -------------------------------------------------------------------------------------------------

    def test_instantiate_again(self, fx: BackendFixtures) -> None:
        """Rule 10: with ``keep_graph`` an executable can be made again and again; each replays right."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        graph = self.captured(fx, x, 2, x, y, keep_graph=True)
        stream = fx.make_stream()
        expected = vector(1)
        for _ in range(3):
            graph.instantiate()
            graph.replay(stream)
            expected = 2 * expected + vector(2)
            np.testing.assert_array_equal(fx.download(x), expected)
        assert len(graph.topology().nodes) == 1

    def test_instantiate_without_a_template_does_nothing(self, fx: BackendFixtures) -> None:
        """Rule 10 and design 1: portable code may always call it."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        graph = self.captured(fx, out, 2, x, y)
        graph.instantiate()
        graph.instantiate()
        graph.replay()
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    def test_replay_instantiates_on_first_use(self, fx: BackendFixtures) -> None:
        """Rule 10: with ``keep_graph`` the first replay makes the executable; the template stays."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        graph = self.captured(fx, out, 2, x, y, keep_graph=True)
        for _ in range(2):
            graph.replay()
            np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))
            assert len(graph.topology().nodes) == 1

    # -- rule 13 -------------------------------------------------------------------------------------------------

    def test_debug_mode_keeps_the_template(self, fx: BackendFixtures, tmp_path: Path) -> None:
        """Rule 13: set before the capture, it keeps the template; nothing clears it; other graphs are not touched."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        graph, other = graphcap.Graph(fx.device), graphcap.Graph(fx.device)
        graph.enable_debug_mode()
        stream = fx.make_stream()
        for turn in range(2):
            with stream, graph:
                fx.launch_axpy(stream, out, 2 + turn, x, y)
            assert len(graph.topology().nodes) == 1
            graph.debug_dump(tmp_path / f"{turn}.dot")
            graph.instantiate()
            graph.replay(stream)
            np.testing.assert_array_equal(fx.download(out), (2 + turn) * vector(1) + vector(2))
            graph.reset()
        with stream, other:
            fx.launch_axpy(stream, out, 2, x, y)
        with pytest.raises(graphcap.GraphStateError):
            other.topology()

    def test_debug_mode_after_the_capture(self, fx: BackendFixtures, tmp_path: Path) -> None:
        """Rule 13, S-A44: set too late, it brings no template back, and ``instantiate`` stays harmless."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        graph = self.captured(fx, out, 2, x, y)
        graph.enable_debug_mode()
        with pytest.raises(graphcap.GraphStateError):
            graph.debug_dump(tmp_path / "late.dot")
        graph.instantiate()
        graph.replay()
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("name", ["step.dot", "step.txt", "step", "ä step.gv"])
    @pytest.mark.parametrize("as_text", [False, True])
    def test_dump_to_any_name(self, fx: BackendFixtures, tmp_path: Path, name: str, as_text: bool) -> None:
        """Rule 13: any suffix, text or path object, as often as wanted."""
        x, y = fx.upload(vector(1)), fx.upload(vector(2))
        graph = self.captured(fx, x, 2, x, y, keep_graph=True)
        path = tmp_path / name
        for _ in range(2):
            graph.debug_dump(str(path) if as_text else path)
        assert path.stat().st_size > 0
        assert [entry.name for entry in tmp_path.iterdir()] == [name]

    def test_dump_that_cannot_be_written(self, fx: BackendFixtures, tmp_path: Path) -> None:
        """Graph.debug_dump: an OSError, and nothing is left behind; the graph is unharmed."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        graph = self.captured(fx, out, 2, x, y, keep_graph=True)
        for path in (tmp_path / "missing" / "step.dot", tmp_path):
            with pytest.raises(OSError):
                graph.debug_dump(path)
        assert list(tmp_path.iterdir()) == []
        graph.replay()
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    def test_dump_agrees_with_topology(self, fx: BackendFixtures, tmp_path: Path) -> None:
        """Rule 13: the file, read back, has the nodes, kinds and edges of the topology."""
        graph = self._varied(fx)
        path = tmp_path / "varied.dot"
        graph.debug_dump(path)
        told, dumped = graph.topology(), dot.read(path)
        assert len(dumped.nodes) == len(told.nodes)
        assert dumped.counts() == told.counts()
        assert disagreements(told, dumped) == []

    # -- topology ------------------------------------------------------------------------------------------------

    def _varied(self, fx: BackendFixtures) -> graphcap.Graph:
        """A graph with one node of each kind on one stream, then two kernels side by side."""
        x, y, z = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(vector(3))
        origin, fork = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device, keep_graph=True)
        with origin, graph:
            origin.copy(x, y)
            origin.fill(y, 0)
            origin.host_call(len, "host")
            fork.wait(origin.record())
            fx.launch_axpy(fork, x, 2, x, y)
            fx.launch_axpy(origin, z, 3, z, y)
            origin.wait(fork.record())
        return graph

    def test_kinds(self, fx: BackendFixtures) -> None:
        """Design 3: each call leaves one node of its kind."""
        counts = self._varied(fx).topology().counts()
        expected: dict[Any, int] = {}
        for call, times in (("copy", 1), ("fill", 1), ("host_call", 1), ("launch", 2)):
            expected[fx.kinds[call]] = expected.get(fx.kinds[call], 0) + times
        assert dict(counts) == expected

    def test_edges(self, fx: BackendFixtures) -> None:
        """Design 3: a chain of three, then two that nothing orders."""
        topology = self._varied(fx).topology()
        assert (len(topology.nodes), len(topology.edges)) == (5, 4)
        assert [len(level) for level in topology.levels()] == [1, 1, 1, 2]
        assert topology.critical_path().length == 4
        (pair,) = topology.unordered_pairs()
        assert {node.kind for node in pair} == {fx.kinds["launch"]}

    def test_long_chain(self, fx: BackendFixtures) -> None:
        """Design 3: 300 nodes in a row: 299 edges, one root, one leaf, and the right sum."""
        x, y = fx.upload(vector(0)), fx.upload(np.ones(N, np.float32))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device, keep_graph=True)
        with stream, graph:
            for _ in range(300):
                fx.launch_axpy(stream, x, 1, x, y)
        topology = graph.topology()
        assert (len(topology.nodes), len(topology.edges), topology.depth) == (300, 299, 300)
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(x), vector(0) + 300)

    def test_topology_stays_after_reset(self, fx: BackendFixtures) -> None:
        """Design 2: a topology is plain data: it outlives the graph."""
        graph = self._varied(fx)
        topology = graph.topology()
        graph.reset()
        del graph
        assert len(topology.nodes) == 5
        assert GraphTopology.from_json(topology.to_json()).counts() == topology.counts()

    def test_two_captures_of_the_same_work(self, fx: BackendFixtures) -> None:
        """Design 2: the same work gives the same nodes and edges each time."""
        first, second = self._varied(fx).topology(), self._varied(fx).topology()
        assert [node.kind for node in first.nodes] == [node.kind for node in second.nodes]
        assert len(first.edges) == len(second.edges)

    # -- beyond the contract, by capability ----------------------------------------------------------------------

    @needs("graph_update")
    def test_update(self, fx: BackendFixtures) -> None:
        """Graph.update: the executable takes over the other graph's parameters."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        graph = self.captured(fx, out, 2, x, y)
        other = self.captured(fx, out, 5, x, y, keep_graph=True)
        graph.update(other)
        graph.replay()
        np.testing.assert_array_equal(fx.download(out), 5 * vector(1) + vector(2))

    @needs("graph_update")
    def test_refused_update(self, fx: BackendFixtures) -> None:
        """Graph.update: another topology is refused with ``GraphUpdateError``; the executable replays as before."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        graph = self.captured(fx, out, 2, x, y)
        with pytest.raises(graphcap.GraphUpdateError):
            graph.update(self._varied(fx))
        graph.replay()
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    @needs("upload")
    def test_upload(self, fx: BackendFixtures) -> None:
        """Graph.upload: sends the executable ahead and runs nothing."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        graph = self.captured(fx, out, 2, x, y)
        graph.upload()
        assert not fx.download(out).any()
        graph.replay()
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))
