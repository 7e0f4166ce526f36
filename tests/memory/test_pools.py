"""Pool ids, use counts, scopes: S-C1 to S-C11, S-C44 to S-C50, and rules 15 and 16 of the design."""

from __future__ import annotations

import copy
import gc
import pickle
import threading

import pytest

from graphcap.errors import GraphcapWarning, PoolStateError
from graphcap.interface import MempoolId
from graphcap.memory import (
    CachingAllocator,
    MemPool,
    new_graph_pool_id,
    new_user_pool_id,
    use_mem_pool,
    validate_pool_id,
)
from tests.memory.inspect_allocator import check_structure
from tests.memory.strict_source import StrictSource

MIB = 1 << 20


def every_stream(stream: int) -> bool:
    return True


@pytest.fixture
def source() -> StrictSource:
    return StrictSource()


@pytest.fixture
def a(source: StrictSource) -> CachingAllocator:
    return CachingAllocator(source)


def capture(a: CachingAllocator, pool: MempoolId, *sizes: int) -> list[int]:
    """One capture that allocates and frees; the use stays held."""
    a.release_freeable_pools(keep=pool)
    a.begin_allocate_to_pool(pool, every_stream)
    a.capture_began()
    blocks = [a.allocate(size, 1) for size in sizes or (512,)]
    for block in blocks:
        a.free(block)
    a.capture_ended()
    a.end_allocate_to_pool(pool)
    return [block.ptr for block in blocks]


def test_ids_come_from_two_counters() -> None:
    g0, g1, u0, u1 = new_graph_pool_id(), new_graph_pool_id(), new_user_pool_id(), new_user_pool_id()
    assert (g1.first - g0.first, g0.second) == (1, 0)
    assert (u1.second - u0.second, u0.first) == (1, 0)
    assert isinstance(g0, MempoolId)


def test_ids_are_unique_across_threads() -> None:
    made: list[MempoolId] = []
    threads = [threading.Thread(target=lambda: made.extend(new_user_pool_id() for _ in range(200))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 800


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ((1, 1), "one half"),
        ((-1, 0), "negative"),
        ((0, -1), "negative"),
        ((10**9, 0), "never issued"),
        ((0, 10**9), "never issued"),
        ((0, 0), "no private pool"),
    ],
)
def test_ids_that_cannot_be_are_refused(a: CachingAllocator, bad: tuple[int, int], why: str) -> None:
    new_graph_pool_id(), new_user_pool_id()
    with pytest.raises(PoolStateError, match=why):
        validate_pool_id(bad)
    with pytest.raises(PoolStateError, match=why):
        a.begin_allocate_to_pool(MempoolId(*bad), every_stream)
    with pytest.raises(PoolStateError, match=why):
        a.retain_pool(MempoolId(*bad))
    assert a.stats()["pools"].keys() == {(0, 0)}


@pytest.mark.parametrize("bad", [None, 3, "01", (1,), (1, 0, 0), (1.0, 0), (True, 0), [1, 0]])
def test_things_that_are_no_ids_are_refused(bad: object) -> None:
    with pytest.raises(TypeError, match="pair of integers"):
        validate_pool_id(bad)


def test_no_pool_is_accepted_where_it_is_asked_for() -> None:
    assert validate_pool_id((0, 0), allow_none=True) == MempoolId(0, 0)


def test_one_open_capture_per_pool(a: CachingAllocator) -> None:
    pool = new_user_pool_id()
    a.begin_allocate_to_pool(pool, every_stream)
    with pytest.raises(PoolStateError, match="another capture into this pool is open"):
        a.begin_allocate_to_pool(pool, every_stream)
    assert a.pool_use_count(pool) == 1, "a refused begin takes no use"
    a.end_allocate_to_pool(pool)
    a.begin_allocate_to_pool(pool, every_stream)
    assert a.pool_use_count(pool) == 2
    with pytest.raises(PoolStateError, match="no capture allocates to it"):
        a.end_allocate_to_pool(new_user_pool_id())


