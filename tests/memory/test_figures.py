"""The exact byte figures of the upstream tests that section E of the semantics names, on the pool manager alone.

A "tensor op" here is one allocation of the result; the operands are freed when the variable is rebound, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from graphcap.interface import MempoolId
from graphcap.memory import Block, CachingAllocator, MemPool, new_graph_pool_id, new_user_pool_id, use_mem_pool
from tests.memory.inspect_allocator import figures
from tests.memory.strict_source import StrictSource

SMALL_LIMIT, SMALL_SEGMENT, LARGE_SEGMENT, ROUNDED_FROM, MULTIPLE = 1 << 20, 2 << 20, 20 << 20, 10 << 20, 2 << 20
ABOVE = MULTIPLE * ((ROUNDED_FROM + 512 + MULTIPLE - 1) // MULTIPLE)
CAPTURE_STREAM = 7


class FakeGraph:
    """Does to the allocator what a backend's graph does."""

    def __init__(self, a: CachingAllocator) -> None:
        self.a = a
        self.held: tuple[MempoolId, ...] = ()

    @contextmanager
    def capture(self, pool: MempoolId | None = None, source: StrictSource | None = None) -> Iterator[None]:
        pool = pool or new_graph_pool_id()
        self.a.release_freeable_pools(keep=pool)
        self.a.begin_allocate_to_pool(pool, lambda stream: stream == CAPTURE_STREAM)
        self.a.capture_began()
        if source is not None:
            source.open_captures += 1
        try:
            yield
        finally:
            if source is not None:
                source.open_captures -= 1
            self.a.capture_ended()
            self.held = (pool, *self.a.end_allocate_to_pool(pool))

    @property
    def pool(self) -> MempoolId:
        return self.held[0]

    def reset(self) -> None:
        for pool in self.held:
            self.a.release_pool(pool)
        self.held = ()


@pytest.mark.parametrize(
    ("size", "segments", "reserved", "reserved_after"),
    [
        (512, 1, SMALL_SEGMENT, SMALL_SEGMENT),
        (SMALL_LIMIT, 2, 2 * SMALL_SEGMENT, SMALL_SEGMENT),
        (SMALL_LIMIT + 512, 1, LARGE_SEGMENT, LARGE_SEGMENT),
        (ROUNDED_FROM - 512, 2, 2 * LARGE_SEGMENT, LARGE_SEGMENT),
        (ROUNDED_FROM + 512, 3, 3 * ABOVE, ABOVE),
    ],
)
def test_graph_memory_stats_and_use_result_after_destroy_graph(
    size: int, segments: int, reserved: int, reserved_after: int
) -> None:
    source = StrictSource()
    a = CachingAllocator(source)
    input_ = a.allocate(size, CAPTURE_STREAM)
    before = figures(a)
    graph = FakeGraph(a)
    with graph.capture(source=source):
        b = a.allocate(size, CAPTURE_STREAM)  # b = a.clone()
        for _ in range(5):  # b = b.clone() + 1
            clone = a.allocate(size, CAPTURE_STREAM)
            result = a.allocate(size, CAPTURE_STREAM)
            a.free(clone)
            a.free(b)
            b = result
    after = figures(a)
    assert tuple(x - y for x, y in zip(after, before, strict=True)) == (segments, reserved, 1, size)
    a.empty_cache()
    assert figures(a) == after, "a live graph keeps its memory"
    graph.reset()
    a.empty_cache()
    assert tuple(x - y for x, y in zip(figures(a), before, strict=True)) == (1, reserved_after, 1, size)
    a.free(b)  # the result outlived the graph
    a.free(input_)
    a.empty_cache()
    assert figures(a) == (0, 0, 0, 0)
    assert source.segments == {}


