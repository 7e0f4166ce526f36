"""Random sequences of driver calls, with live, dead, null and foreign handles: no crash, no hang, nothing left behind."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import cffi
import numpy as np
import pytest
from cuda.bindings import driver as cu
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.emulated_device import control, harness, loader
from tests.emulated_device.harness import Board, code

pytestmark = pytest.mark.skipif(not harness.emulated(), reason="a real driver may crash on dead handles")

ffi = cffi.FFI()


@ffi.callback("void(void *)")  # type: ignore[untyped-decorator]  # cffi has no types
def nothing(_: Any) -> None:
    """A host function."""


@functools.cache
def raw() -> Any:
    """The driver's own functions."""
    ffi.cdef("int cuLaunchHostFunc(void *, void *, void *);")
    return ffi.dlopen(str(loader.loaded_library))


NOTHING = int(ffi.cast("uintptr_t", nothing))
SIZE = 256
OPERATIONS: dict[str, Callable[[Player, list[int]], Any]] = {}


def operation(function: Callable[[Player, list[int]], Any]) -> Callable[[Player, list[int]], Any]:
    OPERATIONS[function.__name__] = function
    return function


class Player:
    """Plays a sequence. Handles stay in their pools when they die, and are used again."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.streams: list[Any] = [cu.CUstream(0), cu.CUstream(1), cu.CUstream(2), cu.CUstream(0xDEAD00)]
        self.events: list[Any] = [cu.CUevent(0), cu.CUevent(0xDEAD00)]
        self.graphs: list[Any] = [cu.CUgraph(0), cu.CUgraph(0xDEAD00)]
        self.executables: list[Any] = [cu.CUgraphExec(0), cu.CUgraphExec(0xDEAD00)]
        self.nodes: list[Any] = [cu.CUgraphNode(0), cu.CUgraphNode(0xDEAD00)]
        self.nodes_of: dict[int, list[Any]] = {}
        self.objects: list[Any] = [cu.CUuserObject(0)]
        self.conditions: list[int] = [0, 12345]
        self.buffers: list[int] = [0, 8, board.buffer(SIZE), board.buffer(SIZE)]
        self.functions = [board.kernel(name) for name in ("count_up", "fill", "empty")]
        for _ in range(3):
            self.keep(self.streams, cu.cuStreamCreate(1))
        self.keep(self.streams, cu.cuStreamCreate(0))
        self.keep(self.graphs, cu.cuGraphCreate(0))
        for _ in range(2):
            self.keep(self.events, cu.cuEventCreate(2))
        self.host = np.zeros(SIZE, np.uint8)

    def keep(self, pool: list[Any], result: tuple[Any, ...]) -> None:
        if int(result[0]) == 0:
            pool.append(result[1])

    def some(self, pool: list[Any], number: int) -> Any:
        """Mostly one of the newest three, where the live ones are; else any, dead ones and nonsense included."""
        return pool[-1 - number // 8 % min(3, len(pool)) if number % 8 else number // 8 % len(pool)]

    def some_nodes(self, graph: Any, numbers: list[int]) -> list[Any]:
        """Dependencies: mostly nodes of that graph."""
        mine = self.nodes_of.get(int(graph), []) or self.nodes
        return list(
            {int(one): one for one in (self.some(mine if k % 16 else self.nodes, k // 16) for k in numbers)}.values()
        )

    def play(self, steps: list[tuple[str, list[int]]]) -> None:
        for name, numbers in steps:
            try:
                OPERATIONS[name](self, numbers)
            except ValueError:  # the bindings' own refusal of an enumeration value
                continue

    def finish(self) -> None:
        """Destroys everything; with the handles gone, nothing may be left."""
        for _ in range(3):  # work that is still queued may fault, and then every call fails until that is forgotten
            control.reset_faults()
            cu.cuThreadExchangeStreamCaptureMode(cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
            for stream in self.streams[2:]:
                self.keep(self.graphs, cu.cuStreamEndCapture(stream))
        assert code(cu.cuCtxSynchronize()) in (0, 700, 719, 702)
        control.reset_faults()
        for executable in self.executables:
            cu.cuGraphExecDestroy(executable)
        for graph in self.graphs:
            cu.cuGraphDestroy(graph)
        for event in self.events:
            cu.cuEventDestroy(event)
        for stream in self.streams[3:]:
            cu.cuStreamDestroy(stream)
        for pointer in self.buffers[4:]:
            cu.cuMemFree(pointer)
        for held in self.objects:
            while code(cu.cuUserObjectRelease(held, 1)) == 0:
                pass
        control.reset_faults()


@operation
def stream_create(p: Player, n: list[int]) -> None:
    p.keep(p.streams, cu.cuStreamCreate(n[0] % 3))


@operation
def stream_destroy(p: Player, n: list[int]) -> None:
    cu.cuStreamDestroy(p.some(p.streams, n[0]))


@operation
def stream_synchronize(p: Player, n: list[int]) -> None:
    cu.cuStreamSynchronize(p.some(p.streams, n[0]))


@operation
def stream_query(p: Player, n: list[int]) -> None:
    cu.cuStreamQuery(p.some(p.streams, n[0]))


@operation
def event_create(p: Player, n: list[int]) -> None:
    p.keep(p.events, cu.cuEventCreate(n[0] % 4))


@operation
def event_destroy(p: Player, n: list[int]) -> None:
    cu.cuEventDestroy(p.some(p.events, n[0]))


@operation
def event_record(p: Player, n: list[int]) -> None:
    cu.cuEventRecordWithFlags(p.some(p.events, n[0]), p.some(p.streams, n[1]), (n[2] % 8) // 7)


@operation
def event_wait(p: Player, n: list[int]) -> None:
    cu.cuStreamWaitEvent(p.some(p.streams, n[0]), p.some(p.events, n[1]), (n[2] % 8) // 7)


@operation
def event_query(p: Player, n: list[int]) -> None:
    cu.cuEventQuery(p.some(p.events, n[0]))
    cu.cuEventElapsedTime(p.some(p.events, n[1]), p.some(p.events, n[2]))


@operation
def begin_capture(p: Player, n: list[int]) -> None:
    cu.cuStreamBeginCapture(p.some(p.streams, n[0]), cu.CUstreamCaptureMode(n[1] % 3))


@operation
def begin_capture_to_graph(p: Player, n: list[int]) -> None:
    stream, graph = p.some(p.streams, n[0]), p.some(p.graphs, n[1])
    nodes = p.some_nodes(graph, n[2 : 2 + n[5] % 3])
    cu.cuStreamBeginCaptureToGraph(stream, graph, nodes, None, len(nodes), cu.CUstreamCaptureMode(n[4] % 3))


@operation
def end_capture(p: Player, n: list[int]) -> None:
    result = cu.cuStreamEndCapture(p.some(p.streams, n[0]))
    p.keep(p.graphs, result)


@operation
def capture_info(p: Player, n: list[int]) -> None:
    result = cu.cuStreamGetCaptureInfo(p.some(p.streams, n[0]))
    if int(result[0]) == 0 and int(result[1]) == 1:
        p.graphs.append(result[3])
        p.nodes.extend(result[4])
        p.nodes_of.setdefault(int(result[3]), []).extend(result[4])


@operation
def update_dependencies(p: Player, n: list[int]) -> None:
    nodes = p.some_nodes(p.graphs[-1], n[1 : 1 + n[5] % 4])
    cu.cuStreamUpdateCaptureDependencies(p.some(p.streams, n[0]), nodes, None, len(nodes), n[4] % 3)


@operation
def exchange_mode(p: Player, n: list[int]) -> None:
    cu.cuThreadExchangeStreamCaptureMode(cu.CUstreamCaptureMode(n[0] % 3))


@operation
def copy(p: Player, n: list[int]) -> None:
    stream = p.some(p.streams, n[0])
    to, source = p.some(p.buffers, n[1]), p.some(p.buffers, n[2])
    size = n[3] % (SIZE + 2)
    [
        lambda: cu.cuMemcpyDtoDAsync(to, source, size, stream),
        lambda: cu.cuMemcpyHtoDAsync(to, p.host.ctypes.data, min(size, SIZE), stream),
        lambda: cu.cuMemcpyDtoHAsync(p.host.ctypes.data, source, min(size, SIZE), stream),
        lambda: cu.cuMemcpyDtoD(to, source, size),
    ][n[4] % 4]()


@operation
def fill(p: Player, n: list[int]) -> None:
    cu.cuMemsetD32Async(p.some(p.buffers, n[0]), n[1], n[2] % (SIZE // 4 + 2), p.some(p.streams, n[3]))


@operation
def launch(p: Player, n: list[int]) -> None:
    target = np.uint64(p.some(p.buffers[2:4], n[0]))
    which = n[1] % 3
    arguments: list[np.generic] = [[target, np.int32(1)], [target, np.float32(1), np.int32(8)], []][which]
    p.board.try_launch(p.functions[which], p.some(p.streams, n[2]), *arguments, grid=n[3] % 3, block=n[4] % 40)


@operation
def host_function(p: Player, n: list[int]) -> None:
    # Past the bindings, whose own record of the callable dies after its first call (known of 13.4.4).
    raw().cuLaunchHostFunc(ffi.cast("void *", int(p.some(p.streams, n[0]))), ffi.cast("void *", NOTHING), ffi.NULL)


@operation
def allocate(p: Player, n: list[int]) -> None:
    if n[0] % 2:
        p.keep(p.buffers, cu.cuMemAlloc(n[1] % 512))
    else:
        p.keep(p.buffers, cu.cuMemAllocAsync(n[1] % 512, p.some(p.streams, n[2])))


@operation
def free(p: Player, n: list[int]) -> None:
    pointer = p.some([*p.buffers[:2], *p.buffers[4:]], n[0])
    if n[1] % 2:
        cu.cuMemFree(pointer)
    else:
        cu.cuMemFreeAsync(pointer, p.some(p.streams, n[2]))


@operation
def synchronize(p: Player, n: list[int]) -> None:
    cu.cuCtxSynchronize()


@operation
def graph_create(p: Player, n: list[int]) -> None:
    if n[1] % 3 == 0:
        return  # so that graphs grow
    p.keep(p.graphs, cu.cuGraphCreate(n[0] % 5 // 4))


@operation
def graph_destroy(p: Player, n: list[int]) -> None:
    cu.cuGraphDestroy(p.some(p.graphs, n[0]))


@operation
def graph_clone(p: Player, n: list[int]) -> None:
    p.keep(p.graphs, cu.cuGraphClone(p.some(p.graphs, n[0])))


def params_of(p: Player, n: list[int]) -> Any:
    made = cu.CUgraphNodeParams()
    kind = n[5] % 9
    if kind == 0:
        made.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_EMPTY
    elif kind == 1:
        made.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET
        made.memset.dst = p.some(p.buffers, n[0])
        made.memset.elementSize, made.memset.width, made.memset.height = 1 << n[1] % 4, n[2] % 300, n[3] % 3
    elif kind == 2:
        made.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_HOST
        made.host.fn = cu.CUhostFn(NOTHING * (n[0] % 4 > 0))
    elif kind == 3:
        made.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_GRAPH
        made.graph.graph = p.some(p.graphs, n[0])
        made.graph.ownership = cu.CUgraphChildGraphNodeOwnership(n[1] % 2)
    elif kind in (4, 5):
        record = kind == 4
        types = cu.CUgraphNodeType
        made.type = types.CU_GRAPH_NODE_TYPE_EVENT_RECORD if record else types.CU_GRAPH_NODE_TYPE_WAIT_EVENT
        (made.eventRecord if record else made.eventWait).event = p.some(p.events, n[0])
    elif kind == 6:
        made.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEM_ALLOC
        made.alloc.poolProps.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        made.alloc.poolProps.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        made.alloc.poolProps.location.id, made.alloc.bytesize = n[0] % 3, n[1] % 512
    elif kind == 7:
        made.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEM_FREE
        made.free.dptr = p.some(p.buffers, n[0])
    else:
        made.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        made.conditional.handle = cu.CUgraphConditionalHandle(p.some(p.conditions, n[0]))
        made.conditional.type = cu.CUgraphConditionalNodeType((0, 2)[n[1] % 2])  # a WHILE may never end, as on a GPU
        made.conditional.size = n[2] % 4
        made.conditional.ctx = p.board.context
    return made


@operation
def add_node(p: Player, n: list[int]) -> None:
    graph = p.some(p.graphs, n[1])
    nodes = p.some_nodes(graph, n[2 : 2 + n[4] % 3])
    params = params_of(p, n)
    result = cu.cuGraphAddNode(graph, nodes or None, None, len(nodes), params)
    if int(result[0]):
        return
    p.nodes.append(result[1])
    p.nodes_of.setdefault(int(graph), []).append(result[1])
    if params.type == cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        p.buffers.append(int(params.alloc.dptr))
    if params.type == cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL:
        p.graphs.extend(params.conditional.phGraph_out or [])


@operation
def condition_create(p: Player, n: list[int]) -> None:
    p.keep(p.conditions, cu.cuGraphConditionalHandleCreate(p.some(p.graphs, n[0]), p.board.context, n[1] % 3, n[2] % 3))


@operation
def set_node(p: Player, n: list[int]) -> None:
    if n[1] % 2:
        cu.cuGraphNodeSetParams(p.some(p.nodes, n[2]), params_of(p, n))
    else:
        cu.cuGraphExecNodeSetParams(p.some(p.executables, n[3]), p.some(p.nodes, n[2]), params_of(p, n))


@operation
def enable_node(p: Player, n: list[int]) -> None:
    cu.cuGraphNodeSetEnabled(p.some(p.executables, n[0]), p.some(p.nodes, n[1]), n[2] % 2)
    cu.cuGraphNodeGetEnabled(p.some(p.executables, n[0]), p.some(p.nodes, n[1]))


@operation
def destroy_node(p: Player, n: list[int]) -> None:
    cu.cuGraphDestroyNode(p.some(p.nodes, n[0]))


@operation
def change_edges(p: Player, n: list[int]) -> None:
    change = cu.cuGraphAddDependencies if n[3] % 3 else cu.cuGraphRemoveDependencies
    graph = p.some(p.graphs, n[0])
    change(graph, p.some_nodes(graph, n[1:2]), p.some_nodes(graph, n[2:3]), None, 1)


@operation
def look(p: Player, n: list[int]) -> None:
    graph, node = p.some(p.graphs, n[0]), p.some(p.nodes, n[1])
    count = n[2] % 6
    result = cu.cuGraphGetNodes(graph, count)
    if int(result[0]) == 0:
        p.nodes.extend(result[1])
        p.nodes_of.setdefault(int(graph), []).extend(result[1])
    cu.cuGraphGetRootNodes(graph, count)
    cu.cuGraphGetEdges(graph, count)
    cu.cuGraphNodeGetDependencies(node, count)
    cu.cuGraphNodeGetDependentNodes(node, count)
    cu.cuGraphNodeGetType(node)
    cu.cuGraphNodeFindInClone(node, graph)
    result = cu.cuGraphChildGraphNodeGetGraph(node)
    if int(result[0]) == 0:
        p.graphs.append(result[1])


@operation
def print_dot(p: Player, n: list[int]) -> None:
    cu.cuGraphDebugDotPrint(p.some(p.graphs, n[0]), b"/dev/null", n[1])


@operation
def instantiate(p: Player, n: list[int]) -> None:
    p.keep(p.executables, cu.cuGraphInstantiate(p.some(p.graphs, n[0]), n[1] % 16))


@operation
def launch_graph(p: Player, n: list[int]) -> None:
    cu.cuGraphLaunch(p.some(p.executables, n[0]), p.some(p.streams, n[1]))


@operation
def upload_graph(p: Player, n: list[int]) -> None:
    cu.cuGraphUpload(p.some(p.executables, n[0]), p.some(p.streams, n[1]))


@operation
def update_graph(p: Player, n: list[int]) -> None:
    cu.cuGraphExecUpdate(p.some(p.executables, n[0]), p.some(p.graphs, n[1]))


@operation
def destroy_executable(p: Player, n: list[int]) -> None:
    cu.cuGraphExecDestroy(p.some(p.executables, n[0]))


@operation
def user_object(p: Player, n: list[int]) -> None:
    kind = n[0] % 4
    if kind == 0:
        p.keep(p.objects, cu.cuUserObjectCreate(0, cu.CUhostFn(NOTHING), n[1] % 3, 1))
    elif kind == 1:
        cu.cuGraphRetainUserObject(p.some(p.graphs, n[1]), p.some(p.objects, n[2]), n[3] % 3, n[4] % 2)
    elif kind == 2:
        cu.cuGraphReleaseUserObject(p.some(p.graphs, n[1]), p.some(p.objects, n[2]), n[3] % 3)
    else:
        cu.cuUserObjectRelease(p.some(p.objects, n[2]), n[3] % 3)


@operation
def short_context(p: Player, n: list[int]) -> None:
    """A context that dies with what is in it: streams that capture, a fork of somebody else's capture, work, memory."""
    result = cu.cuCtxCreate(None, 0, n[0] % 3)
    if int(result[0]):
        return
    made = cu.cuStreamCreate(1)
    stream = made[1] if n[1] % 2 and int(made[0]) == 0 else cu.CUstream(2)
    cu.cuStreamWaitEvent(stream, p.some(p.events, n[2]), 0)
    cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode(n[3] % 3))
    p.keep(p.events, cu.cuEventCreate(2))
    cu.cuEventRecord(p.events[-1], stream)
    memory = cu.cuMemAlloc(64)
    if int(memory[0]) == 0:
        cu.cuMemsetD8Async(memory[1], 1, 64, stream if n[4] % 2 else made[1])
    cu.cuCtxDestroy(result[1])
    cu.cuCtxSetCurrent(p.board.context)


