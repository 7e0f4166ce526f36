"""What must live until device work is done although its owner is gone.

Finalizers put things here, on any thread and inside any other call, so putting takes no lock; whoever asks for device
resources next sweeps.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from graphcap.backends.xpu.lane import Lane, Point

__all__ = ["Parked", "ParkedQueue"]


class ParkedQueue:
    """The queue of a stream that is gone. Its handle stays taken until its work is done."""

    __slots__ = ("_lane", "_queue", "device_index", "handle", "point")

    def __init__(self, handle: int, device_index: int, queue: Any, lane: Lane | None) -> None:
        self.handle = handle
        self.device_index = device_index
        self.point: Point | None = None
        self._queue = queue
        self._lane = lane

    def mark(self) -> None:
        """Find out up to where the queue has work. Not in a finalizer: this takes locks."""
        if self.point is None:
            barrier = self._queue.submit_barrier
            self.point = Point(barrier()) if self._lane is None else self._lane.submit(barrier)


class Parked:
    """Owners waiting for points of device work."""

    def __init__(self) -> None:
        self._arrived: deque[tuple[Point | ParkedQueue, object]] = deque()
        self._entries: list[tuple[Point | ParkedQueue, object]] = []
        self._lock = threading.Lock()

    def put(self, until: Point | ParkedQueue, owner: object) -> None:
        """Keep `owner` until the point is done, or until the work given to the queue so far is."""
        self._arrived.append((until, owner))

    def sweep(self) -> None:
        """Let go of what is done. Cheap when nothing is parked."""
        if not self._arrived and not self._entries:
            return
        gone: list[object] = []
        if self._lock.acquire(blocking=False):  # a finalizer inside may get here again; then the outer call goes on
            try:
                self._take_arrived()
                kept: list[tuple[Point | ParkedQueue, object]] = []
                for entry in self._entries:
                    (gone if _is_done(entry[0]) else kept).append(entry)
                self._entries = kept
            finally:
                self._lock.release()
        gone.clear()  # without the lock: finalizers run here

    def queues(self) -> list[ParkedQueue]:
        """The queues that are still parked."""
        with self._lock:
            self._take_arrived()
            return [entry[0] for entry in self._entries if isinstance(entry[0], ParkedQueue)]

    def _take_arrived(self) -> None:
        while self._arrived:
            until, owner = self._arrived.popleft()
            if isinstance(until, ParkedQueue):
                until.mark()
            self._entries.append((until, owner))


def _is_done(until: Point | ParkedQueue) -> bool:
    point = until.point if isinstance(until, ParkedQueue) else until
    return point is not None and point.is_done()
