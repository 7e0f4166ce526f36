"""Small graphs that the tests of inspection share."""

from __future__ import annotations

from graphcap.topology import GraphTopology, Node, NodeKind

from ..dot.producers import K, cuda

SAXPY = "_Z5saxpyfPKfPf"


def step(*, extra_copy: bool = False, grid: int = 4, base: int = 0x1000, name: str = "graph_1") -> GraphTopology:
    """A copy in, two parallel kernels, a joining kernel, a copy out; addresses follow ``base``."""
    nodes = [
        Node(0, NodeKind.MEMCPY, params={"bytes": 4096, "direction": "HtoD", "src": base, "dst": base + 0x10000}),
        Node(1, NodeKind.KERNEL, SAXPY, {"grid": (grid, 1, 1), "block": (256, 1, 1), "node_handle": base}),
        Node(2, NodeKind.KERNEL, "_Z5scalePf", {"grid": (4, 1, 1), "block": (256, 1, 1)}),
        Node(3, NodeKind.KERNEL, "_Z3addPfS_", {"grid": (4, 1, 1), "block": (256, 1, 1)}),
        Node(4, NodeKind.MEMCPY, params={"bytes": 4096, "direction": "DtoH", "src": base + 0x10000, "dst": base}),
    ]
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]
    if extra_copy:
        nodes.append(Node(5, NodeKind.MEMCPY, params={"bytes": 64, "direction": "DtoD", "src": base, "dst": base + 64}))
        edges.append((4, 5))
    return GraphTopology(nodes, edges, name=name, origin="cuda")


def nested(kernel: str = "_Z4bodyPf") -> GraphTopology:
    """A kernel, a loop over a body, a child graph."""
    body = GraphTopology([Node(0, NodeKind.KERNEL, kernel), Node(1, NodeKind.MEMSET)], [(0, 1)])
    child = GraphTopology([Node(0, NodeKind.KERNEL, "_Z5childPf")])
    return GraphTopology(
        [
            Node(0, NodeKind.KERNEL, SAXPY),
            Node(1, NodeKind.CONDITIONAL, params={"condition": "while", "branches": ("true",)}, graphs=("graph_7",)),
            Node(2, NodeKind.CHILD_GRAPH, graphs=("graph_4",)),
        ],
        [(0, 1), (1, 2)],
        graphs={"graph_7": body, "graph_4": child},
        name="graph_1",
    )


def dump() -> str:
    """A verbose dump of the driver: a fork, a join, a child graph."""
    nodes = [
        K("KERNEL", SAXPY, (4,), (256,)),
        K("KERNEL", "_Z5scalePf", (4,), (256,)),
        K("MEMCPY", nbytes=4096, direction="DtoH"),
        K("CHILD", graphs=("graph_4",)),
    ]
    return cuda({1: (nodes, [(0, 2), (1, 2), (2, 3)]), 4: ([K("KERNEL", "_Z5childPf")], [])})
