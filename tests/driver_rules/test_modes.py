"""Capture modes and the calls they forbid: S-D8 to S-D14, E-5, E-13, E-18, E-19, E-23, E-24."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench, OtherThread
from tests.driver_rules.calls import CALLS
from tests.driver_rules.driving import (
    MODES,
    Code,
    Status,
    address_of,
    code,
    nodes_of,
    ok,
    status_of,
    thread_mode,
)
from tests.driver_rules.kernels import UnavailableError

rule = pytest.mark.driver_rule
modes = pytest.mark.parametrize("mode", list(MODES))
strict_modes = pytest.mark.parametrize("mode", ["global", "thread_local"])


def prepared(name: str, bench: Bench, stream: Any) -> Callable[[], int]:
    """One call of the table, ready to make; skips where what it needs cannot be had."""
    try:
        return CALLS[name].prepare(bench, stream)
    except UnavailableError as why:
        pytest.skip(str(why))


def under(mode: str, make: Callable[[], int]) -> int:
    """What a call answers when the calling thread's capture mode is ``mode``."""
    with thread_mode(mode):
        return make()


# -- which combination of modes forbids an unsafe call ---------------------------------------------------------------

# (whose call, mode of the capture, mode of the calling thread) -> forbidden, and the evidence for that row.
COMBINATIONS = [
    ("same", "global", "global", True, "H1"),
    ("same", "global", "thread_local", True, "DOC"),
    ("same", "global", "relaxed", False, "DOC"),
    ("same", "thread_local", "global", True, "H1"),
    ("same", "thread_local", "thread_local", True, "DOC"),
    ("same", "thread_local", "relaxed", False, "H1"),
    ("same", "relaxed", "global", False, "H3"),
    ("same", "relaxed", "thread_local", False, "DOC"),
    ("same", "relaxed", "relaxed", False, "DOC"),
    ("other", "global", "global", True, "H1"),
    ("other", "global", "thread_local", False, "H1"),
    ("other", "global", "relaxed", False, "DOC"),
    ("other", "thread_local", "global", False, "H3"),
    ("other", "thread_local", "thread_local", False, "DOC"),
    ("other", "thread_local", "relaxed", False, "DOC"),
    ("other", "relaxed", "global", False, "H3"),
    ("other", "relaxed", "thread_local", False, "DOC"),
    ("other", "relaxed", "relaxed", False, "DOC"),
]


@pytest.mark.parametrize("name", ["mem_alloc", "event_query", "stream_sync_of_an_idle_stream"])
@pytest.mark.parametrize(
    ("whose", "capture", "thread", "forbidden"),
    [
        pytest.param(
            whose,
            capture,
            thread,
            forbidden,
            id=f"{whose}-{capture}-{thread}",
            marks=[
                rule({"global": "D8", "thread_local": "D9", "relaxed": "D10"}[capture], evidence=evidence),
                rule("D11", evidence=evidence),
            ],
        )
        for whose, capture, thread, forbidden, evidence in COMBINATIONS
    ],
)
def test_which_modes_forbid_an_unsafe_call(
    bench: Bench, other: OtherThread, name: str, whose: str, capture: str, thread: str, forbidden: bool
) -> None:
    """A call is forbidden by an own capture that is not relaxed, or by another thread's global one, unless the calling
    thread itself is relaxed; a thread-local thread ignores the captures of others."""
    stream = bench.stream()
    make = prepared(name, bench, stream)
    bench.begin(stream, capture)
    got = under(thread, make) if whose == "same" else other(under, thread, make)
    assert got == (Code.CAPTURE_UNSUPPORTED if forbidden else Code.SUCCESS)
    assert status_of(stream) == (Status.INVALIDATED if forbidden else Status.ACTIVE)
    assert bench.end_code(stream) == (Code.CAPTURE_INVALIDATED if forbidden else Code.SUCCESS)


@rule("D11", evidence="DOC")
@modes
def test_the_exchange_swaps_and_gives_back_the_old_mode(other: OtherThread, mode: str) -> None:
    """Per thread, and global at first. In a thread of its own, so that no other test has set it."""

    def exchange() -> list[int]:
        answers = [int(ok(cu.cuThreadExchangeStreamCaptureMode(MODES[m]))) for m in (mode, "global")]
        return [*answers, int(ok(cu.cuThreadExchangeStreamCaptureMode(MODES["global"])))]

    assert other(exchange) == [0, int(MODES[mode]), 0]


