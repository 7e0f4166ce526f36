"""A live CUDA template as a topology, read through the driver."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from graphcap.backends.cuda import _driver as driver
from graphcap.backends.cuda import _graph_calls as graph_calls
from graphcap.backends.cuda import host_calls
from graphcap.backends.cuda._graph_calls import Kind, MemoryType
from graphcap.backends.cuda.captures import Conditional
from graphcap.dot.names import demangle
from graphcap.topology import Edge, GraphTopology, Node, NodeKind

__all__ = ["argument_strings", "describe"]

NO_SCALARS: Final[Mapping[int, tuple[str, ...]]] = MappingProxyType({})
_KINDS: Final = {
    Kind.KERNEL: NodeKind.KERNEL,
    Kind.MEMCPY: NodeKind.MEMCPY,
    Kind.MEMSET: NodeKind.MEMSET,
    Kind.HOST: NodeKind.HOST,
    Kind.CHILD_GRAPH: NodeKind.CHILD_GRAPH,
    Kind.EMPTY: NodeKind.EMPTY,
    Kind.EVENT_WAIT: NodeKind.EVENT_WAIT,
    Kind.EVENT_RECORD: NodeKind.EVENT_RECORD,
    Kind.SEMAPHORE_SIGNAL: NodeKind.EXT_SEMAPHORE_SIGNAL,
    Kind.SEMAPHORE_WAIT: NodeKind.EXT_SEMAPHORE_WAIT,
    Kind.MEM_ALLOC: NodeKind.MEM_ALLOC,
    Kind.MEM_FREE: NodeKind.MEM_FREE,
    Kind.BATCH_MEM_OP: NodeKind.BATCH_MEM_OP,
    Kind.CONDITIONAL: NodeKind.CONDITIONAL,
    Kind.MEMCPY_BATCH: NodeKind.MEMCPY_BATCH,
}
_LETTERS: Final = {
    MemoryType.HOST: "H", MemoryType.DEVICE: "D", MemoryType.ARRAY: "A", MemoryType.UNIFIED: "D"
}  # fmt: skip


class _Reader:
    """Reads a graph and the graphs that its nodes hold."""

    def __init__(self, conditionals: Mapping[int, Conditional], scalars: Mapping[int, tuple[str, ...]]) -> None:
        self.conditionals = conditionals
        self.scalars = scalars
        self.nested: dict[str, GraphTopology] = {}
        self.count = 0

    def graph(self, handle: int, name: str) -> GraphTopology:
        handles = graph_calls.nodes(handle)
        index = {node: i for i, node in enumerate(handles)}
        nodes = [self.node(i, node, name) for i, node in enumerate(handles)]
        edges = [
            Edge(index[e.source], index[e.target], "programmatic" if e.type else "full", e.from_port, e.to_port)
            for e in graph_calls.edges(handle)
        ]
        return GraphTopology(nodes, edges, name=name, origin="cuda", graphs=self.nested if name == "graph" else None)

    def node(self, index: int, handle: int, graph: str) -> Node:
        number = graph_calls.node_type(handle)
        kind = _KINDS.get(number)  # type: ignore[call-overload]  # an int finds the member that equals it, or nothing
        if kind is None:
            return Node(index, NodeKind.UNKNOWN, params={"type": f"driver kind {number}", "node_handle": handle})
        name, params, bodies = self.details(Kind(number), handle, f"{graph}/{index}")
        if handle in self.scalars:
            params["parameters"] = self.scalars[handle]
        return Node(index, kind, name, {**params, "node_handle": handle}, bodies)

    def details(self, kind: Kind, handle: int, path: str) -> tuple[str, dict[str, Any], tuple[str, ...]]:
        if kind is Kind.KERNEL:
            return (*_kernel(handle), ())
        if kind is Kind.MEMCPY:
            return "", _memcpy(handle), ()
        if kind is Kind.MEMSET:
            return "", _memset(handle), ()
        if kind is Kind.HOST:
            return (*_host(handle), ())
        if kind is Kind.CHILD_GRAPH:
            self.nested[path] = self.graph(graph_calls.child_graph(handle), path)
            return "", {}, (path,)
        if kind is Kind.CONDITIONAL:
            return self.conditional(handle, path)
        if kind in (Kind.EVENT_RECORD, Kind.EVENT_WAIT):
            return "", {"address": graph_calls.event_of(handle, kind)}, ()
        if kind is Kind.MEM_ALLOC:
            address, nbytes = graph_calls.alloc_params(handle)
            return "", {"address": address, "bytes": nbytes}, ()
        if kind is Kind.MEM_FREE:
            return "", {"address": graph_calls.free_address(handle)}, ()
        return "", {}, ()

    def conditional(self, handle: int, path: str) -> tuple[str, dict[str, Any], tuple[str, ...]]:
        known = self.conditionals.get(handle)
        if known is None:
            return "", {}, ()  # made by another library; the driver tells its bodies to nobody else
        words = _branches(known.word, len(known.bodies))
        names = tuple(f"{path}/{word}" for word in words)
        for name, body in zip(names, known.bodies, strict=True):
            self.nested[name] = self.graph(body, name)
        return known.word, {"condition": known.word, "branches": words, "condition_handle": known.condition}, names


def describe(
    graph: int, conditionals: Mapping[int, Conditional], scalars: Mapping[int, tuple[str, ...]] = NO_SCALARS
) -> GraphTopology:
    """The nodes, edges and nested graphs of a template. Ids are the order of creation (E-37).

    Parameters
    ----------
    conditionals
        The conditional nodes whose bodies graphcap captured.
    scalars
        The parameters that nodes take, by node.

    Raises
    ------
    DriverError
        The driver cannot read a node.
    """
    return _Reader(conditionals, scalars).graph(graph, "graph")


def _branches(word: str, count: int) -> tuple[str, ...]:
    return tuple(str(i) for i in range(count)) if word == "switch" else ("true", "false")[:count]


def _kernel(handle: int) -> tuple[str, dict[str, Any]]:
    row = graph_calls.kernel_params(handle)
    mangled = graph_calls.kernel_name(row.function, row.kernel)
    name = demangle(mangled)
    params: dict[str, Any] = {
        "grid": row.grid,
        "block": row.block,
        "shared_bytes": row.shared_bytes,
        "function_address": row.kernel or row.function,
    }
    if name != mangled:
        params["mangled_name"] = mangled
    layout = graph_calls.parameter_layout(row.function, row.kernel)
    if layout is not None and (row.parameters or not layout):
        params["arguments"] = argument_strings(row.parameters, layout)
    return name, params


def argument_strings(parameters: int, layout: tuple[graph_calls.ParameterSlot, ...]) -> tuple[str, ...]:
    """The raw values of a kernel's arguments: ``u32:0x00000400``, ``u64:0x00007f00dead0000``, ``bytes12:…`` in hex.

    The driver tells sizes, not types, so a number is given as the unsigned integer of its size.
    """
    ffi = driver.ffi()
    pointers = ffi.cast("void **", parameters)
    found = []
    for index, slot in enumerate(layout):
        raw = bytes(ffi.buffer(ffi.cast("char *", pointers[index]), slot.nbytes))
        if slot.nbytes in (1, 2, 4, 8):
            found.append(f"u{8 * slot.nbytes}:0x{int.from_bytes(raw, 'little'):0{2 * slot.nbytes}x}")
        else:
            found.append(f"bytes{slot.nbytes}:{raw.hex()}")
    return tuple(found)


def _memcpy(handle: int) -> dict[str, Any]:
    row = graph_calls.memcpy_params(handle)
    params: dict[str, Any] = {
        "bytes": row.width_bytes * max(row.height, 1) * max(row.depth, 1),
        "direction": f"{_LETTERS.get(row.source_type, '?')}to{_LETTERS.get(row.destination_type, '?')}",  # type: ignore[call-overload]  # an int finds the member that equals it
        "width_bytes": row.width_bytes,
        "height": row.height,
        "depth": row.depth,
    }
    if row.source:
        params["src"] = row.source
    if row.destination:
        params["dst"] = row.destination
    if row.height > 1:
        params["src_pitch_bytes"], params["dst_pitch_bytes"] = row.source_pitch, row.destination_pitch
    return params


def _memset(handle: int) -> dict[str, Any]:
    row = graph_calls.memset_params(handle)
    params: dict[str, Any] = {
        "bytes": row.element_bytes * row.width * max(row.height, 1),
        "dst": row.destination,
        "value": row.value,
        "element_bytes": row.element_bytes,
        "width": row.width,
        "height": row.height,
    }
    if row.height > 1:
        params["dst_pitch_bytes"] = row.pitch_bytes
    return params


def _host(handle: int) -> tuple[str, dict[str, Any]]:
    row = graph_calls.host_params(handle)
    call = host_calls.call_of(row.argument) if row.function == host_calls.trampoline()[1] else None
    return ("" if call is None else call.name), {"function_address": row.function}
