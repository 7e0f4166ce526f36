"""The caching allocator of one device: the lock, the cached path, and what may happen when.

Lock and re-entrancy (design, rule 18). Every operation holds one re-entrant lock and sets ``_busy``. Python may run
a finalizer at almost any point, also in the middle of an operation on the same thread: it then gets the lock (it is
re-entrant), sees ``_busy``, and must not touch anything. So a free or a release that finds the allocator busy, on
any thread, appends to a queue (one atomic append, no lock) and returns; the next operation settles the queue before
it begins.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from operator import index
from typing import Any

from graphcap.errors import GraphcapWarning, PoolStateError
from graphcap.memory.blocks import HELD, PARKED, PENDING, RETIRED, Block
from graphcap.memory.claims import FRAMES_OF_FREES
from graphcap.memory.debug import FRAMES_KEPT, BlockGuard, LiveToken, misuse
from graphcap.memory.history import Frames, caller_frames
from graphcap.memory.pool import Pool
from graphcap.memory.report import out_of_memory
from graphcap.memory.routing import Routes
from graphcap.memory.sizes import AllocatorOptions, round_size
from graphcap.memory.source import SegmentSource
from graphcap.memory.store import PoolStore
from graphcap.memory.stream_uses import WaitingFrees

__all__ = ["AllocatorCore", "Exclusive"]

_DEFAULT_OPTIONS = AllocatorOptions()


class AllocatorCore:
    """Everything of :class:`~graphcap.memory.CachingAllocator` that allocates and frees."""

    def __init__(
        self, source: SegmentSource, *, options: AllocatorOptions = _DEFAULT_OPTIONS, debug: bool | None = None
    ) -> None:
        if not isinstance(source, SegmentSource):
            raise TypeError(f"{type(source).__name__} is no SegmentSource: see graphcap.memory.source for its methods.")
        self._lock = threading.RLock()
        self._busy = False
        self._queue: deque[Any] = deque()
        """What finalizers and other threads left: a block to free, (block, frames), or a callable."""
        self._store = PoolStore(source, options)
        self._default = self._store.default
        self._tally = self._store.tally
        self._options = options
        self._plain_rounding = options.roundup_power2_divisions == 1
        self._routes = Routes()
        self._open_routes = self._routes.open
        self._waiting = WaitingFrees(source, self._finish_free)
        self._open_captures = 0
        self._live = LiveToken(source.label)
        if debug is None:
            debug = os.environ.get("GRAPHCAP_MEMORY_DEBUG", "") not in ("", "0")
        self._guard = BlockGuard(source) if debug else None
        self._instrumented = debug
        self._depth = FRAMES_KEPT if debug else 0
        self._retries = 0
        self._failures = 0

    # Blocks
    # -----------------------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, stream: int = 0) -> Block:
        """Return a block of at least `nbytes` bytes for work on `stream`.

        Parameters
        ----------
        nbytes
            Zero or more; zero is served like one.
        stream
            The stream whose work will use the block first.

        Raises
        ------
        OutOfMemoryError
            There is no memory left, or the limit is reached, even after everything cached was released (which is
            not possible while a capture is open). Nothing changes.
        ValueError, TypeError
            `nbytes` is negative or no integer.
        PoolStateError
            Debug mode: the memory was written to after it was freed. Or: called by a finalizer inside an operation
            of this thread.
        Exception
            Whatever else the source or a scope's filter raises; nothing changes.
        """
        if self._queue:
            self.settle()
        lock = self._lock
        lock.acquire()
        if self._busy:
            self._refuse_reentry("allocate")
        self._busy = True
        try:
            if type(nbytes) is not int or nbytes <= 0:
                nbytes = _checked_size(nbytes)
            waiting = self._waiting.count
            if waiting and not self._open_captures:
                self._waiting.poll()
            pool, log = self._default, None
            if self._open_routes:
                route = self._routes.find(stream)
                if route is not None:
                    pool, log = route.pool, route.log
            if self._instrumented or waiting:
                block = self._allocate_traced(pool, nbytes, stream)
                if log is not None:
                    log.note(block)
                return block
            rounded = ((nbytes + 511) & -512 or 512) if self._plain_rounding else round_size(nbytes, self._options)
            home = pool.parked.get((stream, rounded))
            block = heappop(home)[1] if home else self._allocate_uncached(pool, nbytes, rounded, stream, ())
            block.state = self._live
            block.requested = nbytes
            # Tally.add_block in line, for the device and for the pool: a call would cost as much as all of this.
            size = block.size
            for t in (self._tally, block.segment.lists.pool.tally):
                t.allocated_in = total = t.allocated_in + size
                current = total - t.allocated_out
                if current > t.allocated_peak:
                    t.allocated_peak = current
                t.requested_in = total = t.requested_in + nbytes
                current = total - t.requested_out
                if current > t.requested_peak:
                    t.requested_peak = current
                t.blocks_in = total = t.blocks_in + 1
                current = total - t.blocks_out
                if current > t.blocks_peak:
                    t.blocks_peak = current
            if log is not None:
                log.note(block)
            return block
        finally:
            self._busy = False
            lock.release()

    def free(self, block: Block) -> None:
        """Give a block back; it is reused on its own stream at once, and after the work of other streams that used
        it (S-C25 to S-C27).

        Never waits: if the allocator is busy, on this thread or another, the free is queued and settled by the next
        operation. May be called from any thread and from a finalizer.

        Raises
        ------
        PoolStateError
            The block was freed already, belongs to another allocator, or (debug mode) was written past its bounds.
            When the free had been queued, this becomes a ``GraphcapWarning`` of the operation that settles it. A
            second free can only be told while the block has not been handed out again; in debug mode always.
        TypeError
            `block` is no block.
        Exception
            The source could not record an event; the block waits, and it is tried again.
        """
        lock = self._lock
        if not lock.acquire(False):
            self._queue.append((block, caller_frames(self._depth)) if self._depth else block)
            return
        if self._busy:
            lock.release()
            self._queue.append((block, caller_frames(self._depth)) if self._depth else block)
            return
        self._busy = True
        try:
            home = block.home
            if home is None or block.state is not self._live or self._instrumented:
                self._free_uncached(block, caller_frames(self._depth) if self._depth else ())
                return
            block.state = PARKED
            if not home.listed:
                home.listed = True
                home.lists.parked.append(home)
            heappush(home, block.entry)  # type: ignore[misc]  # an entry is set wherever a home is
            size, requested = block.size, block.requested
            for t in (self._tally, home.lists.pool.tally):  # Tally.remove_block in line
                t.allocated_out += size
                t.requested_out += requested
                t.blocks_out += 1
        except AttributeError:
            if isinstance(block, Block):
                raise
            raise misuse(block, "free", self._live, ()) from None
        finally:
            self._busy = False
            lock.release()

    def record_stream(self, block: Block, stream: int) -> None:
        """Say that work on `stream` uses the block, so that a later free waits for that work (S-C28).

        The block's own stream is ignored. Use by a stream that takes part in an open capture needs no waiting once
        captures have ended; use by any other stream does, whatever the calling thread is doing (F10).

        Raises
        ------
        PoolStateError
            The block was freed, or belongs to another allocator.
        """
        with Exclusive(self, "record_stream"):
            if not isinstance(block, Block) or block.state is not self._live:
                raise misuse(block, "record a stream on", self._live, caller_frames(self._depth))
            if stream == block.stream:
                return
            block.home = block.entry = None
            if self._open_captures and self._routes.is_captured(stream):
                block.capture_uses = {*(block.capture_uses or ()), stream}
            else:
                block.uses = {*(block.uses or ()), stream}

    def settle(self) -> None:
        """Do what finalizers and other threads left to be done. Every operation begins with it.

        Warns
        -----
        GraphcapWarning
            Something left could not be done, for instance a second free of a block.
        """
        troubles: list[Exception] = []
        with self._lock:
            if self._busy:
                return
            self._busy = True
            try:
                while self._queue:
                    item = self._queue.popleft()
                    try:
                        if isinstance(item, tuple):
                            self._free_uncached(*item)
                        elif callable(item):
                            item()
                        else:
                            self._free_uncached(item, (), queued=True)
                    except Exception as error:
                        troubles.append(error)
            finally:
                self._busy = False
        if troubles:
            text = "; ".join(str(error) for error in troubles)
            warnings.warn(GraphcapWarning(f"A free that had to wait failed: {text}"), stacklevel=3)

    # Off the cached path
    # ----------------------------------------------------------------------------------------------

    def _allocate_uncached(self, pool: Pool, nbytes: int, rounded: int, stream: int, frames: Frames) -> Block:
        """Best fit, a new segment, or whatever can be released; return a live-to-be block with its home set."""
        lists = pool.free_lists(rounded, stream)
        block = lists.take(rounded, self._options)
        if block is None:
            block = self._find_room(pool, nbytes, rounded, stream, frames)
            lists = block.segment.lists
            if self._guard is not None and not block.poisoned:
                try:
                    self._guard.poison(block, self._open_captures > 0)
                except BaseException:
                    lists.insert(block)
                    raise
        lists.cut(block, rounded, self._options)
        if self._guard is None and not lists.pool.no_split:
            block.home = lists.home(rounded)
            block.entry = (block.rank(), block)
        return block

    def _find_room(self, pool: Pool, nbytes: int, rounded: int, stream: int, frames: Frames) -> Block:
        """No free block fits: the order of S-C19, but nothing is released while a capture is open (F8)."""
        store = self._store
        block = store.grow(pool, rounded, stream, frames)
        if block is None and pool is self._default:
            for other in store.pools.values():
                # Only what it has free on this stream (S-C47), and only if no replay may write to it.
                if other.use_on_oom and not other.captured and block is None:
                    block = other.free_lists(rounded, stream).take(rounded, self._options)
        if block is None and not self._open_captures:
            failure = store.failure
            self._retries += 1
            self._waiting.synchronize()
            block = pool.free_lists(rounded, stream).take(rounded, self._options)
            if block is None and store.give_back([self._default, *store.freeable()], frames):
                block = store.grow(pool, rounded, stream, frames)
            else:
                store.failure = failure
        if block is not None:
            store.failure = None
            return block
        self._failures += 1
        if store.history is not None:
            info = store.source.memory_info()
            store.history.add("oom", info[0] if info else 0, nbytes, stream, pool.id, frames)
        error = out_of_memory(store, nbytes, rounded, pool, self._open_captures)
        cause, store.failure = store.failure, None
        raise error from cause

    def _allocate_traced(self, pool: Pool, nbytes: int, stream: int) -> Block:
        """The path with history, debug mode, or frees that wait (they make active bytes differ from allocated
        ones)."""
        guard, history = self._guard, self._store.history
        frames = caller_frames(self._depth) if self._depth else ()
        rounded = round_size(nbytes + (guard.padding if guard else 0), self._options)
        home = pool.parked.get((stream, rounded))
        block = heappop(home)[1] if home else self._allocate_uncached(pool, nbytes, rounded, stream, frames)
        block.requested = nbytes
        block.allocated_at = frames
        if guard is not None:
            try:
                guard.check_poison(block, self._open_captures > 0)
                guard.arm(block, self._open_captures > 0)
            except BaseException:
                block.segment.lists.insert(block)
                raise
        block.state = self._live
        owner = block.segment.lists.pool
        self._tally.add_block(block.size, nbytes)
        owner.tally.add_block(block.size, nbytes)
        if history is not None:
            history.add("alloc", block.ptr, nbytes, stream, owner.id, frames)
        return block

    def _free_uncached(self, block: Block, frames: Frames, *, queued: bool = False, look: bool = True) -> None:
        """Free a block by the long way.

        Parameters
        ----------
        queued
            The free had to wait, so the present caller is not the one who freed it.
        look
            Debug mode may look at the memory; not where the block's stream may be gone.
        """
        if not isinstance(block, Block) or block.state is not self._live:
            if isinstance(block, Block) and block.state is RETIRED:
                return
            raise misuse(block, "free", self._live, frames)
        if block.watch is not None or block.holds:
            # A free that had to wait is settled by somebody else: that place would mislead.
            freed_at = frames or (() if queued else caller_frames(FRAMES_OF_FREES))
            if block.watch is not None:
                block.watch.freed_at, block.watch = freed_at, None
            if block.holds:
                block.state, block.freed_at = HELD, freed_at
                return
        pool = block.segment.lists.pool
        guard, history = self._guard, self._store.history
        if guard is not None:
            if look:
                guard.check_zone(block, self._open_captures > 0, frames)
            block.freed_at = frames
            block = guard.replace(block)
        self._tally.remove_block(block.size, block.requested)
        pool.tally.remove_block(block.size, block.requested)
        if history is not None:
            history.add("free_requested", block.ptr, block.requested, block.stream, pool.id, frames)
        block.state = PENDING
        if block.uses or block.capture_uses:
            self._tally.waiting += block.size
            pool.tally.waiting += block.size
            self._waiting.add(block, self._open_captures > 0)
        else:
            self._reuse(block, look=look)

    def _drop_hold(self, block: Block) -> None:
        """A graph no longer uses a block; if its user has freed it and no other graph holds it, it goes now."""
        block.holds -= 1
        if block.state is HELD and not block.holds:
            block.state = self._live
            self._free_uncached(block, block.freed_at if self._depth else (), look=False)

    def _finish_free(self, block: Block) -> None:
        """No stream uses a waiting block any more."""
        self._tally.waiting -= block.size
        block.segment.lists.pool.tally.waiting -= block.size
        self._reuse(block)

    def _reuse(self, block: Block, *, look: bool = True) -> None:
        """Make a freed block available to its stream."""
        lists, home, history = block.segment.lists, block.home, self._store.history
        if history is not None:
            history.add("free_completed", block.ptr, block.requested, lists.stream, lists.pool.id, block.freed_at)
        if home is not None and block.entry is not None:
            block.state = PARKED
            if not home.listed:
                home.listed = True
                lists.parked.append(home)
            heappush(home, block.entry)
            return
        if self._guard is not None and look:
            self._guard.poison(block, self._open_captures > 0)
        lists.insert(block)

    def _run_or_queue(self, action: Callable[[], None]) -> None:
        """Run `action` now, or leave it to the next operation if the allocator is busy, here or on another thread."""
        if not self._lock.acquire(False):
            self._queue.append(action)
            return
        try:
            if self._busy:
                self._queue.append(action)
                return
            self._busy = True
            try:
                action()
            finally:
                self._busy = False
        finally:
            self._lock.release()

    def _refuse_reentry(self, asked: str) -> None:
        """Release the lock once and raise."""
        self._lock.release()
        raise PoolStateError(
            f"{asked} on {self._live.label}",
            "this very thread is inside an operation of the allocator (a finalizer, a filter or the source calls it)",
            "From there, only free() and release_pool() may be called.",
        )


class Exclusive:
    """``with``: settle what waits, then hold the allocator."""

    __slots__ = ("_allocator", "_asked")

    def __init__(self, allocator: AllocatorCore, asked: str) -> None:
        self._allocator = allocator
        self._asked = asked

    def __enter__(self) -> None:
        a = self._allocator
        if a._queue:
            a.settle()
        a._lock.acquire()
        if a._busy:
            a._refuse_reentry(self._asked)
        a._busy = True

    def __exit__(self, *exc: object) -> None:
        self._allocator._busy = False
        self._allocator._lock.release()


def _checked_size(nbytes: object) -> int:
    """Return `nbytes` as an int, or say what is wrong with it."""
    try:
        size = index(nbytes)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        raise TypeError(f"allocate {nbytes!r} bytes: the size is an integer.") from None
    if size < 0:
        raise ValueError(f"allocate {size} bytes: the size is zero or more.")
    return size
