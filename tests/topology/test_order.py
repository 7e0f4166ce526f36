"""Order, levels, paths and parallelism, against NetworkX and against graphs whose answers are plain to see."""

from __future__ import annotations

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphcap.errors import GraphStructureError
from graphcap.topology import GraphTopology, Node, NodeKind

from .strategies import topologies


def graph_of(n: int, edges: list[tuple[int, int]], **params: list[int]) -> GraphTopology:
    nodes = [Node(i, NodeKind.KERNEL, f"k{i}", {key: v[i] for key, v in params.items()}) for i in range(n)]
    return GraphTopology(nodes, dict.fromkeys(edges))


DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3)]


@st.composite
def dags(draw: st.DrawFn) -> GraphTopology:
    n = draw(st.integers(1, 12))
    place = draw(st.permutations(range(n)))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30))
    return graph_of(n, [(place[min(p)], place[max(p)]) for p in pairs if p[0] != p[1]])


@given(dags())
@settings(max_examples=80, deadline=None)
def test_order_depth_and_reachability_agree_with_networkx(graph: GraphTopology) -> None:
    oracle = graph.to_networkx()
    order = [node.id for node in graph.topological_order()]
    assert sorted(order, key=int) == list(range(len(graph)))
    assert all(order.index(e.source) < order.index(e.target) for e in graph.edges)
    assert graph.depth == networkx.dag_longest_path_length(oracle) + 1
    assert [sorted(n.id for n in level) for level in graph.levels()] == [sorted(level) for level in _levels(oracle)]
    reach = networkx.transitive_closure_dag(oracle)
    for a in oracle:
        for b in oracle:
            assert graph.precedes(a, b) == reach.has_edge(a, b)
            assert graph.ordered(a, b) == (reach.has_edge(a, b) or reach.has_edge(b, a))
            path = [node.id for node in graph.path(a, b)]
            assert bool(path) == (a == b or reach.has_edge(a, b))
            if path:
                assert len(path) == networkx.shortest_path_length(oracle, a, b) + 1
    free = {(a, b) for a in oracle for b in oracle if a < b and not graph.ordered(a, b)}
    pairs = [(a.id, b.id) for a, b in graph.unordered_pairs()]
    assert set(pairs) == free
    assert len(pairs) == len(free)
    assert {node.id for node in graph.roots} == {n for n, d in oracle.in_degree() if d == 0}
    assert {node.id for node in graph.leaves} == {n for n, d in oracle.out_degree() if d == 0}


def _levels(oracle: networkx.DiGraph[int]) -> list[list[int]]:
    depth: dict[int, int] = {}
    for node in networkx.topological_sort(oracle):
        depth[node] = max((depth[p] + 1 for p in oracle.predecessors(node)), default=0)
    return [[n for n in depth if depth[n] == level] for level in range(max(depth.values(), default=-1) + 1)]


@given(dags(), st.data())
@settings(max_examples=60, deadline=None)
def test_no_path_is_heavier_than_the_critical_path(graph: GraphTopology, data: st.DataObject) -> None:
    times = {node.id: data.draw(st.integers(0, 9)) for node in graph}
    oracle = graph.to_networkx()
    heaviest = 0
    for root in graph.roots:
        for leaf in graph.leaves:
            for path in networkx.all_simple_paths(oracle, root.id, leaf.id) if root != leaf else [[root.id]]:
                heaviest = max(heaviest, sum(times[i] for i in path))
    found = graph.critical_path(times)
    assert found.length == heaviest == sum(times[node.id] for node in found.nodes)
    assert all(graph.to_networkx().has_edge(a.id, b.id) for a, b in zip(found.nodes, found.nodes[1:], strict=False))


@given(topologies())
@settings(max_examples=60, deadline=None)
def test_cycles_are_found_exactly_where_networkx_finds_them(graph: GraphTopology) -> None:
    oracle = networkx.DiGraph([e[:2] for e in graph.edges])
    assert graph.is_acyclic == networkx.is_directed_acyclic_graph(oracle)
    cycle = [node.id for node in graph.find_cycle()]
    assert bool(cycle) == (not graph.is_acyclic)
    for a, b in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True):
        assert oracle.has_edge(a, b)


def test_a_diamond() -> None:
    graph = graph_of(4, DIAMOND, bytes=[1, 10, 100, 1])
    assert (graph.depth, graph.width) == (3, 2)
    assert [[n.id for n in level] for level in graph.parallel_sets()] == [[1, 2]]
    assert [n.id for n in graph.critical_path("bytes").nodes] == [0, 2, 3]
    assert graph.critical_path("bytes").length == 102
    assert graph.critical_path().length == 3
    assert graph.critical_path(lambda node: 5.0 if node.id == 1 else 0.0).length == 5.0
    assert not graph.ordered(1, 2)
    assert [n.id for n in graph.predecessors(3)] == [1, 2]
    assert [(a.id, b.id) for a, b in graph.unordered_pairs(kind="kernel")] == [(1, 2)]
    assert list(graph.unordered_pairs(kind="memcpy")) == []


def test_a_circle_is_named_and_search_still_works() -> None:
    graph = graph_of(4, [(0, 1), (1, 2), (2, 1), (2, 3)])
    with pytest.raises(GraphStructureError, match=r"run in a circle: (1 -> 2|2 -> 1)"):
        graph.topological_order()
    assert not graph.is_acyclic
    assert [n.id for n in graph.path(0, 3)] == [0, 1, 2, 3]
    assert not graph.ordered(0, 0)


def test_wrong_weights_and_unknown_nodes_are_refused() -> None:
    graph = graph_of(2, [(0, 1)])
    with pytest.raises(ValueError, match="negative"):
        graph.critical_path({0: -1})
    with pytest.raises(ValueError, match="nodes', 'bytes'"):
        graph.critical_path("time")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(KeyError):
        graph.path(0, 5)


def test_an_empty_graph_answers_everything() -> None:
    graph = GraphTopology()
    assert (graph.depth, graph.width, graph.roots, graph.levels()) == (0, 0, (), [])
    assert graph.critical_path().nodes == ()
    assert graph.is_acyclic
    assert GraphTopology.from_json(graph.to_json()) == graph


@pytest.mark.slow
def test_a_million_nodes_fit_and_nothing_recurses() -> None:
    n = 1_000_000
    graph = GraphTopology.from_arrays((Node(i, NodeKind.KERNEL, "k") for i in range(n)), range(n - 1), range(1, n))
    assert (graph.depth, graph.width, len(graph.edges)) == (n, 1, n - 1)
    assert len(graph.critical_path().nodes) == n
    assert graph.precedes(0, n - 1)
    assert len(graph.path(0, n - 1)) == n
    assert GraphTopology.from_json(graph.to_json()) == graph


def test_a_long_chain_and_deep_nesting_do_not_recurse() -> None:
    n = 20_000
    graph = GraphTopology.from_arrays([Node(i, NodeKind.KERNEL) for i in range(n)], range(n - 1), range(1, n))
    assert graph.depth == len(graph.critical_path().nodes) == n
    deep = {
        f"g{i}": GraphTopology([Node(0, NodeKind.CHILD_GRAPH, graphs=(f"g{i + 1}",)), Node(1, NodeKind.KERNEL)])
        for i in range(3000)
    }
    nested = GraphTopology([Node(0, NodeKind.CHILD_GRAPH, graphs=("g0",))], graphs=deep, name="root")
    assert nested.counts(per_run=True) == {"child_graph": 3001, "kernel": 3000}
    assert GraphTopology.from_json(nested.to_json()) == nested
    assert nested == nested.with_graphs(deep)