@rule("D11", evidence="H1")
def test_a_relaxed_thread_allocates_and_synchronises_during_its_own_capture(bench: Bench) -> None:
    stream, side = bench.streams(2)
    bench.begin(stream, "thread_local")
    bench.work(stream)
    with thread_mode("relaxed"):
        bench.buffer_unchecked(64)
        bench.stream()
        pointer = ok(cu.cuMemAllocAsync(64, side))
        ok(cu.cuStreamSynchronize(side))
        ok(cu.cuMemFreeAsync(pointer, side))
        ok(cu.cuStreamSynchronize(side))
    assert len(nodes_of(bench.end(stream))) == 1


# -- the unsafe calls, one by one --------------------------------------------------------------------------------------

UNSAFE = [
    ("mem_alloc", "H3"),
    ("mem_free", "H1"),
    ("mem_host_alloc", "H1"),
    ("mem_alloc_host", "H3"),
    ("mem_free_host", "H3"),
    ("mem_host_register", "H3"),
    ("mem_host_unregister", "H3"),
    ("pool_export_pointer", "H3"),
    ("module_unload", "H1"),
    ("event_query", "H1"),
    ("event_sync", "H2"),
    ("stream_sync_of_an_idle_stream", "H3"),
    ("stream_query_of_an_idle_stream", "H3"),
]


@pytest.mark.parametrize("name", [pytest.param(name, marks=rule("D12", evidence=e), id=name) for name, e in UNSAFE])
@modes
def test_an_unsafe_call_on_the_capturing_thread(bench: Bench, name: str, mode: str) -> None:
    """Refused with 900, and the capture invalid, unless that is relaxed."""
    stream = bench.stream()
    make = prepared(name, bench, stream)
    bench.begin(stream, mode)
    got = make()
    status, end = status_of(stream), bench.end_code(stream)
    if mode == "relaxed":
        assert (got, status, end) == (Code.SUCCESS, Status.ACTIVE, Code.SUCCESS)
    else:
        assert (got, status, end) == (Code.CAPTURE_UNSUPPORTED, Status.INVALIDATED, Code.CAPTURE_INVALIDATED)


@rule("D12", evidence="H1")
@rule("D40", evidence="H1")
@rule("E-18", evidence="H1")
@strict_modes
def test_destroying_an_executable_breaks_a_capture(bench: Bench, mode: str) -> None:
    stream = bench.stream()
    make = prepared("graph_exec_destroy", bench, stream)
    bench.begin(stream, mode)
    assert make() == Code.CAPTURE_UNSUPPORTED
    assert bench.end_code(stream) == Code.CAPTURE_INVALIDATED


@rule("D12", evidence="H2")
@rule("E-18", evidence="H2")
@strict_modes
def test_instantiation_is_an_unsafe_call(bench: Bench, mode: str) -> None:
    """Seen as an error whose number nobody has noted."""
    stream = bench.stream()
    make = prepared("graph_instantiate", bench, stream)
    bench.begin(stream, mode)
    got = make()
    bench.end_code(stream)
    assert got != Code.SUCCESS


@rule("D12", evidence="H2")
def test_instantiation_is_allowed_in_a_relaxed_capture(bench: Bench) -> None:
    stream = bench.stream()
    make = prepared("graph_instantiate", bench, stream)
    bench.begin(stream, "relaxed")
    assert make() == Code.SUCCESS
    bench.end(stream)


@rule("D12", evidence="H1")
@strict_modes
def test_asking_a_capturing_stream_for_its_id(bench: Bench, mode: str) -> None:
    stream = bench.stream()
    bench.begin(stream, mode)
    assert code(cu.cuStreamGetId(stream)) == Code.CAPTURE_UNSUPPORTED
    assert bench.end_code(stream) == Code.CAPTURE_INVALIDATED


@rule("D12", evidence="unknown")
@modes
@pytest.mark.parametrize("name", ["stream_get_device", "stream_get_context", "pool_get_access", "stream_get_id"])
def test_observe_calls_said_not_to_be_permitted(bench: Bench, name: str, mode: str, observe: Any) -> None:
    """Comments in other projects' sources say so and give no number."""
    stream = bench.stream()
    make = prepared(name, bench, stream)
    bench.begin(stream, mode)
    observe(call=name, mode=mode, code=make(), end=bench.end_code(stream))


ALLOWED = [
    ("stream_is_capturing", "global", "H1"),
    ("stream_is_capturing", "thread_local", "H1"),
    ("stream_is_capturing", "relaxed", "H1"),
    ("stream_get_capture_info", "global", "H1"),
    ("stream_get_capture_info", "thread_local", "H1"),
    ("stream_get_capture_info", "relaxed", "H1"),
    ("stream_create", "relaxed", "H1"),
    ("event_create", "relaxed", "H1"),
    ("event_create", "thread_local", "H4"),
    ("event_destroy", "relaxed", "H1"),
    ("event_destroy", "thread_local", "H4"),
    ("graph_destroy", "global", "H3"),
]