def _with_temporaries(a: CachingAllocator, size: int, old: Block | None) -> Block:
    """x = t.clone() + v; y = t.clone() + v; return x + y"""
    halves = []
    for _ in range(2):
        clone = a.allocate(size, CAPTURE_STREAM)
        halves.append(a.allocate(size, CAPTURE_STREAM))
        a.free(clone)
    out = a.allocate(size, CAPTURE_STREAM)
    for half in halves:
        a.free(half)
    if old is not None:
        a.free(old)
    return out


@pytest.mark.parametrize("how", ["pool", "handle"])
def test_two_graphs_that_share_a_pool_save_one_segment_of_2_mib(how: str) -> None:
    reserved = {}
    for share in (False, True):
        a = CachingAllocator(StrictSource())
        handle = new_user_pool_id() if share and how == "handle" else None
        g0, g1 = FakeGraph(a), FakeGraph(a)
        with g0.capture(handle):
            b = a.allocate(4000, CAPTURE_STREAM)
            for _ in range(5):
                b = _with_temporaries(a, 4000, b)
        with g1.capture(g0.pool if share and how == "pool" else handle):
            for _ in range(5):
                b = _with_temporaries(a, 4000, b)
        reserved[share] = a.stats()["reserved_bytes.current"]
        if share:
            assert g0.pool == g1.pool
            assert a.pool_use_count(g0.pool) == 2
        a.free(b)
        g0.reset()
        g1.reset()
        a.empty_cache()
        assert figures(a) == (0, 0, 0, 0)
    assert reserved[False] - reserved[True] == SMALL_SEGMENT


def test_three_graphs_in_one_pool_reuse_what_died_between_captures() -> None:
    """test_graph_three_successive: g2's `f` takes the memory of g0's `c`, which is why the order of replay matters."""
    a = CachingAllocator(StrictSource())
    handle = new_user_pool_id()
    g0, g1, g2 = (FakeGraph(a) for _ in range(3))
    with g0.capture(handle):
        _b, c, _d = (a.allocate(4000, CAPTURE_STREAM) for _ in range(3))
    with g1.capture(handle):
        a.allocate(4000, CAPTURE_STREAM)
        a.free(c)
    with g2.capture(handle):
        f = a.allocate(4000, CAPTURE_STREAM)
    assert f.ptr == c.ptr


def test_graph_mem_pool_arg_and_nested_use_mem_pool() -> None:
    a = CachingAllocator(StrictSource())
    main, nested = MemPool(a), MemPool(a)
    assert (main.use_count(), nested.use_count()) == (1, 1)
    graph = FakeGraph(a)
    with graph.capture(main.id):
        x = a.allocate(512, CAPTURE_STREAM)
        with use_mem_pool(nested):
            y = a.allocate(512, CAPTURE_STREAM)
            assert nested.use_count() == 3  # the object, the scope, the graph
        z = a.allocate(512, CAPTURE_STREAM)
    assert (x.pool_id, y.pool_id, z.pool_id) == (main.id, nested.id, main.id)
    assert (main.use_count(), nested.use_count()) == (2, 2)
    graph.reset()
    assert (main.use_count(), nested.use_count()) == (1, 1)


def test_mempool_with_allocator() -> None:
    """Use counts 1 -> 2 -> 1; two blocks of 1 MiB in one segment; the pool's own source frees when the pool dies."""
    source, own = StrictSource(), StrictSource("own:0")
    a = CachingAllocator(source)
    pool = MemPool(a, source=own)
    assert pool.use_count() == 1
    assert own.calls["allocate_segment"] == own.calls["free_segment"] == 0
    with use_mem_pool(pool):
        out_0 = a.allocate(1 << 20, 0)
        assert pool.use_count() == 2
    assert pool.use_count() == 1
    assert own.calls["allocate_segment"] == 1
    outside = a.allocate(1 << 20, 0)
    assert outside.pool_id == (0, 0)
    with use_mem_pool(pool):
        assert len(pool.snapshot()) == 1
        out_1 = a.allocate(1 << 20, 0)
        assert len(pool.snapshot()) == 1
        out_2 = a.allocate(1 << 20, 0)
        assert len(pool.snapshot()) == 2
    for block in (out_0, out_1, out_2):
        a.free(block)
    assert own.calls["free_segment"] == 0
    del pool
    assert own.calls["free_segment"] == 2
    assert own.segments == {}
    assert list(source.segments.values()) == [SMALL_SEGMENT]


