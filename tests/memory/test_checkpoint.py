"""Checkpoints of a pool's layout: S-C41 to S-C43, and the upstream TestBlockStateAbsorption."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphcap.errors import PoolStateError
from graphcap.interface import MempoolId
from graphcap.memory import Block, CachingAllocator, MemPool, new_graph_pool_id, new_user_pool_id, use_mem_pool
from tests.memory.inspect_allocator import check_figures, check_structure
from tests.memory.strict_source import StrictSource

MIB = 1 << 20


class Pool:
    """A pool that all allocations go to."""

    def __init__(self) -> None:
        self.source = StrictSource()
        self.a = CachingAllocator(self.source)
        self.mem_pool = MemPool(self.a)
        self.id = self.mem_pool.id
        use_mem_pool(self.mem_pool).__enter__()

    def __call__(self, *sizes: int) -> list[Block]:
        return [self.a.allocate(size, 1) for size in sizes]

    def layout(self) -> list[tuple[int, list[tuple[int, int, str]]]]:
        """What upstream compares: every segment's blocks by address, size and state."""
        return [
            (s["address"], [(b["address"], b["size"], b["state"]) for b in s["blocks"]])
            for s in self.a.snapshot(self.id)["segments"]
        ]

    def check(self) -> None:
        check_structure(self.a, self.source)
        check_figures(self.a, self.source)


@pytest.fixture
def pool() -> Pool:
    return Pool()


@pytest.mark.parametrize(
    ("sizes", "free"),
    [
        ([512], []),
        ([512, 1024, 512], [0]),
        ([512, 1024, 512], [1]),
        ([MIB, 3 * MIB, 512, 12 * MIB], [1, 2]),
        ([512] * 6, [0, 2, 4]),
        ([3 * MIB] * 6, [1, 2, 5]),
        ([512], [0]),
    ],
)
def test_get_and_set_leave_everything_identical(pool: Pool, sizes: list[int], free: list[int]) -> None:
    """test_simple, test_allocated_in_middle_of_segment, test_multiple_middle_allocations, _contiguous."""
    blocks = pool(*sizes)
    for i in free:
        pool.a.free(blocks[i])
    before = pool.layout()
    saved = pool.a.checkpoint(pool.id)
    result = pool.a.restore(saved)
    assert pool.layout() == before
    assert result.recreated == frozenset()
    assert result.freed == saved.live_pointers() == result.live.keys()
    pool.check()
    for i, block in enumerate(blocks):
        if i not in free:
            pool.a.free(block)
    pool.check()
    assert pool.a.stats()["blocks.current"] == 0


def test_additional_free_following_checkpoint(pool: Pool) -> None:
    """Blocks allocated after the checkpoint are taken back; their segments stay, free."""
    (kept,) = pool(512)
    saved = pool.a.checkpoint(pool.id)
    later = pool(512, MIB, 12 * MIB)
    result = pool.a.restore(saved)
    assert result.freed == {kept.ptr, *(b.ptr for b in later)}
    assert set(result.taken) == set(later)
    assert result.live == {kept.ptr: kept}
    assert [s["total_size"] for s in pool.a.snapshot(pool.id)["segments"]] == [2 * MIB, 12 * MIB], "never shrinks"
    pool.check()
    for block in later:
        pool.a.free(block)  # their owners need not know
    assert pool.a.stats()["blocks.current"] == 1
    assert pool(512)[0].ptr == later[0].ptr


def test_tensor_dies_after_checkpoint(pool: Pool) -> None:
    """The restore makes the blocks again; they are freed one by one."""
    blocks = pool(1000, 3 * MIB)
    saved = pool.a.checkpoint(pool.id)
    addresses = [b.ptr for b in blocks]
    for block in blocks:
        pool.a.free(block)
    result = pool.a.restore(saved)
    assert result.recreated == set(addresses)
    assert result.freed == frozenset()
    assert [result.live[p].requested for p in addresses] == [1000, 3 * MIB]
    pool.check()
    for n, address in enumerate(addresses):
        assert pool.a.stats()["blocks.current"] == 2 - n
        pool.a.free(result.live[address])
    assert pool.a.stats()["blocks.current"] == 0
    pool.check()


def test_a_pointer_may_be_freed_and_live(pool: Pool) -> None:
    (old,) = pool(1024)
    saved = pool.a.checkpoint(pool.id)
    ptr = old.ptr
    pool.a.free(old)
    (new,) = pool(512)
    assert new.ptr == ptr
    result = pool.a.restore(saved)
    assert ptr in result.freed
    assert result.live[ptr].size == 1024
    assert result.live[ptr] is not new
    pool.check()


