"""``cuGraphDebugDotPrint``: the driver's own text (dot-formats, sections 1.2 and 1.3), with its flags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cuda.bindings import driver as cu

from tests.emulated_device import harness
from tests.emulated_device.harness import Board, ok

pytestmark = pytest.mark.skipif(not harness.emulated(), reason="the text of a real driver changes with its release")

VERBOSE, KERNEL, COPY, FILL, ATTRIBUTES = 1, 4, 8, 16, 512


@pytest.fixture
def board() -> Iterator[Board]:
    with harness.board() as made:
        yield made


def dot(graph: object, tmp_path: Path, flags: int) -> str:
    path = tmp_path / f"graph-{flags}"
    ok(cu.cuGraphDebugDotPrint(graph, str(path).encode(), flags))
    return path.read_text()


def sample(board: Board) -> object:
    """memset -> kernel -> copy, and a second copy behind the memset that joins there."""
    first, second = board.stream(), board.stream()
    a, b, event = board.buffer(1024), board.buffer(1024), board.event()

    def work() -> None:
        ok(cu.cuMemsetD8Async(a, 3, 128, first))
        ok(cu.cuEventRecord(event, first))
        ok(cu.cuStreamWaitEvent(second, event, 0))
        ok(cu.cuMemcpyAsync(b, a, 64, second))
        board.launch(
            board.kernel("fill"), first, np.uint64(a), np.float32(1), np.int32(8), grid=(2, 3), block=32, shared=16
        )
        ok(cu.cuEventRecord(event, second))
        ok(cu.cuStreamWaitEvent(first, event, 0))
        ok(cu.cuMemcpyAsync(b, a, 32, first))

    return board.capture(first, work)


GRAMMAR = re.compile(
    r"digraph dot \{\n"
    r"(subgraph cluster_(?P<n>\d+) \{\n"
    r'label="graph_(?P=n)" graph\[style="dashed"\];\n'
    r'("graph_(?P=n)_node_\d+"\[style="\w+" (style="\w+" )?shape="\w+" label="[^"]*"\];\n\n)*'
    r'("graph_(?P=n)_node_\d+" -> "graph_(?P=n)_node_\d+" \[headlabel=\d+\];\n)*'
    r"\}\n)+\}\n"
)


@pytest.mark.parametrize("flags", [0, VERBOSE, KERNEL, COPY, FILL, ATTRIBUTES, 0xFFFF])
def test_the_grammar(board: Board, tmp_path: Path, flags: int) -> None:
    assert GRAMMAR.fullmatch(dot(sample(board), tmp_path, flags))


def test_the_plain_form(board: Board, tmp_path: Path) -> None:
    text = dot(sample(board), tmp_path, 0)
    assert re.search(r'node_2"\[style="bold" shape="octagon" label="2\nfill\n"\];\n\n', text)
    assert "0x" not in text
    assert re.findall(r'node_(\d+)" -> "graph_\d+_node_(\d+)" \[headlabel=(\d)\]', text) == [
        ("0", "1", "0"),
        ("0", "2", "0"),
        ("1", "3", "1"),
        ("2", "3", "0"),
    ]


def test_the_verbose_form(board: Board, tmp_path: Path) -> None:
    text = dot(sample(board), tmp_path, VERBOSE)
    kernel = text[text.index('label="{KERNEL') :]
    lines = kernel[: kernel.index('"];')].splitlines()
    assert lines[0] == 'label="{KERNEL'
    assert re.fullmatch(r"\| \{ID \| 2 \(topoId: \d\) \| fill\\<\\<\\<\\\{2,3\\\},32,16\\>\\>\\>\}", lines[1])
    assert re.fullmatch(r"\| \{\{node handle \| func handle\} \| \{0x[0-9A-F]{16} \| 0x[0-9A-F]{16}\}\}", lines[2])
    assert lines[3:] == [
        "| {accessPolicyWindow | {base_ptr | num_bytes | hitRatio | hitProp | missProp} "
        "| {0x0000000000000000 | 0 | 0.000000 | N | N}}",
        "| {cooperative | 0}",
        "| {priority | 0}",
        "| {cluster dim | (0,0,0)}",
        "| {preferred cluster dim | (0,0,0)}",
        "| {cluster scheduling policy preference | 1}",
        "}",
    ]
    assert (
        '[style="solid" style="solid" shape="record" label="{MEMSET\n| {{ID | node handle | dptr | pitch | value'
        in text
    )
    assert text.count("| {kind | DtoD (DEVICE to DEVICE)}") == 2
    assert "{Extent | {{Width | 64} | {Height | 1} | {Depth | 1}}}" in text
    ids = {int(k): int(t) for k, t in re.findall(r"(\d) \(topoId: (\d)\)", text)}
    assert ids[0] > ids[1] > ids[3]
    assert ids[0] > ids[2] > ids[3]


def test_children_and_bodies_are_flat_clusters(board: Board, tmp_path: Path) -> None:
    outer, inner = board.graph(), board.graph()
    ok(cu.cuGraphAddEmptyNode(inner, None, 0))
    child = ok(cu.cuGraphAddChildGraphNode(outer, None, 0, inner))
    params = cu.CUgraphNodeParams()
    params.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    params.conditional.handle = ok(cu.cuGraphConditionalHandleCreate(outer, board.context, 1, 1))
    params.conditional.type = cu.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF
    params.conditional.size = 2
    params.conditional.ctx = board.context
    ok(cu.cuGraphAddNode(outer, [child], None, 1, params))
    numbers = [
        ok(cu.cuGraphGetId(g))
        for g in (outer, ok(cu.cuGraphChildGraphNodeGetGraph(child)), *params.conditional.phGraph_out)
    ]
    text = dot(outer, tmp_path, VERBOSE)
    assert re.findall(r"subgraph cluster_(\d+)", text) == [str(number) for number in numbers]
    assert (
        f"\nCONDITIONAL\n| {{ID | 1}}\n| {{Conditional Type| IF}}\n| {{True|graph_{numbers[2]}}}\n| {{False|graph_{numbers[3]}}}\n}}\n"
        in text
    )
    assert f"0 (topoId: 1)\ngraph_{numbers[1]}\n" in text
    assert GRAMMAR.fullmatch(text)


def test_a_folder_that_is_not_there(board: Board) -> None:
    assert harness.code(cu.cuGraphDebugDotPrint(board.graph(), b"/nowhere/at/all.dot", 0)) == 304
