"""The pool of a graph that was replayed in strips shows that intermediates are not stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.backends.cpu.native import unavailable_reason, walker

pytestmark = pytest.mark.skipif(walker() is None, reason=unavailable_reason() or "-")

xp = graphcap.array_namespace("cpu")
SIZE = 3_000_000  # 24 MB each: every array has a segment of its own


def reserved(graph: graphcap.Graph) -> int:
    """Bytes that the graph's pool holds."""
    found: int = graphcap.memory_stats("cpu")["pools"][graph.pool()]["reserved_bytes.current"]
    return found


def program(x: Any) -> Any:
    """Four intermediates, all alive when the result is made."""
    a = x * 2.0
    b = x + a
    c = a * b
    return (a + b) * c


@pytest.mark.parametrize("keep_graph", [True, False])
def test_pool_without_dead_intermediates(keep_graph: bool) -> None:
    """With the template gone only the result needs memory; a template that may be instantiated again keeps all."""
    x = xp.ones(SIZE)
    graph = graphcap.Graph("cpu", keep_graph=keep_graph)
    with graphcap.Stream("cpu"), graph:
        result = program(x)
    segment = 24 << 20
    assert reserved(graph) == (5 * segment if keep_graph else segment)
    for value in (1.0, 3.0):
        x[:] = value
        graph.replay()
        assert (np.asarray(result) == program(np.full(3, value))[0]).all()


def test_memory_that_numpy_itself_uses_stays() -> None:
    """An intermediate that a reduction reads is stored, and so is one that a view reads."""
    x = xp.ones(SIZE)
    graph = graphcap.Graph("cpu")
    with graphcap.Stream("cpu"), graph:
        total = (x * 2.0).sum()
        shifted = (x + 1.0)[1:] * 3.0
    x[:] = 5.0
    graph.replay()
    assert float(np.asarray(total)) == 10.0 * SIZE
    assert (np.asarray(shifted) == 18.0).all()


def test_a_shared_pool_is_not_trimmed() -> None:
    """Another graph's nodes may use memory that no block holds."""
    x = xp.ones(SIZE)
    first = graphcap.Graph("cpu")
    with graphcap.Stream("cpu"), first:
        one = program(x)
    second = graphcap.Graph("cpu", pool=first)
    with graphcap.Stream("cpu"), second:
        two = program(x) + one
    before = reserved(first)
    first.replay()
    second.replay()
    wanted = program(np.ones(3))[0]
    assert (np.asarray(one) == wanted).all()
    assert (np.asarray(two) == 2 * wanted).all()
    assert reserved(first) == before