@operation
def fault(p: Player, n: list[int]) -> None:
    names = ["cuGraphLaunch", "cuMemAlloc", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuEventRecord"]
    control.fail(names[n[0] % 5], 1 + n[1] % 3, (2, 999, 901)[n[2] % 3])


#: What builds comes more often than what destroys.
WEIGHTED = sorted(OPERATIONS) + 4 * [
    "add_node", "add_node", "add_node", "graph_create", "instantiate", "launch_graph", "launch_graph", "change_edges",
    "set_node", "update_graph", "enable_node", "condition_create", "begin_capture", "fill", "launch", "end_capture",
]  # fmt: skip


@pytest.fixture
def board() -> Iterator[Board]:
    before = control.protection(True)
    with harness.board() as made:
        yield made
    control.protection(before)


def sequences(length: int) -> st.SearchStrategy[list[tuple[str, list[int]]]]:
    numbers = st.lists(st.integers(0, 1 << 12), min_size=6, max_size=6)
    return st.lists(st.tuples(st.sampled_from(WEIGHTED), numbers), min_size=length // 3, max_size=length)


def fuzz(board: Board, examples: int, length: int) -> None:
    @settings(max_examples=examples, database=None, suppress_health_check=list(HealthCheck))
    @given(sequences(length), st.integers(0, 1000))
    def check(steps: list[tuple[str, list[int]]], seed: int) -> None:
        control.seed(seed)
        before = control.counts()
        player = Player(board)
        buffers = list(board._later)
        try:
            player.play(steps)
        finally:
            player.finish()
        for pointer in player.buffers[2:4]:
            cu.cuMemFree(pointer)
        board._later[:] = buffers[:1]  # the module alone stays to the end
        after = control.counts()
        left = {kind: (before[kind], after[kind]) for kind in harness.LEAKABLE if after[kind] != before[kind]}
        assert not left

    check()


def test_random_sequences(board: Board) -> None:
    board.kernel("empty")
    fuzz(board, 250, 60)


@pytest.mark.slow
def test_many_random_sequences(board: Board) -> None:
    board.kernel("empty")
    fuzz(board, 3000, 120)
