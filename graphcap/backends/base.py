"""What a backend offers beyond the contract: capabilities, streams, memory, and hooks by which frameworks take part.

A backend is one :class:`Backend` object per process and device type. Its graph implementation (the factory given to
:func:`graphcap.register_graph_impl`) points to it by a class attribute ``backend``: a function without arguments that
returns the one object. A factory without that attribute still serves the contract; what needs a stream then raises
``UnsupportedError``.

A capability that is missing is said by :class:`Capabilities`; nothing in graphcap ever compares a backend's name.
"""

from __future__ import annotations

import abc
import contextlib
import importlib
import sys
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from graphcap.errors import GraphcapWarning, UnsupportedError
from graphcap.interface import GraphCaptureMode

if TYPE_CHECKING:
    from graphcap.backends.buffer import Buffer
    from graphcap.backends.streams import Event, Stream
    from graphcap.memory import CachingAllocator

__all__ = [
    "ArrayHook",
    "Backend",
    "BackendStatus",
    "Capabilities",
    "FrameworkHook",
    "framework_hooks",
    "one_object",
    "register_framework_hook",
]


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a backend can do. Everything not listed here every backend can do.

    Attributes
    ----------
    native_graph
        The device's own graph object is replayed; ``False`` where calls are recorded and submitted again.
    capture_modes
        The modes that differ; any other given mode falls back to the backend's own with a warning.
    legacy_stream
        There is a legacy default stream with implicit ordering against blocking streams (S-D22, S-D23).
    wrap_stream
        Streams of other libraries can be used.
    priorities
        Streams take a priority.
    event_timing, external_events
        Events measure elapsed time; events can be recorded as nodes that the outside sees.
    dump_format
        The format that ``debug_dump`` writes: ``"cuda-dot"``, ``"sycl-dot"``, ``"graphcap-dot"``.
    graph_update, node_update, node_enable
        ``g.update(other)``; ``set_args`` on nodes of an executable; enabling and disabling nodes.
    parameters
        Captured work takes ``graphcap.parameter`` values, which may change from replay to replay.
    conditional_nodes, memory_nodes, upload
        Conditional bodies; allocation nodes; explicit upload of an executable.
    array_namespace
        ``graphcap.array_namespace(device)`` gives a module of arrays whose work is captured.
    host_can_read
        Device memory can be read by the host without a copy.
    asynchronous
        Work may still run after the call that submitted it returned.
    """

    native_graph: bool = True
    capture_modes: frozenset[GraphCaptureMode] = frozenset(GraphCaptureMode)
    legacy_stream: bool = True
    wrap_stream: bool = False
    priorities: bool = False
    event_timing: bool = False
    external_events: bool = False
    dump_format: str = "graphcap-dot"
    graph_update: bool = False
    node_update: bool = False
    node_enable: bool = False
    parameters: bool = False
    conditional_nodes: bool = False
    memory_nodes: bool = False
    upload: bool = False
    array_namespace: bool = False
    host_can_read: bool = False
    asynchronous: bool = False

    def require(self, capability: str, backend: str, operation: str, cure: str = "") -> None:
        """Raise ``UnsupportedError`` unless the flag named `capability` is set."""
        if not getattr(self, capability):
            raise UnsupportedError(backend, operation, capability, cure)


@dataclass(frozen=True)
class BackendStatus:
    """Whether a backend is usable here.

    Attributes
    ----------
    ok
        It is.
    reason, cure
        Why not, and what to do about it; empty when `ok`.
    capabilities
        What it can do; ``None`` when that cannot be told.
    installed
        Its library is there (a device may still be missing). An installed but broken backend is worth a warning when
        the choice of a default device falls past it.
    details
        Free facts for people: device names, versions.
    """

    ok: bool
    reason: str = ""
    cure: str = ""
    capabilities: Capabilities | None = None
    installed: bool = True
    details: dict[str, Any] = field(default_factory=dict)


class Backend(abc.ABC):
    """The devices of one type, in this process. Built on first use; building it may load the device library."""

    name: str
    """The upper-case device type name, for messages and device strings."""

    capabilities: Capabilities

    @abc.abstractmethod
    def status(self) -> BackendStatus:
        """Whether the library and a device are there. Must not raise."""

    @abc.abstractmethod
    def device_count(self) -> int:
        """How many devices there are."""

    @abc.abstractmethod
    def current_device(self) -> int:
        """The index of the calling thread's current device."""

    @abc.abstractmethod
    def device_guard(self, index: int) -> contextlib.AbstractContextManager[None]:
        """Make device `index` the calling thread's current one inside a ``with``."""

    @abc.abstractmethod
    def create_stream(self, device: int, *, priority: int = 0, blocking: bool = False) -> Stream:
        """A new stream. `blocking` streams are ordered against the legacy default stream (S-D22)."""

    @abc.abstractmethod
    def wrap_stream(self, stream: object, device: int) -> Stream:
        """A :class:`Stream` over a stream of another library. It is not owned; the object is kept alive.

        Raises
        ------
        UnsupportedError
            The backend lacks ``wrap_stream``.
        TypeError
            `stream` is not of a kind that the backend knows.
        """

    @abc.abstractmethod
    def default_stream(self, device: int) -> Stream:
        """The device's default stream, which cannot be captured."""

    @abc.abstractmethod
    def create_event(self, device: int, *, timing: bool = False) -> Event:
        """A new event that was never recorded."""

    @abc.abstractmethod
    def synchronize(self, device: int) -> None:
        """Wait for all work of the device. Raises ``CaptureForbiddenError`` while a capture is open on it (E-19)."""

    @abc.abstractmethod
    def allocator(self, device: int) -> CachingAllocator:
        """The device's memory manager."""

    def allocators(self) -> Sequence[CachingAllocator]:
        """Every memory manager whose memory a node may use: one per device, and per kind of memory."""
        return [self.allocator(index) for index in range(self.device_count())]

    @abc.abstractmethod
    def allocate(self, nbytes: int, device: int, stream: Stream) -> Buffer:
        """A buffer whose first use is on `stream`; from the capture's pool when `stream` captures.

        Raises
        ------
        OutOfMemoryError
            The memory cannot be had.
        ValueError
            `nbytes` is negative.
        """

    def array_namespace(self, device: int) -> Any:
        """A module of arrays whose work is captured by this backend."""
        raise UnsupportedError(self.name, "array_namespace()", "array_namespace")

    # -- arrays, as graphed callables and bound inputs handle them --------------------------------------------------

    def array_key(self, value: Any) -> Hashable | None:
        """What must be equal for one array to take another's place: shape and dtype; ``None`` if `value` is no array.

        A backend extends this by the array types of its device; a :class:`Buffer` is an array of bytes everywhere.
        """
        return (value.nbytes, "bytes") if isinstance(value, _buffer_type()) else None

    def clone_array(self, value: Any, stream: Stream) -> Any:
        """A new array of the device with the contents of `value`, copied in stream order."""
        return stream.save(value)

    def load_array(self, target: Any, value: Any, stream: Stream) -> None:
        """Copy `value` into `target` in stream order, unless they are the same memory."""
        if target is not value and target.ptr != value.ptr:
            stream.copy(target, value)

    def loader(self, target: Any) -> Callable[[Any, Stream], None]:
        """As :meth:`load_array` into one array, for who does it often."""
        return partial(self.load_array, target)

    def store_array(self, target: Any, value: Any, stream: Stream) -> None:
        """As :meth:`load_array`, on a stream that may be capturing: the copy is recorded then."""
        self.load_array(target, value, stream)

    def adopt_array(self, value: Any) -> Any:
        """`value` as an array whose work a capture sees, over the same memory, where it is not one by itself."""
        return value

    def result_array(self, value: Any, stream: Stream, like: Any) -> Any:
        """A copy of a result for the caller, in stream order; where there is a choice, of the sort of `like`."""
        return self.clone_array(value, stream)

    def foreign_current_stream(self, device: int) -> Stream | None:
        """The stream that a framework made current by its own means, or ``None``; asked before the thread's stack."""
        for hook in framework_hooks(self.name):
            found = hook.current_stream(self, device)
            if found is not None:
                return found
        return None


