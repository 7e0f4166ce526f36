"""Blocks that graphs use without owning them: looked up, held, watched."""

from __future__ import annotations

import pytest

from graphcap.errors import PoolStateError
from graphcap.memory import CachingAllocator, new_user_pool_id
from tests.memory.strict_source import StrictSource


@pytest.fixture
def allocator() -> CachingAllocator:
    return CachingAllocator(StrictSource())


def _in_use(allocator: CachingAllocator) -> int:
    return int(allocator.stats()["allocated_bytes.current"])


def test_a_held_block_outlives_its_free(allocator: CachingAllocator) -> None:
    """Rule 12: its memory is handed out again only when the last hold is gone."""
    block = allocator.allocate(1000)
    address = block.ptr
    first = allocator.find([address + 8], hold_outside=())
    second = allocator.find([address], hold_outside=())
    allocator.free(block)
    assert _in_use(allocator) == 1024
    others = [allocator.allocate(1000) for _ in range(4)]
    assert address not in [other.ptr for other in others]
    del first
    assert _in_use(allocator) == 5 * 1024
    del second
    assert _in_use(allocator) == 4 * 1024
    assert allocator.allocate(1000).ptr == address


def test_a_hold_that_goes_first_changes_nothing(allocator: CachingAllocator) -> None:
    block = allocator.allocate(1000)
    found = allocator.find([block.ptr], hold_outside=())
    del found
    allocator.free(block)
    assert _in_use(allocator) == 0
    with pytest.raises(PoolStateError, match="freed already"):
        allocator.free(block)


def test_a_held_block_cannot_be_freed_twice(allocator: CachingAllocator) -> None:
    block = allocator.allocate(1000)
    found = allocator.find([block.ptr], hold_outside=())
    allocator.free(block)
    with pytest.raises(PoolStateError, match="freed already"):
        allocator.free(block)
    del found
    assert _in_use(allocator) == 0


def test_only_what_is_outside_is_held(allocator: CachingAllocator) -> None:
    """The capture's own pool lives as long as the graph anyway, and free memory is nobody's."""
    pool = new_user_pool_id()
    allocator.begin_allocate_to_pool(pool, lambda stream: True)
    inside = allocator.allocate(1000)
    allocator.end_allocate_to_pool(pool)
    gone = allocator.allocate(1000)
    address = gone.ptr
    allocator.free(gone)
    found = allocator.find([inside.ptr, address, 7], hold_outside=[pool])
    assert set(found) == {inside.ptr, address}
    assert (found[inside.ptr].in_use, found[inside.ptr].hold, found[inside.ptr].pool_id) == (True, None, pool)
    assert (found[address].in_use, found[address].hold) == (False, None)
    allocator.free(inside)
    allocator.release_pool(pool)


def test_a_watch_tells_who_freed(allocator: CachingAllocator) -> None:
    kept, freed = allocator.allocate(1000), allocator.allocate(1000)
    (_, watch_kept), (_, watch_freed) = allocator.watch([kept, freed])
    allocator.free(freed)
    assert watch_kept.alive
    assert not watch_freed.alive
    assert "test_claims.py" in watch_freed.freed
    again = allocator.allocate(1000)
    assert again.ptr == freed.ptr
    assert not watch_freed.alive, "another array in the same place is another array"


def test_a_pool_with_a_held_block_has_no_checkpoint(allocator: CachingAllocator) -> None:
    pool = new_user_pool_id()
    allocator.begin_allocate_to_pool(pool, lambda stream: True)
    block = allocator.allocate(1000)
    allocator.end_allocate_to_pool(pool)
    found = allocator.find([block.ptr], hold_outside=())
    with pytest.raises(PoolStateError, match="another pool use a block"):
        allocator.checkpoint(pool)
    del found
    allocator.checkpoint(pool)
    allocator.free(block)
    allocator.release_pool(pool)


def test_debug_mode_does_not_look_at_a_block_that_outlived_its_user() -> None:
    """The stream that it was made for may be gone by then, and with it the way to look."""
    source = StrictSource()
    allocator = CachingAllocator(source, debug=True)
    block = allocator.allocate(1000)
    found = allocator.find([block.ptr], hold_outside=())
    allocator.free(block)
    with pytest.raises(PoolStateError, match="test_claims"):
        allocator.free(block)
    del found
    assert _in_use(allocator) == 0
    with pytest.raises(PoolStateError, match="freed already"):
        allocator.free(block)
