"""The rules of capture on XPU: which call is recorded, which is refused before SYCL sees it, what that does to the capture.

SYCL itself guards little here, and what it does guard ends the process when dpctl calls it (``docs/xpu.md``). So the rules
are kept on the Python side, the same on both tiers: a :class:`Capture` knows its streams, its nodes, and for each
stream its *frontier* (the nodes on which the next node depends). A recorder does the tier's part.

XPU has one capture mode of its own. Like CUDA's relaxed mode it forbids only what conflicts with the capture itself; like
every mode but that one it must end on the thread that began it.
"""

from __future__ import annotations

import abc
import itertools
import threading
from typing import TYPE_CHECKING, Any, Final

from graphcap.backends.xpu.work import Work
from graphcap.errors import (
    CaptureForbiddenError,
    CaptureInvalidatedError,
    CaptureIsolationError,
    GraphcapError,
    UnjoinedStreamError,
)
from graphcap.interface import CaptureStatus

if TYPE_CHECKING:
    from graphcap.backends.xpu.events import XPUEvent
    from graphcap.backends.xpu.recording import Recording
    from graphcap.backends.xpu.streams import XPUStream

__all__ = ["Capture", "Recorder", "check_device_call", "check_stream_call", "forbid", "join", "lock", "open_captures"]

lock: Final = threading.RLock()
open_captures: Final[list[Capture]] = []

_ids: Final = itertools.count(1)


class Recorder(abc.ABC):
    """A tier's part of one capture. All methods are called with :data:`lock` held."""

    @abc.abstractmethod
    def begin(self, stream: XPUStream) -> None:
        """Let the queue of the origin stream record."""

    @abc.abstractmethod
    def join(self, stream: XPUStream) -> None:
        """Let a further queue record into the same graph."""

    @abc.abstractmethod
    def mark(self, stream: XPUStream) -> Any:
        """A mark after the work that `stream` recorded so far."""

    @abc.abstractmethod
    def wait(self, stream: XPUStream, mark: Any) -> None:
        """Order later work of `stream` after the mark."""

    @abc.abstractmethod
    def add(self, stream: XPUStream, work: Work) -> None:
        """Record one node."""

    @abc.abstractmethod
    def expose(self, stream: XPUStream) -> None:
        """From now on work may reach the stream's queue past graphcap: what it must wait for has to be known to SYCL."""

    @abc.abstractmethod
    def end(self, capture: Capture) -> Recording:
        """Stop recording and give the template; raises ``UnjoinedStreamError`` for loose work that only SYCL saw."""

    @abc.abstractmethod
    def abandon(self) -> None:
        """Stop recording if it is on, and drop what was recorded. Must not raise."""


