"""Questions 13 to 15: external events and rare calls, argument checks, lifetimes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench
from tests.driver_rules.driving import (
    MODES,
    NULL,
    NULL_STREAM,
    PER_THREAD,
    Code,
    add_dependencies,
    capture_info,
    code,
    edges_of,
    entry,
    handle,
    nodes_of,
    ok,
    status_of,
)
from tests.driver_rules.kernels import Kernels, UnavailableError, attribute
from tests.driver_rules.probes.rows import MODE_NAMES, Answer, finish, row, table


@table(13, call=("record", "wait"))
def external_outside_a_capture(bench: Bench, call: str) -> Answer:
    stream, event = bench.stream(), bench.recorded_event()
    if call == "record":
        return {"code": code(cu.cuEventRecordWithFlags(event, stream, 1))}
    return {"code": code(cu.cuStreamWaitEvent(stream, event, 1))}


@row(13, "elapsed time between external events of a graph")
def elapsed_across_a_graph(bench: Bench) -> Answer:
    stream, start, stop = bench.stream(), bench.event(timing=True), bench.event(timing=True)
    bench.begin(stream)
    ok(cu.cuEventRecordWithFlags(start, stream, 1))
    bench.work(stream)
    ok(cu.cuEventRecordWithFlags(stop, stream, 1))
    graph = bench.end(stream)
    before = code(cu.cuEventElapsedTime(start, stop))
    bench.run(bench.instantiate(graph), stream)
    return {"before_launch": before, "after_launch": code(cu.cuEventElapsedTime(start, stop))}


@table(13, call=("add callback", "attach memory", "write value"), mode=MODE_NAMES)
def rare_call(bench: Bench, call: str, mode: str) -> Answer:
    stream = bench.stream()
    callback = cu.CUstreamCallback(bench.host.stream_callback(lambda: None))
    managed = cu.cuMemAllocManaged(4096, 1)
    if call == "attach memory" and code(managed) != Code.SUCCESS:
        return {"unavailable": f"no managed memory: {code(managed)}"}
    bench.begin(stream, mode)
    bench.work(stream)
    calls: dict[str, Callable[[], Any]] = {
        "add callback": lambda: cu.cuStreamAddCallback(stream, callback, 0, 0),
        "attach memory": lambda: cu.cuStreamAttachMemAsync(stream, managed[1], 0, 2),
        "write value": lambda: cu.cuStreamWriteValue32(stream, bench.scratch, 1, 0),
    }
    return {"code": code(calls[call]()), **finish(stream)}


@table(13, launch=("cooperative", "empty grid", "block too large"), mode=MODE_NAMES)
def rare_launch(bench: Bench, launch: str, mode: str) -> Answer:
    stream = bench.stream()
    try:
        kernels = Kernels(bench)
    except UnavailableError as why:
        return {"unavailable": str(why)}
    bench.begin(stream, mode)
    bench.work(stream)
    launches: dict[str, Callable[[], int]] = {
        "cooperative": lambda: kernels.launch(stream, attributes=(attribute("COOPERATIVE", 1),)),
        "empty grid": lambda: kernels.launch(stream, grid=0),
        "block too large": lambda: kernels.launch(stream, block=1 << 20),
    }
    return {"code": launches[launch](), **finish(stream)}


# -- 14: arguments -----------------------------------------------------------------------------------------------------


@table(14, mode=(-1, 3, 17))
def exchange_of_a_bad_mode(bench: Bench, mode: int) -> Answer:
    from tests.driver_rules.driving import ffi

    call = entry("cuThreadExchangeStreamCaptureMode", 10010, "int (*)(int *)")
    place = ffi.new("int *", mode)
    return {"code": call(place), "left": place[0]}


@row(14, "exchange of a null pointer")
def exchange_of_null(bench: Bench) -> Answer:
    return {"code": entry("cuThreadExchangeStreamCaptureMode", 10010, "int (*)(int *)")(NULL)}


@table(14, mode=(-1, 3, 17))
def beginning_in_a_bad_mode(bench: Bench, mode: int) -> Answer:
    stream = bench.stream()
    got = entry("cuStreamBeginCapture", 10010, "int (*)(void *, int)")(handle(stream), mode)
    return {"code": got, **(finish(stream) if status_of(stream) else {})}


@table(14, blocking=(False, True))
def ending_into_null_while_capturing(bench: Bench, blocking: bool) -> Answer:
    stream = bench.stream(blocking=blocking)
    bench.begin(stream)
    bench.work(stream)
    got = entry("cuStreamEndCapture", 10000, "int (*)(void *, void **)")(handle(stream), NULL)
    return {"code": got, "status_after": status_of(stream), **(finish(stream) if status_of(stream) else {})}


@row(14, "is-capturing into null")
def is_capturing_into_null(bench: Bench) -> Answer:
    return {"code": entry("cuStreamIsCapturing", 10000, "int (*)(void *, int *)")(handle(bench.stream()), NULL)}


@table(14, query=("is capturing", "stream query", "synchronize"))
def legacy_query_while_the_per_thread_stream_captures(bench: Bench, query: str) -> Answer:
    bench.begin(PER_THREAD)
    calls = {
        "is capturing": cu.cuStreamIsCapturing,
        "stream query": cu.cuStreamQuery,
        "synchronize": cu.cuStreamSynchronize,
    }
    return {"code": code(calls[query](NULL_STREAM)), **finish(PER_THREAD)}


@row(14, "beginning inside a host function")
def begin_in_a_host_function(bench: Bench) -> Answer:
    stream, side = bench.streams(2)
    answer: Answer = {}

    def body() -> None:
        answer["code"] = code(cu.cuStreamBeginCapture(side, MODES["relaxed"]))

    assert bench.host.launch(stream, body) == 0
    ok(cu.cuStreamSynchronize(stream))
    return {**answer, **(finish(side) if status_of(side) else {})}


# -- 15: lifetimes -----------------------------------------------------------------------------------------------------


@row(15, "destroying the origin, then another capture")
def destroy_the_origin(bench: Bench) -> Answer:
    origin, fork, another, out = *bench.streams(3), bench.event()
    bench.begin(origin)
    bench.work(origin)
    bench.fork(origin, fork, out)
    graph = capture_info(origin).graph
    got = bench.destroy_stream(origin)
    answer = {"code": got, "fork": status_of(fork), "graph": code(cu.cuGraphGetNodes(graph, 0))}
    bench.begin(another)
    bench.work(another)
    return {**answer, **finish(another)}


@row(15, "destroying a captured event, then joining by a second")
def destroy_an_event(bench: Bench) -> Answer:
    origin, fork, out, back = *bench.streams(2), bench.event(), bench.event()
    bench.begin(origin)
    bench.fork(origin, fork, out)
    got = bench.destroy_event(out)
    if status_of(fork) == 1:
        bench.work(fork)
        bench.fork(fork, origin, back)
    return {"code": got, **finish(origin)}


@row(15, "destroying the graph under capture")
def destroy_the_graph_under_capture(bench: Bench) -> Answer:
    stream = bench.stream()
    bench.begin(stream)
    bench.work(stream)
    return {"code": code(cu.cuGraphDestroy(capture_info(stream).graph)), **finish(stream)}


@row(15, "a graph added to itself")
def add_to_itself(bench: Bench) -> Answer:
    graph = bench.graph()
    bench.chain(graph, 2)
    return {"code": code(cu.cuGraphAddChildGraphNode(graph, [], 0, graph)), "nodes": len(nodes_of(graph))}


@row(15, "a batch of edges with one bad pair")
def bad_batch(bench: Bench) -> Answer:
    graph = bench.graph()
    a, b, c = (bench.add_memset(graph) for _ in range(3))
    got = code(add_dependencies(graph, [a, b, a], [b, b, c], None, 3))
    return {"code": got, "edges": sorted(map(list, edges_of(graph)))}


@row(15, "destroying the parent of a child's handle")
def destroy_the_parent(bench: Bench) -> Answer:
    parent, child = bench.graph(), bench.graph()
    bench.chain(child, 2)
    embedded = ok(cu.cuGraphChildGraphNodeGetGraph(ok(cu.cuGraphAddChildGraphNode(parent, [], 0, child))))
    got = bench.destroy_graph(parent)
    return {"code": got, "embedded": code(cu.cuGraphGetNodes(embedded, 0))}


@row(15, "destroying an embedded child's handle")
def destroy_the_embedded(bench: Bench) -> Answer:
    parent, child = bench.graph(), bench.graph()
    embedded = ok(cu.cuGraphChildGraphNodeGetGraph(ok(cu.cuGraphAddChildGraphNode(parent, [], 0, child))))
    return {"code": code(cu.cuGraphDestroy(embedded)), "nodes": len(nodes_of(parent))}
