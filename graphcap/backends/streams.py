"""Streams and events as users see them, and the calling thread's current stream.

A backend implements :class:`Stream` and :class:`Event`. What is here is the same for all: device-neutral names, the
stack of current streams (one per thread and device), and equality by handle.
"""

from __future__ import annotations

import abc
import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from graphcap.backends.base import Backend, framework_hooks
from graphcap.errors import UnsupportedError
from graphcap.interface import CaptureStatus

if TYPE_CHECKING:
    from typing_extensions import Self

    from graphcap.backends.parameters import Scalar

__all__ = ["Event", "Stream", "current_stream", "innermost", "stream_factory"]


if TYPE_CHECKING:
    # To a type checker these classes can be called, since calling them gives an object of a backend's class.
    _Method = TypeVar("_Method", bound=Callable[..., Any])

    def _supplied(method: _Method) -> _Method: ...

else:
    _supplied = abc.abstractmethod


class _Factory(abc.ABCMeta):
    """Lets ``graphcap.Stream("cuda")`` build the backend's own class, with no second ``__init__`` run on it."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        maker = stream_factory.get(cls.__name__) if cls.__module__ == __name__ else None
        return super().__call__(*args, **kwargs) if maker is None else maker(*args, **kwargs)


stream_factory: Final[dict[str, Callable[..., Any]]] = {}
"""Filled by the layer that resolves device strings: how ``Stream(...)`` and ``Event(...)`` are built."""


class Event(metaclass=_Factory):
    """A point in a stream's work.

    ``graphcap.Event(device=None, *, timing=False)`` makes one that was never recorded; :meth:`Stream.record` is the
    usual way to get one.
    """

    backend: Backend
    device_index: int

    if TYPE_CHECKING:

        def __init__(self, device: str | None = None, *, timing: bool = False) -> None: ...

    @property
    @_supplied
    def handle(self) -> int:
        """The driver's handle as an int (0 where there is none)."""
        raise NotImplementedError

    @property
    @_supplied
    def is_captured(self) -> bool:
        """Whether it was last recorded in a stream that captured then."""
        raise NotImplementedError

    @_supplied
    def query(self) -> bool:
        """Whether all work before the record is done (also if never recorded).

        Raises
        ------
        CaptureForbiddenError
            The event was last recorded in a capture (907), or an open capture forbids it (S-D12).
        """
        raise NotImplementedError

    @_supplied
    def synchronize(self) -> None:
        """Wait on the host for it. Raises as :meth:`query`."""
        raise NotImplementedError

    @_supplied
    def elapsed_since(self, earlier: Event) -> float:
        """Seconds of device time since `earlier`; both need ``timing=True`` and must be done.

        Raises
        ------
        UnsupportedError
            The backend has no ``event_timing``.
        ValueError
            One of the two was made without ``timing=True`` or was not recorded.
        """
        raise NotImplementedError


