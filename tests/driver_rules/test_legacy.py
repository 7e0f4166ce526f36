"""The legacy default stream and a capture: S-D19, S-D22, S-D23, E-20, E-21, E-23."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench, OtherThread
from tests.driver_rules.driving import (
    LEGACY,
    MODES,
    NULL_STREAM,
    PER_THREAD,
    Code,
    Status,
    address_of,
    code,
    get_capture_info,
    nodes_of,
    ok,
    status_of,
)

rule = pytest.mark.driver_rule
modes = pytest.mark.parametrize("mode", list(MODES))
legacy = pytest.mark.parametrize("legacy", [NULL_STREAM, LEGACY], ids=["null", "legacy"])

QUERIES = {"is_capturing": cu.cuStreamIsCapturing, "get_capture_info": get_capture_info}


@rule("D22", evidence="H1")
@rule("E-21", evidence="H3")
@rule("E-23", evidence="H1")
@modes
@legacy
@pytest.mark.parametrize("query", list(QUERIES))
def test_asking_the_legacy_stream_during_a_blocking_capture(bench: Bench, mode: str, legacy: Any, query: str) -> None:
    """906, and the capture goes on."""
    stream = bench.stream(blocking=True)
    bench.begin(stream, mode)
    bench.work(stream)
    assert code(QUERIES[query](legacy)) == Code.CAPTURE_IMPLICIT
    assert status_of(stream) == Status.ACTIVE
    assert len(nodes_of(bench.end(stream))) == 1


@rule("D22", evidence="H2")
@pytest.mark.parametrize("query", list(QUERIES))
def test_a_capture_on_the_per_thread_stream_counts_as_blocking(bench: Bench, query: str) -> None:
    bench.begin(PER_THREAD)
    assert code(QUERIES[query](NULL_STREAM)) == Code.CAPTURE_IMPLICIT
    bench.end(PER_THREAD)


@rule("D23", evidence="H1")
@rule("E-21", evidence="H3")
@modes
@legacy
def test_a_non_blocking_capture_leaves_the_legacy_stream_alone(bench: Bench, mode: str, legacy: Any) -> None:
    stream = bench.stream()
    bench.begin(stream, mode)
    assert status_of(legacy) == Status.NONE
    assert code(cu.cuMemsetD8Async(bench.scratch, 3, 16, legacy)) == Code.SUCCESS
    assert nodes_of(bench.end(stream)) == []
    assert bench.read(bench.scratch, 16) == b"\x03" * 16


@rule("D22", evidence="H2")
def test_a_host_function_on_the_legacy_stream(bench: Bench) -> None:
    stream = bench.stream(blocking=True)
    called: list[int] = []
    bench.begin(stream)
    assert bench.host.launch(NULL_STREAM, lambda: called.append(1)) == Code.CAPTURE_IMPLICIT
    bench.end_code(stream)
    assert not called


@rule("E-23", evidence="unknown")
@modes
def test_observe_whether_that_breaks_the_capture(bench: Bench, mode: str, observe: Any) -> None:
    stream = bench.stream(blocking=True)
    bench.begin(stream, mode)
    got = bench.host.launch(NULL_STREAM, lambda: None)
    observe(mode=mode, code=got, status=status_of(stream), end=bench.end_code(stream))


# -- synchronous copies --------------------------------------------------------------------------------------------------


def sync_copies(bench: Bench) -> dict[str, Callable[[], int]]:
    """Copies and sets without a stream, each writing 16 bytes 5."""
    target, source = bench.buffer(16), bench.buffer(16)
    ok(cu.cuMemsetD8(source, 5, 16))
    ok(cu.cuCtxSynchronize())
    host = bytearray(b"\x05" * 16)
    bench.host.keep(host)
    return {
        "htod": lambda: code(cu.cuMemcpyHtoD(target, address_of(host), 16)),
        "dtod": lambda: code(cu.cuMemcpyDtoD(target, source, 16)),
        "memset": lambda: code(cu.cuMemsetD8(target, 5, 16)),
        "dtoh": lambda: code(cu.cuMemcpyDtoH(address_of(host), source, 16)),
    }


@rule("D19", evidence="H3")
@rule("E-21", evidence="H3")
@rule("E-23", evidence="H3")
@pytest.mark.parametrize("mode", ["global", "thread_local"])
@pytest.mark.parametrize("copy", ["htod", "memset"])
def test_a_synchronous_copy_during_a_blocking_capture(bench: Bench, mode: str, copy: str) -> None:
    """906, and the capture is broken."""
    make = sync_copies(bench)[copy]
    stream = bench.stream(blocking=True)
    bench.begin(stream, mode)
    assert make() == Code.CAPTURE_IMPLICIT
    assert status_of(stream) == Status.INVALIDATED
    assert bench.end_code(stream) == Code.CAPTURE_INVALIDATED


@rule("D19", evidence="H1")
@rule("E-21", evidence="H1")
@modes
@pytest.mark.parametrize("copy", ["htod", "dtod", "dtoh", "memset"])
def test_a_synchronous_copy_during_a_non_blocking_capture(bench: Bench, mode: str, copy: str) -> None:
    """Runs at once, outside the graph; the capture is unharmed."""
    make = sync_copies(bench)[copy]
    stream = bench.stream()
    bench.begin(stream, mode)
    assert make() == Code.SUCCESS
    assert status_of(stream) == Status.ACTIVE
    assert nodes_of(bench.end(stream)) == []


@rule("D19", evidence="H4")
@modes
def test_a_synchronous_copy_of_another_thread(bench: Bench, other: OtherThread, mode: str) -> None:
    """On the same device it is refused or it breaks the capture, in every mode: it never passes unnoticed."""
    make = sync_copies(bench)["htod"]
    stream = bench.stream(blocking=True)
    bench.begin(stream, mode)
    got = other(make)
    assert (got, bench.end_code(stream)) != (Code.SUCCESS, Code.SUCCESS)


@rule("E-20", evidence="H4")
@rule("D19", evidence="H4")
@modes
@pytest.mark.parametrize("copy", ["htod", "memset"])
def test_a_synchronous_copy_on_another_device(bench: Bench, two_devices: tuple[Any, Any], mode: str, copy: str) -> None:
    """The legacy stream of another device has nothing to do with this capture."""
    first, second = two_devices
    stream = bench.stream(blocking=True)
    ok(cu.cuCtxSetCurrent(second))
    target = ok(cu.cuMemAlloc(16))
    host = bytearray(16)
    ok(cu.cuCtxSetCurrent(first))
    bench.begin(stream, mode)
    ok(cu.cuCtxSetCurrent(second))
    got = code(cu.cuMemcpyHtoD(target, address_of(host), 16) if copy == "htod" else cu.cuMemsetD8(target, 5, 16))
    ok(cu.cuCtxSetCurrent(first))
    end = bench.end_code(stream)
    ok(cu.cuMemFree(target))
    assert (got, end) == (Code.SUCCESS, Code.SUCCESS)


@rule("D22", evidence="unknown")
@modes
@pytest.mark.parametrize("what", ["memset", "record", "wait on a captured event", "query"])
def test_observe_other_uses_of_the_legacy_stream(bench: Bench, mode: str, what: str, observe: Any) -> None:
    stream = bench.stream(blocking=True)
    captured, event = bench.event(), bench.event()
    bench.begin(stream, mode)
    ok(cu.cuEventRecord(captured, stream))
    uses: dict[str, Callable[[], Any]] = {
        "memset": lambda: cu.cuMemsetD8Async(bench.scratch, 1, 16, NULL_STREAM),
        "record": lambda: cu.cuEventRecord(event, NULL_STREAM),
        "wait on a captured event": lambda: cu.cuStreamWaitEvent(NULL_STREAM, captured, 0),
        "query": lambda: cu.cuStreamQuery(NULL_STREAM),
    }
    got = code(uses[what]())
    observe(use=what, mode=mode, code=got, status=status_of(stream), end=bench.end_code(stream))
