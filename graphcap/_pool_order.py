"""``check_pool_order()``: which arrays of one graph another graph of the same pool overwrites when it is replayed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from graphcap._graph import Graph
from graphcap._segments import SegmentedGraph
from graphcap.backends.pool_traces import LeftArray, PoolTraces, merged, overlaps
from graphcap.errors import GraphStateError, UnsupportedError

if TYPE_CHECKING:
    from graphcap.backends.lifetimes import PointerUse

__all__ = ["PoolConflict", "PoolOrder", "check_pool_order"]


class PoolConflict(NamedTuple):
    """One array that depends on the order of replays.

    Attributes
    ----------
    kind
        ``"overwritten"``: replaying `by` overwrites an output of `graph`. ``"may be overwritten"``: `by` has a kernel that is
        given a pointer to it, and whether a kernel writes is not known. ``"input"``: `graph` reads what `by` made, so `by` has
        to be replayed before it.
    graph
        The position in the list of the graph whose output or input it is.
    by
        The position of the other graph.
    address, nbytes
        The array: an output as it was asked for; of an input, where `graph` begins to use it.
    made_at
        Where an output was made, if ``GRAPHCAP_MEMORY_DEBUG=1`` or a recorded history keeps that; else empty.
    node
        The node in words: of `by` the one that writes, of `graph` the one that reads. In a graph in segments, with the
        position of its segment.
    """

    kind: str
    graph: int
    by: int
    address: int
    nbytes: int
    made_at: str
    node: str

    def __str__(self) -> str:
        if self.kind == "input":
            return (
                f"graph {self.graph} uses memory at {self.address:#x} that graph {self.by} made ({self.node}): replay graph "
                f"{self.by} first, and nothing that overwrites it in between"
            )
        made_at = f", made at {self.made_at}" if self.made_at else ""
        verb = "overwrites" if self.kind == "overwritten" else "may overwrite"
        return (
            f"replaying graph {self.by} {verb} the output of graph {self.graph} at {self.address:#x} ({self.nbytes} bytes{made_at}): "
            f"{self.node}. Read or copy it before, or give the graphs pools of their own"
        )


class PoolOrder(tuple[PoolConflict, ...]):
    """What :func:`check_pool_order` found, as a tuple of :class:`PoolConflict`; as text, a line for each."""

    __slots__ = ()

    @property
    def overwritten(self) -> tuple[PoolConflict, ...]:
        """Outputs that another graph overwrites, or may overwrite."""
        return tuple(conflict for conflict in self if conflict.kind != "input")

    @property
    def inputs(self) -> tuple[PoolConflict, ...]:
        """What one graph takes from another through the pool."""
        return tuple(conflict for conflict in self if conflict.kind == "input")

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "The order of replays does not matter to any live array."


def check_pool_order(graphs: Iterable[Graph | SegmentedGraph]) -> PoolOrder:
    """Find out which arrays depend on the order in which graphs that share a pool are replayed.

    A graph's temporaries are free for the next capture into the same pool, so two graphs may use the same memory. That is safe
    as long as no array that one of them left is read after the other was replayed. This function finds the arrays that were made
    in a capture, are still alive, and lie in memory that another graph writes. Graphs of different pools never meet.

    Parameters
    ----------
    graphs
        Captured graphs. One in segments counts as one: its own graphs are always replayed in their order, so what they take
        from each other is no matter. Of its eager steps nothing is known.

    Returns
    -------
    PoolOrder
        Empty if the order does not matter. Copies, fills and array work of the CPU are known exactly; a kernel counts as
        possibly writing whatever it is given a pointer to (on the CPU, as writing every argument that can be written).

    Raises
    ------
    GraphStateError
        A graph holds no capture, or was captured with ``lifetimes="off"`` on a backend that then does not look at its nodes.
    UnsupportedError
        A backend does not know its nodes' memory.
    TypeError
        Something in the list is neither a Graph nor a SegmentedGraph.
    """
    members = [(index, _member(index, graph)) for index, graph in enumerate(graphs)]
    found: dict[tuple[Any, ...], PoolConflict] = {}
    for index, member in members:
        for other_index, other in members:
            if index == other_index:
                continue
            for piece, other_piece in product(member.pieces, other.pieces):
                if piece.device != other_piece.device or not piece.traces.pools & other_piece.traces.pools:
                    continue
                for conflict in (
                    *_overwritten(index, piece, other_index, other_piece),
                    *_inputs(index, piece, member.given, other_index, other_piece),
                ):
                    found.setdefault(conflict[:4], conflict)
    return PoolOrder(found.values())


class _Piece(NamedTuple):
    """One graph, and where it stands."""

    device: tuple[type, int]
    traces: PoolTraces
    where: str
    """Before the words for a node."""


class _Member(NamedTuple):
    """One item of the list: a graph, or several that are always replayed together."""

    pieces: tuple[_Piece, ...]
    given: tuple[tuple[int, int], ...]
    """The memory that its captures were given: what it finds there is its own."""


def _member(index: int, item: Graph | SegmentedGraph) -> _Member:
    if isinstance(item, SegmentedGraph):
        item.check_finished(f"check_pool_order(): graph {index}")
        graphs = [(one.graph, f"segment {at}, ") for at, one in enumerate(item.segments) if one.graph is not None]
    elif isinstance(item, Graph):
        graphs = [(item, "")]
    else:
        raise TypeError(
            f"check_pool_order(): item {index} is a {type(item).__name__}, neither a Graph nor a SegmentedGraph."
        )
    pieces = tuple(_piece(index, graph, where) for graph, where in graphs)
    return _Member(pieces, merged(part for piece in pieces for part in piece.traces.given))


def _piece(index: int, graph: Graph, where: str) -> _Piece:
    ask: Any = getattr(graph.impl, "pool_traces", None)
    if ask is None:
        raise UnsupportedError(graph.device.upper(), "check_pool_order()", "pool_traces")
    traces: PoolTraces | None = ask()
    asked = f"check_pool_order(): {where}graph {index}"
    if traces is None:
        raise GraphStateError(asked, "nothing is captured in it", "Capture first.")
    if traces.uses is None and getattr(graph.impl, "lifetimes", "off") != "off":
        raise UnsupportedError(graph.device.upper(), "check_pool_order()", "pointers of nodes")
    if traces.uses is None:
        raise GraphStateError(
            asked,
            "it was captured with lifetimes='off', so nobody looked at its nodes",
            "Capture it with lifetimes='warn'.",
        )
    return _Piece((type(graph.impl), getattr(graph.impl, "device_index", 0)), traces, where)


def _overwritten(index: int, piece: _Piece, other_index: int, other: _Piece) -> Iterator[PoolConflict]:
    alive = _Arrays(array for array in piece.traces.left if array.watch.alive)
    if not alive or other.traces.uses is None:
        return
    found: dict[LeftArray, PointerUse] = {}
    for use in other.traces.uses():
        for array in alive.touched_by(use) if use.writes else ():
            if array not in found or (found[array].reads and not use.reads):
                found[array] = use  # an exact answer is worth more than a possible one
    for array, use in found.items():
        # What is known is told as a read or a write; of a kernel's pointer it is not known.
        kind = "may be overwritten" if use.reads else "overwritten"
        size = array.high - array.low
        yield PoolConflict(kind, index, other_index, array.low, size, array.made_at, other.where + use.node)


def _inputs(
    index: int, piece: _Piece, own: tuple[tuple[int, int], ...], other_index: int, other: _Piece
) -> Iterator[PoolConflict]:
    left = _Arrays(other.traces.left)
    if piece.traces.uses is None or not left:
        return
    for use in piece.traces.uses():
        if use.reads and not overlaps(use.address, use.address + 1, own):
            for array in left.touched_by(use):
                node = piece.where + use.node
                yield PoolConflict("input", index, other_index, use.address, use.nbytes, array.made_at, node)


class _Arrays:
    """Arrays that lived at the same time, so that they do not overlap, by their memory."""

    def __init__(self, arrays: Iterable[LeftArray]) -> None:
        self._arrays = sorted(arrays, key=lambda array: array.low)
        self._lows = [array.low for array in self._arrays]

    def __bool__(self) -> bool:
        return bool(self._arrays)

    def touched_by(self, use: PointerUse) -> Iterator[LeftArray]:
        """The arrays of which a use touches some memory."""
        first = max(bisect_right(self._lows, use.address) - 1, 0)
        last = bisect_left(self._lows, use.address + use.nbytes)
        return (array for array in self._arrays[first:last] if use.address < array.high)
