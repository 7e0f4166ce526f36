"""One node and one edge of a graph, and the values that a node's parameters may take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from graphcap.errors import GraphStructureError
from graphcap.topology.kinds import NodeKind

__all__ = ["NO_PARAMS", "DependencyKind", "Edge", "Node", "NodeId", "ParamValue"]

#: Stable within its graph: creation order (int) where the producer has one, else the producer's own name.
NodeId: TypeAlias = int | str
ParamValue: TypeAlias = "bool | int | float | complex | str | bytes | tuple[ParamValue, ...] | None"
DependencyKind: TypeAlias = Literal["full", "programmatic"]

NO_PARAMS: Mapping[str, Any] = MappingProxyType({})
_MAX_DEPTH = 4  # tuples in tuples; deeper data is not a parameter but a document


class Edge(NamedTuple):
    """``target`` waits for ``source``.

    A *full* dependency waits for the whole source node; a *programmatic* one lets the target start when the source
    triggers it. Ports are the driver's numbers (0: the default). Text dumps do not tell them (dot-formats C7).
    """

    source: NodeId
    target: NodeId
    kind: str = "full"
    from_port: int = 0
    to_port: int = 0


def _plain(value: Any, name: str, depth: int = 0) -> ParamValue:
    """Bring a value to the few types that survive JSON and DOT unchanged."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (bool, str, bytes):
        return value  # type: ignore[no-any-return]  # narrowed by type() above
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, float):
        # One NaN object, so that equal parameters compare equal (containers compare by identity first).
        return math.nan if math.isnan(value) else float(value)
    if isinstance(value, complex):
        return complex(value)
    if isinstance(value, str):
        return str(value.value) if isinstance(value, NodeKind) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, list | tuple | range) and depth < _MAX_DEPTH:
        return tuple(_plain(item, name, depth + 1) for item in value)
    if isinstance(value, np.dtype):
        return str(value)
    raise GraphStructureError(
        f"parameter {name!r} of a node",
        f"a value of type {type(value).__name__} cannot be kept as data",
        "Give a number, a string, bytes, None, or a tuple of these (str(value) turns anything into one).",
    )


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a graph.

    Parameters
    ----------
    id
        Stable within its graph; an int (creation order) or a string.
    kind
        What the node does; a word is turned into its `NodeKind`.
    name
        The kernel's or host function's name as the producer gave it (mangled names stay mangled); empty where there
        is none.
    params
        What is known about the node, by the names and units of `kinds.PARAMETERS`. Read-only; lists become tuples
        and NumPy scalars become Python's.
    graphs
        Names of the graphs that the node holds: the child graph, or the bodies of a conditional node. They are keys
        of `GraphTopology.graphs`; several nodes may name one graph, and a name may be missing there when its
        producer did not print it.

    Raises
    ------
    GraphStructureError
        The id is not an int or a string, the kind is no kind, or a parameter's value is not plain data.
    """

    id: NodeId
    kind: NodeKind
    name: str = ""
    params: Mapping[str, Any] = field(default_factory=lambda: NO_PARAMS)
    graphs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if type(self.id) is not int and type(self.id) is not str:
            plain = _plain(self.id, "id")
            if isinstance(plain, bool) or not isinstance(plain, int | str):
                raise GraphStructureError(
                    f"node id {self.id!r}", "an id is an int or a string", "Use the creation order."
                )
            object.__setattr__(self, "id", plain)
        if type(self.kind) is not NodeKind:
            try:
                object.__setattr__(self, "kind", NodeKind(self.kind))
            except ValueError:
                raise GraphStructureError(
                    f"node {self.id!r} of kind {self.kind!r}",
                    "no such kind",
                    f"The kinds are: {', '.join(NodeKind)}; use 'unknown' and the parameter 'type' for others.",
                ) from None
        if self.params is not NO_PARAMS:
            # A copy, also of a read-only view: the dict behind somebody else's view could still change.
            params = MappingProxyType({str(k): _plain(v, k) for k, v in self.params.items()})
            object.__setattr__(self, "params", params if params else NO_PARAMS)
        if type(self.graphs) is not tuple:
            graphs: Any = self.graphs  # a caller without a type checker gives one name, or a list
            object.__setattr__(self, "graphs", (graphs,) if isinstance(graphs, str) else tuple(graphs))

    def __hash__(self) -> int:
        return hash((self.id, self.kind, self.name))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Node, (self.id, self.kind, self.name, dict(self.params), self.graphs))

    @property
    def nbytes(self) -> int:
        """Bytes that the node moves, sets or allocates; 0 where that is not told."""
        value = self.params.get("bytes", 0)
        return value if isinstance(value, int) else 0

    def title(self) -> str:
        """Return the name, or the kind where there is no name."""
        return self.name or str(self.kind)
