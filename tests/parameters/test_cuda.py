"""Parameters on CUDA: which nodes are given new parameters, by which driver calls, and when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphcap
from tests.cuda import kit


def graph_of(a: Any, out: Any, x: Any, y: Any, **options: Any) -> graphcap.Graph:
    """``out = a * x + y``, four items."""
    graph = graphcap.Graph("cuda", **options)
    stream = kit.make_stream()
    with stream, graph:
        stream.launch(kit.kernel("axpy_to"), 1, 4, out, a, x, y, np.int32(4))
    return graph


@pytest.fixture
def memory() -> tuple[Any, Any, Any]:
    return kit.device(np.zeros(4)), kit.device([1, 2, 3, 4]), kit.device([1, 1, 1, 1])


def test_a_python_number_takes_the_size_of_the_kernels_parameter(memory: tuple[Any, Any, Any]) -> None:
    """A weak parameter is a float there; too large for a float is refused, by the argument's place."""
    out, x, y = memory
    a = graphcap.parameter(2.0, name="a")
    graph = graph_of(a, out, x, y)
    for value in (2.0, 0.1, 3):
        graph.replay(inputs={"a": value})
        np.testing.assert_array_equal(kit.host(out), np.float32(value) * kit.host(x) + 1)
    with pytest.raises(OverflowError, match=r"a in argument 1 of kernel 'axpy_to'"):
        a.value = 1e39


@pytest.mark.parametrize(
    ("value", "new", "bad"),
    [(1, -3, 300), (200, 255, 256)],
)
def test_every_size_of_argument(value: int, new: int, bad: int) -> None:
    """A char, a short, an int, a long long, a float and a double, each a parameter; integers by size, signed or not."""
    out = kit.device(np.zeros(6), np.float64)
    ps = [graphcap.parameter(value, name=name) for name in "bhiq"]
    f, d = graphcap.parameter(0.5, name="f"), graphcap.parameter(0.1, name="d")
    graph = graphcap.Graph("cuda")
    stream = kit.make_stream()
    with stream, graph:
        stream.launch(kit.kernel("store_all"), 1, 1, out, *ps, f, d)
    graph.replay()
    graph.replay(inputs={**dict.fromkeys("bhiq", new), "f": 0.1, "d": 1e300})
    signed = new - 256 if new > 127 else new
    assert list(kit.host(out, np.float64)) == [signed, new, new, new, float(np.float32(0.1)), 1e300]
    with pytest.raises(OverflowError, match="b in argument 1"):
        graph.replay(inputs={"b": bad})


def test_a_fill_of_wide_items() -> None:
    """Eight bytes: each half is a node, and each gets its word; values of any bits."""
    x = kit.device(np.zeros(5), np.float64)
    v = graphcap.parameter(0.0, name="v")
    graph = graphcap.Graph("cuda", keep_graph=True)
    stream = kit.make_stream()
    with stream, graph:
        stream.fill(x, v)
    assert [node.params["parameters"] for node in graph.topology().nodes] == [("v",), ("v",)]
    for value in (0.0, 0.1, -2.5e300, 1.0):
        graph.replay(inputs={"v": value})
        assert (kit.host(x, np.float64) == value).all()


def test_set_args_takes_the_node_over(memory: tuple[Any, Any, Any]) -> None:
    """New arguments without the parameter end its say; with another one, that one has it."""
    out, x, y = memory
    a, b = graphcap.parameter(np.float32(2), name="a"), graphcap.parameter(np.float32(5), name="b")
    graph = graph_of(a, out, x, y, keep_graph=True)
    graph.replay()
    node = graph.node(0)
    node.set_args(out, np.float32(7), x, y, np.int32(4))
    a.value = 3
    graph.replay()
    np.testing.assert_array_equal(kit.host(out), [8, 15, 22, 29])
    assert not graph.parameters
    node.set_args(out, b, x, y, np.int32(2), block=2)
    graph.replay(inputs={"b": 1})
    np.testing.assert_array_equal(kit.host(out), [2, 3, 22, 29])


