"""The captures that graphcap has open: who takes part, who owns what their nodes use, and what broke them first.

The driver keeps the rules. This file only remembers what the driver forgets: the call that invalidated a capture (the
driver's later answers say 901 and nothing more), and the streams that were forked, with the line that forked them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from graphcap.backends.buffer import Buffer
from graphcap.backends.cuda import _calls as calls
from graphcap.backends.cuda import _driver as driver
from graphcap.backends.cuda import _graph_calls as graph_calls
from graphcap.backends.cuda.context import DeviceGuard
from graphcap.errors import CaptureError, CaptureInvalidatedError, GraphcapError, UnjoinedStreamError
from graphcap.interface import CaptureStatus, MempoolId

if TYPE_CHECKING:
    from graphcap.backends.cuda.operands import Operand
    from graphcap.backends.cuda.scalars import NodeBinding
    from graphcap.backends.cuda.stream import CUDAStream

__all__ = ["Capture", "Captures", "Conditional"]

_LEGACY_IN_THE_WAY = 906


class Conditional(NamedTuple):
    """A conditional node: its kind in words, the driver's condition, and the graphs of its bodies."""

    word: str
    condition: int
    bodies: tuple[int, ...]


class Fork(NamedTuple):
    """A stream that joined a capture, and the line that made it do so."""

    stream: CUDAStream
    where: str


class Capture:
    """One open (or ended) capture.

    Parameters
    ----------
    origin
        The stream on which it began.
    identity
        The driver's id of the capture.
    mode
        Its mode, for the captures of its conditional bodies.
    retain
        How to keep an object alive as long as the graph.
    pool
        The capture's pool id, once it is known.
    """

    def __init__(
        self,
        origin: CUDAStream,
        identity: int,
        mode: calls.Mode,
        retain: Callable[[object], None],
        pool: Callable[[], MempoolId | None],
    ) -> None:
        self.origin = origin
        self.identity = identity
        self.bindings: dict[int, NodeBinding] = {}
        """The nodes that take values of parameters."""
        self.ids = {identity}
        """The capture's own id and those of its conditional bodies."""
        self.mode = mode
        self.retain = retain
        self._pool = pool
        self.open = True
        self.cause: BaseException | None = None
        self.forks: dict[int, Fork] = {}
        self.conditionals: dict[int, Conditional] = {}
        """The conditional nodes by handle; the driver does not tell their bodies before CUDA 13.2."""
        self.failed_body: BaseException | None = None
        self.frontier: tuple[int, ...] = ()
        """The last nodes of the stream that :meth:`belongs` was last asked about: how far the capture had come."""

    def belongs(self, stream: int) -> bool:
        """Whether work on a stream is recorded by this capture (the routing filter of its pool, S-B13)."""
        try:
            with DeviceGuard(self.origin.device_index):  # asked on any thread, also on one that never used CUDA
                info = calls.capture_info(stream)
        except CaptureError as error:
            if driver.driver_code(error) == _LEGACY_IN_THE_WAY:
                return False  # the legacy stream never takes part
            raise
        if info.status is not CaptureStatus.ACTIVE or info.id not in self.ids:
            return False
        self.frontier = info.frontier
        return True

    def owns(self, memory: Operand) -> bool:
        """Whether memory lies in the capture's own pool, which the graph keeps as a whole."""
        pool = self._pool()
        if pool is None or not memory.on_device:
            return False
        if isinstance(memory.owner, Buffer):
            return memory.owner.pool_id == pool
        segments = self.origin.backend.allocator(self.origin.device_index).snapshot(pool)["segments"]
        return any(s["address"] <= memory.address < s["address"] + s["total_size"] for s in segments)

    def joined(self, stream: CUDAStream) -> None:
        """Note that a stream takes part from now on."""
        if stream.handle != self.origin.handle and stream.handle not in self.forks:
            self.forks[stream.handle] = Fork(stream, _caller())

    def has_member(self, stream: int) -> bool:
        """Whether a stream took part, as far as seen; also right for a broken capture, which the driver names no more."""
        return stream == self.origin.handle or stream in self.forks

    def note(self, error: BaseException) -> None:
        """Keep the first cause (rule 4)."""
        if self.cause is None:
            # Without its traceback: that would keep the frames of the capture's body, and their arrays, alive.
            self.cause = error.with_traceback(None)

    def unjoined(self) -> list[Fork]:
        """The forks whose last node nothing waits for. Only right before the capture ends."""
        if not self.forks:
            return []
        covered = set(calls.capture_info(self.origin.handle).frontier)
        return [fork for fork in self.forks.values() if self._is_loose(fork.stream.handle, covered)]

    def _is_loose(self, stream: int, covered: set[int]) -> bool:
        info = calls.capture_info(stream)
        if info.id not in self.ids:
            return False
        return any(node not in covered and not graph_calls.dependent_count(node) for node in info.frontier)

    def unjoined_error(self, cause: GraphcapError, loose: list[Fork]) -> UnjoinedStreamError:
        """The driver's 904 with the names of the streams."""
        names = "; ".join(f"{fork.stream!r}, forked at {fork.where}" for fork in loose)
        error = UnjoinedStreamError(
            "capture_end()",
            f"work forked from {self.origin!r} was not joined back"
            + (f": {names}" if names else " (by a stream that graphcap did not see)"),
            "Before the capture ends, let the origin stream wait for each forked stream: `origin.wait(fork)`.",
        )
        error.__cause__ = cause.__cause__
        return error


