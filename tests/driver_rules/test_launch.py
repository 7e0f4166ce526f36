"""Instantiating, launching, uploading, destroying: S-D36, S-D38 to S-D40."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench
from tests.driver_rules.driving import AUTO_FREE, DEVICE_LAUNCH, NODE_PRIORITY, UPLOAD, Code, code, ok

rule = pytest.mark.driver_rule


@rule("D36", evidence="H1")
@pytest.mark.parametrize("flags", [0, AUTO_FREE, UPLOAD, DEVICE_LAUNCH, NODE_PRIORITY, AUTO_FREE | NODE_PRIORITY])
def test_flags_of_instantiation(bench: Bench, flags: int) -> None:
    """All accepted; the upload flag with its stream."""
    graph, stream = bench.graph(), bench.stream()
    buffer = bench.buffer(16)
    bench.add_memset(graph, pointer=buffer, value=3)
    params = cu.CUDA_GRAPH_INSTANTIATE_PARAMS()
    params.flags = cu.cuuint64_t(flags)
    if flags & UPLOAD:
        params.hUploadStream = stream
    executable = bench.keep_exec(ok(cu.cuGraphInstantiateWithParams(graph, params)))
    assert params.result_out == cu.CUgraphInstantiateResult.CUDA_GRAPH_INSTANTIATE_SUCCESS
    if flags != DEVICE_LAUNCH:
        assert int(ok(cu.cuGraphExecGetFlags(executable))) & (AUTO_FREE | NODE_PRIORITY) == flags & ~UPLOAD
    bench.run(executable, stream)
    assert bench.read(buffer, 16) == b"\x03" * 16


@rule("D36", evidence="H1")
def test_an_unknown_flag_of_instantiation(bench: Bench) -> None:
    graph = bench.graph()
    bench.add_memset(graph)
    assert code(cu.cuGraphInstantiate(graph, 1 << 20)) == Code.INVALID_VALUE


@rule("D38", evidence="DOC")
def test_an_executable_never_overlaps_itself(bench: Bench) -> None:
    """Launched into several streams at once, its work never runs twice at a time."""
    inside, worst = [0], [0]
    lock = threading.Lock()

    def body() -> None:
        with lock:
            inside[0] += 1
            worst[0] = max(worst[0], inside[0])
        time.sleep(0.001)
        with lock:
            inside[0] -= 1

    graph = bench.graph()
    ok(cu.cuGraphAddHostNode(graph, [], 0, bench.host.node_params(body)))
    executable = bench.instantiate(graph)
    streams = bench.streams(4)
    for stream in streams * 3:
        ok(cu.cuGraphLaunch(executable, stream))
    for stream in streams:
        ok(cu.cuStreamSynchronize(stream))
    assert worst[0] == 1


@rule("D38", evidence="DOC")
def test_launches_are_ordered_by_their_executable(bench: Bench) -> None:
    """A later launch in another stream sees what the earlier one did."""
    buffer = bench.buffer(16)
    first, second = bench.streams(2)
    graph = bench.graph()
    copy = bench.add_copy(graph, bench.copy_params(buffer + 8, buffer, 8))
    bench.add_memset(graph, [copy], pointer=buffer, value=7, width=8)
    executable = bench.instantiate(graph)
    ok(cu.cuGraphLaunch(executable, first))  # copies 0, then writes 7
    ok(cu.cuGraphLaunch(executable, second))  # copies 7
    ok(cu.cuStreamSynchronize(second))
    assert bench.read(buffer, 16) == b"\x07" * 16


@rule("D39", evidence="H1")
def test_uploading_prepares_without_running(bench: Bench) -> None:
    graph, stream, buffer = bench.graph(), bench.stream(), bench.buffer(16)
    bench.add_memset(graph, pointer=buffer, value=4)
    executable = bench.instantiate(graph)
    for _ in range(2):
        ok(cu.cuGraphUpload(executable, stream))
    ok(cu.cuStreamSynchronize(stream))
    assert bench.read(buffer, 16) == bytes(16)
    bench.run(executable, stream)
    assert bench.read(buffer, 16) == b"\x04" * 16


@rule("D40", evidence="K")
@pytest.mark.parametrize("with_template", [False, True])
def test_destroying_what_is_running(bench: Bench, with_template: bool) -> None:
    """Allowed at any time; the launch in flight still finishes, and nobody waits for it."""
    buffer, stream = bench.buffer(16), bench.stream()
    gate = threading.Event()
    graph = bench.graph()
    waits = ok(cu.cuGraphAddHostNode(graph, [], 0, bench.host.node_params(lambda: gate.wait(20))))
    bench.add_memset(graph, [waits], pointer=buffer, value=5)
    executable = bench.instantiate(graph)
    ok(cu.cuGraphLaunch(executable, stream))
    unblock: Any = threading.Timer(10, gate.set)  # a destroy that waits is a failure, not a hang
    unblock.start()
    began = time.monotonic()
    assert bench.destroy_exec(executable) == Code.SUCCESS
    if with_template:
        assert bench.destroy_graph(graph) == Code.SUCCESS
    took = time.monotonic() - began
    gate.set()
    unblock.cancel()
    unblock.join()
    ok(cu.cuStreamSynchronize(stream))
    assert bench.read(buffer, 16) == b"\x05" * 16
    assert took < 5


@rule("D38", evidence="DOC")
def test_a_launch_is_ordered_within_its_stream(bench: Bench) -> None:
    buffer, stream = bench.buffer(16), bench.stream()
    graph = bench.graph()
    bench.add_copy(graph, bench.copy_params(buffer + 8, buffer, 8))
    executable = bench.instantiate(graph)
    for value in range(1, 20):
        ok(cu.cuMemsetD8Async(buffer, value, 8, stream))
        ok(cu.cuGraphLaunch(executable, stream))
        ok(cu.cuMemsetD8Async(buffer, 0, 8, stream))
        ok(cu.cuStreamSynchronize(stream))
        assert bench.read(buffer, 16) == bytes(8) + bytes([value]) * 8
