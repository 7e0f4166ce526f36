"""The frontier of a capturing stream, asked and changed, and the graph under capture edited: S-D27 to S-D29, E-25."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench
from tests.driver_rules.driving import (
    ADD_DEPENDENCIES,
    MODES,
    NULL,
    SET_DEPENDENCIES,
    Code,
    Status,
    capture_info,
    code,
    edges_of,
    entry,
    ffi,
    handle,
    nodes_of,
    ok,
    same,
    status_of,
    update_dependencies,
)

rule = pytest.mark.driver_rule
modes = pytest.mark.parametrize("mode", list(MODES))


@rule("D28", evidence="H1")
@modes
def test_capture_info_tells_the_frontier(bench: Bench, mode: str) -> None:
    stream = bench.stream()
    bench.begin(stream, mode)
    assert capture_info(stream).dependencies == []
    bench.work(stream)
    bench.work(stream)
    info = capture_info(stream)
    assert [int(node) for node in info.dependencies] == [int(nodes_of(info.graph)[1])]
    assert [(edge.from_port, edge.to_port, int(edge.type)) for edge in info.edge_data] in ([], [(0, 0, 0)])
    assert same(bench.end(stream), info.graph)


@rule("D28", evidence="H3")
def test_capture_info_needs_somewhere_to_put_the_status(bench: Bench) -> None:
    call = entry("cuStreamGetCaptureInfo", 12030, "int (*)(void *, int *, void *, void *, void *, void *, void *)")
    assert call(handle(bench.stream()), NULL, NULL, NULL, NULL, NULL, NULL) == Code.INVALID_VALUE


@rule("D28", evidence="H1")
def test_capture_info_without_room_for_edge_data(bench: Bench) -> None:
    """Fine as long as the frontier's edges carry none."""
    call = entry("cuStreamGetCaptureInfo", 12030, "int (*)(void *, int *, void *, void *, void *, void *, void *)")
    stream = bench.stream()
    bench.begin(stream)
    bench.work(stream)
    status, dependencies, count = ffi.new("int *"), ffi.new("void **"), ffi.new("size_t *")
    assert call(handle(stream), status, NULL, NULL, dependencies, NULL, count) == Code.SUCCESS
    assert (status[0], count[0]) == (Status.ACTIVE, 1)
    bench.end(stream)


@rule("D28", evidence="H1")
def test_a_query_that_would_lose_edge_data(bench: Bench) -> None:
    """The frontier's edge made programmatic by hand, then asked for without room for the annotation."""
    call = entry("cuStreamGetCaptureInfo", 12030, "int (*)(void *, int *, void *, void *, void *, void *, void *)")
    stream = bench.stream()
    bench.begin(stream, "relaxed")
    bench.work(stream)
    info = capture_info(stream)
    edge = cu.CUgraphEdgeData()
    edge.from_port, edge.type = 1, 1  # programmatic
    changed = code(update_dependencies(stream, info.dependencies, [edge], 1, SET_DEPENDENCIES))
    status, dependencies, count = ffi.new("int *"), ffi.new("void **"), ffi.new("size_t *")
    got = call(handle(stream), status, NULL, NULL, dependencies, NULL, count)
    bench.end_code(stream)
    if changed != Code.SUCCESS:
        pytest.skip(f"a programmatic edge from a memset is refused: {changed!r}")
    assert got == Code.LOSSY_QUERY


@rule("D29", evidence="H3")
@pytest.mark.parametrize("flag", [ADD_DEPENDENCIES, SET_DEPENDENCIES], ids=["add", "set"])
def test_adding_to_and_replacing_the_frontier(bench: Bench, flag: int) -> None:
    stream = bench.stream()
    bench.begin(stream)
    bench.work(stream)  # 0
    bench.work(stream)  # 1
    first, _ = nodes_of(capture_info(stream).graph)
    assert code(update_dependencies(stream, [first], None, 1, flag)) == Code.SUCCESS
    bench.work(stream)  # 2
    expected = {(0, 1), (0, 2)} | ({(1, 2)} if flag == ADD_DEPENDENCIES else set())
    assert edges_of(bench.end(stream)) == expected


@rule("D27", evidence="H1")
@modes
def test_a_node_taken_out_of_the_frontier_is_not_unjoined(bench: Bench, mode: str) -> None:
    stream = bench.stream()
    bench.begin(stream, mode)
    bench.work(stream)
    assert code(update_dependencies(stream, None, None, 0, SET_DEPENDENCIES)) == Code.SUCCESS
    bench.work(stream)
    graph = bench.end(stream)
    assert (len(nodes_of(graph)), edges_of(graph)) == (2, set())


