"""The rules of capture, executable: which call is recorded, which is refused, and what that does to the capture.

A :class:`Capture` is what the CUDA driver calls a capture sequence: an origin stream, the streams that joined it, the nodes
so far, and for each stream its *frontier* (the nodes on which its next node depends). The rules follow section D of
the capture semantics as corrected by the tests on hardware (S-D…, E-…); where hardware leaves a question open the choice made
here is the strict one.

Work on the CPU runs at once on the calling thread, so no rule is needed for what is still in flight. One lock guards all
captures: several threads may submit to one capture (E-13).
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any, Final

from graphcap._this_thread import thread_mark
from graphcap.backends.cpu.work import Work
from graphcap.errors import (
    CaptureForbiddenError,
    CaptureInvalidatedError,
    CaptureIsolationError,
    GraphcapError,
    UnjoinedStreamError,
)
from graphcap.interface import CaptureStatus, GraphCaptureMode

if TYPE_CHECKING:
    import numpy as np

    from graphcap.backends.cpu.stream import CPUEvent, CPUStream
    from graphcap.backends.parameter_uses import Use

__all__ = ["Capture", "check_default_stream", "check_device_call", "check_unsafe", "join", "lock", "open_captures"]

lock: Final = threading.RLock()
open_captures: Final[list[Capture]] = []
"""Every capture that has begun and not ended. Empty is the fast path of all eager work."""

_ids: Final = itertools.count(1)


class Capture:
    """One open (or ended) capture."""

    def __init__(self, origin: CPUStream, mode: GraphCaptureMode) -> None:
        self.id = next(_ids)
        self.origin = origin
        self.mode = mode
        self.thread = thread_mark()
        self.status = CaptureStatus.ACTIVE
        self.cause: BaseException | None = None
        self.nodes: list[Work] = []
        self.dependencies: list[tuple[int, ...]] = []
        self.streams: list[CPUStream] = []
        self.uses: list[Use] = []
        """Where recorded work takes the value of a parameter."""
        self.cells: dict[tuple[int, np.dtype[Any]], np.ndarray[Any, Any]] = {}
        self.cell_names: dict[int, str] = {}

    # -- life ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Open the capture on its origin stream."""
        with lock:
            open_captures.append(self)
            self.enlist(self.origin, ())

    def enlist(self, stream: CPUStream, frontier: tuple[int, ...]) -> None:
        """Let `stream` take part from `frontier` on."""
        self.streams.append(stream)
        stream.capture, stream.frontier = self, frontier

    def close(self) -> None:
        """End the capture whatever its state: every stream is free at once, forks too (E-4)."""
        with lock:
            if self.status is CaptureStatus.ACTIVE:
                self.status = CaptureStatus.NONE
            for stream in self.streams:
                stream.capture, stream.frontier = None, ()
            self.streams.clear()
            if self in open_captures:
                open_captures.remove(self)

    def end(self) -> None:
        """End the capture.

        Raises
        ------
        CaptureInvalidatedError
            It was broken before (901).
        UnjoinedStreamError
            A leaf of the graph is not covered by the origin stream's frontier (904, E-8).
        """
        with lock:
            try:
                self.check_valid("capture_end()")
                self._check_joined()
            finally:
                self.close()

    def _check_joined(self) -> None:
        has_dependents = bytearray(len(self.nodes))
        for dependencies in self.dependencies:
            for node in dependencies:
                has_dependents[node] = 1
        covered = set(self.origin.frontier)
        loose = {node for node, seen in enumerate(has_dependents) if not seen and node not in covered}
        if not loose:
            return
        streams = [repr(stream) for stream in self.streams if not loose.isdisjoint(stream.frontier)]
        names = [self.nodes[node].name for node in sorted(loose)[:5]]
        raise UnjoinedStreamError(
            "capture_end()",
            f"work forked from {self.origin!r} was not joined back: {', '.join(names)}"
            + (f" (on {', '.join(streams)})" if streams else ""),
            "Before the capture ends, let the origin stream wait for each forked stream: `origin.wait(fork.record())`.",
        )

    # -- recording -----------------------------------------------------------------------------------------------

    def add(self, stream: CPUStream, work: Work) -> bool:
        """Record `work` after the stream's frontier; false if the stream is no part of the capture any more.

        Raises
        ------
        CaptureInvalidatedError
            The capture is broken.
        """
        with lock:
            if stream.capture is not self:
                return False  # another thread ended the capture while this one was on its way here
            self.check_valid(work.name)
            node = len(self.nodes)
            self.nodes.append(work)
            self.dependencies.append(stream.frontier)
            stream.frontier = (node,)
        return True

    def check_valid(self, asked: str) -> None:
        """Raise if the capture is invalidated, with the first cause chained (rule 4)."""
        if self.status is CaptureStatus.INVALIDATED:
            raise CaptureInvalidatedError(
                asked,
                f"the capture on {self.origin!r} was invalidated by an earlier call",
                "End the capture, mend the first cause, and capture again.",
            ) from self.cause

    def invalidate(self, cause: BaseException) -> None:
        """Break the whole sequence, whichever stream was named (E-5). The first cause is kept."""
        if self.status is CaptureStatus.ACTIVE:
            self.status = CaptureStatus.INVALIDATED
            # Without its traceback: that would keep the frames of the capture's body, and their arrays, alive.
            self.cause = cause.with_traceback(None)


