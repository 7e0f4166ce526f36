"""Where the nodes of a picture stand: one row for each level, neighbours near each other. Linear in the graph."""

from __future__ import annotations

from collections.abc import Sequence

from graphcap.topology import GraphTopology

__all__ = ["place"]

_SWEEPS = 4


def place(graph: GraphTopology) -> tuple[list[tuple[float, float]], float, float]:
    """Return the position of every vertex (nodes, then undeclared ids) in columns and rows, and the extent in both.

    Rows are levels, so every edge points down. Inside a row, nodes are put near the mean of their neighbours, in a few
    sweeps down and up.
    """
    n = len(graph.nodes) + len(graph.undeclared)
    sources, targets = (array.tolist() for array in graph.edge_arrays)
    level = _levels(graph, n)
    rows: list[list[int]] = [[] for _ in range(max(level, default=-1) + 1)]
    for vertex in range(n):
        rows[level[vertex]].append(vertex)
    before: list[list[int]] = [[] for _ in range(n)]
    after: list[list[int]] = [[] for _ in range(n)]
    for a, b in zip(sources, targets, strict=True):
        before[b].append(a)
        after[a].append(b)
    column = [0.0] * n
    for row in rows:
        _spread(row, column)
    for sweep in range(_SWEEPS):
        near, order = (before, rows) if sweep % 2 == 0 else (after, rows[::-1])
        for row in order:
            if len(row) > 1 or sweep == 0:
                wish = {v: sum(column[u] for u in near[v]) / len(near[v]) if near[v] else column[v] for v in row}
                row.sort(key=lambda v: (wish[v], v))
                middle = sum(wish.values()) / len(row)
                _spread(row, column, middle)
    left = min(column, default=0.0)
    places = [(column[v] - left, float(level[v])) for v in range(n)]
    return places, max((x for x, _ in places), default=0.0), float(max(len(rows) - 1, 0))


def _spread(row: Sequence[int], column: list[float], middle: float = 0.0) -> None:
    for i, vertex in enumerate(row):
        column[vertex] = middle + i - (len(row) - 1) / 2


def _levels(graph: GraphTopology, n: int) -> list[int]:
    if graph.is_acyclic:
        level = [0] * n
        ids = {id_: i for i, id_ in enumerate([*(node.id for node in graph.nodes), *graph.undeclared])}
        for depth, nodes in enumerate(graph.levels()):
            for node in nodes:
                level[ids[node.id]] = depth
        return level
    side = max(1, int(n**0.5))
    return [i // side for i in range(n)]  # a circle of edges has no levels: a square will do
