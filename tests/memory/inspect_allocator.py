"""Reads an allocator's inside and checks what must always hold, whatever was done to it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from graphcap.memory import CachingAllocator
from graphcap.memory.blocks import FREE, PARKED, PENDING
from tests.memory.strict_source import StrictSource

QUANTUM = 512


def check_structure(a: CachingAllocator, source: StrictSource) -> None:
    """Chains, lists and counters agree with each other and with the source. Changes nothing."""
    assert not source.violations
    store = a._store
    out: dict[int, int] = {}
    for pool in store.pools.values():
        parked = {id(block) for lists in pool.lists.values() for home in lists.parked for _, block in home}
        assert all(home.listed for home in pool.parked.values() if home)
        sorted_blocks = {id(item[2]) for lists in pool.lists.values() for item in lists.tree}
        seen_parked, seen_sorted = set(), set()
        for address, segment in pool.segments.items():
            assert address == segment.address
            out[address] = segment.size
            assert segment.lists.pool is pool
            chain = segment.blocks()
            assert chain[0].ptr == address
            assert sum(block.size for block in chain) == segment.size
            before = None
            for block in chain:
                assert block.prev is before
                assert block.ptr % QUANTUM == 0
                assert block.size > 0
                assert block.size % QUANTUM == 0
                assert before is None or before.ptr + before.size == block.ptr
                assert not (before is not None and before.state is FREE and block.state is FREE), "unmerged neighbours"
                assert block.state in (FREE, PARKED, PENDING, a._live)
                if block.state is PARKED:
                    seen_parked.add(id(block))
                    assert block.home is not None
                    assert block.home.listed
                    assert block.home in segment.lists.parked
                if block.state is FREE:
                    seen_sorted.add(id(block))
                    assert (block.size, block.rank(), block) in segment.lists.tree
                before = block
        assert seen_parked == parked
        assert seen_sorted == sorted_blocks
    assert out == source.segments


def check_figures(a: CachingAllocator, source: StrictSource) -> None:
    """Snapshot, statistics and the source tell the same story; free neighbours appear merged."""
    stats = a.stats()
    snapshot = a.snapshot()
    segments = snapshot["segments"]
    blocks = [(s, b) for s in segments for b in s["blocks"]]
    allocated = [(s, b) for s, b in blocks if b["state"] == "active_allocated"]
    assert stats["reserved_bytes.current"] == source.reserved == sum(s["total_size"] for s in segments)
    assert stats["segments.current"] == len(segments)
    assert stats["blocks.current"] == len(allocated)
    assert stats["allocated_bytes.current"] == sum(b["size"] for _, b in allocated)
    assert stats["requested_bytes.current"] == sum(b["requested_size"] for _, b in allocated)
    assert stats["active_bytes.current"] == sum(b["size"] for _, b in blocks if b["state"] != "inactive")
    for segment in segments:
        states = [b["state"] for b in segment["blocks"]]
        assert ("inactive", "inactive") not in list(pairwise(states))
    for key, value in stats.items():
        if key.endswith((".current", ".allocated", ".freed")):
            assert value == sum(pool[key] for pool in stats["pools"].values()), key
        if key.endswith(".peak"):
            what = key.removesuffix(".peak")
            assert value >= stats[f"{what}.current"]
            assert value <= sum(pool[key] for pool in stats["pools"].values())
            assert stats[f"{what}.allocated"] - stats[f"{what}.freed"] == stats[f"{what}.current"]


def figures(a: CachingAllocator) -> tuple[int, int, int, int]:
    """Segments, reserved bytes, blocks and active bytes: what the upstream tests look at."""
    stats: dict[str, Any] = a.stats()
    return (
        stats["segments.current"],
        stats["reserved_bytes.current"],
        stats["blocks.current"],
        stats["active_bytes.current"],
    )
