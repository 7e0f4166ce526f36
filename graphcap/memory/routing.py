"""Which pool a request goes to: a list of scopes, newest first (S-C9, S-C10, S-C48)."""

from __future__ import annotations

from collections.abc import Callable

from graphcap._this_thread import thread_mark
from graphcap.errors import PoolStateError
from graphcap.interface import MempoolId
from graphcap.memory.claims import HandOuts
from graphcap.memory.pool import Pool

__all__ = ["Route", "Routes"]


class Route:
    """One open scope: requests that `accepts` agrees to are served from `pool`."""

    __slots__ = ("accepts", "log", "nested", "pool", "thread")

    def __init__(self, pool: Pool, accepts: Callable[[int], object] | None) -> None:
        self.pool = pool
        self.accepts = accepts
        """A capture's filter over streams; None: a ``use_mem_pool`` scope, which takes all of its thread's
        requests."""
        self.thread = thread_mark()
        self.nested: list[Pool] = []
        """Pools that the thread used within this capture: the graph holds one use of each (S-C48)."""
        self.log: HandOuts | None = getattr(accepts, "log", None)
        """Where a capture wants every block noted that it is given."""


class Routes:
    """All open scopes of one allocator, oldest first."""

    __slots__ = ("open",)

    def __init__(self) -> None:
        self.open: list[Route] = []

    def find(self, stream: int) -> Route | None:
        """Return the newest scope that accepts a request of this thread on `stream`."""
        for route in reversed(self.open):
            if route.accepts is None:
                if route.thread is thread_mark():
                    return route
            elif route.accepts(stream):
                return route
        return None

    def is_captured(self, stream: int) -> bool:
        """Say whether `stream` takes part in an open capture, as far as the captures' filters tell."""
        return any(route.accepts is not None and route.accepts(stream) for route in self.open)

    def capture_into(self, pool_id: MempoolId) -> Route | None:
        """Return the capture scope that is open on a pool."""
        for route in self.open:
            if route.accepts is not None and route.pool.id == pool_id:
                return route
        return None

    def close_capture(self, pool_id: MempoolId, label: str) -> Route:
        """Remove and return the capture scope on a pool; raise if there is none."""
        route = self.capture_into(pool_id)
        if route is None:
            raise PoolStateError(
                f"end allocating to pool {tuple(pool_id)} on {label}",
                "no capture allocates to it",
                "Begin first, and end exactly once.",
            )
        self.open.remove(route)
        return route

    def capture_of_this_thread(self) -> Route | None:
        """Return the newest capture scope that this thread opened."""
        here = thread_mark()
        for route in reversed(self.open):
            if route.accepts is not None and route.thread is here:
                return route
        return None

    def refuse_second_capture(self, pool_id: MempoolId) -> None:
        """Raise if a capture is open on the pool already (design, rule 16)."""
        if self.capture_into(pool_id) is not None:
            raise PoolStateError(
                f"begin allocating to pool {tuple(pool_id)}",
                "another capture into this pool is open",
                "End that capture first, or give this one a pool of its own; finished graphs may share one.",
            )
