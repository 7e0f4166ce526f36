"""Rule 18: frees from anywhere, at any time, on any thread."""

from __future__ import annotations

import gc
import random
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from graphcap.errors import GraphcapWarning, PoolStateError
from graphcap.interface import NO_POOL
from graphcap.memory import Block, CachingAllocator, MemPool, new_graph_pool_id, new_user_pool_id, use_mem_pool
from tests.memory.inspect_allocator import check_figures, check_structure
from tests.memory.strict_source import StrictSource

MIB = 1 << 20


class Owner:
    """Frees its block when it is collected; part of a cycle, so that only the collector can find it."""

    def __init__(self, a: CachingAllocator, block: Block) -> None:
        self.a, self.block, self.me = a, block, self

    def __del__(self) -> None:
        self.a.free(self.block)


@pytest.fixture
def no_automatic_gc() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_collection_inside_allocate_may_free_a_thousand_blocks(no_automatic_gc: None) -> None:
    source = StrictSource()
    a = CachingAllocator(source)
    for i in range(1000):
        Owner(a, a.allocate(512 * (i % 9 + 1), i % 3))
    assert a.stats()["blocks.current"] == 1000
    source.during_allocation = gc.collect  # the source is called in the middle of allocate, with the lock held
    block = a.allocate(30 * MIB, 0)
    assert a._queue, "the collection ran inside"
    assert a.stats()["blocks.current"] == 1
    check_structure(a, source)
    check_figures(a, source)
    a.free(block)
    a.empty_cache()
    assert source.segments == {}


@pytest.mark.parametrize("in_capture", [False, True])
def test_a_finalizer_may_run_at_any_line_of_the_allocator(in_capture: bool) -> None:
    """A trace function frees a block at the n-th line that runs inside ``graphcap.memory``, for every n."""
    n = 0
    finished = False
    while not finished:
        source = StrictSource()
        a = CachingAllocator(source)
        if in_capture:
            pool = new_graph_pool_id()
            a.begin_allocate_to_pool(pool, lambda stream: stream == 1)
            a.capture_began()
            source.open_captures = 1
        doomed = [a.allocate(1024, 1), a.allocate(2048, 1), a.allocate(1024, 1)]
        a.free(doomed.pop())
        used = a.allocate(512, 1)
        a.record_stream(used, 2)
        finished = _run_with_interruption(a, n, doomed, used)
        source.finish(2)
        if in_capture:
            source.open_captures = 0
            a.capture_ended()
            a.end_allocate_to_pool(pool)
            a.release_pool(pool)
        a.settle()
        check_structure(a, source)
        check_figures(a, source)
        assert a.stats()["blocks.current"] == (2 if finished else 0) - (1 if finished and len(doomed) == 1 else 0)
        for block in doomed:
            a.free(block)
        a.empty_cache()
        assert source.segments == {}
        assert source.events == []
        n += 1
    assert n > 60


