"""Graph algorithms over edge arrays. Nothing recurses: a capture may be a chain of a million nodes.

A graph is ``n`` (vertices are positions ``0 .. n-1``) and two equally long arrays, sources and targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Adjacency", "IntArray", "ancestors_bits", "find_cycle", "longest_path", "order_and_levels", "search"]

IntArray: TypeAlias = NDArray[np.int64]


class Adjacency:
    """The neighbours of every vertex in one direction, as one flat list with offsets, in the order of the edges."""

    __slots__ = ("_flat", "_offsets")

    def __init__(self, n: int, keys: IntArray, values: IntArray) -> None:
        by_key = np.argsort(keys, kind="stable")
        self._flat: list[int] = values[by_key].tolist()
        offsets = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(np.bincount(keys, minlength=n)[:n], out=offsets[1:])
        self._offsets: list[int] = offsets.tolist()

    def __getitem__(self, vertex: int) -> list[int]:
        return self._flat[self._offsets[vertex] : self._offsets[vertex + 1]]

    def degree(self, vertex: int) -> int:
        """Return the number of neighbours."""
        return self._offsets[vertex + 1] - self._offsets[vertex]


def order_and_levels(n: int, successors: Adjacency, targets: IntArray) -> tuple[list[int], list[int]]:
    """Return an order that follows every edge, and each vertex's level (its longest distance from a root).

    Ties are settled by position, so the order is the same on every run. Vertices on or behind a cycle are in
    neither: the order is then shorter than ``n``.
    """
    waiting: list[int] = np.bincount(targets, minlength=n).tolist()
    levels = [0] * n
    order = [vertex for vertex in range(n) if not waiting[vertex]]
    for vertex in order:  # grows while it is walked
        level = levels[vertex] + 1
        for target in successors[vertex]:
            if levels[target] < level:
                levels[target] = level
            waiting[target] -= 1
            if not waiting[target]:
                order.append(target)
    return order, levels


def find_cycle(n: int, predecessors: Adjacency, order: Sequence[int]) -> list[int]:
    """Return the vertices of one cycle in edge direction, given the incomplete order; empty where there is none."""
    settled = bytearray(n)
    for vertex in order:
        settled[vertex] = 1
    start = settled.find(0)
    if start < 0:
        return []
    # Every unsettled vertex has an unsettled predecessor, so walking backwards must come round.
    place: dict[int, int] = {}
    walk: list[int] = []
    vertex = start
    while vertex not in place:
        place[vertex] = len(walk)
        walk.append(vertex)
        vertex = next(p for p in predecessors[vertex] if not settled[p])
    return walk[place[vertex] :][::-1]


def longest_path(
    order: Sequence[int], predecessors: Adjacency, weight: Callable[[int], float]
) -> tuple[list[int], float]:
    """Return the path whose weights add up to most, and that sum. Weights must not be negative."""
    best: dict[int, float] = {}
    came_from: dict[int, int] = {}
    end, longest = -1, -1.0
    for vertex in order:
        before, length = -1, 0.0
        for p in predecessors[vertex]:
            if before < 0 or best[p] > length:
                before, length = p, best[p]
        total = length + weight(vertex)
        best[vertex] = total
        came_from[vertex] = before
        if total > longest:
            end, longest = vertex, total
    path: list[int] = []
    while end >= 0:
        path.append(end)
        end = came_from[end]
    return path[::-1], max(longest, 0.0)


def search(start: int, goal: int, successors: Adjacency, levels: Sequence[int] | None) -> list[int]:
    """Return a shortest path from start to goal, both included; empty where there is none.

    ``levels`` prunes what lies at or past the goal's level; ``None`` searches a graph with cycles.
    """
    if start == goal:
        return [start]
    came_from = {start: -1}
    frontier = [start]
    limit = None if levels is None else levels[goal]
    for vertex in frontier:  # grows while it is walked
        for target in successors[vertex]:
            if target == goal:
                path = [goal]
                while vertex >= 0:
                    path.append(vertex)
                    vertex = came_from[vertex]
                return path[::-1]
            if target not in came_from and (limit is None or levels is None or levels[target] < limit):
                came_from[target] = vertex
                frontier.append(target)
    return []


def ancestors_bits(order: Sequence[int], predecessors: Adjacency) -> Iterator[tuple[int, int]]:
    """Yield each vertex with the set of its ancestors as the bits of an int, in order. n*n/8 bytes in all."""
    bits: dict[int, int] = {}
    for vertex in order:
        known = 0
        for p in predecessors[vertex]:
            known |= bits[p] | (1 << p)
        bits[vertex] = known
        yield vertex, known
