"""Graphs put together by hand, at random, against a plain model of nodes and edges: S-D37, E-26, E-30, E-37."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest
from cuda.bindings import driver as cu
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.driver_rules.bench import Bench
from tests.driver_rules.driving import (
    Code,
    code,
    dependencies_of,
    edges_of,
    nodes_of,
    ok,
    remove_dependencies,
    roots_of,
)

rule = pytest.mark.driver_rule


class Build:
    """One graph and what it has to be: nodes numbered in the order of their creation."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.graph = bench.graph()
        self.handles: dict[int, Any] = {}
        self.model: Any = nx.DiGraph()

    def pick(self, number: int) -> int | None:
        """One of the nodes that are there."""
        numbers = sorted(self.handles)
        return numbers[number % len(numbers)] if numbers else None

    def add(self, first: int, second: int) -> None:
        """A node after up to two others."""
        after = sorted(
            {n for n in (self.pick(first), self.pick(second)) if n is not None} if (first + second) % 3 else ()
        )
        new = len(self.model)  # nodes that are destroyed stay in the model, marked as gone
        self.handles[new] = self.bench.add_memset(self.graph, [self.handles[n] for n in after])
        self.model.add_node(new, gone=False)
        self.model.add_edges_from((n, new) for n in after)

    def connect(self, first: int, second: int) -> None:
        """An edge, refused where it is one already or joins a node to itself."""
        a, b = self.pick(first), self.pick(second)
        if a is None or b is None:
            return
        fine = a != b and not self.model.has_edge(a, b)
        assert self.bench.add_edge(self.graph, self.handles[a], self.handles[b]) == (
            Code.SUCCESS if fine else Code.INVALID_VALUE
        )
        if fine:
            self.model.add_edge(a, b)

    def disconnect(self, first: int, second: int) -> None:
        """An edge less, refused where there is none. Picks an edge that exists more often than not."""
        edges = sorted(self.model.edges)
        if edges and second % 4:
            a, b = edges[first % len(edges)]
        else:
            chosen = self.pick(first), self.pick(second)
            if chosen[0] is None or chosen[1] is None:
                return
            a, b = chosen[0], chosen[1]
        got = code(remove_dependencies(self.graph, [self.handles[a]], [self.handles[b]], None, 1))
        assert got == (Code.SUCCESS if self.model.has_edge(a, b) else Code.INVALID_VALUE)
        if self.model.has_edge(a, b):
            self.model.remove_edge(a, b)

    def destroy(self, first: int, _: int) -> None:
        """A node less, with its edges."""
        number = self.pick(first)
        if number is None:
            return
        ok(cu.cuGraphDestroyNode(self.handles.pop(number)))
        self.model.remove_edges_from([*self.model.in_edges(number), *self.model.out_edges(number)])
        self.model.nodes[number]["gone"] = True

    def clone(self, _first: int, _second: int) -> None:
        """Goes on with a clone; the original is destroyed."""
        copy = self.bench.keep_graph(ok(cu.cuGraphClone(self.graph)))
        self.handles = {n: ok(cu.cuGraphNodeFindInClone(handle, copy)) for n, handle in self.handles.items()}
        assert self.bench.destroy_graph(self.graph) == Code.SUCCESS
        self.graph = copy

    def check(self) -> None:
        """The driver's graph is the model's, and can be instantiated unless it has a cycle."""
        numbers = sorted(self.handles)
        assert [int(n) for n in nodes_of(self.graph)] == [int(self.handles[n]) for n in numbers]
        place = {number: position for position, number in enumerate(numbers)}
        assert edges_of(self.graph) == {(place[a], place[b]) for a, b in self.model.edges}
        roots = [n for n in numbers if self.model.in_degree(n) == 0]
        assert [int(n) for n in roots_of(self.graph)] == [int(self.handles[n]) for n in roots]
        for number in numbers:
            assert dependencies_of(self.handles[number]) == {int(self.handles[n]) for n in self.model.pred[number]}
        answer = cu.cuGraphInstantiate(self.graph, 0)
        if nx.is_directed_acyclic_graph(self.model):
            assert code(answer) == Code.SUCCESS
            ok(cu.cuGraphExecDestroy(answer[1]))
        else:
            assert code(answer) == Code.INVALID_VALUE


STEPS = (Build.add, Build.add, Build.add, Build.connect, Build.connect, Build.disconnect, Build.destroy, Build.clone)
numbers = st.integers(0, 30)


@rule("D37", evidence="H2")
@rule("E-26", evidence="H2")
@rule("E-30", evidence="H2")
@rule("E-37", evidence="H2")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), numbers, numbers), min_size=4, max_size=30))
def test_graphs_built_at_random(bench: Bench, steps: list[tuple[Any, int, int]]) -> None:
    built = Build(bench)
    for step, first, second in steps:
        step(built, first, second)
        built.check()
    assert bench.destroy_graph(built.graph) == Code.SUCCESS