def _buffer_type() -> type[Buffer]:
    from graphcap.backends.buffer import Buffer  # a module of this layer that itself needs this one

    return Buffer


_B = TypeVar("_B", bound=Backend)


def one_object(maker: Callable[[], _B]) -> Callable[[], _B]:
    """How a backend is reached: `maker` builds it on first use, and every thread gets that one object.

    A failure is not remembered, so that a cure (a library installed, a variable set) counts at once.
    """
    lock = threading.Lock()
    made: list[_B] = []

    def get() -> _B:
        if not made:
            with lock:  # threads that come at the same time must get the same object
                if not made:
                    made.append(maker())
        return made[0]

    return get


class FrameworkHook(Protocol):
    """How a framework that the user has imported takes part in streams and captures.

    Each method returns an undo function (or ``None``); undo functions run in reverse order and must not raise.
    """

    def stream_entered(self, stream: Stream) -> Callable[[], None] | None:
        """`stream` became the thread's current stream by ``with stream:``."""

    def current_stream(self, backend: Backend, device: int) -> Stream | None:
        """The stream that the framework itself made current, if it differs from what graphcap set; else ``None``."""

    def capture_begun(
        self, stream: Stream, pool: tuple[int, int], retain: Callable[[object], object]
    ) -> Callable[[], None] | None:
        """A capture began on `stream`; allocations should go to `pool`, owners to `retain`. The undo ends it."""

    def explain(self, error: BaseException) -> BaseException | None:
        """What to raise in place of an error of the framework inside a capture; ``None`` to let it pass unchanged."""


