"""Folding: a sequence of nodes that repeats (a network's layers) becomes one node that holds it once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphcap.topology import Edge, GraphTopology, Node, NodeId, NodeKind, is_address

__all__ = ["fold_repeats"]

_MAX_ATTEMPTS = 200  # sequences whose wiring is compared; the best are tried first
_MAX_WORK = 20_000_000  # comparisons; bounds the longest period that is tried on very large graphs


def _signatures(nodes: tuple[Node, ...]) -> NDArray[np.int64]:
    """Number nodes so that equal numbers mean equal work: kind, name, parameters without addresses, graphs."""
    known: dict[Any, int] = {}
    numbers = [
        known.setdefault(
            (
                node.kind,
                node.name,
                tuple(sorted((k, repr(v)) for k, v in node.params.items() if not is_address(k))),
                node.graphs,
            ),
            len(known),
        )
        for node in nodes
    ]
    return np.array(numbers, dtype=np.int64)


def _runs(signs: NDArray[np.int64], shortest: int) -> list[tuple[int, int, int]]:
    """Return (saved nodes, start, period) of every run of at least two equal periods, best first."""
    n = len(signs)
    found: list[tuple[int, int, int]] = []
    for period in range(1, min(n // 2, max(_MAX_WORK // max(n, 1), 64)) + 1):
        same = np.flatnonzero(np.diff(np.concatenate(([0], (signs[:-period] == signs[period:]).view(np.int8), [0]))))
        for begin, end in zip(same[::2].tolist(), same[1::2].tolist(), strict=True):
            repeats = (end - begin) // period + 1
            if repeats >= 2 and repeats * period >= shortest:
                found.append(((repeats - 1) * period, begin, period))
    # The most saved first; among equals the shortest period (a layer, not a pair of layers).
    found.sort(key=lambda run: (-run[0], run[2], run[1]))
    return found


def _equal_wiring(start: int, period: int, repeats: int, edges: list[tuple[int, int]]) -> bool:
    """Whether every repeat is wired inside as the first one is."""
    inside: list[set[tuple[int, int]]] = [set() for _ in range(repeats)]
    for a, b in edges:
        ra, rb = (a - start) // period, (b - start) // period
        if ra == rb and 0 <= ra < repeats:
            inside[ra].add((a - start - ra * period, b - start - ra * period))
    return all(wiring == inside[0] for wiring in inside)


def fold_repeats(topology: GraphTopology, *, shortest: int = 4) -> GraphTopology:
    """Return the graph with repeated sequences of its own nodes folded.

    Parameters
    ----------
    topology
        The graph; a graph whose edges run in a circle is returned as it is.
    shortest
        The fewest nodes that a repeated sequence must cover altogether.

    Returns
    -------
    GraphTopology
        Each folded sequence is a node of kind ``child_graph`` named ``… x REPEATS`` with the parameter ``repeats``,
        which holds a nested graph of one repeat. Addresses are ignored when repeats are compared; the nested graph
        shows the first repeat's. Order between folded nodes and the others is kept.
    """
    if not topology.is_acyclic or topology.undeclared:
        return topology
    nodes = topology.topological_order()
    position = {node.id: i for i, node in enumerate(nodes)}
    edges = [(position[e.source], position[e.target]) for e in topology.edges]
    group = list(range(len(nodes)))  # position -> position of the node that stands for it
    taken = np.zeros(len(nodes), dtype=bool)
    folded: dict[int, tuple[int, int]] = {}
    for saved, start, period in _runs(_signatures(nodes), shortest)[:_MAX_ATTEMPTS]:
        repeats = saved // period + 1
        stop = start + period * repeats
        if taken[start:stop].any() or not _equal_wiring(start, period, repeats, edges):
            continue
        taken[start:stop] = True
        group[start:stop] = [start] * (stop - start)
        folded[start] = (period, repeats)
    if not folded:
        return topology

    graphs = dict(topology.graphs)
    kept: list[Node] = []
    for i, node in enumerate(nodes):
        if i in folded:
            period, repeats = folded[i]
            name = f"repeat_{len(graphs) - len(topology.graphs) + 1}"
            while name in graphs or name == topology.name:
                name += "_"
            inside = nodes[i : i + period]
            within = [Edge(nodes[a].id, nodes[b].id) for a, b in edges if i <= a < i + period and i <= b < i + period]
            graphs[name] = GraphTopology(inside, dict.fromkeys(within), name=name, origin=topology.origin)
            title = f"{inside[0].title()} … x {repeats}" if period > 1 else f"{inside[0].title()} x {repeats}"
            kept.append(Node(node.id, NodeKind.CHILD_GRAPH, title, {"repeats": repeats}, (name,)))
        elif group[i] == i:
            kept.append(node)
    ends: dict[tuple[NodeId, NodeId], Edge] = {}
    for edge in topology.edges:
        a, b = nodes[group[position[edge.source]]].id, nodes[group[position[edge.target]]].id
        if a != b:
            ends.setdefault((a, b), Edge(a, b, *edge[2:]))
    return GraphTopology(kept, ends.values(), graphs=graphs, name=topology.name, origin=topology.origin)