class Capture:
    """One open (or ended) capture."""

    def __init__(self, origin: XPUStream, recorder: Recorder) -> None:
        self.id = next(_ids)
        self.origin = origin
        self.status = CaptureStatus.ACTIVE
        self.cause: BaseException | None = None
        self.nodes: list[Work] = []
        self.dependencies: list[tuple[int, ...]] = []
        self.streams: list[XPUStream] = []
        self._marks: list[Any] = []
        self._recorder = recorder

    # -- life ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Open the capture on its origin stream."""
        with lock:
            self.origin.before_capture = self.origin.point()
            try:
                self._recorder.begin(self.origin)
            except BaseException:
                self.origin.before_capture = None
                raise
            open_captures.append(self)
            self._enlist(self.origin, ())

    def end(self) -> Recording:
        """End the capture and give its template.

        Raises
        ------
        CaptureInvalidatedError
            It was broken before.
        UnjoinedStreamError
            A leaf of the graph is not covered by the origin stream's frontier (E-8).
        """
        with lock:
            try:
                self.check_valid("capture_end()")
                self._check_joined()
                return self._recorder.end(self)
            finally:
                self.close()

    def close(self) -> None:
        """End the capture whatever its state: every stream is free at once, forks too (E-4)."""
        with lock:
            if self.status is CaptureStatus.ACTIVE:
                self.status = CaptureStatus.NONE
            self._recorder.abandon()
            for stream in self.streams:
                stream.capture, stream.frontier, stream.before_capture = None, (), None
            self.streams.clear()
            # Events that users still hold lead here. They must lead no further: neither to what the nodes own, nor to a
            # SYCL event of the capture, which would put an eager queue back into recording.
            self.nodes, self.dependencies, self._marks = [], [], []
            if self in open_captures:
                open_captures.remove(self)

    def includes(self, handle: int) -> bool:
        """Whether the stream of that handle takes part: the filter by which allocations find the capture's pool."""
        return any(stream.handle == handle for stream in self.streams)

    def _enlist(self, stream: XPUStream, frontier: tuple[int, ...]) -> None:
        self.streams.append(stream)
        stream.capture, stream.frontier = self, frontier

    def _check_joined(self) -> None:
        has_dependents = bytearray(len(self.nodes))
        for dependencies in self.dependencies:
            for node in dependencies:
                has_dependents[node] = 1
        covered = set(self.origin.frontier)
        loose = {node for node, seen in enumerate(has_dependents) if not seen and node not in covered}
        if loose:
            names = [self.nodes[node].name for node in sorted(loose)[:5]]
            raise self.unjoined(
                ", ".join(names), [repr(stream) for stream in self.streams if not loose.isdisjoint(stream.frontier)]
            )

    def unjoined(self, what: str, streams: list[str]) -> UnjoinedStreamError:
        """The error for work that the origin stream does not wait for."""
        return UnjoinedStreamError(
            "capture_end()",
            f"work forked from {self.origin!r} was not joined back: {what}"
            + (f" (on {', '.join(streams)})" if streams else ""),
            "Before the capture ends, let the origin stream wait for each forked stream: `origin.wait(fork.record())`.",
        )

    # -- recording -----------------------------------------------------------------------------------------------

    def add(self, stream: XPUStream, work: Work) -> None:
        """Record `work` after the stream's frontier. A refused piece of work leaves the capture as it was (E-23)."""
        with lock:
            self.check_valid(work.name)
            self._recorder.add(stream, work)
            node = len(self.nodes)
            self.nodes.append(work)
            self.dependencies.append(stream.frontier)
            stream.frontier = (node,)

    def mark(self, stream: XPUStream, event: XPUEvent) -> None:
        """Record `event` at the stream's frontier. Makes no node (E-10)."""
        with lock:
            self.check_valid("Stream.record()")
            self._marks.append(self._recorder.mark(stream))
            event.set_captured(self, stream.frontier, len(self._marks) - 1)

    def fork(self, stream: XPUStream, event: XPUEvent) -> None:
        """Let `stream`, which does not capture, take part from the event on (S-D24)."""
        stream.before_capture = stream.point()
        try:
            self._recorder.join(stream)
        except BaseException:
            stream.before_capture = None
            raise
        self._recorder.wait(stream, self._marks[event.mark])
        self._enlist(stream, event.frontier)

    def order(self, stream: XPUStream, event: XPUEvent) -> None:
        """Let later work of `stream`, which takes part, depend on the event."""
        self._recorder.wait(stream, self._marks[event.mark])
        seen = set(stream.frontier)
        stream.frontier += tuple(node for node in event.frontier if node not in seen)

    def expose(self, stream: XPUStream) -> None:
        """The stream's queue was handed out."""
        with lock:
            if self.status is CaptureStatus.ACTIVE:
                self._recorder.expose(stream)

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


def check_stream_call(call: str, stream: XPUStream) -> None:
    """Refuse a call that waits for a capturing stream or looks at it, and break its capture (S-D15).

    SYCL would throw out of a wait on a recording queue, and dpctl would let that end the process.

    Raises
    ------
    CaptureForbiddenError, CaptureInvalidatedError
        The stream takes part in a capture.
    """
    capture = stream.capture
    if capture is None:
        return
    with lock:
        capture.check_valid(call)
        raise forbid(
            CaptureForbiddenError(
                call,
                f"{stream!r} is capturing: its work is recorded, not run, so there is nothing to wait for",
                "Do it before or after the capture, or capture it as a node with host_call().",
            ),
            capture,
        )


def check_device_call(call: str) -> None:
    """Refuse a call that waits for the whole device: it breaks captures of every thread (S-D15, E-19)."""
    with lock:
        if not open_captures:
            return
        error = CaptureForbiddenError(
            call,
            f"a capture is open on {open_captures[0].origin!r}; waiting for the device would break it",
            "Synchronize before the capture begins or after it has ended.",
        )
        raise forbid(error, *open_captures)


def join(stream: XPUStream, event: XPUEvent) -> bool:
    """Let `stream` wait for `event` as far as captures are concerned: order, a fork, a join, or a refusal.

    Returns
    -------
    bool
        Whether that settles it; ``False`` if neither of the two has to do with a capture.

    Raises
    ------
    CaptureIsolationError
        The event was recorded outside the capture, in another one, or in one that is over (S-D21). SYCL would refuse the
        first without a reason, and would put the queue of an eager stream back into recording for the last.
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
            return own is not None
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
                error_default = CaptureForbiddenError(
                    asked, "the default stream would join a capture", "Fork to a stream made with graphcap.Stream()."
                )
                raise forbid(error_default, other)
            other.fork(stream, event)
        elif own is other:
            own.order(stream, event)
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
        return True
