"""Do two topologies describe the same graph? For checking a live graph against the text that it dumped."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from graphcap.dot.names import demangle
from graphcap.inspection.load import GraphLike, load
from graphcap.topology import GraphTopology, Node, NodeKind
from graphcap.topology._order import Adjacency, order_and_levels

__all__ = ["canonical", "disagreements", "topologies_agree"]

_ROUNDS = 3  # of mixing in the neighbours' colours once the sweeps are done


def canonical(value: Any) -> Any:
    """Bring a parameter to one spelling: trailing ones of dimensions go, nothing and zero are the same."""
    if isinstance(value, tuple):
        items = [canonical(item) for item in value]
        while len(items) > 1 and items[-1] == 1:
            items.pop()
        return tuple(items)
    if isinstance(value, float) and math.isnan(value):
        return "nan"  # so that it equals itself
    return value or None


_NAME = "\0name"  # stands among the parameters for a node's name


def _name(node: Node) -> str:
    return "" if node.name == node.kind.value else demangle(node.name)  # "memcpy" names no memcpy


def _told(levels: Iterable[GraphTopology]) -> dict[str, set[str]]:
    """Kind -> the parameters that this side tells of any node of the kind; and whether it tells names."""
    told: dict[str, set[str]] = {}
    for level in levels:
        for node in level.nodes:
            known = told.setdefault(str(node.kind), set())
            known.update(node.params)
            if _name(node) or node.kind is NodeKind.KERNEL:  # every format tells kernels' names
                known.add(_NAME)
    return told


def _colours(graph: GraphTopology, shared: dict[str, set[str]], palette: dict[Any, int]) -> list[int]:
    """Number nodes so that nodes in the same place of equal graphs get the same number, whatever their ids.

    A node's first colour is what it is; then the colours of what lies before and behind it are mixed in.
    """

    def colour(key: Any) -> int:
        return palette.setdefault(key, len(palette))

    colours = [
        colour(
            (
                str(node.kind),
                _name(node) if _NAME in shared.get(str(node.kind), ()) else "",
                len(node.graphs),
                tuple((key, canonical(node.params.get(key))) for key in sorted(shared.get(str(node.kind), ()))),
            )
        )
        for node in graph.nodes
    ]
    colours += [colour(("undeclared",))] * len(graph.undeclared)
    n = len(colours)
    before: list[list[tuple[int, Any]]] = [[] for _ in range(n)]  # neighbour, kind and ports of the edge
    after: list[list[tuple[int, Any]]] = [[] for _ in range(n)]
    sources, targets = (array.tolist() for array in graph.edge_arrays)
    for a, b, edge in zip(sources, targets, graph.edges, strict=True):
        before[b].append((a, edge[2:]))
        after[a].append((b, edge[2:]))
    if graph.is_acyclic:  # one sweep each way tells all that lies before and behind a node, in linear time
        order, _ = order_and_levels(n, Adjacency(n, *graph.edge_arrays), graph.edge_arrays[1])
        for sweep, neighbours in ((order, before), (order[::-1], after)):
            for i in sweep:
                colours[i] = colour((colours[i], tuple(sorted((colours[j], kind) for j, kind in neighbours[i]))))
    for _ in range(_ROUNDS):
        colours = [
            colour((colours[i], *(tuple(sorted((colours[j], k) for j, k in side[i])) for side in (before, after))))
            for i in range(n)
        ]
    return colours


def _said(node: Node, shared: dict[str, set[str]]) -> str:
    params = {key: node.params[key] for key in sorted(shared.get(str(node.kind), ())) if key in node.params}
    return f"{node.kind} {demangle(node.name)!r} (id {node.id!r}) {params or ''}".strip()


def _level(live: GraphTopology, read: GraphTopology, shared: dict[str, set[str]]) -> list[str]:
    faults = []
    kinds = [Counter(str(node.kind) for node in graph.nodes) for graph in (live, read)]
    if kinds[0] != kinds[1]:
        faults.append(f"kinds differ: live {dict(kinds[0])}, read {dict(kinds[1])}")
    if len(live.edges) != len(read.edges):
        faults.append(f"live has {len(live.edges)} edges, read has {len(read.edges)}")
    palette: dict[Any, int] = {}
    own = _colours(live, shared, palette)
    theirs = _colours(read, shared, palette)
    ours, others = Counter(own), Counter(theirs)
    if ours != others:
        for graph, colours, missing, side in (
            (live, own, ours - others, "live"),
            (read, theirs, others - ours, "read"),
        ):
            for node, colour in list(zip(graph.nodes, colours, strict=False)):
                if missing[colour] > 0:
                    missing[colour] -= 1
                    faults.append(f"only {side} has, in this place: {_said(node, shared)}")
    return faults[:20]


def disagreements(live: GraphLike, read: GraphLike) -> list[str]:
    """Return what two topologies disagree in; empty where they agree.

    Compared are kinds, names (demangled; of kernels always, of others where both sides tell names), edges with their kinds and ports, nested graphs, and the parameters that both
    sides tell of a kind of node (addresses too: a graph and its own dump share them). Ids, graph names and the order of
    nodes are not: producers number as they like.

    Parameters
    ----------
    live, read
        Anything that `load` takes; usually a live graph, and the file that its ``debug_dump`` wrote.
    """
    first, second = load(live), load(read)
    one, two = _told(first.walk()), _told(second.walk())
    shared = {kind: one[kind] & two[kind] for kind in one.keys() & two.keys()}
    faults: list[str] = []
    pending = [(first, second)]
    done: set[tuple[str, str]] = set()
    for a, b in pending:  # grows while it is walked
        if (a.name, b.name) in done:
            continue
        done.add((a.name, b.name))
        where = f"graph {a.name!r}: " if a is not first else ""
        found = _level(a, b, shared)
        faults += [where + fault for fault in found]
        if found:
            continue
        holders = [[n for n in (g.topological_order() if g.is_acyclic else g.nodes) if n.graphs] for g in (a, b)]
        for x, y in zip(*holders, strict=True):
            for mine, other in zip(x.graphs, y.graphs, strict=False):
                inner, outer = first.graphs.get(mine), second.graphs.get(other)
                if inner is not None and outer is not None:
                    pending.append((inner, outer))
                elif inner is not None or outer is not None:
                    side = "read" if outer is None else "live"
                    faults.append(f"{where}{side} does not have the graph that node {x.id!r} holds")
    return faults


def topologies_agree(live: GraphLike, read: GraphLike) -> bool:
    """Say whether two topologies describe the same graph; `disagreements` says where they do not."""
    return not disagreements(live, read)
