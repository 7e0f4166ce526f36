"""The caching allocator of one device: pools, captures, giving memory back, and looking at it."""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from itertools import accumulate
from typing import Any

from graphcap.errors import GraphcapWarning, PoolStateError
from graphcap.interface import MempoolId
from graphcap.memory import checkpoint as _checkpoint
from graphcap.memory import snapshot as _snapshot
from graphcap.memory.blocks import Block, Segment
from graphcap.memory.claims import Place, Watch, find_places
from graphcap.memory.core import AllocatorCore, Exclusive
from graphcap.memory.debug import FRAMES_KEPT
from graphcap.memory.history import History, caller_frames
from graphcap.memory.ids import validate_pool_id
from graphcap.memory.pool import Pool
from graphcap.memory.routing import Route
from graphcap.memory.source import SegmentSource

__all__ = ["CachingAllocator"]


class CachingAllocator(AllocatorCore):
    """Hands out blocks of the segments of one device, and keeps what is freed for the next request.

    Memory is stream-ordered: a block belongs to the stream it was allocated for, and once freed it is handed out
    again at once, but only to requests on that stream. Work on *other* streams must be announced with
    :meth:`record_stream`.

    Requests go to the default pool, or, while a capture or a ``use_mem_pool`` scope is open, to the private pool
    that the newest accepting scope names. Pools share no segment (S-C20). While a capture is open (between
    :meth:`capture_began` and :meth:`capture_ended`) no segment goes back to the source and no event is recorded or
    looked at.

    All methods may be called from any thread. :meth:`free`, :meth:`release_pool` and :meth:`capture_ended` may also
    be called from finalizers; the others raise ``PoolStateError`` when a finalizer calls them in the middle of an
    operation of the same thread.

    Parameters
    ----------
    source
        Where segments and events come from.
    options
        Size rounding and splitting.
    debug
        Name both places of a wrong free; if the source is a :class:`~graphcap.memory.MemoryAccess`, also poison
        freed memory and check red zones. Slow. Left out: the environment variable ``GRAPHCAP_MEMORY_DEBUG``.

    Raises
    ------
    TypeError
        `source` lacks a method of :class:`~graphcap.memory.SegmentSource`.
    """

    # Pools and captures
    # -----------------------------------------------------------------------------------------------

    def begin_allocate_to_pool(self, pool_id: MempoolId, accepts: Callable[[int], object]) -> None:
        """Open a capture's scope: serve requests on streams that `accepts` agrees to from a private pool (S-B8,
        S-B13).

        Takes one use of the pool for the caller, who gives it back with :meth:`release_pool` exactly once: at the
        graph's reset, or when the capture fails. If this raises, no use was taken. Call it *before* the driver's
        capture begins.

        Raises
        ------
        PoolStateError
            The id was never issued, belongs to a capture whose pool is gone, or another capture into the pool is
            open (rule 16).
        TypeError
            `pool_id` is no pair of integers.
        """
        with Exclusive(self, "begin_allocate_to_pool"):
            pool_id = validate_pool_id(pool_id)
            self._routes.refuse_second_capture(pool_id)
            pool = self._store.take_use(pool_id)
            pool.captured = True
            self._open_routes.append(Route(pool, accepts))

    def end_allocate_to_pool(self, pool_id: MempoolId) -> tuple[MempoolId, ...]:
        """Close a capture's scope (S-C10). The use that :meth:`begin_allocate_to_pool` took stays with the caller.

        Returns
        -------
        tuple of MempoolId
            Pools that ``use_mem_pool`` scopes of the same thread used meanwhile. One use of each now belongs to the
            caller, because the graph's replays will touch their memory: give each back with :meth:`release_pool`,
            together with the first (S-C48).

        Raises
        ------
        PoolStateError
            No capture's scope is open on this pool.
        """
        with Exclusive(self, "end_allocate_to_pool"):
            route = self._routes.close_capture(pool_id, self._live.label)
            return tuple(pool.id for pool in route.nested)

    def capture_began(self) -> None:
        """Count a capture that the driver has begun: until it ends, nothing goes back to the source."""
        with Exclusive(self, "capture_began"):
            self._open_captures += 1

    def capture_ended(self) -> None:
        """Count the end of a capture, whether it succeeded or not. Never waits; safe in a finalizer.

        Raises
        ------
        PoolStateError
            No capture is open. Becomes a ``GraphcapWarning`` if the allocator was busy and the call had to be queued.
        """
        self._run_or_queue(self._count_capture_end)

    def _count_capture_end(self) -> None:
        if not self._open_captures:
            raise PoolStateError(
                f"end a capture on {self._live.label}", "no capture is open", "Count an end once for each capture."
            )
        self._open_captures -= 1

    def abandon_capture(self, pool_id: MempoolId, *, began: bool) -> None:
        """Undo a capture from a finalizer: its count, its scope, and every use of a pool that it holds.

        The same as :meth:`capture_ended` (if it `began`), :meth:`end_allocate_to_pool` and :meth:`release_pool` for
        each id, but it may be called in the middle of an operation of this thread: it is then queued.

        Raises
        ------
        PoolStateError
            No capture's scope is open on this pool. Becomes a ``GraphcapWarning`` if it had to be queued.
        """
        self._run_or_queue(lambda: self._abandon(pool_id, began))

    def _abandon(self, pool_id: MempoolId, began: bool) -> None:
        route = self._routes.close_capture(pool_id, self._live.label)
        if began:
            self._count_capture_end()
        for pool in (route.pool, *route.nested):
            self._store.drop_use(pool.id)

    @property
    def open_captures(self) -> int:
        """Number of captures counted in and not yet out."""
        if self._queue:
            self.settle()
        return self._open_captures

    def retain_pool(self, pool_id: MempoolId) -> None:
        """Take one more use of a pool; make or revive it as needed (S-C5). Undone by :meth:`release_pool`.

        Raises
        ------
        PoolStateError, TypeError
            As :meth:`begin_allocate_to_pool`, for the id.
        """
        with Exclusive(self, "retain_pool"):
            self._store.take_use(pool_id)

    def release_pool(self, pool_id: MempoolId) -> None:
        """Give one use back. After the last, the pool is freeable; its blocks stay valid until they are freed
        (S-C7, S-C8).

        Safe in a finalizer and in the middle of a capture: nothing goes back to the source here.

        Raises
        ------
        PoolStateError
            No use is held. Becomes a ``GraphcapWarning`` if the release had to be queued.
        """
        self._run_or_queue(lambda: self._store.drop_use(pool_id))

    def pool_use_count(self, pool_id: MempoolId) -> int:
        """Return how many uses of a pool are held; 0 if there is no such pool."""
        with Exclusive(self, "pool_use_count"):
            pool = self._store.pools.get(pool_id)
            return 0 if pool is None else pool.use_count

    def _make_pool(self, pool_id: MempoolId, source: SegmentSource | None, no_split: bool, use_on_oom: bool) -> None:
        """Make the pool of a new ``MemPool``; takes its use."""
        with Exclusive(self, "make a MemPool"):
            pool = self._store.take_use(pool_id, source)
            pool.no_split, pool.use_on_oom = no_split, use_on_oom

    def _drop_mem_pool(self, pool_id: MempoolId) -> None:
        """Finalizer of a ``MemPool``: its options, its use, and what can go back without waiting (S-C45)."""
        try:
            self._run_or_queue(lambda: self._forget_mem_pool(pool_id))
        except Exception as error:
            warnings.warn(GraphcapWarning(f"The memory of MemPool {tuple(pool_id)} stays: {error}"), stacklevel=2)

    def _forget_mem_pool(self, pool_id: MempoolId) -> None:
        pool = self._store.pools[pool_id]
        pool.use_on_oom = False
        self._store.drop_use(pool_id)
        if not pool.use_count and not self._open_captures:
            self._waiting.poll()
            self._store.give_back([pool], ())

    def _open_scope(self, pool_id: MempoolId) -> Route:
        """Open a ``use_mem_pool`` scope of this thread; takes one use."""
        with Exclusive(self, "use_mem_pool"):
            pool = self._store.take_use(pool_id)
            capture = self._routes.capture_of_this_thread()
            if capture is not None:
                pool.captured = True
                if pool is not capture.pool and pool not in capture.nested:
                    pool.use_count += 1
                    capture.nested.append(pool)
            route = Route(pool, None)
            route.log = None if capture is None else capture.log
            self._open_routes.append(route)
            return route

    def _close_scope(self, route: Route) -> None:
        with Exclusive(self, "use_mem_pool"):
            self._open_routes.remove(route)
            self._store.drop_use(route.pool.id)

    # Giving memory back
    # -----------------------------------------------------------------------------------------------

    def empty_cache(self, pool_id: MempoolId | None = None) -> int:
        """Return wholly free segments to the source: those of the default pool and of freeable pools (S-C35).

        Waits for the work of other streams that used freed blocks. Does nothing while a capture is open (S-C36,
        F8).

        Parameters
        ----------
        pool_id
            Only this pool's, and only if it is freeable (S-C37).

        Returns
        -------
        int
            Bytes that went back.

        Raises
        ------
        Exception
            The first error of the source, after all segments were tried; what it refused stays and is offered
            again.
        """
        with Exclusive(self, "empty_cache"):
            if self._open_captures:
                return 0
            if pool_id is None:
                self._waiting.synchronize()
                pools = [self._default, *self._store.freeable()]
            else:
                pools = [pool for pool in self._store.freeable() if pool.id == pool_id]
                self._waiting.synchronize(keep=lambda block: block.segment.lists.pool not in pools)
            return self._store.give_back(pools, caller_frames(self._depth))

    def release_freeable_pools(self, keep: MempoolId | None = None) -> int:
        """Return what freeable pools have wholly free, without waiting. The first thing that ``capture_begin`` does
        (rule 8).

        Does nothing while a capture is open.

        Parameters
        ----------
        keep
            A user-made id ``(0, n)`` that is about to be used again: its segments stay. Ignored for a capture's own
            id, which must not outlive its last user by chance.

        Returns
        -------
        int
            Bytes that went back.
        """
        with Exclusive(self, "release_freeable_pools"):
            if self._open_captures:
                return 0
            if self._waiting.count:
                self._waiting.poll()
            pools = [p for p in self._store.freeable() if p.id != keep or p.id.first]
            return self._store.give_back(pools, caller_frames(self._depth))

    def trim_pool(self, pool_id: MempoolId, used: Iterable[tuple[int, int]]) -> int:
        """Return the wholly free segments of a live pool that the one graph which uses it never touches.

        For a backend whose replay needs less memory than its capture did. Does nothing while a capture is open, or if
        anybody else holds a use of the pool: another graph's nodes may touch memory that no block holds.

        Parameters
        ----------
        used
            Address ranges (first byte, past the last) that replays touch.

        Returns
        -------
        int
            Bytes that went back.

        Raises
        ------
        PoolStateError
            There is no such pool.
        Exception
            As :meth:`empty_cache`.
        """
        ranges = sorted(used)
        starts = [low for low, _ in ranges]
        furthest = list(accumulate((high for _, high in ranges), max))

        def touched(segment: Segment) -> bool:
            before = bisect_left(starts, segment.address + segment.size)  # ranges that begin before the segment's end
            return before > 0 and furthest[before - 1] > segment.address

        with Exclusive(self, "trim_pool"):
            pool = self._store.known("trim", pool_id)
            if self._open_captures or pool.use_count != 1:
                return 0
            return self._store.give_back([pool], caller_frames(self._depth), touched)

    def set_memory_limit(self, limit: int | float | None) -> None:
        """Limit the bytes reserved from the source.

        Parameters
        ----------
        limit
            Bytes (``int``), a fraction of the device's memory (``float`` above 0, at most 1), or None for no limit.
            Memory already reserved is not touched.

        Raises
        ------
        ValueError
            Negative bytes, or a fraction out of range.
        TypeError
            Neither an int nor a float.
        PoolStateError
            A fraction, and the source cannot tell the device's memory.
        """
        if isinstance(limit, bool) or not (limit is None or isinstance(limit, (int, float))):
            raise TypeError(f"memory limit {limit!r}: use bytes (int), a fraction (float), or None.")
        with Exclusive(self, "set_memory_limit"):
            if isinstance(limit, float):
                if not 0 < limit <= 1:
                    raise ValueError(f"memory limit {limit}: a fraction is above 0 and at most 1. Give bytes as int.")
                info = self._store.source.memory_info()
                if info is None:
                    raise PoolStateError(
                        f"memory limit {limit} on {self._live.label}",
                        "the source cannot tell how much memory the device has",
                        "Give the limit in bytes.",
                    )
                limit = int(info[1] * limit)
            elif limit is not None and limit < 0:
                raise ValueError(f"memory limit {limit}: use zero or more bytes.")
            self._store.limit = limit

    @property
    def memory_limit(self) -> int | None:
        """The limit in bytes, or None."""
        return self._store.limit

    # Looking
    # ----------------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Return counters: ``"<what>.<how>"``, and ``"pools"``: pool id -> the same dict.

        *what*: ``allocated_bytes`` (handed out), ``requested_bytes`` (of these, asked for), ``active_bytes``
        (handed out, or freed but waiting for other streams), ``reserved_bytes`` (held from the source),
        ``segments``, ``blocks`` (handed out). *how*: ``current``, ``peak``, ``allocated`` (ever added), ``freed``
        (ever taken away). Also ``num_alloc_retries`` and ``num_ooms``.

        ``"pools"`` holds the default pool ``(0, 0)``, every live pool, and the latest 256 that are gone (S-C40).
        """
        with Exclusive(self, "stats"):
            out: dict[str, Any] = dict(self._tally.as_dict())
            out["num_alloc_retries"] = self._retries
            out["num_ooms"] = self._failures
            pools = {pool_id: tally.as_dict() for pool_id, tally in self._store.erased_tallies.items()}
            pools.update({pool.id: pool.tally.as_dict() for pool in self._store.pools.values()})
            out["pools"] = pools
            return out

    def reset_peak_stats(self) -> None:
        """Make every ``peak`` the present value."""
        with Exclusive(self, "reset_peak_stats"):
            for tally in (self._tally, *(pool.tally for pool in self._store.pools.values())):
                tally.reset_peaks()

    def snapshot(self, pool_id: MempoolId | None = None) -> dict[str, Any]:
        """Return segments, their blocks, pools and history as plain data (``json.dumps`` takes it).

        Free neighbours appear as one block. An unknown `pool_id` gives no segments (S-C49).
        """
        with Exclusive(self, "snapshot"):
            return _snapshot.plain(self._store, pool_id)

    def visualizer_snapshot(self) -> dict[str, Any]:
        """Return the layout that PyTorch's memory visualiser reads; see
        :func:`graphcap.memory.dump_visualizer_snapshot`."""
        with Exclusive(self, "visualizer_snapshot"):
            return _snapshot.visualizer(self._store)

    def record_history(self, enabled: bool = True, *, max_entries: int = 100_000, depth: int = 8) -> None:
        """Start to record what happens to blocks and segments, or stop and forget it.

        Parameters
        ----------
        enabled
            False drops what was recorded.
        max_entries
            Older events fall out.
        depth
            Caller frames (file, line, function) kept of each event; 0 keeps none.

        Raises
        ------
        ValueError
            `max_entries` below 1 or `depth` below 0.
        """
        if max_entries < 1 or depth < 0:
            raise ValueError(
                f"history of {max_entries} entries, depth {depth}: use at least 1 entry and depth 0 or more."
            )
        with Exclusive(self, "record_history"):
            self._store.history = History(max_entries, depth) if enabled else None
            self._depth = max(depth if enabled else 0, FRAMES_KEPT if self._guard is not None else 0)
            self._instrumented = enabled or self._guard is not None

    # What graphs use
    # -------------------------------------------------------------------------------------------------

    def find(self, addresses: Iterable[int], *, hold_outside: Collection[MempoolId] | None = None) -> dict[int, Place]:
        """Return the places of those `addresses` that lie in this allocator's segments.

        Parameters
        ----------
        hold_outside
            Take a :class:`~graphcap.memory.claims.Hold` of every block in use that lies in none of these pools: a graph's
            nodes use it, and its memory must not be handed out again while the graph lives.
        """
        with Exclusive(self, "find"):
            return find_places(self, self._store, self._live, addresses, hold_outside)

    def watch(self, blocks: Iterable[Block]) -> list[tuple[Block, Watch]]:
        """Watch those `blocks` that are handed out; the others are left out."""
        with Exclusive(self, "watch"):
            found = []
            for block in dict.fromkeys(blocks):
                if block.state is self._live:
                    block.home = block.entry = None  # so that its free takes the long way, which looks for watches
                    if block.watch is None:
                        block.watch = Watch()
                    found.append((block, block.watch))
            return found

    # Checkpoints (S-C41 to S-C43)
    # -------------------------------------------------------------------------------------

    def checkpoint(self, pool_id: MempoolId) -> _checkpoint.PoolCheckpoint:
        """Return a copy of the block layout of a pool.

        Raises
        ------
        PoolStateError
            There is no such pool, its last user is gone, or a freed block of it still waits for another stream.
        """
        with Exclusive(self, "checkpoint"):
            pool = self._pool_at_rest("checkpoint", pool_id)
            return _checkpoint.take(pool, self._live)

    def restore(self, saved: _checkpoint.PoolCheckpoint) -> _checkpoint.RestoreResult:
        """Bring a pool's blocks back to a saved layout. The pool never shrinks.

        Blocks handed out now and not then are taken back: freeing them later does nothing. Blocks handed out then
        and not now exist again, as new objects, and are the caller's to free. A block handed out both times, in the
        same place, keeps its object.

        Raises
        ------
        PoolStateError
            As :meth:`checkpoint`; or a saved segment is gone, or `saved` is of another allocator. Nothing changes.
        """
        with Exclusive(self, "restore"):
            pool = self._pool_at_rest("restore", saved.pool_id)
            result = _checkpoint.restore(pool, saved, self._live, self._tally)
            history = self._store.history
            if history is not None:
                frames = caller_frames(self._depth)
                for block in result.taken:
                    for action in ("free_requested", "free_completed"):
                        history.add(action, block.ptr, block.requested, block.stream, pool.id, frames)
                for address in sorted(result.recreated):
                    block = result.live[address]
                    history.add("alloc", address, block.requested, block.stream, pool.id, frames)
            return result

    def check_live(self, pool_id: MempoolId, pointers: Collection[int]) -> bool:
        """Say whether exactly the blocks at `pointers` are handed out from a pool (S-C43).

        Raises
        ------
        PoolStateError
            There is no such pool, or its last user is gone.
        """
        with Exclusive(self, "check_live"):
            pool = self._store.known("check the live blocks", pool_id)
            live = {block.ptr for block in pool.blocks() if block.state is self._live}
            return live == set(pointers)

    def _pool_at_rest(self, asked: str, pool_id: MempoolId) -> Pool:
        pool = self._store.known(asked, pool_id)
        if any(block.holds for block in pool.blocks()):
            raise PoolStateError(
                f"{asked} pool {tuple(pool_id)}",
                "nodes of a graph of another pool use a block of it",
                "Reset that graph first, or let it share the pool.",
            )
        if self._waiting.count:
            if not self._open_captures:
                self._waiting.poll()
            self._waiting.refuse(f"{asked} pool {tuple(pool_id)}", pool.blocks())
        return pool
