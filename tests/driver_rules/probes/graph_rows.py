"""Questions 10 to 12: freeing in a capture, capturing into a graph, codes of an update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench
from tests.driver_rules.building import (
    SWITCH,
    Copies,
    add_alloc,
    add_conditional,
    begin_to_graph,
    condition,
    unfreed,
    update,
)
from tests.driver_rules.driving import (
    AUTO_FREE,
    Code,
    capture_info,
    code,
    nodes_of,
    ok,
    same,
    status_of,
)
from tests.driver_rules.probes.rows import Answer, finish, row, table


@table(
    10,
    pointer=("captured here", "another graph", "async outside", "plain device memory", "null", "already freed here"),
    by=("origin", "fork"),
)
def freeing_in_a_capture(bench: Bench, pointer: str, by: str) -> Answer:
    origin, fork, side, out, back = *bench.streams(3), bench.event(), bench.event()
    given: Any = 0
    if pointer == "another graph":
        given = add_alloc(bench, bench.graph())[1]
    elif pointer == "async outside":
        given = ok(cu.cuMemAllocAsync(256, side))
        ok(cu.cuStreamSynchronize(side))
    elif pointer == "plain device memory":
        given = bench.buffer()
    bench.begin(origin)
    if pointer in ("captured here", "already freed here"):
        given = ok(cu.cuMemAllocAsync(256, origin))
    if pointer == "already freed here":
        ok(cu.cuMemFreeAsync(given, origin))
    bench.fork(origin, fork, out)
    got = code(cu.cuMemFreeAsync(given, origin if by == "origin" else fork))
    if status_of(fork) == 1:
        bench.fork(fork, origin, back)
    return {"code": got, **finish(origin)}


@table(10, flags=(0, AUTO_FREE))
def relaunching_with_unfreed_memory(bench: Bench, flags: int) -> Answer:
    stream = bench.stream()
    _, executable, pointer = unfreed(bench, flags)
    codes = [code(cu.cuGraphLaunch(executable, stream)) for _ in range(2)]
    codes.append(code(cu.cuMemFreeAsync(pointer, stream)))
    codes.append(code(cu.cuGraphLaunch(executable, stream)))
    codes.append(code(cu.cuStreamSynchronize(stream)))
    return {"launch_launch_free_launch_sync": codes}


# -- 11: capture into a graph ------------------------------------------------------------------------------------------


@row(11, "ids over two captures into one graph, and the handle at the end")
def ids(bench: Bench) -> Answer:
    graph, stream, seen, handles = bench.graph(), bench.stream(), [], []
    for _ in range(2):
        assert begin_to_graph(stream, graph, []) == Code.SUCCESS
        seen.append(capture_info(stream).id)
        bench.work(stream)
        handles.append(same(ok(cu.cuStreamEndCapture(stream)), graph))
    return {"same_id": seen[0] == seen[1], "same_handle": handles, "nodes": len(nodes_of(graph))}


@row(11, "beginning on a graph that is being captured into")
def twice_into_one(bench: Bench) -> Answer:
    graph, (first, second) = bench.graph(), bench.streams(2)
    assert begin_to_graph(first, graph, []) == Code.SUCCESS
    got = begin_to_graph(second, graph, [])
    answer = {"code": got, **finish(first)}
    if status_of(second):
        answer["second_end"] = finish(second)["end"]
    return answer


@row(11, "beginning after a node of another graph")
def foreign_start(bench: Bench) -> Answer:
    graph, other, stream = bench.graph(), bench.graph(), bench.stream()
    got = begin_to_graph(stream, graph, [bench.add_memset(other)])
    return {"code": got, **(finish(stream) if status_of(stream) else {})}


@row(11, "an unjoined end: whether the nodes stay")
def unjoined_into_graph(bench: Bench) -> Answer:
    graph, (origin, fork), out = bench.graph(), bench.streams(2), bench.event()
    assert begin_to_graph(origin, graph, []) == Code.SUCCESS
    bench.work(origin)
    bench.fork(origin, fork, out)
    bench.work(fork)
    end = code(cu.cuStreamEndCapture(origin))
    return {"end": end, "nodes_left": code(cu.cuGraphGetNodes(graph, 0)), "count": count_or_none(graph)}


def count_or_none(graph: Any) -> int | None:
    """How many nodes a graph has, if the handle still answers."""
    answer = cu.cuGraphGetNodes(graph, 0)
    return int(answer[-1]) if code(answer) == Code.SUCCESS else None


@row(11, "instantiating while it is captured into")
def instantiate_while_open(bench: Bench) -> Answer:
    graph, stream = bench.graph(), bench.stream()
    assert begin_to_graph(stream, graph, [], "relaxed") == Code.SUCCESS
    bench.work(stream)
    return {"code": code(cu.cuGraphInstantiate(graph, 0)), **finish(stream)}


@row(11, "an invalidated capture into a graph: whether the nodes stay")
def invalidated_into_graph(bench: Bench) -> Answer:
    graph, stream = bench.graph(), bench.stream()
    bench.add_memset(graph)
    assert begin_to_graph(stream, graph, []) == Code.SUCCESS
    bench.work(stream)
    cu.cuStreamQuery(stream)
    return {"end": code(cu.cuStreamEndCapture(stream)), "count": count_or_none(graph)}


# -- 12: codes of an update --------------------------------------------------------------------------------------------

Pair = tuple[Any, Any]  # the graph an executable is made of, and the graph it is updated from


def memsets(bench: Bench, lengths: tuple[int, int]) -> Pair:
    """Chains of two lengths."""
    graphs = bench.graph(), bench.graph()
    for graph, length in zip(graphs, lengths, strict=True):
        bench.chain(graph, length)
    return graphs


def type_changed(bench: Bench) -> Pair:
    first, second = bench.graph(), bench.graph()
    bench.add_memset(first)
    Copies(bench).to_device(second, 0)
    return first, second


def type_and_edge_changed(bench: Bench) -> Pair:
    copies, first, second = Copies(bench), bench.graph(), bench.graph()
    copies.to_device(first, 1, [copies.to_device(first, 0)])
    memset = bench.add_memset(second)
    bench.add_edge(second, copies.to_device(second, 0), memset)
    return first, second


def dependents_differ(bench: Bench) -> Pair:
    copies, first, second = Copies(bench), bench.graph(), bench.graph()
    chain: list[Any] = []
    for number in range(3):
        chain.append(copies.to_device(first, number, chain[-1:]))
    copies.to_device(second, 2, [copies.to_device(second, number) for number in range(2)])
    return first, second


def direction_changed(bench: Bench) -> Pair:
    copies, first, second = Copies(bench), bench.graph(), bench.graph()
    copies.to_device(first, 0)
    copies.to_host(second, 1)
    return first, second


def two_in_one_out(bench: Bench) -> Pair:
    copies, first, second = Copies(bench), bench.graph(), bench.graph()
    copies.to_device(first, 0)
    copies.to_device(first, 1)
    copies.to_host(second, 2)
    return first, second


def extra_exit(bench: Bench) -> Pair:
    first, second = bench.graph(), bench.graph()
    bench.chain(first, 3)
    root = bench.add_memset(second)
    for _ in range(2):
        bench.add_memset(second, [root])
    return first, second


def edges_reordered(bench: Bench) -> Pair:
    graphs = bench.graph(), bench.graph()
    for graph, step in zip(graphs, (1, -1), strict=True):
        bench.add_memset(graph, [bench.add_memset(graph) for _ in range(2)][::step])
    return graphs


def memset_size_changed(bench: Bench) -> Pair:
    first, second = bench.graph(), bench.graph()
    bench.add_memset(first, width=4, height=2, pitch=16)
    bench.add_memset(second, width=8, height=2, pitch=16)
    return first, second


def host_function_changed(bench: Bench) -> Pair:
    graphs = bench.graph(), bench.graph()
    for graph in graphs:
        ok(cu.cuGraphAddHostNode(graph, [], 0, bench.host.node_params(lambda: None)))
    return graphs


def event_changed(bench: Bench) -> Pair:
    graphs = bench.graph(), bench.graph()
    for graph in graphs:
        ok(cu.cuGraphAddEventRecordNode(graph, [], 0, bench.event()))
    return graphs


def child_grown(bench: Bench) -> Pair:
    graphs = bench.graph(), bench.graph()
    for graph, length in zip(graphs, (1, 2), strict=True):
        child = bench.graph()
        bench.chain(child, length)
        ok(cu.cuGraphAddChildGraphNode(graph, [], 0, child))
    return graphs


def switch_default_changed(bench: Bench) -> Pair:
    graphs = bench.graph(), bench.graph()
    for value, graph in enumerate(graphs):
        add_conditional(bench, graph, condition(bench, graph, value), SWITCH, 2)
    return graphs


PAIRS: dict[str, Callable[[Bench], Pair]] = {
    pair.__name__: pair
    for pair in (
        type_changed,
        type_and_edge_changed,
        dependents_differ,
        direction_changed,
        two_in_one_out,
        extra_exit,
        edges_reordered,
        memset_size_changed,
        host_function_changed,
        event_changed,
        child_grown,
        switch_default_changed,
    )
}


def told(executable: Any, source: Any) -> Answer:
    """What an update answers, with the error node as its place in the source graph."""
    answer = update(executable, source)
    place = {int(node): number for number, node in enumerate(nodes_of(source))}
    node = "none" if not answer.node else place.get(answer.node, "elsewhere")
    return {"code": answer.code, "result": answer.result, "error_node": node}


@table(12, change=tuple(PAIRS))
def update_of(bench: Bench, change: str) -> Answer:
    first, second = PAIRS[change](bench)
    return told(bench.instantiate(first), second)


@table(12, lengths=((2, 3), (3, 2), (1, 2), (2, 1)))
def update_of_a_chain(bench: Bench, lengths: tuple[int, int]) -> Answer:
    first, second = memsets(bench, lengths)
    return told(bench.instantiate(first), second)


@row(12, "a node destroyed in the same graph")
def destroyed_in_the_same(bench: Bench) -> Answer:
    copies, graph = Copies(bench), bench.graph()
    nodes = [copies.to_device(graph, number) for number in range(2)]
    executable = bench.instantiate(graph)
    ok(cu.cuGraphDestroyNode(nodes[1]))
    return told(executable, graph)


@row(12, "the same graph grown by an independent node")
def grown(bench: Bench) -> Answer:
    copies, graph = Copies(bench), bench.graph()
    copies.to_device(graph, 0)
    executable = bench.instantiate(graph)
    copies.to_device(graph, 1)
    return told(executable, graph)


@row(12, "a source that had a node destroyed")
def source_with_a_destroyed_node(bench: Bench) -> Answer:
    copies, graph, single = Copies(bench), bench.graph(), bench.graph()
    copies.to_device(graph, 0)
    ok(cu.cuGraphDestroyNode(copies.to_device(graph, 1)))
    copies.to_device(single, 2)
    return told(bench.instantiate(single), graph)


@row(12, "a disabled node")
def disabled(bench: Bench) -> Answer:
    first, second = memsets(bench, (1, 1))
    executable = bench.instantiate(first)
    ok(cu.cuGraphNodeSetEnabled(executable, nodes_of(first)[0], 0))
    answer = told(executable, second)
    return {**answer, "enabled_after": ok(cu.cuGraphNodeGetEnabled(executable, nodes_of(first)[0]))}