def test_two_captures_into_two_pools_at_once_keep_apart(a: CachingAllocator) -> None:
    p1, p2 = new_graph_pool_id(), new_graph_pool_id()
    a.begin_allocate_to_pool(p1, lambda stream: stream == 1)
    a.begin_allocate_to_pool(p2, lambda stream: stream == 2)
    assert [a.allocate(512, s).pool_id for s in (1, 2, 3)] == [p1, p2, (0, 0)]


def test_a_captures_own_pool_is_refused_by_name_once_it_is_gone(a: CachingAllocator) -> None:
    pool = new_graph_pool_id()
    capture(a, pool)
    a.release_pool(pool)
    a.release_freeable_pools(keep=pool)  # as the next capture_begin does, which names this very pool
    with pytest.raises(PoolStateError, match=rf"\({pool.first}, 0\).*gone with the last graph"):
        a.begin_allocate_to_pool(pool, every_stream)
    assert a.pool_use_count(pool) == 0


def test_a_captures_own_pool_lives_while_a_block_of_it_does(a: CachingAllocator) -> None:
    pool = new_graph_pool_id()
    a.begin_allocate_to_pool(pool, every_stream)
    block = a.allocate(512, 1)
    a.end_allocate_to_pool(pool)
    a.release_pool(pool)
    a.release_freeable_pools()
    a.begin_allocate_to_pool(pool, every_stream)  # revived
    assert a.allocate(512, 1).ptr == block.ptr + 512


def test_a_user_made_id_stays_good_for_ever(a: CachingAllocator, source: StrictSource) -> None:
    pool = new_user_pool_id()
    (first,) = capture(a, pool)
    a.release_pool(pool)
    assert capture(a, pool) == [first], "revived: a capture that names it keeps its segments"
    a.release_pool(pool)
    a.empty_cache()
    assert source.segments == {}
    capture(a, pool)  # re-created
    assert a.pool_use_count(pool) == 1


def test_release_gives_nothing_back_and_the_next_capture_does(a: CachingAllocator, source: StrictSource) -> None:
    pool = new_graph_pool_id()
    capture(a, pool, 512, 3 * MIB)
    a.release_pool(pool)
    assert len(source.segments) == 2
    other = new_graph_pool_id()
    a.begin_allocate_to_pool(other, every_stream)
    a.capture_began()
    source.open_captures = 1
    assert a.release_freeable_pools() == 0, "never while a capture is open"
    assert a.empty_cache() == 0
    source.open_captures = 0
    a.capture_ended()
    a.end_allocate_to_pool(other)
    assert a.release_freeable_pools() == 22 * MIB
    assert source.segments == {}


def test_empty_cache_of_one_pool_only_if_it_is_freeable(a: CachingAllocator, source: StrictSource) -> None:
    p1, p2 = new_graph_pool_id(), new_graph_pool_id()
    capture(a, p1)
    capture(a, p2)
    assert a.empty_cache(p1) == 0
    a.release_pool(p1)
    a.release_pool(p2)
    assert a.empty_cache(p1) == 2 * MIB
    assert a.stats()["pools"][p2]["reserved_bytes.current"] == 2 * MIB


def test_a_segment_with_a_live_block_stays(a: CachingAllocator, source: StrictSource) -> None:
    kept = a.allocate(512, 0)
    a.free(a.allocate(512, 0))
    a.free(a.allocate(3 * MIB, 0))
    assert a.empty_cache() == 20 * MIB
    assert list(source.segments.values()) == [2 * MIB]
    a.free(kept)
    assert a.empty_cache() == 2 * MIB


def test_a_release_too_many_is_refused(a: CachingAllocator) -> None:
    pool = new_user_pool_id()
    a.retain_pool(pool)
    a.release_pool(pool)
    with pytest.raises(PoolStateError, match="no use of it is held"):
        a.release_pool(pool)