def forbid(error: GraphcapError, *captures: Capture) -> GraphcapError:
    """Invalidate `captures` with `error`; give it back to be raised."""
    for capture in captures:
        capture.invalidate(error)
    return error


def check_unsafe(call: str, stream: CPUStream | None = None) -> None:
    """Refuse a call that may not happen now, and break the captures that forbid it (S-D8 to S-D10, S-D15).

    Parameters
    ----------
    stream
        The stream that the call waits for or looks at, if it is about one.

    Raises
    ------
    CaptureForbiddenError
        `stream` captures (900); or a capture in global mode is open anywhere; or one in thread-local mode is open that
        this thread began.
    CaptureInvalidatedError
        `stream` belongs to an invalidated capture.
    """
    if not open_captures:
        return
    with lock:
        if stream is not None and stream.capture is not None:
            stream.capture.check_valid(call)
            raise forbid(
                CaptureForbiddenError(
                    call,
                    f"{stream!r} is capturing: its work is recorded, not run, so there is nothing to wait for",
                    "Do it before or after the capture, or capture it as a node with host_call().",
                ),
                stream.capture,
            )
        for capture in list(open_captures):
            if capture.mode is GraphCaptureMode.GLOBAL or (
                capture.mode is GraphCaptureMode.THREAD_LOCAL and capture.thread is thread_mark()
            ):
                raise forbid(
                    CaptureForbiddenError(
                        call,
                        f"a capture in {capture.mode.name.lower()} mode is open on {capture.origin!r}",
                        "Do it before or after the capture, or capture with capture_mode='relaxed'.",
                    ),
                    capture,
                )


def check_device_call(call: str) -> None:
    """Refuse a call that waits for the whole device: it breaks captures of every mode and thread (S-D15, E-19)."""
    if not open_captures:
        return
    with lock:
        error = CaptureForbiddenError(
            call,
            f"a capture is open on {open_captures[0].origin!r}; waiting for the device would break it",
            "Synchronize before the capture begins or after it has ended.",
        )
        raise forbid(error, *open_captures)


def check_default_stream(call: str, *, breaks: bool = True) -> None:
    """Refuse work on the legacy default stream while a blocking stream captures (906, S-D22, E-21)."""
    blocked = [capture for capture in open_captures if any(stream.blocking for stream in capture.streams)]
    if blocked:
        error = CaptureForbiddenError(
            call,
            f"it went to the legacy default stream while the blocking stream {blocked[0].origin!r} captures",
            "Submit it to the capturing stream (`with stream:`), or capture on a non-blocking stream.",
        )
        raise forbid(error, *(blocked if breaks else ()))


def join(stream: CPUStream, event: CPUEvent) -> None:
    """Let `stream` wait for `event`: order inside a capture, a fork, a join, or a refusal (S-D21, S-D24, E-7, E-15).

    Raises
    ------
    CaptureIsolationError
        The event was recorded outside the capture (905), in another one (902), or in one that is over.
    CaptureInvalidatedError
        The capture of the event, or of the stream, is broken.
    """
    asked = f"{stream!r}.wait(event)"
    with lock:
        own, other = stream.capture, event.capture
        if own is not None:
            own.check_valid(asked)
        if other is None:
            if own is not None and event.recorded:
                raise forbid(
                    CaptureIsolationError(
                        asked,
                        "the stream captures, but the event was recorded outside the capture",
                        "Record the event inside the capture, or wait for it before the capture begins.",
                    ),
                    own,
                )
            return
        other.check_valid(asked)
        if other not in open_captures:
            error = CaptureIsolationError(
                asked,
                "the event was recorded in a capture that is over",
                "Record the event again before waiting for it.",
            )
            raise forbid(error, *(() if own is None else (own,)))
        if own is None:
            if stream.is_default:
                raise forbid(
                    CaptureForbiddenError(
                        asked,
                        "the legacy default stream would join a capture",
                        "Fork to a stream made with graphcap.Stream().",
                    ),
                    other,
                )
            other.enlist(stream, event.frontier)
        elif own is other:
            seen = set(stream.frontier)
            stream.frontier += tuple(node for node in event.frontier if node not in seen)
        else:
            raise forbid(
                CaptureIsolationError(
                    asked,
                    "the stream and the event belong to two different captures, which cannot be merged",
                    "Keep the two captures apart, or capture both parts into one graph.",
                ),
                own,
                other,
            )
