"""The native tier records what SYCL sees: also work that reaches a queue through dpctl alone."""

from __future__ import annotations

from typing import Any

import dpctl
import numpy as np
import pytest

import graphcap
from graphcap.backends.xpu import _dpctl, kernels
from graphcap.backends.xpu.recording import BARRIER_TYPES
from graphcap.topology import NodeKind

COUNT = 64


@pytest.fixture
def streams() -> list[Any]:
    backend = graphcap.registry.get_backend("xpu")
    assert backend.capabilities.native_graph, "these tests are about the native tier"
    return [backend.create_stream(0) for _ in range(3)]


@pytest.fixture
def x(streams: list[Any]) -> Any:
    """Shared memory that the host can read, as int32."""
    return streams[0].allocate(4 * COUNT, "shared")


def ints(buffer: Any) -> Any:
    return np.asarray(buffer).view(np.int32)


def direct(stream: Any, name: str, buffer: Any, value: int) -> None:
    """A kernel submitted through dpctl, past graphcap."""
    arguments = [buffer.memory, _dpctl.RawKernelArg(np.int32(value)), _dpctl.RawKernelArg(np.uint64(COUNT))]
    stream.queue.submit_async(kernels.load(stream, "arithmetic", name), arguments, [COUNT])


def through(stream: Any, name: str, buffer: Any, value: int) -> None:
    """The same through graphcap."""
    kernel = kernels.load(stream, "arithmetic", name)
    stream.launch(kernel, [buffer, np.int32(value), np.uint64(COUNT)], COUNT)


def barriers(graph: graphcap.Graph) -> int:
    """Nodes of SYCL's graph that do no work."""
    impl: Any = graph.impl
    return sum(kind in BARRIER_TYPES for kind, _ in impl._template.native.nodes)


def test_direct_work_is_recorded_in_order(streams: list[Any], x: Any) -> None:
    """dpctl calls between graphcap's are nodes of the graph, at their place."""
    stream = streams[0]
    ints(x)[:] = 1
    graph = graphcap.Graph("xpu", keep_graph=True, lifetimes="off")
    with stream, graph:
        through(stream, "add_scalar_i32", x, 1)
        direct(stream, "scale_i32", x, 10)
        through(stream, "add_scalar_i32", x, 3)
        stream.queue.memcpy_async(x.memory, np.full(1, 7, np.int32), 4)
        graph.retain(x)
    np.testing.assert_array_equal(ints(x), 1)
    topology = graph.topology()
    assert topology.counts() == {NodeKind.KERNEL: 3, NodeKind.MEMCPY: 1}
    assert [node.name for node in topology.nodes] == [
        "add_scalar_i32",
        "sycl_kernel",
        "add_scalar_i32",
        "sycl_memcpy",
    ]
    assert [edge[:2] for edge in topology.edges] == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize("exposed", [False, True])
def test_fork_and_join(streams: list[Any], x: Any, exposed: bool) -> None:
    """Two forks and a join in the diamond order; barrier nodes only where a queue was handed out."""
    origin, left, right = streams
    y = origin.allocate(4 * COUNT, "shared")
    ints(x)[:], ints(y)[:] = 2, 3
    if exposed:
        assert all(stream.queue is not None for stream in streams)
    graph = graphcap.Graph("xpu", keep_graph=True)
    graph.enable_debug_mode()
    with origin, graph:
        through(origin, "scale_i32", x, 5)
        start = origin.record()
        left.wait(start)
        right.wait(start)
        through(left, "add_scalar_i32", x, 1)
        through(right, "add_scalar_i32", y, 1)
        origin.wait(left)
        origin.wait(right.record())
        kernel = kernels.load(origin, "arithmetic", "add_i32")
        origin.launch(kernel, [x, x, y, np.uint64(COUNT)], COUNT)
    topology = graph.topology()
    assert sorted(edge[:2] for edge in topology.edges) == [(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)]
    assert (barriers(graph) > 0) == exposed
    graph.replay(right)
    right.synchronize()
    np.testing.assert_array_equal(ints(x), (2 * 5 + 1) + (3 + 1))
    assert not any(stream.is_capturing for stream in streams)


def test_queue_taken_between_wait_and_work(streams: list[Any], x: Any) -> None:
    """Direct work on a fork waits for the fork's event, also if the queue was taken only after the wait."""
    origin, fork, _ = streams
    ints(x)[:] = 1
    graph = graphcap.Graph("xpu", keep_graph=True, lifetimes="off")
    with origin, graph:
        for _ in range(10):
            through(origin, "add_scalar_i32", x, 1)
        fork.wait(origin)
        direct(fork, "scale_i32", x, 100)
        origin.wait(fork)
        direct(origin, "add_scalar_i32", x, 5)
    assert graph.topology().depth == 12
    graph.replay(origin)
    origin.synchronize()
    np.testing.assert_array_equal(ints(x), 11 * 100 + 5)


