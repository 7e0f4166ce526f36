"""What changed between two graphs, with everything left out that differs from run to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from graphcap.dot._scan import plural
from graphcap.dot.describe import label_lines
from graphcap.dot.names import demangle
from graphcap.inspection.agreement import canonical
from graphcap.inspection.load import GraphLike, load
from graphcap.topology import Edge, GraphTopology, Node, NodeId, is_address
from graphcap.topology._json import encode_value

__all__ = ["ChangedNode", "GraphDiff", "LevelDiff", "diff"]

_IGNORED = frozenset({"stream", "text"})  # process-wide numbers, and text that may hold them
_PATIENCE = 4_000_000  # comparisons that an exact alignment may take; past that the order alone decides


@dataclass(frozen=True)
class ChangedNode:
    """A node that both graphs have, with the parameters that differ: name -> (before, after)."""

    before: Node
    after: Node
    params: dict[str, tuple[Any, Any]]


@dataclass
class LevelDiff:
    """The difference of one pair of graphs: the outermost ones, or two that corresponding nodes hold."""

    name: str
    added: list[Node] = field(default_factory=list)
    removed: list[Node] = field(default_factory=list)
    changed: list[ChangedNode] = field(default_factory=list)
    moved: list[tuple[Node, Node]] = field(default_factory=list)
    edges_added: list[Edge] = field(default_factory=list)
    edges_removed: list[Edge] = field(default_factory=list)
    reordered: list[Node] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(value for key, value in vars(self).items() if key != "name")


@dataclass
class GraphDiff:
    """The difference of two graphs.

    Attributes
    ----------
    levels
        One entry for each pair of graphs that differ, the outermost first.
    graphs_added, graphs_removed
        Names of nested graphs that only one side holds.
    notes
        What could not be compared: parameters that one side does not tell at all.
    """

    levels: list[LevelDiff]
    graphs_added: list[str]
    graphs_removed: list[str]
    notes: list[str]

    def __bool__(self) -> bool:
        return bool(self.levels or self.graphs_added or self.graphs_removed)

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self

    def summary(self) -> str:
        """Return the difference as one line."""
        if not self:
            return "no difference"
        total: Counter[tuple[str, str]] = Counter()
        for level in self.levels:
            for key in ("added", "removed", "changed", "moved"):
                total["node", key] += len(getattr(level, key))
            total["node", "with dependencies in another order"] += len(level.reordered)
            total["edge", "added"] += len(level.edges_added)
            total["edge", "removed"] += len(level.edges_removed)
        total["graph", "added"] = len(self.graphs_added)
        total["graph", "removed"] = len(self.graphs_removed)
        return ", ".join(f"{plural(count, noun)} {what}" for (noun, what), count in total.items() if count)

    def to_data(self) -> dict[str, Any]:
        """Return the difference as what ``json.dumps`` takes."""

        def node(n: Node) -> dict[str, Any]:
            return {"id": n.id, "kind": str(n.kind), "name": demangle(n.name)}

        return {
            "same": self.same,
            "summary": self.summary(),
            "graphs_added": self.graphs_added,
            "graphs_removed": self.graphs_removed,
            "notes": self.notes,
            "levels": [
                {
                    "graph": level.name,
                    "added": [node(n) for n in level.added],
                    "removed": [node(n) for n in level.removed],
                    "changed": [
                        {
                            "before": node(c.before),
                            "after": node(c.after),
                            "params": {k: [encode_value(v) for v in values] for k, values in c.params.items()},
                        }
                        for c in level.changed
                    ],
                    "moved": [{"before": node(a), "after": node(b)} for a, b in level.moved],
                    "reordered": [node(n) for n in level.reordered],
                    "edges_added": [list(edge) for edge in level.edges_added],
                    "edges_removed": [list(edge) for edge in level.edges_removed],
                }
                for level in self.levels
            ],
        }

    def text(self) -> str:
        """Return the difference as plain lines: ``+`` added, ``-`` removed, ``~`` changed, ``^`` moved."""
        lines = [self.summary()]
        for level in self.levels:
            lines.append(f"graph {level.name or '(no name)'}")
            lines += [f"  {mark} {words}" for mark, words in level_lines(level)]
        lines += [f"+ graph {name}" for name in self.graphs_added]
        lines += [f"- graph {name}" for name in self.graphs_removed]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)


def _title(node: Node) -> str:
    return f"{node.id}: {' '.join(label_lines(node))}"


def level_lines(level: LevelDiff) -> list[tuple[str, str]]:
    """Return one level's difference as marks and words, for text and for the coloured tree."""
    lines = [("-", _title(node)) for node in level.removed]
    lines += [("+", _title(node)) for node in level.added]
    for change in level.changed:
        values = ", ".join(f"{key} {a} -> {b}" for key, (a, b) in change.params.items())
        lines.append(("~", f"{_title(change.after)}: {values}"))
    lines += [("^", f"{_title(b)}: moved (was {a.id})") for a, b in level.moved]
    lines += [("~", f"{_title(node)}: its dependencies are in another order") for node in level.reordered]
    lines += [("-", f"edge {_ends(edge)}") for edge in level.edges_removed]
    lines += [("+", f"edge {_ends(edge)}") for edge in level.edges_added]
    return lines


