"""Streams and events of the CPU: work runs at once on the calling thread, or is recorded."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphcap.backends.cpu import captures
from graphcap.backends.cpu.errors import under_present_state
from graphcap.backends.cpu.memory_view import plain, writable
from graphcap.backends.cpu.scalars import cell, with_values
from graphcap.backends.cpu.work import Work
from graphcap.backends.host_errors import HostErrors
from graphcap.backends.parameters import Scalar, current_value, refuse_in_host_call
from graphcap.backends.streams import Event, Stream
from graphcap.errors import CaptureForbiddenError, add_note
from graphcap.interface import CaptureStatus
from graphcap.topology import NodeKind

if TYPE_CHECKING:
    from graphcap.backends.cpu.backend import CPUBackend

__all__ = ["CPUEvent", "CPUStream"]

_handles: Final = itertools.count(1)


class CPUEvent(Event):
    """A point in a CPU stream's work."""

    def __init__(self, backend: CPUBackend, *, timing: bool = False) -> None:
        self.backend: CPUBackend = backend
        self.device_index = 0
        self.timing = timing
        self.recorded = False
        self.capture: captures.Capture | None = None
        self.frontier: tuple[int, ...] = ()
        self.time: int | None = None

    @property
    def handle(self) -> int:
        return 0

    @property
    def is_captured(self) -> bool:
        return self.capture is not None

    def mark(self) -> None:
        """Record the event as done now."""
        self.recorded, self.capture, self.frontier = True, None, ()
        self.time = time.perf_counter_ns() if self.timing else None

    def query(self) -> bool:
        self._check("Event.query()")
        return True

    def synchronize(self) -> None:
        self._check("Event.synchronize()")
        self.backend.host_errors.raise_first()

    def elapsed_since(self, earlier: Event) -> float:
        if not isinstance(earlier, CPUEvent) or not (self.timing and earlier.timing):
            raise ValueError("elapsed_since(): both events must be CPU events made with timing=True.")
        if self.time is None or earlier.time is None:
            raise ValueError("elapsed_since(): an event was not recorded yet. Record both, then synchronize.")
        return (self.time - earlier.time) * 1e-9

    def _check(self, call: str) -> None:
        if self.capture is not None:
            error = CaptureForbiddenError(
                call,
                "the event was last recorded in a capture, so it marks a place in a graph and never completes (907)",
                "Record it outside the capture, or use an external event: stream.record(event, external=True).",
            )
            with captures.lock:
                raise captures.forbid(error, self.capture)
        if self.recorded:
            captures.check_unsafe(call)


