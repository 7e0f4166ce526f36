"""Running out of memory: what is tried, what is never tried, what the error says (S-C19 to S-C24, rule 17)."""

from __future__ import annotations

import gc
import weakref

import pytest

from graphcap.errors import OutOfMemoryError, PoolStateError
from graphcap.memory import CachingAllocator, MemPool, new_graph_pool_id, new_user_pool_id, use_mem_pool
from tests.memory.strict_source import StrictSource

MIB = 1 << 20


def test_cached_memory_is_released_and_the_request_retried() -> None:
    source = StrictSource(capacity=40 * MIB)
    a = CachingAllocator(source)
    a.free(a.allocate(30 * MIB, 0))
    assert a.allocate(36 * MIB, 1).size == 36 * MIB
    assert a.stats()["num_alloc_retries"] == 1
    assert a.stats()["num_ooms"] == 0


def test_memory_that_waits_for_another_stream_is_waited_for() -> None:
    source = StrictSource(capacity=40 * MIB)
    a = CachingAllocator(source)
    block = a.allocate(30 * MIB, 0)
    a.record_stream(block, 1)
    source.submit(1)
    a.free(block)
    assert a.allocate(30 * MIB, 0).ptr == block.ptr
    assert source.calls["free_segment"] == 0


def test_freeable_pools_are_released_when_memory_runs_short() -> None:
    a = CachingAllocator(StrictSource(capacity=40 * MIB))
    pool = new_graph_pool_id()
    a.begin_allocate_to_pool(pool, lambda stream: True)
    a.free(a.allocate(30 * MIB, 0))
    a.end_allocate_to_pool(pool)
    with pytest.raises(OutOfMemoryError):
        a.allocate(30 * MIB, 0)  # a graph may still replay: its memory is not touched
    a.release_pool(pool)
    a.allocate(30 * MIB, 0)


def test_in_a_capture_nothing_is_released_and_the_error_says_so() -> None:
    """test_graph_capture_oom, without S-C23's fault: the strict source would refuse a free."""
    source = StrictSource(capacity=40 * MIB)
    a = CachingAllocator(source)
    a.free(a.allocate(30 * MIB, 0))
    pool = new_graph_pool_id()
    a.begin_allocate_to_pool(pool, lambda stream: True)
    a.capture_began()
    source.open_captures = 1
    with pytest.raises(OutOfMemoryError, match=r"(?s)A capture is open.*empty_cache\(\) before capturing"):
        a.allocate(30 * MIB, 0)
    assert source.calls["free_segment"] == 0
    source.open_captures = 0
    a.capture_ended()
    a.end_allocate_to_pool(pool)
    a.release_pool(pool)
    a.allocate(40 * MIB, 0)


def test_the_error_has_figures_and_a_line_for_each_pool() -> None:
    source = StrictSource(capacity=64 * MIB)
    a = CachingAllocator(source)
    a.set_memory_limit(60 * MIB)
    user = new_user_pool_id()
    a.begin_allocate_to_pool(user, lambda stream: stream == 5)
    a.allocate(3 * MIB, 5)
    a.end_allocate_to_pool(user)
    live = a.allocate(1000, 0)
    a.record_stream(live, 1)
    with pytest.raises(OutOfMemoryError) as caught:
        a.allocate(50 * MIB, 0)
    error = caught.value
    assert isinstance(error, MemoryError)
    assert (error.requested, error.reserved, error.allocated, error.limit) == (
        50 * MIB,
        22 * MIB,
        3 * MIB + 1024,
        60 * MIB,
    )
    text = str(error)
    assert f"allocate {50 * MIB} bytes (50.00 MiB) from the default pool on fake:0" in text
    assert "reserved 22.00 MiB" in text
    assert "limit 60.00 MiB" in text
    assert "default pool: reserved 2.00 MiB, allocated 1.00 KiB, cached 2.00 MiB, segments 1" in text
    assert f"pool (0, {user.second}): reserved 20.00 MiB, allocated 3.00 MiB" in text
    assert "uses 1" in text
    assert "set_memory_limit" in text


def test_the_sources_own_words_are_the_cause() -> None:
    a = CachingAllocator(StrictSource(capacity=MIB))
    with pytest.raises(OutOfMemoryError) as caught:
        a.allocate(512, 0)
    assert "do not fit" in str(caught.value.__cause__)
    assert a.stats()["num_ooms"] == 1


def test_a_caught_error_keeps_no_callers_variable_alive() -> None:
    a = CachingAllocator(StrictSource(capacity=MIB))

    class Thing:
        pass

    def attempt() -> weakref.ref[Thing]:
        thing = Thing()
        with pytest.raises(OutOfMemoryError):
            a.allocate(512, 0)
        return weakref.ref(thing)

    ref = attempt()
    gc.collect()
    assert ref() is None


