"""Snapshots: what memory looks like now, as plain data, and in the layout of PyTorch's memory visualiser.

The visualiser's layout (https://pytorch.org/memory_viz) is a pickled dict ``{"segments", "device_traces",
"allocator_settings"}``; its reader knows a fixed set of pickle opcodes, all of which protocol 4 produces from
dicts, lists, tuples, strings, integers, booleans and None.
"""

from __future__ import annotations

import os
import pickle
import time
from typing import TYPE_CHECKING, Any

from graphcap._files import write_whole
from graphcap.interface import MempoolId
from graphcap.memory.blocks import PENDING, Block, Segment
from graphcap.memory.history import TraceEvent, frames_as_dicts
from graphcap.memory.pool import Pool
from graphcap.memory.store import PoolStore

if TYPE_CHECKING:
    from graphcap.memory.allocator import CachingAllocator

__all__ = ["dump_visualizer_snapshot", "plain", "visualizer"]


def plain(store: PoolStore, pool_id: MempoolId | None) -> dict[str, Any]:
    """Return the snapshot that :meth:`CachingAllocator.snapshot` documents."""
    pools = [pool for pool in store.pools.values() if pool_id is None or pool.id == pool_id]
    events = store.history.events if store.history is not None else ()
    return {
        "device": store.source.label,
        "memory_limit": store.limit,
        "pools": [
            {
                "pool_id": list(pool.id),
                "use_count": pool.use_count,
                "freeable": pool is not store.default and not pool.use_count,
                **pool.tally.as_dict(),
            }
            for pool in pools
        ],
        "segments": [_segment(segment, pool) for pool in pools for segment in _ordered(pool)],
        "history": [
            {
                "action": e.action,
                "address": e.address,
                "size": e.size,
                "stream": e.stream,
                "pool_id": list(e.pool_id),
                "time_us": e.time_us,
                "frames": frames_as_dicts(e.frames),
            }
            for e in events
            if pool_id is None or e.pool_id == pool_id
        ],
    }


def _ordered(pool: Pool) -> list[Segment]:
    return sorted(pool.segments.values(), key=lambda segment: segment.address)


def _segment(segment: Segment, pool: Pool) -> dict[str, Any]:
    blocks = _blocks(segment)
    active = [b for b in blocks if b["state"] != "inactive"]
    handed_out = [b for b in active if b["state"] == "active_allocated"]
    return {
        "address": segment.address,
        "total_size": segment.size,
        "allocated_size": sum(b["size"] for b in handed_out),
        "active_size": sum(b["size"] for b in active),
        "requested_size": sum(b["requested_size"] for b in handed_out),
        "stream": segment.lists.stream,
        "segment_type": "small" if segment.lists.is_small else "large",
        "pool_id": list(pool.id),
        "registration": segment.registration,
        "frames": frames_as_dicts(segment.frames),
        "blocks": blocks,
    }


def _blocks(segment: Segment) -> list[dict[str, Any]]:
    """Return the blocks in address order; free neighbours, merged or not yet, as one."""
    out: list[dict[str, Any]] = []
    for block in segment.blocks():
        if block.is_free and out and out[-1]["state"] == "inactive":
            out[-1]["size"] += block.size
            continue
        out.append(
            {
                "address": block.ptr,
                "size": block.size,
                "requested_size": 0 if block.is_free else block.requested,
                "state": _state(block),
                "frames": frames_as_dicts(block.allocated_at),
            }
        )
    return out


def _state(block: Block) -> str:
    if block.is_free:
        return "inactive"
    return "active_pending_free" if block.state is PENDING else "active_allocated"


def visualizer(store: PoolStore) -> dict[str, Any]:
    """Return the visualiser's dict. Its trace list is indexed by device, so devices of lower index get empty
    ones."""
    suffix = store.source.label.rpartition(":")[2]
    device = int(suffix) if suffix.isdigit() else 0
    segments = []
    for pool in store.pools.values():
        for segment in _ordered(pool):
            row = _segment(segment, pool)
            row["device"] = device
            row["segment_pool_id"] = tuple(row.pop("pool_id"))
            row["is_expandable"] = False
            del row["registration"]
            segments.append(row)
    events = [_trace(e) for e in (store.history.events if store.history is not None else ())]
    if store.history is not None:
        now = time.time_ns() // 1000
        events.append(_trace(TraceEvent("snapshot", 0, 0, 0, store.default.id, now, ())))
    options = store.options
    return {
        "segments": segments,
        "device_traces": [[] for _ in range(device)] + [events],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "",
            "max_split_size": -1 if options.max_split_size is None else options.max_split_size,
            "garbage_collection_threshold": 0,
            "expandable_segments": False,
            "roundup_power2_divisions": {"1": options.roundup_power2_divisions},
        },
    }


def _trace(event: TraceEvent) -> dict[str, Any]:
    return {
        "action": event.action,
        "device_free" if event.action == "oom" else "addr": event.address,
        "size": event.size,
        "stream": event.stream,
        "time_us": event.time_us,
        "segment_pool_id": tuple(event.pool_id),
        "frames": frames_as_dicts(event.frames),
    }


def dump_visualizer_snapshot(allocator: CachingAllocator, path: str | os.PathLike[str]) -> None:
    """Write a snapshot that can be dropped on PyTorch's memory visualiser.

    Without :meth:`CachingAllocator.record_history` it holds the present state alone, and no timeline.

    Raises
    ------
    OSError
        The file cannot be written; an old file of that name stays.
    """
    data = pickle.dumps(allocator.visualizer_snapshot(), protocol=4)
    path = os.fspath(path)
    write_whole(path, data)
