"""Any other DOT as a plain graph: pydot reads it; what pydot cannot is read token by token."""

from __future__ import annotations

import threading
import warnings
from typing import Any

from graphcap.dot._build import Parts, close
from graphcap.dot._scan import Report
from graphcap.dot._tolerant import Collector, read_tokens
from graphcap.dot._words import snake, value_of
from graphcap.topology import GraphTopology, Node, NodeId, NodeKind, Source

__all__ = ["read_plain"]

# pydot's grammar takes 40 microseconds a character and doubles its time with each level of braces.
_PYDOT_CHARACTERS = 48_000
_PYDOT_BRACES = 5
_lock = threading.Lock()  # pydot's parser keeps global state


def _deepest(text: str) -> int:
    depth = deepest = 0
    for char in text:
        if char == "{":
            depth += 1
            deepest = max(deepest, depth)
        elif char == "}":
            depth -= 1
    return deepest


def _unquote(raw: object) -> str:
    text = str(raw)
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return text[1:-1].replace('\\"', '"').replace("\\\n", "")
    return text[1:-1] if len(text) >= 2 and text[0] == "<" and text[-1] == ">" else text


def _port_off(name: object) -> str:
    """``"a":p:n`` -> ``a``: pydot leaves the port in an edge's end."""
    text = str(name)
    if text[:1] == '"':
        end = text.find('"', 1)
        while end > 0 and text[end - 1] == "\\":
            end = text.find('"', end + 1)
        return _unquote(text[: end + 1]) if end > 0 else text
    return text.partition(":")[0]


def _ends(end: Any, found: Collector) -> list[str]:
    """The nodes that one end of an edge stands for: itself, or all nodes of a subgraph, whose edges count too."""
    if isinstance(end, str):
        return [_port_off(end)]
    inside: dict[str, None] = {}
    pending = [end]
    for item in pending:  # grows while it is walked
        data = item if hasattr(item, "keys") else item.obj_dict
        inside.update((_unquote(name), None) for name in data["nodes"])
        for source, target in data["edges"]:
            if isinstance(source, str) and isinstance(target, str):
                inside.update({_port_off(source): None, _port_off(target): None})
                found.edge(_port_off(source), _port_off(target), {})
            else:
                pending.extend(inner for inner in (source, target) if not isinstance(inner, str))
        pending.extend(sub for group in data["subgraphs"].values() for sub in group)
    return list(inside)


def _by_pydot(text: str, report: Report) -> Collector | None:
    """Read with pydot; ``None`` where it is missing or refuses."""
    try:
        with _lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its grammar uses names that pyparsing deprecates
            from pydot.dot_parser import GraphParser
            from pyparsing import ParseBaseException

            try:
                graphs = list(GraphParser.parser.parse_string(text, parse_all=True))
            except ParseBaseException as error:
                report.warn(f"{error.msg}; the file is read token by token from here on", error.loc)
                return None
    except ImportError:
        report.warn("pydot is not installed (extra `viz`): the file is read token by token, simply")
        return None
    except (RecursionError, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        report.warn(f"pydot gave up ({type(error).__name__}): the file is read token by token")
        return None
    found = Collector()
    if len(graphs) > 1:
        report.warn(f"the file holds {len(graphs)} graphs; they are read as one")
    pending = list(graphs)
    for graph in pending:  # grows while it is walked
        name = _unquote(graph.get_name() or "")
        if name.startswith("cluster") and graph.get_type() == "subgraph":
            found.clusters.append(name)
        found.directed = found.directed and graph.get_type() != "graph"
        items = [*graph.get_node_list(), *graph.get_edge_list()]
        for item in sorted(items, key=lambda item: item.get_sequence() or 0):
            told = {str(key): _unquote(value) for key, value in item.get_attributes().items()}
            if hasattr(item, "get_source"):
                targets = _ends(item.get_destination(), found)
                for source in _ends(item.get_source(), found):
                    for target in targets:
                        found.edge(source, target, told)
            elif _unquote(item.get_name()) not in ("node", "edge", "graph"):
                found.node(_port_off(item.get_name()), told)
        pending.extend(graph.get_subgraph_list())
    return found


def _node(id_: str, told: dict[str, str]) -> Node:
    label = told.get("label", "").replace("\\l", "\\n").replace("\\r", "\\n").replace("\\n", "\n")
    lines = [line.strip() for line in label.split("\n") if line.strip()]
    params: dict[str, Any] = {}
    if lines:
        params["label"] = "\n".join(lines)
    kind, name = NodeKind.UNKNOWN, lines[0] if lines and lines[0] != "\\N" else ""
    for line in lines:  # dialects that print `type=kernel`, `name=…`, `grid=…`
        key, equals, value = line.partition("=")
        if equals and key.replace("_", "").isalnum():
            key = snake(key)
            if key == "type":
                try:
                    kind = NodeKind.parse(value)
                except ValueError:
                    params["type"] = value
            elif key == "name":
                name = value
            elif key != "id":
                params[key] = value_of(value, key)
    return Node(id_, kind, name, params)


def read_plain(text: str, start: int, file: str | None) -> GraphTopology:
    """Read any DOT: every node's label, every edge; kinds are unknown unless the labels tell them."""
    report = Report(text)
    found: Collector | None = None
    if len(text) > _PYDOT_CHARACTERS:
        report.warn("a large file of an unknown dialect: read token by token")
    elif _deepest(text) <= _PYDOT_BRACES:
        found = _by_pydot(text, report)
    if found is None:
        found = read_tokens(text, start, report)
    parts = Parts("")
    parts.origin = "dot"
    if not found.directed and found.edges:
        report.warn("the graph is undirected; its edges are taken as they are written")
    for id_, told in found.nodes.items():
        parts.add_node(_node(id_, told))
    for (source, target, told), place in zip(found.edges, found.places, strict=True):
        label = dict(
            line.partition("=")[::2] for line in told.get("label", "").replace("\\n", "\n").split("\n") if "=" in line
        )
        if label.get("dependency_type") == "programmatic":
            ports = (value_of(label.get(key, "0"), "") for key in ("from_port", "to_port"))
            first, second = (port if type(port) is int else 0 for port in ports)
            parts.dependencies[len(parts.sources)] = ("programmatic", first, second)
        parts.add_edge(source, target, place)

    def describe(graph: str, id_: NodeId) -> str:
        return str(id_)

    def source_of(report: Report) -> Source:
        return Source(file, "dot", len(found.clusters), report.skipped)

    return close({"": parts}, "", report, describe, source_of)
