"""Debug mode: poison, red zones, and both places of a wrong free."""

from __future__ import annotations

from collections import deque
from typing import Final

from graphcap.errors import PoolStateError
from graphcap.memory.blocks import DEAD, Block
from graphcap.memory.history import Frames, place
from graphcap.memory.source import MemoryAccess, SegmentSource

__all__ = ["FRAMES_KEPT", "POISON", "RED_ZONE", "RED_ZONE_BYTES", "BlockGuard", "LiveToken", "misuse"]

POISON: Final = 0xDB
"""Value of every byte of a freed block."""
RED_ZONE: Final = 0xFA
"""Value of every byte between the end of a request and the end of its block."""
FRAMES_KEPT: Final = 8
"""Caller frames kept of each allocation and free."""
_FREES_REMEMBERED: Final = 10_000
RED_ZONE_BYTES: Final = 256
"""Least length of a red zone."""


class LiveToken:
    """The state of a block that is handed out: one token for each allocator."""

    __slots__ = ("label",)

    def __init__(self, label: str) -> None:
        self.label = label


class BlockGuard:
    """Writes and checks the patterns.

    Memory is looked at only where that is safe: never while a capture is open, and never in a pool that a capture
    has allocated from, because a replay may write to any block of it, free or not.
    """

    def __init__(self, source: SegmentSource) -> None:
        self._freed: deque[tuple[int, int, Frames, Frames]] = deque(maxlen=_FREES_REMEMBERED)
        """Latest frees: address, size, where allocated, where freed."""
        self.padding = RED_ZONE_BYTES if isinstance(source, MemoryAccess) else 0
        """Bytes added to every request."""

    def _access(self, block: Block, capturing: bool) -> MemoryAccess | None:
        source = block.segment.source
        if capturing or block.segment.lists.pool.captured or not isinstance(source, MemoryAccess):
            return None
        return source

    def check_poison(self, block: Block, capturing: bool) -> None:
        """Raise if a free block that is about to be handed out was written to since it was freed."""
        access = self._access(block, capturing)
        if access is None or not block.poisoned:
            return
        offset = _first_other(access.read(block.ptr, block.size, block.stream), POISON)
        if offset is not None:
            block.poisoned = False
            raise PoolStateError(
                f"hand out the free memory at 0x{block.ptr:x} ({block.size} bytes)",
                f"0x{block.ptr + offset:x} was written to after the memory was freed{self._last_owner(block.ptr + offset)}",
                "Look for work that uses an array after its last reference is gone, or for a missing record_stream().",
            )

    def _last_owner(self, address: int) -> str:
        """Say which block was freed last at an address, as far as remembered."""
        for ptr, size, allocated_at, freed_at in reversed(self._freed):
            if ptr <= address < ptr + size:
                return (
                    f": byte {address - ptr} of a block of {size} bytes, allocated at {place(allocated_at)}, "
                    f"freed at {place(freed_at)}"
                )
        return ""

    def arm(self, block: Block, capturing: bool) -> None:
        """Write the red zone of a block that is handed out."""
        access = self._access(block, capturing)
        block.poisoned = block.guarded = False
        if access is not None and block.size > block.requested:
            access.fill(block.ptr + block.requested, block.size - block.requested, RED_ZONE, block.stream)
            block.guarded = True

    def check_zone(self, block: Block, capturing: bool, freed_at: Frames) -> None:
        """Raise if the red zone of a handed-out block, or the one in front of it, was written to."""
        for owner, side in ((block, "past its end"), (block.prev, "in front of its start")):
            if owner is None or not owner.guarded:
                continue
            access = self._access(owner, capturing)
            if access is None:
                continue
            offset = _first_other(
                access.read(owner.ptr + owner.requested, owner.size - owner.requested, owner.stream), RED_ZONE
            )
            if offset is not None:
                owner.guarded = False
                where = owner.ptr + owner.requested + offset
                raise PoolStateError(
                    f"free block 0x{block.ptr:x} ({block.requested} bytes)",
                    f"memory {side} was written to, at 0x{where:x}; the block was allocated at "
                    f"{place(block.allocated_at)} and is freed at {place(freed_at)}",
                    "Look for work that writes outside its array; the block stays allocated.",
                )

    def poison(self, block: Block, capturing: bool) -> None:
        """Overwrite a free block: one that has just been freed, or a new segment."""
        access = self._access(block, capturing)
        block.guarded = False
        if block.freed_at:
            self._freed.append((block.ptr, block.size, block.allocated_at, block.freed_at))
        if access is not None:
            access.fill(block.ptr, block.size, POISON, block.stream)
            block.poisoned = True

    @staticmethod
    def replace(block: Block) -> Block:
        """Put a new object in the block's place in the chain, so that the user's stale one is recognised for
        ever."""
        twin = Block(block.segment, block.ptr, block.size)
        twin.requested, twin.state = block.requested, block.state
        twin.uses, twin.capture_uses = block.uses, block.capture_uses
        twin.allocated_at, twin.freed_at = block.allocated_at, block.freed_at
        twin.guarded, twin.poisoned = block.guarded, block.poisoned
        twin.prev, twin.next = block.prev, block.next
        if twin.prev is not None:
            twin.prev.next = twin
        else:
            block.segment.first = twin
        if twin.next is not None:
            twin.next.prev = twin
        block.kill(DEAD)
        return twin


def _first_other(data: bytes, value: int) -> int | None:
    """Return the offset of the first byte that is not `value`."""
    rest = data.lstrip(bytes([value]))
    return len(data) - len(rest) if rest else None


def misuse(block: object, asked: str, token: LiveToken, here: Frames) -> Exception:
    """Build the error for a block that is not this allocator's to free or to use."""
    if not isinstance(block, Block):
        return TypeError(f"{asked}: a Block that this allocator returned is needed, not {type(block).__name__}.")
    known = bool(block.allocated_at or here)
    places = f"; allocated at {place(block.allocated_at)}, now at {place(here)}" if known else ""
    cure = "Give every block back once, to the allocator it came from."
    if not known:
        cure += " Debug mode tells where it was allocated and freed."
    asked = f"{asked} block 0x{block.ptr:x} ({block.requested or block.size} bytes)"
    if isinstance(block.state, LiveToken):
        return PoolStateError(asked, f"it belongs to another allocator ({block.state.label}){places}", cure)
    if known:
        places = f"; allocated at {place(block.allocated_at)}, freed at {place(block.freed_at)}, now at {place(here)}"
    return PoolStateError(asked, f"it was freed already{places}", cure)