class Captures:
    """All captures of graphcap that are open on CUDA devices."""

    def __init__(self) -> None:
        self._by_id: dict[int, Capture] = {}
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._by_id)

    def all(self) -> list[Capture]:
        """Each open capture once."""
        with self._lock:
            return list(dict.fromkeys(self._by_id.values()))

    def opened(self, capture: Capture, identity: int) -> None:
        """Enter a capture, or a body of one, under its id."""
        with self._lock:
            capture.ids.add(identity)
            self._by_id[identity] = capture

    def body_closed(self, capture: Capture, identity: int) -> None:
        """A conditional body was ended; the capture goes on."""
        with self._lock:
            capture.ids.discard(identity)
            self._by_id.pop(identity, None)

    def closed(self, capture: Capture) -> None:
        """Take a capture out; it is over, however it ended."""
        capture.open = False
        with self._lock:
            for identity in capture.ids:
                self._by_id.pop(identity, None)

    def by_id(self, identity: int) -> Capture | None:
        """The open capture of an id; ``None`` for captures of other libraries."""
        return self._by_id.get(identity)

    def of_stream(self, stream: int) -> Capture | None:
        """The open capture that records a stream."""
        if not self._by_id:
            return None
        info = calls.capture_info(stream)
        return self._by_id.get(info.id) if info.status is CaptureStatus.ACTIVE else None

    def call(self, name: str, *args: Any, asked: str, stream: int = -1) -> Any:
        """Call the driver; a refusal is raised as the right error, and remembered by the captures that it broke.

        Parameters
        ----------
        asked
            The public call, for the message.
        stream
            The stream that the call is about, if any.

        Raises
        ------
        CaptureInvalidatedError
            The stream's capture was broken before; its first cause is chained.
        GraphcapError
            As the driver's code says.
        """
        code, value = driver.answer(name, *args)
        if code:
            raise self.refused(driver.mapped(name, code, asked), stream)
        return value

    def is_done(self, name: str, handle: int, *, asked: str, stream: int) -> bool:
        """Ask by ``cuStreamQuery`` or ``cuEventQuery`` whether work is done. Raises as :meth:`call`."""
        code, _ = driver.answer(name, handle)
        if code not in (0, calls.NOT_READY):
            raise self.refused(driver.mapped(name, code, asked), stream)
        return code == 0

    def refused(self, error: GraphcapError, stream: int = -1) -> GraphcapError:
        """What to raise for a refusal by the driver; notes it in the captures that it broke."""
        if not driver.is_capture_error(error) or not self._by_id:
            return error
        broken_before: Capture | None = None
        for capture in self.all():
            if capture.cause is not None:
                if capture.has_member(stream):
                    broken_before = capture
            elif capture.origin.capture_status is CaptureStatus.INVALIDATED:
                if isinstance(error, CaptureInvalidatedError):
                    continue  # broken by a call that was not seen here
                capture.note(error)
        if broken_before is None:
            return error
        return self.invalidated(broken_before, error.asked)

    def invalidated(self, capture: Capture, asked: str) -> CaptureInvalidatedError:
        """The error of any use of a broken capture."""
        error = CaptureInvalidatedError(
            asked,
            f"the capture on {capture.origin!r} was invalidated by an earlier call",
            "End the capture, mend the first cause, and capture again.",
        )
        error.__cause__ = capture.cause
        return error


def _caller() -> str:
    """File and line of the nearest frame outside graphcap."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "graphcap":
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
