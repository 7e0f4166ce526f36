"""What graphs need to know of blocks that they do not own: where an address lies, holding a block, noticing a free.

A graph's nodes use plain addresses. At the end of a capture each of them is looked up here. A block of another pool that is
handed out is *held*: when its user frees it, it stays as it is until the last hold is released. A block of the capture's
own pool needs no hold, since the pool lives as long as the graph; it may be *watched*, to tell later whether it is still
the array that it was.
"""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from graphcap.errors import GraphcapWarning
from graphcap.interface import MempoolId
from graphcap.memory.blocks import HELD, Block, Segment
from graphcap.memory.history import Frames, place

if TYPE_CHECKING:
    from graphcap.memory.core import AllocatorCore
    from graphcap.memory.store import PoolStore

__all__ = ["HandOut", "HandOuts", "Hold", "Place", "Watch", "find_places"]

FRAMES_OF_FREES: Final = 4
"""Caller frames kept of the free of a block that is held or watched."""


class Hold:
    """A claim on a block of another's: its memory is not handed out again before the last hold of it is gone.

    Given back when the last reference dies, on any thread.

    Attributes
    ----------
    block
        The block; its user may have freed it meanwhile.
    """

    __slots__ = ("_allocator", "block")

    def __init__(self, allocator: AllocatorCore, block: Block) -> None:
        self._allocator = allocator
        self.block = block

    def __del__(self) -> None:
        try:
            self._allocator._run_or_queue(lambda block=self.block: self._allocator._drop_hold(block))  # type: ignore[misc]  # a default, bound now
        except Exception as error:
            warnings.warn(f"giving back a block that a graph held failed: {error}", GraphcapWarning, stacklevel=1)


class Watch:
    """Whether a block is still what it was when it began to be watched.

    Attributes
    ----------
    freed_at
        Where it was freed; ``None`` while it is not.
    """

    __slots__ = ("freed_at",)

    def __init__(self) -> None:
        self.freed_at: Frames | None = None

    @property
    def alive(self) -> bool:
        """The block was not freed since."""
        return self.freed_at is None

    @property
    def freed(self) -> str:
        """The place of the free in words."""
        return place(self.freed_at or ())


class Place(NamedTuple):
    """Where an address lies in an allocator's memory.

    Attributes
    ----------
    pool_id, registration
        The pool and the segment (by its order of registration).
    low, high
        The block: its first byte, and the one past its last.
    in_use
        The block is handed out, or held by a graph; otherwise its memory is free.
    hold
        The hold that was taken of it, if it was asked for.
    """

    pool_id: MempoolId
    registration: int
    low: int
    high: int
    in_use: bool
    hold: Hold | None


class HandOut(NamedTuple):
    """One block that a capture was given.

    Attributes
    ----------
    low, high
        Its first byte, and the one past its last.
    block
        The block as it was then.
    mark
        What the capture's own mark was: how far it had come.
    """

    low: int
    high: int
    block: Block
    mark: object


class HandOuts:
    """All blocks that a capture was given, in order.

    Parameters
    ----------
    mark
        Called at each, to tell later which of the capture's nodes came before it.
    """

    __slots__ = ("_rows", "mark")

    def __init__(self, mark: Callable[[], object]) -> None:
        self.mark = mark
        self._rows: list[tuple[int, int, Block, object]] = []

    def note(self, block: Block) -> None:
        """A block was handed out to the capture."""
        self._rows.append((block.ptr, block.ptr + block.size, block, self.mark()))  # plain: on the path of allocations

    def take(self) -> list[HandOut]:
        """All of them, which are forgotten here."""
        rows, self._rows = self._rows, []
        return [HandOut._make(row) for row in rows]


def find_places(
    allocator: AllocatorCore,
    store: PoolStore,
    live: object,
    addresses: Iterable[int],
    own: Collection[MempoolId] | None,
) -> dict[int, Place]:
    """The places of those `addresses` that lie in an allocator's segments. Called with the allocator held.

    Parameters
    ----------
    live
        The state of a block that is handed out.
    own
        Pools that need no hold; of every other one the block is held, if it is in use. ``None`` takes no hold at all.
    """
    segments = sorted(
        ((segment.address, segment, pool.id) for pool in store.pools.values() for segment in pool.segments.values()),
        key=lambda row: row[0],
    )
    starts = [row[0] for row in segments]
    chains: dict[int, tuple[list[int], list[Block]]] = {}
    holds: dict[int, Hold] = {}
    found: dict[int, Place] = {}
    for address in addresses:
        index = bisect_right(starts, address) - 1
        if index < 0:
            continue
        start, segment, pool_id = segments[index]
        if address >= start + segment.size:
            continue
        block = _block_at(segment, address, chains)
        in_use = block.state is live or block.state is HELD
        hold = None
        if in_use and own is not None and pool_id not in own:
            hold = holds.get(id(block))
            if hold is None:
                block.holds += 1
                block.home = block.entry = None  # so that its free takes the long way, which looks at holds
                hold = holds[id(block)] = Hold(allocator, block)
        found[address] = Place(pool_id, segment.registration, block.ptr, block.ptr + block.size, in_use, hold)
    return found


def _block_at(segment: Segment, address: int, chains: dict[int, tuple[list[int], list[Block]]]) -> Block:
    chain = chains.get(segment.registration)
    if chain is None:
        blocks = segment.blocks()
        chain = chains[segment.registration] = [block.ptr for block in blocks], blocks
    return chain[1][bisect_right(chain[0], address) - 1]
