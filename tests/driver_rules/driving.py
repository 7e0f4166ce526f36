"""A small vocabulary over ``cuda.bindings.driver``: numbers, checked calls, raw entry points, graph inspection.

Nothing here judges an answer: `ok` insists on success, `code` hands back the number. The tests do the judging.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any, NamedTuple

import cffi
from cuda.bindings import driver as cu


class Code(enum.IntEnum):
    """The driver's return codes that the rules speak of (``cuda.h``, enum ``CUresult``)."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    INVALID_DEVICE_FUNCTION = 98
    INVALID_DEVICE = 101
    NO_BINARY_FOR_GPU = 209
    OPERATING_SYSTEM = 304
    INVALID_HANDLE = 400
    ILLEGAL_STATE = 401
    LOSSY_QUERY = 402
    NOT_READY = 600
    ILLEGAL_ADDRESS = 700
    CONTEXT_IS_DESTROYED = 709
    NOT_PERMITTED = 800
    NOT_SUPPORTED = 801
    CAPTURE_UNSUPPORTED = 900
    CAPTURE_INVALIDATED = 901
    CAPTURE_MERGE = 902
    CAPTURE_UNMATCHED = 903
    CAPTURE_UNJOINED = 904
    CAPTURE_ISOLATION = 905
    CAPTURE_IMPLICIT = 906
    CAPTURED_EVENT = 907
    CAPTURE_WRONG_THREAD = 908
    TIMEOUT = 909
    GRAPH_EXEC_UPDATE_FAILURE = 910
    GRAPH_RECAPTURE_FAILURE = 918


class Status(enum.IntEnum):
    """Capture status of a stream (S-D5)."""

    NONE = 0
    ACTIVE = 1
    INVALIDATED = 2


class Update(enum.IntEnum):
    """Result codes of a whole-graph update (S-D46)."""

    SUCCESS = 0
    ERROR = 1
    TOPOLOGY_CHANGED = 2
    NODE_TYPE_CHANGED = 3
    FUNCTION_CHANGED = 4
    PARAMETERS_CHANGED = 5
    NOT_SUPPORTED = 6
    UNSUPPORTED_FUNCTION_CHANGE = 7
    ATTRIBUTES_CHANGED = 8


class Kind(enum.IntEnum):
    """Node kinds (S-D47)."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    HOST = 3
    CHILD_GRAPH = 4
    EMPTY = 5
    EVENT_WAIT = 6
    EVENT_RECORD = 7
    MEM_ALLOC = 10
    MEM_FREE = 11
    CONDITIONAL = 13


MODES: dict[str, Any] = {
    "global": cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL,
    "thread_local": cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
    "relaxed": cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED,
}
LEGACY = cu.CUstream(int(cu.CU_STREAM_LEGACY))
PER_THREAD = cu.CUstream(int(cu.CU_STREAM_PER_THREAD))
NULL_STREAM = cu.CUstream(0)

BLOCKING, NON_BLOCKING = 0, 1  # CUstream_flags
EXTERNAL = 1  # of an event record or wait
ADD_DEPENDENCIES, SET_DEPENDENCIES = 0, 1  # of cuStreamUpdateCaptureDependencies
AUTO_FREE, UPLOAD, DEVICE_LAUNCH, NODE_PRIORITY = 1, 2, 4, 8  # of instantiation


def code(answer: Any) -> int:
    """The return code of a call of the bindings, which answer with a tuple that starts with it."""
    number = int(answer[0] if isinstance(answer, tuple) else answer)
    try:
        return Code(number)
    except ValueError:
        return number


def ok(answer: Any) -> Any:
    """What a call of the bindings returned beside the code, which has to be success."""
    number = code(answer)
    assert number == Code.SUCCESS, f"a call that prepares this test failed with {number!r}"
    rest = tuple(answer[1:]) if isinstance(answer, tuple) else ()
    return rest[0] if len(rest) == 1 else rest or None


def edge_call(name: str) -> Any:
    """The entry point ``name`` in its form with edge data, whatever the release of the bindings calls it.

    CUDA 12 keeps the plain name for the older form; CUDA 13 dropped that one.
    """
    for suffix in ("_v3", "_v2") if name == "cuStreamGetCaptureInfo" else ("_v2",):
        found = getattr(cu, name + suffix, None)
        if found is not None:
            return found
    return getattr(cu, name)


get_capture_info = edge_call("cuStreamGetCaptureInfo")
update_dependencies = edge_call("cuStreamUpdateCaptureDependencies")
add_dependencies = edge_call("cuGraphAddDependencies")
remove_dependencies = edge_call("cuGraphRemoveDependencies")
get_edges = edge_call("cuGraphGetEdges")
node_dependencies = edge_call("cuGraphNodeGetDependencies")
# The form with edge data of cuGraphAddNode is the plain name from CUDA 13 on; a newer "_v3" differs in nothing we use.
add_node_call = getattr(cu, "cuGraphAddNode_v2", None) or cu.cuGraphAddNode


class CaptureInfo(NamedTuple):
    """What cuStreamGetCaptureInfo tells of a stream."""

    status: Status
    id: int
    graph: Any
    dependencies: list[Any]
    edge_data: list[Any]


def capture_info(stream: Any) -> CaptureInfo:
    """Status, id, graph and frontier of a stream; all but the status mean something only while it is active."""
    answer = get_capture_info(stream)
    assert code(answer) == Code.SUCCESS, f"capture info refused with {code(answer)!r}"
    _, status, identity, graph, dependencies, edge_data, count = answer
    return CaptureInfo(
        Status(int(status)), int(identity or 0), graph, list(dependencies or [])[:count], list(edge_data or [])[:count]
    )


def status_of(stream: Any) -> Status:
    """Capture status of a stream."""
    return Status(int(ok(cu.cuStreamIsCapturing(stream))))


def same(a: Any, b: Any) -> bool:
    """Whether two handles are the same object of the driver."""
    return int(a) == int(b)


def nodes_of(graph: Any) -> list[Any]:
    """The nodes of a graph, in the driver's order."""
    _, count = ok(cu.cuGraphGetNodes(graph, 0))
    if count == 0:
        return []
    found, count = ok(cu.cuGraphGetNodes(graph, count))
    return list(found)[:count]