@rule("D27", evidence="H1")
@modes
def test_stray_leaves_joined_by_hand(bench: Bench, mode: str) -> None:
    """A fork's leaf added to the origin's frontier needs no event."""
    origin, fork = bench.streams(2)
    event = bench.event()
    bench.begin(origin, mode)
    bench.fork(origin, fork, event)
    bench.work(fork)
    leaves = capture_info(fork).dependencies
    assert code(update_dependencies(origin, leaves, None, len(leaves), ADD_DEPENDENCIES)) == Code.SUCCESS
    assert len(nodes_of(bench.end(origin))) == 1
    assert status_of(fork) == Status.NONE


@rule("D27", evidence="DOC")
def test_a_node_added_to_the_graph_alone_is_not_unjoined(bench: Bench) -> None:
    stream = bench.stream()
    bench.begin(stream)
    bench.add_memset(capture_info(stream).graph)
    assert len(nodes_of(bench.end(stream))) == 1


UPDATE = "int (*)(void *, void *, void *, size_t, unsigned int)"  # cuStreamUpdateCaptureDependencies with edge data


@rule("D29", evidence="H3")
def test_updating_the_frontier_of_an_idle_stream(bench: Bench) -> None:
    assert code(update_dependencies(bench.stream(), None, None, 0, SET_DEPENDENCIES)) == Code.ILLEGAL_STATE


@rule("D29", evidence="H3")
@pytest.mark.parametrize(
    ("count", "flag", "expected"),
    [(1, 0, 1), (1, 1, 1), (0, 2, 1), (0, 0, 0), (0, 1, 0)],
    ids=["null list, add", "null list, set", "unknown flag", "nothing added", "nothing set"],
)
def test_arguments_of_an_update(bench: Bench, count: int, flag: int, expected: int) -> None:
    call = entry("cuStreamUpdateCaptureDependencies", 12030, UPDATE)
    stream = bench.stream()
    bench.begin(stream)
    bench.work(stream)
    assert call(handle(stream), NULL, NULL, count, flag) == expected
    assert status_of(stream) == Status.ACTIVE
    bench.end(stream)


@rule("D29", evidence="H2")
@pytest.mark.parametrize("flag", [ADD_DEPENDENCIES, SET_DEPENDENCIES], ids=["add", "set"])
def test_an_update_with_a_null_node(bench: Bench, flag: int) -> None:
    call = entry("cuStreamUpdateCaptureDependencies", 12030, UPDATE)
    stream = bench.stream()
    bench.begin(stream)
    bench.work(stream)
    node = int(nodes_of(capture_info(stream).graph)[0])
    for listed in ([0], [node, 0]):
        array = ffi.new("uintptr_t[]", listed)
        assert call(handle(stream), array, NULL, len(listed), flag) == Code.INVALID_VALUE
    bench.end(stream)


@rule("E-25", evidence="H1")
@modes
def test_a_graph_under_capture_may_be_edited_by_hand(bench: Bench, mode: str) -> None:
    """Nodes of any kind, then spliced into the stream."""
    stream, event = bench.stream(), bench.event()
    child = bench.graph()
    bench.add_memset(child)
    buffer = bench.buffer(16)
    bench.begin(stream, mode)
    bench.work(stream)
    graph = capture_info(stream).graph
    made: list[Any] = list(capture_info(stream).dependencies)
    made.append(bench.add_empty(graph, made[-1:]))
    made.append(bench.add_memset(graph, made[-1:], pointer=buffer, value=4))
    made.append(bench.add_copy(graph, bench.copy_params(bench.scratch, buffer, 16), made[-1:]))
    made.append(ok(cu.cuGraphAddHostNode(graph, made[-1:], 1, bench.host.node_params(lambda: None))))
    made.append(ok(cu.cuGraphAddChildGraphNode(graph, made[-1:], 1, child)))
    made.append(ok(cu.cuGraphAddEventRecordNode(graph, made[-1:], 1, event)))
    made.append(ok(cu.cuGraphAddEventWaitNode(graph, made[-1:], 1, event)))
    assert code(update_dependencies(stream, made[-1:], None, 1, SET_DEPENDENCIES)) == Code.SUCCESS
    ok(cu.cuMemcpyDtoDAsync(buffer + 8, bench.scratch, 8, stream))
    finished = bench.end(stream)
    assert edges_of(finished) == set(itertools.pairwise(range(9)))
    bench.run(bench.instantiate(finished))
