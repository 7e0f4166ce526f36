"""Events of XPU streams: a point in eager work, or a place in a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphcap.backends.streams import Event
from graphcap.backends.xpu import captures
from graphcap.backends.xpu.lane import Point
from graphcap.errors import CaptureForbiddenError, UnsupportedError

if TYPE_CHECKING:
    from graphcap.backends.xpu.backend import XPUBackend

__all__ = ["XPUEvent"]


class XPUEvent(Event):
    """A point in an XPU stream's work."""

    def __init__(self, backend: XPUBackend, device_index: int) -> None:
        self.backend: XPUBackend = backend
        self.device_index = device_index
        self.recorded = False
        self.capture: captures.Capture | None = None
        self.frontier: tuple[int, ...] = ()
        self.mark: int = -1
        self.point: Point | None = None

    @property
    def handle(self) -> int:
        return 0

    @property
    def is_captured(self) -> bool:
        return self.capture is not None

    def set_captured(self, capture: captures.Capture, frontier: tuple[int, ...], mark: int) -> None:
        """The event now marks a place in a capture. The SYCL event behind it stays with the capture (C3)."""
        self.recorded, self.capture, self.frontier, self.mark, self.point = True, capture, frontier, mark, None

    def set_point(self, point: Point) -> None:
        """The event now marks a point in eager work."""
        self.recorded, self.capture, self.frontier, self.mark, self.point = True, None, (), -1, point

    def query(self) -> bool:
        self._check("Event.query()")
        return self.point is None or self.point.is_done()

    def synchronize(self) -> None:
        self._check("Event.synchronize()")
        if self.point is not None:
            self.point.wait()
        self.backend.host_errors.raise_first()

    def elapsed_since(self, earlier: Event) -> float:
        raise UnsupportedError(self.backend.name, "Event.elapsed_since()", "event_timing", "Time on the host.")

    def _check(self, call: str) -> None:
        if self.capture is not None:
            error = CaptureForbiddenError(
                call,
                "the event was last recorded in a capture, so it marks a place in a graph and never completes",
                "Record it outside the capture.",
            )
            with captures.lock:
                raise captures.forbid(error, self.capture)
