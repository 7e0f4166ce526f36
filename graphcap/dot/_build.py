"""Collecting the nodes and edges of one graph while a file is read, and closing it into a topology."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from graphcap.dot._scan import Report
from graphcap.topology import GraphTopology, Node, NodeId, NodeKind, Source

__all__ = ["EMPTY_CAUSES", "Parts", "close"]

EMPTY_CAUSES = (
    "Usual causes: torch's debug_dump after the graph was instantiated without keep_graph=True or without "
    "enable_debug_mode(); a dump of a capture that recorded nothing; a process that ended before the file was written."
)


class Parts:
    """The statements of one graph, in the order of the file."""

    __slots__ = ("dependencies", "name", "nodes", "offsets", "origin", "places", "positions", "sources", "targets",
                 "undeclared")  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.origin = ""
        self.nodes: list[Node] = []
        self.positions: dict[NodeId, int] = {}
        self.sources: list[NodeId] = []
        self.targets: list[NodeId] = []
        self.places: list[int] = []  # of each dependency in its target's list, where the file tells
        self.offsets: list[int] = []  # of each edge in the file
        self.dependencies: dict[int, tuple[str, int, int]] = {}
        self.undeclared: list[NodeId] = []  # told of by the file itself

    def add_node(self, node: Node) -> bool:
        """Add a node; False (and nothing is added) where its id is taken."""
        if node.id in self.positions:
            return False
        self.positions[node.id] = len(self.nodes)
        self.nodes.append(node)
        return True

    def add_edge(self, source: NodeId, target: NodeId, offset: int, place: int = 0) -> None:
        """Add an edge; its ends may be declared later, or never."""
        self.sources.append(source)
        self.targets.append(target)
        self.places.append(place)
        self.offsets.append(offset)

    def build(self, report: Report, describe: Callable[[NodeId], str]) -> GraphTopology:
        """Return the graph; edges that name no node and repeated edges are reported."""
        positions = dict(self.positions)
        undeclared = list(dict.fromkeys(id_ for id_ in self.undeclared if id_ not in positions))
        for id_ in undeclared:
            positions[id_] = len(positions)
        told = len(undeclared)
        ends: list[list[int]] = []
        for ids in (self.sources, self.targets):
            end = []
            for id_ in ids:
                position = positions.get(id_)
                if position is None:
                    position = positions[id_] = len(positions)
                    undeclared.append(id_)
                end.append(position)
            ends.append(end)
        if len(undeclared) > told:
            names = ", ".join(describe(id_) for id_ in undeclared[told:][:5])
            more = f" and {len(undeclared) - told - 5} more" if len(undeclared) - told > 5 else ""
            report.warn(f"edges name nodes that the file does not declare: {names}{more}")
        sources, targets = (np.array(end, dtype=np.int64) for end in ends)
        keep = self._order(sources, targets, len(positions), report)
        dependencies = self.dependencies
        if dependencies:
            dependencies = {new: dependencies[old] for new, old in enumerate(keep.tolist()) if old in dependencies}
        return GraphTopology.from_arrays(
            self.nodes, sources[keep], targets[keep], dependencies=dependencies, name=self.name, origin=self.origin,
            undeclared=undeclared,
        )  # fmt: skip

    def _order(
        self, sources: NDArray[np.int64], targets: NDArray[np.int64], n: int, report: Report
    ) -> NDArray[np.intp]:
        """The edges to keep: each once, those into one node in the order of its dependencies."""
        count = len(sources)
        keep = np.arange(count)
        if any(self.places):
            # Edges into one node share the slots that they have in the file, in the order of their places.
            slots = np.lexsort((keep, targets))
            keep[slots] = np.lexsort((keep, np.array(self.places), targets))
        if count:
            pairs = sources * n + targets
            _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
            if len(first) < count:
                seen: set[tuple[int, tuple[str, int, int]]] = set()
                repeated: set[int] = set()
                for i, pair in enumerate(inverse.reshape(-1).tolist()):
                    key = (pair, self.dependencies.get(i, ("full", 0, 0)))
                    if key in seen:
                        repeated.add(i)
                        report.warn("the same edge is told again; it counts once", self.offsets[i])
                    seen.add(key)
                keep = np.array([i for i in keep.tolist() if i not in repeated], dtype=keep.dtype)
        return keep


def close(
    parts: Mapping[str, Parts],
    root: str,
    report: Report,
    describe: Callable[[str, NodeId], str],
    source: Callable[[Report], Source],
) -> GraphTopology:
    """Build every graph and put the others beside the root.

    References to graphs that the file does not hold, and references that run in a circle, are reported.
    """
    built = {}
    for name, part in parts.items():
        built[name] = part.build(report, functools.partial(describe, name))
    whole = built.pop(root)
    whole = whole.with_graphs(built) if built else whole
    for name in whole.missing_graphs():
        report.warn(f"{name} is held by a node but is not in this file: its nodes are not counted")
    if not any(graph.nodes for graph in whole.walk()):
        report.warn(f"the graph has no nodes. {EMPTY_CAUSES}")
    circle = _circle(whole)
    if circle:
        report.warn(f"graphs hold themselves by way of each other: {' -> '.join(circle[:8])}")
    return whole.with_warnings(report.warnings(), source(report))


def _circle(whole: GraphTopology) -> list[str]:
    """Return the names of graphs that hold each other in a circle; empty where there is none."""
    known = {graph.name for graph in whole.walk()}
    held = {(graph.name, name): None for graph in whole.walk() for node in graph.nodes for name in node.graphs}
    references = GraphTopology(
        [Node(name, NodeKind.CHILD_GRAPH) for name in known], [pair for pair in held if pair[1] in known]
    )
    return [str(node.id) for node in references.find_cycle()]
