"""Frees that have to wait for the work of other streams (S-C26 to S-C31)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from graphcap.errors import PoolStateError
from graphcap.memory.blocks import Block
from graphcap.memory.source import SegmentSource

__all__ = ["WaitingFrees"]


class WaitingFrees:
    """Blocks that their users have freed while other streams may still work on them.

    A block is *deferred* as long as streams that used it have no event yet: events are never recorded, nor looked
    at, while a capture is open (S-C27, S-C30). Afterwards one event per stream is recorded, and the block is
    *pending* until all have completed.

    Parameters
    ----------
    source
        Supplies the events.
    give_back
        Called with each block that nothing uses any more.
    """

    def __init__(self, source: SegmentSource, give_back: Callable[[Block], None]) -> None:
        self._source = source
        self._give_back = give_back
        self._deferred: dict[int, Block] = {}
        self._pending: dict[int, deque[tuple[Any, Block]]] = {}
        self.count = 0
        """Blocks that wait. The cached path tests this and nothing else."""

    def add(self, block: Block, capturing: bool) -> None:
        """Let a freed block that other streams used wait."""
        self.count += 1
        self._deferred[block.ptr] = block
        if not capturing:
            self._record(block)

    def settle_deferred(self) -> None:
        """Record the events that were put off; to be called when no capture is open.

        Uses in a capture are dropped: the streams were joined when it ended (S-C29). A failure leaves the block
        deferred.
        """
        for block in list(self._deferred.values()):
            self._record(block)

    def _record(self, block: Block) -> None:
        block.capture_uses = None
        uses = block.uses
        while uses:
            stream = next(iter(uses))
            event = self._source.record_event(stream)
            uses.discard(stream)
            block.events += 1
            self._pending.setdefault(stream, deque()).append((event, block))
        block.uses = None
        del self._deferred[block.ptr]
        if not block.events:
            self.count -= 1
            self._give_back(block)

    def poll(self) -> None:
        """Settle, then give back every block whose events have completed, without waiting."""
        if self._deferred:
            self.settle_deferred()
        for stream in list(self._pending):
            waiting = self._pending[stream]
            # Events of one stream complete in order: the first that has not says enough.
            while waiting and self._source.query_event(waiting[0][0]):
                self._finish(waiting)
            if not waiting:
                del self._pending[stream]

    def synchronize(self, keep: Callable[[Block], bool] | None = None) -> None:
        """Settle, then wait for events and give their blocks back.

        Parameters
        ----------
        keep
            Blocks for which it is true are not waited for.
        """
        if self._deferred:
            self.settle_deferred()
        for stream in list(self._pending):
            waiting = self._pending[stream]
            kept: deque[tuple[Any, Block]] = deque()
            try:
                while waiting:
                    if keep is not None and keep(waiting[0][1]):
                        kept.append(waiting.popleft())
                        continue
                    self._source.synchronize_event(waiting[0][0])
                    self._finish(waiting)
            finally:
                waiting.extendleft(reversed(kept))
            if not waiting:
                del self._pending[stream]

    def _finish(self, waiting: deque[tuple[Any, Block]]) -> None:
        event, block = waiting.popleft()
        block.events -= 1
        if not block.events and block.ptr not in self._deferred:
            self.count -= 1
            self._give_back(block)
        self._source.release_event(event)

    def blocks(self) -> Iterable[Block]:
        """Return the blocks that wait (each once)."""
        found = {block.ptr: block for waiting in self._pending.values() for _, block in waiting}
        found.update(self._deferred)
        return found.values()

    def refuse(self, asked: str, blocks: Iterable[Block]) -> None:
        """Raise if one of `blocks` waits."""
        waiting = {block.ptr for block in self.blocks()}
        for block in blocks:
            if block.ptr in waiting:
                raise PoolStateError(
                    asked,
                    f"block 0x{block.ptr:x} of {block.size} bytes still waits for the work of another stream",
                    "Synchronize the streams that use the pool's memory first.",
                )
