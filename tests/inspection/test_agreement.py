"""A live graph and its dump agree, whatever ids the dump uses; and each way to disagree is seen."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphcap.dot
from graphcap.inspection import disagreements, topologies_agree
from graphcap.topology import Edge, GraphTopology, Node, NodeKind

from ..topology.strategies import topologies
from .graphs import dump, nested, step


@given(topologies())
@settings(max_examples=80, deadline=None)
def test_a_graph_agrees_with_its_own_dot(graph: GraphTopology) -> None:
    assert disagreements(graph, graphcap.dot.write(graph).encode()) == []


@given(st.permutations(range(5)))
@settings(max_examples=20, deadline=None)
def test_ids_and_the_order_of_nodes_do_not_matter(order: list[int]) -> None:
    live = step()
    nodes = [Node(f"0x{i}", live.nodes[i].kind, live.nodes[i].name, live.nodes[i].params) for i in order]
    edges = [(f"0x{e.source}", f"0x{e.target}") for e in reversed(live.edges)]
    assert topologies_agree(live, GraphTopology(nodes, edges, name="another"))


def other(change: str) -> GraphTopology:
    live = step()
    nodes, edges = list(live.nodes), [Edge(*e) for e in live.edges]
    if change == "kind":
        nodes[0] = Node(0, NodeKind.MEMSET, params=nodes[0].params)
    elif change == "name":
        nodes[1] = Node(1, NodeKind.KERNEL, "_Z5otherPf", nodes[1].params)
    elif change == "parameter":
        nodes[1] = Node(1, NodeKind.KERNEL, nodes[1].name, {**nodes[1].params, "grid": (5,)})
    elif change == "address":
        nodes[4] = Node(4, NodeKind.MEMCPY, params={**nodes[4].params, "dst": 7})
    elif change == "edge moved":
        edges[1] = Edge(1, 2)
    elif change == "edge missing":
        del edges[2]
    elif change == "edge kind":
        edges[2] = Edge(1, 3, "programmatic", 1, 0)
    elif change == "node missing":
        nodes, edges = nodes[:4], edges[:4]
    return GraphTopology(nodes, edges)


@pytest.mark.parametrize(
    "change", ["kind", "name", "parameter", "address", "edge moved", "edge missing", "edge kind", "node missing"]
)
def test_each_way_to_disagree_is_seen(change: str) -> None:
    assert topologies_agree(step(), other("nothing"))
    found = disagreements(step(), other(change))
    assert found
    assert not topologies_agree(other(change), step())


def test_only_parameters_that_both_tell_are_compared() -> None:
    live = step()
    plain = GraphTopology([Node(n.id, n.kind, n.name) for n in live.nodes], live.edges)
    assert topologies_agree(live, plain)
    dims = GraphTopology(
        [
            Node(n.id, n.kind, n.name, {"grid": n.params["grid"][:1], "block": [256]} if n.name else n.params)
            for n in live
        ],
        live.edges,
    )
    assert topologies_agree(live, dims)


def test_nested_graphs_are_compared() -> None:
    assert topologies_agree(nested(), nested())
    assert "graph 'graph_7'" in "\n".join(disagreements(nested(), nested("_Z7anotherPf")))
    missing = GraphTopology(nested().nodes, nested().edges, graphs={"graph_7": nested().graphs["graph_7"]})
    assert disagreements(nested(), missing) == ["read does not have the graph that node 2 holds"]


def test_a_driver_dump_agrees_with_the_graph_it_describes() -> None:
    child = GraphTopology([Node("c", NodeKind.KERNEL, "_Z5childPf", {"grid": (1, 1, 1), "block": (1, 1, 1)})])
    live = GraphTopology(
        [
            Node("a", NodeKind.KERNEL, "_Z5saxpyfPKfPf", {"grid": (4, 1, 1), "block": (256, 1, 1), "shared_bytes": 0}),
            Node("b", NodeKind.KERNEL, "_Z5scalePf", {"grid": (4,), "block": (256,), "shared_bytes": 0}),
            Node("m", NodeKind.MEMCPY, params={"bytes": 4096, "direction": "DtoH"}),
            Node("g", NodeKind.CHILD_GRAPH, graphs=("inner",)),
        ],
        [("a", "m"), ("b", "m"), ("m", "g")],
        graphs={"inner": child},
    )
    assert disagreements(live, dump().encode()) == []


def test_a_long_chain_of_equal_nodes_takes_linear_time() -> None:
    n = 5000
    graph = GraphTopology.from_arrays([Node(i, NodeKind.KERNEL, "k") for i in range(n)], range(n - 1), range(1, n))
    assert topologies_agree(graph, graph)
    cut = GraphTopology.from_arrays(graph.nodes, range(1, n - 1), range(2, n))
    assert not topologies_agree(graph, cut)
