"""Memory, pools and array namespaces by device string."""

from __future__ import annotations

import json
import os
from typing import Any

from graphcap import memory
from graphcap._device import resolve, work_stream
from graphcap._files import write_whole
from graphcap.backends.buffer import Buffer
from graphcap.interface import MempoolId

__all__ = [
    "MemPool",
    "allocate",
    "array_namespace",
    "empty_cache",
    "graph_pool_handle",
    "memory_snapshot",
    "memory_stats",
    "set_memory_limit",
    "use_mem_pool",
]

use_mem_pool = memory.use_mem_pool


def graph_pool_handle() -> MempoolId:
    """A new pool id ``(0, n)`` that several graphs can share. The pool is made on first use; the id stays good for ever."""
    return memory.new_user_pool_id()


class MemPool(memory.MemPool):
    """A private pool of one device, held for as long as this object lives.

    Use it with :func:`use_mem_pool`, or give it to :class:`Graph` as its pool.

    Parameters
    ----------
    device
        A device string; the default device if not given.
    no_split
        Hand segments out whole: one block per segment.
    use_on_oom
        Let requests to the default pool that would fail take what this pool has free (S-C47).

    Raises
    ------
    TypeError, ValueError, BackendError
        `device` is not one, or is not usable here.
    """

    def __init__(self, device: str | None = None, *, no_split: bool = False, use_on_oom: bool = False) -> None:
        found = resolve(device)
        super().__init__(found.backend.allocator(found.current), no_split=no_split, use_on_oom=use_on_oom)


def allocate(nbytes: int, device: str | None = None) -> Buffer:
    """Memory for work on the current stream of a device; from the capture's pool when that stream captures.

    Parameters
    ----------
    nbytes
        The size in bytes. The contents are not set.

    Raises
    ------
    ValueError
        `nbytes` is negative.
    OutOfMemoryError
        The memory cannot be had, also after all cached memory was released.
    CaptureStateError
        The device index given is not that of the current stream.
    """
    stream = work_stream(device)
    return stream.backend.allocate(nbytes, stream.device_index, stream)


def empty_cache(device: str | None = None) -> int:
    """Give free cached segments back to the driver: those of the default pool and of freeable private pools.

    Does nothing while a capture is open on the device (rule 9).

    Returns
    -------
    int
        The bytes that went back.
    """
    return _allocator(device).empty_cache()


def memory_stats(device: str | None = None) -> dict[str, Any]:
    """Counters of the memory manager, a flat dict ``"<what>.<how>"``.

    *what* is ``allocated_bytes``, ``requested_bytes``, ``active_bytes``, ``reserved_bytes``, ``segments``, ``blocks``; *how* is
    ``current``, ``peak``, ``allocated``, ``freed``. ``"pools"`` maps each pool id to the same dict.
    """
    return _allocator(device).stats()


def memory_snapshot(
    device: str | None = None, *, layout: str = "graphcap", path: str | os.PathLike[str] | None = None
) -> dict[str, Any]:
    """Segments, blocks and pools as plain data.

    Parameters
    ----------
    layout
        ``"graphcap"``: our own, JSON-ready. ``"pytorch"``: what PyTorch's memory visualiser reads.
    path
        Also write it to this file: JSON for our own layout, the pickle that the visualiser takes for the other.

    Raises
    ------
    ValueError
        `layout` is neither.
    OSError
        The file cannot be written. Nothing is left half-written.
    """
    allocator = _allocator(device)
    if layout == "pytorch":
        if path is not None:
            memory.dump_visualizer_snapshot(allocator, path)
        return allocator.visualizer_snapshot()
    if layout != "graphcap":
        raise ValueError(f"memory_snapshot(layout={layout!r}): use 'graphcap' or 'pytorch'.")
    found = allocator.snapshot()
    if path is not None:
        write_whole(path, json.dumps(found).encode())
    return found


def set_memory_limit(limit: int | float | None, device: str | None = None) -> None:
    """Limit the bytes that the memory manager reserves on a device.

    Parameters
    ----------
    limit
        Bytes (an int), a fraction of the device's memory (a float above 0, at most 1), or ``None`` for no limit.

    Raises
    ------
    ValueError, TypeError
        `limit` is neither.
    """
    _allocator(device).set_memory_limit(limit)


def array_namespace(device: str | None = None) -> Any:
    """A NumPy-compatible module whose arrays live on the device and whose work is captured.

    Raises
    ------
    UnsupportedError
        The backend has none.
    BackendUnavailableError
        The library that brings it is not installed.
    """
    found = resolve(device)
    return found.backend.array_namespace(found.current)


def _allocator(device: str | None) -> memory.CachingAllocator:
    found = resolve(device)
    return found.backend.allocator(found.current)