class CPUStream(Stream):
    """A CPU stream."""

    def __init__(self, backend: CPUBackend, *, blocking: bool = False, default: bool = False) -> None:
        self.backend: CPUBackend = backend
        self.device_index = 0
        self.blocking = blocking
        self._handle = 0 if default else next(_handles)
        self.capture: captures.Capture | None = None
        self.frontier: tuple[int, ...] = ()

    @property
    def handle(self) -> int:
        return self._handle

    @property
    def capture_status(self) -> CaptureStatus:
        if self._handle == 0:
            captures.check_default_stream("a status query of the default stream", breaks=False)
        return CaptureStatus.NONE if self.capture is None else self.capture.status

    @property
    def is_capturing(self) -> bool:
        capture = self.capture
        return capture is not None and capture.status is CaptureStatus.ACTIVE

    @property
    def capture_id(self) -> int:
        return 0 if self.capture is None else self.capture.id

    # -- order ---------------------------------------------------------------------------------------------------

    def record(self, event: Event | None = None, *, timing: bool = False, external: bool = False) -> Event:
        own = CPUEvent(self.backend, timing=timing) if event is None else self._own(event)
        if external:
            self._need_capture("record", external)
            self.submit(Work(NodeKind.EVENT_RECORD, "event_record", own.mark))
        else:
            with captures.lock:
                capture = self.capture  # another thread may end it: E-13
                if capture is None:
                    self.check_eager("Stream.record()")
                    own.mark()
                else:
                    capture.check_valid("Stream.record()")
                    own.recorded, own.capture, own.frontier = True, capture, self.frontier
        return own

    def wait(self, event: Event | Stream, *, external: bool = False) -> None:
        own = self._own(event.record() if isinstance(event, Stream) else event)
        if external:
            self._need_capture("wait", external)
            # All work runs at once, so a wait that is replayed has nothing left to wait for.
            self.submit(Work(NodeKind.EVENT_WAIT, "event_wait", bool))
            return
        captures.join(self, own)

    def synchronize(self) -> None:
        captures.check_unsafe("Stream.synchronize()", self)
        self.backend.host_errors.raise_first()

    def query(self) -> bool:
        captures.check_unsafe("Stream.query()", self)
        return True

    # -- work ----------------------------------------------------------------------------------------------------

    def submit(self, work: Work) -> None:
        """Run `work` now, or record it when the stream captures (rule 1).

        Raises
        ------
        CaptureInvalidatedError
            The stream belongs to a broken capture.
        CaptureForbiddenError
            The stream is the default stream and a blocking stream captures.
        """
        capture = self.capture
        if capture is not None and capture.add(self, work):
            return
        self.check_eager(work.name)
        work.call()

    def copy(self, dst: Any, src: Any) -> None:
        target, source = writable(dst, "copy() destination"), plain(src, "copy() source")
        if target.nbytes != source.nbytes:
            raise ValueError(f"copy(): the destination has {target.nbytes} bytes, the source {source.nbytes}.")
        if target.shape != source.shape or target.dtype != source.dtype:
            target, source = _bytes(target, "destination"), _bytes(source, "source")
        self.submit(
            Work(
                NodeKind.MEMCPY,
                "memcpy",
                partial(np.copyto, target, source),
                reads=(source,),
                writes=(target,),
                function=np.copyto,
                args=(target, source),
                params={"bytes": target.nbytes},
            )
        )

    def fill(self, dst: Any, value: float | complex | Scalar) -> None:
        target = writable(dst, "fill() destination")
        if isinstance(value, Scalar) and self.capture is not None:
            self._fill_later(target, value)
            return
        item = np.empty((), target.dtype)
        try:
            with np.errstate(over="raise", invalid="raise"):
                item[...] = current_value(value)
        except (OverflowError, FloatingPointError, TypeError) as error:
            raise ValueError(f"fill(): {value!r} does not fit an item of type {target.dtype}.") from error
        self.submit(
            Work(
                NodeKind.MEMSET,
                "memset",
                partial(target.fill, item[()]),
                writes=(target,),
                function=np.copyto,
                args=(target, item),
                params={"bytes": target.nbytes, "value": item[()].item()},
            )
        )

    def _fill_later(self, target: np.ndarray[Any, Any], value: Scalar) -> None:
        item = cell(self, value, target.dtype, "fill()")
        self.submit(
            Work(
                NodeKind.MEMSET,
                "memset",
                partial(np.copyto, target, item),
                writes=(target,),
                function=np.copyto,
                args=(target, item),
                params={"bytes": target.nbytes, "parameters": (str(value),)},
            )
        )

    def host_call(self, fn: Callable[..., Any], *args: Any) -> None:
        refuse_in_host_call(args)
        if not callable(fn):
            raise TypeError(f"host_call(): the function must be callable, not {type(fn).__name__}.")
        name = _name(fn)
        call: Callable[[], Any] = partial(_run, self.backend.host_errors, name, fn, args)
        errors = None
        if self.capture is not None:
            call, errors = under_present_state(call)
        self.submit(Work(NodeKind.HOST, name, call, errstate=errors))

    def launch(self, kernel: Callable[..., Any], *args: Any, **options: Any) -> None:
        """Call ``kernel(*args, **options)`` as one kernel node: any Python callable.

        Arrays of ``array_namespace("cpu")`` and buffers arrive as plain ``numpy.ndarray`` views of the same memory, so
        that all of NumPy works inside. The return value is dropped: write results into an argument. An exception passes
        to the caller of this method or, when replayed, of ``replay``. NumPy's floating-point error state (``numpy.errstate``) at
        the launch is in force at every replay of it.
        """
        if not callable(kernel):
            raise TypeError(f"launch(): the kernel must be callable, not {type(kernel).__name__}.")
        given = tuple(plain(arg, "launch() argument", others=True) for arg in args)
        named = {key: plain(arg, "launch() argument", others=True) for key, arg in options.items()}
        views = tuple(arg for arg in (*given, *named.values()) if isinstance(arg, np.ndarray))
        call: Callable[[], Any] = partial(kernel, *given, **named)
        errors, params, recognised = None, None, kernel
        scalars = [arg for arg in (*given, *named.values()) if isinstance(arg, Scalar)]
        if scalars and self.capture is None:
            call = partial(
                kernel, *map(current_value, given), **{key: current_value(arg) for key, arg in named.items()}
            )
        elif scalars:
            call = with_values(self, f"kernel {_name(kernel)!r}", kernel, given, named) or call
            params = {"parameters": tuple(dict.fromkeys(map(str, scalars)))}
            recognised, given, named = call, (), {}  # only the call itself knows where the values go
        if self.capture is not None:
            call, errors = under_present_state(call)
        self.submit(
            Work(
                NodeKind.KERNEL,
                _name(kernel),
                call,
                reads=views,
                writes=tuple(view for view in views if view.flags.writeable),
                function=recognised,
                args=given,
                kwargs=named,
                params=params,
                errstate=errors,
            )
        )

    def save(self, array: Any) -> Any:
        self.check_eager("save()")
        return plain(array, "preserve").copy()  # keeps the shape, so that any view can be given its contents back

    # -- pieces --------------------------------------------------------------------------------------------------

    def _own(self, event: Event) -> CPUEvent:
        if not isinstance(event, CPUEvent):
            raise TypeError(f"a CPU stream works with CPU events, not {type(event).__name__}.")
        return event

    def check_eager(self, call: str) -> None:
        """Refuse work on the legacy default stream while a blocking stream captures (S-D22)."""
        if self._handle == 0 and captures.open_captures:
            with captures.lock:
                captures.check_default_stream(call)

    def _need_capture(self, call: str, external: bool) -> None:
        if self.capture is None:
            raise ValueError(f"{call}(external={external}): the stream does not capture. Leave `external` out.")


def _run(errors: HostErrors, name: str, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Call ``fn(*args)`` and keep what it raises."""
    try:
        fn(*args)
    except Exception as error:
        add_note(error, f"raised in the host call {name!r}")
        errors.keep(error)


def _name(fn: Callable[..., Any]) -> str:
    if isinstance(fn, partial):
        return _name(fn.func)
    name = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or type(fn).__name__
    return str(name).rpartition("<locals>.")[2]


def _bytes(array: np.ndarray[Any, Any], what: str) -> np.ndarray[Any, Any]:
    if not array.flags.c_contiguous:
        raise ValueError(f"copy(): the {what} is not contiguous, and its shape or type differs from the other's.")
    return array.reshape(-1).view(np.uint8)
