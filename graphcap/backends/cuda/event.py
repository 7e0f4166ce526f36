"""Events of a CUDA device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphcap.backends.cuda import _calls as calls
from graphcap.backends.cuda import _driver as driver
from graphcap.backends.cuda.context import DeviceGuard
from graphcap.backends.streams import Event
from graphcap.errors import CaptureForbiddenError

if TYPE_CHECKING:
    from graphcap.backends.cuda.backend import CUDABackend
    from graphcap.backends.cuda.captures import Capture

__all__ = ["CUDAEvent"]

_INVALID_HANDLE = 400


class CUDAEvent(Event):
    """A driver event. It is destroyed with its last reference (after the last open capture)."""

    def __init__(self, backend: CUDABackend, device: int, *, timing: bool = False) -> None:
        self._handle = 0
        self.backend: CUDABackend = backend
        self.device_index = device
        self.timing = timing
        self.capture: Capture | None = None
        """graphcap's capture in which it was last recorded."""
        self._captured = False
        with DeviceGuard(device):
            self._handle = calls.create_event(timing=timing)

    def __del__(self) -> None:
        if getattr(self, "_handle", 0):
            self.backend.trash.destroy("cuEventDestroy", self._handle, self.device_index)

    @property
    def handle(self) -> int:
        return self._handle

    @property
    def is_captured(self) -> bool:
        return self._captured

    @property
    def is_stale(self) -> bool:
        """Whether it was recorded in a capture of graphcap that is over: it marks a place in a graph that is made."""
        return self.capture is not None and not self.capture.open

    def recorded(self, *, captured: bool, capture: Capture | None) -> None:
        """Note where it was recorded last."""
        self._captured, self.capture = captured, capture

    def query(self) -> bool:
        self._check("Event.query()")
        with DeviceGuard(self.device_index):
            return self.backend.captures.is_done(
                "cuEventQuery", self._handle, asked="Event.query()", stream=self._stream()
            )

    def synchronize(self) -> None:
        self._check("Event.synchronize()")
        with DeviceGuard(self.device_index):
            self.backend.captures.call(
                "cuEventSynchronize", self._handle, asked="Event.synchronize()", stream=self._stream()
            )
        self.backend.host_errors.raise_first()

    def elapsed_since(self, earlier: Event) -> float:
        if not isinstance(earlier, CUDAEvent) or not (self.timing and earlier.timing):
            raise ValueError("elapsed_since(): both events must be CUDA events made with timing=True.")
        with DeviceGuard(self.device_index):
            code, milliseconds = driver.answer("cuEventElapsedTime", earlier.handle, self._handle)
        if code == _INVALID_HANDLE:
            raise ValueError("elapsed_since(): an event was not recorded yet. Record both, then synchronize.")
        if code == calls.NOT_READY:
            raise ValueError("elapsed_since(): an event is not done yet. Synchronize the later one first.")
        if code:
            raise self.backend.captures.refused(driver.mapped("cuEventElapsedTime", code, "elapsed_since()"))
        return float(milliseconds) * 1e-3

    def _check(self, call: str) -> None:
        if self.is_stale:
            raise CaptureForbiddenError(
                call,
                "the event was last recorded in a capture, so it marks a place in a graph and never completes",
                "Record it outside the capture, or use an external event: stream.record(event, external=True).",
            )

    def _stream(self) -> int:
        """A member of the capture in which it was recorded: names that capture to the registry."""
        return -1 if self.capture is None else self.capture.origin.handle