class ArrayHook(FrameworkHook, Protocol):
    """A framework whose arrays are cloned by its own means; one without keeps to :class:`FrameworkHook`.

    One that can copy between arrays which are not contiguous may have ``copy_array(target, value, stream) -> bool`` besides: whether
    it did, in stream order.
    """

    def clone_array(self, value: Any, stream: Stream) -> Any:
        """A new array of the framework with the contents of `value`, in stream order; ``None`` if it is not its array."""


@dataclass
class _HookEntry:
    module: str
    target: str
    hook: FrameworkHook | None = None
    own_streams: bool = True
    failed: bool = False


_hooks: dict[str, list[_HookEntry]] = {}


def register_framework_hook(backend: str, module: str, target: str, *, own_streams: bool = True) -> None:
    """Let a framework take part, once the user has imported it.

    Parameters
    ----------
    backend
        The device type whose streams the framework uses.
    module
        The framework's top module: the hook is loaded when ``sys.modules`` has it, so one that is not imported costs
        nothing.
    target
        ``"package.module:attribute"`` of the :class:`FrameworkHook` object.
    own_streams
        The framework has a current stream of its own, which may change at any time: every replay asks it. Without, its
        import makes no replay slower.
    """
    entries = _hooks.setdefault(backend.upper(), [])
    if all(known.target != target for known in entries):
        entries.append(_HookEntry(module, target, own_streams=own_streams))


def framework_hooks(backend: str) -> Sequence[FrameworkHook]:
    """The hooks of the frameworks that are imported by now, for a backend."""
    entries = _hooks.get(backend)
    if entries is None:  # the usual case on the replay path
        return ()
    return [hook for entry in entries for hook in _loaded(entry)]


def _loaded(entry: _HookEntry) -> Iterator[FrameworkHook]:
    if entry.hook is None and not entry.failed and entry.module in sys.modules:
        module, _, attribute = entry.target.partition(":")
        try:
            entry.hook = getattr(importlib.import_module(module), attribute)
        except Exception as error:  # a release or a mode of the framework that its hook does not know
            entry.failed = True
            warnings.warn(
                f"{entry.module} takes no part in graphcap's streams and captures, because its hook ({module}) cannot be loaded: "
                f"{type(error).__name__}: {error}",
                GraphcapWarning,
                stacklevel=3,
            )
    if entry.hook is not None:
        yield entry.hook
