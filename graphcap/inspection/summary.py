"""What a graph is, on one screen: counts, kernels, bytes, shape, and what deserves a second look."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from graphcap.dot._scan import plural
from graphcap.dot.describe import label_lines, size
from graphcap.dot.names import demangle
from graphcap.topology import GraphTopology, Node, NodeKind

__all__ = ["Summary", "independent_neighbours", "summarize"]

_COPIES = (NodeKind.MEMCPY, NodeKind.MEMSET)


@dataclass(frozen=True)
class Summary:
    """A graph in numbers; totals are over the graph and its nested graphs, each counted once.

    Attributes
    ----------
    nodes, edges, graphs
        How many; graphs are clusters where the graph was read from a file.
    kinds
        Node kind -> count.
    kernels
        Kernel name, demangled -> count.
    bytes_moved
        Kind, with the direction for copies (``memcpy HtoD``) -> bytes.
    depth, width
        Nodes on the longest path, and on the fullest level, of the outermost graph; ``None`` where its edges run in a
        circle.
    roots
        Labels of the nodes that wait for nothing.
    warnings
        What the reader said, and what deserves a second look.
    notes
        What the file does not tell.
    """

    name: str
    origin: str
    file: str | None
    nodes: int
    edges: int
    graphs: int
    kinds: dict[str, int]
    kernels: dict[str, int]
    bytes_moved: dict[str, int]
    depth: int | None
    width: int | None
    roots: tuple[str, ...]
    undeclared: int
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    def to_data(self) -> dict[str, Any]:
        """Return the summary as what ``json.dumps`` takes."""
        data = dict(vars(self))
        for key in ("roots", "warnings", "notes"):
            data[key] = list(data[key])
        return data

    def line(self) -> str:
        """Return the summary as one line."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.items()) or "no nodes"
        shape = f", depth {self.depth}, width {self.width}" if self.depth is not None else ", with a circle of edges"
        return f"{plural(self.nodes, 'node')} ({kinds}), {plural(self.edges, 'edge')}{shape}"

    def text(self) -> str:
        """Return the summary as plain lines, for messages and logs."""
        lines = [f"graph {self.name or '(no name)'}: {self.line()}"]
        lines += [f"  {count:5d} x {name}" for name, count in list(self.kernels.items())[:20]]
        if len(self.kernels) > 20:
            lines.append(f"  … and {len(self.kernels) - 20} more kernels")
        lines += [f"  {what}: {size(nbytes)}" for what, nbytes in self.bytes_moved.items()]
        lines += [f"  warning: {warning}" for warning in self.warnings[:10]]
        return "\n".join(lines)


def _range(node: Node, key: str) -> tuple[int, int] | None:
    start, nbytes = node.params.get(key), node.params.get("bytes")
    if type(start) is int and type(nbytes) is int and start and "height" not in node.params:
        return start, start + nbytes
    return None


def _touch(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def _independent(first: Node, second: Node) -> bool:
    """Whether two copies or memsets with known addresses touch no common memory that either writes."""
    writes = [_range(node, "dst") for node in (first, second)]
    reads = [_range(node, "src") if node.kind is NodeKind.MEMCPY else (0, 0) for node in (first, second)]
    (w1, w2), (r1, r2) = writes, reads
    if w1 is None or w2 is None or r1 is None or r2 is None:
        return False
    return not (_touch(w1, w2) or _touch(w1, r2) or _touch(r1, w2))


def independent_neighbours(graph: GraphTopology) -> list[tuple[Node, Node]]:
    """Return pairs of copies and memsets that an edge orders although they share no memory.

    Only where the addresses are known; a kernel may touch anything, so kernels never count.
    """
    found = []
    for edge in graph.edges:
        first, second = graph.node(edge.source), graph.node(edge.target)
        if first.kind in _COPIES and second.kind in _COPIES and _independent(first, second):
            found.append((first, second))
    return found


def _label(node: Node) -> str:
    return f"{node.id}: {' '.join(label_lines(node))}"


def _second_looks(graph: GraphTopology) -> list[str]:
    said: list[str] = []
    told = " ".join(graph.warnings)
    said += [f"{name} was not entered: it is not here" for name in graph.missing_graphs() if name not in told]
    unreached = _unreached(graph)
    if unreached:
        said.append(f"no node holds {', '.join(unreached[:5])}")
    for level in graph.walk():
        pairs = independent_neighbours(level)
        if pairs:
            first, second = pairs[0]
            said.append(
                "copies or memsets that share no memory wait for each other and could run in parallel: "
                f"{first.id} -> {second.id}" + (f" and {len(pairs) - 1} more" if len(pairs) > 1 else "")
            )
    unknown = Counter(str(n.params.get("type", "?")) for n in graph.all_nodes() if n.kind is NodeKind.UNKNOWN)
    if unknown and graph.origin != "dot":
        words = ", ".join(f"{word} x {count}" for word, count in unknown.most_common(5))
        said.append(f"node types that graphcap does not know: {words}")
    if graph.is_acyclic and len(graph) >= 8 and graph.width == 1:
        said.append(
            f"all {len(graph)} nodes form one chain, so nothing runs in parallel: work that is independent has to be "
            "captured on forked streams"
        )
    if not graph.is_acyclic:
        said.append("the edges run in a circle: " + " -> ".join(str(node.id) for node in graph.find_cycle()[:8]))
    return said


def _unreached(graph: GraphTopology) -> list[str]:
    seen = {graph.name}
    pending = [graph]
    for level in pending:  # grows while it is walked
        for node in level.nodes:
            for name in node.graphs:
                if name not in seen and name in graph.graphs:
                    seen.add(name)
                    pending.append(graph.graphs[name])
    return [name for name in graph.graphs if name not in seen]


def _notes(graph: GraphTopology) -> list[str]:
    source = graph.source
    if source is None or source.format in ("graphcap", "json"):
        return []
    notes = {
        "cuda": ["not in this file: kernel arguments, kinds of dependencies, streams, times"],
        "hip": ["not in this file: kernel arguments, kinds of dependencies, times"],
        "sycl": ["not in this file: launch dimensions, kinds of dependencies, times"],
    }.get(source.format, [])
    if source.format in ("cuda", "hip") and not source.verbose and graph.nodes:
        notes.append("a plain dump: launch dimensions and sizes are only in a verbose one")
    return notes


def summarize(graph: GraphTopology) -> Summary:
    """Return a graph's summary."""
    kernels: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    for node in graph.all_nodes():
        if node.kind is NodeKind.KERNEL:
            kernels[demangle(node.name) or "(no name)"] += 1
        elif node.nbytes:
            moved[" ".join([str(node.kind), *(str(node.params[k]) for k in ("direction",) if k in node.params)])] += (
                node.nbytes
            )
    acyclic = graph.is_acyclic
    return Summary(
        name=graph.name,
        origin=graph.origin,
        file=graph.source.file if graph.source else None,
        nodes=sum(len(level.nodes) for level in graph.walk()),
        edges=sum(len(level.edges) for level in graph.walk()),
        graphs=graph.graph_count,
        kinds={str(kind): count for kind, count in graph.counts().items()},
        kernels=dict(kernels.most_common()),
        bytes_moved=dict(sorted(moved.items())),
        depth=graph.depth if acyclic else None,
        width=graph.width if acyclic else None,
        roots=tuple(_label(node) for node in graph.roots[:50]),
        undeclared=sum(len(level.undeclared) for level in graph.walk()),
        warnings=(*graph.warnings, *_second_looks(graph)),
        notes=tuple(_notes(graph)),
    )
