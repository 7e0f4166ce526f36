"""``MemPool`` and ``use_mem_pool``: pools that a user makes and fills by hand (S-C44 to S-C50)."""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import Any, NoReturn

from graphcap.errors import PoolStateError
from graphcap.interface import MempoolId
from graphcap.memory.allocator import CachingAllocator
from graphcap.memory.ids import new_user_pool_id
from graphcap.memory.routing import Route
from graphcap.memory.source import SegmentSource

__all__ = ["MemPool", "use_mem_pool"]


class MemPool:
    """A private pool of one device, held for as long as this object lives.

    Use it with :class:`use_mem_pool`, or pass it (or its `id`) as a graph's pool. It may be dropped at any time,
    also during a capture: blocks and graphs that use the pool keep it.

    Parameters
    ----------
    allocator
        The device's allocator.
    no_split
        Hand segments out whole: one block per segment.
    use_on_oom
        Let requests to the default pool that would fail take what this pool has free on their stream (S-C47).
    source
        Get this pool's segments from here instead of from the allocator's source (S-C50). Kept alive until the last
        segment is back.
    """

    def __init__(
        self,
        allocator: CachingAllocator,
        *,
        no_split: bool = False,
        use_on_oom: bool = False,
        source: SegmentSource | None = None,
    ) -> None:
        if source is not None and not isinstance(source, SegmentSource):
            raise TypeError(f"{type(source).__name__} is no SegmentSource: see graphcap.memory.source for its methods.")
        self._allocator = allocator
        self._id = new_user_pool_id()
        allocator._make_pool(self._id, source, no_split, use_on_oom)
        self._release = weakref.finalize(self, allocator._drop_mem_pool, self._id)
        self._release.atexit = False  # the device may be gone by then

    @property
    def id(self) -> MempoolId:
        """Its id, ``(0, n)``."""
        return self._id

    @property
    def allocator(self) -> CachingAllocator:
        """The allocator of its device."""
        return self._allocator

    def use_count(self) -> int:
        """Return how many hold the pool: this object, open scopes, captures and graphs."""
        return self._allocator.pool_use_count(self._id)

    def snapshot(self) -> list[dict[str, Any]]:
        """Return the pool's segments, as in :meth:`CachingAllocator.snapshot`."""
        segments: list[dict[str, Any]] = self._allocator.snapshot(self._id)["segments"]
        return segments

    def __repr__(self) -> str:
        return f"<MemPool {tuple(self._id)}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a MemPool cannot be copied or pickled: it holds memory of this process.")


class use_mem_pool:  # noqa: N801  # used like a function, as in PyTorch
    """``with``: allocations of this thread, on any stream of the pool's device, come from `pool`. Nests; the
    innermost counts.

    Inside a capture that this thread began, the graph also holds the pool, until its reset.

    Parameters
    ----------
    pool
        A :class:`MemPool`.

    Raises
    ------
    TypeError
        It is something else.
    PoolStateError
        The same scope object is entered twice at a time.
    """

    def __init__(self, pool: MemPool) -> None:
        if not isinstance(pool, MemPool):
            raise TypeError(f"use_mem_pool({pool!r}): a MemPool is needed, not {type(pool).__name__}.")
        self._pool = pool
        self._route: Route | None = None

    def __enter__(self) -> MemPool:
        if self._route is not None:
            raise PoolStateError("enter use_mem_pool", "this scope is open already", "Make one object for each scope.")
        self._route = self._pool.allocator._open_scope(self._pool.id)
        return self._pool

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        route, self._route = self._route, None
        if route is None:
            raise PoolStateError("leave use_mem_pool", "this scope is not open", "Leave it as often as it was entered.")
        self._pool.allocator._close_scope(route)
