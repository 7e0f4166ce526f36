"""``trim_pool``: which segments of a live pool go back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphcap.errors import PoolStateError
from graphcap.memory import CachingAllocator, new_graph_pool_id
from tests.memory.strict_source import StrictSource

MIB = 1 << 20


@given(
    sizes=st.lists(st.sampled_from([512, 3 * MIB, 12 * MIB, 25 * MIB]), min_size=1, max_size=8),
    kept=st.sets(st.integers(0, 7)),
    used=st.sets(st.integers(0, 7)),
)
def test_only_untouched_free_segments_go_back(sizes: list[int], kept: set[int], used: set[int]) -> None:
    """A segment stays if a block is alive in it or a used range lies in it; every other one goes back."""
    source = StrictSource()
    allocator = CachingAllocator(source)
    pool = new_graph_pool_id()
    allocator.begin_allocate_to_pool(pool, lambda stream: True)
    blocks = [allocator.allocate(size, 1) for size in sizes]
    allocator.end_allocate_to_pool(pool)
    segments = [(s["address"], s["total_size"]) for s in allocator.snapshot(pool)["segments"]]
    ranges = [(block.ptr, block.ptr + block.requested) for index, block in enumerate(blocks) if index in used]
    needed = [(block.ptr, block.ptr + 1) for index, block in enumerate(blocks) if index in kept] + ranges
    for index, block in enumerate(blocks):
        if index not in kept:
            allocator.free(block)
    returned = allocator.trim_pool(pool, ranges)
    wanted = {
        (address, size)
        for address, size in segments
        if any(low < address + size and address < high for low, high in needed)
    }
    left = {(s["address"], s["total_size"]) for s in allocator.snapshot(pool)["segments"]}
    assert left == wanted
    assert returned == sum(size for _, size in segments) - sum(size for _, size in wanted)


def test_shared_capturing_and_unknown_pools() -> None:
    """Nothing happens while anybody else uses the pool or a capture is open; an unknown pool is refused."""
    allocator = CachingAllocator(StrictSource())
    pool = new_graph_pool_id()
    allocator.begin_allocate_to_pool(pool, lambda stream: True)
    allocator.capture_began()
    allocator.free(allocator.allocate(512, 1))
    assert allocator.trim_pool(pool, []) == 0
    allocator.capture_ended()
    allocator.end_allocate_to_pool(pool)
    allocator.retain_pool(pool)
    assert allocator.trim_pool(pool, []) == 0
    allocator.release_pool(pool)
    assert allocator.trim_pool(pool, []) == 2 * MIB
    with pytest.raises(PoolStateError, match="Retain it first"):
        allocator.trim_pool(new_graph_pool_id(), [])
