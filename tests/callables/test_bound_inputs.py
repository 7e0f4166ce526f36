"""``Graph.bind`` and ``replay(inputs=...)``."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import graphcap

xp = graphcap.array_namespace("cpu")


@pytest.fixture
def bound() -> tuple[graphcap.Graph, Any, Any]:
    """A graph of y = 2 x, with x bound."""
    x = xp.ones(3)
    with graphcap.capture("cpu") as graph:
        y = x * 2.0
    graph.bind(x=x)
    return graph, x, y


def test_new_contents(bound: tuple[graphcap.Graph, Any, Any]) -> None:
    """Copied in and replayed, on the current stream or another; from plain arrays and from the namespace's."""
    graph, x, y = bound
    graph.replay(inputs={"x": np.full(3, 5.0)})
    assert np.array_equal(np.asarray(y), [10.0] * 3)
    graph.replay(graphcap.Stream("cpu"), inputs={"x": xp.full(3, 6.0)})
    assert np.array_equal(np.asarray(y), [12.0] * 3)
    graph.replay(inputs={"x": x})
    graph.replay(inputs={})
    assert np.array_equal(np.asarray(y), [12.0] * 3)


@pytest.mark.parametrize(
    ("inputs", "error"),
    [
        ({"z": np.ones(3)}, ValueError),
        ({"x": np.ones(4)}, ValueError),
        ({"x": np.ones(3, "f4")}, ValueError),
        ({"x": [1.0, 2.0, 3.0]}, TypeError),
        ({"x": np.full(3, 9.0), "z": np.ones(3)}, ValueError),
    ],
)
def test_refused_inputs_change_nothing(
    bound: tuple[graphcap.Graph, Any, Any], inputs: dict[str, Any], error: type[Exception]
) -> None:
    """A wrong name, shape, dtype or type: a clear error, and nothing was copied."""
    graph, x, _ = bound
    with pytest.raises(error, match=r"replay\(inputs=...\)"):
        graph.replay(inputs=inputs)
    assert np.array_equal(np.asarray(x), np.ones(3))


def test_not_while_capturing(bound: tuple[graphcap.Graph, Any, Any]) -> None:
    """The replay is refused before anything is recorded."""
    graph, x, _ = bound
    other = graphcap.Graph("cpu")
    with pytest.raises(graphcap.CaptureForbiddenError), graphcap.Stream("cpu"), other:
        graph.replay(inputs={"x": np.zeros(3)})
    assert np.array_equal(np.asarray(x), np.ones(3))


def test_bound_arrays_live_as_long_as_the_graph() -> None:
    """And are let go by reset()."""
    x = xp.ones(3)
    graph = graphcap.Graph("cpu")
    with graphcap.Stream("cpu"), graph:
        y = x + 1.0
    graph.bind(x=x)
    alive = weakref.ref(x)
    del x
    graph.replay(inputs={"x": np.full(3, 4.0)})
    assert np.array_equal(np.asarray(y), [5.0] * 3)
    graph.reset()
    assert alive() is None


def test_only_arrays_can_be_bound() -> None:
    """Nothing is bound when one of several is refused."""
    x = xp.ones(3)
    with graphcap.capture("cpu") as graph:
        x * 2.0
    with pytest.raises(TypeError, match="list is no array of cpu"):
        graph.bind(x=x, y=[1])
    with pytest.raises(ValueError, match="bound: none"):
        graph.replay(inputs={"x": x})
