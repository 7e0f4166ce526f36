"""A backend that cannot tell what its nodes use says so where that is asked; all else works."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.backends.cpu.graph import CPUGraphImpl
from graphcap.backends.lifetimes import PointerUse
from graphcap.testing.case import N, vector


class _Silent(CPUGraphImpl):
    """The CPU, but nobody tells what the nodes use."""

    def _pointers(self) -> Iterable[PointerUse] | None:  # type: ignore[override]  # as in the base class
        return None

    def _pool_uses(self, uses: object) -> None:
        assert uses is None


@pytest.fixture
def device() -> Iterator[str]:
    graphcap.register_graph_impl("silent", _Silent)
    yield "silent"
    graphcap.unregister_graph_impl("silent")


def test_what_cannot_be_told_is_not_said_to_be_well(device: str) -> None:
    out = np.zeros(N, np.float32)
    graph = graphcap.Graph(device)
    make: Any = graphcap.Stream  # to type checkers it is an abstract class; calling it builds the backend's own
    stream = make("cpu")
    with stream, graph:
        stream.copy(out, vector(1))
    graph.replay()
    np.testing.assert_array_equal(out, vector(1))
    with pytest.raises(graphcap.UnsupportedError, match="pointers of nodes"):
        graphcap.check_pool_order([graph])
    strict = graphcap.Graph(device, lifetimes="strict")
    with pytest.raises(graphcap.UnsupportedError, match="strict capture"), stream, strict:
        stream.copy(out, vector(1))
    with pytest.raises(graphcap.GraphStateError):
        strict.replay()
