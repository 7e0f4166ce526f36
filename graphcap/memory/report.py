"""What an out-of-memory error says."""

from __future__ import annotations

from graphcap.errors import OutOfMemoryError
from graphcap.interface import NO_POOL
from graphcap.memory.pool import Pool
from graphcap.memory.sizes import segment_size
from graphcap.memory.store import PoolStore

__all__ = ["format_bytes", "out_of_memory"]


def format_bytes(nbytes: int) -> str:
    """Return ``"2.00 MiB"``-like text."""
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{nbytes} B" if unit == "B" else f"{value:.2f} {unit}"
        value /= 1024
    return f"{value:.2f} TiB"


def _pool_line(pool: Pool) -> str:
    if pool.id == NO_POOL:
        name, held = "default pool", ""
    else:
        name = f"pool ({pool.id.first}, {pool.id.second})"
        held = f", uses {pool.use_count}" if pool.use_count else ", freeable"
    t = pool.tally
    cached = t.reserved - t.allocated - t.waiting
    waiting = f", waiting {format_bytes(t.waiting)}" if t.waiting else ""
    return (
        f"  {name}: reserved {format_bytes(t.reserved)}, allocated {format_bytes(t.allocated)}{waiting}, "
        f"cached {format_bytes(cached)}, segments {t.segments_in - t.segments_out}{held}"
    )


def out_of_memory(store: PoolStore, requested: int, rounded: int, pool: Pool, open_captures: int) -> OutOfMemoryError:
    """Build the error: what was asked, what is held by whom, and what may help (design, rule 17)."""
    t = store.tally
    info = store.source.memory_info()
    limit = store.limit
    target = "the default pool" if pool is store.default else f"pool {tuple(pool.id)}"
    size = segment_size(rounded, store.options)
    parts = [
        f"reserved {format_bytes(t.reserved)}",
        f"allocated {format_bytes(t.allocated)}",
        f"limit {format_bytes(limit) if limit is not None else 'none'}",
    ]
    if info is not None:
        parts.append(f"free on the device {format_bytes(info[0])} of {format_bytes(info[1])}")
    table = "\n".join(_pool_line(p) for p in store.pools.values())
    why = "the limit does not allow" if store.failure is None else "the device has no room for"
    state = f"{why} a new segment of {format_bytes(size)} ({', '.join(parts)}).\n{table}\n"
    cures = []
    if open_captures:
        cures.append("A capture is open, so cached memory could not be released: call empty_cache() before capturing")
    if len(store.pools) > 2:
        cures.append("let graphs share one pool (graph_pool_handle()), and reset graphs that are no longer needed")
    if store.failure is None:
        cures.append("raise the limit with set_memory_limit()")
    cures.append("drop arrays that are no longer needed")
    cure = "; ".join(cures)
    return OutOfMemoryError(
        f"allocate {requested} bytes ({format_bytes(requested)}) from {target} on {store.source.label}",
        state,
        cure[0].upper() + cure[1:],
        requested=requested,
        reserved=t.reserved,
        allocated=t.allocated,
        limit=limit,
    )
