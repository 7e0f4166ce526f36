"""Pools and their free lists: best fit among the free blocks of one stream, with an exact-size list in front.

A block that is freed is *parked*: it keeps its bounds and waits, on a heap ordered by (segment registration,
address), for the next request of the size it served. Only when a request finds nothing parked are all parked blocks
of that stream and size class merged with their free neighbours and moved to the sorted list, where best fit looks
(S-C15, S-C18). Freeing and allocating a size seen before therefore touches neither neighbours nor the sorted list,
and nothing that a user can see depends on a merge that has not been done yet: requests that are not served from a
parked block, giving memory back, checkpoints and snapshots all look at merged blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, cast

from sortedcontainers import SortedList

from graphcap.interface import MempoolId
from graphcap.memory.blocks import DEAD, FREE, LOOSE, Block, Segment
from graphcap.memory.sizes import SMALL_LIMIT, AllocatorOptions, may_split
from graphcap.memory.tally import Tally

if TYPE_CHECKING:
    from graphcap.memory.source import SegmentSource

__all__ = ["FreeLists", "ParkedBlocks", "Pool"]

_MAX_EXACT_SIZES: Final = 8192
"""Exact-size lists that a pool keeps: a program whose every request has a new size must not grow them for ever."""


class ParkedBlocks(list[tuple[int, Block]]):
    """A heap of whole free blocks that all served requests of one rounded size on one stream of one pool."""

    __slots__ = ("listed", "lists")

    def __init__(self, lists: FreeLists) -> None:
        super().__init__()
        self.lists = lists
        self.listed = False
        """Whether it is in ``lists.parked``, that is: may hold something."""


class FreeLists:
    """The free blocks of one pool, size class and stream."""

    __slots__ = ("is_small", "parked", "pool", "segment_count", "stream", "tree")

    def __init__(self, pool: Pool, is_small: bool, stream: int) -> None:
        self.pool = pool
        self.is_small = is_small
        self.stream = stream
        self.segment_count = 0
        self.parked: list[ParkedBlocks] = []
        self.tree: Any = SortedList()
        """Merged free blocks by (size, rank); ranks are unique, so blocks are never compared."""

    def home(self, rounded: int) -> ParkedBlocks:
        """Return the exact-size list for requests of `rounded` bytes."""
        key = (self.stream, rounded)
        found = self.pool.parked.get(key)
        if found is None:
            if len(self.pool.parked) >= _MAX_EXACT_SIZES:
                # Lists that nothing leads to any more stay the homes of their blocks, and `consolidate` empties them.
                self.pool.parked.clear()
            found = self.pool.parked[key] = ParkedBlocks(self)
        return found

    def consolidate(self) -> None:
        """Merge every parked block with its free neighbours and move it to the sorted list."""
        moved: list[Block] = []
        for heap in self.parked:
            heap.listed = False
            for _, block in heap:
                block.state = LOOSE
                moved.append(block)
            heap.clear()
        self.parked.clear()
        for block in moved:
            if block.state is LOOSE:
                self.insert(block)

    def insert(self, block: Block) -> None:
        """Merge a loose block with its free neighbours and put it in the sorted list (S-C18)."""
        block.state = LOOSE
        # Loose neighbours are parked blocks that `consolidate` is about to insert: swallowing them here saves it
        # the trouble.
        while (left := block.prev) is not None and (left.state is FREE or left.state is LOOSE):
            if left.state is FREE:
                self.remove(left)
            block.absorb(left)
        while (right := block.next) is not None and (right.state is FREE or right.state is LOOSE):
            if right.state is FREE:
                self.remove(right)
            block.absorb(right)
        self.add(block)

    def add(self, block: Block) -> None:
        """Put a loose block in the sorted list as it is; its neighbours must not be free."""
        block.state = FREE
        block.requested = 0
        block.home = block.entry = None
        self.tree.add((block.size, block.rank(), block))

    def remove(self, block: Block) -> None:
        """Take a block out of the sorted list; it is loose afterwards."""
        self.tree.remove((block.size, block.rank(), block))
        block.state = LOOSE

    def take(self, rounded: int, options: AllocatorOptions) -> Block | None:
        """Take the smallest free block that holds `rounded` bytes, whole and loose; None if there is none (S-C15,
        S-C16)."""
        if self.parked:
            self.consolidate()
        found = next(self.tree.irange((rounded,)), None)
        if found is None:
            return None
        size, _, block = cast("tuple[int, int, Block]", found)
        limit = options.max_split_size
        if limit is not None and not self.is_small:
            if rounded < limit <= size:
                return None
            if rounded >= limit and size - rounded >= options.max_non_split_rounding:
                return None
        self.tree.remove(found)
        block.state = LOOSE
        return block

    def cut(self, block: Block, rounded: int, options: AllocatorOptions) -> None:
        """Split a loose block that is about to be handed out, if the rest is worth it (S-C17)."""
        if not self.pool.no_split and may_split(rounded, block.size - rounded, options):
            self.add(block.split(rounded))


class Pool:
    """The default pool, or a private one: a set of segments that share nothing with any other pool (S-C4,
    S-C20)."""

    __slots__ = (
        "captured",
        "id",
        "lists",
        "no_split",
        "parked",
        "segments",
        "source",
        "tally",
        "use_count",
        "use_on_oom",
    )

    def __init__(self, pool_id: MempoolId, tally: Tally, source: SegmentSource | None = None) -> None:
        self.id = pool_id
        self.use_count = 0
        self.source = source
        """Where its segments come from if not from the allocator's own source (S-C50)."""
        self.no_split = False
        self.use_on_oom = False
        self.captured = False
        """Whether a capture ever allocated from it: replays may touch even its free blocks."""
        self.tally = tally
        self.segments: dict[int, Segment] = {}
        self.parked: dict[tuple[int, int], ParkedBlocks] = {}
        """(stream, rounded size) -> exact-size list. The cached path looks here and nowhere else."""
        self.lists: dict[tuple[bool, int], FreeLists] = {}

    def free_lists(self, rounded: int, stream: int) -> FreeLists:
        key = (rounded <= SMALL_LIMIT, stream)
        found = self.lists.get(key)
        if found is None:
            found = self.lists[key] = FreeLists(self, *key)
        return found

    def consolidate(self) -> None:
        for lists in self.lists.values():
            lists.consolidate()

    def blocks(self) -> Iterator[Block]:
        for segment in self.segments.values():
            yield from segment.blocks()

    def whole_free_segments(self) -> list[Segment]:
        """Return the segments of which no part is in use: those that may go back to the source (S-C8)."""
        self.consolidate()
        return [s for s in self.segments.values() if s.first.state is FREE and s.first.size == s.size]

    def attach(self, segment: Segment) -> None:
        """Take a new segment in; its only block is loose."""
        self.segments[segment.address] = segment
        segment.lists.segment_count += 1

    def detach(self, segment: Segment) -> None:
        """Forget a wholly free segment that has gone back to the source."""
        lists = segment.lists
        del self.segments[segment.address]
        lists.remove(segment.first)
        segment.first.kill(DEAD)
        lists.segment_count -= 1
        if not lists.segment_count:  # streams come and go: leave nothing of them behind
            del self.lists[lists.is_small, lists.stream]
            for key in [key for key, home in self.parked.items() if home.lists is lists]:
                del self.parked[key]

    def forget_flags(self) -> None:
        """The last user has gone: options that a ``MemPool`` set go with it (S-C7, S-C45)."""
        self.no_split = self.use_on_oom = False