def test_capture_ends_are_counted(a: CachingAllocator) -> None:
    with pytest.raises(PoolStateError, match="no capture is open"):
        a.capture_ended()
    a.capture_began()
    a.capture_began()
    a.capture_ended()
    assert a.open_captures == 1


def test_mem_pool_holds_and_gives_back(a: CachingAllocator, source: StrictSource) -> None:
    pool = MemPool(a)
    pool_id = pool.id
    assert pool_id.first == 0
    with use_mem_pool(pool) as entered:
        assert entered is pool
        a.free(a.allocate(512, 3))
    assert a.empty_cache() == 0, "a held pool keeps its segments (S-C38)"
    del pool, entered
    assert source.segments == {}
    assert a.pool_use_count(pool_id) == 0


def test_a_mem_pool_dropped_in_a_capture_waits(a: CachingAllocator, source: StrictSource) -> None:
    pool = MemPool(a)
    with use_mem_pool(pool):
        a.free(a.allocate(512, 3))
    a.capture_began()
    source.open_captures = 1
    del pool
    assert source.segments
    source.open_captures = 0
    a.capture_ended()
    a.empty_cache()
    assert source.segments == {}


def test_trouble_in_a_mem_pools_finalizer_is_a_warning(a: CachingAllocator, source: StrictSource) -> None:
    pool = MemPool(a)
    with use_mem_pool(pool):
        a.free(a.allocate(512, 3))
    source.errors["free_segment"] = RuntimeError("context is gone")
    with pytest.warns(GraphcapWarning, match="context is gone"):
        del pool
    assert a.empty_cache() == 2 * MIB, "the segment was kept and offered again"


def test_mem_pools_are_neither_copied_nor_pickled(a: CachingAllocator) -> None:
    pool = MemPool(a)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            attempt(pool)


def test_scopes_nest_and_restore(a: CachingAllocator) -> None:
    """test_nested_mempool."""
    p1, p2 = MemPool(a), MemPool(a)
    seen = []
    with use_mem_pool(p1):
        seen.append(a.allocate(512, 0).pool_id)
        with use_mem_pool(p2):
            seen.append(a.allocate(512, 0).pool_id)
            with use_mem_pool(p1):
                seen.append(a.allocate(512, 0).pool_id)
            seen.append(a.allocate(512, 0).pool_id)
        seen.append(a.allocate(512, 0).pool_id)
    seen.append(a.allocate(512, 0).pool_id)
    assert seen == [p1.id, p2.id, p1.id, p2.id, p1.id, (0, 0)]
    assert (p1.use_count(), p2.use_count()) == (1, 1)


def test_a_scope_is_left_when_its_body_raises(a: CachingAllocator) -> None:
    pool = MemPool(a)
    with pytest.raises(ZeroDivisionError), use_mem_pool(pool):
        _ = 1 // 0
    assert pool.use_count() == 1
    assert a.allocate(512, 0).pool_id == (0, 0)


def test_a_scope_does_not_reach_other_threads(a: CachingAllocator) -> None:
    """test_mempool_ctx_multithread; and two threads may use one pool at a time."""
    pool, seen = MemPool(a), []
    ready, done = threading.Barrier(3), threading.Barrier(3)

    def inside() -> None:
        with use_mem_pool(pool):
            ready.wait()
            seen.append(a.allocate(512, 0).pool_id)
            done.wait()

    threads = [threading.Thread(target=inside) for _ in range(2)]
    for thread in threads:
        thread.start()
    ready.wait()
    outside = a.allocate(512, 0).pool_id
    done.wait()
    for thread in threads:
        thread.join()
    assert outside == (0, 0)
    assert seen == [pool.id, pool.id]
    assert pool.use_count() == 1


def test_a_scope_object_serves_one_scope_at_a_time(a: CachingAllocator) -> None:
    scope = use_mem_pool(MemPool(a))
    with scope, pytest.raises(PoolStateError, match="open already"):
        scope.__enter__()
    with scope:
        pass
    with pytest.raises(PoolStateError, match="not open"):
        scope.__exit__(None, None, None)
    with pytest.raises(TypeError, match="a MemPool is needed"):
        use_mem_pool(new_user_pool_id())  # type: ignore[arg-type]  # what a user may do


