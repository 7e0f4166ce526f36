"""The error numbers of capture, each from a cause of its own (S-D11 of the table of numbers: section D.11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench, OtherThread
from tests.driver_rules.driving import LEGACY, MODES, Code, code, ok
from tests.driver_rules.emulator import is_emulated

rule = pytest.mark.driver_rule

NAMES = {
    900: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
    901: "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
    902: "CUDA_ERROR_STREAM_CAPTURE_MERGE",
    903: "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
    904: "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
    905: "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
    906: "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
    907: "CUDA_ERROR_CAPTURED_EVENT",
    908: "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
    909: "CUDA_ERROR_TIMEOUT",
    910: "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
}


def unsupported(bench: Bench, other: OtherThread) -> int:
    return code(cu.cuStreamBeginCapture(LEGACY, MODES["global"]))


def invalidated(bench: Bench, other: OtherThread) -> int:
    stream = bench.stream()
    bench.begin(stream)
    bench.invalidate(stream)
    return bench.end_code(stream)


def merge(bench: Bench, other: OtherThread) -> int:
    first, second = bench.streams(2)
    event = bench.event()
    bench.begin(first)
    bench.begin(second)
    ok(cu.cuEventRecord(event, second))
    got = code(cu.cuStreamWaitEvent(first, event, 0))
    bench.end_code(first)
    bench.end_code(second)
    return got


def unmatched(bench: Bench, other: OtherThread) -> int:
    origin, fork = bench.streams(2)
    event = bench.event()
    bench.begin(origin)
    bench.fork(origin, fork, event)
    got = bench.end_code(fork)
    bench.end_code(origin)
    return got


def unjoined(bench: Bench, other: OtherThread) -> int:
    origin, fork = bench.streams(2)
    event = bench.event()
    bench.begin(origin)
    bench.fork(origin, fork, event)
    bench.work(fork)
    return bench.end_code(origin)


def isolation(bench: Bench, other: OtherThread) -> int:
    stream, event = bench.stream(), bench.recorded_event()
    bench.begin(stream)
    got = code(cu.cuStreamWaitEvent(stream, event, 0))
    bench.end_code(stream)
    return got


def implicit(bench: Bench, other: OtherThread) -> int:
    stream = bench.stream(blocking=True)
    bench.begin(stream)
    got = code(cu.cuStreamIsCapturing(LEGACY))
    bench.end(stream)
    return got


def captured_event(bench: Bench, other: OtherThread) -> int:
    stream, event = bench.stream(), bench.event()
    bench.begin(stream)
    ok(cu.cuEventRecord(event, stream))
    got = code(cu.cuEventQuery(event))
    bench.end_code(stream)
    return got


def wrong_thread(bench: Bench, other: OtherThread) -> int:
    stream = bench.stream()
    bench.begin(stream)
    got = other(bench.end_code, stream)
    bench.end_code(stream)
    return got


def update_failure(bench: Bench, other: OtherThread) -> int:
    first, second = bench.graph(), bench.graph()
    bench.chain(first, 1)
    bench.chain(second, 2)
    return code(cu.cuGraphExecUpdate(bench.instantiate(first), second))


CAUSES: list[tuple[Code, Callable[[Bench, OtherThread], int], Any]] = [
    (Code.CAPTURE_UNSUPPORTED, unsupported, rule("error-900", evidence="H3")),
    (Code.CAPTURE_INVALIDATED, invalidated, rule("error-901", evidence="H1")),
    (Code.CAPTURE_MERGE, merge, rule("error-902", evidence="H1")),
    (Code.CAPTURE_UNMATCHED, unmatched, rule("error-903", evidence="H1")),
    (Code.CAPTURE_UNJOINED, unjoined, rule("error-904", evidence="H1")),
    (Code.CAPTURE_ISOLATION, isolation, rule("error-905", evidence="H1")),
    (Code.CAPTURE_IMPLICIT, implicit, rule("error-906", evidence="H1")),
    (Code.CAPTURED_EVENT, captured_event, rule("error-907", evidence="H3")),
    (Code.CAPTURE_WRONG_THREAD, wrong_thread, rule("error-908", evidence="H3")),
    (Code.GRAPH_EXEC_UPDATE_FAILURE, update_failure, rule("error-910", evidence="H3")),
]


@pytest.mark.parametrize(
    ("expected", "cause"), [pytest.param(n, c, marks=mark, id=str(int(n))) for n, c, mark in CAUSES]
)
def test_each_number_has_its_cause(
    bench: Bench, other: OtherThread, expected: Code, cause: Callable[[Bench, OtherThread], int]
) -> None:
    assert cause(bench, other) == expected


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=rule(f"error-{n}", evidence="DOC"), id=str(n)) for n in NAMES]
)
def test_each_number_has_its_name(session_context: Any, number: int) -> None:
    result = cu.CUresult(number)
    assert ok(cu.cuGetErrorName(result)) == NAMES[number].encode()
    assert ok(cu.cuGetErrorString(result))


@rule("error-909", evidence="DOC")
def test_a_timeout_comes_through(bench: Bench) -> None:
    """909 is given by waits with a time limit, none of which capture offers; so it is injected where that is possible,
    to see that it arrives as itself."""
    if not is_emulated():
        pytest.skip("no faults can be injected into a real driver")
    from tests.emulated_device import control

    stream = bench.stream()
    control.fail("cuStreamSynchronize", 1, 909)
    try:
        assert code(cu.cuStreamSynchronize(stream)) == Code.TIMEOUT
    finally:
        control.reset_faults()
    ok(cu.cuStreamSynchronize(stream))