def test_other_errors_of_the_source_pass_through() -> None:
    source = StrictSource()
    a = CachingAllocator(source)
    source.errors["allocate_segment"] = RuntimeError("device lost")
    with pytest.raises(RuntimeError, match="device lost"):
        a.allocate(512, 0)
    assert a.stats()["num_ooms"] == 0


def test_the_limit_counts_reserved_bytes() -> None:
    source = StrictSource(capacity=100 * MIB)
    a = CachingAllocator(source)
    a.set_memory_limit(4 * MIB)
    assert a.memory_limit == 4 * MIB
    a.allocate(MIB, 0)
    a.allocate(MIB, 1)
    with pytest.raises(OutOfMemoryError, match="the limit does not allow"):
        a.allocate(MIB, 2)
    a.allocate(MIB, 0)  # the second half of the first segment: nothing new is reserved
    a.set_memory_limit(0.5)
    assert a.memory_limit == 50 * MIB
    a.set_memory_limit(None)
    a.allocate(60 * MIB, 0)


@pytest.mark.parametrize(
    ("bad", "error"), [(-1, ValueError), (0.0, ValueError), (1.5, ValueError), ("1G", TypeError), (True, TypeError)]
)
def test_limits_that_make_no_sense_are_refused(bad: object, error: type[Exception]) -> None:
    a = CachingAllocator(StrictSource(capacity=MIB))
    with pytest.raises(error, match="memory limit"):
        a.set_memory_limit(bad)  # type: ignore[arg-type]  # what a user may do
    assert a.memory_limit is None


def test_a_fraction_needs_a_source_that_knows() -> None:
    with pytest.raises(PoolStateError, match="cannot tell how much memory"):
        CachingAllocator(StrictSource()).set_memory_limit(0.5)


def test_mempool_limited_memory() -> None:
    """test_mempool_limited_memory_with_allocator: only a use_on_oom pool helps the default pool out, at the same address."""
    a = CachingAllocator(StrictSource(capacity=80 * MIB))
    do_not_use, use = MemPool(a), MemPool(a, use_on_oom=True)
    with use_mem_pool(do_not_use):
        x = a.allocate(40 * MIB, 0)
    with use_mem_pool(use):
        y = a.allocate(40 * MIB, 0)
    with pytest.raises(OutOfMemoryError):
        a.allocate(40 * MIB, 0)
    a.free(x)
    a.free(y)
    c = a.allocate(30 * MIB, 0)
    assert (c.ptr, c.pool_id) == (y.ptr, use.id)
    with pytest.raises(OutOfMemoryError):
        a.allocate(30 * MIB, 0)
    with pytest.raises(OutOfMemoryError):
        a.allocate(8 * MIB, 1)  # another stream
    a.free(c)


def test_deleted_mempool_not_used_on_oom() -> None:
    a = CachingAllocator(StrictSource(capacity=60 * MIB))
    pool = MemPool(a, use_on_oom=True)
    with use_mem_pool(pool):
        held = a.allocate(20 * MIB, 0)
        a.free(a.allocate(40 * MIB, 0))
    a.retain_pool(pool.id)
    del pool
    with pytest.raises(OutOfMemoryError):
        a.allocate(40 * MIB, 0)
    a.free(held)


def test_a_pool_that_a_capture_filled_never_helps_out() -> None:
    """Its free blocks are written by every replay."""
    a = CachingAllocator(StrictSource(capacity=40 * MIB))
    pool = MemPool(a, use_on_oom=True)
    a.begin_allocate_to_pool(pool.id, lambda stream: True)
    a.free(a.allocate(40 * MIB, 0))
    a.end_allocate_to_pool(pool.id)
    with pytest.raises(OutOfMemoryError):
        a.allocate(40 * MIB, 0)


def test_mempool_oom_recovery_releases_the_default_pools_cache() -> None:
    """S-C38: a scope without a capture does not forbid it."""
    a = CachingAllocator(StrictSource(capacity=40 * MIB))
    a.free(a.allocate(40 * MIB, 0))
    pool = MemPool(a)
    with use_mem_pool(pool):
        assert a.allocate(40 * MIB, 0).pool_id == pool.id


def test_a_failing_free_is_reported_after_the_rest_was_given_back() -> None:
    source = StrictSource()
    a = CachingAllocator(source)
    for block in [a.allocate(3 * MIB, stream) for stream in range(3)]:
        a.free(block)
    source.errors["free_segment"] = RuntimeError("busy")
    with pytest.raises(RuntimeError, match="busy") as caught:
        a.empty_cache()
    assert "offered again" in "".join(getattr(caught.value, "__notes__", []))
    assert len(source.segments) == 1
    assert a.empty_cache() == 20 * MIB