def roots_of(graph: Any) -> list[Any]:
    """The root nodes of a graph, in the driver's order."""
    _, count = ok(cu.cuGraphGetRootNodes(graph, 0))
    if count == 0:
        return []
    found, count = ok(cu.cuGraphGetRootNodes(graph, count))
    return list(found)[:count]


def edges_of(graph: Any) -> set[tuple[int, int]]:
    """The edges of a graph as pairs of positions in `nodes_of`."""
    place = {int(node): position for position, node in enumerate(nodes_of(graph))}
    count = ok(get_edges(graph, 0))[-1]
    if count == 0:
        return set()
    sources, targets, _, count = ok(get_edges(graph, count))
    pairs = [(place[int(a)], place[int(b)]) for a, b in zip(sources[:count], targets[:count], strict=True)]
    assert len(set(pairs)) == len(pairs), "an edge is listed twice"
    return set(pairs)


def kind_of(node: Any) -> int:
    """The kind of a node, as the driver's number."""
    return int(ok(cu.cuGraphNodeGetType(node)))


def kinds_of(graph: Any) -> list[int]:
    """The kinds of a graph's nodes, sorted."""
    return sorted(kind_of(node) for node in nodes_of(graph))


def dependencies_of(node: Any) -> set[int]:
    """The handles of the nodes that one node depends on."""
    count = ok(node_dependencies(node, 0))[-1]
    if count == 0:
        return set()
    found = ok(node_dependencies(node, count))[0]
    return {int(each) for each in list(found)[:count]}


@contextlib.contextmanager
def thread_mode(mode: str) -> Iterator[None]:
    """The calling thread's capture mode set to ``mode``, and put back afterwards."""
    before = ok(cu.cuThreadExchangeStreamCaptureMode(MODES[mode]))
    try:
        yield
    finally:
        ok(cu.cuThreadExchangeStreamCaptureMode(before))


# -- entry points by pointer: arguments that the bindings do not let a caller pass (null out-parameters, bad enums) -----

ffi = cffi.FFI()
NULL = ffi.NULL


def entry(name: str, version: int, signature: str) -> Any:
    """The driver's entry point ``name`` of the ABI introduced at ``version``, as a callable of a C ``signature``.

    Found through the driver's own cuGetProcAddress, so it is the function that the bindings call.
    """
    pointer = ok(cu.cuGetProcAddress(name.encode(), version, 0))[0]
    assert int(pointer), f"{name} of {version} is not offered"
    return ffi.cast(signature, int(pointer))


def handle(of: Any) -> Any:
    """A handle of the bindings, or an address, as a ``void *`` for `entry`."""
    return ffi.cast("void *", int(of))


def address_of(memory: Any) -> int:
    """The address of host memory that offers the buffer interface; the caller keeps it alive."""
    return int(ffi.cast("uintptr_t", ffi.from_buffer(memory)))


FOR_EVER: list[Any] = []


class HostFunctions:
    """C function pointers for Python callables, kept alive as long as this object is.

    A callable handed to cuLaunchHostFunc through the bindings is freed after its first call (known of 13.4.4), so what
    is captured here goes in by pointer.
    """

    def __init__(self) -> None:
        self._alive: list[Any] = []

    def keep(self, thing: Any) -> None:
        """Keeps something else alive as long."""
        self._alive.append(thing)

    def pointer(self, fn: Any) -> int:
        """The address of a ``void (*)(void *)`` that calls ``fn()``."""

        def call(_: Any) -> None:
            fn()

        made = ffi.callback("void(void *)", call)
        self._alive.append(made)
        return int(ffi.cast("uintptr_t", made))

    def destructor(self, fn: Any) -> int:
        """As `pointer`, alive for ever: the driver calls a user object's destructor when it comes to it."""
        address = self.pointer(fn)
        FOR_EVER.append(self._alive[-1])
        return address

    def stream_callback(self, fn: Any) -> int:
        """The address of a ``void (*)(CUstream, CUresult, void *)`` that calls ``fn()``."""

        def call(*_: Any) -> None:
            fn()

        made = ffi.callback("void(void *, int, void *)", call)
        self._alive.append(made)
        return int(ffi.cast("uintptr_t", made))

    def launch(self, stream: Any, fn: Any) -> int:
        """cuLaunchHostFunc of ``fn`` on ``stream``, past the bindings' own record; the return code."""
        call = entry("cuLaunchHostFunc", 10000, "int (*)(void *, void *, void *)")
        return code(int(call(handle(stream), handle(self.pointer(fn)), NULL)))

    def node_params(self, fn: Any) -> Any:
        """Parameters of a host node that calls ``fn()``."""
        params = cu.CUDA_HOST_NODE_PARAMS()
        params.fn = cu.CUhostFn(self.pointer(fn))
        params.userData = 0
        return params
