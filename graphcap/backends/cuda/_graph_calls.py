"""The driver's functions on graphs, nodes and executables, with types. What describes a node comes back as plain data."""

from __future__ import annotations

import enum
import os
from typing import Any, Final, NamedTuple

from graphcap.backends.cuda import _driver as driver
from graphcap.backends.cuda.host_calls import trampoline

__all__ = ["EdgeRow", "HostRow", "KernelRow", "Kind", "MemcpyRow", "MemsetRow"]

DOT_VERBOSE: Final = 1


class Kind(enum.IntEnum):
    """The driver's numbers of node kinds that have parameters here (S-D47)."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    HOST = 3
    CHILD_GRAPH = 4
    EMPTY = 5
    EVENT_WAIT = 6
    EVENT_RECORD = 7
    SEMAPHORE_SIGNAL = 8
    SEMAPHORE_WAIT = 9
    MEM_ALLOC = 10
    MEM_FREE = 11
    BATCH_MEM_OP = 12
    CONDITIONAL = 13
    MEMCPY_BATCH = 14


class MemoryType(enum.IntEnum):
    """Where a copy's operand lies."""

    HOST = 1
    DEVICE = 2
    ARRAY = 3
    UNIFIED = 4


# -- reading a graph ---------------------------------------------------------------------------------------------------


def node_count(graph: int) -> int:
    _, count = driver.call("cuGraphGetNodes", graph, 0)
    return int(count)


def nodes(graph: int) -> list[int]:
    """The nodes in the order of their creation (E-37)."""
    count = node_count(graph)
    if not count:
        return []
    found, count = driver.call("cuGraphGetNodes", graph, count)
    return [int(node) for node in found[: int(count)]]


class EdgeRow(NamedTuple):
    """One dependency; `type` 0 is full, 1 programmatic."""

    source: int
    target: int
    from_port: int
    to_port: int
    type: int


def edges(graph: int) -> list[EdgeRow]:
    name = driver.edge_name("cuGraphGetEdges")
    count = int(driver.call(name, graph, 0)[-1])
    if not count:
        return []
    sources, targets, data, count = driver.call(name, graph, count)
    return [
        EdgeRow(int(source), int(target), int(edge.from_port), int(edge.to_port), int(edge.type))
        for source, target, edge in zip(sources[: int(count)], targets, data, strict=False)
    ]


def dependent_count(node: int) -> int:
    """How many nodes wait for this one."""
    return int(driver.call(driver.edge_name("cuGraphNodeGetDependentNodes"), node, 0)[-1])


def node_type(node: int) -> int:
    """The driver's number of the node's kind; newer drivers have kinds that :class:`Kind` does not name (S-D48)."""
    return int(driver.call("cuGraphNodeGetType", node))


# -- parameters ----------------------------------------------------------------------------------------------------------


class KernelRow(NamedTuple):
    """What a kernel node launches."""

    function: int
    kernel: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    parameters: int
    """The address of the array of pointers to the arguments; 0 if there is none."""
    context: int


def kernel_params(node: int) -> KernelRow:
    row = driver.call("cuGraphKernelNodeGetParams", node)
    return KernelRow(
        int(row.func or 0),
        int(row.kern or 0),
        (int(row.gridDimX), int(row.gridDimY), int(row.gridDimZ)),
        (int(row.blockDimX), int(row.blockDimY), int(row.blockDimZ)),
        int(row.sharedMemBytes),
        int(row.kernelParams or 0),
        int(row.ctx or 0),
    )


def set_kernel_params(executable: int, node: int, row: KernelRow, asked: str) -> None:
    """Give a kernel node of an executable new parameters; `row.parameters` must stay alive during the call only."""
    params = driver.struct("CUDA_KERNEL_NODE_PARAMS")
    # A node keeps what it was made with: a function or a kernel, not both.
    if row.kernel:
        params.kern = driver.struct("CUkernel", row.kernel)
    else:
        params.func = driver.struct("CUfunction", row.function)
    params.gridDimX, params.gridDimY, params.gridDimZ = row.grid
    params.blockDimX, params.blockDimY, params.blockDimZ = row.block
    params.sharedMemBytes = row.shared_bytes
    params.kernelParams = row.parameters
    if row.context:
        params.ctx = driver.struct("CUcontext", row.context)
    driver.call("cuGraphExecKernelNodeSetParams", executable, node, params, asked=asked)


def kernel_name(row_function: int, row_kernel: int) -> str:
    """The name of a kernel as the compiler made it; empty where the driver cannot tell (before CUDA 12.3)."""
    name, handle = ("cuKernelGetName", row_kernel) if row_kernel else ("cuFuncGetName", row_function)
    try:
        code, found = driver.answer(name, handle)
    except (AttributeError, RuntimeError):  # bindings or a driver without the call
        return ""
    if code or not found:
        return ""
    return found.decode(errors="replace") if isinstance(found, bytes) else str(found)


