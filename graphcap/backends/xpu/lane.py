"""Order between a queue and host calls without SYCL's help, for the software tier.

dpctl cannot enqueue a host call. So each stream has a lane: while no host call is pending, work goes straight to the
queue on the caller's thread; from a host call on, everything given to the stream waits in the lane, and a thread works
it off in order (waiting for the queue before each host call) until the lane is empty again.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from graphcap.backends.host_errors import HostErrors
from graphcap.backends.xpu import _dpctl

__all__ = ["Lane", "Point", "close_all"]

_lanes: Final[weakref.WeakSet[Lane]] = weakref.WeakSet()


class Point:
    """A point in a stream's work, on either tier: known at once, or when the lane gets there."""

    __slots__ = ("_event", "_reached")

    def __init__(self, event: Any = None, *, later: bool = False) -> None:
        self._event = event
        self._reached = threading.Event() if later else None

    def settle(self, event: Any) -> None:
        """The lane got there: `event` stands for the point from now on."""
        self._event = event
        if self._reached is not None:
            self._reached.set()

    @property
    def is_settled(self) -> bool:
        """Whether the point is known to the queue."""
        return self._reached is None or self._reached.is_set()

    @property
    def event(self) -> Any:
        """The ``SyclEvent``; ``None`` if everything before the point was done when it was reached."""
        return self._event

    def is_done(self) -> bool:
        """Whether all work before the point is done."""
        return self.is_settled and (self._event is None or _dpctl.is_complete(self._event))

    def wait(self) -> None:
        """Wait on the host until all work before the point is done."""
        if self._reached is not None:
            self._reached.wait()
        if self._event is not None:
            _dpctl.wait_event(self._event)


class Lane:
    """The lane of one queue.

    Parameters
    ----------
    queue
        The ``dpctl.SyclQueue``.
    errors
        Where failures of submissions go that happen after the call that asked for them.
    """

    def __init__(self, queue: Any, errors: HostErrors) -> None:
        self._queue = queue
        self._errors = errors
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Callable[[], Any], Point]] = deque()
        self._busy = False
        self._closed = False
        _lanes.add(self)

    def submit(self, step: Callable[[], Any]) -> Point:
        """Do `step` (which submits to the queue and gives the event) in order; at once if nothing is pending.

        Raises
        ------
        Exception
            What `step` raises, if it could be done at once.
        """
        with self._changed:
            if not self._busy:
                return Point(step())
            return self._append(step)

    def submit_host(self, step: Callable[[], Any]) -> Point:
        """Do `step` on the host after all work so far, and before all later work."""

        def after_the_queue() -> None:
            self._queue.wait()
            step()

        return self.submit_waiting(after_the_queue)

    def submit_waiting(self, step: Callable[[], Any]) -> Point:
        """Do `step`, which may block, in order on the lane's thread."""
        with self._changed:
            point = self._append(step)
            if not self._busy:
                self._busy = True
                threading.Thread(target=self._work, name="graphcap-xpu-lane", daemon=True).start()
            return point

    def is_idle(self) -> bool:
        """Whether nothing is pending in the lane; the queue itself may still work."""
        return not self._busy

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until nothing is pending. Gives whether that came to be within `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy, timeout)

    def close(self) -> None:
        """Forget what is pending; the step that runs now is the last."""
        with self._changed:
            self._closed = True

    def _append(self, step: Callable[[], Any]) -> Point:
        point = Point(later=True)
        self._waiting.append((step, point))
        return point

    def _work(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    self._waiting.clear()
                if not self._waiting:
                    self._busy = False
                    self._changed.notify_all()
                    return
                step, point = self._waiting.popleft()
            event = None
            try:
                event = step()
            except Exception as error:
                self._errors.keep(error)
            finally:
                point.settle(event)
            del step, point, event  # what they own must not live until the next step


def close_all(end: float) -> None:
    """Let lanes finish until the monotonic time `end`, then forget what is pending in them."""
    for lane in list(_lanes):
        if not lane.drain(max(0.0, end - time.monotonic())):
            lane.close()
            lane.drain(0.1)
