"""Random operations against a model that knows who may touch which bytes, over a source that refuses what is forbidden."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from graphcap.errors import GraphcapWarning, OutOfMemoryError
from graphcap.interface import NO_POOL, MempoolId
from graphcap.memory import (
    AllocatorOptions,
    Block,
    CachingAllocator,
    MemPool,
    new_graph_pool_id,
    new_user_pool_id,
    use_mem_pool,
)
from tests.memory.inspect_allocator import check_figures, check_structure
from tests.memory.strict_source import StrictSource

MIB = 1 << 20
STREAMS = st.integers(min_value=0, max_value=4)
SIZES = st.one_of(
    st.sampled_from([0, 1, 512, 513, 4096, MIB, MIB + 1, 9 * MIB, 10 * MIB, 10 * MIB + 1, 19 * MIB + MIB // 2]),
    st.integers(min_value=0, max_value=64 * 1024),
    st.integers(min_value=0, max_value=30 * MIB),
)
PICK = st.integers(min_value=0, max_value=1 << 16)


@dataclass
class LiveBlock:
    block: Block
    ptr: int
    size: int
    requested: int
    stream: int
    pool: MempoolId
    uses: set[int] = field(default_factory=set)
    capture_uses: set[int] = field(default_factory=set)


@dataclass
class Waiting:
    """Freed bytes that other streams may still touch."""

    ptr: int
    size: int
    needs: dict[int, int]
    """Stream -> how far its work must have got."""
    needs_no_capture: bool


@dataclass
class Capture:
    pool: MempoolId
    streams: set[int]


class AllocatorMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.live: list[LiveBlock] = []
        self.waiting: list[Waiting] = []
        self.captures: list[Capture] = []
        self.scopes: list[tuple[use_mem_pool, MempoolId]] = []
        self.routes: list[Capture | MempoolId] = []
        self.held: list[MempoolId] = []
        self.mem_pools: list[MemPool] = []
        self.user_ids = [new_user_pool_id() for _ in range(2)]

    @initialize(
        scatter=st.booleans(),
        divisions=st.sampled_from([1, 1, 4]),
        max_split=st.sampled_from([None, None, 24 * MIB]),
        history=st.booleans(),
    )
    def start(self, scatter: bool, divisions: int, max_split: int | None, history: bool) -> None:
        self.source = StrictSource(capacity=400 * MIB, scatter=scatter)
        options = AllocatorOptions(roundup_power2_divisions=divisions, max_split_size=max_split)
        self.a = CachingAllocator(self.source, options=options)
        if history:
            self.a.record_history(max_entries=50, depth=2)

    # The model's questions ------------------------------------------------------------------------------------------

    def expected_pool(self, stream: int) -> MempoolId:
        for route in reversed(self.routes):
            if isinstance(route, Capture):
                if stream in route.streams:
                    return route.pool
            else:
                return route
        return NO_POOL

    def in_capture(self, stream: int) -> bool:
        return any(stream in capture.streams for capture in self.captures)

    def note_allocation(self, block: Block, nbytes: int, stream: int) -> None:
        assert block.size >= nbytes
        assert block.requested == nbytes
        assert block.ptr % 512 == 0
        assert block.stream == stream
        assert block.pool_id == self.expected_pool(stream)
        assert any(a <= block.ptr and block.ptr + block.size <= a + n for a, n in self.source.segments.items())
        end = block.ptr + block.size
        for other in self.live:
            assert other.ptr >= end or other.ptr + other.size <= block.ptr, "two live blocks overlap"
        self.waiting = [w for w in self.waiting if not self.may_be_reused(w)]
        for w in self.waiting:
            assert w.ptr >= end or w.ptr + w.size <= block.ptr, "handed out while another stream may use it"
        self.live.append(LiveBlock(block, block.ptr, block.size, nbytes, stream, block.pool_id))
        self.source.submit(stream)

    def may_be_reused(self, w: Waiting) -> bool:
        return not (w.needs_no_capture and self.captures) and all(self.source.done[s] >= n for s, n in w.needs.items())

    def note_free(self, item: LiveBlock) -> None:
        self.live.remove(item)
        if item.uses or item.capture_uses:
            needs = {s: self.source.submitted[s] for s in item.uses}
            self.waiting.append(Waiting(item.ptr, item.size, needs, bool(self.captures)))

    # Blocks ---------------------------------------------------------------------------------------------------------

    def try_to_allocate(self, nbytes: int, stream: int) -> Block | None:
        refusal = None
        try:
            return self.a.allocate(nbytes, stream)
        except OutOfMemoryError as error:
            refusal = error
        assert (refusal.requested, refusal.reserved) == (nbytes, self.source.reserved)
        return None

    @rule(nbytes=SIZES, stream=STREAMS)
    def allocate(self, nbytes: int, stream: int) -> None:
        block = self.try_to_allocate(nbytes, stream)
        if block is not None:
            self.note_allocation(block, nbytes, stream)

    @rule(nbytes=SIZES, stream=STREAMS, failures=st.integers(min_value=1, max_value=2))
    def allocate_from_failing_source(self, nbytes: int, stream: int, failures: int) -> None:
        self.source.allocations_to_fail = failures
        self.allocate(nbytes, stream)
        self.source.allocations_to_fail = 0

    @rule(nbytes=SIZES, stream=STREAMS, call=st.sampled_from(["allocate_segment", "free_segment", "record_event"]))
    def allocate_from_broken_source(self, nbytes: int, stream: int, call: str) -> None:
        self.source.errors[call] = RuntimeError("the driver is unwell")
        with contextlib.suppress(RuntimeError):  # the invariants then find nothing changed
            self.allocate(nbytes, stream)
        self.source.errors.clear()

    @precondition(lambda self: self.live)
    @rule(nbytes=SIZES, stream=STREAMS, picks=st.lists(PICK, max_size=4))
    def allocate_while_finalizers_free(self, nbytes: int, stream: int, picks: list[int]) -> None:
        doomed = []
        for pick in picks:
            item = self.live[pick % len(self.live)]
            if item not in doomed:
                doomed.append(item)
        ran = []

        def finalizers() -> None:
            for item in doomed:
                self.a.free(item.block)
                ran.append(item)

        self.source.during_allocation = finalizers
        before = list(self.live)
        block = self.try_to_allocate(nbytes, stream)
        self.source.during_allocation = None
        if block is not None:
            assert all(item in self.live for item in before)
            self.note_allocation(block, nbytes, stream)  # before their free is settled: they must not overlap
        for item in ran:
            self.note_free(item)

    @precondition(lambda self: self.live)
    @rule(pick=PICK)
    def free(self, pick: int) -> None:
        item = self.live[pick % len(self.live)]
        self.a.free(item.block)
        self.note_free(item)

    @precondition(lambda self: self.live)
    @rule(pick=PICK)
    def free_with_broken_events(self, pick: int) -> None:
        item = self.live[pick % len(self.live)]
        self.source.errors["record_event"] = RuntimeError("no events today")
        try:
            self.a.free(item.block)
        except RuntimeError:
            assert item.uses
        self.source.errors.clear()
        self.note_free(item)

    @precondition(lambda self: len(self.live) > 3)
    @rule()
    def free_all_of_a_stream(self) -> None:
        stream = self.live[0].stream
        for item in [item for item in self.live if item.stream == stream]:
            self.a.free(item.block)
            self.note_free(item)

    @precondition(lambda self: self.live)
    @rule(pick=PICK, stream=STREAMS)
    def record_stream(self, pick: int, stream: int) -> None:
        item = self.live[pick % len(self.live)]
        self.a.record_stream(item.block, stream)
        self.source.submit(stream)
        if stream != item.stream:
            (item.capture_uses if self.in_capture(stream) else item.uses).add(stream)

    @rule(stream=STREAMS)
    def device_gets_on(self, stream: int) -> None:
        self.source.finish(stream)

    # Captures and pools ---------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.captures) < 2)
    @rule(streams=st.sets(STREAMS, min_size=1, max_size=2), choice=st.integers(min_value=0, max_value=3))
    def begin_capture(self, streams: set[int], choice: int) -> None:
        streams = {s for s in streams if not self.in_capture(s)}
        if choice == 0 and self.held:
            pool = self.held[0]
        elif choice == 1:
            pool = self.user_ids[0]
        elif choice == 2 and self.mem_pools:
            pool = self.mem_pools[-1].id
        else:
            pool = new_graph_pool_id()
        if any(capture.pool == pool for capture in self.captures):
            return
        self.a.release_freeable_pools(keep=pool)
        capture = Capture(pool, set())
        self.a.begin_allocate_to_pool(pool, lambda stream: stream in capture.streams)
        capture.streams = streams
        self.a.capture_began()
        self.source.open_captures += 1
        self.captures.append(capture)
        self.routes.append(capture)

    @precondition(lambda self: self.captures)
    @rule(pick=PICK, keep=st.booleans(), abandon=st.booleans())
    def end_capture(self, pick: int, keep: bool, abandon: bool) -> None:
        capture = self.captures.pop(pick % len(self.captures))
        self.routes.remove(capture)
        self.source.open_captures -= 1
        if not self.captures:  # every stream of a capture was joined: its uses are over, also if another capture begins
            for w in self.waiting:
                w.needs_no_capture = False
        if abandon:
            self.a.abandon_capture(capture.pool, began=True)
            return
        self.a.capture_ended()
        nested = self.a.end_allocate_to_pool(capture.pool)
        for pool in (capture.pool, *nested):
            if keep:
                self.held.append(pool)
            else:
                self.a.release_pool(pool)

    @precondition(lambda self: self.held)
    @rule(pick=PICK)
    def reset_graph(self, pick: int) -> None:
        self.a.release_pool(self.held.pop(pick % len(self.held)))

    @precondition(lambda self: len(self.mem_pools) < 3)
    @rule(no_split=st.booleans())
    def make_mem_pool(self, no_split: bool) -> None:
        self.mem_pools.append(MemPool(self.a, no_split=no_split))

    @precondition(lambda self: self.mem_pools)
    @rule(pick=PICK)
    def drop_mem_pool(self, pick: int) -> None:
        pool = self.mem_pools.pop(pick % len(self.mem_pools))
        if any(scope_pool == pool.id for _, scope_pool in self.scopes):
            self.mem_pools.append(pool)  # the scope object holds it anyway

    @precondition(lambda self: self.mem_pools and len(self.scopes) < 3)
    @rule(pick=PICK)
    def enter_scope(self, pick: int) -> None:
        pool = self.mem_pools[pick % len(self.mem_pools)]
        scope = use_mem_pool(pool)
        scope.__enter__()
        self.scopes.append((scope, pool.id))
        self.routes.append(pool.id)

    @precondition(lambda self: self.scopes)
    @rule()
    def leave_scope(self) -> None:
        scope, pool_id = self.scopes.pop()
        scope.__exit__(None, None, None)
        last = max(i for i, route in enumerate(self.routes) if route == pool_id)
        del self.routes[last]

    # Giving back ----------------------------------------------------------------------------------------------------

    @rule(fail=st.booleans())
    def empty_cache(self, fail: bool) -> None:
        if fail:
            self.source.errors["free_segment"] = RuntimeError("cannot free")
        before = self.source.reserved
        try:
            returned = self.a.empty_cache()
        except RuntimeError:
            returned = None
        self.source.errors.clear()
        if returned is not None:
            assert before - self.source.reserved == returned
        if self.captures:
            assert returned == 0

    @rule(limit=st.sampled_from([None, 64 * MIB, 0.5]))
    def set_limit(self, limit: int | float | None) -> None:
        self.a.set_memory_limit(limit)

    # What must always hold ------------------------------------------------------------------------------------------

    @invariant()
    def structure_holds(self) -> None:
        if not hasattr(self, "a"):
            return
        with warnings.catch_warnings():
            # A queued free whose event cannot be recorded tells of it; the machine knows.
            warnings.simplefilter("ignore", GraphcapWarning)
            self.a.settle()
        check_structure(self.a, self.source)
        check_figures(self.a, self.source)
        stats = self.a.stats()
        assert stats["allocated_bytes.current"] == sum(item.size for item in self.live)
        assert stats["requested_bytes.current"] == sum(item.requested for item in self.live)
        assert stats["blocks.current"] == len(self.live)
        for item in self.live:
            assert (item.block.ptr, item.block.size, item.block.pool_id) == (item.ptr, item.size, item.pool)
        for pool_id in {*self.held, *(c.pool for c in self.captures)}:
            assert self.a.pool_use_count(pool_id) > 0
            assert sum(held == pool_id for held in self.held) <= self.a.pool_use_count(pool_id)

    def teardown(self) -> None:
        if not hasattr(self, "a"):
            return
        while self.scopes:
            self.leave_scope()
        while self.captures:
            self.end_capture(0, True, False)
        while self.held:
            self.reset_graph(0)
        self.mem_pools.clear()
        while self.live:
            self.free(0)
        self.a.empty_cache()
        check_structure(self.a, self.source)
        assert not self.source.segments, "every byte is back at the source"
        assert not self.source.events, "every event is back at the source"
        stats = self.a.stats()
        assert not [key for key, value in stats.items() if key.endswith(".current") and value]
        assert set(self.a._store.pools) == {NO_POOL}


TestAllocatorMachine = AllocatorMachine.TestCase
TestAllocatorMachine.settings = settings(max_examples=200, stateful_step_count=50)


class DeepMachine(AllocatorMachine):
    """The same, for longer."""


TestDeepMachine = pytest.mark.slow(DeepMachine.TestCase)
TestDeepMachine.settings = settings(max_examples=500, stateful_step_count=80)
