"""Assertions on a captured graph, for tests: nobody has to search DOT text any more."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from graphcap.dot.names import demangle, short_name
from graphcap.inspection.load import GraphLike, load
from graphcap.inspection.summary import summarize
from graphcap.topology import GraphTopology, Node, NodeKind

__all__ = ["GraphAssertion", "assert_topology", "matching"]


def matching(nodes: Iterable[Node], what: Any) -> list[Node]:
    """Return the nodes that an id or a name means.

    A name means the nodes that have it exactly (mangled, demangled or short); where there are none, those whose name
    contains it, mangled or demangled. An int means the node with that id; a string may be an id too.
    """
    nodes = list(nodes)
    if isinstance(what, int):
        return [node for node in nodes if node.id == what]
    exact = [n for n in nodes if n.name and what in (n.name, demangle(n.name), short_name(n.name))]
    by_id = [n for n in nodes if str(n.id) == what]
    part = [n for n in nodes if what in n.name or what in demangle(n.name)]
    return exact or by_id or (part if what else [])


def _kind(word: str) -> NodeKind | None:
    try:
        return NodeKind.parse(word)
    except ValueError:
        return None


class GraphAssertion:
    """Assertions on one graph; each returns the object again, so that they chain. Made by `assert_topology`.

    Nested graphs count, each once. Every failure is an `AssertionError` that ends with the graph's summary.
    """

    def __init__(self, topology: GraphTopology) -> None:
        self.topology = topology
        self._nodes = list(topology.all_nodes())

    def _fail(self, message: str) -> None:
        __tracebackhide__ = True
        raise AssertionError(f"{message}\n{summarize(self.topology).text()}")

    def _kind_nodes(self, kind: NodeKind) -> list[Node]:
        return [node for node in self._nodes if node.kind is kind]

    def has(self, *names: str, **kinds: Any) -> GraphAssertion:
        """Assert that nodes are there.

        Parameters
        ----------
        names
            Each is the name of at least one node (exact, or a part of it).
        kinds
            A kind, singular or plural, and what there is of it: an int is the exact number of nodes; a string names at
            least one; a list of strings names one node each (a name given twice needs two); a mapping gives the exact
            number for each name.

        Raises
        ------
        AssertionError
            Something is missing, or too much.
        ValueError
            A keyword is no node kind.
        """
        __tracebackhide__ = True
        for name in names:
            if not matching(self._nodes, name):
                self._fail(f"expected a node named {name!r}; there is none")
        for word, wanted in kinds.items():
            kind = NodeKind.parse(word)
            nodes = self._kind_nodes(kind)
            if isinstance(wanted, bool) or not isinstance(wanted, int):
                self._has_names(kind, nodes, wanted)
            elif len(nodes) != wanted:
                self._fail(f"expected {wanted} nodes of kind {kind}; there are {len(nodes)}")
        return self

    def _has_names(self, kind: NodeKind, nodes: list[Node], wanted: Any) -> None:
        __tracebackhide__ = True
        exact = isinstance(wanted, Mapping)
        if isinstance(wanted, str):
            wanted = [wanted]
        if not isinstance(wanted, Mapping | list | tuple | set | frozenset):
            raise TypeError(f"{kind}: give a number, a name, a list of names, or a mapping of name to number.")
        counts: Mapping[Any, int] = wanted if isinstance(wanted, Mapping) else Counter(wanted)
        for name, count in counts.items():
            found = len(matching(nodes, name))
            if found != count if exact else found < count:
                least = "" if exact else "at least "
                self._fail(f"expected {least}{count} nodes of kind {kind} named {name!r}; there are {found}")

    def lacks(self, *what: str) -> GraphAssertion:
        """Assert that no node is of a kind, or has a name.

        Parameters
        ----------
        what
            Kinds (``"memcpy"``, ``"mem_allocs"``); any other word is a part of a name.

        Raises
        ------
        AssertionError
            Such a node is there; the message names the first ones.
        """
        __tracebackhide__ = True
        for word in what:
            kind = _kind(word)
            found = matching(self._nodes, word) if kind is None else self._kind_nodes(kind)
            if found:
                shown = ", ".join(f"{n.id} ({short_name(n.name) if n.name else n.kind})" for n in found[:5])
                self._fail(f"expected no {word!r}; there are {len(found)}: {shown}")
        return self

    def only(self, *kinds: str) -> GraphAssertion:
        """Assert that every node is of one of these kinds.

        Raises
        ------
        AssertionError
            A node is of another kind.
        ValueError
            A word is no node kind.
        """
        __tracebackhide__ = True
        allowed = {NodeKind.parse(word) for word in kinds}
        others = Counter(str(node.kind) for node in self._nodes if node.kind not in allowed)
        if others:
            self._fail(f"expected only {', '.join(kinds)}; there are also {dict(others)}")
        return self

    def _pick(self, wanted: tuple[Any, ...]) -> list[tuple[GraphTopology, list[Node]]]:
        """The nodes that are meant, and the graph that has them: one that has all, else the outermost that has each."""
        __tracebackhide__ = True
        levels = list(self.topology.walk())
        for level in levels:
            found = [matching(level.nodes, what) for what in wanted]
            if all(found):
                return [(level, nodes) for nodes in found]
        picked = []
        for what in wanted:
            where = next(((level, nodes) for level in levels if (nodes := matching(level.nodes, what))), None)
            if where is None:
                self._fail(f"expected a node {what!r}; there is none")
            else:
                picked.append(where)
        return picked

    def ordered(self, *nodes: Any) -> GraphAssertion:
        """Assert that nodes are ordered as they are given: each precedes the next in every replay.

        Parameters
        ----------
        nodes
            Ids or names. Where a name means several nodes, all of them precede all of the next.

        Raises
        ------
        AssertionError
            A pair is not ordered, or ordered the other way; or a name means no node.
        """
        __tracebackhide__ = True
        picked = self._pick(nodes)
        for (level, before), (other, after) in itertools.pairwise(picked):
            if level is not other:
                self._fail(
                    f"{before[0].title()!r} and {after[0].title()!r} are in different graphs, which edges do not join"
                )
            for a in before:
                for b in after:
                    if a.id != b.id and not level.precedes(a.id, b.id):
                        what = (
                            "it is the other way round"
                            if level.precedes(b.id, a.id)
                            else "no path of edges orders them"
                        )
                        self._fail(f"expected {a.title()!r} ({a.id}) before {b.title()!r} ({b.id}); {what}")
        return self

    def parallel(self, *nodes: Any) -> GraphAssertion:
        """Assert that no two of the nodes are ordered, so that they may run at the same time.

        Parameters
        ----------
        nodes
            Ids or names, as for `ordered`.

        Raises
        ------
        AssertionError
            A pair is ordered; or a name means no node.
        """
        __tracebackhide__ = True
        picked = [(level, node) for level, found in self._pick(nodes) for node in found]
        for i, (level, a) in enumerate(picked):
            for other, b in picked[i + 1 :]:
                if level is other and a.id != b.id and level.ordered(a.id, b.id):
                    self._fail(
                        f"expected {a.title()!r} ({a.id}) and {b.title()!r} ({b.id}) unordered; a path joins them"
                    )
        return self


def assert_topology(graph: GraphLike) -> GraphAssertion:
    """Begin assertions on a graph: ``assert_topology(g).has(kernels=2).lacks("memcpy").ordered("a", "b")``.

    Parameters
    ----------
    graph
        A live graph, a `GraphTopology`, or a dump (a path or bytes).

    Raises
    ------
    DotSyntaxError, GraphStructureError, OSError, TypeError
        As `load`.
    """
    return GraphAssertion(load(graph))
