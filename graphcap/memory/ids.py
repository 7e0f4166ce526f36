"""Pool ids: two process-wide counters, and the check that an id was ever issued (S-C1 to S-C3)."""

from __future__ import annotations

import threading

from graphcap.errors import PoolStateError
from graphcap.interface import NO_POOL, MempoolId

__all__ = ["new_graph_pool_id", "new_user_pool_id", "validate_pool_id"]

_lock = threading.Lock()
_last_graph_id = 0
_last_user_id = 0


def new_graph_pool_id() -> MempoolId:
    """Return a new ``(n, 0)``: the id of a pool that one capture makes for itself."""
    global _last_graph_id
    with _lock:
        _last_graph_id += 1
        return MempoolId(_last_graph_id, 0)


def new_user_pool_id() -> MempoolId:
    """Return a new ``(0, n)``: the id of a pool that the user makes, to be shared by captures for as long as he
    likes.

    Costs nothing: no pool exists on any device until the id is used there.
    """
    global _last_user_id
    with _lock:
        _last_user_id += 1
        return MempoolId(0, _last_user_id)


def validate_pool_id(pool_id: object, *, allow_none: bool = False) -> MempoolId:
    """Return `pool_id` as a :class:`~graphcap.interface.MempoolId` that this process has issued.

    Parameters
    ----------
    pool_id
        A ``MempoolId`` or any pair of integers.
    allow_none
        Accept ``(0, 0)``, which names no private pool.

    Raises
    ------
    TypeError
        It is not a pair of integers.
    PoolStateError
        Both halves nonzero, a negative half, never issued in this process (ids are not valid across processes), or
        ``(0, 0)`` without `allow_none`.
    """
    asked = f"pool id {pool_id!r}"
    if not (isinstance(pool_id, tuple) and len(pool_id) == 2 and all(type(half) is int for half in pool_id)):
        raise TypeError(f"{asked}: a pool id is a pair of integers, as graphcap.graph_pool_handle() returns.")
    first, second = pool_id
    asked = f"pool id ({first}, {second})"
    cure = "Use graphcap.graph_pool_handle(), a MemPool's id or a graph's pool()."
    if first < 0 or second < 0:
        raise PoolStateError(asked, "the halves of a pool id are never negative", cure)
    if first and second:
        raise PoolStateError(asked, "one half of a pool id is always zero", cure)
    if not first and not second:
        if allow_none:
            return NO_POOL
        raise PoolStateError(asked, "it names no private pool", cure)
    with _lock:
        issued = first <= _last_graph_id and second <= _last_user_id
    if not issued:
        raise PoolStateError(asked, "this process has never issued it (ids do not travel between processes)", cure)
    return MempoolId(first, second)
