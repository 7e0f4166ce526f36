"""A CPU capture as a topology: kinds, names, shapes, dtypes, bytes."""

from __future__ import annotations

from typing import Any

from graphcap.backends.cpu.captures import Capture
from graphcap.backends.cpu.work import Work
from graphcap.topology import Edge, GraphTopology, Node

__all__ = ["describe"]


def describe(capture: Capture) -> GraphTopology:
    """The capture's nodes and edges. Ids are the order of recording."""
    nodes = [Node(index, work.kind, work.name, _params(work)) for index, work in enumerate(capture.nodes)]
    edges = [
        Edge(source, target) for target, sources in enumerate(capture.dependencies) for source in sorted(set(sources))
    ]
    return GraphTopology(nodes, edges, name=f"capture_{capture.id}", origin="cpu")


def _params(work: Work) -> dict[str, Any]:
    params = dict(work.params)
    if work.reads:
        params["reads"] = tuple(_operand(view) for view in work.reads)
    if work.writes:
        params["writes"] = tuple(_operand(view) for view in work.writes)
    if work.reads or work.writes:
        params.setdefault("bytes", sum(view.nbytes for view in (*work.reads, *work.writes)))
    return params


def _operand(view: Any) -> str:
    shape = ",".join(map(str, view.shape))
    return f"{view.dtype}[{shape}]"