def _ends(edge: Edge) -> str:
    kind = "" if edge[2:] == ("full", 0, 0) else f" ({edge.kind}, ports {edge.from_port} and {edge.to_port})"
    return f"{edge.source} -> {edge.target}{kind}"


def _compared(node: Node) -> dict[str, Any]:
    return {k: canonical(v) for k, v in node.params.items() if not is_address(k) and k not in _IGNORED}


def _what(node: Node) -> tuple[Hashable, ...]:
    return (str(node.kind), demangle(node.name), len(node.graphs))


def _whole(node: Node) -> Hashable:
    return (*_what(node), tuple(sorted((k, repr(v)) for k, v in _compared(node).items() if v is not None)))


def _align(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pairs of positions with equal keys, in order on both sides."""
    pairs: list[tuple[int, int]] = []
    begin = 0
    while begin < min(len(a), len(b)) and a[begin] == b[begin]:
        pairs.append((begin, begin))
        begin += 1
    end = 0
    while end < min(len(a), len(b)) - begin and a[-1 - end] == b[-1 - end]:
        pairs.append((len(a) - 1 - end, len(b) - 1 - end))
        end += 1
    middle_a, middle_b = a[begin : len(a) - end], b[begin : len(b) - end]
    seen = Counter(middle_b)
    if sum(seen[key] for key in middle_a) <= _PATIENCE:
        for block in SequenceMatcher(None, middle_a, middle_b, autojunk=False).get_matching_blocks():
            pairs += [(begin + block.a + i, begin + block.b + i) for i in range(block.size)]
    return pairs


def _match(a: Sequence[Node], b: Sequence[Node]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Pair the nodes of two orders: those that kept their place, and those that moved."""
    pairs = _align([_whole(n) for n in a], [_whole(n) for n in b])
    taken_a, taken_b = {i for i, _ in pairs}, {j for _, j in pairs}
    # What is left between two pairs is compared again by what it is, whatever its parameters.
    ordered = [*sorted(pairs), (len(a), len(b))]
    start_a = start_b = 0
    for i, j in ordered:
        gap_a, gap_b = range(start_a, i), range(start_b, j)
        if gap_a and gap_b:
            for x, y in _align([_what(a[k]) for k in gap_a], [_what(b[k]) for k in gap_b]):
                pairs.append((gap_a[x], gap_b[y]))
                taken_a.add(gap_a[x])
                taken_b.add(gap_b[y])
        start_a, start_b = i + 1, j + 1
    moved: list[tuple[int, int]] = []
    for key in (_whole, _what):
        free: dict[Hashable, list[int]] = {}
        for j in range(len(b) - 1, -1, -1):
            if j not in taken_b:
                free.setdefault(key(b[j]), []).append(j)
        for i in range(len(a)):
            if i not in taken_a and free.get(key(a[i])):
                j = free[key(a[i])].pop()
                moved.append((i, j))
                taken_a.add(i)
                taken_b.add(j)
    return sorted(pairs), moved


def _ordered(graph: GraphTopology) -> Sequence[Node]:
    return graph.topological_order() if graph.is_acyclic else graph.nodes


def _untold(graphs: Iterable[GraphTopology]) -> dict[str, set[str]]:
    told: dict[str, set[str]] = {}
    for graph in graphs:
        for node in graph.nodes:
            told.setdefault(str(node.kind), set()).update(node.params)
    return told


def _changes(a: Node, b: Node, told: tuple[dict[str, set[str]], dict[str, set[str]]]) -> dict[str, tuple[Any, Any]]:
    kind = str(a.kind)
    before, after = _compared(a), _compared(b)
    found = {}
    for key in sorted(before.keys() | after.keys()):
        if key in told[0].get(kind, ()) and key in told[1].get(kind, ()) and before.get(key) != after.get(key):
            found[key] = (a.params.get(key), b.params.get(key))
    return found


def _compare_level(
    a: GraphTopology, b: GraphTopology, told: tuple[dict[str, set[str]], dict[str, set[str]]]
) -> tuple[LevelDiff, list[tuple[Node, Node]]]:
    first, second = _ordered(a), _ordered(b)
    pairs, moved = _match(first, second)
    level = LevelDiff(b.name or a.name)
    matched_a, matched_b = {i for i, _ in (*pairs, *moved)}, {j for _, j in (*pairs, *moved)}
    unsaid_a, unsaid_b = set(a.undeclared), set(b.undeclared)
    level.removed = [n for i, n in enumerate(first) if i not in matched_a and n.id not in unsaid_a]
    level.added = [n for j, n in enumerate(second) if j not in matched_b and n.id not in unsaid_b]
    level.moved = [(first[i], second[j]) for i, j in moved]
    both = [(first[i], second[j]) for i, j in (*pairs, *moved)]
    for before, after in both:
        params = _changes(before, after, told)
        if params:
            level.changed.append(ChangedNode(before, after, params))
    ids: dict[NodeId, NodeId] = {x.id: y.id for x, y in both}
    known = set(ids.values())
    before_edges = {
        Edge(ids[e.source], ids[e.target], *e[2:]): e for e in a.edges if e.source in ids and e.target in ids
    }
    after_edges = dict.fromkeys(e for e in b.edges if e.source in known and e.target in known)
    level.edges_removed = [e for renamed, e in before_edges.items() if renamed not in after_edges]
    level.edges_added = [e for e in after_edges if e not in before_edges]
    for before, after in both:
        was = [ids[n.id] for n in a.predecessors(before.id) if n.id in ids]
        now = [n.id for n in b.predecessors(after.id) if n.id in known]
        if was != now and sorted(map(str, was)) == sorted(map(str, now)):
            level.reordered.append(after)
    return level, both


def diff(before: GraphLike, after: GraphLike) -> GraphDiff:
    """Compare two graphs, or their dumps.

    Nodes correspond by what they are and where they stand in the order of the graph, never by id, address, handle or
    graph number. A parameter that one side does not tell for any node of a kind is left out and noted.

    Parameters
    ----------
    before, after
        Anything that `load` takes.

    Raises
    ------
    DotSyntaxError, GraphStructureError, OSError
        As `load`.
    """
    first, second = load(before), load(after)
    told = (_untold(first.walk()), _untold(second.walk()))
    levels: list[LevelDiff] = []
    seen: set[tuple[str, str]] = set()
    held: tuple[set[str], set[str]] = ({first.name}, {second.name})
    pending = [(first, second)]
    for a, b in pending:  # grows while it is walked
        if (a.name, b.name) in seen:
            continue
        seen.add((a.name, b.name))
        level, both = _compare_level(a, b, told)
        if level:
            levels.append(level)
        for x, y in both:
            for mine, other in zip(x.graphs, y.graphs, strict=False):
                inner, outer = first.graphs.get(mine), second.graphs.get(other)
                if inner is not None and outer is not None:
                    held[0].add(mine)
                    held[1].add(other)
                    pending.append((inner, outer))
    removed = [name for name in first.graphs if name not in held[0]]
    added = [name for name in second.graphs if name not in held[1]]
    # Graphs that no node holds have no counterpart by place; those of one number on both sides are compared by it.
    for name in [name for name in removed if name in added]:
        removed.remove(name)
        added.remove(name)
        level, _ = _compare_level(first.graphs[name], second.graphs[name], told)
        if level:
            levels.append(level)
    notes = []
    for kind in sorted(told[0].keys() & told[1].keys()):
        for side, extra in (("first", told[0][kind] - told[1][kind]), ("second", told[1][kind] - told[0][kind])):
            names = sorted(key for key in extra if not is_address(key) and key not in _IGNORED)
            if names:
                notes.append(f"only the {side} graph tells of a {kind}: {', '.join(names)}")
    return GraphDiff(levels, added, removed, notes)
