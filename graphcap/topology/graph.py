"""`GraphTopology`: nodes, edges and nested graphs, and the questions people ask about them."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from graphcap.errors import GraphStructureError
from graphcap.topology import _order
from graphcap.topology._structure import Source, Structure
from graphcap.topology.kinds import NodeKind
from graphcap.topology.node import Node, NodeId

if TYPE_CHECKING:
    import os

    import networkx

__all__ = ["CriticalPath", "GraphTopology", "Source"]


@dataclass(frozen=True)
class CriticalPath:
    """The path through a graph that takes longest: no replay can be faster than its length.

    Attributes
    ----------
    nodes
        From a root to a leaf.
    length
        The sum of the weights, in the unit that was asked for: nodes, bytes, or the caller's times.
    """

    nodes: tuple[Node, ...]
    length: float


class GraphTopology(Structure):
    """A graph as data. Immutable.

    The nested graphs of child and conditional nodes lie side by side in `graphs`, however deep they nest, and a node
    names those that it holds: one graph may be held by several nodes, as drivers print it (dot-formats C2, C8).

    Parameters
    ----------
    nodes
        The graph's own nodes, in creation order.
    edges
        `Edge` objects, or tuples that start with source and target id. The edges into one node are in the order of
        that node's dependencies.
    graphs
        Name -> nested graph. Nested graphs of nested graphs are lifted up here.
    name
        The graph's own name.
    origin
        Who made it: ``cuda``, ``sycl``, ``hip``, ``cpu``, …
    undeclared
        Ids that edges name although no node was told of (damaged or cut files). They take part in every question of
        order and are not counted as nodes.
    warnings
        What a reader has to say about its file.
    source
        Where the graph was read from.

    Raises
    ------
    GraphStructureError
        Two nodes with one id, an edge to an id that is neither a node nor undeclared, an edge given twice, or two
        different nested graphs of one name.
    """

    __slots__ = ()

    # -- counting -----------------------------------------------------------------------------------------------------

    @property
    def graph_count(self) -> int:
        """The number of graphs; for one read from a file, the number of clusters in the file."""
        return self.source.clusters if self.source is not None else 1 + len(self.graphs)

    def counts(self, *, nested: bool = True, per_run: bool = False) -> Counter[str]:
        """Count nodes by kind. A kind without nodes counts 0; a kind's word is as good a key as the kind.

        Parameters
        ----------
        nested
            Count the nodes of nested graphs too.
        per_run
            Count a nested graph once for each node that holds it (each is one run of it, dot-formats C8) in place
            of once. Bodies of loops are counted as if they ran once.
        """
        if not nested:
            return Counter[str](node.kind for node in self.nodes)
        times = self._runs() if per_run else {}
        total: Counter[str] = Counter()
        for graph in self.walk():
            factor = times.get(graph.name, 1) if graph is not self else 1
            for kind, count in Counter(node.kind for node in graph.nodes).items():
                total[kind] += count * factor
        return Counter({kind: total[kind] for kind in NodeKind if total[kind]})

    def _runs(self) -> dict[str, int]:
        """How often each nested graph is held, by way of the graphs that hold it. A cycle of references counts 1."""
        known = {self.name: self, **self.graphs}
        holds = {
            key: Counter(inner for node in graph.nodes for inner in node.graphs if inner in known)
            for key, graph in known.items()
        }
        waiting = Counter(name for inner in holds.values() for name in inner)
        times = Counter(dict.fromkeys(known, 0))
        ready = [key for key in known if not waiting[key]]
        times.update(dict.fromkeys(ready, 1))
        for key in ready:
            for name, count in holds[key].items():
                times[name] += count * times[key]
                waiting[name] -= 1
                if not waiting[name]:
                    ready.append(name)
        return {key: max(times[key], 1) for key in known}

    def missing_graphs(self) -> list[str]:
        """Return the names of nested graphs that nodes hold and that are not here, in order of first use."""
        missing = {
            name: None
            for node in self.all_nodes()
            for name in node.graphs
            if name not in self.graphs and name != self.name
        }
        return list(missing)

    # -- order -----------------------------------------------------------------------------------------------------

    def _adjacency(self, direction: Literal["successors", "predecessors"]) -> _order.Adjacency:
        if direction not in self._cache:
            keys, values = self._sources, self._targets
            if direction == "predecessors":
                keys, values = values, keys
            self._cache[direction] = _order.Adjacency(len(self._vertices), keys, values)
        found: _order.Adjacency = self._cache[direction]
        return found

    def _partial_order(self) -> tuple[list[int], list[int]]:
        if "order" not in self._cache:
            self._cache["order"] = _order.order_and_levels(
                len(self._vertices), self._adjacency("successors"), self._targets
            )
        found: tuple[list[int], list[int]] = self._cache["order"]
        return found

    def find_cycle(self) -> tuple[Node, ...]:
        """Return the nodes of one cycle of edges, in their direction; empty where there is none."""
        order = self._partial_order()[0]
        return self._pick(_order.find_cycle(len(self._vertices), self._adjacency("predecessors"), order))

    def _order_and_levels(self) -> tuple[list[int], list[int]]:
        order, levels = self._partial_order()
        if len(order) < len(self._vertices):
            cycle = self.find_cycle()
            names = " -> ".join(repr(node.id) for node in cycle[:8]) + (" -> …" if len(cycle) > 8 else "")
            raise GraphStructureError(
                f"the order of graph {self.name!r}",
                f"its edges run in a circle: {names}",
                "A graph that can be replayed has no cycle; `is_acyclic` tells beforehand.",
            )
        return order, levels

    def _pick(self, positions: Iterable[int]) -> tuple[Node, ...]:
        return tuple(self._vertices[i] for i in positions)

    @property
    def is_acyclic(self) -> bool:
        """Whether the nodes can be put in an order at all; only damaged or foreign files say no."""
        return len(self._partial_order()[0]) == len(self._vertices)

    def topological_order(self) -> tuple[Node, ...]:
        """Return the nodes so that every edge points forward, computed from the edges alone (dot-formats C5).

        Raises
        ------
        GraphStructureError
            The edges run in a circle; the message names one.
        """
        return self._pick(self._order_and_levels()[0])

    def successors(self, id_: NodeId) -> tuple[Node, ...]:
        """Return the nodes that wait for this one, in the order of the edges."""
        return self._pick(self._adjacency("successors")[self._index[id_]])

    def predecessors(self, id_: NodeId) -> tuple[Node, ...]:
        """Return the nodes that this one waits for, in the order of its dependencies."""
        return self._pick(self._adjacency("predecessors")[self._index[id_]])

    @property
    def roots(self) -> tuple[Node, ...]:
        """The nodes that wait for nothing."""
        before = self._adjacency("predecessors")
        return self._pick(i for i in range(len(self._vertices)) if not before.degree(i))

    @property
    def leaves(self) -> tuple[Node, ...]:
        """The nodes that nothing waits for."""
        after = self._adjacency("successors")
        return self._pick(i for i in range(len(self._vertices)) if not after.degree(i))

    def levels(self) -> list[tuple[Node, ...]]:
        """Return the nodes by level: the roots, then what waits for roots only, and so on.

        No two nodes of one level are ordered, so they may run in parallel.

        Raises
        ------
        GraphStructureError
            The edges run in a circle.
        """
        _, levels = self._order_and_levels()
        groups: list[list[int]] = [[] for _ in range(max(levels, default=-1) + 1)]
        for position, level in enumerate(levels):
            groups[level].append(position)
        return [self._pick(group) for group in groups]

    @property
    def depth(self) -> int:
        """Nodes on the longest path."""
        return max(self._order_and_levels()[1], default=-1) + 1

    @property
    def width(self) -> int:
        """Nodes on the fullest level: so many can run in parallel (a lower bound of the most that ever could)."""
        return max(Counter(self._order_and_levels()[1]).values(), default=0)

    def parallel_sets(self) -> list[tuple[Node, ...]]:
        """Return the levels with more than one node: sets whose members can run in parallel."""
        return [level for level in self.levels() if len(level) > 1]

    def critical_path(
        self, weight: Literal["nodes", "bytes"] | Mapping[NodeId, float] | Callable[[Node], float] = "nodes"
    ) -> CriticalPath:
        """Return the heaviest path.

        Parameters
        ----------
        weight
            ``"nodes"`` (each counts 1), ``"bytes"`` (`Node.nbytes`), a mapping of node id to a time (a node that is
            missing weighs 0), or a function of the node. Weights are not negative.

        Raises
        ------
        GraphStructureError
            The edges run in a circle.
        ValueError
            A weight is negative, or the word is neither ``nodes`` nor ``bytes``.
        """
        weigh: Callable[[Node], float]
        if weight == "nodes":
            weigh = _one
        elif weight == "bytes":
            weigh = operator.attrgetter("nbytes")
        elif callable(weight):
            weigh = weight
        elif isinstance(weight, Mapping):
            times = weight
            weigh = lambda node: times.get(node.id, 0.0)  # noqa: E731  # one of four one-line weights
        else:
            raise ValueError(f"weight {weight!r}: give 'nodes', 'bytes', a mapping of id to time, or a function.")
        weights = [weigh(node) for node in self._vertices]
        if any(w < 0 for w in weights):
            raise ValueError("A weight is negative; a node cannot take less than no time.")
        order, _ = self._order_and_levels()
        path, length = _order.longest_path(order, self._adjacency("predecessors"), weights.__getitem__)
        return CriticalPath(self._pick(path), length)

    def path(self, a: NodeId, b: NodeId) -> tuple[Node, ...]:
        """Return a shortest path of edges from ``a`` to ``b``, both included; empty where there is none.

        Raises
        ------
        KeyError
            The graph has no such node.
        """
        levels = self._order_and_levels()[1] if self.is_acyclic else None
        return self._pick(_order.search(self._index[a], self._index[b], self._adjacency("successors"), levels))

    def precedes(self, a: NodeId, b: NodeId) -> bool:
        """Say whether every replay finishes ``a`` before ``b`` starts: a path of edges leads from ``a`` to ``b``."""
        return a != b and bool(self.path(a, b))

    def ordered(self, a: NodeId, b: NodeId) -> bool:
        """Say whether two nodes are ordered, either way; two that are not may run at the same time."""
        return self.precedes(a, b) or self.precedes(b, a)

    def unordered_pairs(self, *, kind: NodeKind | str | None = None) -> Iterator[tuple[Node, Node]]:
        """Yield every pair of nodes that no path orders, earlier node first. Needs nodes*nodes/8 bytes.

        Parameters
        ----------
        kind
            Only pairs of nodes of this kind.

        Raises
        ------
        GraphStructureError
            The edges run in a circle.
        """
        wanted = None if kind is None else NodeKind.parse(str(kind))
        order, _ = self._order_and_levels()
        seen: list[int] = []
        for vertex, ancestors in _order.ancestors_bits(order, self._adjacency("predecessors")):
            if wanted is not None and self._vertices[vertex].kind is not wanted:
                continue
            for other in seen:
                if not ancestors >> other & 1:
                    first, second = sorted((other, vertex))
                    yield self._vertices[first], self._vertices[second]
            seen.append(vertex)

    # -- elsewhere -------------------------------------------------------------------------------------------------

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the graph as JSON text, version 1 of the schema in ``graphcap/topology/topology-1.schema.json``."""
        from graphcap.topology import _json

        return _json.dumps(self, indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes | os.PathLike[str]) -> GraphTopology:
        """Build a graph from JSON text, or from a file of it when given a path object.

        Raises
        ------
        GraphStructureError
            The text is not JSON, not a topology, of a version this graphcap does not know, or inconsistent; the
            message says where.
        OSError
            The file cannot be read.
        """
        from graphcap.topology import _json

        return _json.loads(text)

    def to_networkx(self) -> networkx.DiGraph[Any]:
        """Return the graph's own level as a ``networkx.DiGraph``.

        Nodes carry ``kind``, ``name``, ``params`` and ``graphs``; edges carry ``dependencies``, a tuple of
        (kind, from port, to port), one for each edge between the two nodes. The graph itself carries ``name``.

        Raises
        ------
        ImportError
            NetworkX is not installed (it comes with the extra ``viz``).
        """
        import networkx

        graph: networkx.DiGraph[Any] = networkx.DiGraph(name=self.name)
        for node in self._vertices:
            graph.add_node(node.id, kind=str(node.kind), name=node.name, params=dict(node.params), graphs=node.graphs)
        for edge in self.edges:
            known = graph.edges[edge[:2]]["dependencies"] if graph.has_edge(edge.source, edge.target) else ()
            graph.add_edge(edge.source, edge.target, dependencies=(*known, tuple(edge[2:])))
        return graph


def _one(node: Node) -> int:
    return 1