class Stream(metaclass=_Factory):
    """A sequence of work on one device, in order.

    ``graphcap.Stream(device=None, *, priority=0, blocking=False)`` makes one; ``Stream.wrap(obj, device=None)`` takes a
    stream of another library. As a context manager it becomes the calling thread's current stream, for graphcap and for
    the frameworks that are imported.
    """

    backend: Backend
    device_index: int
    token: object = object()
    """What is current while this stream is; a backend that looks at it gives each stream one of its own."""

    if TYPE_CHECKING:

        def __init__(self, device: str | None = None, *, priority: int = 0, blocking: bool = False) -> None: ...

    @staticmethod
    def wrap(stream: object, device: str | None = None) -> Stream:
        """A graphcap stream over one of another library, which stays the owner; its object is kept alive.

        Raises
        ------
        UnsupportedError
            The backend cannot wrap streams.
        TypeError
            `stream` is not of a kind that the backend knows.
        """
        maker: Callable[..., Stream] = stream_factory["Stream.wrap"]
        return maker(stream, device)

    @property
    def device(self) -> str:
        """The device string, such as ``"cuda:0"``."""
        return f"{self.backend.name.lower()}:{self.device_index}"

    @property
    @_supplied
    def handle(self) -> int:
        """The driver's handle as an int; 0 is the default stream."""
        raise NotImplementedError

    @property
    def is_default(self) -> bool:
        """Whether this is the device's legacy default stream, which cannot be captured."""
        return self.handle == 0

    @property
    @_supplied
    def capture_status(self) -> CaptureStatus:
        """None, active or invalidated. Legal at any time."""
        raise NotImplementedError

    @property
    def is_capturing(self) -> bool:
        """Whether work given to this stream is recorded now."""
        return self.capture_status is CaptureStatus.ACTIVE

    @property
    @_supplied
    def capture_id(self) -> int:
        """The id of the capture this stream takes part in; 0 if none."""
        raise NotImplementedError

    # -- order ---------------------------------------------------------------------------------------------------

    @_supplied
    def record(self, event: Event | None = None, *, timing: bool = False, external: bool = False) -> Event:
        """Record `event` (a new one if not given) after the work submitted so far.

        Parameters
        ----------
        timing
            For a new event: make it able to measure time.
        external
            In a capture, record it as a node that fires on every replay, instead of marking a fork (S-D26).

        Raises
        ------
        UnsupportedError
            `external` on a backend without ``external_events``.
        """
        raise NotImplementedError

    @_supplied
    def wait(self, event: Event | Stream, *, external: bool = False) -> None:
        """Let later work of this stream wait for `event`, or for all work so far of another stream.

        Waiting on an event that was recorded in a capture makes this stream join that capture (a fork, S-D24).

        Raises
        ------
        CaptureIsolationError
            The dependency would cross into or out of a capture (905) or join two captures (902).
        CaptureInvalidatedError
            The event's capture, or this stream's, is invalidated.
        """
        raise NotImplementedError

    @_supplied
    def synchronize(self) -> None:
        """Wait on the host until all work is done.

        Raises
        ------
        CaptureForbiddenError
            The stream captures, which breaks the capture (900); or an open capture forbids it (S-D8, S-D9).
        """
        raise NotImplementedError

    @_supplied
    def query(self) -> bool:
        """Whether all work is done. Raises as :meth:`synchronize`."""
        raise NotImplementedError

    # -- work ----------------------------------------------------------------------------------------------------

    @_supplied
    def copy(self, dst: Any, src: Any) -> None:
        """Copy all bytes of `src` to `dst`: device buffers, arrays of the device, or host arrays (contiguous).

        Raises
        ------
        ValueError
            The sizes differ, or one of the two is not contiguous or not writable.
        """
        raise NotImplementedError

    @_supplied
    def fill(self, dst: Any, value: int | float | complex | Scalar) -> None:
        """Set every item of `dst` to `value`; every byte if `dst` is an untyped buffer (0 to 255).

        Raises
        ------
        ValueError
            `value` does not fit the item.
        """
        raise NotImplementedError

    @_supplied
    def host_call(self, fn: Callable[..., Any], *args: Any) -> None:
        """Call ``fn(*args)`` on the host when the stream gets there; on every replay when captured.

        `fn` must not use the device. An exception in it is kept and raised at the next synchronise or replay.
        """
        raise NotImplementedError

    def launch(self, kernel: Any, *args: Any, **options: Any) -> None:
        """Launch a kernel; what it takes depends on the backend (design section 3)."""
        raise UnsupportedError(self.backend.name, "Stream.launch()", "launch")

    def condition(self, default: int | None = None) -> Any:
        """A condition for the conditional nodes of the graph under capture, on backends with ``conditional_nodes``."""
        raise UnsupportedError(self.backend.name, "Stream.condition()", "conditional_nodes")

    def allocate(self, nbytes: int) -> Any:
        """A :class:`Buffer` of `nbytes` whose first use is on this stream."""
        return self.backend.allocate(nbytes, self.device_index, self)

    @contextlib.contextmanager
    def preserved(self, arrays: Iterable[Any]) -> Iterator[None]:
        """Give `arrays` back, in stream order, the contents they have now, when the ``with`` block is left.

        Raises
        ------
        ValueError, TypeError
            Something in `arrays` cannot be copied by :meth:`copy`.
        """
        kept = [(array, self.save(array)) for array in arrays]
        try:
            yield
        finally:
            for array, saved in kept:
                self.copy(array, saved)

    def save(self, array: Any) -> Any:
        """A copy of `array`, made in stream order, that :meth:`copy` can bring back."""
        saved = self.allocate(array.nbytes)
        self.copy(saved, array)
        return saved

    # -- identity and the current stream -------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[str, int, int]:
        return self.backend.name, self.device_index, self.handle

    def __repr__(self) -> str:
        return f"<graphcap.Stream {self.device} handle={self.handle:#x}>"

    def __enter__(self) -> Self:
        _stack().append((self, _enter_hooks(self)))
        local.top = self.token
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stack = _stack()
        stream, undo = stack.pop()
        local.top = stack[-1][0].token if stack else _NO_STREAM
        undo.close()
        if stream is not self:
            raise RuntimeError(f"{self!r} left before {stream!r}, which was entered after it. Nest `with` blocks.")


_NO_STREAM: Final = object()


class _Local(threading.local):
    def __init__(self) -> None:
        self.stack: list[tuple[Stream, contextlib.ExitStack]] = []
        self.top: object = _NO_STREAM
        """The token of the innermost ``with stream:``, for those who ask often."""


local: Final = _Local()


def _stack() -> list[tuple[Stream, contextlib.ExitStack]]:
    return local.stack


def _enter_hooks(stream: Stream) -> contextlib.ExitStack:
    with contextlib.ExitStack() as stack:
        stack.enter_context(stream.backend.device_guard(stream.device_index))
        for hook in framework_hooks(stream.backend.name):
            undo = hook.stream_entered(stream)
            if undo is not None:
                stack.callback(undo)
        return stack.pop_all()


def current_stream(backend: Backend, device: int | None = None) -> Stream:
    """The calling thread's current stream of a device: a framework's own, the innermost ``with stream:``, the default.

    Parameters
    ----------
    device
        A device index; the backend's current device if not given.
    """
    index = backend.current_device() if device is None else device
    foreign = backend.foreign_current_stream(index)
    if foreign is not None:
        return foreign
    for stream, _ in reversed(local.stack):
        if stream.backend is backend and stream.device_index == index:
            return stream
    return backend.default_stream(index)


def innermost(backend: Backend) -> Stream | None:
    """The stream of the innermost ``with stream:`` of this thread for a backend, whatever its device."""
    return next((stream for stream, _ in reversed(local.stack) if stream.backend is backend), None)
