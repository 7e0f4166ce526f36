"""Threads that wait for each other: barriers, warp operations, early returns, and the order in which threads run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from cuda.bindings import driver as cu
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulated_device import control, harness
from tests.emulated_device.harness import Board, code, ok

LAUNCH_FAILED = int(cu.CUresult.CUDA_ERROR_LAUNCH_FAILED)

emulated_only = pytest.mark.skipif(not harness.emulated(), reason="a real device orders threads as it likes")


@pytest.fixture
def board() -> Iterator[Board]:
    with harness.board() as made:
        yield made
    if harness.emulated():
        control.seed(0)


@pytest.fixture(scope="module")
def module_board() -> Iterator[Board]:
    made = Board()
    yield made
    made.close()
    if harness.emulated():
        control.seed(0)


def seeds(count: int) -> Iterator[int]:
    """Seeds to run something under; on a GPU there is nothing to seed."""
    for seed in range(count) if harness.emulated() else (0,):
        if harness.emulated():
            control.seed(seed)
        yield seed


# What the kernel `follow` must give, thread by thread.

Step = tuple[int, int, int, int]
WORD = 2**32


class Model:
    """One block of threads, as CUDA describes what they do together."""

    def __init__(self, block: int, threads: int) -> None:
        self.threads = threads
        self.values = [t + 1000 * block for t in range(threads)]
        self.cells = [0] * threads
        self.live = list(range(threads))

    def run(self, program: list[Step]) -> list[int]:
        for operation, a, b, c in program:
            if operation == 0:
                self.live = [t for t in self.live if t % a != b % a]
            others = dict.fromkeys(self.live, 0)
            if operation:
                others.update(self.others(operation, a, b, c))
            for t in self.live:
                self.values[t] = (self.values[t] * 31 + others[t]) % WORD
        return self.values

    def others(self, operation: int, a: int, b: int, c: int) -> dict[int, int]:
        value = self.values
        if operation in (1, 8):
            for t in self.live:
                self.cells[t] = value[t]
            if operation == 1:
                return {t: self.cells[(t + a) % self.threads] for t in self.live}
            return {t: self.cells[t ^ b % 32] for t in self.live if t ^ b % 32 < self.threads}
        if operation == 2:
            return dict.fromkeys(self.live, sum(value[t] >> a % 8 & 1 for t in self.live))
        if operation == 3:
            return dict.fromkeys(self.live, int(all(value[t] % (a % 3 + 1) != 1 for t in self.live)))
        if operation == 4:
            return dict.fromkeys(self.live, int(any(value[t] % (a % 50 + 1) == 1 for t in self.live)))
        if operation == 5:
            return self.shuffle(a, lambda lane: lane ^ b % 32)
        if operation == 6:
            return {
                t: sum(1 << u % 32 for u in self.members(a, t) if value[u] >> b % 8 & 1)
                for t in self.live
                if a >> t % 32 & 1
            }
        if operation == 7:
            inside = dict.fromkeys(self.live, 0)
            for n in range(b % 3 + 1):
                for t, got in self.shuffle(a, lambda lane: (lane + c) % 32, n).items():
                    inside[t] += got
            return {**inside, **self.shuffle(~a % WORD, lambda lane: lane + c % 32)}
        if operation == 9:
            return self.shuffle(WORD - 1, lambda lane: lane - a % 32)
        return dict.fromkeys(self.live, a)

    def members(self, mask: int, thread: int) -> list[int]:
        """The threads of this one's warp that are in the mask and have not returned."""
        return [u for u in self.live if u // 32 == thread // 32 and mask >> u % 32 & 1]

    def shuffle(self, mask: int, source: Callable[[int], int], plus: int = 0) -> dict[int, int]:
        """What each thread of the mask gets from lane ``source(lane)``: its own value where that lane takes no part."""
        out = {}
        for t in self.live:
            if mask >> t % 32 & 1:
                lane = source(t % 32)
                other = t // 32 * 32 + lane
                taken = other if 0 <= lane < 32 and other in self.members(mask, t) else t
                out[t] = (self.values[taken] + plus) % WORD
        return out


MASKS = st.one_of(
    st.sampled_from([WORD - 1, 0x0000FFFF, 0xAAAAAAAA, 1, 0x80000001]), st.integers(min_value=1, max_value=WORD - 1)
)
NUMBERS = st.integers(min_value=0, max_value=1000)
STEPS = st.one_of(
    st.tuples(st.just(0), st.integers(min_value=2, max_value=40), NUMBERS, NUMBERS),
    st.tuples(st.sampled_from([1, 2, 3, 4, 8, 9, 10]), NUMBERS, NUMBERS, NUMBERS),
    st.tuples(st.sampled_from([5, 6, 7]), MASKS, NUMBERS, NUMBERS),
)
BLOCKS = st.sampled_from([(1,), (31,), (32,), (33,), (70,), (128,), (7, 5), (4, 3, 6), (33, 2), (2, 2, 16)])


def check_program(board: Board, program: list[Step], block: tuple[int, ...], grid: int, seed_count: int) -> None:
    threads = int(np.prod(block))
    expected = [Model(b, threads).run(program) for b in range(grid)]
    steps = board.upload(np.array(program, np.uint32).reshape(-1, 4))
    out = board.buffer(4 * threads * grid)
    follow, stream = board.kernel("follow", "threads"), ok(cu.cuStreamCreate(1))
    for seed in seeds(seed_count):
        board.launch(follow, stream, np.uint64(out), np.uint64(steps), np.int32(len(program)), grid=grid, block=block)
        got = board.read(out, np.uint32, threads * grid).reshape(grid, threads)
        np.testing.assert_array_equal(got, np.array(expected, np.uint32), err_msg=f"seed {seed}")
    ok(cu.cuStreamDestroy(stream))


@given(st.lists(STEPS, min_size=1, max_size=10), BLOCKS, st.integers(min_value=1, max_value=3))
@settings(max_examples=150)
def test_programs_of_threads_that_wait_for_each_other(
    module_board: Board, program: list[Step], block: tuple[int, ...], grid: int
) -> None:
    """Random programs against the model, in the natural order and in shuffled ones."""
    check_program(module_board, program, block, grid, 4)


@pytest.mark.slow
@given(st.lists(STEPS, min_size=1, max_size=25), BLOCKS, st.integers(min_value=1, max_value=4))
@settings(max_examples=2000)
def test_programs_of_threads_at_length(
    module_board: Board, program: list[Step], block: tuple[int, ...], grid: int
) -> None:
    check_program(module_board, program, block, grid, 8)


@pytest.mark.parametrize("operation", range(1, 11))
def test_each_operation_with_many_threads(board: Board, operation: int) -> None:
    steps = [(operation, a, b, c) for a, b, c in ((0x7FFF00FF, 5, 11), (0xF0F0F0F1, 9, 30), (0x0F0F0F0F, 3, 7))]
    check_program(board, [steps[0], (0, 5, 2, 0), *steps[1:]], (1024,), 2, 3)


@pytest.mark.parametrize("n", [256, 1000])
def test_sums_and_scans_by_shuffles(board: Board, n: int) -> None:
    block = 250 if n == 1000 else 256  # a last warp of 26
    values = np.random.default_rng(n).integers(-1000, 1000, n, np.int32)
    sums, scans = board.buffer(8 * n), board.buffer(4 * n)
    source = board.upload(values)
    warps = [values[b + w : min(b + w + 32, b + block)] for b in range(0, n, block) for w in range(0, block, 32)]
    for _ in seeds(5):
        arguments = (np.uint64(sums), np.uint64(scans), np.uint64(source), np.int32(2))
        board.launch(board.kernel("warp_scan", "threads"), board.stream(), *arguments, grid=n // block, block=block)
        np.testing.assert_array_equal(board.read(scans, np.int32, n), np.concatenate([w.cumsum() for w in warps]))
        if block == 256:
            np.testing.assert_array_equal(board.read(sums, np.int64, n), np.repeat([w.sum() for w in warps], 32))


# Order.


@emulated_only
@pytest.mark.parametrize("kernel", ["tell", "tell_warp"])
def test_a_missing_barrier_shows_under_some_seed_and_a_present_one_under_none(board: Board, kernel: str) -> None:
    """``tell`` is right in the natural order even without its barrier: thread 0 comes first."""
    block, stream, out = 32 if kernel == "tell_warp" else 128, board.stream(), board.buffer(4 * 128)
    function = board.kernel(kernel, "threads")
    wrong: dict[int, list[int]] = {0: [], 1: []}
    for seed in seeds(40):
        for sync in (0, 1):
            value = 1000 + seed
            board.launch(function, stream, np.uint64(out), np.int32(value), np.int32(sync), block=block)
            if (board.read(out, np.int32, block) != value).any():
                wrong[sync].append(seed)
    assert not wrong[1]
    assert len(wrong[0]) >= 20
    assert (0 in wrong[0]) is (kernel == "tell_warp")


def _order(board: Board, grid: int, block: int) -> list[int]:
    out, count = board.buffer(4 * grid * block), board.buffer(4)
    board.launch(
        board.kernel("come_by", "threads"), board.stream(), np.uint64(out), np.uint64(count), grid=grid, block=block
    )
    return [int(one) for one in board.read(out, np.int32, grid * block)]


@emulated_only
def test_seed_0_is_the_natural_order_and_others_shuffle(board: Board) -> None:
    grid, block = 5, 100
    natural = list(range(grid * block))
    orders = {seed: _order(board, grid, block) for seed in seeds(6)}
    assert orders[0] == natural
    for seed in range(1, 6):
        assert orders[seed] != natural
        assert sorted(orders[seed]) == natural
        blocks = [orders[seed][i : i + block] for i in range(0, grid * block, block)]
        assert all(len({thread // block for thread in one}) == 1 for one in blocks)  # blocks one after another
        warps = [thread % block // 32 for thread in blocks[0]]
        assert sum(a != b for a, b in itertools.pairwise(warps)) == 3  # warps stay together
    assert len({tuple(order) for order in orders.values()}) == 6
    begun = {seed: [order[i] // block for i in range(0, grid * block, block)] for seed, order in orders.items()}
    assert any(begun[seed] != begun[0] for seed in range(1, 6))
    lanes = {seed: [thread % 32 for thread in order if thread < 32] for seed, order in orders.items()}
    assert sum(lanes[seed] != list(range(32)) for seed in range(1, 6)) == 5
    for seed in seeds(6):
        assert _order(board, grid, block) == orders[seed]  # one seed, one order


# Threads that wait for ever.


def _fails(board: Board, kernel: str, *arguments: np.generic, grid: int = 1, block: int = 32) -> str:
    """The note about a kernel that must fail; afterwards the device works again."""
    control.clear_calls()
    board.launch(board.kernel(kernel, "threads"), board.stream(), *arguments, grid=grid, block=block)
    assert code(cu.cuCtxSynchronize()) == LAUNCH_FAILED
    (note,) = control.notes()
    control.reset_faults()
    assert _order(board, 1, 40)
    return note


@emulated_only
def test_threads_that_wait_for_ever_are_told_with_where_they_wait(board: Board) -> None:
    for seed in seeds(5):
        note = _fails(board, "wait_for_ever", np.int32(0), block=64)
        assert note.startswith(
            "work in a stream: KERNEL wait_for_ever failed with 719: kernel wait_for_ever, block (0, 0, 0): "
        )
        assert "threads wait for ever: 32 threads (0-15, 32-47) at a barrier; " in note
        for first in (16, 48):
            assert (
                f"16 threads ({first}-{first + 15}) in a warp operation with the mask 0xffffffff, without 16 threads "
                f"({first - 16}-{first - 1})" in note
            )
        note = _fails(board, "wait_for_ever", np.int32(1))
        assert "1 thread (0) in a warp operation with the mask 0x00000003, without 1 thread (1)" in note, seed
        assert (
            "1 thread (1) in a warp operation with the mask 0x00000007, without 1 thread (0)" in note
        )  # lane 2 returned


@emulated_only
def test_a_lane_outside_its_own_mask(board: Board) -> None:
    note = _fails(board, "wait_for_ever", np.int32(2))
    assert "thread (0, 0, 0): lane 0 calls a warp operation with the mask 0xffff0000, which it is not in" in note
