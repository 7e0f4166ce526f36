"""An XPU template as a topology."""

from __future__ import annotations

from typing import Final

from graphcap.backends.xpu.recording import NativeTemplate, Recording
from graphcap.topology import Edge, GraphTopology, Node, NodeKind

__all__ = ["describe"]

_SYCL_KINDS: Final = {
    0: NodeKind.EMPTY,
    1: NodeKind.CHILD_GRAPH,
    2: NodeKind.KERNEL,
    3: NodeKind.MEMCPY,
    4: NodeKind.MEMSET,
    5: NodeKind.MEMSET,
    6: NodeKind.MEM_PREFETCH,
    7: NodeKind.MEM_ADVISE,
    8: NodeKind.EMPTY,
    9: NodeKind.HOST,
    10: NodeKind.NATIVE_COMMAND,
    11: NodeKind.MEM_ALLOC,
    12: NodeKind.MEM_FREE,
}
"""``sycl::ext::oneapi::experimental::node_type`` by number."""


def describe(recording: Recording) -> GraphTopology:
    """The template's nodes and edges; ids are the order of recording.

    Where everything came through graphcap, names, sizes and edges are those of the calls. Work that was submitted to a queue
    directly is known by SYCL's kind alone, and then the edges are SYCL's too, its barriers looked through.
    """
    if recording.native is not None and recording.has_foreign_nodes:
        return _describe_native(recording, recording.native)
    nodes = [Node(index, work.kind, work.name, work.params) for index, work in enumerate(recording.nodes)]
    edges = [
        Edge(source, target) for target, sources in enumerate(recording.dependencies) for source in sorted(set(sources))
    ]
    return GraphTopology(nodes, edges, name=recording.name, origin="sycl")


def _describe_native(recording: Recording, native: NativeTemplate) -> GraphTopology:
    known = dict(zip(native.indices, recording.nodes, strict=True))
    waits = native.effective_predecessors()
    ids = {index: position for position, index in enumerate(waits)}
    nodes = []
    for index, position in ids.items():
        work = known.get(index)
        kind = _SYCL_KINDS.get(native.nodes[index][0], NodeKind.UNKNOWN)
        if work is not None:
            nodes.append(Node(position, work.kind, work.name, work.params))
        else:
            nodes.append(Node(position, kind, f"sycl_{kind}", {"type": f"sycl node type {native.nodes[index][0]}"}))
    edges = [Edge(ids[source], ids[target]) for target, sources in waits.items() for source in sorted(sources)]
    return GraphTopology(nodes, edges, name=recording.name, origin="sycl")
