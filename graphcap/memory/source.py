"""Where segments come from: the one thing the pool manager needs to be given.

The pool manager is arithmetic. It never touches a device; it asks a :class:`SegmentSource` for segments and for
events, and hands pieces of the segments (blocks) out. A backend, or anybody who has some memory to manage, writes
one source and gets private pools, stream-ordered reuse and statistics for it.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["MemoryAccess", "SegmentSource"]


@runtime_checkable
class SegmentSource(Protocol):
    """A supplier of segments and events for one device.

    Streams are opaque hashable integers here (the driver's handle, or any other number the backend picks); the
    manager only compares them. All methods are called with the manager's lock held, from whichever thread caused
    the call, and never two at once. They must not call back into the same manager, except that a free from a
    finalizer or from a garbage collection is always allowed.

    ``free_segment``, ``query_event`` and ``synchronize_event`` are never called while a capture is open
    (S-C23, S-C30, F8), nor is ``record_event``. ``allocate_segment`` *is* called during a capture: a CUDA
    source must relax the thread's capture mode around the driver call (S-C21).
    """

    @property
    def label(self) -> str:
        """Device name as users write it: ``"cuda:0"``, ``"cpu"``; the text after ``:`` is the device index."""

    @property
    def alignment(self) -> int:
        """Bytes; every address that ``allocate_segment`` returns is a multiple of it.

        Blocks lie at multiples of 512 bytes within a segment, so a source that returns addresses aligned to 512
        bytes or more yields blocks aligned to 512.
        """

    def allocate_segment(self, nbytes: int, stream: int) -> int:
        """Return the address of ``nbytes`` new bytes, which the manager will hand out to work on ``stream``.

        Raises
        ------
        MemoryError
            There is not enough memory (:class:`graphcap.errors.OutOfMemoryError` is one). The manager then releases
            what it can and asks again. Any other exception is passed on to the caller of ``allocate`` unchanged.
        """

    def free_segment(self, address: int, nbytes: int) -> None:
        """Take back one segment, whole, exactly as ``allocate_segment`` returned it.

        The manager has no block in it and no pending event on it. Work that was submitted earlier to the segment's
        own stream may still run: a source whose own free is neither stream-ordered nor synchronising waits for the
        device first. An exception leaves the segment with the manager, which offers it again later.
        """

    def record_event(self, stream: int) -> object:
        """Record a new event on ``stream`` after the work submitted so far; return it. Never called in a
        capture."""

    def query_event(self, event: Any) -> bool:
        """Say whether ``event`` has completed, without waiting."""

    def synchronize_event(self, event: Any) -> None:
        """Wait until ``event`` has completed."""

    def release_event(self, event: Any) -> None:
        """Take back an event that ``record_event`` returned (a source may keep it for reuse)."""

    def memory_info(self) -> tuple[int, int] | None:
        """Return ``(free, total)`` bytes of the device, or None if the source cannot tell."""


@runtime_checkable
class MemoryAccess(Protocol):
    """What a source offers *in addition* so that debug mode can look at memory.

    Without it debug mode still names double and foreign frees, but poisons nothing and checks no red zones. Neither
    method is called while a capture is open.
    """

    def fill(self, address: int, nbytes: int, value: int, stream: int) -> None:
        """Set ``nbytes`` bytes at ``address`` to ``value`` (0 to 255), in order with the work on ``stream``."""

    def read(self, address: int, nbytes: int, stream: int) -> bytes:
        """Wait for the work on ``stream``, then return a copy of ``nbytes`` bytes at ``address``."""