class ParameterSlot(NamedTuple):
    """Where one kernel parameter lies in the parameter memory."""

    offset: int
    nbytes: int


def parameter_layout(function: int, kernel: int) -> tuple[ParameterSlot, ...] | None:
    """Offset and size of each parameter of a kernel; ``None`` where the driver cannot tell (before CUDA 12.4)."""
    name, handle = ("cuKernelGetParamInfo", kernel) if kernel else ("cuFuncGetParamInfo", function)
    found: list[ParameterSlot] = []
    end_of_parameters = 1  # invalid value: the index is past the last one
    while True:
        try:
            code, row = driver.answer(name, handle, len(found))
        except (AttributeError, RuntimeError):
            return None
        if code == end_of_parameters:
            return tuple(found)
        if code:
            return None
        found.append(ParameterSlot(int(row[0]), int(row[1])))


class MemcpyRow(NamedTuple):
    """A copy of up to three dimensions. Operands in CUDA arrays have address 0."""

    source: int
    destination: int
    source_type: int
    destination_type: int
    width_bytes: int
    height: int
    depth: int
    source_pitch: int
    destination_pitch: int


def memcpy_params(node: int) -> MemcpyRow:
    row = driver.call("cuGraphMemcpyNodeGetParams", node)
    return MemcpyRow(
        _operand(row, "src"),
        _operand(row, "dst"),
        int(row.srcMemoryType),
        int(row.dstMemoryType),
        int(row.WidthInBytes),
        int(row.Height),
        int(row.Depth),
        int(row.srcPitch),
        int(row.dstPitch),
    )


def _operand(row: Any, side: str) -> int:
    kind = int(getattr(row, f"{side}MemoryType"))
    if kind == MemoryType.ARRAY:
        return 0
    base = int(getattr(row, f"{side}{'Host' if kind == MemoryType.HOST else 'Device'}") or 0)
    return base + int(getattr(row, f"{side}XInBytes"))


def set_memcpy_params(executable: int, node: int, row: MemcpyRow, context: int, asked: str) -> None:
    """Give a linear copy of an executable new operands and a new size."""
    params = driver.struct("CUDA_MEMCPY3D")
    for side, kind, address in (("src", row.source_type, row.source), ("dst", row.destination_type, row.destination)):
        setattr(params, f"{side}MemoryType", driver.struct("CUmemorytype", kind))
        if kind == MemoryType.HOST:
            setattr(params, f"{side}Host", address)
        else:
            setattr(params, f"{side}Device", driver.struct("CUdeviceptr", address))
    params.srcPitch, params.dstPitch = row.source_pitch, row.destination_pitch
    params.srcHeight = params.dstHeight = row.height
    params.WidthInBytes, params.Height, params.Depth = row.width_bytes, row.height, row.depth
    driver.call("cuGraphExecMemcpyNodeSetParams", executable, node, params, context, asked=asked)


class MemsetRow(NamedTuple):
    """A fill of one or two dimensions."""

    destination: int
    pitch_bytes: int
    value: int
    element_bytes: int
    width: int
    height: int


def memset_params(node: int) -> MemsetRow:
    row = driver.call("cuGraphMemsetNodeGetParams", node)
    return MemsetRow(
        int(row.dst), int(row.pitch), int(row.value), int(row.elementSize), int(row.width), int(row.height)
    )


def set_memset_params(executable: int, node: int, row: MemsetRow, context: int, asked: str) -> None:
    params = driver.struct("CUDA_MEMSET_NODE_PARAMS")
    params.dst = driver.struct("CUdeviceptr", row.destination)
    params.pitch, params.value, params.elementSize = row.pitch_bytes, row.value, row.element_bytes
    params.width, params.height = row.width, row.height
    driver.call("cuGraphExecMemsetNodeSetParams", executable, node, params, context, asked=asked)


class HostRow(NamedTuple):
    """A host node: the C function and what it is given."""

    function: int
    argument: int


def host_params(node: int) -> HostRow:
    row = driver.call("cuGraphHostNodeGetParams", node)
    return HostRow(int(row.fn or 0), int(row.userData or 0))


def _host_struct(token: int) -> Any:
    params = driver.struct("CUDA_HOST_NODE_PARAMS")
    params.fn = driver.struct("CUhostFn", trampoline()[1])
    params.userData = token
    return params


def add_host_node(graph: int, dependencies: tuple[int, ...], token: int, asked: str) -> int:
    """Add a node that runs the host call of a number (rule H5)."""
    nodes_before = [driver.struct("CUgraphNode", node) for node in dependencies]
    return int(
        driver.call(
            "cuGraphAddHostNode", graph, nodes_before or None, len(nodes_before), _host_struct(token), asked=asked
        )
    )


