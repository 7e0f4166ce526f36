"""Topology -> DOT -> topology is an identity; the text is clean, stable, and what Graphviz takes."""

from __future__ import annotations

import shutil
import subprocess
import warnings

import pydot
import pytest
from hypothesis import given, settings

import graphcap.dot
from graphcap.topology import GraphTopology, Node, NodeKind

from ..topology.strategies import topologies


@given(topologies())
@settings(max_examples=120, deadline=None)
def test_dot_is_an_identity(graph: GraphTopology) -> None:
    text = graphcap.dot.write(graph)
    again = graphcap.dot.read(text.encode())
    assert again == graph
    assert again.source is not None
    assert again.source.format == "graphcap"
    assert again.graph_count == graph.graph_count == 1 + len(graph.graphs)
    assert again.source.skipped == 0
    assert graphcap.dot.write(again) == text


@given(topologies())
@settings(max_examples=50, deadline=None)
def test_links_are_for_pictures_and_no_edges(graph: GraphTopology) -> None:
    assert graphcap.dot.read(graphcap.dot.write(graph, links=True).encode()) == graph


def layers(count: int) -> GraphTopology:
    """A memset, then layers of four nodes with a fork in each, then a copy; addresses differ in every layer."""
    nodes = [Node(0, NodeKind.MEMSET, params={"bytes": 640, "value": 0})]
    edges = []
    last = 0
    for i in range(count):
        a, b, c, d = range(len(nodes), len(nodes) + 4)
        nodes += [
            Node(a, NodeKind.KERNEL, "qkv", {"grid": (4, 1, 1), "function_address": i}),
            Node(b, NodeKind.KERNEL, "attention", {"grid": (8, 1, 1)}),
            Node(c, NodeKind.KERNEL, "mlp", {"grid": (8, 1, 1)}),
            Node(d, NodeKind.KERNEL, "add", {"src": i}),
        ]
        edges += [(last, a), (a, b), (a, c), (b, d), (c, d)]
        last = d
    nodes.append(Node(len(nodes), NodeKind.MEMCPY, params={"bytes": 640, "direction": "DtoH"}))
    edges.append((last, len(nodes) - 1))
    return GraphTopology(nodes, edges, name="graph_1")


def test_repeats_fold_into_one_nested_graph() -> None:
    graph = layers(24)
    folded = graphcap.dot.fold_repeats(graph)
    assert [node.kind for node in folded.topological_order()] == ["memset", "child_graph", "memcpy"]
    repeat = folded.find(kind="child_graph")[0]
    assert repeat.params["repeats"] == 24
    assert repeat.name == "qkv … x 24"
    inner = folded.graphs[repeat.graphs[0]]
    assert [node.name for node in inner.nodes] == ["qkv", "attention", "mlp", "add"]
    assert len(inner.edges) == 4
    text = graphcap.dot.write(graph, fold=True)
    assert graphcap.dot.read(text.encode()) == folded
    assert len(text) < len(graphcap.dot.write(graph)) / 8


def test_what_does_not_repeat_does_not_fold() -> None:
    different = GraphTopology([Node(i, NodeKind.KERNEL, f"k{i}") for i in range(9)], [(i, i + 1) for i in range(8)])
    assert graphcap.dot.fold_repeats(different) is different
    # The order is a b a b both times, but the second pair is not wired like the first.
    nodes = [Node(i, NodeKind.KERNEL, "ab"[i % 2]) for i in range(4)]
    wired = GraphTopology(nodes, [(0, 1), (1, 2), (2, 3)])
    assert len(graphcap.dot.fold_repeats(wired)) == 1
    unwired = GraphTopology(nodes, [(0, 1), (1, 2), (1, 3)])
    assert [node.id for node in unwired.topological_order()] == [0, 1, 2, 3]
    assert graphcap.dot.fold_repeats(unwired) is unwired


@given(topologies(acyclic=True))
@settings(max_examples=60, deadline=None)
def test_folding_keeps_a_graph_acyclic(graph: GraphTopology) -> None:
    folded = graphcap.dot.fold_repeats(graph)
    assert folded.is_acyclic
    assert folded.counts(per_run=True) is not None


def shown() -> GraphTopology:
    body = GraphTopology([Node('in"ner\\', NodeKind.KERNEL, 'f<"x">|{y}\\')])
    return GraphTopology(
        [
            Node(0, NodeKind.KERNEL, "_ZN7cutlass7Kernel2IiEEvT_", {"grid": (16, 10, 2), "block": (128, 1, 1)}),
            Node(1, NodeKind.CONDITIONAL, params={"condition": "if", "branches": ("true",)}, graphs=("body",)),
            Node(-2, NodeKind.MEMSET, params={"bytes": 5 * 2**20, "value": 0}),
        ],
        [(0, 1), (-2, 1, "programmatic", 1, 0)],
        graphs={"body": body},
        name="graph & <one>",
    )


def test_the_label_is_short_and_the_rest_is_there_too() -> None:
    text = graphcap.dot.write(shown())
    assert 'label="Kernel2\\ngrid 16x10x2 · block 128"' in text
    assert 'label="memset 5.0 MiB = 0"' in text
    assert text.count("\n") == len(text.splitlines()) == 2 + 1 + 2 * 3 + 4 + 2 + 1


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize("links", [False, True])
def test_graphviz_renders_it(links: bool) -> None:
    text = graphcap.dot.write(shown(), links=links, fold=True)
    done = subprocess.run(["dot", "-Tsvg"], input=text.encode(), capture_output=True, timeout=60, check=True)
    assert done.stderr == b""
    svg = done.stdout.decode()
    assert svg.count('class="node"') == 4
    assert svg.count('class="edge"') == 2 + (1 if links else 0)
    assert svg.count('class="cluster"') == 2
    assert "graph &amp; &lt;one&gt;" in svg


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@given(topologies())
@settings(max_examples=15, deadline=None)
def test_graphviz_finds_no_fault_in_any_graph(graph: GraphTopology) -> None:
    text = graphcap.dot.write(graph, links=True)
    done = subprocess.run(["dot", "-Tcanon"], input=text.encode(), capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b""), text


def test_another_parser_sees_the_same_nodes_and_edges() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydot builds its grammar with names that pyparsing deprecates
        found = pydot.graph_from_dot_data(graphcap.dot.write(layers(3)))
    assert found is not None
    (cluster,) = found[0].get_subgraphs()
    names = {node.get_name() for node in cluster.get_nodes()} - {"graph", "node"}
    assert len(names) == 14
    assert len(cluster.get_edges()) == 16
