"""Topology -> Mermaid: a flowchart for Markdown pages, where a small graph is drawn without any tool."""

from __future__ import annotations

from graphcap.dot.describe import COLOURS, label_lines
from graphcap.dot.fold import fold_repeats
from graphcap.topology import GraphTopology, NodeKind

__all__ = ["to_mermaid"]

_ENTITIES = str.maketrans(
    {char: f"#{ord(char)};" for char in '"#&<>;|{}[]()`\\'}
    | {chr(i): " " for i in (*range(32), *range(127, 160), 0x2028, 0x2029)}
)
_SHAPES = {NodeKind.CONDITIONAL: ('{"', '"}'), NodeKind.CHILD_GRAPH: ('[["', '"]]'), NodeKind.EMPTY: ('("', '")')}


def _text(line: str) -> str:
    return line.translate(_ENTITIES)


def to_mermaid(topology: GraphTopology, *, fold: bool = False) -> str:
    """Return the graph as a Mermaid flowchart.

    Parameters
    ----------
    topology
        Any graph; nested graphs become subgraphs.
    fold
        Show a sequence of nodes that repeats once (see `graphcap.dot.fold_repeats`). Renderers refuse charts of more
        than 500 edges unless they are configured otherwise.
    """
    if fold:
        topology = fold_repeats(topology)
    lines = ["flowchart TD"]
    numbers = {graph.name: number for number, graph in enumerate(topology.walk())}
    used: dict[NodeKind, None] = {}
    links: list[str] = []
    for number, graph in enumerate(topology.walk()):
        names = {node.id: f"g{number}n{i}" for i, node in enumerate(graph.nodes)}
        names.update((id_, f"g{number}u{i}") for i, id_ in enumerate(graph.undeclared))
        if number:
            lines.append(f'  subgraph g{number}["{_text(graph.name) or " "}"]')
        for node in graph.nodes:
            used[node.kind] = None
            left, right = _SHAPES.get(node.kind, ('["', '"]'))
            label = "<br/>".join(map(_text, label_lines(node))) or " "
            lines.append(f"    {names[node.id]}{left}{label}{right}:::{node.kind}")
            links += [f"  {names[node.id]} -.-> g{numbers[name]}" for name in node.graphs if numbers.get(name)]
        for edge in graph.edges:
            arrow = "-->" if edge[2:] == ("full", 0, 0) else f'-- "{_text(edge.kind)}" -->'
            lines.append(f"    {names[edge.source]} {arrow} {names[edge.target]}")
        if number:
            lines.append("  end")
    lines += links
    lines += [f"  classDef {kind} fill:{COLOURS[kind]},stroke:#555,color:#000" for kind in used]
    return "\n".join(lines) + "\n"
