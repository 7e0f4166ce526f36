"""The summary counts what is there and points at what deserves a second look."""

from __future__ import annotations

import json

from graphcap.inspection import load, summarize
from graphcap.topology import GraphTopology, Node, NodeKind

from ..dot.producers import K, cuda
from .graphs import dump, nested, step


def test_a_dump_in_numbers() -> None:
    summary = summarize(load(dump().encode()))
    assert (summary.nodes, summary.edges, summary.graphs) == (5, 3, 2)
    assert summary.kinds == {"kernel": 3, "memcpy": 1, "child_graph": 1}
    assert summary.kernels == {
        "saxpy(float, float const*, float*)": 1, "scale(float*)": 1, "child(float*)": 1,
    }  # fmt: skip
    assert summary.bytes_moved == {"memcpy DtoH": 4096}
    assert (summary.depth, summary.width) == (3, 2)
    assert [root.split(":")[0] for root in summary.roots] == ["0", "1"]
    assert summary.warnings == ()
    assert any("kernel arguments" in note for note in summary.notes)
    data = json.loads(json.dumps(summary.to_data()))
    assert {"nodes", "edges", "graphs", "kinds", "warnings"} <= data.keys()


def warned(graph: GraphTopology, word: str) -> bool:
    return any(word in warning for warning in summarize(graph).warnings)


def test_what_deserves_a_second_look() -> None:
    assert not summarize(step()).warnings
    assert not summarize(nested()).warnings
    open_child = GraphTopology([Node(0, NodeKind.CHILD_GRAPH, graphs=("graph_9",))])
    assert warned(open_child, "graph_9 was not entered")
    loose = GraphTopology([Node(0, NodeKind.KERNEL)], graphs={"g": GraphTopology()})
    assert warned(loose, "no node holds g")
    line = GraphTopology([Node(i, NodeKind.KERNEL) for i in range(8)], [(i, i + 1) for i in range(7)])
    assert warned(line, "one chain")
    circle = GraphTopology([Node(0, NodeKind.KERNEL), Node(1, NodeKind.KERNEL)], [(0, 1), (1, 0)])
    assert warned(circle, "circle")
    assert summarize(circle).depth is None
    strange = GraphTopology([Node(0, NodeKind.UNKNOWN, params={"type": "TELEPORT"})], origin="cuda")
    assert warned(strange, "TELEPORT x 1")


def copies(second: dict[str, int]) -> GraphTopology:
    first = Node(0, NodeKind.MEMCPY, params={"src": 100, "dst": 200, "bytes": 50})
    return GraphTopology([first, Node(1, NodeKind.MEMCPY, params={"bytes": 50, **second})], [(0, 1)])


def test_copies_that_share_no_memory_could_run_in_parallel() -> None:
    assert warned(copies({"src": 300, "dst": 400}), "could run in parallel: 0 -> 1")
    assert warned(copies({"src": 100, "dst": 400}), "could run in parallel")  # both only read it
    for shared in ({"src": 200, "dst": 400}, {"src": 300, "dst": 249}, {"src": 300, "dst": 100}, {"src": 300}, {}):
        assert not warned(copies(shared), "could run in parallel")


def test_a_plain_dump_says_what_it_lacks() -> None:
    plain = load(cuda({1: ([K("KERNEL", "k")], [])}, verbose=False).encode())
    assert any("plain dump" in note for note in summarize(plain).notes)
