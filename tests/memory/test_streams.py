"""Cross-stream uses: S-C25 to S-C31, and F10."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from graphcap.errors import PoolStateError
from graphcap.memory import Block, CachingAllocator, new_graph_pool_id
from tests.memory.strict_source import StrictSource

MIB = 1 << 20
OWNER, OTHER, CAPTURED = 1, 2, 7


@pytest.fixture
def source() -> StrictSource:
    return StrictSource()


@pytest.fixture
def a(source: StrictSource) -> CachingAllocator:
    return CachingAllocator(source)


@pytest.fixture
def begin(a: CachingAllocator, source: StrictSource) -> Callable[[], Callable[[], None]]:
    """Begin a capture on stream CAPTURED; returns what ends it."""

    def start() -> Callable[[], None]:
        pool = new_graph_pool_id()
        a.begin_allocate_to_pool(pool, lambda stream: stream == CAPTURED)
        a.capture_began()
        source.open_captures += 1

        def end() -> None:
            source.open_captures -= 1
            a.capture_ended()
            a.end_allocate_to_pool(pool)

        return end

    return start


def reused(a: CachingAllocator, block: Block) -> bool:
    """Whether the memory of a freed block is handed out again now."""
    ptr, size, stream = block.ptr, block.size, block.stream
    again = a.allocate(size, stream)
    return again.ptr == ptr


def used_elsewhere(a: CachingAllocator, source: StrictSource, *streams: int) -> Block:
    block = a.allocate(512, OWNER)
    for stream in streams:
        a.record_stream(block, stream)
        source.submit(stream)
    return block


def test_without_other_streams_a_free_is_immediate(a: CachingAllocator, source: StrictSource) -> None:
    block = a.allocate(512, OWNER)
    a.record_stream(block, OWNER)
    a.free(block)
    assert reused(a, block)
    assert source.calls["record_event"] == 0


def test_with_another_stream_a_free_waits_for_its_event(a: CachingAllocator, source: StrictSource) -> None:
    block = used_elsewhere(a, source, OTHER)
    a.free(block)
    stats = a.stats()
    assert (stats["allocated_bytes.current"], stats["active_bytes.current"]) == (0, 512)
    assert not reused(a, block)
    source.finish(OTHER)
    assert reused(a, block)
    assert source.events == []


def test_all_streams_must_be_done(a: CachingAllocator, source: StrictSource) -> None:
    block = used_elsewhere(a, source, 2, 3, 4)
    a.free(block)
    for stream in (2, 4):
        source.finish(stream)
        assert not reused(a, block)
    source.finish(3)
    assert reused(a, block)


def test_in_a_capture_the_free_is_deferred_without_an_event(
    a: CachingAllocator, source: StrictSource, begin: Callable[[], Callable[[], None]]
) -> None:
    """test_graph_record_stream: no event query in a capture; settled by the next allocation after it."""
    end = begin()
    block = a.allocate(512, CAPTURED)
    a.record_stream(block, OTHER)
    source.submit(OTHER)
    a.free(block)
    assert not reused(a, block)
    assert source.calls["record_event"] == source.calls["query_event"] == 0
    end()
    a.allocate(MIB, OWNER)
    assert source.calls["record_event"] == 1
    source.finish(OTHER)
    a.allocate(MIB, OWNER)
    assert a.stats()["active_bytes.current"] == a.stats()["allocated_bytes.current"]


def test_uses_in_the_capture_are_proved_done_by_its_join(
    a: CachingAllocator, source: StrictSource, begin: Callable[[], Callable[[], None]]
) -> None:
    block = a.allocate(512, OWNER)
    end = begin()
    a.record_stream(block, CAPTURED)
    a.free(block)
    assert not reused(a, block)
    end()
    assert reused(a, block)
    assert source.calls["record_event"] == 0


def test_uses_before_the_capture_still_need_their_event(
    a: CachingAllocator, source: StrictSource, begin: Callable[[], Callable[[], None]]
) -> None:
    """test_graph_capture_pre_capture_stream_use, also for a stream used both before and in the capture."""
    block = used_elsewhere(a, source, CAPTURED)
    end = begin()
    a.record_stream(block, CAPTURED)
    a.free(block)
    end()
    assert not reused(a, block)
    source.finish(CAPTURED)
    assert reused(a, block)


def test_eager_use_during_somebody_elses_capture_still_needs_its_event(
    a: CachingAllocator, source: StrictSource, begin: Callable[[], Callable[[], None]]
) -> None:
    """F10: what counts is the stream that uses the block, not that a capture happens to be open."""
    end = begin()
    block = used_elsewhere(a, source, OTHER)
    a.free(block)
    end()
    assert not reused(a, block)
    source.finish(OTHER)
    assert reused(a, block)


def test_events_from_before_the_capture_are_not_looked_at_in_it(
    a: CachingAllocator, source: StrictSource, begin: Callable[[], Callable[[], None]]
) -> None:
    block = used_elsewhere(a, source, OTHER)
    a.free(block)
    source.finish(OTHER)
    end = begin()
    assert not reused(a, block)
    assert source.calls["query_event"] == 0
    end()
    assert reused(a, block)


def test_two_captures_both_have_to_end(
    a: CachingAllocator, source: StrictSource, begin: Callable[[], Callable[[], None]]
) -> None:
    block = a.allocate(512, OWNER)
    end = begin()
    a.record_stream(block, CAPTURED)
    a.capture_began()
    source.open_captures += 1
    a.free(block)
    end()
    assert not reused(a, block)
    source.open_captures -= 1
    a.capture_ended()
    assert reused(a, block)


def test_mempool_block_free_not_deferred(a: CachingAllocator, source: StrictSource) -> None:
    """A private pool without a real capture does not defer (S-C31)."""
    a.begin_allocate_to_pool(new_graph_pool_id(), lambda stream: stream == OWNER)
    block = used_elsewhere(a, source, OTHER)
    a.free(block)
    assert source.calls["record_event"] == 1
    source.finish(OTHER)
    assert reused(a, block)


def test_empty_cache_waits_for_other_streams(a: CachingAllocator, source: StrictSource) -> None:
    """test_graph_empty_cache_after_side_stream_free_during_capture, the end of it."""
    a.free(used_elsewhere(a, source, OTHER, 3))
    assert a.empty_cache() == 2 * MIB
    assert source.calls["synchronize_event"] == 2
    assert source.events == []


def test_an_event_that_cannot_be_recorded_is_tried_again(a: CachingAllocator, source: StrictSource) -> None:
    block = used_elsewhere(a, source, 2, 3)
    source.errors["record_event"] = RuntimeError("no event")
    with pytest.raises(RuntimeError, match="no event"):
        a.free(block)
    assert not reused(a, block)
    for stream in (2, 3):
        source.finish(stream)
    assert reused(a, block)
    assert source.events == []


def test_an_event_query_that_fails_surfaces_and_loses_nothing(a: CachingAllocator, source: StrictSource) -> None:
    block = used_elsewhere(a, source, OTHER)
    a.free(block)
    source.finish(OTHER)
    source.errors["query_event"] = RuntimeError("sticky")
    with pytest.raises(RuntimeError, match="sticky"):
        a.allocate(512, OWNER)
    assert reused(a, block)


def test_record_stream_wants_a_live_block(a: CachingAllocator) -> None:
    block = a.allocate(512, OWNER)
    a.free(block)
    with pytest.raises(PoolStateError, match="freed already"):
        a.record_stream(block, OTHER)
    with pytest.raises(TypeError, match="Block"):
        a.record_stream(block.ptr, OTHER)  # type: ignore[arg-type]  # what a user may do