def test_a_nested_pool_is_held_by_the_graph_even_when_its_object_dies(
    a: CachingAllocator, source: StrictSource
) -> None:
    nested = MemPool(a)
    nested_id = nested.id
    pool = new_graph_pool_id()
    a.begin_allocate_to_pool(pool, lambda stream: stream == 1)
    for _ in range(3):
        with use_mem_pool(nested):
            a.free(a.allocate(512, 1))
    del nested
    gc.collect()
    held = a.end_allocate_to_pool(pool)
    assert held == (nested_id,), "once, however often it was used"
    assert a.pool_use_count(nested_id) == 1
    a.empty_cache()
    assert len(source.segments) == 1, "a replay may still write there"
    for pool_id in (pool, *held):
        a.release_pool(pool_id)
    a.empty_cache()
    assert source.segments == {}


def test_abandoning_a_capture_gives_every_use_back_once(a: CachingAllocator) -> None:
    nested, pool = MemPool(a), new_graph_pool_id()
    a.begin_allocate_to_pool(pool, every_stream)
    with use_mem_pool(nested):
        pass
    a.abandon_capture(pool, began=False)
    assert (nested.use_count(), a.pool_use_count(pool), a.open_captures) == (1, 0, 0)
    with pytest.raises(PoolStateError, match="no capture allocates to it"):
        a.abandon_capture(pool, began=False)


def test_a_filter_that_raises_breaks_nothing(a: CachingAllocator) -> None:
    def broken(stream: int) -> bool:
        raise RuntimeError("who am I?")

    pool = new_graph_pool_id()
    a.begin_allocate_to_pool(pool, broken)
    with pytest.raises(RuntimeError, match="who am I"):
        a.allocate(512, 0)
    a.end_allocate_to_pool(pool)
    a.allocate(512, 0)
    assert a.stats()["blocks.current"] == 1


def test_pools_and_streams_share_no_free_block(a: CachingAllocator) -> None:
    """S-C15, S-C20."""
    a.free(a.allocate(512, 0))
    p = MemPool(a)
    with use_mem_pool(p):
        a.free(a.allocate(512, 0))
        a.free(a.allocate(512, 1))
    a.free(a.allocate(512, 1))
    assert a.stats()["segments.current"] == 4


def test_streams_that_are_gone_leave_nothing_behind(a: CachingAllocator) -> None:
    for stream in range(1, 200):
        a.free(a.allocate(512 * stream, stream))
    a.empty_cache()
    pool = a._store.default
    assert (len(pool.lists), len(pool.parked)) == (0, 0)


def test_requests_of_ever_new_sizes_do_not_grow_the_books(
    a: CachingAllocator, source: StrictSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphcap.memory.pool._MAX_EXACT_SIZES", 10)
    live = [a.allocate(512 * i, 0) for i in range(1, 40)]
    assert len(a._store.default.parked) <= 10
    for block in live:
        a.free(block)
    check_structure(a, source)
    again = [a.allocate(512 * i, 0) for i in range(1, 40)]
    check_structure(a, source)
    for block in again:
        a.free(block)
    a.empty_cache()
    assert source.segments == {}


def test_a_source_that_is_none_is_refused(a: CachingAllocator) -> None:
    with pytest.raises(TypeError, match="SegmentSource"):
        CachingAllocator(object())  # type: ignore[arg-type]  # what a user may do
    with pytest.raises(TypeError, match="SegmentSource"):
        MemPool(a, source=object())  # type: ignore[arg-type]  # what a user may do


def test_a_misaligned_segment_is_named_and_not_lost(source: StrictSource) -> None:
    source._above += 8
    a = CachingAllocator(source)
    with pytest.raises(PoolStateError, match="not a multiple of its alignment"):
        a.allocate(512, 0)
    assert a.empty_cache() == 2 * MIB
