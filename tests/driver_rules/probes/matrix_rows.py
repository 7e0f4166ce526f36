"""Questions 4 to 8: events, synchronous copies, the legacy stream, unsafe calls, graphs during a capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench
from tests.driver_rules.calls import CALLS
from tests.driver_rules.driving import NULL_STREAM, address_of, code, ok, thread_mode
from tests.driver_rules.kernels import Kernels, UnavailableError
from tests.driver_rules.probes.rows import MODE_NAMES, Answer, finish, table

THREADS = ("same", "other")


def on(bench: Bench, thread: str, fn: Callable[[], int]) -> int:
    """``fn()`` on this thread or on another."""
    return fn() if thread == "same" else bench.other_thread()(fn)


@table(
    4,
    event=("never recorded", "recorded and done"),
    call=("query", "synchronize"),
    thread=THREADS,
    mode=MODE_NAMES,
    thread_mode_=MODE_NAMES,
)
def uncaptured_event(bench: Bench, event: str, call: str, thread: str, mode: str, thread_mode_: str) -> Answer:
    stream = bench.stream()
    asked = bench.event() if event == "never recorded" else bench.recorded_event()
    make = cu.cuEventQuery if call == "query" else cu.cuEventSynchronize

    def use() -> int:
        with thread_mode(thread_mode_):
            return code(make(asked))

    bench.begin(stream, mode)
    bench.work(stream)
    return {"code": on(bench, thread, use), **finish(stream)}


@table(
    5,
    copy=("host to device", "device to host", "device to device", "memset"),
    blocking=(False, True),
    mode=MODE_NAMES,
    thread=THREADS,
)
def synchronous_copy(bench: Bench, copy: str, blocking: bool, mode: str, thread: str) -> Answer:
    stream, target, source = bench.stream(blocking=blocking), bench.buffer(16), bench.buffer(16)
    host = bytearray(16)
    address = address_of(host)
    copies: dict[str, Callable[[], Any]] = {
        "host to device": lambda: cu.cuMemcpyHtoD(target, address, 16),
        "device to host": lambda: cu.cuMemcpyDtoH(address, source, 16),
        "device to device": lambda: cu.cuMemcpyDtoD(target, source, 16),
        "memset": lambda: cu.cuMemsetD8(target, 1, 16),
    }
    bench.begin(stream, mode)
    bench.work(stream)
    return {"code": on(bench, thread, lambda: code(copies[copy]())), **finish(stream)}


LEGACY_USES: dict[str, Callable[[Bench, Any, Any], Any]] = {
    "memset": lambda b, captured, idle: cu.cuMemsetD8Async(b.scratch, 1, 16, NULL_STREAM),
    "memcpy": lambda b, captured, idle: cu.cuMemcpyDtoDAsync(b.scratch, b.scratch + 64, 16, NULL_STREAM),
    "record": lambda b, captured, idle: cu.cuEventRecord(idle, NULL_STREAM),
    "wait for a captured event": lambda b, captured, idle: cu.cuStreamWaitEvent(NULL_STREAM, captured, 0),
    "wait for an uncaptured event": lambda b, captured, idle: cu.cuStreamWaitEvent(NULL_STREAM, idle, 0),
    "host function": lambda b, captured, idle: b.host.launch(NULL_STREAM, lambda: None),
    "query": lambda b, captured, idle: cu.cuStreamQuery(NULL_STREAM),
    "synchronize": lambda b, captured, idle: cu.cuStreamSynchronize(NULL_STREAM),
}


@table(6, use=tuple(LEGACY_USES), blocking=(True, False), mode=("global", "relaxed"))
def legacy_stream(bench: Bench, use: str, blocking: bool, mode: str) -> Answer:
    stream, captured, idle = bench.stream(blocking=blocking), bench.event(), bench.recorded_event()
    bench.begin(stream, mode)
    bench.work(stream)
    ok(cu.cuEventRecord(captured, stream))
    return {"code": code(LEGACY_USES[use](bench, captured, idle)), **finish(stream)}


@table(6, blocking=(True, False), mode=("global", "relaxed"))
def kernel_on_the_legacy_stream(bench: Bench, blocking: bool, mode: str) -> Answer:
    stream = bench.stream(blocking=blocking)
    try:
        kernels = Kernels(bench)
    except UnavailableError as why:
        return {"unavailable": str(why)}
    bench.begin(stream, mode)
    return {"code": kernels.launch(NULL_STREAM), **finish(stream)}


@table(7, call=tuple(CALLS), mode=MODE_NAMES)
def unsafe_call(bench: Bench, call: str, mode: str) -> Answer:
    stream = bench.stream()
    try:
        make = CALLS[call].prepare(bench, stream)
    except UnavailableError as why:
        return {"unavailable": str(why)}
    except AssertionError as why:
        return {"unavailable": f"could not be prepared: {why}"}
    bench.begin(stream, mode)
    bench.work(stream)
    return {"code": make(), **finish(stream)}


@table(
    8, call=("launch", "upload"), where=("the capturing stream", "an idle stream", "another thread"), mode=MODE_NAMES
)
def graph_during_a_capture(bench: Bench, call: str, where: str, mode: str) -> Answer:
    stream, idle, graph = *bench.streams(2), bench.graph()
    bench.add_memset(graph)
    executable = bench.instantiate(graph)
    target = stream if where == "the capturing stream" else idle
    make = cu.cuGraphLaunch if call == "launch" else cu.cuGraphUpload
    bench.begin(stream, mode)
    bench.work(stream)
    got = on(bench, "other" if where == "another thread" else "same", lambda: code(make(executable, target)))
    return {"code": got, **finish(stream)}


@table(8, thread=THREADS, mode=MODE_NAMES)
def update_during_a_capture(bench: Bench, thread: str, mode: str) -> Answer:
    stream, graph = bench.stream(), bench.graph()
    bench.add_memset(graph)
    executable = bench.instantiate(graph)
    bench.begin(stream, mode)
    bench.work(stream)
    return {"code": on(bench, thread, lambda: code(cu.cuGraphExecUpdate(executable, graph))), **finish(stream)}
