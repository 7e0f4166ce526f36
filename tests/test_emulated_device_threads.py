"""Several threads at once: captures, launches, synchronisation, destruction, callbacks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import cffi
import numpy as np
import pytest
from cuda.bindings import driver as cu

from tests.emulated_device import harness
from tests.emulated_device.harness import Board, code, ok


@pytest.fixture
def board() -> Iterator[Board]:
    with harness.board() as made:
        yield made


def run_threads(board: Board, count: int, work: Callable[[int], None]) -> None:
    """Runs ``work(i)`` in threads with the context current; fails if one fails or hangs."""
    failures: list[BaseException] = []

    def body(index: int) -> None:
        try:
            ok(cu.cuCtxSetCurrent(board.context))
            work(index)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=body, args=(index,), daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    assert not failures, failures


def test_each_thread_captures_and_replays_on_its_own(board: Board) -> None:
    affine, cells = board.kernel("affine"), board.buffer(4 * 8)
    streams = [board.stream() for _ in range(8)]

    def work(index: int) -> None:
        cell, stream = np.uint64(cells + 4 * index), streams[index]
        for round_ in range(15):
            ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
            board.launch(affine, stream, cell, np.int32(0), np.int32(index))
            board.launch(affine, stream, cell, np.int32(10), np.int32(round_))
            graph = ok(cu.cuStreamEndCapture(stream))
            executable = ok(cu.cuGraphInstantiate(graph, 0))
            ok(cu.cuGraphDestroy(graph))
            for _ in range(3):
                ok(cu.cuGraphLaunch(executable, stream))
            ok(cu.cuGraphExecDestroy(executable))  # in flight
            ok(cu.cuStreamSynchronize(stream))

    run_threads(board, 8, work)
    assert board.read(cells, np.int32, 8).tolist() == [10 * index + 14 for index in range(8)]


def test_kernels_that_wait_launched_by_several_threads(board: Board) -> None:
    """Stacks of kernels are used by whichever thread of the program runs the grid."""
    n, count = 256, 6
    scan = board.kernel("warp_scan", "threads")
    values = np.random.default_rng(1).integers(-9, 9, (count, n), np.int32)
    sources = [board.upload(row) for row in values]
    sums, scans = [board.buffer(8 * n) for _ in range(count)], [board.buffer(4 * n) for _ in range(count)]
    streams = [board.stream() for _ in range(count)]

    def work(index: int) -> None:
        arguments = (np.uint64(sums[index]), np.uint64(scans[index]), np.uint64(sources[index]), np.int32(3))
        for _ in range(20):
            board.launch(scan, streams[index], *arguments, grid=2, block=128)
            ok(cu.cuStreamSynchronize(streams[index]))

    run_threads(board, count, work)
    for index in range(count):
        expected = values[index].reshape(-1, 32).cumsum(1).ravel()
        np.testing.assert_array_equal(board.read(scans[index], np.int32, n), expected)


def test_threads_chained_by_events(board: Board) -> None:
    """Each thread waits for the event of the one before, in a ring of streams."""
    count, rounds = 4, 25
    affine, cell = board.kernel("affine"), board.buffer(4)
    streams, events = [board.stream() for _ in range(count)], [board.event() for _ in range(count)]
    turns = [threading.Semaphore(int(index == 0)) for index in range(count)]
    expected = 0
    for step in range(count * rounds):
        expected = (3 * expected + step % count) % 2**32

    def work(index: int) -> None:
        for _ in range(rounds):
            assert turns[index].acquire(timeout=30)
            ok(cu.cuStreamWaitEvent(streams[index], events[index - 1], 0))
            board.launch(affine, streams[index], np.uint64(cell), np.int32(3), np.int32(index))
            ok(cu.cuEventRecord(events[index], streams[index]))
            turns[(index + 1) % count].release()
            ok(cu.cuStreamSynchronize(streams[index]))

    run_threads(board, count, work)
    assert int(board.read(cell, np.uint32, 1)[0]) == expected


def test_a_callback_that_waits_does_not_stop_other_streams(board: Board) -> None:
    ffi = cffi.FFI()
    gate = threading.Event()
    reached = threading.Event()

    @ffi.callback("void(void *)")  # type: ignore[untyped-decorator]  # cffi has no types
    def waits(_: Any) -> None:
        reached.set()
        gate.wait(30)

    blocked, free, cell = board.stream(), board.stream(), board.buffer(4)
    params = cu.CUDA_HOST_NODE_PARAMS()
    params.fn = cu.CUhostFn(int(ffi.cast("uintptr_t", waits)))
    graph = board.graph()
    ok(cu.cuGraphAddHostNode(graph, None, 0, params))
    ok(cu.cuGraphLaunch(board.instantiate(graph), blocked))
    assert reached.wait(30)  # nobody synchronises; the driver's own threads come to it
    ok(cu.cuMemsetD32Async(cell, 5, 1, free))
    began = time.monotonic()
    ok(cu.cuStreamSynchronize(free))
    assert time.monotonic() - began < 10
    assert code(cu.cuStreamQuery(blocked)) == int(cu.CUresult.CUDA_ERROR_NOT_READY)
    gate.set()
    ok(cu.cuStreamSynchronize(blocked))


def test_parameters_set_after_a_launch_are_for_the_next_one(board: Board) -> None:
    cell, stream = board.buffer(8), board.stream()

    def params(value: int, where: int) -> Any:
        made = cu.CUDA_MEMSET_NODE_PARAMS()
        made.dst, made.value, made.elementSize, made.width, made.height = cell + where, value, 4, 1, 1
        return made

    graph = board.graph()
    node = ok(cu.cuGraphAddMemsetNode(graph, None, 0, params(1, 0), board.context))
    executable = board.instantiate(graph)
    ok(cu.cuGraphLaunch(executable, stream))
    ok(cu.cuGraphExecMemsetNodeSetParams(executable, node, params(2, 4), board.context))
    ok(cu.cuGraphLaunch(executable, stream))
    assert board.read(cell, np.int32, 2).tolist() == [1, 2]
