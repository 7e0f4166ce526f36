"""The diff tells what changed and nothing that differs from run to run."""

from __future__ import annotations

import itertools
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphcap.dot
from graphcap.inspection import diff
from graphcap.topology import GraphTopology, Node, NodeKind

from ..dot.producers import K, cuda
from ..topology.strategies import topologies
from .graphs import nested, step


def renumbered(graph: GraphTopology, order: list[int]) -> GraphTopology:
    """The same work captured in another order: other ids, other node order, the same edges."""
    names = {node.id: f"x{i}" for i, node in enumerate(graph.nodes)}
    nodes = [Node(names[n.id], n.kind, n.name, n.params, n.graphs) for n in (graph.nodes[i] for i in order)]
    edges = [(names[e.source], names[e.target], *e[2:]) for e in graph.edges]
    return GraphTopology(nodes, edges, graphs=graph.graphs, name="graph_99")


def test_addresses_handles_and_numbers_do_not_count() -> None:
    result = diff(step(base=0x1000, name="graph_1"), step(base=0x99000, name="graph_130"))
    assert result.same
    assert result.summary() == "no difference"
    assert not result


@given(topologies(acyclic=True))
@settings(max_examples=80, deadline=None)
def test_a_graph_does_not_differ_from_itself(graph: GraphTopology) -> None:
    assert diff(graph, graph).same


@given(st.permutations(range(5)))
@settings(max_examples=20, deadline=None)
def test_another_creation_order_is_no_difference(order: list[int]) -> None:
    # Kernels 1 and 2 are parallel, so their order in the file means nothing; the diff may call one of them moved.
    result = diff(step(), renumbered(step(), order))
    assert [(level.added, level.removed, level.changed) for level in result.levels] in ([], [([], [], [])])
    assert all(not level.edges_added and not level.edges_removed for level in result.levels)


def test_not_a_number_is_no_difference_and_zero_has_one_spelling() -> None:
    def filled(value: float) -> GraphTopology:
        return GraphTopology([Node(0, NodeKind.MEMSET, params={"value": value})])

    assert diff(filled(float("nan")), filled(float("nan"))).same
    assert diff(filled(0), filled(0.0)).same
    assert not diff(filled(float("nan")), filled(1.0)).same


def test_an_added_node_is_added_and_nothing_else_changes() -> None:
    result = diff(step(), step(extra_copy=True))
    (level,) = result.levels
    assert [node.id for node in level.added] == [5]
    assert (level.removed, level.changed, level.moved) == ([], [], [])
    assert result.summary() == "1 node added"
    back = diff(step(extra_copy=True), step())
    assert [node.id for node in back.levels[0].removed] == [5]


def test_a_changed_parameter_is_named_with_both_values() -> None:
    (level,) = diff(step(grid=4), step(grid=8)).levels
    (change,) = level.changed
    assert change.params == {"grid": ((4, 1, 1), (8, 1, 1))}
    assert (change.before.id, change.after.id) == (1, 1)


def test_a_changed_edge_is_found_among_unchanged_nodes() -> None:
    fork = step()
    line = GraphTopology(fork.nodes, [(0, 1), (1, 2), (2, 3), (3, 4)], name="graph_1")
    (level,) = diff(fork, line).levels
    assert [tuple(e[:2]) for e in level.edges_removed] == [(0, 2), (1, 3)]
    assert [tuple(e[:2]) for e in level.edges_added] == [(1, 2)]
    assert (level.added, level.removed) == ([], [])
    weaker = GraphTopology(fork.nodes, [(*e[:2], "programmatic", 1, 0) if e[0] == 3 else e for e in fork.edges])
    (level,) = diff(fork, weaker).levels
    assert "programmatic" in diff(fork, weaker).text()
    assert len(level.edges_added) == len(level.edges_removed) == 1


