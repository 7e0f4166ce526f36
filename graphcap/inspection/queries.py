"""What the command line asks of graphs and files; no terminal here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import graphcap.dot
from graphcap.dot.names import demangle
from graphcap.inspection.assertions import GraphAssertion, matching
from graphcap.inspection.load import looks_like_graph
from graphcap.inspection.mermaid import to_mermaid
from graphcap.inspection.page import to_html
from graphcap.inspection.picture import render
from graphcap.topology import GraphTopology, Node, NodeKind
from graphcap.topology._json import encode_value

__all__ = [
    "Problem",
    "assert_there",
    "converted",
    "failure_of",
    "files_of",
    "kind_of",
    "node_data",
    "sorted_nodes",
    "two_nodes",
    "words_of",
    "write_whole",
]  # fmt: skip


class Problem(Exception):
    """Something the user has to mend; printed as one line, exit code 2."""


def files_of(given: Sequence[str]) -> list[str]:
    """Folders become the graphs in them, sorted; everything else stays."""
    files: list[str] = []
    for name in given:
        path = Path(name)
        if name != "-" and path.is_dir():
            inside = sorted(str(p) for p in path.rglob("*") if p.is_file() and looks_like_graph(p))
            if not inside:
                raise Problem(
                    f"{name}: the folder holds no graph dumps (.dot, .gv, .json, or files that start like one)"
                )
            files += inside
        else:
            files.append(name)
    return files


def kind_of(word: str) -> NodeKind:
    """Return the node kind of a word, or say which words there are."""
    try:
        return NodeKind.parse(word)
    except ValueError as error:
        raise Problem(str(error)) from None


def words_of(given: Sequence[str] | None) -> list[str]:
    """Return the words of options that may be repeated and hold several words parted by commas."""
    return [word.strip() for text in given or () for word in text.split(",") if word.strip()]


def assert_there(asserting: GraphAssertion, word: str) -> None:
    """Assert that a kind, or a node of a name, is there."""
    try:
        kind = NodeKind.parse(word)
    except ValueError:
        asserting.has(word)
        return
    if not any(node.kind is kind for node in asserting.topology.all_nodes()):
        raise AssertionError(f"expected a node of kind {kind}; there is none")


def failure_of(name: str, assertion: Callable[[], object]) -> list[tuple[str, str]]:
    """Return what an assertion says, with the file's name; nothing where it holds."""
    try:
        assertion()
    except AssertionError as error:
        return [(name, str(error).split("\n", 1)[0])]
    return []


def sorted_nodes(level: GraphTopology, sort: str) -> Sequence[Node]:
    """Return a graph's nodes by ``order`` (as the edges demand), ``id``, ``name``, ``kind`` or ``bytes`` (most first)."""
    if sort == "order":
        order = level.topological_order() if level.is_acyclic else level.nodes
        return [node for node in order if node.id in level]
    keys = {
        "id": lambda n: (isinstance(n.id, str), n.id),
        "name": lambda n: demangle(n.name),
        "kind": lambda n: str(n.kind),
        "bytes": lambda n: -n.nbytes,
    }
    return sorted(level.nodes, key=keys[sort])


def node_data(node: Node) -> dict[str, Any]:
    """Return a node as what ``json.dumps`` takes."""
    return {
        "id": node.id,
        "kind": str(node.kind),
        "name": node.name,
        "demangled": demangle(node.name),
        "params": {key: encode_value(value) for key, value in node.params.items()},
        "graphs": list(node.graphs),
    }


def _one_node(level: GraphTopology, what: str) -> Node | None:
    nodes = [*level.nodes, *(level.node(id_) for id_ in level.undeclared)]
    prefix = f"{level.name}_node_"
    found = matching(nodes, what.removeprefix(prefix) if level.name else what)
    if len(found) > 1:
        ids = ", ".join(str(node.id) for node in found[:8]) + (" …" if len(found) > 8 else "")
        raise Problem(f"{what!r} means {len(found)} nodes: {ids}. Give an id.")
    return found[0] if found else None


def two_nodes(graph: GraphTopology, a: str, b: str) -> tuple[GraphTopology, Node, Node]:
    """Return the graph that has both nodes, and the nodes: by id, name, part of a name, or ``graph_N_node_K``."""
    for level in graph.walk():
        first, second = _one_node(level, a), _one_node(level, b)
        if first is not None and second is not None:
            return level, first, second
    raise Problem(f"no graph of the file has both {a!r} and {b!r}; `graphcap nodes` lists what there is")


def converted(graph: GraphTopology, to: str, fold: bool, links: bool) -> bytes:
    """Return a graph as the bytes of a file of a format."""
    if to == "json":
        return (graph.to_json(indent=1) + "\n").encode()
    if to == "dot":
        return graphcap.dot.write(graph, fold=fold, links=links).encode()
    if to == "mermaid":
        return to_mermaid(graph, fold=fold).encode()
    if to == "html":
        return to_html(graph, fold=fold).encode()
    return render(graph, "png" if to == "png" else "svg", fold=fold)


def write_whole(target: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    partial = target.with_name(target.name + ".part")
    try:
        partial.write_bytes(data)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
