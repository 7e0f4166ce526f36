"""The pools of one device and their segments: making, counting uses, giving back. No locking here."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from graphcap.errors import PoolStateError, add_note
from graphcap.interface import NO_POOL, MempoolId
from graphcap.memory.blocks import Block, Segment
from graphcap.memory.history import Frames, History
from graphcap.memory.ids import validate_pool_id
from graphcap.memory.pool import Pool
from graphcap.memory.sizes import AllocatorOptions, segment_size
from graphcap.memory.source import SegmentSource
from graphcap.memory.tally import Tally

__all__ = ["PoolStore"]

_REMEMBERED_TALLIES: Final = 256
"""Statistics of erased pools that are kept (S-C40 keeps all; a long-lived process would grow without end)."""


class PoolStore:
    """Every pool of one allocator, and the only caller of the source's segment functions."""

    def __init__(self, source: SegmentSource, options: AllocatorOptions) -> None:
        self.source = source
        self.options = options
        self.history: History | None = None
        self.limit: int | None = None
        self.tally = Tally()
        self.default = Pool(NO_POOL, Tally())
        self.pools: dict[MempoolId, Pool] = {NO_POOL: self.default}
        self.erased_tallies: OrderedDict[MempoolId, Tally] = OrderedDict()
        self.failure: MemoryError | None = None
        """What the source said when :meth:`grow` last returned None; None: the limit was in the way."""
        self._registrations = 0
        self._gone_upto = 0
        self._gone: set[int] = set()
        """Capture-made ids whose pools are gone: all up to ``_gone_upto``, and these."""

    # Uses of pools (S-C5 to S-C8; design, rule 15)
    # -------------------------------------------------------------------

    def take_use(self, pool_id: MempoolId, source: SegmentSource | None = None) -> Pool:
        """Return the pool of an issued id with one more use; make or revive it as needed.

        Raises
        ------
        PoolStateError
            The id was never issued, or was a capture's own and its pool is gone.
        """
        pool_id = validate_pool_id(pool_id)
        pool = self.pools.get(pool_id)
        if pool is None:
            if pool_id.first and (pool_id.first <= self._gone_upto or pool_id.first in self._gone):
                raise PoolStateError(
                    f"use pool {tuple(pool_id)} on {self.source.label}",
                    "it was made for one capture, and is gone with the last graph that used it",
                    "Keep such a graph alive, or share a pool by an id from graphcap.graph_pool_handle(), which lasts.",
                )
            tally = self.erased_tallies.pop(pool_id, None) or Tally()
            pool = self.pools[pool_id] = Pool(pool_id, tally, source)
        pool.use_count += 1
        return pool

    def drop_use(self, pool_id: MempoolId) -> None:
        """Give one use back; without any, the pool is *freeable*.

        Raises
        ------
        PoolStateError
            Nobody holds a use of it.
        """
        pool = self.pools.get(pool_id)
        if pool is None or not pool.use_count:
            raise PoolStateError(
                f"release pool {tuple(pool_id)} on {self.source.label}",
                "no use of it is held",
                "Release a pool exactly once for each time it was retained or opened.",
            )
        pool.use_count -= 1
        if not pool.use_count:
            pool.forget_flags()
            self._erase_if_empty(pool)

    def known(self, asked: str, pool_id: MempoolId) -> Pool:
        """Return a pool that has users; the default pool always has."""
        pool = self.pools.get(pool_id)
        if pool is None or (pool is not self.default and not pool.use_count):
            state = "there is no such pool" if pool is None else "its last user is gone"
            raise PoolStateError(f"{asked} of pool {tuple(pool_id)} on {self.source.label}", state, "Retain it first.")
        return pool

    def freeable(self) -> list[Pool]:
        return [pool for pool in self.pools.values() if not pool.use_count and pool is not self.default]

    def _erase_if_empty(self, pool: Pool) -> None:
        if pool is self.default or pool.use_count or pool.segments or pool.id not in self.pools:
            return
        del self.pools[pool.id]
        self.erased_tallies[pool.id] = pool.tally
        while len(self.erased_tallies) > _REMEMBERED_TALLIES:
            self.erased_tallies.popitem(last=False)
        if pool.id.first:
            self._gone.add(pool.id.first)
            while self._gone_upto + 1 in self._gone:
                self._gone_upto += 1
                self._gone.discard(self._gone_upto)

    # Segments
    # ---------------------------------------------------------------------------------------------------------

    def grow(self, pool: Pool, rounded: int, stream: int, frames: Frames) -> Block | None:
        """Get a new segment that holds `rounded` bytes; return its one block, loose. None: no memory, or the
        limit."""
        size = segment_size(rounded, self.options)
        self.failure = None
        if self.limit is not None and self.tally.reserved + size > self.limit:
            return None
        source = pool.source or self.source
        try:
            address = source.allocate_segment(size, stream)
        except MemoryError as error:
            self.failure = error.with_traceback(None)  # its frames would keep the caller's variables alive
            return None
        self._registrations += 1
        segment = Segment(address, size, pool.free_lists(rounded, stream), source, self._registrations, frames)
        pool.attach(segment)
        pool.tally.add_segment(size)
        self.tally.add_segment(size)
        if self.history is not None:
            self.history.add("segment_alloc", address, size, stream, pool.id, frames)
        if address % source.alignment:
            segment.lists.add(segment.first)  # kept as free memory, so that it goes back in the ordinary way
            raise PoolStateError(
                f"allocate a segment of {size} bytes on {source.label}",
                f"the source returned 0x{address:x}, which is not a multiple of its alignment, {source.alignment}",
                "The segment source is at fault.",
            )
        return segment.first

    def give_back(self, pools: Iterable[Pool], frames: Frames, keep: Callable[[Segment], bool] | None = None) -> int:
        """Return every wholly free segment of `pools` to the source; return the bytes. Never called in a capture.

        Parameters
        ----------
        keep
            Segments that stay although they are free: a graph's nodes may use memory that no block holds.

        Raises
        ------
        Exception
            The first error of the source, after all segments were tried. A segment that the source refused stays.
        """
        returned = 0
        first_error: Exception | None = None
        for pool in pools:
            for segment in pool.whole_free_segments():
                if keep is not None and keep(segment):
                    continue
                try:
                    segment.source.free_segment(segment.address, segment.size)
                except Exception as error:
                    note = f"The segment at 0x{segment.address:x} ({segment.size} bytes) stays and is offered again."
                    add_note(error if first_error is None else first_error, note)
                    first_error = first_error or error
                    continue
                pool.detach(segment)
                returned += segment.size
                pool.tally.remove_segment(segment.size)
                self.tally.remove_segment(segment.size)
                if self.history is not None:
                    self.history.add(
                        "segment_free", segment.address, segment.size, segment.lists.stream, pool.id, frames
                    )
            self._erase_if_empty(pool)
        if first_error is not None:
            raise first_error
        return returned
