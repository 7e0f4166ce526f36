"""Whatever holds a graph -> its topology: a live graph, a dump of any producer, JSON, the bytes of either."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeAlias

import graphcap.dot
from graphcap.errors import GraphStructureError
from graphcap.topology import GraphTopology, Source

__all__ = ["GraphLike", "load", "load_bytes", "looks_like_graph"]

#: A topology, an object with a method ``topology()`` (a live graph), a path, or a file's bytes.
GraphLike: TypeAlias = "GraphTopology | os.PathLike[str] | str | bytes | Any"
_JSON_STARTS = (b"{", b"[")
_DOT_STARTS = (b"digraph", b"graph", b"strict", b"//", b"/*", b"#", b'"graph_', b"|")


def _head(data: bytes) -> bytes:
    return data[:512].removeprefix(b"\xef\xbb\xbf").lstrip()


def looks_like_graph(path: os.PathLike[str] | str) -> bool:
    """Say whether a file in a folder is worth reading: by its suffix, or by how it starts."""
    path = Path(path)
    if path.suffix.lower() in (".dot", ".gv"):
        return True
    try:
        with path.open("rb") as file:
            head = _head(file.read(512))
    except OSError:
        return False
    if path.suffix.lower() == ".json":
        return b"graphcap.topology" in head
    return head.startswith(_DOT_STARTS[:3])


def load(source: GraphLike) -> GraphTopology:
    """Return the topology of anything that holds one.

    Parameters
    ----------
    source
        A `GraphTopology`; a live graph (anything with a method ``topology()``); a path to DOT or JSON; the bytes of such
        a file. What it is shows in its first bytes, so suffixes do not matter.

    Raises
    ------
    DotSyntaxError
        The file is neither a graph dump nor JSON, or it is empty.
    GraphStructureError
        The JSON is no topology.
    OSError
        The file cannot be read.
    TypeError
        The object holds no graph.
    """
    if isinstance(source, GraphTopology):
        return source
    if hasattr(source, "topology"):
        found = source.topology()
        if isinstance(found, GraphTopology):
            return found
    if isinstance(source, bytes | bytearray | memoryview):
        return load_bytes(bytes(source))
    if isinstance(source, str | os.PathLike):
        return load_bytes(Path(source).read_bytes(), os.fspath(source))
    raise TypeError(f"{type(source).__name__} is no graph: give a topology, a live graph, a path, or a file's bytes.")


def load_bytes(data: bytes, file: str | None = None) -> GraphTopology:
    """Read a file's bytes as `load` does; ``file`` is the name that messages give."""
    if not _head(data).startswith(_JSON_STARTS):
        return graphcap.dot.read_bytes(data, file)
    try:
        graph = GraphTopology.from_json(data)
    except GraphStructureError as error:
        raise GraphStructureError(f"{file or '<bytes>'}: {error.asked}", error.state, error.cure) from error
    return graph.with_warnings(graph.warnings, Source(file, "json", 1 + len(graph.graphs), verbose=True))
