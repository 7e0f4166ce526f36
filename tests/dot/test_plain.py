"""Any other DOT: pydot where it can, token by token where it cannot, and both say the same."""

from __future__ import annotations

import pytest

import graphcap.dot
from graphcap.dot._scan import Report
from graphcap.dot._tolerant import Collector, read_tokens
from graphcap.topology import Edge, GraphTopology

CASES = {
    "simple": ("digraph g { rankdir=LR; node [shape=box]; n0 [label=\"Kernel\\ngrid=(4,1,1)\"]; n0 -> n1; n1 -> n2; }",
               ["n0", "n1", "n2"], [("n0", "n1"), ("n1", "n2")]),
    "chains and ports": ('strict digraph { a:out:s -> b:in -> "c d"; "c d" -> e [label="x"] }',
                         ["a", "b", "c d", "e"], [("a", "b"), ("b", "c d"), ("c d", "e")]),
    "clusters": ("digraph { subgraph cluster_a { x; y -> z } subgraph inner { w } x -> w }",
                 ["w", "x", "y", "z"], [("x", "w"), ("y", "z")]),
    "html and quotes": ('digraph { a [label=<<b>bold</b> &lt;>, color="red"]; "q\\"q" -> a; }', ["a", 'q"q'], [('q"q', "a")]),
    "undirected": ("graph { a -- b -- c }", ["a", "b", "c"], [("a", "b"), ("b", "c")]),
    "comments": ("/* one */ digraph g { // two\n# three\na -> b /* four\nfive */ }", ["a", "b"], [("a", "b")]),
    "odd words": ("digraph { -1.5 -> _x9; é -> ü; edge [color=red]; a b c }",
                  ["-1.5", "_x9", "a", "b", "c", "é", "ü"], [("-1.5", "_x9"), ("é", "ü")]),
}  # fmt: skip


def read(text: str) -> GraphTopology:
    return graphcap.dot.read(text.encode())


@pytest.mark.parametrize("name", [name for name in CASES if name != "odd words"])
def test_any_dot_is_a_plain_graph(name: str) -> None:
    text, nodes, edges = CASES[name]
    graph = read(text)
    assert sorted(str(node.id) for node in graph) == nodes
    assert sorted(tuple(e[:2]) for e in graph.edges) == edges
    assert {str(node.kind) for node in graph} == {"unknown"}
    assert (graph.origin, graph.graph_count) == ("dot", 1 if name == "clusters" else 0)
    assert graph.warnings == (
        ("the graph is undirected; its edges are taken as they are written",) if name == "undirected" else ()
    )


@pytest.mark.parametrize("name", CASES)
def test_token_by_token_gives_the_same(name: str) -> None:
    text, nodes, edges = CASES[name]
    report = Report(text)
    found: Collector = read_tokens(text, 0, report)
    assert sorted(found.nodes) == nodes
    assert sorted(e[:2] for e in found.edges) == edges
    assert found.clusters == (["cluster_a"] if name == "clusters" else [])
    assert found.directed == (name != "undirected")
    assert report.warnings() == ()


def test_edges_from_whole_subgraphs_are_spread() -> None:
    graph = read("digraph { {a b} -> c; d -> {e; f -> g} }")
    assert {tuple(e[:2]) for e in graph.edges} == {
        ("a", "c"), ("b", "c"), ("d", "e"), ("d", "f"), ("d", "g"), ("f", "g"),
    }  # fmt: skip


def test_labels_that_tell_kinds_are_understood() -> None:
    graph = read(
        'digraph cuda_graph_detailed {\nn0 [label="id=0\\ntype=kernel\\nname=saxpy\\ngrid=(4,1,1)\\n'
        'dynamic_shared_mem_bytes=0"];\nn1 [label="id=1\\ntype=memcpy"];\nn2 [label="id=2\\ntype=teleport"];\n'
        'n0 -> n1 [label="from_port=1\\nto_port=0\\ndependency_type=programmatic"];\nn1 -> n2;\n}\n'
    )
    assert [str(node.kind) for node in graph] == ["kernel", "memcpy", "unknown"]
    assert graph.node("n0").name == "saxpy"
    assert graph.node("n0").params["grid"] == (4, 1, 1)
    assert graph.node("n2").params["type"] == "teleport"
    assert list(graph.edges) == [Edge("n0", "n1", "programmatic", 1, 0), Edge("n1", "n2")]


def test_damage_is_told_with_its_line_and_the_rest_is_read() -> None:
    graph = read("digraph g {\na -> b;\nb -> ] c;\nd -> e\n")
    assert {"a", "b", "c", "d", "e"} == {str(node.id) for node in graph}
    assert any(w.startswith(("line 1:", "line 2:", "line 3:")) for w in graph.warnings)
    assert any("closing braces" in w for w in graph.warnings)


def test_a_large_file_is_read_without_pydot() -> None:
    n = 5000
    text = "digraph g {\n" + "".join(f'n{i} [label="k{i}"];\nn{i} -> n{i + 1};\n' for i in range(n)) + "}\n"
    graph = read(text)
    assert len(graph) == n + 1
    assert len(graph.edges) == n
    assert graph.node("n7").name == "k7"
    assert "read token by token" in graph.warnings[0]


def test_several_graphs_in_one_file_are_read_as_one() -> None:
    graph = read("digraph a { x -> y }\ndigraph b { z }\n")
    assert len(graph) == 3
    assert any("2 graphs" in w for w in graph.warnings)
