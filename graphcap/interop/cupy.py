"""How CuPy takes part: its current stream, its allocations during captures, and what it refuses while capturing.

Loaded by :func:`graphcap.backends.base.framework_hooks` once the user has imported CuPy. Nothing of CuPy is changed for good: a
stream is made current by CuPy's own ``with``, and allocations are routed by CuPy's thread-local ``using_allocator``; both
are put back as they were.

What cannot be seen from here: allocations of *other* threads during a capture (CuPy gives them the process-wide
allocator), and pinned memory (CuPy's pinned allocator cannot be read, so it could not be put back). Copies from the host
belong before the capture or into :meth:`graphcap.Stream.copy`, which makes the graph own their source.
"""

from __future__ import annotations

import gc
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from graphcap._this_thread import thread_mark
from graphcap.backends.base import Backend
from graphcap.backends.buffer import Buffer
from graphcap.backends.extents import Declared
from graphcap.backends.owners import Candidates
from graphcap.backends.streams import Stream
from graphcap.errors import CaptureForbiddenError, GraphcapError

if TYPE_CHECKING:
    from graphcap.backends.cuda.captures import Capture

__all__ = ["CuPyHook", "hook"]

cupy: Final[Any] = importlib.import_module("cupy")  # CuPy has no type stubs

_CAPTURE_ERRORS: Final = range(900, 910)


class _Local(threading.local):
    def __init__(self) -> None:
        self.pushed: list[Any] = []
        """CuPy streams that this hook made current, innermost last."""


_local = _Local()


class CuPyHook:
    """The hook of CuPy; see :class:`graphcap.backends.base.FrameworkHook`."""

    def stream_entered(self, stream: Stream) -> Callable[[], None] | None:
        return _push(stream)

    def current_stream(self, backend: Backend, device: int) -> Stream | None:
        current = cupy.cuda.get_current_stream(device)
        pushed = _local.pushed
        expected = next((known for known in reversed(pushed) if known.device_id in (device, -1)), None)
        if current is expected or (expected is None and current.ptr in (0, 1)):
            return None
        return backend.wrap_stream(current, device)

    current_object = staticmethod(cupy.cuda.get_current_stream)
    """What tells for replays that CuPy's current stream of a device is still the same; see ``backends.cuda.replaying``."""

    def capture_begun(
        self, stream: Stream, pool: tuple[int, int], retain: Callable[[object], object]
    ) -> Callable[[], None] | None:
        backend: Any = stream.backend
        capture = backend.captures.of_stream(stream.handle)
        retain(_DeviceMemory())
        undo = [_route_allocations(backend, capture)]
        try:
            current = cupy.cuda.get_current_stream(stream.device_index)
            if current.ptr != stream.handle:
                # CuPy was imported after the stream was made current: its work would silently miss the graph.
                undo.append(_push(stream))
                current = cupy.cuda.get_current_stream(stream.device_index)
            undo.append(_own_host_functions(current, retain))
        except BaseException:
            _undo(undo)
            raise
        return lambda: _undo(undo)

    def explain(self, error: BaseException) -> BaseException | None:
        """What to raise in place of an error of CuPy inside a capture; ``None`` for errors of other kinds."""
        if isinstance(error, GraphcapError) or not isinstance(error, Exception):
            return None
        text = str(error)
        status = getattr(error, "status", None)
        refused = isinstance(error, (NotImplementedError, RuntimeError)) and "captur" in text.lower()
        if not refused and status not in _CAPTURE_ERRORS:
            return None
        what = text.partition("\n")[0]
        explained = CaptureForbiddenError("CuPy inside a capture", f"CuPy refuses it: {what}", _way_out(text))
        explained.__cause__ = error
        return explained

    def clone_array(self, value: Any, stream: Stream) -> Any:
        """A CuPy array like `value` with its contents, in stream order; ``None`` if `value` is not CuPy's."""
        if not isinstance(value, cupy.ndarray):
            return None
        with stream:
            return value.copy()

    def copy_array(self, target: Any, value: Any, stream: Stream) -> bool:
        """Copy between CuPy's arrays of any strides, by a kernel in stream order; false if they are not both CuPy's."""
        if not (isinstance(target, cupy.ndarray) and isinstance(value, cupy.ndarray)):
            return False
        with stream:
            cupy.copyto(target, value)
        return True


