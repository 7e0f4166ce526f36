"""The bones of a graph: its nodes, its edges as arrays, its nested graphs; building, looking up, comparing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphcap.errors import GraphStructureError
from graphcap.topology.kinds import NodeKind
from graphcap.topology.node import Edge, Node, NodeId

if TYPE_CHECKING:
    from graphcap.topology.graph import GraphTopology

__all__ = ["EdgeView", "Source", "Structure"]

_PLAIN_EDGE = ("full", 0, 0)
_S = TypeVar("_S", bound="Structure")


@dataclass(frozen=True)
class Source:
    """Where a topology was read from.

    Attributes
    ----------
    file
        The file's name, or ``None`` for bytes.
    format
        ``cuda``, ``hip``, ``sycl``, ``graphcap``, ``dot`` (any other) or ``json``.
    clusters
        Clusters that the file has; a graph that is no cluster is not counted.
    skipped
        Statements that could not be read.
    verbose
        Whether the producer printed the nodes' parameters.
    """

    file: str | None
    format: str
    clusters: int
    skipped: int = 0
    verbose: bool = False


class EdgeView(Sequence[Edge]):
    """The edges of a graph as a sequence of `Edge`; each is built when it is looked at."""

    __slots__ = ("_data", "_ids", "_sources", "_targets")

    def __init__(
        self,
        ids: Sequence[NodeId],
        sources: NDArray[np.int64],
        targets: NDArray[np.int64],
        data: Mapping[int, tuple[str, int, int]],
    ) -> None:
        self._ids, self._sources, self._targets, self._data = ids, sources, targets, data

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[Edge]:
        ids, data = self._ids, self._data
        for i, (s, t) in enumerate(zip(self._sources.tolist(), self._targets.tolist(), strict=True)):
            yield Edge(ids[s], ids[t], *data.get(i, _PLAIN_EDGE))

    @overload
    def __getitem__(self, index: int) -> Edge: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Edge]: ...
    def __getitem__(self, index: int | slice) -> Edge | Sequence[Edge]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        i = range(len(self))[index]
        ids = self._ids
        return Edge(ids[int(self._sources[i])], ids[int(self._targets[i])], *self._data.get(i, _PLAIN_EDGE))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{len(self)} edges>"


class Structure:
    """What `GraphTopology` is made of; see there."""

    __slots__ = ("_cache", "_edge_data", "_ids", "_index", "_sources", "_targets", "_vertices", "_without_bodies",
                 "graphs", "name", "nodes", "origin", "source", "undeclared", "warnings")  # fmt: skip

    nodes: tuple[Node, ...]
    graphs: Mapping[str, GraphTopology]
    name: str
    origin: str
    undeclared: tuple[NodeId, ...]
    warnings: tuple[str, ...]
    source: Source | None

    def __init__(
        self,
        nodes: Iterable[Node] = (),
        edges: Iterable[Edge | tuple[Any, ...]] = (),
        *,
        graphs: Mapping[str, GraphTopology] | None = None,
        name: str = "",
        origin: str = "",
        undeclared: Iterable[NodeId] = (),
        warnings: Iterable[str] = (),
        source: Source | None = None,
    ) -> None:
        self._set_nodes(nodes, undeclared)
        index = self._index
        sources: list[int] = []
        targets: list[int] = []
        data: dict[int, tuple[str, int, int]] = {}
        for i, edge in enumerate(edges):
            try:
                sources.append(index[edge[0]])
                targets.append(index[edge[1]])
            except KeyError as missing:
                raise GraphStructureError(
                    f"edge {edge[0]!r} -> {edge[1]!r}",
                    f"the graph has no node {missing.args[0]!r}",
                    "Give the node, or its id in `undeclared`.",
                ) from None
            if len(edge) > 2:
                plain = Edge(*edge)[2:]
                if plain != _PLAIN_EDGE:
                    data[i] = plain
        self._finish(
            np.array(sources, dtype=np.int64), np.array(targets, dtype=np.int64), data, graphs, name, origin, warnings,
            source,
        )  # fmt: skip

    @classmethod
    def from_arrays(
        cls: type[_S],
        nodes: Iterable[Node],
        sources: ArrayLike,
        targets: ArrayLike,
        *,
        dependencies: Mapping[int, tuple[str, int, int]] | None = None,
        graphs: Mapping[str, GraphTopology] | None = None,
        name: str = "",
        origin: str = "",
        undeclared: Iterable[NodeId] = (),
        warnings: Iterable[str] = (),
        source: Source | None = None,
    ) -> _S:
        """Build a graph from edge arrays: the fast way for large graphs.

        Parameters
        ----------
        nodes, graphs, name, origin, undeclared, warnings, source
            As for the class.
        sources, targets
            Shape (edges,), integers: *positions* in ``nodes`` followed by ``undeclared`` (not ids). They are copied.
        dependencies
            Edge position -> (kind, from port, to port), for the edges that are not plain full dependencies.

        Raises
        ------
        GraphStructureError
            As for the class, and for arrays of unequal length or positions out of range.
        """
        self = cls.__new__(cls)
        self._set_nodes(nodes, undeclared)
        src, dst = (np.array(a, dtype=np.int64).reshape(-1) for a in (sources, targets))
        n = len(self._vertices)
        if len(src) != len(dst) or (len(src) and not _within(n, src, dst)):
            raise GraphStructureError(
                f"{len(src)} edge sources and {len(dst)} targets over {n} nodes",
                "the arrays differ in length or hold positions out of range",
                "Give one source and one target position for each edge.",
            )
        data = {int(i): d for i, d in (dependencies or {}).items() if d != _PLAIN_EDGE}
        self._finish(src, dst, data, graphs, name, origin, warnings, source)
        return self

    def _set_nodes(self, nodes: Iterable[Node], undeclared: Iterable[NodeId]) -> None:
        self.nodes = tuple(nodes)
        self.undeclared = tuple(undeclared)
        self._vertices = self.nodes + tuple(Node(id_, NodeKind.UNKNOWN) for id_ in self.undeclared)
        self._ids = [node.id for node in self._vertices]
        self._index = {id_: i for i, id_ in enumerate(self._ids)}
        if len(self._index) != len(self._ids):
            twice = next(id_ for i, id_ in enumerate(self._ids) if self._index[id_] != i)
            raise GraphStructureError(f"node {twice!r}", "two nodes have this id", "Give each node its own id.")

    def _finish(
        self,
        sources: NDArray[np.int64],
        targets: NDArray[np.int64],
        data: dict[int, tuple[str, int, int]],
        graphs: Mapping[str, GraphTopology] | None,
        name: str,
        origin: str,
        warnings: Iterable[str],
        source: Source | None,
    ) -> None:
        self._sources, self._targets, self._edge_data = sources, targets, MappingProxyType(data)
        sources.flags.writeable = targets.flags.writeable = False
        self.name, self.origin, self.warnings, self.source = name, origin, tuple(warnings), source
        self._cache: dict[str, Any] = {}
        self._refuse_repeated_edges()
        self.graphs = MappingProxyType(_lift(graphs, name)) if graphs else _NO_GRAPHS

    def _refuse_repeated_edges(self) -> None:
        n = len(self._vertices)
        if not len(self._sources):
            return
        keys = self._sources * n + self._targets
        keys.sort()
        if not (keys[1:] == keys[:-1]).any():
            return
        seen: set[Edge] = set()  # equal pairs are fine when kind or ports differ, so look closely now
        for edge in self.edges:
            if edge in seen:
                raise GraphStructureError(
                    f"edge {edge.source!r} -> {edge.target!r}", "it was given twice", "Give it once."
                )
            seen.add(edge)

    # -- what there is ---------------------------------------------------------------------------------------------

    @property
    def edges(self) -> EdgeView:
        """The graph's own edges, as a sequence of `Edge`."""
        return EdgeView(self._ids, self._sources, self._targets, self._edge_data)

    @property
    def edge_arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sources and targets as read-only position arrays, shape (edges,) each."""
        return self._sources, self._targets

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __contains__(self, id_: object) -> bool:
        return isinstance(id_, int | str) and self._index.get(id_, len(self.nodes)) < len(self.nodes)

    def node(self, id_: NodeId) -> Node:
        """Return the node of an id; an undeclared id gives a node of kind unknown.

        Raises
        ------
        KeyError
            The graph has no such node.
        """
        return self._vertices[self._index[id_]]

    def find(self, name: str | None = None, kind: NodeKind | str | None = None) -> list[Node]:
        """Return the graph's own nodes whose name contains ``name`` and whose kind is ``kind``, in creation order."""
        wanted = None if kind is None else NodeKind.parse(str(kind))
        return [
            node
            for node in self.nodes
            if (name is None or name in node.name) and (wanted is None or node.kind is wanted)
        ]

    def body(self, name: str) -> GraphTopology:
        """Return a nested graph that can itself reach the nested graphs it names.

        Raises
        ------
        KeyError
            No nested graph has this name.
        """
        inner = self.graphs[name]
        others = {key: graph for key, graph in self.graphs.items() if key != name}
        return inner._with(graphs=others)

    def walk(self: _S) -> Iterator[_S | GraphTopology]:
        """Yield this graph and then every nested graph, each once, whatever nests in what."""
        yield self
        yield from self.graphs.values()

    def all_nodes(self) -> Iterator[Node]:
        """Yield the nodes of this graph and of every nested graph. Ids are unique within one graph only."""
        for graph in self.walk():
            yield from graph.nodes

    # -- comparing -------------------------------------------------------------------------------------------------

    def _with(self: _S, **changes: Any) -> _S:
        """A copy that shares nodes and edges; ``name``, ``graphs``, ``origin``, ``warnings``, ``source`` change."""
        other = object.__new__(type(self))
        for slot in ("_vertices", "_ids", "_index", "_sources", "_targets", "_edge_data", "_cache", "nodes",
                     "undeclared"):  # fmt: skip
            setattr(other, slot, getattr(self, slot))
        for slot in ("graphs", "name", "origin", "warnings", "source"):
            setattr(other, slot, changes.get(slot, getattr(self, slot)))
        other.warnings = tuple(other.warnings)
        if "graphs" in changes:
            other.graphs = MappingProxyType(dict(changes["graphs"])) if changes["graphs"] else _NO_GRAPHS
        return other

    def with_warnings(self: _S, warnings: Iterable[str], source: Source | None = None) -> _S:
        """Return the same graph with other warnings, and with a source where one is given."""
        return self._with(warnings=tuple(warnings), source=source or self.source)

    def with_graphs(self: _S, graphs: Mapping[str, Any]) -> _S:
        """Return the same graph with other nested graphs.

        Raises
        ------
        GraphStructureError
            Two different nested graphs have one name.
        """
        return self._with(graphs=_lift(graphs, self.name))

    def _own_level(self) -> tuple[Any, ...]:
        return self.name, self.origin, self.nodes, self.undeclared, dict(self._edge_data)

    def __eq__(self, other: object) -> bool:
        """Equal nodes, edges (in order), names, origins and nested graphs; warnings and sources do not count."""
        if not isinstance(other, Structure):
            return NotImplemented
        if list(self.graphs) != list(other.graphs):
            return False
        return all(
            a._own_level() == b._own_level()
            and np.array_equal(a._sources, b._sources)
            and np.array_equal(a._targets, b._targets)
            for a, b in zip(self.walk(), other.walk(), strict=True)
        )

    def __hash__(self) -> int:
        return hash((self.name, self.origin, self.nodes, self._sources.tobytes(), self._targets.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        arrays = (self._sources, self._targets, dict(self._edge_data), dict(self.graphs))
        rest = (self.name, self.origin, self.undeclared, self.warnings, self.source)
        return (_rebuild, (type(self), self.nodes, *arrays, *rest))

    def __repr__(self) -> str:
        found = Counter(node.kind for node in self.all_nodes())
        kinds = ", ".join(f"{found[kind]} {kind}" for kind in NodeKind if found[kind])
        inner = f", {len(self.graphs)} nested" if self.graphs else ""
        size = f"{len(self.nodes)} nodes, {len(self._sources)} edges{inner}"
        return f"<GraphTopology {self.name!r}: {size} ({kinds})>"


_NO_GRAPHS: Mapping[str, Any] = MappingProxyType({})


def _lift(graphs: Mapping[str, Any], own_name: str) -> dict[str, GraphTopology]:
    """Put nested graphs of nested graphs beside them, each under its key as its name."""
    flat: dict[str, GraphTopology] = {}
    pending = list(graphs.items())
    for key, graph in pending:  # grows while it is walked
        pending.extend(graph.graphs.items())
        bare = graph if not graph.graphs and graph.name == key else graph._with(graphs=None, name=key)
        if key == own_name or flat.setdefault(key, bare) != bare:
            raise GraphStructureError(
                f"nested graph {key!r}", "two different graphs have this name", "Give each graph its own name."
            )
    return flat


def _rebuild(cls: Any, nodes: Any, sources: Any, targets: Any, data: Any, graphs: Any, name: str, origin: str,
             undeclared: Any, warnings: Any, source: Any) -> Any:  # fmt: skip
    return cls.from_arrays(
        nodes, sources, targets, dependencies=data, graphs=graphs, name=name, origin=origin, undeclared=undeclared,
        warnings=warnings, source=source,
    )  # fmt: skip


def _within(n: int, *positions: NDArray[np.int64]) -> bool:
    return all(a.min() >= 0 and a.max() < n for a in positions)
