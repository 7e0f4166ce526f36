"""What a picture shows of a node: a short label, a colour by kind."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from graphcap.dot.names import short_name
from graphcap.topology import Node, NodeKind

__all__ = ["COLOURS", "dimensions", "label_lines", "size"]

#: Kind -> fill colour. Light enough for black text; kinds that belong together have neighbouring hues.
COLOURS: MappingProxyType[NodeKind, str] = MappingProxyType(
    {
        NodeKind.KERNEL: "#b7e1a1",
        NodeKind.MEMCPY: "#a9cdf2",
        NodeKind.MEMCPY_BATCH: "#a9cdf2",
        NodeKind.MEM_PREFETCH: "#c3dcf7",
        NodeKind.MEM_ADVISE: "#dbe9f9",
        NodeKind.MEMSET: "#c9c4f0",
        NodeKind.MEM_ALLOC: "#f7d38b",
        NodeKind.MEM_FREE: "#f5e3b5",
        NodeKind.HOST: "#f4b8a7",
        NodeKind.CHILD_GRAPH: "#d9d9d9",
        NodeKind.CONDITIONAL: "#f2a9d2",
        NodeKind.EVENT_RECORD: "#a6e3dc",
        NodeKind.EVENT_WAIT: "#c8efea",
        NodeKind.EXT_SEMAPHORE_SIGNAL: "#a6e3dc",
        NodeKind.EXT_SEMAPHORE_WAIT: "#c8efea",
        NodeKind.BATCH_MEM_OP: "#c9c4f0",
        NodeKind.NATIVE_COMMAND: "#e6ccb2",
        NodeKind.EMPTY: "#ffffff",
        NodeKind.UNKNOWN: "#ff9d9d",
    }
)


def size(nbytes: Any) -> str:
    """Return a byte count as people read it: ``640 B``, ``4.0 MiB``; what is no byte count is shown as it is."""
    if type(nbytes) is not int or abs(nbytes) >= 1 << 60:
        return str(nbytes)
    if abs(nbytes) < 1024:
        return f"{nbytes} B"
    value = float(nbytes)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if abs(value) < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} TiB"


def dimensions(value: Any) -> str:
    """Return a launch dimension without trailing ones: ``4096``, ``16x10x2``."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return str(value)
    dims = list(value)
    while len(dims) > 1 and dims[-1] == 1:
        dims.pop()
    return "x".join(map(str, dims))


def label_lines(node: Node) -> list[str]:
    """Return the one or two short lines that stand for a node in a picture."""
    params = node.params
    if node.kind is NodeKind.KERNEL:
        lines = [short_name(node.name) if node.name else "kernel"]
        launch = [f"{word} {dimensions(params[word])}" for word in ("grid", "block") if word in params]
        if params.get("shared_bytes"):
            launch.append(size(params["shared_bytes"]))
        return [*lines, " · ".join(launch)] if launch else lines
    head = str(params["type"]) if node.kind is NodeKind.UNKNOWN and "type" in params else str(node.kind)
    words = [str(params[key]) for key in ("direction", "condition") if key in params]
    if "bytes" in params:
        words.append(size(node.nbytes))
    if "value" in params and node.kind is NodeKind.MEMSET:
        words.append(f"= {params['value']}")
    lines = [" ".join([head, *words])]
    if node.name and node.name != str(node.kind):
        lines.append(short_name(node.name) if node.kind is NodeKind.HOST else node.name[:60])
    if node.graphs:
        lines.append(", ".join(node.graphs[:3]) + (" …" if len(node.graphs) > 3 else ""))
    return lines