def _way_out(text: str) -> str:
    for library in ("cuBLAS", "cuSOLVER", "cuRAND", "cuSPARSE"):
        if library.lower() in text.lower():
            return (
                f"CuPy calls no {library} while a stream captures (cupy#6290). Split the work: capture the parts before and after "
                f"into two graphs and call {library} between their replays, or write the step as a kernel (elementwise, "
                "reduction or raw)."
            )
    return (
        "Copy between host and device before the capture or with Stream.copy(), and do not synchronise, query or read "
        "values (.get(), float(a), if a: ...) inside it."
    )


def _push(stream: Stream) -> Callable[[], None]:
    """Make a stream CuPy's current one by CuPy's own means."""
    owner = getattr(stream, "_owner", None)
    is_cupys = hasattr(owner, "ptr") and type(owner).__module__.startswith("cupy.")
    foreign: Any = owner if is_cupys else _external(stream)
    foreign.__enter__()
    _local.pushed.append(foreign)

    def pop() -> None:
        _local.pushed.pop()
        foreign.__exit__(None, None, None)

    return pop


def _external(stream: Stream) -> Any:
    """A stream of CuPy over one of ours, which it does not own."""
    if not hasattr(cupy.cuda.Stream, "from_external"):  # before CuPy 14
        return cupy.cuda.ExternalStream(stream.handle, stream.device_index)
    foreign = cupy.cuda.Stream.from_external(stream)
    foreign.device_id = (
        stream.device_index
    )  # CuPy leaves it open, and would make a stream current on a device it is not of
    return foreign


def _own_host_functions(stream: Any, retain: Callable[[object], object]) -> Callable[[], None]:
    """``stream.launch_host_func`` in a capture keeps its functions in a list that CuPy makes in ``begin_capture`` only."""
    before = getattr(stream, "_graph_host_funcargs", None)
    if before is not None:
        return lambda: None
    owned: list[Any] = []
    stream._graph_host_funcargs = owned
    retain(owned)

    def restore() -> None:
        stream._graph_host_funcargs = None

    return restore


class _DeviceMemory(Candidates):
    """The device memory that CuPy's arrays lie in: from before the capture, and from other allocators during it.

    CuPy keeps no list of its arrays, but the collector knows the objects that hold their memory. All that are there when the
    capture begins are kept until it ends, so that memory which an array gives up inside the capture is not handed out again
    before it is known whether a node uses it (cupy#9655).
    """

    def __init__(self) -> None:
        self._before = _device_memory()

    def objects(self) -> Iterator[Declared]:
        found = {id(memory): memory for memory in (*self._before, *_device_memory())}
        return (Declared(memory, memory.ptr, memory.size) for memory in found.values() if memory.ptr and memory.size)


def _device_memory() -> list[Any]:
    """What holds the device memory of each array of CuPy; memory that CuPy was lent holds on to its lender."""
    pointer = cupy.cuda.memory.MemoryPointer
    return [found.mem for found in gc.get_objects() if type(found) is pointer]


class _Router:
    """CuPy's allocations of one thread during one capture: those on captured streams come from the capture's pool.

    CuPy frees from any thread and at any later time; the block is then given back to the pool, which lives as long as a block
    of it does, so arrays that outlive the capture stay valid.

    The memory is lent to CuPy by a :class:`Buffer`, whose own finalizer gives it back. CuPy's ``PythonFunctionAllocator`` would
    lose the memory of arrays that die in a reference cycle (with the traceback of an exception, say): the collector takes
    CuPy's object apart before it is asked to free.
    """

    def __init__(self, backend: Any, capture: Capture, before: Callable[[int], Any]) -> None:
        self._backend = backend
        self._capture = capture
        self._before = before
        self.open = True

    def allocate(self, size: int) -> Any:
        """The allocator that CuPy calls."""
        current = cupy.cuda.get_current_stream()
        if not (self.open and size and self._capture.belongs(current.ptr)):
            return self._before(size)
        device = cupy.cuda.runtime.getDevice()
        block = self._backend.allocator(device).allocate(size, current.ptr)
        lender = Buffer(self._backend, device, block, size)
        return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(lender.ptr, size, lender, device), 0)


def _route_allocations(backend: Any, capture: Capture) -> Callable[[], None]:
    router = _Router(backend, capture, cupy.cuda.get_allocator())
    scope = cupy.cuda.using_allocator(router.allocate)
    thread = thread_mark()
    scope.__enter__()

    def restore() -> None:
        router.open = False
        # A relaxed capture may end on another thread, whose allocator is not ours to set. The router then passes on.
        if thread_mark() is thread:
            scope.__exit__(None, None, None)

    return restore


def _undo(steps: list[Callable[[], None]]) -> None:
    while steps:
        steps.pop()()


hook: Final = CuPyHook()
