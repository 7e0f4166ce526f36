"""Topology -> DOT: clean, stable, and complete, so that `graphcap.dot.read` gives the same topology back.

One statement per line. Every graph is a cluster; nested graphs are siblings, as drivers print them. A node's DOT name
is its id (``n3`` for the int 3, ``s…`` for a string), with ``g1.`` and so on before it in nested graphs. What a
picture needs (label, colour, tooltip) stands beside what a reader needs (kind, name, params as JSON text).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from graphcap.dot.describe import COLOURS, label_lines
from graphcap.dot.fold import fold_repeats
from graphcap.topology import Edge, GraphTopology, Node, NodeId, NodeKind
from graphcap.topology._json import encode_value

__all__ = ["MARK", "node_name", "write"]

MARK = "graphcap.topology 1"
_HEAD = f"""\
digraph graphcap {{
graph [comment="{MARK}", compound=true, fontname="Helvetica"];
node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=11];
"""


def as_json(value: Any) -> str:
    r"""Return JSON text whose only backslashes are those of ``\n``, ``\u0022`` and the like: safe in a DOT string.

    DOT has one escape, the quote, so a backslash of JSON's own must never stand before one.
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    if "\\" in text:
        # Pairs are taken from the left, so an escaped backslash never lends its second half to what follows.
        parts = text.split("\\\\")
        text = "\\u005c".join(part.replace('\\"', "\\u0022") for part in parts)
    return text


def _quoted_json(value: Any) -> str:
    return '"' + as_json(value).replace('"', '\\"') + '"'


def _quoted_text(value: str) -> str:
    return '"' + as_json(value)[1:-1] + '"'  # a JSON string without its own quotes holds no quote


_CONTROL = dict.fromkeys(range(32), " ") | {127: " "}


def _label(lines: list[str]) -> str:
    shown = [line.translate(_CONTROL).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    return '"' + "\\n".join(shown) + '"'


def node_name(id_: NodeId, cluster: int) -> str:
    """Return the DOT name, without quotes, of a node in the cluster of that number (0: the graph itself)."""
    prefix = f"g{cluster}." if cluster else ""
    return f"{prefix}n{id_}" if isinstance(id_, int) else f"{prefix}s{as_json(id_)[1:-1]}"


def _node_line(node: Node, cluster: int) -> str:
    lines = label_lines(node)
    parts = [f"label={_label(lines)}", f'kind="{node.kind}"', f'fillcolor="{COLOURS[node.kind]}"']
    if node.name:
        parts.append(f"function={_quoted_text(node.name)}")  # pydot cannot take an attribute `name`
    if node.params:
        params = {key: encode_value(value) for key, value in node.params.items()}
        parts.append(f"params={_quoted_json(params)}")
    if node.graphs:
        parts.append(f"graphs={_quoted_json(list(node.graphs))}")
    if node.kind is NodeKind.CONDITIONAL:
        parts.append("shape=diamond")
    elif node.graphs:
        parts.append("peripheries=2")
    return f'"{node_name(node.id, cluster)}" [{", ".join(parts)}];\n'


def _edge_line(edge: Edge, cluster: int) -> str:
    ends = f'"{node_name(edge.source, cluster)}" -> "{node_name(edge.target, cluster)}"'
    if edge[2:] == ("full", 0, 0):
        return f"{ends};\n"
    data = f"dependency={_quoted_text(edge.kind)}, from_port={edge.from_port}, to_port={edge.to_port}"
    return f"{ends} [{data}, style=dashed];\n"


def _cluster(graph: GraphTopology, number: int) -> Iterator[str]:
    yield f"subgraph cluster_{number} {{\n"
    data = [f"label={_label([graph.name])}", f"graph_name={_quoted_text(graph.name)}"]
    if graph.origin:
        data.append(f"origin={_quoted_text(graph.origin)}")
    if graph.undeclared:
        data.append(f"undeclared={_quoted_json(list(graph.undeclared))}")
    yield f"graph [{', '.join(data)}, style=dashed];\n"
    for node in graph.nodes:
        yield _node_line(node, number)
    for edge in graph.edges:
        yield _edge_line(edge, number)
    yield "}\n"


def _links(graph: GraphTopology) -> Iterator[str]:
    """Dotted arrows from the nodes that hold a nested graph to its first node."""
    numbers = {name: i for i, name in enumerate([graph.name, *graph.graphs])}
    for level in graph.walk():
        for node in level.nodes:
            for name in node.graphs:
                inner = graph.graphs.get(name)
                if inner is not None and inner.nodes and inner is not level:
                    first = node_name(inner.nodes[0].id, numbers[name])
                    source = node_name(node.id, numbers[level.name])
                    yield f'"{source}" -> "{first}" [style=dotted, lhead="cluster_{numbers[name]}", link=body];\n'


def iter_dot(topology: GraphTopology, *, fold: bool = False, links: bool = False) -> Iterator[str]:
    """Yield the DOT text of `write` line by line, for graphs whose text should not lie in memory at once."""
    if fold:
        topology = fold_repeats(topology)
    yield _HEAD
    for number, graph in enumerate(topology.walk()):
        yield from _cluster(graph, number)
    if links:
        yield from _links(topology)
    yield "}\n"


def write(topology: GraphTopology, *, fold: bool = False, links: bool = False) -> str:
    """Return a topology as DOT text.

    Parameters
    ----------
    topology
        Any graph. Equal graphs give equal text; nothing in it depends on addresses, except parameters that are
        addresses themselves.
    fold
        Show a sequence of nodes that repeats (layers) once, as a nested graph with its number of repeats. The text is
        then that of the folded graph.
    links
        Add a dotted arrow from each node that holds a nested graph to that graph: for pictures. They are no edges of
        the graph, and `read` leaves them out.

    Returns
    -------
    str
        DOT that Graphviz renders and that `graphcap.dot.read` turns back into an equal topology. Encode it as UTF-8.
    """
    return "".join(iter_dot(topology, fold=fold, links=links))
