"""CuPy's views as new inputs: strided ones, and ones that overlap what they are copied into."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphcap

VIEWS: dict[str, Any] = {
    "whole": lambda x: x,
    "transposed": lambda x: x.T.copy().T,
    "every second": lambda x: x[:, ::2],
    "backwards": lambda x: x[::-1],
    "a column more": lambda x: x[:, 1:],
    "broadcast": lambda x: x[:1] + 0 * x,
}


@pytest.mark.parametrize("name", VIEWS)
def test_strided_views_as_arguments(cp: Any, name: str) -> None:
    """A graphed callable takes them as the function does, at its capture and at its replays."""
    graphed = graphcap.make_graphed_callable(lambda x: x * 2 + 1, device="cuda")
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    view = VIEWS[name]
    for turn in range(3):
        np.testing.assert_array_equal(cp.asnumpy(graphed(view(cp.asarray(host + turn)))), view(host + turn) * 2 + 1)
    other = np.ascontiguousarray(view(host) * 9)
    np.testing.assert_array_equal(cp.asnumpy(graphed(cp.asarray(other))), other * 2 + 1)
    assert graphed.captures == 1


@pytest.mark.parametrize("view", [lambda x: x[1:], lambda x: x[6:0:-1], lambda x: x[1:].copy()])
def test_a_bound_view_takes_what_overlaps_it(cp: Any, view: Any) -> None:
    host = np.arange(7, dtype=np.float32)
    x = cp.asarray(host)
    part = x[:6]
    with graphcap.capture("cuda") as graph:
        y = part * 2
    graph.bind(x=part)
    graph.replay(inputs={"x": view(x)})
    graphcap.synchronize("cuda")
    np.testing.assert_array_equal(cp.asnumpy(y), view(host) * 2)


def test_bound_arrays_change_places(cp: Any) -> None:
    x, y = cp.full(5, 1, np.float32), cp.full(5, 2, np.float32)
    with graphcap.capture("cuda") as graph:
        difference = x - y
    graph.bind(x=x, y=y)
    graph.replay(inputs={"x": y, "y": x})
    graphcap.synchronize("cuda")
    assert (cp.asnumpy(difference) == 1).all()


def test_a_strided_result_of_a_step(cp: Any) -> None:
    """An eager step that gives a strided array where it first gave a contiguous one, and the other way round."""
    x, turns = cp.arange(6, dtype=np.float32).reshape(2, 3), []

    def turn(x: Any) -> Any:
        float(x[0, 0])
        turns.append(1)
        return x.T.copy().T if len(turns) % 2 else x.copy()

    with graphcap.capture("cuda", on_forbidden="split") as graph:
        y = graph.step(lambda x: x + 1, graph.step(turn, x))
    for value in (1, 2, 3):
        x[...] = cp.arange(6, dtype=np.float32).reshape(2, 3) * value
        cp.cuda.Device().synchronize()
        graph.replay()
        graphcap.synchronize("cuda")
        np.testing.assert_array_equal(cp.asnumpy(y), np.arange(6).reshape(2, 3) * value + 1)


def test_a_bound_column(cp: Any) -> None:
    table = cp.zeros((4, 3), np.float32)
    with graphcap.capture("cuda") as graph:
        y = table.sum(axis=0)
    graph.bind(middle=table[:, 1])
    for value in (3, 4):
        graph.replay(inputs={"middle": cp.full(4, value, np.float32)})
        graphcap.synchronize("cuda")
        np.testing.assert_array_equal(cp.asnumpy(y), [0, 4 * value, 0])