@pytest.mark.parametrize(
    ("name", "mode"), [pytest.param(n, m, marks=rule("D12", evidence=e), id=f"{n}-{m}") for n, m, e in ALLOWED]
)
def test_a_call_known_to_be_allowed(bench: Bench, name: str, mode: str) -> None:
    stream = bench.stream()
    make = prepared(name, bench, stream)
    bench.begin(stream, mode)
    assert make() == Code.SUCCESS
    assert bench.end_code(stream) == Code.SUCCESS


@rule("D12", evidence="H3")
def test_another_thread_may_create_a_stream_during_a_global_capture(bench: Bench, other: OtherThread) -> None:
    stream = bench.stream()
    bench.begin(stream, "global")
    other(bench.stream)
    assert bench.end_code(stream) == Code.SUCCESS


@rule("D12", evidence="H3")
@rule("E-18", evidence="H3")
def test_destroying_a_template_graph_is_safe(bench: Bench) -> None:
    """Where destroying an executable is not."""
    stream, graph = bench.stream(), bench.graph()
    bench.add_memset(graph)
    bench.begin(stream, "global")
    assert bench.destroy_graph(graph) == Code.SUCCESS
    bench.end(stream)


@rule("D12", evidence="H3")
@rule("E-22", evidence="H1")
@modes
def test_work_on_a_foreign_stream_runs_at_once_and_is_not_captured(bench: Bench, mode: str) -> None:
    """The silent escape: no error, no node. Copies from pageable memory included."""
    stream, foreign = bench.streams(2)
    target, source = bench.buffer(16), bytearray(b"escaped, and run")
    bench.begin(stream, mode)
    assert code(cu.cuMemcpyHtoDAsync(target, address_of(source), 16, foreign)) == Code.SUCCESS
    graph = bench.end(stream)
    ok(cu.cuStreamSynchronize(foreign))
    assert bench.read(target, 16) == source
    assert nodes_of(graph) == []


@rule("E-24", evidence="H1")
@modes
def test_loading_a_module_during_a_capture(bench: Bench, mode: str) -> None:
    """Allowed silently from driver 12.3 on; unsafe before."""
    stream = bench.stream()
    make = prepared("module_load", bench, stream)
    allowed = mode == "relaxed" or ok(cu.cuDriverGetVersion()) >= 12030
    bench.begin(stream, mode)
    got, end = make(), bench.end_code(stream)
    assert got == (Code.SUCCESS if allowed else Code.CAPTURE_UNSUPPORTED)
    assert end == (Code.SUCCESS if allowed else Code.CAPTURE_INVALIDATED)


# -- what a forbidden call breaks --------------------------------------------------------------------------------------


@rule("D13", evidence="H1")
@rule("E-5", evidence="H4")
@strict_modes
@pytest.mark.parametrize("name", ["mem_free", "event_query", "stream_query_of_an_idle_stream"])
def test_a_forbidden_call_invalidates_the_whole_sequence(bench: Bench, name: str, mode: str) -> None:
    origin, fork, sibling = bench.streams(3)
    events = [bench.event() for _ in range(2)]
    make = prepared(name, bench, origin)
    bench.begin(origin, mode)
    bench.fork(origin, fork, events[0])
    bench.fork(origin, sibling, events[1])
    assert make() == Code.CAPTURE_UNSUPPORTED
    assert [status_of(stream) for stream in (origin, fork, sibling)] == [Status.INVALIDATED] * 3
    assert bench.end_code(origin) == Code.CAPTURE_INVALIDATED


@rule("E-5", evidence="H4")
@modes
@pytest.mark.parametrize("named", ["origin", "fork", "sibling"])
def test_whichever_stream_is_named_the_whole_sequence_breaks(bench: Bench, mode: str, named: str) -> None:
    origin, fork, sibling = bench.streams(3)
    events = [bench.event() for _ in range(2)]
    bench.begin(origin, mode)
    bench.fork(origin, fork, events[0])
    bench.fork(origin, sibling, events[1])
    offended = {"origin": origin, "fork": fork, "sibling": sibling}[named]
    assert code(cu.cuStreamSynchronize(offended)) == Code.CAPTURE_UNSUPPORTED
    assert [status_of(stream) for stream in (origin, fork, sibling)] == [Status.INVALIDATED] * 3
    assert bench.end_code(origin) == Code.CAPTURE_INVALIDATED


