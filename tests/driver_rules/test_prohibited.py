"""What no mode allows: S-D15 to S-D21, E-6, E-7, E-17, E-23."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench, OtherThread
from tests.driver_rules.driving import (
    MODES,
    SET_DEPENDENCIES,
    Code,
    Status,
    capture_info,
    code,
    nodes_of,
    ok,
    status_of,
    update_dependencies,
)

rule = pytest.mark.driver_rule
modes = pytest.mark.parametrize("mode", list(MODES))
blocking = pytest.mark.parametrize("blocking", [False, True], ids=["non-blocking", "blocking"])

# -- synchronising with what has not run -------------------------------------------------------------------------------


@rule("D15", evidence="H1")
@rule("D10", evidence="H1")
@rule("E-23", evidence="H1")
@modes
@blocking
@pytest.mark.parametrize("call", [cu.cuStreamSynchronize, cu.cuStreamQuery], ids=["synchronize", "query"])
def test_synchronising_with_a_capturing_stream(
    bench: Bench, mode: str, blocking: bool, call: Callable[..., Any]
) -> None:
    stream = bench.stream(blocking=blocking)
    bench.begin(stream, mode)
    bench.work(stream)
    assert code(call(stream)) == Code.CAPTURE_UNSUPPORTED
    assert status_of(stream) == Status.INVALIDATED
    assert bench.end_code(stream) == Code.CAPTURE_INVALIDATED


@rule("D15", evidence="H3")
@rule("D10", evidence="DOC")
@rule("E-23", evidence="H3")
@modes
@pytest.mark.parametrize("call", [cu.cuEventSynchronize, cu.cuEventQuery], ids=["synchronize", "query"])
def test_synchronising_with_a_captured_event(bench: Bench, mode: str, call: Callable[..., Any]) -> None:
    stream, event = bench.stream(), bench.event()
    bench.begin(stream, mode)
    bench.work(stream)
    ok(cu.cuEventRecord(event, stream))
    assert code(call(event)) == Code.CAPTURED_EVENT
    assert status_of(stream) == Status.INVALIDATED
    assert bench.end_code(stream) == Code.CAPTURE_INVALIDATED


@rule("D15", evidence="H3")
@modes
def test_a_device_sync_during_a_capture(bench: Bench, mode: str) -> None:
    stream = bench.stream()
    bench.begin(stream, mode)
    assert code(cu.cuCtxSynchronize()) == Code.CAPTURE_UNSUPPORTED
    assert bench.end_code(stream) == Code.CAPTURE_INVALIDATED


@rule("D16", evidence="DOC")
@modes
@pytest.mark.parametrize("name", ["cuCtxRecordEvent", "cuCtxWaitEvent"])
def test_a_context_wide_event_during_a_capture(bench: Bench, mode: str, name: str) -> None:
    call = getattr(cu, name, None) or pytest.skip(f"this release of the bindings has no {name}")
    stream, event = bench.stream(), bench.recorded_event()
    bench.begin(stream, mode)
    assert code(call(bench.context, event)) == Code.CAPTURE_UNSUPPORTED
    assert bench.end_code(stream) == Code.CAPTURE_INVALIDATED


# -- host functions ----------------------------------------------------------------------------------------------------


@rule("D17", evidence="H4")
@modes
def test_the_old_stream_callback_is_refused(bench: Bench, mode: str) -> None:
    stream = bench.stream()
    called: list[int] = []
    callback = cu.CUstreamCallback(bench.host.stream_callback(lambda: called.append(1)))
    bench.begin(stream, mode)
    assert code(cu.cuStreamAddCallback(stream, callback, 0, 0)) == Code.CAPTURE_UNSUPPORTED
    assert bench.end_code(stream) == Code.CAPTURE_INVALIDATED
    assert not called


@rule("D17", evidence="H1")
@modes
def test_a_host_function_becomes_a_node(bench: Bench, mode: str) -> None:
    stream = bench.stream()
    called: list[int] = []
    bench.begin(stream, mode)
    assert bench.host.launch(stream, lambda: called.append(1)) == Code.SUCCESS
    graph = bench.end(stream)
    assert not called
    executable = bench.instantiate(graph)
    for times in (1, 2, 3):
        bench.run(executable)
        assert len(called) == times


@rule("D18", evidence="unknown")
@modes
def test_observe_attaching_memory(bench: Bench, mode: str, observe: Any) -> None:
    stream = bench.stream()
    answer = cu.cuMemAllocManaged(4096, 1)
    if code(answer) != Code.SUCCESS:
        pytest.skip(f"no managed memory here: {code(answer)!r}")
    bench.later(lambda: cu.cuMemFree(answer[1]))
    bench.begin(stream, mode)
    observe(mode=mode, code=code(cu.cuStreamAttachMemAsync(stream, answer[1], 0, 2)), end=bench.end_code(stream))


@rule("D20", evidence="H2")
@pytest.mark.parametrize("mode", ["global", "thread_local"])
def test_creating_a_surface_object_is_unsafe(bench: Bench, mode: str) -> None:
    """Texture and surface *references* are undefined in a capture, so nothing can be said of them; of surface objects
    it is known that creating one is refused."""
    shape = cu.CUDA_ARRAY3D_DESCRIPTOR()
    shape.Width, shape.Height, shape.Depth, shape.NumChannels = 16, 16, 0, 1
    shape.Format = cu.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT8
    shape.Flags = 2  # CUDA_ARRAY3D_SURFACE_LDST
    array = cu.cuArray3DCreate(shape)
    if code(array) == Code.NOT_SUPPORTED:
        pytest.skip("this driver has no arrays")
    bench.later(lambda: cu.cuArrayDestroy(ok(array)))
    resource = cu.CUDA_RESOURCE_DESC()
    resource.resType = cu.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
    resource.res.array.hArray = ok(array)
    stream = bench.stream()
    bench.begin(stream, mode)
    got = code(cu.cuSurfObjectCreate(resource))
    bench.end_code(stream)
    assert got == Code.CAPTURE_UNSUPPORTED


# -- graphs inside a capture -------------------------------------------------------------------------------------------


@rule("D41", evidence="H1")
@rule("E-17", evidence="H1")
@rule("E-23", evidence="H1")
@modes
def test_launching_a_graph_into_a_capture(bench: Bench, mode: str) -> None:
    """Refused, makes no child node, and breaks the capture: what was captured before is lost."""
    stream, graph = bench.stream(), bench.graph()
    bench.add_memset(graph)
    executable = bench.instantiate(graph)
    bench.begin(stream, mode)
    bench.work(stream)
    assert code(cu.cuGraphLaunch(executable, stream)) == Code.CAPTURE_UNSUPPORTED
    assert status_of(stream) == Status.INVALIDATED
    assert bench.end_code(stream) == Code.CAPTURE_INVALIDATED


@rule("D41", evidence="H1")
@rule("D27", evidence="H1")
@modes
def test_the_way_that_works_adds_a_child_node_by_hand(bench: Bench, mode: str) -> None:
    stream, child = bench.stream(), bench.graph()
    buffer = bench.buffer(16)
    bench.add_memset(child, pointer=buffer, value=7)
    bench.begin(stream, mode)
    bench.work(stream)
    info = capture_info(stream)
    node = ok(cu.cuGraphAddChildGraphNode(info.graph, info.dependencies, len(info.dependencies), child))
    assert code(update_dependencies(stream, [node], None, 1, SET_DEPENDENCIES)) == Code.SUCCESS
    ok(cu.cuMemsetD8Async(buffer, 9, 8, stream))
    graph = bench.end(stream)
    assert len(nodes_of(graph)) == 3
    bench.run(bench.instantiate(graph))
    assert bench.read(buffer, 16) == b"\x09" * 8 + b"\x07" * 8


# -- dependencies across the boundary ----------------------------------------------------------------------------------


@rule("D21", evidence="H1")
@rule("E-23", evidence="H1")
@modes
def test_a_wait_that_would_merge_two_captures(bench: Bench, mode: str) -> None:
    first, second = bench.streams(2)
    event = bench.event()
    bench.begin(first, mode)
    bench.begin(second, mode)
    ok(cu.cuEventRecord(event, first))
    assert code(cu.cuStreamWaitEvent(second, event, 0)) == Code.CAPTURE_MERGE
    assert status_of(first) == status_of(second) == Status.INVALIDATED
    assert bench.end_code(first) == bench.end_code(second) == Code.CAPTURE_INVALIDATED


@rule("D21", evidence="H1")
@modes
def test_a_capture_cannot_depend_on_uncaptured_work(bench: Bench, mode: str) -> None:
    outside, inside = bench.streams(2)
    event = bench.event()
    bench.work(outside)
    ok(cu.cuEventRecord(event, outside))
    ok(cu.cuStreamSynchronize(outside))
    bench.begin(inside, mode)
    assert code(cu.cuStreamWaitEvent(inside, event, 0)) == Code.CAPTURE_ISOLATION
    bench.end_code(inside)


@rule("D21", evidence="H2")
@modes
def test_nor_on_its_own_streams_past(bench: Bench, mode: str) -> None:
    """The event was recorded on the same stream, before the capture began."""
    stream, event = bench.stream(), bench.event()
    bench.work(stream)
    ok(cu.cuEventRecord(event, stream))
    bench.begin(stream, mode)
    assert code(cu.cuStreamWaitEvent(stream, event, 0)) == Code.CAPTURE_ISOLATION
    bench.end_code(stream)


@rule("E-23", evidence="unknown")
@modes
def test_observe_whether_isolation_breaks_the_capture(bench: Bench, mode: str, observe: Any) -> None:
    stream, event = bench.stream(), bench.recorded_event()
    bench.begin(stream, mode)
    got = code(cu.cuStreamWaitEvent(stream, event, 0))
    observe(mode=mode, code=got, status=status_of(stream), end=bench.end_code(stream))


@rule("D21", evidence="H3")
@rule("D24", evidence="H1")
@modes
def test_an_idle_stream_that_waits_on_a_captured_event_joins(bench: Bench, mode: str) -> None:
    origin, idle = bench.streams(2)
    event = bench.event()
    bench.begin(origin, mode)
    ok(cu.cuEventRecord(event, origin))
    assert code(cu.cuStreamWaitEvent(idle, event, 0)) == Code.SUCCESS
    assert status_of(idle) == Status.ACTIVE
    bench.end(origin)


@rule("D21", evidence="H4")
@rule("E-7", evidence="H4")
def test_an_idle_stream_cannot_join_an_invalidated_capture(bench: Bench) -> None:
    origin, idle = bench.streams(2)
    event = bench.event()
    bench.begin(origin)
    ok(cu.cuEventRecord(event, origin))
    bench.invalidate(origin)
    assert code(cu.cuStreamWaitEvent(idle, event, 0)) == Code.INVALID_VALUE
    assert status_of(idle) == Status.NONE
    assert bench.end_code(origin) == Code.CAPTURE_INVALIDATED


@rule("D21", evidence="H4")
@rule("E-6", evidence="H4")
@pytest.mark.parametrize("waiter", ["origin", "fork"])
def test_an_invalidated_stream_cannot_wait(bench: Bench, waiter: str) -> None:
    origin, fork = bench.streams(2)
    out, back = bench.event(), bench.event()
    bench.begin(origin)
    bench.fork(origin, fork, out)
    ok(cu.cuEventRecord(back, fork))
    bench.invalidate(fork)
    stream = origin if waiter == "origin" else fork
    assert code(cu.cuStreamWaitEvent(stream, back, 0)) == Code.CAPTURE_INVALIDATED
    assert bench.end_code(origin) == Code.CAPTURE_INVALIDATED


@rule("E-23", evidence="unknown")
@pytest.mark.parametrize("mode", ["global", "thread_local"])
def test_observe_whether_a_wrong_thread_breaks_the_capture(
    bench: Bench, other: OtherThread, mode: str, observe: Any
) -> None:
    stream = bench.stream()
    bench.begin(stream, mode)
    got = other(bench.end_code, stream)
    observe(mode=mode, code=got, status=status_of(stream), end=bench.end_code(stream))
