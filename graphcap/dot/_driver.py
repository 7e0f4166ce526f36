"""The DOT of the CUDA driver and of HIP: clusters side by side, nodes named ``graph_N_node_K`` (dot-formats 1, 3)."""

from __future__ import annotations

import re

from graphcap.dot._build import Parts, close
from graphcap.dot._labels import parse_label
from graphcap.dot._scan import Gap, Report, Statement, closing_quote, gap_lines, statements
from graphcap.topology import GraphTopology, Node, NodeId, Source

__all__ = ["LOOKS_LIKE", "read_driver"]

LOOKS_LIKE = re.compile(
    r'"graph_\d+_node_\d+"[ \t]*(?:\[|->)|^[ \t]*label[ \t]*="graph_\d+"[ \t]*graph\[|^digraph dot \{\nsubgraph',
    re.MULTILINE,
)
_HEADLABEL = re.compile(r'\[[ \t]*headlabel[ \t]*=[ \t]*"?(\d{1,9})"?[ \t]*\]')
_HIP = re.compile(r'"graph\[style=|"shape="')


def _split(name: str) -> tuple[str, int] | None:
    """``graph_16_node_3`` -> ``("graph_16", 3)``; ``None`` for any other name."""
    graph, _, number = name.rpartition("_node_")
    if graph.startswith("graph_") and number.isdecimal() and number.isascii() and len(number) <= 18:
        return graph, int(number)
    return None


def _attribute(head: str, key: str) -> str:
    """A quoted attribute before the label; a value that a newline cuts (HIP's missing quote, H7) ends there."""
    at = head.find(key + '="')
    if at < 0:
        return ""
    at += len(key) + 2
    end = min(
        (e for e in (head.find('"', at), head.find("\n", at)) if e >= 0),
        default=len(head),
    )
    return head[at:end]


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.report = Report(text)
        self.parts: dict[str, Parts] = {}
        self.clusters: dict[str, None] = {}
        self.open_braces = 0
        self.verbose = False
        self.cut = False
        self.broken_styles = 0

    def part(self, graph: str) -> Parts:
        found = self.parts.get(graph)
        if found is None:
            found = self.parts[graph] = Parts(graph)
        return found

    def run(self) -> None:
        last: Statement | None = None
        for item in statements(self.text):
            if isinstance(item, Gap):
                self.between(item.start, item.stop, first=last is None)
                continue
            if item.what == "[":
                self.node(item)
            elif item.what == "->":
                self.edge(item)
            else:
                self.clusters[item.name] = None
                self.open_braces += 1
                graph = "graph_" + item.name.removeprefix("cluster").lstrip("_")
                self.part(graph)
                self.between(self.text.find("{", item.body, item.stop) + 1 or item.body, item.stop)
            last = item
        if self.open_braces > 0 and not self.cut:
            self.report.warn("the file ends before its closing braces: it was cut off", len(self.text))

    def between(self, start: int, stop: int, *, first: bool = False) -> None:
        """What stands between statements: braces and graph attributes are expected there, all else is damage."""
        bad: list[int] = []
        for offset, line in gap_lines(self.text, start, stop):
            if line == "}":
                self.open_braces -= 1
            elif line.startswith(("digraph", "strict ", "graph ")) and line.endswith("{"):
                self.open_braces += 1
            elif not line.startswith(("label=", "label =", "graph[", "graph [", "node[", "node [", "rankdir")):
                bad.append(offset)
        if bad:
            where = "the file starts inside a node; " if first and not self.open_braces else ""
            lines = f"{len(bad)} lines here belong" if len(bad) > 1 else "a line here belongs"
            self.report.warn(f"{where}{lines} to no statement: skipped", bad[0], skipped=1)
            if first:
                self.open_braces = min(self.open_braces, 0)

    def node(self, item: Statement) -> None:
        text = self.text
        where = _split(item.name)
        if where is None:
            self.report.warn(f"node {item.name[:80]!r} is not named graph_N_node_K", item.start, skipped=1)
            return
        at = text.find('label="', item.body, item.stop)
        begin = at + 7 if at >= 0 else item.stop
        head = text[item.body : at if at >= 0 else item.stop]
        end = closing_quote(text, begin, item.stop) if at >= 0 else -1
        label = text[begin : end if end >= 0 else item.stop]
        style, shape = _attribute(head, "style"), _attribute(head, "shape")
        told = parse_label(label, shape, style)
        self.verbose = self.verbose or label[:1] == "{"
        node = Node(where[1], told.kind, told.name, told.params, told.graphs)
        if not self.part(where[0]).add_node(node):
            self.report.warn(f"node {item.name} is told again; the first one counts", item.start, skipped=1)
        if f'="{style}\n' in head:
            self.broken_styles += 1
            if self.broken_styles == 1:
                self.report.warn(
                    f"node {item.name}: the closing quote of its style is missing, as older HIP prints it; read anyway",
                    item.start,
                )
        if end < 0:
            self.cut = self.cut or item.stop == len(text)
            self.report.warn(f"node {item.name} is cut off inside its label; what is there was kept", item.start)
        else:
            self.between(text.find("]", end, item.stop) + 1, item.stop)

    def edge(self, item: Statement) -> None:
        source, target = _split(item.name), _split(item.target)
        if source is None or target is None or source[0] != target[0]:
            why = "joins two graphs" if source and target else "names no graph_N_node_K"
            self.report.warn(f"edge {item.name[:80]!r} -> {item.target[:80]!r} {why}", item.start, skipped=1)
            return
        place = _HEADLABEL.match(self.text, item.body, item.stop)
        number = int(place[1]) if place else 0
        self.part(source[0]).add_edge(source[1], target[1], item.start, number)
        self.between(place.end() if place else item.body, item.stop)


def read_driver(text: str, file: str | None) -> GraphTopology:
    """Read the driver's DOT; what is damaged is reported, and the rest is still read."""
    reader = _Reader(text)
    reader.run()
    report, parts = reader.report, reader.parts
    if not parts:
        parts["graph"] = Parts("graph")
    origin = "hip" if _HIP.search(text) else "cuda"
    held = {name for part in parts.values() for node in part.nodes for name in node.graphs}
    roots = [name for name in parts if name not in held] or [next(iter(parts))]
    if len(roots) > 1:
        report.warn(f"no node holds {', '.join(roots[1:6])}: {roots[0]} is taken as the graph, the others as nested")
    for part in parts.values():
        part.origin = origin

    def describe(graph: str, id_: NodeId) -> str:
        return f"{graph}_node_{id_}"

    def source(report: Report) -> Source:
        return Source(file, origin, len(reader.clusters), report.skipped, reader.verbose)

    return close(parts, roots[0], report, describe, source)
