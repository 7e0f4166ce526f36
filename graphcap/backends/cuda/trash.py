"""What may not be destroyed yet: handles while a capture is open, and owners while a replay may still use them.

Destroying an executable breaks a capture (E-17, E-18, user problems C), so handles wait here until the last capture of
graphcap has ended (rule 9). Captures of other libraries are unharmed too: the destroying thread is relaxed meanwhile.
"""

from __future__ import annotations

import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from graphcap.backends.cuda import _calls as calls
from graphcap.backends.cuda import _driver as driver
from graphcap.backends.cuda.context import DeviceGuard, Relaxed
from graphcap.errors import CaptureForbiddenError, GraphcapError, GraphcapWarning
from graphcap.interface import CaptureStatus

if TYPE_CHECKING:
    from graphcap.backends.cuda.stream import CUDAStream

__all__ = ["Handle", "Trash"]

_MANY: Final = 64
"""So many things wait at most before all are looked at, in a program that never synchronises through graphcap."""


class Handle:
    """A handle to be destroyed."""

    __slots__ = ("destroyed", "device", "handle", "name")

    def __init__(self, name: str, handle: int, device: int) -> None:
        self.name, self.handle, self.device = name, handle, device
        self.destroyed = False

    def try_now(self) -> bool:
        """Destroy it; ``False`` if it is still in use."""
        # A stream handle's number may be used again at once, and freed memory is keyed by it: only when all is done.
        if self.name == "cuStreamDestroy" and (
            calls.capture_status(self.handle) is not CaptureStatus.NONE or not calls.stream_is_done(self.handle)
        ):
            return False
        driver.call(self.name, self.handle)
        self.destroyed = True
        return True


class _Owners:
    """Objects to be let go once the work that was on some streams when they were retired is done."""

    __slots__ = ("device", "events", "payload", "streams")

    def __init__(self, payload: list[object], streams: list[CUDAStream], device: int) -> None:
        self.payload, self.streams, self.device = payload, streams, device
        self.events: list[int] = []

    def try_now(self) -> bool:
        while self.streams:
            stream = self.streams[-1]
            if stream.grave is not None and stream.grave.destroyed:
                # The collector may finalise a stream before what refers to it; it was destroyed after its last work.
                self.streams.pop()
                continue
            handle = stream.handle
            if calls.capture_status(handle) is not CaptureStatus.NONE:
                return False  # an event would become a part of that capture
            event = calls.create_event(timing=False)
            self.events.append(event)
            driver.call("cuEventRecord", event, handle)
            self.streams.pop()
        while self.events:
            try:
                done = calls.event_is_done(self.events[-1])
            except CaptureForbiddenError:
                # Ours was recorded outside captures. So the handle is somebody else's by now, which happens when the context was
                # reset: the event and the work that it stood for went with it.
                self.events.pop()
                continue
            if not done:
                return False
            driver.call("cuEventDestroy", self.events[-1])
            self.events.pop()
        self.payload.clear()
        return True


class Trash:
    """The queue of a process.

    Parameters
    ----------
    capturing
        Whether a capture of graphcap is open anywhere.
    """

    def __init__(self, capturing: Callable[[], bool]) -> None:
        self._capturing = capturing
        self._queue: deque[Handle | _Owners] = deque()
        self._closed = False

    def destroy(self, name: str, handle: int, device: int) -> Handle | None:
        """Destroy a handle by the driver function `name`, now or later. Safe in a finalizer, on any thread."""
        if not handle or self._closed:
            return None
        item = Handle(name, handle, device)
        self._put(item)
        return item

    def retire(self, payload: list[object], streams: Iterable[CUDAStream], device: int) -> None:
        """Let go of `payload` when the work that is on `streams` by now is done."""
        waiting = list(streams)
        if not waiting or self._closed:
            payload.clear()
        else:
            self._put(_Owners(payload, waiting, device))

    def empty(self) -> None:
        """Destroy what can be destroyed by now. Does nothing while a capture is open.

        Warns
        -----
        GraphcapWarning
            The driver refused; it is tried again the next time.
        """
        if not self._queue or self._capturing():
            return
        for _ in range(len(self._queue)):
            try:
                item = self._queue.popleft()
            except IndexError:  # another thread empties it too
                return
            self._try(item)

    def close(self) -> None:
        """From now on destroy nothing: the process ends, and the driver may be gone before the last finalizer runs."""
        self._closed = True
        self._queue.clear()

    @property
    def closed(self) -> bool:
        """Whether the process ends."""
        return self._closed

    def __len__(self) -> int:
        return len(self._queue)

    def _put(self, item: Handle | _Owners) -> None:
        if self._capturing():
            self._queue.append(item)
            return
        self._try(item)
        if len(self._queue) > _MANY:
            self.empty()

    def _try(self, item: Handle | _Owners) -> None:
        if self._closed or sys.is_finalizing():
            return
        try:
            with DeviceGuard(item.device), Relaxed():
                done = item.try_now()
        except GraphcapError as error:
            self._queue.append(item)
            what = item.name if isinstance(item, Handle) else "letting go of what a graph owned"
            warnings.warn(f"{what} failed and will be tried again: {error}", GraphcapWarning, stacklevel=3)
            return
        if not done:
            self._queue.append(item)
