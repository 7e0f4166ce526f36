"""Checkpoints: the block layout of a pool, copied and brought back (S-C41 to S-C43)."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphcap.errors import PoolStateError
from graphcap.interface import MempoolId
from graphcap.memory.blocks import DEAD, LOOSE, RETIRED, Block, Segment
from graphcap.memory.history import Frames
from graphcap.memory.pool import Pool
from graphcap.memory.tally import Tally

__all__ = ["PoolCheckpoint", "RestoreResult", "SavedBlock", "SavedSegment", "restore", "take"]


@dataclass(frozen=True)
class SavedBlock:
    """One block of a saved layout."""

    ptr: int
    size: int
    requested: int
    live: bool
    uses: frozenset[int]
    capture_uses: frozenset[int]
    frames: Frames


@dataclass(frozen=True)
class SavedSegment:
    """One segment of a saved layout, and its blocks in address order."""

    address: int
    size: int
    stream: int
    registration: int
    blocks: tuple[SavedBlock, ...]


@dataclass(frozen=True)
class PoolCheckpoint:
    """The layout of one pool at one moment. Immutable; holds no memory."""

    pool_id: MempoolId
    segments: tuple[SavedSegment, ...]
    owner: object = field(repr=False)

    def live_pointers(self) -> frozenset[int]:
        """Return the addresses of the blocks that were handed out."""
        return frozenset(b.ptr for segment in self.segments for b in segment.blocks if b.live)


@dataclass(frozen=True)
class RestoreResult:
    """What a restore changed.

    Attributes
    ----------
    freed
        Addresses that were handed out when the restore began. An address may also be in `live`.
    live
        Address -> block of everything handed out now.
    recreated
        Of these, the addresses whose blocks are new objects: the caller frees them.
    taken
        Blocks that were taken back from whoever holds them; to free one does nothing.
    """

    freed: frozenset[int]
    live: dict[int, Block]
    recreated: frozenset[int]
    taken: tuple[Block, ...]


def take(pool: Pool, token: object) -> PoolCheckpoint:
    """Copy the layout of a pool in which nothing waits."""
    pool.consolidate()
    return PoolCheckpoint(
        pool.id,
        tuple(
            SavedSegment(s.address, s.size, s.lists.stream, s.registration, tuple(_saved(b, token) for b in s.blocks()))
            for s in pool.segments.values()
        ),
        token,
    )


def _saved(block: Block, token: object) -> SavedBlock:
    live = block.state is token
    return SavedBlock(
        block.ptr,
        block.size,
        block.requested if live else 0,
        live,
        frozenset(block.uses or ()),
        frozenset(block.capture_uses or ()),
        block.allocated_at if live else (),
    )


def restore(pool: Pool, saved: PoolCheckpoint, token: object, device: Tally) -> RestoreResult:
    """Re-cut every segment of a pool in which nothing waits; see :meth:`CachingAllocator.restore`."""
    asked = f"restore pool {tuple(pool.id)}"
    if saved.owner is not token:
        raise PoolStateError(asked, "the checkpoint was taken from another allocator", "Restore it where it was taken.")
    for old in saved.segments:
        now = pool.segments.get(old.address)
        if now is None or now.registration != old.registration:
            raise PoolStateError(
                asked,
                f"its segment at 0x{old.address:x} ({old.size} bytes) has gone back to the source since the checkpoint",
                "Keep a use of the pool between checkpoint and restore.",
            )
    pool.consolidate()
    layouts = {old.address: old.blocks for old in saved.segments}
    freed: set[int] = set()
    live: dict[int, Block] = {}
    recreated: set[int] = set()
    taken: list[Block] = []
    for segment in pool.segments.values():
        present = {}
        for block in segment.blocks():
            if block.state is token:
                present[block.ptr] = block
                device.remove_block(block.size, block.requested)
                pool.tally.remove_block(block.size, block.requested)
            else:
                segment.lists.remove(block)
                block.kill(DEAD)
        freed.update(present)
        whole = (SavedBlock(segment.address, segment.size, 0, False, frozenset(), frozenset(), ()),)
        chain = []
        for old_block in layouts.get(segment.address, whole):
            kept = present.get(old_block.ptr)
            if old_block.live and kept is not None and kept.size == old_block.size:
                block = present.pop(old_block.ptr)
            else:
                block = Block(segment, old_block.ptr, old_block.size)
                if old_block.live:
                    recreated.add(block.ptr)
            chain.append(block)
            if old_block.live:
                _revive(block, old_block, token)
                live[block.ptr] = block
                device.add_block(block.size, block.requested)
                pool.tally.add_block(block.size, block.requested)
        for block in present.values():
            block.kill(RETIRED)
            taken.append(block)
        _link(segment, chain)
    return RestoreResult(frozenset(freed), live, frozenset(recreated), tuple(taken))


def _revive(block: Block, old: SavedBlock, token: object) -> None:
    block.state = token
    block.requested = old.requested
    block.uses = set(old.uses) or None
    block.capture_uses = set(old.capture_uses) or None
    block.allocated_at = old.frames
    block.home = block.entry = None  # its next free merges it: the layout around it has changed
    block.guarded = block.poisoned = False


def _link(segment: Segment, chain: list[Block]) -> None:
    segment.first = chain[0]
    for before, block, after in zip([None, *chain], chain, [*chain[1:], None], strict=False):
        block.prev, block.next = before, after
    for block in chain:
        if block.state is LOOSE:
            segment.lists.insert(block)