def test_dependencies_in_another_order_are_told() -> None:
    fork = step()
    swapped = GraphTopology(fork.nodes, [(0, 1), (0, 2), (2, 3), (1, 3), (3, 4)], name="graph_1")
    (level,) = diff(fork, swapped).levels
    assert [node.id for node in level.reordered] == [3]
    assert not level.edges_added


def test_a_moved_node_is_moved_not_new() -> None:
    nodes = [Node(i, NodeKind.KERNEL, f"k{i}") for i in range(6)]
    line = GraphTopology(nodes, [(i, i + 1) for i in range(5)])
    order = [0, 3, 1, 2, 4, 5]
    other = GraphTopology([nodes[i] for i in order], list(itertools.pairwise(order)))
    (level,) = diff(line, other).levels
    assert [(a.name, b.name) for a, b in level.moved] == [("k3", "k3")]
    assert (level.added, level.removed) == ([], [])


def test_nested_graphs_are_compared_by_place_not_by_number() -> None:
    other = nested()
    other = GraphTopology(
        [Node(n.id, n.kind, n.name, n.params, tuple({"graph_7": "graph_70", "graph_4": "graph_40"}[g] for g in n.graphs))
         for n in other.nodes],
        other.edges,
        graphs={"graph_70": other.graphs["graph_7"], "graph_40": other.graphs["graph_4"]},
    )  # fmt: skip
    assert diff(nested(), other).same
    (level,) = diff(nested(), nested("_Z7anotherPf")).levels
    assert level.name == "graph_7"
    assert [n.name for n in level.removed] == ["_Z4bodyPf"]
    gone = GraphTopology([Node(0, NodeKind.KERNEL, "_Z5saxpyfPKfPf")], name="graph_1")
    assert diff(nested(), gone).graphs_removed == ["graph_7", "graph_4"]
    assert diff(gone, nested()).graphs_added == ["graph_7", "graph_4"]


def test_what_one_side_does_not_tell_is_noted_not_changed() -> None:
    graphs: dict[int, tuple[list[K], list[tuple[int, int]]]] = {
        1: ([K("KERNEL", "_Z1av", (4,)), K("MEMCPY")], [(0, 1)])
    }
    verbose = cuda(graphs)  # type: ignore[arg-type]  # a list of pairs is a sequence of pairs
    plain = cuda(graphs, verbose=False)  # type: ignore[arg-type]
    result = diff(verbose.encode(), plain.encode())
    assert result.same
    assert any("only the first graph tells of a kernel: block" in note for note in result.notes)


def test_json_and_text_say_the_same() -> None:
    result = diff(step(), step(extra_copy=True, grid=8))
    data = json.loads(json.dumps(result.to_data()))
    assert data["same"] is False
    assert data["levels"][0]["added"] == [{"id": 5, "kind": "memcpy", "name": ""}]
    assert data["levels"][0]["changed"][0]["params"]["grid"] == [[4, 1, 1], [8, 1, 1]]
    text = result.text()
    assert text.startswith("1 node added, 1 node changed")
    assert "  + 5: memcpy DtoD 64 B" in text
    assert "  ~ 1: saxpy grid 8 · block 256: grid (4, 1, 1) -> (8, 1, 1)" in text


@pytest.mark.parametrize("kinds", [1, 7, 400])
def test_large_graphs_compare_in_bearable_time(kinds: int) -> None:
    n = 1700
    nodes = [Node(i, NodeKind.KERNEL, f"k{i % kinds}") for i in range(n)]
    line = GraphTopology(nodes, [(i, i + 1) for i in range(n - 1)])
    fewer = [node for node in nodes if node.id not in (300, 900, 1500)]
    other = GraphTopology(fewer, [(a.id, b.id) for a, b in itertools.pairwise(fewer)])
    start = time.process_time()
    result = diff(line, other)
    assert time.process_time() - start < 10
    assert len(result.levels[0].removed) == 3
    assert result.levels[0].added == []


def test_dumps_are_compared_as_files(tmp_path: object) -> None:
    assert diff(graphcap.dot.write(step()).encode(), step().to_json().encode()).same
