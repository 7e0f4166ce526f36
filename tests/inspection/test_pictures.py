"""Mermaid, SVG and PNG, and what is said where Graphviz is missing or slow."""

from __future__ import annotations

import re
import shutil

import pytest
from hypothesis import given, settings

from graphcap.errors import GraphcapError
from graphcap.inspection import render, to_mermaid
from graphcap.topology import GraphTopology, Node, NodeKind

from ..topology.strategies import topologies
from .graphs import nested, step

NEEDS_GRAPHVIZ = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")


def test_mermaid_of_a_step() -> None:
    text = to_mermaid(step())
    assert text.startswith("flowchart TD\n")
    assert 'g0n1["saxpy<br/>grid 4 · block 256"]:::kernel' in text
    assert text.count("-->") == 5
    assert "classDef kernel" in text
    inner = to_mermaid(nested())
    assert 'subgraph g1["graph_7"]' in inner
    assert "g0n1 -.-> g1" in inner
    assert "g0n2 -.-> g2" in inner


@given(topologies())
@settings(max_examples=60, deadline=None)
def test_no_name_breaks_mermaid(graph: GraphTopology) -> None:
    lines = to_mermaid(graph).splitlines()
    form = re.compile(
        r'flowchart TD|  subgraph g\d+\["[^"]*"\]|  end|    g\d+n\d+[\[({"]+[^"\[\](){}|]*["\])}]+:::\w+'
        r'|    g\d+[nu]\d+ (-->|-- "[^"]*" -->) g\d+[nu]\d+|  g\d+n\d+ -\.-> g\d+|  classDef \w+ fill:#\w+,.*'
    )
    for line in lines:
        assert form.fullmatch(line.replace("<br/>", " ")), line


def test_mermaid_folds_repeats() -> None:
    nodes = [Node(i, NodeKind.KERNEL, "ab"[i % 2]) for i in range(40)]
    line = GraphTopology(nodes, [(i, i + 1) for i in range(39)])
    assert to_mermaid(line, fold=True).count(":::kernel") < 4


@NEEDS_GRAPHVIZ
def test_graphviz_draws_every_kind() -> None:
    graph = GraphTopology([Node(i, kind, "k") for i, kind in enumerate(NodeKind)])
    svg = render(graph, "svg").decode()
    assert svg.count('class="node"') == len(NodeKind)
    assert render(graph, "png").startswith(b"\x89PNG\r\n")


@NEEDS_GRAPHVIZ
def test_too_slow_and_failing_graphviz_say_so(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    with pytest.raises(GraphcapError, match=r"took more than 0 s.*html"):
        render(step(), seconds=1e-6)
    with pytest.raises(GraphcapError, match="Graphviz failed"):
        render(step(), "teapot")  # type: ignore[arg-type]  # wrong on purpose: Graphviz refuses it


def test_a_missing_graphviz_is_told_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GraphcapError, match=r"Graphviz is not installed.*apt install graphviz"):
        render(step())