@rule("D13", evidence="DOC")
def test_a_forbidden_call_breaks_every_capture_it_conflicts_with(bench: Bench, other: OtherThread) -> None:
    """An own global and a relaxed one at once: the relaxed capture does not conflict, so it survives."""
    strict, relaxed, elsewhere = bench.streams(3)
    make = prepared("mem_alloc", bench, strict)
    other(bench.begin, elsewhere, "global")
    bench.begin(strict, "thread_local")
    bench.begin(relaxed, "relaxed")
    assert make() == Code.CAPTURE_UNSUPPORTED
    assert status_of(strict) == Status.INVALIDATED
    assert status_of(elsewhere) == Status.INVALIDATED
    assert status_of(relaxed) == Status.ACTIVE
    assert bench.end_code(strict) == other(bench.end_code, elsewhere) == Code.CAPTURE_INVALIDATED
    assert bench.end_code(relaxed) == Code.SUCCESS


@rule("E-6", evidence="H4")
def test_a_second_forbidden_call_changes_nothing(bench: Bench) -> None:
    stream = bench.stream()
    bench.begin(stream, "relaxed")
    bench.invalidate(stream)
    cu.cuStreamQuery(stream)
    assert status_of(stream) == Status.INVALIDATED
    assert bench.end_code(stream) == Code.CAPTURE_INVALIDATED


# -- events that were not captured -------------------------------------------------------------------------------------


@rule("D14", evidence="H1")
@pytest.mark.parametrize(
    ("capture", "thread", "forbidden"),
    [
        ("global", "global", True),
        ("global", "thread_local", False),
        ("thread_local", "global", False),
        ("relaxed", "global", False),
    ],
)
def test_a_query_from_a_thread_that_does_not_capture(
    bench: Bench, other: OtherThread, capture: str, thread: str, forbidden: bool
) -> None:
    """The watchdog's query: harmless only if its thread is not in global mode, or the capture is not."""
    stream, event = bench.stream(), bench.recorded_event()
    bench.begin(stream, capture)
    got = other(under, thread, lambda: code(cu.cuEventQuery(event)))
    assert got == (Code.CAPTURE_UNSUPPORTED if forbidden else Code.SUCCESS)
    assert bench.end_code(stream) == (Code.CAPTURE_INVALIDATED if forbidden else Code.SUCCESS)


@rule("D14", evidence="unknown")
@strict_modes
@pytest.mark.parametrize("name", ["event_query_never_recorded", "event_sync_never_recorded"])
def test_observe_events_never_recorded(bench: Bench, name: str, mode: str, observe: Any) -> None:
    stream = bench.stream()
    make = prepared(name, bench, stream)
    bench.begin(stream, mode)
    observe(call=name, mode=mode, code=make(), end=bench.end_code(stream))


# -- threads -------------------------------------------------------------------------------------------------------


@rule("E-13", evidence="H3")
@modes
def test_other_threads_may_work_in_a_capture(bench: Bench, other: OtherThread, mode: str) -> None:
    """Enqueue, record and wait; only ending is bound to the thread."""
    origin, fork = bench.streams(2)
    out, back = bench.event(), bench.event()
    bench.begin(origin, mode)
    bench.work(origin)
    other(bench.work, origin)
    other(bench.fork, origin, fork, out)
    other(bench.work, fork)
    other(bench.fork, fork, origin, back)
    bench.work(origin)
    assert len(nodes_of(bench.end(origin))) == 4


@rule("E-19", evidence="H1")
@rule("D15", evidence="H1")
@modes
@pytest.mark.parametrize("whose", ["same", "other"])
def test_a_device_sync_breaks_every_capture(bench: Bench, other: OtherThread, mode: str, whose: str) -> None:
    """From any thread, in any mode."""
    stream = bench.stream()
    bench.begin(stream, mode)
    sync = cu.cuCtxSynchronize
    assert code(sync() if whose == "same" else other(sync)) == Code.CAPTURE_UNSUPPORTED
    assert bench.end_code(stream) == Code.CAPTURE_INVALIDATED


@rule("E-23", evidence="H1")
@modes
def test_an_argument_error_invalidates_nothing(bench: Bench, mode: str) -> None:
    stream = bench.stream()
    bench.begin(stream, mode)
    bench.work(stream)
    assert code(cu.cuMemcpyDtoDAsync(0, 0, 16, stream)) == Code.INVALID_VALUE
    assert status_of(stream) == Status.ACTIVE
    assert len(nodes_of(bench.end(stream))) == 1
