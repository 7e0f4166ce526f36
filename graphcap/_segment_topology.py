"""A capture in segments as one topology."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphcap.topology import Edge, GraphTopology, Node, NodeKind

if TYPE_CHECKING:
    from graphcap._segments import Segment

__all__ = ["describe"]


def describe(segments: Sequence[Segment], origin: str) -> GraphTopology:
    """One node per segment in order; the graphs nested in it.

    Parameters
    ----------
    origin
        Who made it, where no graph tells.
    """
    nodes, nested = [], {}
    for position, segment in enumerate(segments):
        if segment.graph is None:
            reason = "" if segment.reason is None else str(segment.reason)
            params = {"type": "eager step", "reason": reason, "steps": segment.steps}
            nodes.append(Node(position, NodeKind.HOST, segment.steps[0], params))
            continue
        found = segment.graph.topology()
        name = f"segment_{position}"
        inner = {f"{name}/{key}": _renamed(graph, f"{name}/", f"{name}/{key}") for key, graph in found.graphs.items()}
        nested[name] = _renamed(found, f"{name}/", name)
        nested.update(inner)
        nodes.append(Node(position, NodeKind.CHILD_GRAPH, name, {"steps": segment.steps}, (name,)))
    edges = [Edge(position, position + 1) for position in range(len(nodes) - 1)]
    told = next((graph.origin for graph in nested.values()), origin)
    return GraphTopology(nodes, edges, graphs=nested, name="segments", origin=told)


def _renamed(graph: GraphTopology, prefix: str, name: str) -> GraphTopology:
    """A graph under another name, whose nodes name nested graphs with a prefix."""
    nodes = [
        Node(node.id, node.kind, node.name, node.params, tuple(prefix + held for held in node.graphs))
        for node in graph.nodes
    ]
    return GraphTopology(nodes, graph.edges, name=name, origin=graph.origin, undeclared=graph.undeclared)
