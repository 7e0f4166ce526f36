"""Work runs later, in an order drawn from the seed among those that the dependencies allow."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from cuda.bindings import driver as cu
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulated_device import control, harness
from tests.emulated_device.harness import Board, code, ok

pytestmark = pytest.mark.skipif(not harness.emulated(), reason="the order of a real device is not ours to draw")

SEEDS = range(200)


@pytest.fixture
def board() -> Iterator[Board]:
    with harness.board() as made:
        yield made
    control.seed(0)


@dataclasses.dataclass(frozen=True)
class Program:
    """Tasks on streams. Task ``i`` reads the results of ``reads[i]`` and writes its own cell."""

    streams: tuple[int, ...]
    reads: tuple[tuple[int, ...], ...]

    def edges(self) -> list[tuple[int, int]]:
        """The dependencies that need an event: reader and writer are on different streams."""
        return [(j, i) for i, sources in enumerate(self.reads) for j in sources if self.streams[i] != self.streams[j]]

    def expected(self) -> list[int]:
        """What each task must write: from the definition, in program order."""
        values: list[int] = []
        for i, sources in enumerate(self.reads):
            x, y = ([values[j] for j in sources] + [0, 0])[:2]
            values.append((3 * x + 5 * y + 7 + i) % 2**32)
        return values

    def needed(self, edge: tuple[int, int]) -> bool:
        """Whether dropping the edge leaves reader and writer unordered."""
        order = set(self.edges())
        for stream in set(self.streams):
            mine = [i for i, s in enumerate(self.streams) if s == stream]
            order |= set(itertools.pairwise(mine))
        return not ordered_without(order, edge)


def ordered_without(order: set[tuple[int, int]], edge: tuple[int, int]) -> bool:
    """Whether another path leads along the edge."""
    reached, pending = {edge[0]}, [edge[0]]
    while pending:
        node = pending.pop()
        for a, b in order - {edge}:
            if a == node and b not in reached:
                reached.add(b)
                pending.append(b)
    return edge[1] in reached


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Forks and joins over two to four streams; each task reads the newest result of its own stream and of one other."""
    width = draw(st.integers(2, 4))
    streams: list[int] = [0]
    reads: list[tuple[int, ...]] = [()]
    for i in range(1, draw(st.integers(4, 9))):
        streams.append(draw(st.integers(0, width - 1)))
        mine = [j for j in range(i) if streams[j] == streams[i]][-1:]
        others = [j for j in range(i) if streams[j] != streams[i]]
        extra = [draw(st.sampled_from(others))] if others and (not mine or draw(st.booleans())) else []
        reads.append(tuple(mine + extra) or (0,))
    return Program(tuple(streams), tuple(reads))


