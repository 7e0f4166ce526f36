"""Graphs that several rules and probes are about: memory nodes, conditionals, copies, capture into a graph, updates."""

from __future__ import annotations

from typing import Any, NamedTuple

from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench
from tests.driver_rules.calls import pool_properties
from tests.driver_rules.driving import MODES, Code, add_node_call, address_of, code, entry, ffi, handle, ok

# -- capture into a graph ----------------------------------------------------------------------------------------------


def begin_to_graph(stream: Any, graph: Any, after: list[Any], mode: str = "global") -> int:
    """cuStreamBeginCaptureToGraph with plain edges; the code."""
    return code(cu.cuStreamBeginCaptureToGraph(stream, graph, after, None, len(after), MODES[mode]))


# -- memory nodes ------------------------------------------------------------------------------------------------------


def alloc_params(bench: Bench, nbytes: int) -> Any:
    """Parameters of an allocation node on the bench's device."""
    params = cu.CUDA_MEM_ALLOC_NODE_PARAMS()
    params.poolProps = pool_properties(bench)
    params.bytesize = nbytes
    return params


def add_alloc(bench: Bench, graph: Any, nbytes: int = 256, after: list[Any] | None = None) -> tuple[Any, Any]:
    """An allocation node; the node and the address it gives."""
    after, params = after or [], alloc_params(bench, nbytes)
    node = ok(cu.cuGraphAddMemAllocNode(graph, after, len(after), params))
    return node, params.dptr


def add_free(graph: Any, pointer: Any, after: list[Any]) -> Any:
    """A free node."""
    return ok(cu.cuGraphAddMemFreeNode(graph, after, len(after), pointer))


def unfreed(bench: Bench, flags: int = 0) -> tuple[Any, Any, Any]:
    """A graph that allocates 256 bytes, fills them with 7 and frees nothing; with its executable and the address."""
    graph = bench.graph()
    node, pointer = add_alloc(bench, graph)
    bench.add_memset(graph, [node], pointer=int(pointer), value=7, width=256)
    return graph, bench.instantiate(graph, flags), pointer


# -- conditionals ------------------------------------------------------------------------------------------------------

CONDITIONS = cu.CUgraphConditionalNodeType
IF, WHILE, SWITCH = (
    CONDITIONS.CU_GRAPH_COND_TYPE_IF,
    CONDITIONS.CU_GRAPH_COND_TYPE_WHILE,
    CONDITIONS.CU_GRAPH_COND_TYPE_SWITCH,
)


def condition(bench: Bench, graph: Any, value: int, assign: int = 1) -> Any:
    """A conditional handle of ``graph`` whose default is ``value``."""
    return ok(cu.cuGraphConditionalHandleCreate(graph, bench.context, value, assign))


def add_conditional(
    bench: Bench, graph: Any, which: Any, kind: Any, size: int, after: list[Any] | None = None
) -> tuple[int, list[Any]]:
    """Adds a conditional node; the code and the bodies."""
    after = after or []
    params = cu.CUgraphNodeParams()
    params.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    params.conditional.handle = which
    params.conditional.type = kind
    params.conditional.size = size
    params.conditional.ctx = bench.context
    plain = [cu.CUgraphEdgeData() for _ in after]  # the bindings of CUDA 12 do not take None for it
    got = code(add_node_call(graph, after, plain, len(after), params))
    return got, list(params.conditional.phGraph_out)[:size] if got == Code.SUCCESS else []


# -- copies ------------------------------------------------------------------------------------------------------------


class Copies:
    """Three device buffers, three host buffers, and copies between them."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.device = [bench.buffer(64) for _ in range(3)]
        self.memory = [bytearray(64) for _ in range(3)]
        self.host = [address_of(each) for each in self.memory]
        bench.host.keep(self.memory)

    def to_device(self, graph: Any, number: int, after: list[Any] | None = None) -> Any:
        """A copy of one host buffer to its device buffer."""
        params = self.bench.copy_params(self.device[number], self.host[number], 64, of="host")
        return self.bench.add_copy(graph, params, after)

    def to_host(self, graph: Any, number: int, after: list[Any] | None = None) -> Any:
        """A copy of one device buffer to its host buffer."""
        params = self.bench.copy_params(self.host[number], self.device[number], 64, to="host")
        return self.bench.add_copy(graph, params, after)


# -- updates -----------------------------------------------------------------------------------------------------------

ffi.cdef("typedef struct { int result; void *error_node; void *error_from_node; } update_info;")


class Updated(NamedTuple):
    """What cuGraphExecUpdate said: return code, result code, error node (0: none)."""

    code: int
    result: int
    node: int


def update(executable: Any, graph: Any) -> Updated:
    """cuGraphExecUpdate by pointer: the bindings drop the result of an update that was refused."""
    call = entry("cuGraphExecUpdate", 12000, "int (*)(void *, void *, void *)")
    info = ffi.new("update_info *")
    got = call(handle(executable), handle(graph), info)
    return Updated(got, info.result, int(ffi.cast("uintptr_t", info.error_node)))
