"""Many threads over few streams: no deadlock between the GIL, SYCL's locks, the lanes and the memory manager."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import graphcap
from graphcap.backends.xpu import kernels

COUNT = 128
ROUNDS = 15


def run_together(*works: Callable[[], None]) -> None:
    """Run each on a thread of its own; raise the first failure."""
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # handed to the calling thread, whatever it is
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]


def test_captures_replays_and_memory_on_many_threads(device: str, stream: Any) -> None:
    """Each thread captures and replays its own program, with host calls that allocate Python objects; another one collects
    garbage, waits for streams and empties the cache all the time."""
    backend = stream.backend
    stop = threading.Event()
    kernel = kernels.load(stream, "arithmetic", "add_scalar_i32")

    def program() -> None:
        own = backend.create_stream(0)
        x = own.allocate(4 * COUNT)
        out = np.empty(COUNT, np.int32)
        calls: list[list[int]] = []
        for turn in range(1, ROUNDS + 1):
            graph = graphcap.Graph(device)
            own.fill(x, 0)
            with own, graph:
                for _ in range(5):
                    inner = own.allocate(4 * COUNT)
                    own.copy(inner, x)
                    own.launch(kernel, [inner, np.int32(turn), np.uint64(COUNT)], COUNT)
                    own.copy(x, inner)
                    own.host_call(lambda: calls.append(list(range(50))))
            for _ in range(3):
                graph.replay(own)
            own.copy(out, x)
            own.synchronize()
            assert (out == 15 * turn).all()
        assert len(calls) == ROUNDS * 15

    def disturb() -> None:
        own = backend.create_stream(0)
        while not stop.is_set():
            gc.collect()
            own.host_call(gc.collect)
            own.synchronize()
            graphcap.empty_cache(device)
            graphcap.memory_stats(device)

    def programs() -> None:
        try:
            run_together(program, program, program)
        finally:
            stop.set()

    run_together(programs, disturb)


def test_one_stream_fed_by_many_threads(device: str, stream: Any) -> None:
    """Work from several threads to one capturing stream is recorded once each, in some order (E-13)."""
    x = stream.allocate(4 * COUNT, "shared")
    view = np.asarray(x).view(np.int32)
    view[:] = 0
    kernel = kernels.load(stream, "arithmetic", "add_scalar_i32")
    graph = graphcap.Graph(device, keep_graph=True)
    graph.enable_debug_mode()

    def feed() -> None:
        for _ in range(50):
            stream.launch(kernel, [x, np.int32(1), np.uint64(COUNT)], COUNT)

    with stream, graph:
        run_together(feed, feed, feed, feed)
    topology = graph.topology()
    assert len(topology.nodes) == topology.depth == 200
    graph.replay(stream)
    stream.synchronize()
    np.testing.assert_array_equal(view, 200)


def test_one_graph_replayed_by_many_threads(device: str, stream: Any) -> None:
    """S-D38: replays of one graph from several threads and streams all happen, one after the other."""
    backend = stream.backend
    x = stream.allocate(4 * COUNT, "shared")
    view = np.asarray(x).view(np.int32)
    view[:] = 0
    kernel = kernels.load(stream, "arithmetic", "add_scalar_i32")
    graph = graphcap.Graph(device)
    with stream, graph:
        for _ in range(4):
            stream.launch(kernel, [x, np.int32(1), np.uint64(COUNT)], COUNT)

    def replay() -> None:
        own = backend.create_stream(0)
        for _ in range(40):
            graph.replay(own)

    run_together(replay, replay, replay)
    graphcap.synchronize(device)
    np.testing.assert_array_equal(view, 3 * 40 * 4)


def test_one_kernel_object_in_captures_on_many_threads(device: str, stream: Any) -> None:
    """SYCL sets a kernel object's arguments when it finalizes a graph; another thread's use of the object must not meet it.

    Found as lost additions: each graph replayed with the arguments of another thread's node.
    """
    backend = stream.backend
    kernel = kernels.load(stream, "arithmetic", "add_scalar_i32")

    def program() -> None:
        own = backend.create_stream(0)
        x = own.allocate(4 * COUNT)
        out = np.empty(COUNT, np.int32)
        for _ in range(20):
            own.fill(x, 0)
            graph = graphcap.Graph(device)
            with own, graph:
                for _ in range(40):
                    own.launch(kernel, [x, np.int32(1), np.uint64(COUNT)], COUNT)
            graph.replay(own)
            own.copy(out, x)
            own.synchronize()
            assert (out == 40).all()

    run_together(program, program, program)
