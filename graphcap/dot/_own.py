"""The DOT that `graphcap.dot.write` wrote, read back without loss."""

from __future__ import annotations

import json
import re
from typing import Any

from graphcap.dot._build import Parts, close
from graphcap.dot._scan import Gap, Report, Statement, attributes, gap_lines, statements
from graphcap.dot.writer import MARK
from graphcap.errors import GraphStructureError
from graphcap.topology import GraphTopology, Node, NodeId, NodeKind, Source
from graphcap.topology._json import decode_value

__all__ = ["LOOKS_LIKE", "read_own"]

LOOKS_LIKE = re.compile(re.escape(f'comment="{MARK}"'))
_PREFIX = re.compile(r"g(\d{1,9})\.")
_INT = re.compile(r"n(-?\d{1,4000})$", re.ASCII)


def _json_text(text: str) -> Any:
    return json.loads(f'"{text}"')


def _id(name: str) -> tuple[int, NodeId] | None:
    """``g1.n3`` -> ``(1, 3)``, ``sabc`` -> ``(0, "abc")``; ``None`` for any other name."""
    cluster = 0
    prefix = _PREFIX.match(name)
    if prefix:
        cluster, name = int(prefix[1]), name[prefix.end() :]
    number = _INT.match(name)
    if number:
        return cluster, int(number[1])
    if name[:1] == "s":
        try:
            return cluster, _json_text(name[1:])
        except ValueError:
            return None
    return None


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.report = Report(text)
        self.parts: dict[int, Parts] = {}

    def part(self, number: int) -> Parts:
        if number not in self.parts:
            self.parts[number] = Parts(f"graph_{number}")
        return self.parts[number]

    def run(self) -> None:
        current = 0
        for item in statements(self.text):
            if isinstance(item, Gap):
                self.between(item.start, item.stop, None)
            elif item.what == "{":
                digits = item.name.removeprefix("cluster_")
                current = int(digits) if digits.isdecimal() and len(digits) < 9 else current
                self.part(current)
                self.between(self.text.find("{", item.body, item.stop) + 1 or item.body, item.stop, current)
            else:
                try:
                    rest = self.node(item) if item.what == "[" else self.edge(item)
                except (GraphStructureError, ValueError, TypeError, RecursionError) as error:
                    why = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
                    self.report.warn(f"{item.name[:80]}: {why}", item.start, skipped=1)
                    continue
                self.between(rest, item.stop, None)

    def between(self, start: int, stop: int, cluster: int | None) -> None:
        for offset, line in gap_lines(self.text, start, stop):
            if cluster is not None and line.startswith("graph ["):
                try:
                    self.graph(self.part(cluster), self.text.index("[", offset) + 1, stop)
                except (ValueError, TypeError, RecursionError) as error:
                    self.report.warn(f"the cluster's attributes: {error}"[:200], offset, skipped=1)
            elif line != "}" and not line.startswith(("digraph ", "graph [", "node [")):
                self.report.warn("a line here belongs to no statement: skipped", offset, skipped=1)

    def graph(self, part: Parts, start: int, stop: int) -> None:
        told, _ = attributes(self.text, start, stop)
        part.name = _json_text(told.get("graph_name", part.name))
        part.origin = _json_text(told.get("origin", ""))
        undeclared = json.loads(told.get("undeclared", "[]"))
        if not isinstance(undeclared, list) or not all(type(id_) in (int, str) for id_ in undeclared):
            raise ValueError("`undeclared` is a list of ids")
        part.undeclared = undeclared

    def node(self, item: Statement) -> int:
        where = _id(item.name)
        told, rest = attributes(self.text, item.body, item.stop)
        if where is None or "kind" not in told or rest < 0:
            raise ValueError("the node is cut off" if rest < 0 else "not a node that graphcap wrote")
        params = json.loads(told.get("params", "{}"))
        graphs = json.loads(told.get("graphs", "[]"))
        if not isinstance(params, dict) or not isinstance(graphs, list) or not all(type(g) is str for g in graphs):
            raise ValueError("`params` is an object and `graphs` a list of names")
        node = Node(
            where[1],
            NodeKind(told["kind"]),
            _json_text(told.get("function", "")),
            {key: decode_value(value) for key, value in params.items()},
            tuple(graphs),
        )
        if not self.part(where[0]).add_node(node):
            self.report.warn(f"node {item.name[:80]} is told again; the first one counts", item.start, skipped=1)
        return rest

    def edge(self, item: Statement) -> int:
        told: dict[str, str] = {}
        rest = item.body
        if self.text[rest : rest + 1] == "[":
            told, rest = attributes(self.text, rest + 1, item.stop)
        if told.get("link") == "body":
            return rest
        source, target = _id(item.name), _id(item.target)
        if source is None or target is None or source[0] != target[0] or rest < 0:
            raise ValueError("not an edge that graphcap wrote")
        part = self.part(source[0])
        if "dependency" in told:
            ports = int(told.get("from_port", "0")[:9]), int(told.get("to_port", "0")[:9])
            part.dependencies[len(part.sources)] = (_json_text(told["dependency"]), *ports)
        part.add_edge(source[1], target[1], item.start)
        return rest


def read_own(text: str, file: str | None) -> GraphTopology:
    """Read graphcap's DOT; what is damaged is reported, and the rest is still read."""
    reader = _Reader(text)
    reader.run()
    parts: dict[str, Parts] = {}
    for number in sorted(reader.parts):
        part = reader.parts[number]
        if part.name in parts:
            reader.report.warn(f"two clusters are named {part.name!r}; the second is left out", skipped=1)
        parts.setdefault(part.name, part)
    if not parts:
        parts[""] = Parts("")
    clusters = len(reader.parts)

    def describe(graph: str, id_: NodeId) -> str:
        return repr(id_)[:80]

    def source(report: Report) -> Source:
        return Source(file, "graphcap", clusters, report.skipped, verbose=True)

    return close(parts, next(iter(parts)), reader.report, describe, source)
