"""Nodes of an executable, to be changed between replays: new arguments, on and off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphcap.backends.cuda import _graph_calls as graph_calls
from graphcap.backends.cuda import host_calls
from graphcap.backends.cuda._graph_calls import Kind, MemoryType
from graphcap.backends.cuda.context import DeviceGuard, Relaxed, primary_context
from graphcap.backends.cuda.launch import Parameters, dimensions
from graphcap.backends.cuda.operands import Operand, operand, pattern_of
from graphcap.backends.cuda.scalars import KernelBinding
from graphcap.backends.parameters import Scalar, refuse_in_host_call
from graphcap.errors import DriverError, GraphcapError, GraphStateError, GraphUpdateError, UnsupportedError
from graphcap.topology import Node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphcap.backends.cuda.graph import CUDAGraphImpl

__all__ = ["NodeHandle", "find_node", "first_difference"]


class NodeHandle:
    """One node of an instantiated graph.

    Changes reach the executable only: they hold from the next replay until the next ``instantiate`` or ``update``, and
    ``topology()`` goes on to tell what was captured. A replay in flight is not changed.

    Attributes
    ----------
    id
        The node's place in the order of creation.
    described
        The node as captured, with kind, name and parameters.
    """

    def __init__(self, graph: CUDAGraphImpl, handle: int, described: Node) -> None:
        self._graph = graph
        self._handle = handle
        self._executable = graph.raw_graph_exec()
        self.id = described.id
        self.described = described

    @property
    def enabled(self) -> bool:
        """Whether replays do the node's work. May be set.

        Raises
        ------
        UnsupportedError
            Only kernels, copies and fills can be switched off (E-29).
        """
        self._check("NodeHandle.enabled", Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
        return graph_calls.is_enabled(self._executable, self._handle, "NodeHandle.enabled")

    @enabled.setter
    def enabled(self, enabled: bool) -> None:
        self._check("NodeHandle.enabled", Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
        with DeviceGuard(self._graph.device_index), Relaxed():
            graph_calls.set_enabled(self._executable, self._handle, bool(enabled), "NodeHandle.enabled")

    def enable(self) -> None:
        """Let replays do the node's work again."""
        self.enabled = True

    def disable(self) -> None:
        """Let replays skip the node's work; what depends on it still waits for what it waited for."""
        self.enabled = False

    def set_args(
        self,
        *args: Any,
        grid: int | Sequence[int] | None = None,
        block: int | Sequence[int] | None = None,
        shared: int | None = None,
    ) -> None:
        """Give the node new arguments.

        Parameters
        ----------
        *args
            Of a kernel: all its arguments, as for ``Stream.launch``. Of a copy: destination and source. Of a fill: destination and
            value. Of a host call: the function and its arguments. The graph owns them from then on.
        grid, block, shared
            Of a kernel: other launch dimensions; as captured if not given.

        Raises
        ------
        TypeError, ValueError
            The arguments do not fit the node.
        GraphUpdateError
            The driver refuses them: for example other operand kinds or, of a two-dimensional fill, another size (S-D44).
        UnsupportedError
            Nodes of this kind have no arguments.
        GraphStateError
            The graph was instantiated again or reset since this handle was made.
        """
        kind = self._check("set_args()", Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.HOST)
        if kind is not Kind.KERNEL and (grid, block, shared) != (None, None, None):
            raise TypeError(f"set_args(): grid, block and shared belong to a kernel; this is a {self.described.kind}.")
        try:
            with DeviceGuard(self._graph.device_index), Relaxed():
                if kind is Kind.KERNEL:
                    self._set_kernel(args, grid, block, shared)
                elif kind is Kind.MEMCPY:
                    self._set_memcpy(*_pair(args, "a copy takes a destination and a source"))
                elif kind is Kind.MEMSET:
                    self._set_memset(*_pair(args, "a fill takes a destination and a value"))
                else:
                    self._set_host(args)
        except DriverError as error:
            raise GraphUpdateError(
                f"set_args() on node {self.id} ({self.described.kind})",
                f"the driver refuses: {error.name} ({error.code})",
                "The node replays as before. What cannot be changed in place needs a new capture, or update().",
            ) from error

    def _set_kernel(
        self,
        args: tuple[Any, ...],
        grid: int | Sequence[int] | None,
        block: int | Sequence[int] | None,
        shared: int | None,
    ) -> None:
        row = graph_calls.kernel_params(self._handle)
        parameters = Parameters(args, graph_calls.parameter_layout(row.function, row.kernel))
        new = row._replace(
            grid=row.grid if grid is None else dimensions(grid, "grid"),
            block=row.block if block is None else dimensions(block, "block"),
            shared_bytes=row.shared_bytes if shared is None else shared,
            parameters=parameters.address,
        )
        self._keep(*parameters.operands)
        graph_calls.set_kernel_params(self._executable, self._handle, new, "set_args()")
        bound = KernelBinding(parameters.values, parameters.scalars, self.described.name, new)
        self._graph.rebind(self._handle, bound if parameters.scalars else None)

    def _set_memcpy(self, dst: Any, src: Any) -> None:
        target, source = operand(dst, "set_args() destination"), operand(src, "set_args() source")
        if target.nbytes != source.nbytes:
            raise ValueError(f"set_args(): the destination has {target.nbytes} bytes, the source {source.nbytes}.")
        if target.read_only:
            raise ValueError("set_args() destination: the memory is read-only.")
        row = graph_calls.memcpy_params(self._handle)
        new = row._replace(
            source=source.address,
            destination=target.address,
            source_type=MemoryType.DEVICE if source.on_device else MemoryType.HOST,
            destination_type=MemoryType.DEVICE if target.on_device else MemoryType.HOST,
            width_bytes=target.nbytes,
            height=1,
            depth=1,
        )
        self._keep(target, source)
        graph_calls.set_memcpy_params(self._executable, self._handle, new, self._context(), "set_args()")

    def _set_memset(self, dst: Any, value: Any) -> None:
        target = operand(dst, "set_args() destination")
        if not target.on_device or target.read_only:
            raise ValueError("set_args() destination: writable device memory is needed.")
        if isinstance(value, Scalar):
            raise TypeError(
                "set_args(): a fill of the executable takes a number; capture it with the parameter instead."
            )
        pattern = pattern_of(value, target.dtype)
        if len(pattern) > 4:
            raise ValueError(
                f"set_args(): {value!r} as {target.dtype} needs {len(pattern) // 4} fills of 4 bytes; this node is one of them."
            )
        row = graph_calls.memset_params(self._handle)
        pattern *= row.element_bytes // len(pattern) if len(pattern) <= row.element_bytes else 1
        new = row._replace(
            destination=target.address,
            value=int.from_bytes(pattern, "little"),
            element_bytes=len(pattern),
            width=target.nbytes // len(pattern),
            height=1,
        )
        self._keep(target)
        graph_calls.set_memset_params(self._executable, self._handle, new, self._context(), "set_args()")
        self._graph.rebind(self._handle, None)

    def _set_host(self, args: tuple[Any, ...]) -> None:
        if not args:
            raise TypeError("set_args(): a host call takes a function and its arguments.")
        refuse_in_host_call(args[1:])
        call = host_calls.HostCall(self._graph._backend.host_errors, args[0], args[1:])
        self._graph.retain(call)
        graph_calls.set_host_params(self._executable, self._handle, call.token, "set_args()")

    def _keep(self, *operands: Operand) -> None:
        for memory in operands:
            self._graph.retain(memory.owner)
        self._graph.uses_changed(self.id, [memory.owner for memory in operands])

    def _context(self) -> int:
        return primary_context(self._graph.device_index)

    def _check(self, asked: str, *kinds: Kind) -> Kind:
        if self._graph._executable != self._executable or not self._executable:
            raise GraphStateError(
                asked, "the graph was instantiated again or reset since", "Ask the graph for the node again: node()."
            )
        number = graph_calls.node_type(self._handle)
        if number not in kinds:
            raise UnsupportedError("CUDA", f"{asked} on a {self.described.kind} node", "node_update")
        return Kind(number)

    def __repr__(self) -> str:
        return f"<graphcap.NodeHandle {self.id} {self.described.kind} {self.described.name!r}>"