def test_tensor_delete_after_allocator_delete() -> None:
    """A block outlives its MemPool; its segment goes back at the next empty_cache after the block died."""
    own = StrictSource("own:0")
    a = CachingAllocator(StrictSource())
    pool = MemPool(a, source=own)
    with use_mem_pool(pool):
        data = a.allocate(16, 0)
    del pool
    a.empty_cache()
    assert own.calls["free_segment"] == 0
    a.free(data)
    a.empty_cache()
    assert own.segments == {}


def test_mempool_no_split() -> None:
    a = CachingAllocator(StrictSource())
    pool, plain = MemPool(a, no_split=True), MemPool(a)
    with use_mem_pool(pool):
        blocks = [a.allocate(1 << 20, 0) for _ in range(2)]
    with use_mem_pool(plain):
        for _ in range(2):
            a.allocate(1 << 20, 0)
    assert [len(s["blocks"]) for s in pool.snapshot()] == [1, 1]
    assert [len(s["blocks"]) for s in plain.snapshot()] == [2]
    assert {block.size for block in blocks} == {SMALL_SEGMENT}


def test_multi_threads_alloc_in_same_order() -> None:
    """Freed and allocated again in the same order, blocks come at the same addresses, also over scattered segments."""
    for sizes in ([512] * 40, [1 << 20] * 20, [(i % 7 + 1) * 512 for i in range(60)], [3 << 20] * 12):
        a = CachingAllocator(StrictSource(scatter=True))
        first = [a.allocate(size, 0) for size in sizes]
        addresses = [block.ptr for block in first]
        for block in reversed(first):
            a.free(block)
        assert [a.allocate(size, 0).ptr for size in sizes] == addresses


def test_reserved_bytes_by_private_pools() -> None:
    """S-C40: current goes to 0 when the pool is gone, the history stays."""
    a = CachingAllocator(StrictSource())
    pool = MemPool(a)
    pool_id = pool.id
    with use_mem_pool(pool):
        a.free(a.allocate(512, 0))
    assert a.stats()["pools"][pool_id]["reserved_bytes.current"] == SMALL_SEGMENT
    del pool
    gone = a.stats()["pools"][pool_id]
    assert gone["reserved_bytes.current"] == 0
    assert gone["reserved_bytes.peak"] == gone["reserved_bytes.freed"] == SMALL_SEGMENT


def test_graph_capture_error_releases_reserved_segments() -> None:
    """A failed capture, given back once, leaves nothing reserved."""
    a = CachingAllocator(StrictSource())
    pool = new_graph_pool_id()
    a.begin_allocate_to_pool(pool, lambda stream: True)
    a.capture_began()
    a.free(a.allocate(512, 0))
    a.abandon_capture(pool, began=True)
    assert (a.open_captures, a.pool_use_count(pool)) == (0, 0)
    assert a.empty_cache() == SMALL_SEGMENT


def test_repeated_captures_do_not_grow() -> None:
    """test_repeat_graph_capture_cublas_workspace_memory, for the pool manager's own books."""
    source = StrictSource()
    a = CachingAllocator(source)
    graph = FakeGraph(a)
    for _ in range(100):
        with graph.capture():
            for size in (512, 1 << 20, 5 << 20):
                a.free(a.allocate(size, CAPTURE_STREAM))
        graph.reset()
    a.empty_cache()
    assert source.segments == {}
    assert a.stats()["reserved_bytes.peak"] == LARGE_SEGMENT + SMALL_SEGMENT
    assert len(a._store.pools) == 1
    assert len(a._store._gone) <= 1 + 100  # ids used by other tests may lie between
