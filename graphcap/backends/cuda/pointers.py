"""The addresses in the nodes of a CUDA template, and what the driver knows of an address.

A copy or a fill says what is an address. A kernel does not: the driver tells the sizes of its parameters, not their types. So each
aligned word of a parameter, also inside a struct passed by value, may be an address; it counts as one when graphcap, a
retained object or the driver knows memory there (CUDA 12.4 and later; older drivers do not tell the sizes, and kernels
are then left out).
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final

from graphcap.backends.cuda import _driver as driver
from graphcap.backends.cuda import _graph_calls as graph_calls
from graphcap.backends.cuda import host_calls
from graphcap.backends.cuda._graph_calls import Kind, MemoryType
from graphcap.backends.cuda.captures import Conditional
from graphcap.backends.lifetimes import PointerUse
from graphcap.backends.owners import DriverMemory, Fault, Owner
from graphcap.dot.names import demangle

__all__ = ["HostCallUse", "known_outside", "pointer_uses"]

_LOWEST: Final = 1 << 16
_HIGHEST: Final = 1 << 57  # the widest addresses of today's hosts and devices
_WORDS: Final = {Kind.KERNEL: "kernel", Kind.MEMCPY: "memcpy", Kind.MEMSET: "memset", Kind.HOST: "host"}


class HostCallUse(Owner):
    """A host call of graphcap's: the graph keeps its function and arguments."""

    def __init__(self, token: int) -> None:
        self._token = token

    @property
    def key(self) -> Hashable:
        return "host call", self._token

    def fault(self, address: int) -> Fault | None:
        return None if host_calls.call_of(self._token) is not None else Fault("its host call is gone")


class GraphAllocation(Owner):
    """Memory of an allocation node: the graph's own."""

    def fault(self, address: int) -> Fault | None:
        return None


class _Reader:
    def __init__(self, conditionals: Mapping[int, Conditional]) -> None:
        self._conditionals = conditionals
        self._names: dict[tuple[int, int], str] = {}
        self._layouts: dict[tuple[int, int], tuple[graph_calls.ParameterSlot, ...] | None] = {}
        self._allocations: list[tuple[int, int]] = []
        self._graphs_own = GraphAllocation()

    def graph(self, handle: int, inside: str = "", position: int | None = None) -> Iterator[PointerUse]:
        """Every use in a graph and in the graphs that its nodes hold."""
        nodes = graph_calls.nodes(handle)
        for node in nodes:
            if graph_calls.node_type(node) == Kind.MEM_ALLOC:
                address, nbytes = graph_calls.alloc_params(node)
                self._allocations.append((address, address + nbytes))
        for index, node in enumerate(nodes):
            number = graph_calls.node_type(node)
            for use in self._node(number, node, f"node {index}{inside}", index if position is None else position):
                own = use.owner is None and any(low <= use.address < high for low, high in self._allocations)
                yield use._replace(owner=self._graphs_own) if own else use

    def _node(self, number: int, node: int, where: str, position: int) -> Iterator[PointerUse]:
        if number == Kind.KERNEL:
            yield from self._kernel(node, where, position)
        elif number == Kind.MEMCPY:
            yield from _memcpy(node, f"{where} (memcpy)", position)
        elif number == Kind.MEMSET:
            yield from _memset(node, f"{where} (memset)", position)
        elif number == Kind.HOST:
            yield from _host(node, where, position)
        elif number == Kind.CHILD_GRAPH:
            yield from self.graph(graph_calls.child_graph(node), f" of the child graph in {where}", position)
        elif number == Kind.CONDITIONAL:
            known = self._conditionals.get(node)
            for branch, body in enumerate(() if known is None else known.bodies):
                yield from self.graph(body, f" of body {branch} of {where}", position)

    def _kernel(self, node: int, where: str, position: int) -> Iterator[PointerUse]:
        row = graph_calls.kernel_params(node)
        key = row.function, row.kernel
        if key not in self._layouts:
            self._layouts[key] = graph_calls.parameter_layout(*key)
            self._names[key] = demangle(graph_calls.kernel_name(*key))
        layout = self._layouts[key]
        if not layout or not row.parameters:
            return
        label = f"{where} (kernel {self._names[key]!r})"
        for index, word, offset in words_of(row.parameters, layout):
            at = f"argument {index}" if not offset else f"argument {index} at byte {offset}"
            yield PointerUse(label, at, word, certain=False, position=position)


