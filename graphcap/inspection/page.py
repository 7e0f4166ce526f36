"""Topology -> one HTML page that needs nothing else: pan, zoom, search, and every node's parameters."""

from __future__ import annotations

import html
import json
from functools import lru_cache
from importlib import resources
from typing import Any

from graphcap.dot.describe import COLOURS, dimensions, label_lines
from graphcap.dot.fold import fold_repeats
from graphcap.dot.names import demangle
from graphcap.inspection.layout import place
from graphcap.inspection.summary import summarize
from graphcap.topology import GraphTopology, Node, is_address

__all__ = ["LIBRARY", "to_html"]

LIBRARY = "cytoscape-3.35.0.min.js"
_WIDE, _HIGH, _APART = 226, 82, 120  # pixels: column, row, gap between graphs


@lru_cache(maxsize=2)
def _file(name: str) -> str:
    return resources.files("graphcap.inspection").joinpath(name).read_text(encoding="utf-8")


def _shown(name: str, value: Any) -> str:
    if is_address(name) and isinstance(value, int):
        return hex(value)
    return dimensions(value) if name in ("grid", "block", "cluster") else str(value)


def _node(node: Node, graph: int, x: float, y: float) -> dict[str, Any]:
    name = demangle(node.name)
    label = label_lines(node)
    return {
        "id": node.id,
        "kind": str(node.kind),
        "name": name,
        "mangled": node.name if node.name != name else "",
        "label": label,
        "text": " ".join([str(node.id), str(node.kind), name, node.name, *label]).lower(),
        "params": {key: _shown(key, value) for key, value in node.params.items()},
        "graphs": list(node.graphs),
        "graph": graph,
        "x": x,
        "y": y,
    }


def _data(topology: GraphTopology) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = []
    edges: list[list[Any]] = []
    first: dict[str, int] = {}
    left = 0.0
    for number, graph in enumerate(topology.walk()):
        places, width, _ = place(graph)
        first[graph.name] = len(nodes)
        vertices = [*graph.nodes, *(graph.node(id_) for id_ in graph.undeclared)]
        for node, (x, y) in zip(vertices, places, strict=True):
            nodes.append(_node(node, number, left + x * _WIDE, y * _HIGH))
        start = first[graph.name]
        for (a, b), edge in zip(
            zip(*(array.tolist() for array in graph.edge_arrays), strict=True), graph.edges, strict=True
        ):
            edges.append([start + a, start + b, "" if edge.kind == "full" else edge.kind])
        if vertices:
            left += (width + 1) * _WIDE + _APART
    position = 0
    for graph in topology.walk():
        for i, node in enumerate(graph.nodes):
            for name in node.graphs:
                inner = topology.graphs.get(name)
                if inner is not None and inner is not graph and inner.nodes:
                    edges.append([position + i, first[name], "body"])
        position += len(graph.nodes) + len(graph.undeclared)
    summary = summarize(topology)
    return {
        "title": topology.name or summary.file or "graph",
        "line": summary.line(),
        "warnings": list(summary.warnings[:12]),
        "kinds": summary.kinds,
        "colours": {str(kind): colour for kind, colour in COLOURS.items()},
        "graphs": [{"number": number, "name": graph.name} for number, graph in enumerate(topology.walk())],
        "nodes": nodes,
        "edges": edges,
    }


def to_html(topology: GraphTopology, *, fold: bool = False) -> str:
    """Return one page that shows the graph in any browser, from a file, with no request to anywhere.

    It holds the graph's data and a copy of the Cytoscape.js library (MIT); its content security policy forbids loading
    anything else.

    Parameters
    ----------
    topology
        Any graph.
    fold
        Show a sequence of nodes that repeats once.
    """
    if fold:
        topology = fold_repeats(topology)
    data = json.dumps(_data(topology), separators=(",", ":")).replace("<", "\\u003c")  # no tag can end the script
    page = _file("page.template.html")
    title = html.escape(topology.name or "graph")
    parts: list[str] = []
    for piece in page.split("@@"):  # the marks are @@WORD@@
        parts.append({"TITLE": title, "DATA": data, "LIBRARY": _file(f"vendor/{LIBRARY}")}.get(piece, piece))
    return "".join(parts)
