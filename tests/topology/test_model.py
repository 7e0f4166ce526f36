"""Nodes, edges and graphs as data: what is kept, what is refused, what is equal."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from graphcap.errors import GraphStructureError
from graphcap.topology import Edge, GraphTopology, Node, NodeKind, is_address
from graphcap.topology.kinds import PARAMETERS


def chain(n: int, **more: object) -> GraphTopology:
    return GraphTopology.from_arrays([Node(i, NodeKind.KERNEL, f"k{i}") for i in range(n)], range(n - 1), range(1, n))


def test_a_kind_is_its_word_and_parses_loosely() -> None:
    assert NodeKind.MEM_ALLOC.value == "mem_alloc"
    assert {NodeKind.MEM_ALLOC: 1}.get("mem_alloc") == 1  # type: ignore[call-overload]  # words are keys too
    assert str(NodeKind.MEM_ALLOC) == f"{NodeKind.MEM_ALLOC}" == "mem_alloc"
    for word in ("MEM_ALLOC", "mem-alloc", "mem_allocs", " Mem_Alloc "):
        assert NodeKind.parse(word) is NodeKind.MEM_ALLOC
    assert NodeKind.parse("memcpies") is NodeKind.MEMCPY
    with pytest.raises(ValueError, match="kinds are: kernel"):
        NodeKind.parse("copy")


def test_parameters_are_copied_made_plain_and_read_only() -> None:
    given = {"grid": [np.int64(4), 2], "value": np.float32(1.5), "dtype": np.dtype("f4"), "on": np.bool_(True)}
    node = Node(np.int64(3), "kernel", params=given)  # type: ignore[arg-type]  # words and NumPy ints are taken
    given["grid"] = None
    assert node.params == {"grid": (4, 2), "value": 1.5, "dtype": "float32", "on": True}
    assert type(node.id) is int
    assert type(node.params["grid"][0]) is int
    with pytest.raises(TypeError):
        node.params["grid"] = 1  # type: ignore[index]  # that is the point
    assert Node(0, NodeKind.EMPTY, params={"x": math.nan}) == Node(0, NodeKind.EMPTY, params={"x": float("nan")})


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Node(0, "copy"), "no such kind"),  # type: ignore[arg-type]  # wrong on purpose, as the next ones
        (lambda: Node(1.5, NodeKind.EMPTY), "an id is an int or a string"),  # type: ignore[arg-type]
        (lambda: Node(True, NodeKind.EMPTY), "an id is an int or a string"),
        (lambda: Node(0, NodeKind.EMPTY, params={"a": object()}), "type object cannot be kept"),
        (lambda: Node(0, NodeKind.EMPTY, params={"a": [[[[[1]]]]]}), "type list cannot be kept"),
        (lambda: GraphTopology([Node(0, NodeKind.EMPTY)] * 2), "two nodes have this id"),
        (lambda: GraphTopology([Node(0, NodeKind.EMPTY)], [(0, 7)]), "has no node 7"),
        (lambda: GraphTopology([Node(0, NodeKind.EMPTY)], [(0, 0), Edge(0, 0)]), "given twice"),
        (lambda: GraphTopology.from_arrays([Node(0, NodeKind.EMPTY)], [0], [1]), "positions out of range"),
        (lambda: GraphTopology.from_arrays([Node(0, NodeKind.EMPTY)], [0], []), "differ in length"),
        (lambda: GraphTopology(name="a", graphs={"a": GraphTopology()}), "two different graphs"),
    ],
)
def test_what_is_no_graph_is_refused_with_a_cure(wrong: object, says: str) -> None:
    with pytest.raises(GraphStructureError, match=says) as caught:
        wrong()  # type: ignore[operator]  # every entry is a function
    assert caught.value.cure


def test_two_dependencies_between_the_same_nodes_may_differ_in_kind_or_port() -> None:
    nodes = [Node(0, NodeKind.KERNEL), Node(1, NodeKind.KERNEL)]
    graph = GraphTopology(nodes, [(0, 1), (0, 1, "programmatic", 1, 0)])
    assert list(graph.edges) == [Edge(0, 1), Edge(0, 1, "programmatic", 1, 0)]
    assert graph.edges[-1].kind == "programmatic"
    assert graph.edges[:1] == (Edge(0, 1),)
    assert graph.to_networkx().edges[0, 1]["dependencies"] == (("full", 0, 0), ("programmatic", 1, 0))
    assert graph.successors(0) == (nodes[1], nodes[1])


def test_nested_graphs_lie_side_by_side_however_they_were_given() -> None:
    leaf = GraphTopology([Node(0, NodeKind.MEMSET)])
    middle = GraphTopology([Node(0, NodeKind.CHILD_GRAPH, graphs=("leaf",))], graphs={"leaf": leaf})
    root = GraphTopology([Node("c", NodeKind.CHILD_GRAPH, graphs=("middle",))], graphs={"middle": middle}, name="root")
    assert list(root.graphs) == ["middle", "leaf"]
    assert [graph.name for graph in root.walk()] == ["root", "middle", "leaf"]
    assert root.body("middle").graphs["leaf"].nodes == leaf.nodes
    assert root.counts() == {"child_graph": 2, "memset": 1}
    assert root.counts(nested=False) == {"child_graph": 1}
    assert root.graph_count == 3
    assert root.missing_graphs() == []
    assert root.body("leaf").missing_graphs() == []


def test_a_nested_graph_counts_once_or_once_for_each_run() -> None:
    leaf = GraphTopology([Node(0, NodeKind.KERNEL)])
    middle = GraphTopology([Node(i, NodeKind.CHILD_GRAPH, graphs=("leaf",)) for i in range(3)])
    nodes = [Node(i, NodeKind.CHILD_GRAPH, graphs=("middle", "gone")) for i in range(2)]
    root = GraphTopology(nodes, graphs={"leaf": leaf, "middle": middle}, name="root")
    assert root.counts()["kernel"] == 1
    assert root.counts(per_run=True) == {"kernel": 6, "child_graph": 8}
    assert root.counts()["memcpy"] == 0
    assert root.missing_graphs() == ["gone"]


def test_graphs_that_hold_each_other_are_data_too() -> None:
    a = GraphTopology([Node(0, NodeKind.CHILD_GRAPH, graphs=("b",))])
    b = GraphTopology([Node(0, NodeKind.CHILD_GRAPH, graphs=("a",))])
    root = GraphTopology([Node(0, NodeKind.CHILD_GRAPH, graphs=("a", "root"))], graphs={"a": a, "b": b}, name="root")
    assert root.counts(per_run=True)["child_graph"] == 3
    assert root.missing_graphs() == []


def test_undeclared_ends_take_part_in_order_and_are_no_nodes() -> None:
    graph = GraphTopology([Node(0, NodeKind.KERNEL)], [(0, 7), (7, 9)], undeclared=[7, 9])
    assert len(graph) == len(graph.nodes) == 1
    assert 0 in graph
    assert 7 not in graph
    assert graph.counts() == {"kernel": 1}
    assert graph.depth == 3
    assert graph.precedes(0, 9)
    assert graph.node(9).kind is NodeKind.UNKNOWN


def test_equal_means_equal_and_survives_pickling() -> None:
    graph = GraphTopology(
        [Node(0, NodeKind.KERNEL, "k", {"grid": (1,)}), Node("x", NodeKind.HOST, graphs=("g",))],
        [(0, "x", "programmatic", 1, 0)],
        graphs={"g": GraphTopology([Node(1, NodeKind.EMPTY)])},
        name="n", origin="o", warnings=["w"],
    )  # fmt: skip
    again = pickle.loads(pickle.dumps(graph))
    assert again == graph
    assert hash(again) == hash(graph)
    assert again.warnings == ("w",)
    assert graph.with_warnings([]) == graph
    assert graph != GraphTopology(graph.nodes, graph.edges, graphs=graph.graphs, name="n", origin="other")
    assert graph != GraphTopology(graph.nodes, [(0, "x")], graphs=graph.graphs, name="n", origin="o")
    assert graph != GraphTopology(graph.nodes, graph.edges, name="n", origin="o")
    assert graph != 1
    assert "1 kernel, 1 host, 1 empty" in repr(graph)


def test_find_looks_by_part_of_the_name_and_by_kind() -> None:
    graph = chain(12)
    assert [node.id for node in graph.find("k1")] == [1, 10, 11]
    assert len(graph.find(kind="kernels")) == 12
    assert graph.find("k1", "memcpy") == []


@pytest.mark.parametrize(("word", "answer"), [("src", True), ("dst", True), ("node_handle", True), ("bytes", False)])
def test_addresses_are_known_by_their_names(word: str, answer: bool) -> None:
    assert is_address(word) is answer
    assert word in PARAMETERS
