"""Questions 1 to 3 and 9: who ends a capture, what waits break, what is left afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench
from tests.driver_rules.driving import (
    MODES,
    SET_DEPENDENCIES,
    capture_info,
    code,
    get_capture_info,
    ok,
    status_of,
    update_dependencies,
)
from tests.driver_rules.probes.rows import MODE_NAMES, Answer, finish, table


@table(1, mode=MODE_NAMES[:2], blocking=(False, True))
def ended_by_another_thread(bench: Bench, mode: str, blocking: bool) -> Answer:
    stream, other = bench.stream(blocking=blocking), bench.other_thread()
    bench.begin(stream, mode)
    bench.work(stream)
    got = other(bench.end_code, stream)
    return {"code": got, **finish(stream), "status_after": status_of(stream)}


@table(1, mode=MODE_NAMES, blocking=(False, True))
def ended_after_the_beginning_thread_has_gone(bench: Bench, mode: str, blocking: bool) -> Answer:
    stream, other = bench.stream(blocking=blocking), bench.other_thread()
    other(bench.begin, stream, mode)
    other.close()
    bench.work(stream)
    first = finish(stream)
    return {"code": first["end"], **first, "status_after": status_of(stream)}


@table(2, recorded=("on another stream", "on the same stream", "never"), mode=MODE_NAMES, blocking=(False, True))
def waiting_for_uncaptured_work(bench: Bench, recorded: str, mode: str, blocking: bool) -> Answer:
    stream, idle, event = bench.stream(blocking=blocking), bench.stream(blocking=blocking), bench.event()
    if recorded != "never":
        ok(cu.cuEventRecord(event, idle if recorded == "on another stream" else stream))
    bench.begin(stream, mode)
    return {"code": code(cu.cuStreamWaitEvent(stream, event, 0)), **finish(stream)}


@table(
    3,
    ended=("cleanly", "with 904", "with 901"),
    use=("wait", "query", "synchronize", "elapsed", "record again", "destroy"),
)
def using_a_captured_event_after_the_end(bench: Bench, ended: str, use: str) -> Answer:
    origin, fork, idle = bench.streams(3)
    event, out, earlier = bench.event(timing=True), bench.event(), bench.event(timing=True)
    ok(cu.cuEventRecord(earlier, idle))
    bench.begin(origin)
    bench.work(origin)
    ok(cu.cuEventRecord(event, origin))
    if ended == "with 904":
        bench.fork(origin, fork, out)
        bench.work(fork)
    elif ended == "with 901":
        cu.cuStreamQuery(origin)
    end = finish(origin)
    uses: dict[str, Callable[[], Any]] = {
        "wait": lambda: cu.cuStreamWaitEvent(idle, event, 0),
        "query": lambda: cu.cuEventQuery(event),
        "synchronize": lambda: cu.cuEventSynchronize(event),
        "elapsed": lambda: cu.cuEventElapsedTime(earlier, event),
        "record again": lambda: cu.cuEventRecord(event, idle),
        "destroy": lambda: cu.cuEventDestroy(event),
    }
    return {"code": code(uses[use]()), **end, "status_of_the_waiter": status_of(idle)}


OPERATIONS: dict[str, Callable[[Bench, Any, Any, Any], Any]] = {
    "memset": lambda b, s, captured, idle: cu.cuMemsetD8Async(b.scratch, 1, 16, s),
    "memcpy": lambda b, s, captured, idle: cu.cuMemcpyDtoDAsync(b.scratch, b.scratch + 64, 16, s),
    "allocate": lambda b, s, captured, idle: cu.cuMemAllocAsync(256, s),
    "record": lambda b, s, captured, idle: cu.cuEventRecord(idle, s),
    "wait for an event of the capture": lambda b, s, captured, idle: cu.cuStreamWaitEvent(s, captured, 0),
    "wait for an uncaptured event": lambda b, s, captured, idle: cu.cuStreamWaitEvent(s, idle, 0),
    "wait, external": lambda b, s, captured, idle: cu.cuStreamWaitEvent(s, idle, 1),
    "host function": lambda b, s, captured, idle: b.host.launch(s, lambda: None),
    "update the frontier": lambda b, s, captured, idle: update_dependencies(s, None, None, 0, SET_DEPENDENCIES),
    "begin": lambda b, s, captured, idle: cu.cuStreamBeginCapture(s, MODES["global"]),
    "query": lambda b, s, captured, idle: cu.cuStreamQuery(s),
    "end": lambda b, s, captured, idle: cu.cuStreamEndCapture(s),
}


@table(9, operation=tuple(OPERATIONS), on=("origin", "fork"))
def using_an_invalidated_capture(bench: Bench, operation: str, on: str) -> Answer:
    origin, fork, out, captured, idle = *bench.streams(2), bench.event(), bench.event(), bench.recorded_event()
    bench.begin(origin)
    bench.work(origin)
    bench.fork(origin, fork, out)
    ok(cu.cuEventRecord(captured, fork))
    cu.cuStreamQuery(origin)
    got = code(OPERATIONS[operation](bench, origin if on == "origin" else fork, captured, idle))
    return {"code": got, "fork": status_of(fork), **finish(origin)}


@table(9, on=("origin", "fork"))
def asking_an_invalidated_capture(bench: Bench, on: str) -> Answer:
    origin, fork, out = *bench.streams(2), bench.event()
    bench.begin(origin)
    bench.work(origin)
    bench.fork(origin, fork, out)
    before = capture_info(origin)
    cu.cuStreamQuery(origin)
    answer = get_capture_info(origin if on == "origin" else fork)
    told = {"code": code(answer)}
    if len(answer) > 1 and answer[1] is not None:
        told |= {
            "told_status": int(answer[1]),
            "same_id": int(answer[2] or 0) == before.id,
            "graph_given": bool(answer[3] is not None and int(answer[3])),
            "dependencies": int(answer[-1] or 0),
        }
    return {**told, **finish(origin)}
