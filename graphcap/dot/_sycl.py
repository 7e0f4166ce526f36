r"""The DOT that SYCL's ``print_graph`` writes: no clusters, ids are addresses, ``\n`` as two characters (section 2)."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any

from graphcap.dot._build import Parts, close
from graphcap.dot._scan import Gap, Report, closing_quote, gap_lines, statements
from graphcap.dot._words import value_of
from graphcap.topology import GraphTopology, Node, NodeId, NodeKind, Source

__all__ = ["LOOKS_LIKE", "read_sycl"]

LOOKS_LIKE = re.compile(r'label="ID = ')

_COPIES = ["CGCopyUSM", "CGCopy2DUSM", "CGCopyToDeviceGlobal", "CGCopyFromDeviceGlobal", "CGCUpdateHost"]
_FILLS = ["CGFill", "CGFillUSM", "CGFill2DUSM", "CGMemset2DUSM"]
_KINDS: MappingProxyType[str, NodeKind] = MappingProxyType(
    {
        "None": NodeKind.EMPTY,
        "CGBarrier": NodeKind.EMPTY,
        "CGExecKernel": NodeKind.KERNEL,
        "CGHostTask": NodeKind.HOST,
        "CGPrefetchUSM": NodeKind.MEM_PREFETCH,
        "CGAdviseUSM": NodeKind.MEM_ADVISE,
        "CGExecCommandBuffer": NodeKind.CHILD_GRAPH,
        "CGNativeCommand": NodeKind.NATIVE_COMMAND,
        "CGAsyncAlloc": NodeKind.MEM_ALLOC,
        "CGAsyncFree": NodeKind.MEM_FREE,
        **dict.fromkeys(_COPIES, NodeKind.MEMCPY),
        **dict.fromkeys(_FILLS, NodeKind.MEMSET),
    }
)
_DIRECTIONS = {"Device-to-Host": "DtoH", "Host-to-Device": "HtoD", "Device-to-Device": "DtoD"}
_KEYS = (("Src:", "src"), ("Dst:", "dst"), ("Ptr:", "dst"), ("Length:", "bytes"), ("PrefetchType:", "prefetch_type"))


def _kind(word: str, params: dict[str, Any]) -> NodeKind:
    if word.startswith("CGCopy "):
        params["direction"] = _DIRECTIONS.get(word[7:].strip(), word[7:].strip())
        return NodeKind.MEMCPY
    kind = _KINDS.get(word, NodeKind.UNKNOWN)
    if kind is NodeKind.UNKNOWN or word not in ("CGExecKernel", "CGHostTask", "None"):
        params["type"] = word
    return kind


def _addresses(line: str, params: dict[str, Any]) -> None:
    """``Src: 0x.. Dst: 0x.. Length: n``; the 2-D copy leaves out the blank after ``Src:``."""
    for key, name in _KEYS:
        at = line.find(key)
        if at >= 0:
            value = line[at + len(key) : at + len(key) + 80].split()
            if value:
                params[name] = value_of(value[0], name)


def _parse(label: str) -> tuple[NodeKind, str, dict[str, Any]]:
    kind, name = NodeKind.UNKNOWN, ""
    params: dict[str, Any] = {}
    types: list[str] = []
    pointers: list[Any] = []
    label, _, pattern = label.partition(" Pattern: ")
    for line in label.split("\\n"):
        if line.startswith("TYPE = "):
            kind = _kind(line[7:].strip(), params)
        elif line.startswith("NAME = "):
            name = line[7:].strip()
        elif ") Type: " in line[:12]:
            type_, _, pointer = line.partition(") Type: ")[2].partition(" Ptr: ")
            types.append(type_.strip())
            pointers.append(value_of(pointer, "argument_address"))
        elif not line.startswith(("ID = ", "ARGS = ")):
            _addresses(line, params)
    if types:
        params["arguments"] = tuple(types)
        params["argument_addresses"] = tuple(pointers)
    if pattern:
        params["pattern"] = pattern.removesuffix("\\n")
    return kind, name, params


def read_sycl(text: str, file: str | None) -> GraphTopology:
    """Read SYCL's DOT; what is damaged is reported, and the rest is still read."""
    report = Report(text)
    parts = Parts("")
    parts.origin = "sycl"
    verbose = False
    closed = 0

    def between(start: int, stop: int) -> None:
        nonlocal closed
        for offset, line in gap_lines(text, start, stop):
            if line == "}":
                closed += 1
            elif not line.startswith(("digraph", "graph")):
                report.warn("a line here belongs to no statement: skipped", offset, skipped=1)

    for item in statements(text):
        if isinstance(item, Gap):
            between(item.start, item.stop)
        elif item.what == "[":
            at = text.find('label="', item.body, item.stop)
            end = closing_quote(text, at + 7, item.stop) if at >= 0 else -1
            label = text[at + 7 : end if end >= 0 else item.stop] if at >= 0 else ""
            kind, name, params = _parse(label)
            verbose = verbose or len(params) > 1
            if not parts.add_node(Node(item.name, kind, name, params)):
                report.warn(f"node {item.name[:80]} is told again; the first one counts", item.start, skipped=1)
            if end < 0:
                report.warn(f"node {item.name[:80]} is cut off inside its label; what is there was kept", item.start)
            else:
                between(text.find("]", end, item.stop) + 1, item.stop)
        elif item.what == "->":
            parts.add_edge(item.name, item.target, item.start)
            between(item.body, item.stop)
        else:
            report.warn("SYCL prints no clusters; this one was skipped", item.start, skipped=1)
    if not closed:
        report.warn("the file ends before its closing brace: it was cut off", len(text))

    def describe(graph: str, id_: NodeId) -> str:
        return str(id_)[:80]

    def source(report: Report) -> Source:
        return Source(file, "sycl", 0, report.skipped, verbose)

    return close({"": parts}, "", report, describe, source)
