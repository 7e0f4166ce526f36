"""Counters: what is handed out, what is reserved, now and at most."""

from __future__ import annotations

__all__ = ["HOW", "WHAT", "Tally"]

WHAT = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes", "segments", "blocks")
HOW = ("current", "peak", "allocated", "freed")


class Tally:
    """Counters of one pool, or of a whole device.

    For each thing counted there are ``<thing>_in`` (ever added), ``<thing>_out`` (ever taken away) and
    ``<thing>_peak``; what is current is the difference. That is one addition per counter and event, because the
    cached path pays for it.

    *Active* bytes are the allocated ones plus those freed but still waiting for other streams. They only exceed the
    allocated ones while something waits, so ``active_peak`` is only kept up to date then (see :meth:`as_dict`).
    """

    __slots__ = (
        "active_peak",
        "allocated_in",
        "allocated_out",
        "allocated_peak",
        "blocks_in",
        "blocks_out",
        "blocks_peak",
        "requested_in",
        "requested_out",
        "requested_peak",
        "reserved_in",
        "reserved_out",
        "reserved_peak",
        "segments_in",
        "segments_out",
        "segments_peak",
        "waiting",
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    allocated_in: int
    allocated_out: int
    allocated_peak: int
    requested_in: int
    requested_out: int
    requested_peak: int
    blocks_in: int
    blocks_out: int
    blocks_peak: int
    reserved_in: int
    reserved_out: int
    reserved_peak: int
    segments_in: int
    segments_out: int
    segments_peak: int
    active_peak: int
    waiting: int

    @property
    def allocated(self) -> int:
        return self.allocated_in - self.allocated_out

    @property
    def reserved(self) -> int:
        return self.reserved_in - self.reserved_out

    def add_block(self, size: int, requested: int) -> None:
        """Count a block that is handed out. :meth:`CachingAllocator.allocate` repeats this in line."""
        self.allocated_in = total = self.allocated_in + size
        current = total - self.allocated_out
        if current > self.allocated_peak:
            self.allocated_peak = current
        if self.waiting and current + self.waiting > self.active_peak:
            self.active_peak = current + self.waiting
        self.requested_in = total = self.requested_in + requested
        current = total - self.requested_out
        if current > self.requested_peak:
            self.requested_peak = current
        self.blocks_in = total = self.blocks_in + 1
        current = total - self.blocks_out
        if current > self.blocks_peak:
            self.blocks_peak = current

    def remove_block(self, size: int, requested: int) -> None:
        """Count a block that its user gives back."""
        self.allocated_out += size
        self.requested_out += requested
        self.blocks_out += 1

    def add_segment(self, size: int) -> None:
        self.reserved_in += size
        self.segments_in += 1
        self.reserved_peak = max(self.reserved_peak, self.reserved)
        self.segments_peak = max(self.segments_peak, self.segments_in - self.segments_out)

    def remove_segment(self, size: int) -> None:
        self.reserved_out += size
        self.segments_out += 1

    def reset_peaks(self) -> None:
        """Make every peak the present value."""
        self.allocated_peak = self.allocated
        self.active_peak = self.allocated + self.waiting
        self.requested_peak = self.requested_in - self.requested_out
        self.blocks_peak = self.blocks_in - self.blocks_out
        self.reserved_peak = self.reserved
        self.segments_peak = self.segments_in - self.segments_out

    def as_dict(self) -> dict[str, int]:
        """Return ``"<what>.<how>"`` -> value for every name in :data:`WHAT` and :data:`HOW`."""
        active = self.allocated + self.waiting
        rows = {
            "allocated_bytes": (self.allocated_in, self.allocated_out, self.allocated_peak),
            "reserved_bytes": (self.reserved_in, self.reserved_out, self.reserved_peak),
            "active_bytes": (
                self.allocated_in,
                self.allocated_in - active,
                max(self.active_peak, self.allocated_peak, active),
            ),
            "requested_bytes": (self.requested_in, self.requested_out, self.requested_peak),
            "segments": (self.segments_in, self.segments_out, self.segments_peak),
            "blocks": (self.blocks_in, self.blocks_out, self.blocks_peak),
        }
        out: dict[str, int] = {}
        for what in WHAT:
            came, went, peak = rows[what]
            out.update(zip((f"{what}.{how}" for how in HOW), (came - went, peak, came, went), strict=True))
        return out