class Runner:
    """Runs programs; keeps its streams and events."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.streams = [board.stream() for _ in range(4)]
        self.events = [board.event() for _ in range(16)]
        self.combine = board.kernel("combine")
        self.cells = board.buffer(4 * 17)  # the last one stays zero

    def submit(self, program: Program, dropped: tuple[int, int] | None) -> None:
        """Puts the program into its streams, without the dropped dependency."""
        zero = self.cells + 4 * 16
        ok(cu.cuMemsetD8Async(self.cells, 0xEE, 4 * 16, self.streams[0]))  # what a reader that is too early finds
        ok(cu.cuEventRecord(self.events[15], self.streams[0]))
        for stream in self.streams[1:]:
            ok(cu.cuStreamWaitEvent(stream, self.events[15], 0))
        for i, sources in enumerate(program.reads):
            stream = self.streams[program.streams[i]]
            for j in sources:
                if program.streams[j] != program.streams[i] and (j, i) != dropped:
                    ok(cu.cuStreamWaitEvent(stream, self.events[j], 0))
            x, y = ([self.cells + 4 * j for j in sources] + [zero, zero])[:2]
            numbers = (
                np.uint64(self.cells + 4 * i),
                np.uint64(x),
                np.uint64(y),
                np.uint32(3),
                np.uint32(5),
                np.uint32(7 + i),
            )
            self.board.launch(self.combine, stream, *numbers)
            ok(cu.cuEventRecord(self.events[i], stream))

    def run(self, program: Program, seed: int, dropped: tuple[int, int] | None = None) -> list[int]:
        control.seed(seed)
        self.submit(program, dropped)
        return [int(x) for x in self.board.read(self.cells, np.uint32, len(program.reads))]

    def capture(self, program: Program) -> object:
        """The program as a graph."""
        first = self.streams[0]
        ok(cu.cuStreamBeginCapture(first, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
        self.submit(program, None)
        for stream in self.streams[1:]:
            ok(cu.cuEventRecord(self.events[15], stream))
            ok(cu.cuStreamWaitEvent(first, self.events[15], 0))
        graph = ok(cu.cuStreamEndCapture(first))
        self.board.later(lambda: cu.cuGraphDestroy(graph))
        return graph


def test_any_dropped_edge_shows(board: Board) -> None:
    """Over many programs: untouched, all 200 seeds are right; with a needed edge dropped, some seed is wrong."""
    runner = Runner(board)
    tried = 0

    @settings(max_examples=60, database=None)
    @given(programs())
    def check(program: Program) -> None:
        nonlocal tried
        expected = program.expected()
        for seed in SEEDS:
            assert runner.run(program, seed) == expected, f"seed {seed}"
        for edge in program.edges():
            if not program.needed(edge):
                continue
            tried += 1
            assert any(runner.run(program, seed, edge) != expected for seed in SEEDS), f"dropping {edge} never showed"

    check()
    assert tried >= 50


FORK_JOIN = Program((0, 0, 1, 2, 1, 0), ((), (0,), (0,), (1,), (2, 3), (1, 4)))


def test_any_edge_of_a_graph_shows(board: Board) -> None:
    """The same with a captured graph, one edge removed after the other."""
    runner = Runner(board)
    graph = runner.capture(FORK_JOIN)
    expected = FORK_JOIN.expected()

    def results(of: object) -> set[tuple[int, ...]]:
        executable = ok(cu.cuGraphInstantiate(of, 0))
        found = set()
        for seed in SEEDS:
            control.seed(seed)
            ok(cu.cuGraphLaunch(executable, runner.streams[0]))
            found.add(tuple(int(x) for x in board.read(runner.cells, np.uint32, len(expected))))
        ok(cu.cuGraphExecDestroy(executable))
        return found

    assert results(graph) == {tuple(expected)}
    *_, count = ok(cu.cuGraphGetEdges(graph, 0))
    froms, tos, data, _ = ok(cu.cuGraphGetEdges(graph, count))
    order = {(int(source), int(target)) for source, target in zip(froms, tos, strict=True)}
    tried = 0
    for source, target, one in zip(froms, tos, data, strict=True):
        if ordered_without(order, (int(source), int(target))):
            continue  # capture does not reduce: another path repeats this one
        tried += 1
        ok(cu.cuGraphRemoveDependencies(graph, [source], [target], [one], 1))
        assert results(graph) != {tuple(expected)}, f"dropping {source} -> {target} never showed"
        ok(cu.cuGraphAddDependencies(graph, [source], [target], [one], 1))
    assert tried >= 6


def test_one_seed_gives_one_order(board: Board) -> None:
    """The order of two independent chains repeats with the seed, and differs between seeds."""
    streams = [board.stream() for _ in range(2)]
    cell, affine = board.buffer(4), board.kernel("affine")

    def run(seed: int) -> int:
        control.seed(seed)
        ok(cu.cuMemsetD32(cell, 1, 1))
        for step in range(5):
            for which, stream in enumerate(streams):
                board.launch(affine, stream, np.uint64(cell), np.int32(3), np.int32(which * 10 + step))
        return int(board.read(cell, np.int32, 1)[0])

    first = [run(seed) for seed in range(30)]
    assert [run(seed) for seed in range(30)] == first
    assert len(set(first)) > 5


def test_nothing_runs_at_submission(board: Board) -> None:
    stream, cell = board.stream(), board.buffer(4)
    ok(cu.cuMemsetD32Async(cell, 5, 1, stream))
    assert code(cu.cuStreamQuery(stream)) == int(cu.CUresult.CUDA_ERROR_NOT_READY)
    ok(cu.cuStreamSynchronize(stream))
    assert board.read(cell, np.int32, 1)[0] == 5


def test_polling_comes_to_an_end(board: Board) -> None:
    """Nobody synchronises: a worker thread does the work."""
    stream, cell, event = board.stream(), board.buffer(4), board.event()
    ok(cu.cuMemsetD32Async(cell, 5, 1, stream))
    ok(cu.cuEventRecord(event, stream))
    for _ in range(10_000_000):
        if code(cu.cuEventQuery(event)) == 0:
            break
    assert code(cu.cuStreamQuery(stream)) == 0


def test_the_legacy_stream_orders_blocking_streams(board: Board) -> None:
    """Legacy work waits for earlier work of blocking streams, and they wait for it; under every seed."""
    blocking = [board.stream(0) for _ in range(2)]
    cell, affine = board.buffer(4), board.kernel("affine")
    for seed in range(60):
        control.seed(seed)
        ok(cu.cuMemsetD32Async(cell, 1, 1, 0))
        board.launch(affine, blocking[0], np.uint64(cell), np.int32(2), np.int32(1))
        board.launch(affine, 0, np.uint64(cell), np.int32(5), np.int32(0))
        board.launch(affine, blocking[1], np.uint64(cell), np.int32(1), np.int32(4))
        assert board.read(cell, np.int32, 1)[0] == 19


def test_non_blocking_streams_are_not_ordered_by_the_legacy_stream(board: Board) -> None:
    free, cell, affine = board.stream(1), board.buffer(4), board.kernel("affine")
    found = set()
    for seed in range(60):
        control.seed(seed)
        ok(cu.cuMemsetD32(cell, 1, 1))
        board.launch(affine, free, np.uint64(cell), np.int32(2), np.int32(1))
        board.launch(affine, 0, np.uint64(cell), np.int32(5), np.int32(0))
        found.add(int(board.read(cell, np.int32, 1)[0]))
    assert found == {15, 11}


def test_an_executable_never_overlaps_itself(board: Board) -> None:
    """S-D38: launches on different streams run one after the other."""
    streams = [board.stream() for _ in range(3)]
    cell, affine = board.buffer(4), board.kernel("affine")

    def body() -> None:
        board.launch(affine, streams[0], np.uint64(cell), np.int32(0), np.int32(1))
        board.launch(affine, streams[0], np.uint64(cell), np.int32(2), np.int32(0))
        board.launch(affine, streams[0], np.uint64(cell), np.int32(2), np.int32(0))

    executable = board.instantiate(board.capture(streams[0], body))
    for seed in range(60):
        control.seed(seed)
        for stream in streams:
            ok(cu.cuGraphLaunch(executable, stream))
        assert board.read(cell, np.int32, 1)[0] == 4


def test_a_kernel_without_its_barrier_shows(board: Board) -> None:
    """Threads of a block run in an order of their own: here each reads what the next one writes, with no barrier between."""
    n, image = 64, board.kernel("copy")
    data = np.arange(n, dtype=np.float32)
    found = set()
    for seed in range(40):
        control.seed(seed)
        cells = board.upload(data)
        board.launch(image, board.stream(), np.uint64(cells), np.uint64(cells + 4), np.int32(n - 1), block=n)
        found.add(board.read(cells, np.float32, n).tobytes())
    assert len(found) > 1


def test_elapsed_time_follows_the_order(board: Board) -> None:
    stream = board.stream()
    start, end = board.event(0), board.event(0)
    ok(cu.cuEventRecord(start, stream))
    ok(cu.cuMemsetD8Async(board.buffer(1 << 22, None), 1, 1 << 22, stream))
    ok(cu.cuEventRecord(end, stream))
    assert code(cu.cuEventElapsedTime(start, end)) == int(cu.CUresult.CUDA_ERROR_NOT_READY)
    ok(cu.cuEventSynchronize(end))
    assert ok(cu.cuEventElapsedTime(start, end)) > 0


def test_events_order_work_of_two_devices(board: Board) -> None:
    """An event of one device, waited for on a stream of another."""
    stream, event, source = board.stream(), board.event(), board.buffer(4)
    with harness.board(1) as other:
        far, target = other.stream(), other.buffer(4)
        for seed in range(40):
            control.seed(seed)
            ok(cu.cuCtxSetCurrent(board.context))
            ok(cu.cuMemsetD32(source, 0, 1))
            ok(cu.cuMemsetD32Async(source, seed, 1, stream))
            ok(cu.cuEventRecord(event, stream))
            ok(cu.cuCtxSetCurrent(other.context))
            ok(cu.cuStreamWaitEvent(far, event, 0))
            ok(cu.cuMemcpyPeerAsync(target, other.context, source, board.context, 4, far))
            assert other.read(target, np.int32, 1)[0] == seed
    ok(cu.cuCtxSetCurrent(board.context))
