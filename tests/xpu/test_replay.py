"""Captured work replayed with changing inputs equals NumPy, on both tiers."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphcap
from graphcap.backends.xpu import kernels
from graphcap.topology import NodeKind

COUNT = 257  # odd, so that no group size divides it


def _kernel(stream: Any, name: str) -> Any:
    return kernels.load(stream, "arithmetic", name)


def test_twenty_kernels_a_thousand_times(device: str, stream: Any) -> None:
    """Issue: 20 captured kernels over USM memory, replayed 1,000 times with inputs changed in between, equal NumPy.

    Each replay computes x = 3 * x + y twenty times in wrapping 32-bit integers, so a lost, doubled or reordered node or
    replay changes all later results. The input is changed before every tenth replay, and the results are compared then.
    """
    x = stream.allocate(4 * COUNT)
    y = stream.allocate(4 * COUNT)
    count = np.uint64(COUNT)
    scale, add = _kernel(stream, "scale_i32"), _kernel(stream, "add_i32")
    graph = graphcap.Graph(device, keep_graph=True)
    with stream, graph:
        for _ in range(10):
            stream.launch(scale, [x, np.int32(3), count], COUNT)
            stream.launch(add, [x, x, y, count], COUNT)
    assert graph.topology().counts() == {NodeKind.KERNEL: 20}
    random = np.random.default_rng(7)
    expected = np.zeros(COUNT, np.int32)
    out = np.empty(COUNT, np.int32)
    replays = 0
    while replays < 1000:
        given_x, given_y = (random.integers(-(2**31), 2**31, COUNT, dtype=np.int32) for _ in range(2))
        stream.copy(x, given_x)
        stream.copy(y, given_y)
        expected = given_x.copy()
        for _ in range(10):
            graph.replay(stream)
            replays += 1
            for _ in range(10):
                expected *= np.int32(3)
                expected += given_y
        stream.copy(out, x)
        stream.synchronize()
        np.testing.assert_array_equal(out, expected, err_msg=f"after {replays} replays")
    assert replays == 1000


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["scale", "add", "copy", "fill", "host"]),
        st.integers(0, 3),
        st.integers(0, 3),
        st.integers(-5, 5),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, seed=st.integers(0, 2**16))
@pytest.mark.parametrize("tier", ["xpu", "xpu_software"])
def test_random_programs_over_forks(tier: str, steps: list[tuple[str, int, int, int, int]], seed: int) -> None:
    """Random programs over four arrays and three streams equal the same steps in NumPy, at every replay.

    A step that follows one on another stream waits for it, so the program has one meaning whatever runs side by side.
    """
    from tests.xpu.tiers import register_software_tier

    register_software_tier()
    backend = graphcap.registry.get_backend(tier)
    streams = [backend.create_stream(0) for _ in range(3)]
    origin = streams[0]
    count = np.uint64(COUNT)
    arrays = [origin.allocate(4 * COUNT) for _ in range(4)]
    tally: list[int] = []

    graph = graphcap.Graph(tier)
    with origin, graph:
        last = origin
        origin.host_call(tally.append, 0)  # a copy onto itself is no node, and the graph shall not be empty
        for what, a, b, value, which in steps:
            current: Any = streams[which]
            if current is not last:
                current.wait(last.record())
            if what == "scale":
                current.launch(_kernel(current, "scale_i32"), [arrays[a], np.int32(value), count], COUNT)
            elif what == "add":
                current.launch(_kernel(current, "add_i32"), [arrays[a], arrays[a], arrays[b], count], COUNT)
            elif what == "copy":
                current.copy(arrays[a], arrays[b])
            elif what == "fill":
                current.fill(arrays[a], abs(value))
            else:
                current.host_call(tally.append, value)
            last = current
        if last is not origin:
            origin.wait(last.record())

    random = np.random.default_rng(seed)
    wanted: list[int] = []
    for _ in range(3):
        state = [random.integers(-(2**31), 2**31, COUNT, dtype=np.int32) for _ in arrays]
        for buffer, values in zip(arrays, state, strict=True):
            origin.copy(buffer, values)
        graph.replay(origin)
        wanted.append(0)
        for what, a, b, value, _ in steps:
            if what == "scale":
                state[a] *= np.int32(value)
            elif what == "add":
                state[a] += state[b].copy()
            elif what == "copy":
                state[a][:] = state[b]
            elif what == "fill":
                state[a][:] = np.frombuffer(bytes([abs(value)] * 4), np.int32)[0]
            else:
                wanted.append(value)
        for buffer, values in zip(arrays, state, strict=True):
            out = np.empty(COUNT, np.int32)
            origin.copy(out, buffer)
            origin.synchronize()
            np.testing.assert_array_equal(out, values)
    assert tally == wanted


def test_replays_of_one_graph_do_not_overlap(device: str, stream: Any) -> None:
    """S-D38: launches of one executable wait for each other, whatever the stream."""
    other: Any = stream.backend.create_stream(0)
    x = stream.allocate(4 * 200_000)
    stream.fill(x, 0)
    count = np.uint64(200_000)
    graph = graphcap.Graph(device)
    with stream, graph:
        for _ in range(5):
            stream.launch(_kernel(stream, "add_scalar_i32"), [x, np.int32(1), count], 200_000)
    stream.synchronize()
    for turn in range(40):
        graph.replay((stream, other)[turn % 2])
    graphcap.synchronize(device)
    out = np.empty(200_000, np.int32)
    stream.copy(out, x)
    stream.synchronize()
    np.testing.assert_array_equal(out, np.full(200_000, 200, np.int32))


def test_drop_with_a_replay_in_flight(device: str, stream: Any) -> None:
    """Rule 12: dropping the graph and everything it uses while it runs is safe; the work is done in full."""
    count = 300_000
    result = np.zeros(count, np.int32)
    source = np.ones(count, np.int32)
    graph = graphcap.Graph(device)
    with stream, graph:
        x = stream.allocate(4 * count)
        stream.copy(x, source)
        for _ in range(20):
            stream.launch(_kernel(stream, "add_scalar_i32"), [x, np.int32(1), np.uint64(count)], count)
        stream.copy(result, x)
    del x, source
    graph.replay(stream)
    graph.reset()
    del graph
    scratch = [stream.allocate(4 * count) for _ in range(4)]  # would take the memory if it were free
    for buffer in scratch:
        stream.backend.create_stream(0).fill(buffer, 0xFF)
    stream.synchronize()
    np.testing.assert_array_equal(result, np.full(count, 21, np.int32))


def test_what_a_replay_in_flight_uses_outlives_the_graph(device: str, stream: Any) -> None:
    """Rule 12: held up in the middle, a replay keeps its memory although graph and owners are gone; then it is let go."""

    class Array(np.ndarray[Any, Any]):
        pass

    gate, result = threading.Event(), np.zeros(4, np.int32)
    source = np.full(4, 5, np.int32).view(Array)
    alive = weakref.ref(source)
    buffer = stream.allocate(16)
    graph = graphcap.Graph(device)
    with stream, graph:
        stream.host_call(gate.wait, 60)
        stream.copy(buffer, source)
        stream.copy(result, buffer)
    graph.replay(stream)
    graph.reset()
    del graph, source, buffer
    gc.collect()
    assert alive() is not None
    gate.set()
    stream.synchronize()
    np.testing.assert_array_equal(result, 5)
    gc.collect()
    assert alive() is None


def test_two_dimensional_range_and_local_memory(device: str, stream: Any) -> None:
    """Local sizes, local memory, and the order of dimensions of a 2-D range (SYCL's: slowest first)."""
    from graphcap.backends.xpu._dpctl import LocalAccessor

    x = np.arange(1024, dtype=np.int32)
    buffer, sums = stream.allocate(x.nbytes), stream.allocate(4 * 16)
    stream.copy(buffer, x)
    rows, columns = 37, 53
    z = np.random.default_rng(0).random((rows, columns), np.float32)
    here, there = stream.allocate(z.nbytes), stream.allocate(z.nbytes)
    stream.copy(here, z)
    graph = graphcap.Graph(device, keep_graph=True)
    diffuse = kernels.load(stream, "terrain", "diffuse_f32")
    with stream, graph:
        scratch = LocalAccessor("i4", (64,))
        stream.launch(_kernel(stream, "group_sum_i32"), [sums, buffer, scratch, np.uint64(1024)], 1024, 64)
        arguments = [there, here, np.float32(0.1), np.float32(0.2), np.uint64(rows), np.uint64(columns)]
        stream.launch(diffuse, arguments, (rows, columns))
    assert graph.topology().nodes[0].params["grid"] == (16,)
    graph.replay(stream)
    found, moved = np.empty(16, np.int32), np.empty_like(z)
    stream.copy(found, sums)
    stream.copy(moved, there)
    stream.synchronize()
    np.testing.assert_array_equal(found, x.reshape(16, 64).sum(axis=1))
    expected = z.copy()
    centre = z[1:-1, 1:-1]
    across, along = z[1:-1, :-2] - 2 * centre + z[1:-1, 2:], z[:-2, 1:-1] - 2 * centre + z[2:, 1:-1]
    expected[1:-1, 1:-1] = centre + np.float32(0.1) * across + np.float32(0.2) * along
    np.testing.assert_array_equal(moved, expected)
