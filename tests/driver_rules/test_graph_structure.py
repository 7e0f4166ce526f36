"""Nodes and edges of a graph, clones, children: S-D37, S-D47, S-D49, S-D52, E-26, E-27, E-30, E-36, E-37, E-39."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench
from tests.driver_rules.building import add_alloc, add_free
from tests.driver_rules.child import in_child
from tests.driver_rules.driving import (
    NULL,
    Code,
    Kind,
    add_dependencies,
    add_node_call,
    code,
    dependencies_of,
    edges_of,
    entry,
    ffi,
    handle,
    kind_of,
    nodes_of,
    ok,
    remove_dependencies,
    roots_of,
    same,
)

rule = pytest.mark.driver_rule


# -- edges -------------------------------------------------------------------------------------------------------------


@rule("E-26", evidence="H2")
@pytest.mark.parametrize("case", ["duplicate", "self", "other graph", "null", "removed twice", "never there"])
def test_refused_edges(bench: Bench, case: str) -> None:
    graph, elsewhere = bench.graph(), bench.graph()
    a, b, c = (bench.add_memset(graph) for _ in range(3))
    stranger = bench.add_memset(elsewhere)
    assert bench.add_edge(graph, a, b) == Code.SUCCESS
    if case == "removed twice":
        assert bench.add_edge(graph, b, c) == Code.SUCCESS
        assert code(remove_dependencies(graph, [b], [c], None, 1)) == Code.SUCCESS
    attempts = {
        "duplicate": lambda: bench.add_edge(graph, a, b),
        "self": lambda: bench.add_edge(graph, a, a),
        "other graph": lambda: bench.add_edge(graph, a, stranger),
        "null": lambda: bench.add_edge(graph, a, cu.CUgraphNode(0)),
        "removed twice": lambda: code(remove_dependencies(graph, [b], [c], None, 1)),
        "never there": lambda: code(remove_dependencies(graph, [a], [c], None, 1)),
    }
    assert attempts[case]() == Code.INVALID_VALUE
    assert edges_of(graph) == {(0, 1)}


@rule("E-26", evidence="H2")
@pytest.mark.parametrize("name", ["cuGraphAddDependencies", "cuGraphRemoveDependencies"])
def test_no_edges_at_all_are_no_error(bench: Bench, name: str) -> None:
    call = entry(name, 12030, "int (*)(void *, void *, void *, void *, size_t)")
    assert call(handle(bench.graph()), NULL, NULL, NULL, 0) == Code.SUCCESS


@rule("E-26", evidence="H2")
def test_a_null_list_of_edges_is_one(bench: Bench) -> None:
    call = entry("cuGraphAddDependencies", 12030, "int (*)(void *, void *, void *, void *, size_t)")
    graph = bench.graph()
    bench.add_memset(graph)
    assert call(handle(graph), NULL, NULL, NULL, 1) == Code.INVALID_VALUE


@rule("E-27", evidence="H3")
def test_a_batch_of_edges_with_one_bad_pair(bench: Bench) -> None:
    graph = bench.graph()
    a, b = (bench.add_memset(graph) for _ in range(2))
    assert code(add_dependencies(graph, [a, b], [b, b], None, 2)) == Code.INVALID_VALUE


@rule("E-27", evidence="unknown")
def test_observe_what_a_bad_batch_leaves(bench: Bench, observe: Any) -> None:
    graph = bench.graph()
    a, b = (bench.add_memset(graph) for _ in range(2))
    got = code(add_dependencies(graph, [a, b], [b, b], None, 2))
    observe(code=got, edges_left=len(edges_of(graph)))


# -- cycles ------------------------------------------------------------------------------------------------------------


def cyclic(bench: Bench) -> tuple[Any, list[Any]]:
    """A graph of three nodes in a circle."""
    graph = bench.graph()
    nodes = bench.chain(graph, 3)
    assert bench.add_edge(graph, nodes[-1], nodes[0]) == Code.SUCCESS  # building one is allowed
    return graph, nodes


@rule("D37", evidence="H2")
@rule("E-26", evidence="H2")
def test_a_cycle_is_found_at_instantiation(bench: Bench) -> None:
    graph, nodes = cyclic(bench)
    assert code(cu.cuGraphInstantiate(graph, 0)) == Code.INVALID_VALUE
    assert code(remove_dependencies(graph, [nodes[-1]], [nodes[0]], None, 1)) == Code.SUCCESS
    bench.run(bench.instantiate(graph))


@rule("D37", evidence="H2")
def test_a_cyclic_graph_may_be_cloned(bench: Bench) -> None:
    graph, _ = cyclic(bench)
    clone = bench.keep_graph(ok(cu.cuGraphClone(graph)))
    assert edges_of(clone) == {(0, 1), (1, 2), (2, 0)}
    assert code(cu.cuGraphInstantiate(clone, 0)) == Code.INVALID_VALUE


@rule("D37", evidence="H2")
def test_a_cyclic_child_is_found_too(bench: Bench) -> None:
    child, _ = cyclic(bench)
    parent = bench.graph()
    ok(cu.cuGraphAddChildGraphNode(parent, [], 0, child))
    assert code(cu.cuGraphInstantiate(parent, 0)) == Code.INVALID_VALUE


@rule("D37", evidence="DOC")
def test_the_result_code_of_a_cycle(bench: Bench) -> None:
    graph, _ = cyclic(bench)
    params = cu.CUDA_GRAPH_INSTANTIATE_PARAMS()
    assert code(cu.cuGraphInstantiateWithParams(graph, params)) == Code.INVALID_VALUE
    assert params.result_out == cu.CUgraphInstantiateResult.CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE


# -- order, kinds, nothing ---------------------------------------------------------------------------------------------


@rule("E-37", evidence="H2")
def test_nodes_and_roots_are_listed_in_the_order_of_creation(bench: Bench) -> None:
    graph = bench.graph()
    made: list[Any] = []
    roots = []
    for number in range(12):
        after = [made[number - 2]] if number % 3 == 2 else []
        made.append(bench.add_memset(graph, after))
        if not after:
            roots.append(made[-1])
    assert [int(n) for n in nodes_of(graph)] == [int(n) for n in made]
    assert [int(n) for n in roots_of(graph)] == [int(n) for n in roots]


@rule("D47", evidence="DOC")
def test_the_numbers_of_the_node_kinds(bench: Bench) -> None:
    graph, child, event = bench.graph(), bench.graph(), bench.event()
    made = {
        Kind.MEMSET: bench.add_memset(graph),
        Kind.MEMCPY: bench.add_copy(graph, bench.copy_params(bench.scratch, bench.scratch + 64, 16)),
        Kind.HOST: ok(cu.cuGraphAddHostNode(graph, [], 0, bench.host.node_params(lambda: None))),
        Kind.CHILD_GRAPH: ok(cu.cuGraphAddChildGraphNode(graph, [], 0, child)),
        Kind.EMPTY: bench.add_empty(graph),
        Kind.EVENT_WAIT: ok(cu.cuGraphAddEventWaitNode(graph, [], 0, event)),
        Kind.EVENT_RECORD: ok(cu.cuGraphAddEventRecordNode(graph, [], 0, event)),
    }
    assert {kind: kind_of(node) for kind, node in made.items()} == {kind: kind for kind in made}


@rule("E-36", evidence="H3")
@pytest.mark.parametrize("name", ["GraphDestroy", "GraphExecDestroy", "GraphDestroyNode", "GraphLaunch", "GraphUpload"])
def test_null_handles(bench: Bench, name: str) -> None:
    one_more = name in ("GraphLaunch", "GraphUpload")
    call = entry(f"cu{name}", 12000, f"int (*)(void *{', void *' if one_more else ''})")
    arguments = [NULL, handle(bench.stream())] if one_more else [NULL]
    assert call(*arguments) == Code.INVALID_VALUE


@rule("E-37", evidence="H2")
def test_destroying_a_node_takes_its_edges(bench: Bench) -> None:
    graph = bench.graph()
    nodes = bench.chain(graph, 3)
    assert code(cu.cuGraphDestroyNode(nodes[1])) == Code.SUCCESS
    assert [int(n) for n in nodes_of(graph)] == [int(nodes[0]), int(nodes[2])]
    assert edges_of(graph) == set()
    assert dependencies_of(nodes[2]) == set()


# -- clones ------------------------------------------------------------------------------------------------------------


@rule("E-30", evidence="H2")
def test_finding_a_node_in_a_clone(bench: Bench) -> None:
    graph, stranger = bench.graph(), bench.graph()
    nodes = bench.chain(graph, 2)
    clone = bench.keep_graph(ok(cu.cuGraphClone(graph)))
    late = bench.add_memset(graph)
    found = [ok(cu.cuGraphNodeFindInClone(node, clone)) for node in nodes]
    assert [int(n) for n in found] == [int(n) for n in nodes_of(clone)]
    assert code(cu.cuGraphNodeFindInClone(nodes[0], stranger)) == Code.INVALID_VALUE
    assert code(cu.cuGraphNodeFindInClone(nodes[0], graph)) == Code.INVALID_VALUE
    assert code(cu.cuGraphNodeFindInClone(late, clone)) == Code.INVALID_VALUE


def find_a_destroyed_node(bench: Bench) -> int:
    """In a child: looks for a node that was destroyed after cloning."""
    graph = bench.graph()
    node = bench.add_memset(graph)
    clone = ok(cu.cuGraphClone(graph))
    ok(cu.cuGraphDestroyNode(node))
    return code(cu.cuGraphNodeFindInClone(node, clone))


@rule("E-30", evidence="H2")
def test_finding_a_destroyed_node_in_a_clone() -> None:
    answer = in_child(f"{__name__}:find_a_destroyed_node")
    assert answer.exit_status == 0, answer.output
    assert answer.value == Code.INVALID_VALUE


# -- children ----------------------------------------------------------------------------------------------------------


@rule("D49", evidence="H3")
def test_a_child_is_a_copy(bench: Bench) -> None:
    parent, child = bench.graph(), bench.graph()
    buffer = bench.buffer(16)
    bench.add_memset(child, pointer=buffer, value=3)
    node = ok(cu.cuGraphAddChildGraphNode(parent, [], 0, child))
    embedded = ok(cu.cuGraphChildGraphNodeGetGraph(node))
    assert not same(embedded, child)
    bench.add_memset(child, pointer=buffer, value=9)  # no longer reaches the parent
    assert len(nodes_of(embedded)) == 1
    assert bench.destroy_graph(child) == Code.SUCCESS
    bench.run(bench.instantiate(parent))
    assert bench.read(buffer, 16) == b"\x03" * 16


@rule("D49", evidence="H2")
def test_asking_for_a_child_in_vain(bench: Bench) -> None:
    graph, child = bench.graph(), bench.graph()
    node = ok(cu.cuGraphAddChildGraphNode(graph, [], 0, child))
    assert code(cu.cuGraphChildGraphNodeGetGraph(bench.add_memset(graph))) == Code.INVALID_VALUE
    call = entry("cuGraphChildGraphNodeGetGraph", 10000, "int (*)(void *, void **)")
    assert call(handle(node), NULL) == Code.INVALID_VALUE
    assert call(NULL, ffi.new("void **")) == Code.INVALID_VALUE


@rule("D49", evidence="DOC")
@rule("D32", evidence="DOC")
def test_a_moved_child_may_allocate(bench: Bench) -> None:
    """And belongs to its parent from then on."""
    if not hasattr(cu, "CUgraphChildGraphNodeOwnership"):
        pytest.skip("this release of the bindings does not know moved children")
    parent, child = bench.graph(), ok(cu.cuGraphCreate(0))
    alloc, pointer = add_alloc(bench, child)
    add_free(child, pointer, [alloc])
    params = cu.CUgraphNodeParams()
    params.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_GRAPH
    params.graph.graph = child
    params.graph.ownership = cu.CUgraphChildGraphNodeOwnership.CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE
    node = ok(add_node_call(parent, [], None, 0, params))
    assert same(ok(cu.cuGraphChildGraphNodeGetGraph(node)), child)
    assert code(cu.cuGraphInstantiate(child, 0)) != Code.SUCCESS
    assert code(cu.cuGraphDestroy(child)) != Code.SUCCESS
    bench.run(bench.instantiate(parent))


def add_a_graph_to_itself(bench: Bench) -> list[int]:
    """In a child: a graph becomes its own child; the code and how many nodes it has then."""
    graph = bench.graph()
    bench.chain(graph, 2)
    got = code(cu.cuGraphAddChildGraphNode(graph, [], 0, graph))
    return [got, len(nodes_of(graph))]


@rule("E-39", evidence="unknown")
@rule("D49", evidence="unknown")
def test_observe_a_graph_added_to_itself(observe: Any) -> None:
    answer = in_child(f"{__name__}:add_a_graph_to_itself")
    observe(exit_status=answer.exit_status, code_and_nodes=answer.value)


# -- DOT ---------------------------------------------------------------------------------------------------------------


@rule("D52", evidence="H3")
def test_printing_without_a_graph_or_a_path(bench: Bench, tmp_path: Path) -> None:
    call = entry("cuGraphDebugDotPrint", 11030, "int (*)(void *, char *, unsigned int)")
    path = ffi.new("char[]", str(tmp_path / "g.dot").encode())
    assert call(NULL, path, 0) == Code.INVALID_VALUE
    assert call(handle(bench.graph()), NULL, 0) == Code.INVALID_VALUE
    assert call(handle(bench.graph()), ffi.new("char[]", b""), 0) == Code.OPERATING_SYSTEM


@rule("D52", evidence="H1")
def test_verbose_output_differs(bench: Bench, tmp_path: Path) -> None:
    graph = bench.graph()
    bench.chain(graph, 2)
    for name, flags in (("plain", 0), ("verbose", 1)):
        ok(cu.cuGraphDebugDotPrint(graph, str(tmp_path / name).encode(), flags))
    plain, verbose = ((tmp_path / name).read_text() for name in ("plain", "verbose"))
    assert plain.startswith("digraph")
    assert verbose.startswith("digraph")
    assert len(verbose) > len(plain)