def test_direct_work_that_is_not_joined(streams: list[Any], x: Any) -> None:
    """Rule 6: forked work that only SYCL saw is found too; afterwards everything can capture again."""
    origin, fork, _ = streams
    graph = graphcap.Graph("xpu")
    with pytest.raises(graphcap.UnjoinedStreamError, match="directly") as caught, origin, graph:
        through(origin, "add_scalar_i32", x, 1)
        fork.wait(origin)
        direct(fork, "scale_i32", x, 2)
    assert repr(fork) in str(caught.value)
    for stream in (fork, origin):
        with stream, graph:
            through(stream, "add_scalar_i32", x, 1)
        graph.replay(stream)
        graph.reset()


def test_events_of_a_capture_do_not_leak(streams: list[Any], x: Any) -> None:
    """An event kept from a capture is refused in eager work: SYCL would start to record the queue again (trap C3)."""
    origin, other, _ = streams
    ints(x)[:] = 0
    graph = graphcap.Graph("xpu")
    with origin, graph:
        through(origin, "add_scalar_i32", x, 1)
        kept = origin.record()
    for use in (lambda: other.wait(kept), kept.query, kept.synchronize):
        with pytest.raises((graphcap.CaptureIsolationError, graphcap.CaptureForbiddenError)):
            use()
    impl: Any = graph.impl
    extension = impl._backend.extension
    for stream in (origin, other):
        assert extension.state(_dpctl.queue_capsule(stream.queue)) == 0
        through(stream, "add_scalar_i32", x, 1)
        stream.synchronize()
    np.testing.assert_array_equal(ints(x), 2)


def test_another_recording_of_the_queue(streams: list[Any], x: Any) -> None:
    """A queue that something else records: begin says so, a wait is an error and not the end of the process."""
    stream = streams[0]
    backend: Any = stream.backend
    extension, capsule = backend.extension, _dpctl.queue_capsule(stream.queue)
    recording = extension.begin(capsule)
    try:
        with stream, pytest.raises(graphcap.CaptureStateError, match="record"):
            graphcap.Graph("xpu").capture_begin()
        with pytest.raises(graphcap.DriverError, match="record"):
            stream.synchronize()
    finally:
        extension.end(recording)
    stream.synchronize()
    with stream, graphcap.Graph("xpu") as graph:
        through(stream, "add_scalar_i32", x, 1)
    graph.replay(stream)
    stream.synchronize()


def test_what_the_device_cannot_put_into_a_graph(streams: list[Any], x: Any) -> None:
    """A direct prefetch is recorded by SYCL and refused by the CPU device: an error at the end, and a clean state."""
    stream = streams[0]
    if not stream.queue.sycl_device.is_cpu:
        pytest.skip("XPU: a GPU may take prefetches into graphs")
    graph = graphcap.Graph("xpu")
    with pytest.raises(graphcap.DriverError, match="finalize"), stream, graph:
        stream.queue.prefetch(x.memory, 4 * COUNT)
    with stream, graph:
        through(stream, "add_scalar_i32", x, 1)
    graph.replay(stream)
    stream.synchronize()


def test_update_needs_the_full_aspect(streams: list[Any], x: Any) -> None:
    """The OpenCL CPU device has the limited graph aspect only; a device with the full one takes over the parameters."""
    stream = streams[0]
    graphs = [graphcap.Graph("xpu", keep_graph=True) for _ in range(2)]
    for factor, graph in enumerate(graphs, 2):
        with stream, graph:
            through(stream, "scale_i32", x, factor)
        graph.instantiate()
    if stream.backend.capabilities.graph_update:
        graphs[0].update(graphs[1])
    else:
        with pytest.raises(graphcap.UnsupportedError, match="graph_update"):
            graphs[0].update(graphs[1])
    ints(x)[:] = 1
    graphs[0].replay(stream)
    stream.synchronize()
    np.testing.assert_array_equal(ints(x), 3 if stream.backend.capabilities.graph_update else 2)
    with pytest.raises(graphcap.GraphStateError):
        graphcap.Graph("xpu").update(graphs[0])


def test_a_capsule_of_another_kind(streams: list[Any]) -> None:
    """The extension takes capsules by name: anything else is an error, not a crash."""
    backend: Any = streams[0].backend
    extension = backend.extension
    queue = _dpctl.queue_capsule(streams[0].queue)
    event = _dpctl.event_capsule(dpctl.SyclEvent())
    calls = [
        (extension.state, (event,)),
        (extension.begin, (7,)),
        (extension.end, (queue,)),
        (extension.nodes, (queue, [])),
        (extension.finalize, (event,)),
        (extension.launch, (queue, queue)),
        (extension.update, (queue, queue)),
        (extension.host_task, (queue, 1, [queue])),
        (extension.fill_bytes, (queue, 0, 0, 0, [None])),
    ]
    for call, arguments in calls:
        with pytest.raises((ValueError, TypeError)):
            call(*arguments)


def test_empty_direct_capture_counts_direct_work(streams: list[Any], x: Any) -> None:
    """A capture that holds only direct work is not empty (rule 7)."""
    stream = streams[0]
    ints(x)[:] = 1
    graph = graphcap.Graph("xpu", lifetimes="off")
    with stream, graph:
        direct(stream, "scale_i32", x, 4)
    graph.retain(x)
    graph.replay(stream)
    stream.synchronize()
    np.testing.assert_array_equal(ints(x), 4)
