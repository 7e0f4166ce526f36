"""Where arrays live, how long, and what a capture does with memory of arrays that are dropped."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import graphcap

from .harness import make_stream, xp


def allocated() -> int:
    return int(graphcap.memory_stats("cpu")["allocated_bytes.current"])


def step(a: Any) -> Any:
    b = np.sin(a) * 2
    b[1:-1] += a[2:]
    return np.where(b > 0, b, 0.0).sum(axis=0), np.stack([a, b])


def captured() -> tuple[Any, Any, Any]:
    data = np.random.default_rng(0).normal(size=(50, 20))
    with graphcap.capture("cpu") as graph:
        a = xp.asarray(data)
        b = np.sin(a)
        b[1:-1] += a[2:]
        result = np.where(b > 0, b, 0.0).sum(axis=0), np.stack([a, b])
    return graph, data, result


@pytest.fixture(autouse=True)
def _settled() -> None:
    gc.collect()


def test_memory_is_back_when_the_last_view_dies() -> None:
    start = allocated()
    a = xp.zeros((100, 100))
    assert allocated() - start >= 80000
    row = a[3].reshape(10, 10).T
    del a
    assert allocated() - start >= 80000
    plain = np.asarray(row)
    del row
    assert allocated() - start >= 80000
    del plain
    assert allocated() == start


def test_pool_memory_is_back_when_arrays_and_graph_are_gone() -> None:
    graphcap.empty_cache("cpu")
    start = allocated()
    graph, data, result = captured()
    pool = graph.pool()
    assert allocated() > start
    graph.replay()
    del graph
    gc.collect()
    assert np.asarray(result[1])[0].tolist() == data.tolist()  # arrays outlive their graph
    del result
    gc.collect()
    assert allocated() == start
    assert pool.first > 0


def test_a_graph_keeps_what_its_nodes_use() -> None:
    data = np.arange(4.0)
    eager = xp.ones(4) * 2
    alive = weakref.ref(eager)
    with graphcap.capture("cpu") as graph:
        out = xp.asarray(data) + eager
    del data, eager
    gc.collect()
    for _ in range(20):
        xp.full(4, 9.0)
    graph.replay()
    assert np.asarray(out).tolist() == [2, 3, 4, 5]
    del alive


def test_memory_of_dropped_temporaries_is_used_again_within_the_capture() -> None:
    a = xp.asarray(np.ones(1000))
    graph = graphcap.Graph("cpu")
    start = allocated()
    with make_stream("cpu"), graph:
        x = a
        for _ in range(50):
            x = x * 1.5 + a
    assert allocated() - start <= 4 * 8192
    graph.replay()
    want = np.ones(1000)
    for _ in range(50):
        want = want * 1.5 + np.ones(1000)
    assert np.asarray(x).tolist() == want.tolist()


def test_a_hundred_captures_do_not_grow() -> None:
    def once() -> None:
        graph, _, result = captured()
        graph.replay()
        del graph, result  # without cycles: nothing waits for the garbage collector

    once()
    graphcap.empty_cache("cpu")
    before = allocated(), graphcap.memory_stats("cpu")["reserved_bytes.current"]
    for _ in range(100):
        once()
    graphcap.empty_cache("cpu")
    assert (allocated(), graphcap.memory_stats("cpu")["reserved_bytes.current"]) == before


def test_an_exception_in_the_body_leaks_nothing() -> None:
    data = xp.asarray(np.ones(100))
    graph = graphcap.Graph("cpu")

    def fail() -> None:
        with make_stream("cpu"), graph:
            x = data + 1
            x += np.sin(data)
            raise KeyError("body")

    with pytest.raises(KeyError):
        fail()
    gc.collect()
    start = allocated()
    for _ in range(300):
        with pytest.raises(KeyError):
            fail()
    gc.collect()
    assert allocated() == start
    with make_stream("cpu"), graph:
        out = data * 3
    graph.replay()
    assert np.asarray(out).tolist() == [3.0] * 100


def test_captured_arrays_come_from_the_graph_s_pool() -> None:
    with graphcap.capture("cpu") as graph:
        made = xp.zeros(10)
        computed = made + 1
    assert tuple(made._buffer.pool_id) == tuple(graph.pool())
    assert tuple(computed._buffer.pool_id) == tuple(graph.pool())
    assert tuple(xp.zeros(10)._buffer.pool_id) == (0, 0)


def test_fork_uses_an_array_on_another_stream() -> None:
    """The block must not be handed out again in the capture while the other branch may use it (S-C27, S-C28)."""
    data = np.arange(100.0)
    main, side = make_stream("cpu"), make_stream("cpu")
    graph = graphcap.Graph("cpu", keep_graph=True)
    with main, graph:
        a = xp.asarray(data) * 2
        side.wait(main)
        with side:
            b = a + 1
        pointer = a.graphcap_data.__array_interface__["data"][0]
        del a
        c = xp.asarray(data) * 5
        assert c.graphcap_data.__array_interface__["data"][0] != pointer
        main.wait(side)
        out = b + c
    graph.replay()
    assert np.asarray(out).tolist() == (data * 2 + 1 + data * 5).tolist()


def test_an_array_of_an_open_capture_is_of_no_use_outside_it() -> None:
    graph = graphcap.Graph("cpu")
    with make_stream("cpu"), graph:
        a = xp.ones(3)
        with make_stream("cpu"), pytest.raises(graphcap.CaptureIsolationError):
            a + 1
        with make_stream("cpu"), pytest.raises(graphcap.CaptureIsolationError):
            float(a[0])
    graph.replay()
    assert (a + 1).tolist() == [2, 2, 2]


def test_view_of_a_captured_array_in_a_later_capture() -> None:
    first, second = graphcap.Graph("cpu"), graphcap.Graph("cpu")
    data = np.arange(6.0)
    with make_stream("cpu"), first:
        a = xp.asarray(data) + 1
    with make_stream("cpu"), second:
        b = a[::2] * 10
    del a
    first.replay()
    second.replay()
    assert np.asarray(b).tolist() == [10, 30, 50]


def test_object_arrays_stay_with_numpy() -> None:
    data = np.array([1, 2, 3], object)
    with graphcap.capture("cpu") as graph:
        b = xp.asarray(data) * 2
    data[0] = 10
    graph.replay()
    assert np.asarray(b).tolist() == [20, 4, 6]


def test_error_state_of_the_capture_belongs_to_the_node() -> None:
    data = np.ones(3)
    a = xp.asarray(data)
    strict, lax = graphcap.Graph("cpu"), graphcap.Graph("cpu")
    with make_stream("cpu"), strict, np.errstate(divide="raise"):
        1 / a
    with make_stream("cpu"), lax, np.errstate(divide="ignore"):
        out = 1 / a
    data[1] = 0
    with pytest.raises(FloatingPointError) as caught:
        strict.replay()
    assert "divide" in "".join(getattr(caught.value, "__notes__", ["divide"]))
    with np.errstate(divide="raise"):
        lax.replay()
    assert np.asarray(out).tolist() == [1, np.inf, 1]


def test_a_value_error_of_a_replay_names_its_node() -> None:
    matrix = np.eye(2)
    with graphcap.capture("cpu") as graph:
        xp.linalg.inv(xp.asarray(matrix))
    graph.replay()
    matrix[...] = 0
    with pytest.raises(np.linalg.LinAlgError) as caught:
        graph.replay()
    assert any("inv" in note for note in getattr(caught.value, "__notes__", ()))


def test_errors_of_types_and_shapes_come_at_the_call() -> None:
    a, b = xp.asarray(np.ones((3, 4))), xp.asarray(np.ones((5,)))
    with graphcap.capture("cpu") as graph:
        with pytest.raises(ValueError, match="broadcast"):
            a + b
        with pytest.raises(ValueError, match="broadcast"):
            a[...] = b
        with pytest.raises(TypeError):
            np.bitwise_and(a, 1)
        with pytest.raises(OverflowError):
            xp.zeros(3, np.uint8) + 300
        with pytest.raises(ValueError, match="core dimension"):
            a @ b
        with pytest.raises(IndexError):
            a[7]
        out = a + 1
    graph.replay()
    assert np.asarray(out).tolist() == np.full((3, 4), 2.0).tolist()
