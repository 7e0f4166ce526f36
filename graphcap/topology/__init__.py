"""A graph as data: nodes by kind with typed parameters, edges, nested graphs. No device, no driver.

Every producer ends here: a live graph of any backend, the DOT that a driver wrote, JSON. Every consumer starts here:
DOT, JSON and pictures, the diff, the assertions, the ``graphcap`` command.

Start with `NodeKind` (the words), `Node`, `GraphTopology` (the questions). `kinds.PARAMETERS` lists the names and the
units of the parameters that backends and readers agree on.
"""

from __future__ import annotations

from graphcap.topology.graph import CriticalPath, GraphTopology, Source
from graphcap.topology.kinds import NodeKind, is_address
from graphcap.topology.node import DependencyKind, Edge, Node, NodeId, ParamValue

__all__ = [
    "CriticalPath",
    "DependencyKind",
    "Edge",
    "GraphTopology",
    "Node",
    "NodeId",
    "NodeKind",
    "ParamValue",
    "Source",
    "is_address",
]