def _run_with_interruption(a: CachingAllocator, n: int, doomed: list[Block], used: Block) -> bool:
    """Return True when the operations ran through before line `n`."""
    lines = 0

    def on_line(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        if event == "line":
            lines += 1
            if lines == n + 1:
                sys.settrace(None)
                while doomed:
                    a.free(doomed.pop())
        return on_line

    def on_call(frame: FrameType, event: str, arg: Any) -> Any:
        return on_line if "graphcap/memory/" in frame.f_code.co_filename.replace("\\", "/") else None

    sys.settrace(on_call)
    try:
        block = a.allocate(1024, 1)
        a.free(used)
        other = a.allocate(4096, 1)
        a.free(block)
        a.free(other)
    finally:
        sys.settrace(None)
    return bool(doomed)


def test_eight_threads_while_another_captures() -> None:
    source = StrictSource()
    a = CachingAllocator(source)
    errors: list[BaseException] = []
    stop = threading.Event()
    captured: list[Block] = []

    def worker(seed: int) -> None:
        rng = random.Random(seed)
        mine: list[Block] = []
        try:
            while not stop.is_set():
                if mine and rng.random() < 0.5:
                    a.free(mine.pop(rng.randrange(len(mine))))
                else:
                    block = a.allocate(rng.choice([512, 1000, 5000, MIB, 3 * MIB]), seed % 3)
                    assert block.pool_id == NO_POOL
                    mine.append(block)
                if len(mine) > 20:
                    a.record_stream(mine[0], 5)
            for block in mine:
                a.free(block)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=worker, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    ids = []
    for _ in range(30):
        pool = new_graph_pool_id()
        ids.append(pool)
        a.release_freeable_pools()
        a.begin_allocate_to_pool(pool, lambda stream: stream == 9)
        a.capture_began()
        source.open_captures += 1
        for i in range(200):
            block = a.allocate(512 * (i % 5 + 1), 9)
            assert block.pool_id == pool
            captured.append(block)
            if i % 3:
                a.free(captured.pop())
        source.open_captures -= 1
        a.capture_ended()
        a.end_allocate_to_pool(pool)
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    a.settle()
    check_structure(a, source)
    check_figures(a, source)
    for pool_id, figures in a.stats()["pools"].items():
        mine = sum(block.size for block in captured if block.pool_id == pool_id)
        assert figures["allocated_bytes.current"] == mine, "a byte in the wrong pool"
    for block in captured:
        a.free(block)
    for pool in ids:
        a.release_pool(pool)
    a.empty_cache()
    assert source.segments == {}


def test_a_free_or_release_on_another_thread_never_waits() -> None:
    """The lock is held by a slow source; both return at once and are settled later."""
    source = StrictSource()
    a = CachingAllocator(source)
    pool = new_user_pool_id()
    a.retain_pool(pool)
    block = a.allocate(512, 0)
    freed = threading.Event()

    def slow() -> None:
        def free_it() -> None:
            a.free(block)
            a.release_pool(pool)
            freed.set()

        thread = threading.Thread(target=free_it)
        thread.start()
        assert freed.wait(10), "the free waited for the lock"
        thread.join()

    source.during_allocation = slow
    a.allocate(30 * MIB, 0)
    assert a.stats()["blocks.current"] == 1
    assert a.pool_use_count(pool) == 0
    check_structure(a, source)


def test_a_release_and_a_capture_end_may_come_from_a_finalizer_too() -> None:
    source = StrictSource()
    a = CachingAllocator(source)
    pool = new_graph_pool_id()
    a.begin_allocate_to_pool(pool, lambda stream: stream == 9)
    a.capture_began()
    mem_pool = [MemPool(a)]
    with use_mem_pool(mem_pool[0]):
        pass

    def graph_and_pool_are_collected() -> None:
        a.abandon_capture(pool, began=True)
        mem_pool.clear()

    source.during_allocation = graph_and_pool_are_collected
    a.allocate(512, 0)
    a.settle()
    assert a.open_captures == 0
    assert set(a._store.pools) == {NO_POOL}


def test_a_wrong_free_that_was_queued_becomes_a_warning_of_the_next_operation() -> None:
    source = StrictSource()
    a = CachingAllocator(source)
    block = a.allocate(512, 0)

    def twice() -> None:
        a.free(block)
        a.free(block)

    source.during_allocation = twice
    a.allocate(30 * MIB, 0)
    with pytest.warns(GraphcapWarning, match="freed already"):
        a.allocate(512, 0)
    assert a.stats()["blocks.current"] == 2


def test_a_warning_that_is_an_error_loses_no_block() -> None:
    source = StrictSource()
    a = CachingAllocator(source)
    block = a.allocate(512, 0)

    def twice() -> None:
        a.free(block)
        a.free(block)

    source.during_allocation = twice
    a.allocate(30 * MIB, 0)
    with pytest.raises(GraphcapWarning):  # the suite makes warnings errors
        a.allocate(512, 0)
    assert a.stats()["blocks.current"] == 1, "the failed allocate handed nothing out"


def test_other_operations_refuse_to_run_inside_an_operation() -> None:
    source = StrictSource()
    a = CachingAllocator(source)
    refused = []

    def try_all() -> None:
        for action in (lambda: a.allocate(512, 0), a.stats, a.empty_cache, a.snapshot):
            with pytest.raises(PoolStateError, match="inside an operation") as caught:
                action()
            refused.append(str(caught.value))

    source.during_allocation = try_all
    a.allocate(512, 0)
    assert len(refused) == 4
    a.allocate(512, 0)
    check_structure(a, source)