def test_stream_uses_come_back(pool: Pool) -> None:
    (block,) = pool(512)
    pool.a.record_stream(block, 2)
    pool.source.submit(2)
    saved = pool.a.checkpoint(pool.id)
    pool.source.finish(2)
    pool.a.free(block)
    pool.a.allocate(512, 5)
    result = pool.a.restore(saved)
    (again,) = (b for b in result.live.values() if b.size == 512 and b.stream == 1)
    pool.source.submit(2)
    pool.a.free(again)
    assert pool.a.stats()["active_bytes.current"] == 512, "waits for stream 2"


def test_check_pool_live_allocations(pool: Pool) -> None:
    x, y = pool(512, 512)
    check = pool.a.check_live
    assert check(pool.id, [x.ptr, y.ptr])
    assert not check(pool.id, [x.ptr])
    assert not check(pool.id, [x.ptr, y.ptr, y.ptr + 512])
    pool.a.free(x)
    assert check(pool.id, {y.ptr})


def test_what_cannot_be_saved_is_refused(pool: Pool) -> None:
    gone = new_user_pool_id()
    with pytest.raises(PoolStateError, match="no such pool"):
        pool.a.checkpoint(gone)
    own = new_graph_pool_id()
    pool.a.begin_allocate_to_pool(own, lambda stream: stream == 9)
    pool.a.allocate(512, 9)
    pool.a.end_allocate_to_pool(own)
    saved = pool.a.checkpoint(own)
    pool.a.release_pool(own)
    for attempt in (lambda: pool.a.checkpoint(own), lambda: pool.a.restore(saved), lambda: pool.a.check_live(own, [])):
        with pytest.raises(PoolStateError, match="last user is gone"):
            attempt()


def test_a_block_that_waits_is_an_error_until_its_stream_is_done(pool: Pool) -> None:
    (block,) = pool(512)
    pool.a.record_stream(block, 2)
    pool.source.submit(2)
    pool.a.free(block)
    with pytest.raises(PoolStateError, match="still waits for the work of another stream"):
        pool.a.checkpoint(pool.id)
    pool.source.finish(2)
    pool.a.checkpoint(pool.id)


def test_a_checkpoint_of_another_allocator_is_refused(pool: Pool) -> None:
    shared = new_user_pool_id()
    other = CachingAllocator(StrictSource())
    pool.a.retain_pool(shared)
    other.retain_pool(shared)
    with pytest.raises(PoolStateError, match="another allocator"):
        other.restore(pool.a.checkpoint(shared))


def test_a_saved_segment_that_went_back_is_named_and_nothing_changes() -> None:
    source = StrictSource()
    a = CachingAllocator(source)
    shared: MempoolId = new_user_pool_id()
    a.begin_allocate_to_pool(shared, lambda stream: stream == 1)
    block = a.allocate(512, 1)
    saved = a.checkpoint(shared)
    a.free(block)
    a.end_allocate_to_pool(shared)
    a.release_pool(shared)
    a.empty_cache()
    a.begin_allocate_to_pool(shared, lambda stream: stream == 1)
    kept = a.allocate(512, 1)
    with pytest.raises(PoolStateError, match="has gone back to the source"):
        a.restore(saved)
    assert a.check_live(shared, [kept.ptr])
    check_structure(a, source)


SIZES = st.lists(st.sampled_from([1, 600, 5000, MIB, 2 * MIB, 11 * MIB]), max_size=8)
FREES = st.lists(st.integers(min_value=0, max_value=7), max_size=8)


@given(first=SIZES, freed_first=FREES, later=SIZES, freed_later=FREES)
def test_restore_brings_back_the_saved_layout_whatever_happened(
    first: list[int], freed_first: list[int], later: list[int], freed_later: list[int]
) -> None:
    pool = Pool()
    blocks = pool(*first)
    for i in freed_first:
        if blocks:
            pool.a.free(blocks.pop(i % len(blocks)))
    before = pool.layout()
    saved = pool.a.checkpoint(pool.id)
    live_then = {(b.ptr, b.size) for b in blocks}
    blocks += pool(*later)
    for i in freed_later:
        if blocks:
            pool.a.free(blocks.pop(i % len(blocks)))
    live_now = {b.ptr for b in blocks}
    result = pool.a.restore(saved)
    pool.check()
    after = dict(pool.layout())
    assert {address: after[address] for address, _ in before} == dict(before)
    for address, layout in after.items():
        if address not in dict(before):
            assert [state for _, _, state in layout] == ["inactive"]
    assert result.freed == live_now
    assert {(b.ptr, b.size) for b in result.live.values()} == live_then
    assert pool.a.check_live(pool.id, {ptr for ptr, _ in live_then})
    for block in blocks:
        if result.live.get(block.ptr) is not block:
            pool.a.free(block)
    for block in result.live.values():
        pool.a.free(block)
    assert pool.a.stats()["blocks.current"] == 0
    pool.check()