def test_update_takes_the_other_graphs_parameters_over(memory: tuple[Any, Any, Any]) -> None:
    """Its values at once, and its parameters from then on; a graph without a template cannot take them."""
    out, x, y = memory
    a, b = graphcap.parameter(np.float32(2), name="a"), graphcap.parameter(np.float32(5), name="b")
    graph, other = graph_of(a, out, x, y, keep_graph=True), graph_of(b, out, y, x, keep_graph=True)
    graph.replay()
    graph.update(other)
    graph.replay()
    np.testing.assert_array_equal(kit.host(out), 5 + kit.host(x))
    assert graph.parameters == {"b": b}
    b.value = 1
    graph.replay()
    np.testing.assert_array_equal(kit.host(out), 1 + kit.host(x))
    plain = graph_of(np.float32(1), out, x, y)
    with pytest.raises(graphcap.GraphUpdateError, match="keep_graph=True"):
        plain.update(other)


def test_in_a_conditional_body_it_is_refused(memory: tuple[Any, Any, Any]) -> None:
    """The driver cannot change a body's nodes: told at the launch, and the body can go on with a number."""
    out, x, y = memory
    a = graphcap.parameter(np.float32(2), name="a")
    stream = kit.make_stream()
    graph = graphcap.Graph("cuda")
    with stream, graph:
        condition = stream.condition(1)
        with stream.if_(condition) as body:
            with pytest.raises(graphcap.UnsupportedError, match="the body of a conditional node"):
                body.launch(kit.kernel("axpy_to"), 1, 4, out, a, x, y, np.int32(4))
            body.launch(kit.kernel("axpy_to"), 1, 4, out, np.float32(3), x, y, np.int32(4))
    graph.replay()
    np.testing.assert_array_equal(kit.host(out), [4, 7, 10, 13])


def test_replays_without_a_change_stay_thin(memory: tuple[Any, Any, Any]) -> None:
    """After a change the quick replay is armed again, and no node is given parameters without need."""
    from graphcap.backends.cuda import _graph_calls

    out, x, y = memory
    a = graphcap.parameter(np.float32(2), name="a")
    graph = graph_of(a, out, x, y)
    calls: list[int] = []
    real = _graph_calls.set_kernel_params

    def counted(*given: Any) -> None:
        calls.append(1)
        real(*given)

    with kit.make_stream(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(_graph_calls, "set_kernel_params", counted)
        for value in (2, 3, 3, 4):
            a.value = value
            graph.replay()
            graph.replay()
            graph.replay()
    assert len(calls) <= 3
    np.testing.assert_array_equal(kit.host(out), 4 * kit.host(x) + 1)


def test_the_pools_temporaries_are_not_held() -> None:
    """What remembers a launch remembers addresses, not buffers."""
    a = graphcap.parameter(np.float32(2), name="a")
    x = kit.device(np.ones(4))
    graph = graphcap.Graph("cuda")
    stream = kit.make_stream()
    places = set()
    with stream, graph:
        for _ in range(3):
            temporary = stream.allocate(16)
            places.add(temporary.ptr)
            stream.launch(kit.kernel("axpy_to"), 1, 4, temporary, a, x, x, np.int32(4))
            del temporary
    assert len(places) == 1


def test_a_refused_change_is_tried_again(memory: tuple[Any, Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that refuses once: told as an update error; the next replay has the value."""
    from graphcap.backends.cuda import _graph_calls

    out, x, y = memory
    a = graphcap.parameter(np.float32(2), name="a")
    graph = graph_of(a, out, x, y)
    graph.replay()
    a.value = 5

    def refuse(*given: Any) -> None:
        raise graphcap.DriverError("cuGraphExecKernelNodeSetParams", 1, "CUDA_ERROR_INVALID_VALUE")

    with monkeypatch.context() as patch:
        patch.setattr(_graph_calls, "set_kernel_params", refuse)
        with pytest.raises(graphcap.GraphUpdateError, match="a new value of a parameter"):
            graph.replay()
    graph.replay()
    np.testing.assert_array_equal(kit.host(out), 5 * kit.host(x) + 1)
