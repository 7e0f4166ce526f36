"""100,000 nodes: capture, replay, topology and dump grow linearly and use no recursion."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap import dot

_SMALL, _LARGE = 10_000, 100_000


@pytest.fixture
def shallow() -> Iterator[None]:
    """Little room on the stack: recursion over nodes would not get far."""
    before = sys.getrecursionlimit()
    depth = 0
    frame: Any = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    sys.setrecursionlimit(depth + 120)
    yield
    sys.setrecursionlimit(before)


class _Chain:
    """A capture of `count` kernels, half of them on a forked stream, in one chain of dependencies."""

    def __init__(self, count: int) -> None:
        make: Any = graphcap.Stream
        self.counter = np.zeros(1, np.int64)
        self.count = count
        self.graph = graphcap.Graph("cpu", keep_graph=True)
        self.origin, self.fork = make("cpu"), make("cpu")

    def step(self) -> None:
        self.counter += 1

    def capture(self) -> None:
        with self.origin, self.graph:
            for number in range(self.count // 100):
                one, other = (self.origin, self.fork) if number % 2 else (self.fork, self.origin)
                one.wait(other)
                for _ in range(100):
                    one.launch(self.step)
            self.origin.wait(self.fork)

    def replay(self) -> None:
        self.graph.replay(self.origin)

    def topology(self) -> graphcap.topology.GraphTopology:
        return self.graph.topology()


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def test_hundred_thousand_nodes(shallow: None, tmp_path: Path) -> None:
    """Issue 2: each of the four is linear (within a factor of 3 of that) from 10,000 to 100,000 nodes."""
    times: dict[str, list[float]] = {"capture": [], "replay": [], "topology": [], "dump": []}
    for count in (_SMALL, _LARGE):
        chain = _Chain(count)
        path = tmp_path / f"{count}.dot"
        times["capture"].append(_seconds(chain.capture))
        chain.graph.instantiate()
        times["replay"].append(_seconds(chain.replay))
        assert chain.counter[0] == count
        times["topology"].append(_seconds(lambda chain=chain: chain.topology().depth))  # type: ignore[misc]  # a default binds the loop's value
        times["dump"].append(_seconds(lambda chain=chain, path=path: chain.graph.debug_dump(path)))  # type: ignore[misc]  # as above
        topology = chain.topology()
        assert (len(topology.nodes), topology.depth) == (count, count)
        assert count - 1 <= len(topology.edges) < 1.1 * count  # waits may add edges that others imply (S-D25)
        if count == _SMALL:
            assert len(dot.read(path).nodes) == count
    for what, (small, large) in times.items():
        assert large < 30 * max(small, 0.002), (
            f"{what} took {small:.3f} s for {_SMALL} nodes and {large:.3f} s for {_LARGE}"
        )


def test_deep_graphs_are_dropped_without_recursion(shallow: None) -> None:
    """Issue 2: a chain of 100,000 nodes can be collected."""
    chain = _Chain(_LARGE)
    chain.capture()
    chain.graph.reset()
    del chain