def pointer_uses(graph: int, conditionals: Mapping[int, Conditional]) -> Iterator[PointerUse]:
    """The uses of memory in a template, node by node in the order of creation.

    Raises
    ------
    DriverError
        The driver cannot read a node.
    """
    return _Reader(conditionals).graph(graph)


def words_of(parameters: int, layout: tuple[graph_calls.ParameterSlot, ...]) -> Iterator[tuple[int, int, int]]:
    """The words of a kernel's arguments that may be addresses: argument, word, offset in the argument."""
    ffi = driver.ffi()
    pointers = ffi.cast("void **", parameters)
    for index, slot in enumerate(layout):
        count = slot.nbytes // 8
        if count:
            raw = bytes(ffi.buffer(ffi.cast("char *", pointers[index]), 8 * count))
            for place, word in enumerate(struct.unpack(f"<{count}Q", raw)):
                if _LOWEST <= word < _HIGHEST:
                    yield index, word, 8 * place


def _memcpy(node: int, where: str, position: int) -> Iterator[PointerUse]:
    row = graph_calls.memcpy_params(node)
    for name, address, pitch, writes in (
        ("source", row.source, row.source_pitch, False),
        ("destination", row.destination, row.destination_pitch, True),
    ):
        if address:
            rows = max(row.height, 1) * max(row.depth, 1)
            nbytes = row.width_bytes if rows == 1 else (rows - 1) * (pitch or row.width_bytes) + row.width_bytes
            yield PointerUse(where, name, address, nbytes, not writes, writes, position=position)


def _memset(node: int, where: str, position: int) -> Iterator[PointerUse]:
    row = graph_calls.memset_params(node)
    width = row.element_bytes * row.width
    nbytes = width if row.height <= 1 else (row.height - 1) * row.pitch_bytes + width
    yield PointerUse(where, "destination", row.destination, nbytes, False, True, position=position)


def _host(node: int, where: str, position: int) -> Iterator[PointerUse]:
    row = graph_calls.host_params(node)
    if row.function == host_calls.trampoline()[1]:
        call = host_calls.call_of(row.argument)
        name = "" if call is None else f" {call.name!r}"
        yield PointerUse(f"{where} (host{name})", "the call", row.argument, owner=HostCallUse(row.argument))
    elif row.argument:
        yield PointerUse(
            f"{where} (host)", "the data of a host call of another library", row.argument, position=position
        )


def known_outside(address: int) -> tuple[Owner | None, str] | None:
    """What the driver says of an address that nobody in graphcap knows."""
    kind = _attribute("MEMORY_TYPE", address)
    if kind is None:
        return None
    start, size = _attribute("RANGE_START_ADDR", address), _attribute("RANGE_SIZE", address)
    words = "host" if int(kind) == MemoryType.HOST else "device"
    extent = f", an allocation of {int(size)} bytes at {int(start):#x}" if start and size else ""
    return DriverMemory(address, identity), f"{words} memory of another library{extent}"


def identity(address: int) -> Hashable:
    """A number that no other allocation ever has; ``None`` where there is no memory."""
    found = _attribute("BUFFER_ID", address)
    return None if found is None else int(found)


def _attribute(name: str, address: int) -> Any:
    which = getattr(driver.bindings().CUpointer_attribute, f"CU_POINTER_ATTRIBUTE_{name}")
    code, value = driver.answer("cuPointerGetAttribute", which, address)
    return None if code else value
