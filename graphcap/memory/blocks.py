"""Segments and blocks: how one piece of driver memory is cut up.

A segment's blocks form a doubly linked chain that covers it without a gap. A block is, at any time, in one state:

=============  =====================================================================================================
the token      handed out; the token is the allocator's own, so a block of another allocator is told apart by it
``PARKED``     free, kept whole in the exact-size list it came from, so that the next such request costs next to
nothing ``FREE``       free, merged with its free neighbours, in the sorted list of its segment's stream
``LOOSE``      free, in no list: on its way from one to another, inside one call
``PENDING``    freed by its user, waiting for the work of other streams
``HELD``       freed by its user, kept as it is by a graph whose nodes use it
``DEAD``       no longer part of a segment: merged into a neighbour, or its segment is gone
``RETIRED``    taken back by a checkpoint's restore while its user still holds it; freeing it does nothing
=============  =====================================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphcap.interface import MempoolId

if TYPE_CHECKING:
    from graphcap.memory.claims import Watch
    from graphcap.memory.history import Frames
    from graphcap.memory.pool import FreeLists, ParkedBlocks
    from graphcap.memory.source import SegmentSource

__all__ = ["DEAD", "FREE", "HELD", "LOOSE", "PARKED", "PENDING", "RETIRED", "Block", "Segment"]

PARKED: Final = "parked"
FREE: Final = "free"
LOOSE: Final = "loose"
PENDING: Final = "waiting for other streams"
HELD: Final = "freed, and kept by a graph"
DEAD: Final = "dead"
RETIRED: Final = "taken back by a restore"


class Segment:
    """One allocation from the source. Belongs to one pool, one size class and one stream for its whole life."""

    __slots__ = ("address", "first", "frames", "lists", "registration", "size", "source")

    def __init__(
        self, address: int, size: int, lists: FreeLists, source: SegmentSource, registration: int, frames: Frames
    ) -> None:
        self.address = address
        self.size = size
        self.lists = lists
        self.source = source
        self.registration = registration
        """Order in which the allocator got its segments: the tie-break of best fit (S-C15)."""
        self.frames = frames
        self.first = Block(self, address, size)

    def blocks(self) -> list[Block]:
        """Return the chain, in address order."""
        chain = []
        block: Block | None = self.first
        while block is not None:
            chain.append(block)
            block = block.next
        return chain


class Block:
    """A piece of a segment; what :meth:`CachingAllocator.allocate` returns.

    Owned by its allocator. A user reads it, and gives it back with ``free`` exactly once. After that the object may
    be handed out again for another request: drop it.

    Attributes
    ----------
    ptr : int
        Device address.
    size : int
        Bytes that the block occupies: at least `requested`, a multiple of 512.
    requested : int
        Bytes that were asked for.
    """

    __slots__ = (
        "allocated_at",
        "capture_uses",
        "entry",
        "events",
        "freed_at",
        "guarded",
        "holds",
        "home",
        "next",
        "poisoned",
        "prev",
        "ptr",
        "requested",
        "segment",
        "size",
        "state",
        "uses",
        "watch",
    )

    def __init__(self, segment: Segment, ptr: int, size: int) -> None:
        self.segment = segment
        self.ptr = ptr
        self.size = size
        self.requested = 0
        self.state: object = LOOSE
        self.prev: Block | None = None
        self.next: Block | None = None
        self.home: ParkedBlocks | None = None
        """The exact-size list to which a free returns the block; None: a free merges it at once."""
        self.entry: tuple[int, Block] | None = None
        """Its item in `home`, made once: (registration and address in one integer, itself)."""
        self.uses: set[int] | None = None
        """Other streams that use it, and whose work has to be waited for after the free."""
        self.capture_uses: set[int] | None = None
        """Other streams that used it in a capture still open then: nothing to wait for once no capture is
        (S-C29)."""
        self.events = 0
        """Events that its free waits for."""
        self.allocated_at: Frames = ()
        self.freed_at: Frames = ()
        self.holds = 0
        """Graphs of other pools whose nodes use it: its free has no effect before the last of them is gone."""
        self.watch: Watch | None = None
        """Told of its free."""
        self.guarded = False
        """Debug mode: bytes past `requested` hold the red zone."""
        self.poisoned = False
        """Debug mode: all bytes hold the poison."""

    @property
    def stream(self) -> int:
        """The stream that owns the memory: reuse on it needs no waiting."""
        return self.segment.lists.stream

    @property
    def pool_id(self) -> MempoolId:
        """The pool it came from; ``(0, 0)`` is the default pool."""
        return self.segment.lists.pool.id

    @property
    def is_free(self) -> bool:
        """True when it can serve a request: neither in use nor waiting."""
        return self.state is PARKED or self.state is FREE or self.state is LOOSE

    def __repr__(self) -> str:
        state = self.state if isinstance(self.state, str) else "allocated"
        return f"<Block 0x{self.ptr:x} {self.requested}/{self.size} bytes, pool {tuple(self.pool_id)}, {state}>"

    def rank(self) -> int:
        """Order among blocks of one size: by segment registration, then by address (S-C15)."""
        return self.segment.registration << 64 | self.ptr

    def split(self, size: int) -> Block:
        """Keep `size` bytes; return the rest as a new loose block that follows in the chain."""
        rest = Block(self.segment, self.ptr + size, self.size - size)
        rest.poisoned = self.poisoned
        rest.prev, rest.next = self, self.next
        if self.next is not None:
            self.next.prev = rest
        self.next = rest
        self.size = size
        return rest

    def absorb(self, other: Block) -> None:
        """Swallow the chain neighbour `other`, which is free and in no list; it is dead afterwards."""
        if other is self.prev:
            self.ptr = other.ptr
            self.prev = other.prev
            if other.prev is not None:
                other.prev.next = self
            else:
                self.segment.first = self
        else:
            self.next = other.next
            if other.next is not None:
                other.next.prev = self
        self.size += other.size
        self.poisoned = self.poisoned and other.poisoned
        other.kill(DEAD)

    def kill(self, state: str) -> None:
        """Leave the chain for good; drops the references that would form a cycle."""
        self.state = state
        self.prev = self.next = self.home = self.entry = None
        self.uses = self.capture_uses = None
        if self.watch is not None:
            self.watch.freed_at, self.watch = (), None