def set_host_params(executable: int, node: int, token: int, asked: str) -> None:
    driver.call("cuGraphExecHostNodeSetParams", executable, node, _host_struct(token), asked=asked)


def child_graph(node: int) -> int:
    return int(driver.call("cuGraphChildGraphNodeGetGraph", node))


def event_of(node: int, kind: int) -> int:
    name = "cuGraphEventRecordNodeGetEvent" if kind == Kind.EVENT_RECORD else "cuGraphEventWaitNodeGetEvent"
    return int(driver.call(name, node))


def alloc_params(node: int) -> tuple[int, int]:
    """Address and bytes of an allocation node."""
    row = driver.call("cuGraphMemAllocNodeGetParams", node)
    return int(row.dptr), int(row.bytesize)


def free_address(node: int) -> int:
    return int(driver.call("cuGraphMemFreeNodeGetParams", node))


# -- executables ---------------------------------------------------------------------------------------------------------


class Instantiated(NamedTuple):
    """The executable, or why there is none."""

    executable: int
    code: int
    result: str
    node: int


def instantiate(graph: int, flags: int, upload_stream: int = 0) -> Instantiated:
    """Make an executable; the driver's reason and the node it names come back as data."""
    params = driver.struct("CUDA_GRAPH_INSTANTIATE_PARAMS")
    params.flags = flags
    if upload_stream:
        params.hUploadStream = driver.struct("CUstream", upload_stream)
    code, made = driver.answer("cuGraphInstantiateWithParams", graph, params)
    result = getattr(params.result_out, "name", str(params.result_out))
    return Instantiated(0 if code or made is None else int(made), code, str(result), int(params.hErrNode_out or 0))


class Updated(NamedTuple):
    """What became of a whole-graph update."""

    code: int
    result: str
    node: int


def update(executable: int, graph: int) -> Updated:
    """Update a whole executable. The bindings drop the reason when the call fails, so it is asked by pointer."""
    ffi = driver.ffi()
    info = ffi.new("struct { int result; void *node; void *from_node; } *")
    call = driver.entry("cuGraphExecUpdate", 12000, "int (*)(void *, void *, void *)")
    code = call(ffi.cast("void *", executable), ffi.cast("void *", graph), info)
    try:
        result = str(driver.struct("CUgraphExecUpdateResult", int(info.result)).name)
    except ValueError:  # a driver newer than the bindings
        result = f"result {int(info.result)}"
    return Updated(int(code), result, int(ffi.cast("uintptr_t", info.node)))


def upload(executable: int, stream: int, asked: str) -> None:
    driver.call("cuGraphUpload", executable, stream, asked=asked)


def set_enabled(executable: int, node: int, enabled: bool, asked: str) -> None:
    driver.call("cuGraphNodeSetEnabled", executable, node, int(enabled), asked=asked)


def is_enabled(executable: int, node: int, asked: str) -> bool:
    return bool(driver.call("cuGraphNodeGetEnabled", executable, node, asked=asked))


def print_dot(graph: int, path: str, flags: int = DOT_VERBOSE) -> None:
    driver.call("cuGraphDebugDotPrint", graph, os.fsencode(path), flags, asked="debug_dump()")


# -- conditional nodes -----------------------------------------------------------------------------------------------------


def create_condition(graph: int, context: int, default: int | None, asked: str) -> int:
    """A condition of a graph. With a default the driver assigns it at the start of every launch (S-D51)."""
    assign_default = 1
    return int(
        driver.call(
            "cuGraphConditionalHandleCreate",
            graph,
            context,
            default or 0,
            0 if default is None else assign_default,
            asked=asked,
        )
    )


def add_conditional_node(
    graph: int, dependencies: tuple[int, ...], condition: int, kind: int, size: int, context: int, asked: str
) -> tuple[int, list[int]]:
    """Add a conditional node; give it and the graphs of its bodies."""
    params = driver.struct("CUgraphNodeParams")
    params.type = driver.struct("CUgraphNodeType", int(Kind.CONDITIONAL))
    params.conditional.handle = driver.struct("CUgraphConditionalHandle", condition)
    params.conditional.type = driver.struct("CUgraphConditionalNodeType", kind)
    params.conditional.size = size
    params.conditional.ctx = driver.struct("CUcontext", context)
    nodes_before = [driver.struct("CUgraphNode", node) for node in dependencies]
    # Plain edges, but told: bindings 12.9 take no shorter list of edge data than of nodes.
    plain = [driver.struct("CUgraphEdgeData") for _ in nodes_before]
    node = driver.call(
        driver.edge_name("cuGraphAddNode"),
        graph,
        nodes_before or None,
        plain or None,
        len(nodes_before),
        params,
        asked=asked,
    )
    return int(node), [int(body) for body in params.conditional.phGraph_out[:size]]