def _pair(args: tuple[Any, ...], what: str) -> tuple[Any, Any]:
    if len(args) != 2:
        raise TypeError(f"set_args(): {what}; {len(args)} arguments were given.")
    return args[0], args[1]


def find_node(graph: CUDAGraphImpl, which: int | str) -> NodeHandle:
    """As :meth:`CUDAGraphImpl.node`."""
    topology = graph.topology()
    if isinstance(which, str):
        named = [node for node in topology.nodes if which in (node.name, node.params.get("mangled_name"))]
        if len(named) != 1:
            names = ", ".join(sorted({repr(node.name) for node in topology.nodes if node.name})) or "none"
            told = "no node" if not named else f"{len(named)} nodes: use one of the ids {[node.id for node in named]}"
            raise KeyError(f"node({which!r}): {told} of that name. The names are: {names}.")
        described = named[0]
    elif isinstance(which, int) and not isinstance(which, bool) and 0 <= which < len(topology.nodes):
        described = topology.nodes[which]
    else:
        raise KeyError(f"node({which!r}): the ids are 0 to {len(topology.nodes) - 1}.")
    return NodeHandle(graph, int(described.params["node_handle"]), described)


def first_difference(own: CUDAGraphImpl, other: CUDAGraphImpl, node: int) -> str:
    """The first node that differs between two graphs, in words: the one that the driver names, or found by comparing."""
    try:
        new = other.topology()
    except GraphcapError:
        return ""
    for described in new.nodes:
        if described.params["node_handle"] == node:
            return _words(described)
    try:
        old = own.topology()
    except GraphcapError:
        return ""  # the own template is gone; the driver named no node
    for before, after in zip(old.nodes, new.nodes, strict=False):
        if before.kind is not after.kind:
            return f"{_words(after)}, which was a {before.kind}"
    if len(old.nodes) != len(new.nodes):
        return f"the number of nodes, {len(new.nodes)} instead of {len(old.nodes)}"
    return "an edge" if set(old.edges) != set(new.edges) else ""


def _words(node: Node) -> str:
    return f"node {node.id} ({node.kind}{f' {node.name!r}' if node.name else ''})"
