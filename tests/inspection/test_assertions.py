"""Assertions on graphs hold and fail where they should, and failures show the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphcap.inspection import assert_topology
from graphcap.topology import GraphTopology, Node, NodeKind

from .graphs import SAXPY, dump, nested, step


def test_the_chain_of_the_issue() -> None:
    checked = assert_topology(step())
    again = (
        checked.has(kernels=3).lacks("mem_alloc", "memset", "cublas").ordered("saxpy", "add").parallel("saxpy", "scale")
    )
    assert again is checked


@pytest.mark.parametrize(
    "kinds",
    [
        {"kernel": 3, "memcpy": 2, "memset": 0},
        {"kernels": "saxpy"},
        {"kernels": ["saxpy", "scale"]},
        {"kernels": {"saxpy": 1, "gemm": 0}},
        {"memcpys": 2},
    ],
)
def test_has_holds(kinds: dict[str, Any]) -> None:
    assert_topology(step()).has("saxpy", SAXPY, "saxpy(float, float const*, float*)", **kinds)


@pytest.mark.parametrize(
    ("check", "says"),
    [
        (lambda a: a.has(kernels=2), "expected 2 nodes of kind kernel; there are 3"),
        (lambda a: a.has(kernels="gemm"), "expected at least 1 nodes of kind kernel named 'gemm'; there are 0"),
        (lambda a: a.has(kernels=["add", "add"]), "expected at least 2 nodes of kind kernel named 'add'; there are 1"),
        (lambda a: a.has(kernels={"add": 2}), "expected 2 nodes of kind kernel named 'add'; there are 1"),
        (lambda a: a.has("gemm"), "expected a node named 'gemm'; there is none"),
        (lambda a: a.has(memcpy="saxpy"), "of kind memcpy named 'saxpy'; there are 0"),
        (lambda a: a.lacks("memcpy"), r"expected no 'memcpy'; there are 2: 0 \(memcpy\), 4 \(memcpy\)"),
        (lambda a: a.lacks("MEM_ALLOC", "sax"), r"expected no 'sax'; there are 1: 1 \(saxpy\)"),
        (lambda a: a.only("kernel"), r"there are also \{'memcpy': 2\}"),
        (lambda a: a.ordered("add", "saxpy"), r"expected '_Z3addPfS_' \(3\) before .* it is the other way round"),
        (lambda a: a.ordered("saxpy", "scale"), "no path of edges orders them"),
        (lambda a: a.ordered("saxpy", "gemm"), "expected a node 'gemm'; there is none"),
        (lambda a: a.ordered(0, 1, 3, 4, 2), "expected 'memcpy'"),
        (lambda a: a.parallel("saxpy", "add"), "unordered; a path joins them"),
    ],
)
def test_failures_say_what_and_show_the_graph(check: Any, says: str) -> None:
    with pytest.raises(AssertionError, match=says) as caught:
        check(assert_topology(step()))
    text = str(caught.value)
    assert "graph graph_1: 5 nodes (3 kernel, 2 memcpy), 5 edges, depth 4, width 2" in text
    assert "1 x saxpy(float, float const*, float*)" in text


def test_wrong_questions_are_errors_not_failures() -> None:
    with pytest.raises(ValueError, match="not a node kind"):
        assert_topology(step()).has(gemms=1)
    with pytest.raises(ValueError, match="not a node kind"):
        assert_topology(step()).only("gemm")
    with pytest.raises(TypeError, match="give a number"):
        assert_topology(step()).has(kernels=1.5)
    with pytest.raises(TypeError, match="is no graph"):
        assert_topology(3)


def test_all_nodes_of_a_name_count_for_order() -> None:
    nodes = [Node(i, NodeKind.KERNEL, "abba"[i]) for i in range(4)]
    graph = GraphTopology(nodes, [(0, 1), (0, 2), (1, 3)])
    assert_topology(graph).ordered(0, "b")
    with pytest.raises(AssertionError, match=r"\(2\)"):
        assert_topology(graph).ordered("b", 3)


def test_nested_graphs_count_and_order_does_not_cross_graphs() -> None:
    assert_topology(nested()).has("body", "child", kernels=3, memset=1).ordered("body", 1)
    with pytest.raises(AssertionError, match="different graphs"):
        assert_topology(nested()).ordered("saxpy", "body")


def test_it_takes_live_graphs_files_and_bytes(tmp_path: Path) -> None:
    class Live:
        def topology(self) -> GraphTopology:
            return step()

    assert_topology(Live()).has(kernels=3)
    path = tmp_path / "x.dot"
    path.write_text(dump())
    for source in (path, str(path), dump().encode(), step().to_json().encode()):
        assert_topology(source).has("saxpy")
