"""Topology <-> JSON, version 1. The schema lies beside this file."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphcap.errors import GraphStructureError
from graphcap.topology.graph import GraphTopology
from graphcap.topology.node import Node

__all__ = ["FORMAT", "VERSION", "decode_value", "dumps", "encode_value", "loads", "to_data"]

FORMAT = "graphcap.topology"
VERSION = 1


def encode_value(value: Any) -> Any:
    """Turn a parameter's value into what JSON has. What it lacks becomes an object with one key ``$...``."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if isinstance(value, complex):
        return {"$complex": [encode_value(value.real), encode_value(value.imag)]}
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if isinstance(value, tuple):
        return [encode_value(item) for item in value]
    return value


def decode_value(value: Any) -> Any:
    """Undo `encode_value`.

    Raises
    ------
    ValueError
        An object that is not one of the three with a ``$`` key.
    """
    if isinstance(value, list):
        return tuple(decode_value(item) for item in value)
    if isinstance(value, dict):
        if len(value) == 1:
            ((key, inner),) = value.items()
            if key == "$float":
                return float(inner)
            if key == "$complex":
                real, imag = inner
                return complex(float(decode_value(real)), float(decode_value(imag)))
            if key == "$bytes":
                return bytes.fromhex(inner)
        raise ValueError(f"{value!r} is not a parameter's value")
    return value


def _level(graph: GraphTopology) -> dict[str, Any]:
    nodes = []
    for node in graph.nodes:
        item: dict[str, Any] = {"id": node.id, "kind": str(node.kind)}
        if node.name:
            item["name"] = node.name
        if node.params:
            item["params"] = {key: encode_value(value) for key, value in node.params.items()}
        if node.graphs:
            item["graphs"] = list(node.graphs)
        nodes.append(item)
    data: dict[str, Any] = {"name": graph.name}
    if graph.origin:
        data["origin"] = graph.origin
    data["nodes"] = nodes
    data["edges"] = [list(edge[:2]) if edge[2:] == ("full", 0, 0) else list(edge) for edge in graph.edges]
    if graph.undeclared:
        data["undeclared"] = list(graph.undeclared)
    return data


def to_data(graph: GraphTopology) -> dict[str, Any]:
    """Return the graph as what ``json.dumps`` takes."""
    data = {"format": FORMAT, "version": VERSION, **_level(graph)}
    if graph.graphs:
        data["graphs"] = {name: _level(inner) for name, inner in graph.graphs.items()}
    if graph.warnings:
        data["warnings"] = list(graph.warnings)
    return data


def dumps(graph: GraphTopology, *, indent: int | None = None) -> str:
    """Return the graph as JSON text: ASCII, keys in a fixed order, so that equal graphs give equal text."""
    return json.dumps(to_data(graph), indent=indent, allow_nan=False, separators=None if indent else (",", ":"))


def _bad(where: str, what: str) -> GraphStructureError:
    return GraphStructureError(
        f"JSON topology, {where}", what, "The schema is graphcap/topology/topology-1.schema.json."
    )


def _get(data: Mapping[str, Any], key: str, kind: type, where: str, default: Any) -> Any:
    value = data.get(key, default)
    if not isinstance(value, kind):
        raise _bad(f"{where}{key}", f"a {kind.__name__} was expected, not {type(value).__name__}")
    return value


_ID = (int, str)
_EDGE_TYPES = {
    2: (_ID, _ID),
    3: (_ID, _ID, (str,)),
    4: (_ID, _ID, (str,), (int,)),
    5: (_ID, _ID, (str,), (int,), (int,)),
}


def _is(value: Any, types: tuple[type, ...]) -> bool:
    return type(value) in types  # exact types: a bool is no id


def _read_node(item: Any, where: str) -> Node:
    if not isinstance(item, dict) or "id" not in item or "kind" not in item:
        raise _bad(where, "a node is an object with `id` and `kind`")
    names = _get(item, "graphs", list, where + ".", [])
    if not all(isinstance(name, str) for name in names):
        raise _bad(where + ".graphs", "names are strings")
    try:
        params = {k: decode_value(v) for k, v in _get(item, "params", dict, where + ".", {}).items()}
        return Node(item["id"], item["kind"], _get(item, "name", str, where + ".", ""), params, tuple(names))
    except (TypeError, ValueError) as error:
        raise _bad(where, str(error)) from error


def _read_level(data: Any, where: str, **more: Any) -> GraphTopology:
    if not isinstance(data, dict):
        raise _bad(where or "top", "an object was expected")
    nodes = [_read_node(item, f"{where}nodes[{i}]") for i, item in enumerate(_get(data, "nodes", list, where, None))]
    edges = _get(data, "edges", list, where, None)
    for i, item in enumerate(edges):
        if not (isinstance(item, list) and len(item) in _EDGE_TYPES and all(map(_is, item, _EDGE_TYPES[len(item)]))):
            raise _bad(f"{where}edges[{i}]", "an edge is [source, target] or [source, target, kind, port, port]")
    undeclared = _get(data, "undeclared", list, where, [])
    if not all(_is(id_, _ID) for id_ in undeclared):
        raise _bad(f"{where}undeclared", "ids are ints or strings")
    try:
        return GraphTopology(
            nodes, edges, undeclared=undeclared, name=_get(data, "name", str, where, ""),
            origin=_get(data, "origin", str, where, ""), **more,
        )  # fmt: skip
    except GraphStructureError as error:
        raise _bad(where or "top", str(error)) from error


def from_data(data: Any) -> GraphTopology:
    """Undo `to_data`; raises `GraphStructureError` that says where the data is not a topology."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise _bad("top", f'not a topology: an object with "format": "{FORMAT}" was expected')
    if data.get("version") != VERSION:
        raise _bad("version", f"version {data.get('version')!r} is not known to this graphcap (it knows {VERSION})")
    graphs = {
        name: _read_level(inner, f"graphs[{name!r}].") for name, inner in _get(data, "graphs", dict, "", {}).items()
    }
    warnings = _get(data, "warnings", list, "", [])
    return _read_level(data, "", graphs=graphs, warnings=[str(text) for text in warnings])


def loads(text: str | bytes | os.PathLike[str]) -> GraphTopology:
    """Read JSON text, or the file of a path object."""
    if isinstance(text, os.PathLike):
        text = Path(text).read_bytes()
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _bad("top", f"the text is not JSON ({error or type(error).__name__})") from error
    return from_data(data)
