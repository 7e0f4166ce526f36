"""Unmodified ``cuda.core`` on the emulated device (or, by GRAPHCAP_TEST_DRIVER, on a GPU)."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as cu
from cuda.core import (
    Device,
    DeviceMemoryResource,
    EventOptions,
    GraphMemoryResource,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    ManagedMemoryResource,
    ObjectCode,
    PinnedMemoryResource,
    Stream,
    StreamOptions,
    launch,
)
from cuda.core.graph import GraphBuilder, GraphCompleteOptions, GraphDebugPrintOptions, GraphDefinition

from tests.emulated_device import control, harness

ONE = LaunchConfig(grid=1, block=1)


@pytest.fixture
def device() -> Iterator[Device]:
    device = Device()
    device.set_current()
    gc.collect()
    before = control.counts() if harness.emulated() else {}
    yield device
    harness.ok(cu.cuCtxSynchronize())  # device.sync() asks the runtime library, which wants a real driver
    gc.collect()
    if not harness.emulated():
        return
    kinds = ("graph_exec", "graph_node", "graph", "device_allocation", "host_allocation", "user_object", "event")
    deadline = time.monotonic() + 5  # what the driver's own thread still has to give back
    while any(control.counts()[kind] > before[kind] for kind in kinds) and time.monotonic() < deadline:
        time.sleep(0.005)
        gc.collect()
    after = control.counts()
    assert {kind: after[kind] for kind in kinds if after[kind] > before[kind]} == {}


@pytest.fixture(scope="module")
def kernels() -> ObjectCode:
    Device().set_current()
    return ObjectCode.from_cubin(harness.kernel_image())


class Numbers:
    """Pinned integers that kernels and the host both see."""

    def __init__(self, stream: Stream, count: int = 1) -> None:
        self.buffer = LegacyPinnedMemoryResource().allocate(4 * count, stream=stream)
        self.values: Any = np.from_dlpack(self.buffer).view(np.int32)
        self.values[:] = 0

    @property
    def pointer(self) -> int:
        return int(self.buffer.handle)


@pytest.fixture
def stream(device: Device) -> Stream:
    return device.create_stream()


@pytest.fixture
def numbers(stream: Stream) -> Iterator[Numbers]:
    made = Numbers(stream)
    yield made
    stream.sync()
    made.values = None  # the view holds the buffer
    made.buffer.close(stream)


def affine(where: Any, kernels: ObjectCode, numbers: Numbers, a: int, b: int) -> None:
    """x = a * x + b: does not commute, so a wrong order gives a wrong number."""
    launch(where, ONE, kernels.get_kernel("affine"), numbers.pointer, np.int32(a), np.int32(b))


def test_the_device_presents_itself(device: Device) -> None:
    assert device.name
    assert device.compute_capability >= (5, 0)
    assert device.properties.max_threads_per_block >= 1024
    assert device.properties.multiprocessor_count >= 1
    assert len(device.uuid) > 0


def test_streams_and_events(device: Device, stream: Stream, numbers: Numbers, kernels: ObjectCode) -> None:
    other = device.create_stream(options=StreamOptions(nonblocking=True, priority=-1))
    timed = EventOptions(timing_enabled=True)
    start = stream.record(options=timed)
    affine(stream, kernels, numbers, 0, 5)
    other.wait(stream.record())
    affine(other, kernels, numbers, 2, 1)
    stream.wait(other)
    affine(stream, kernels, numbers, 10, 3)
    end = stream.record(options=timed)
    end.sync()
    assert end.is_done
    assert numbers.values[0] == 113
    assert end - start >= 0
    other.close()


def test_memory_resources_and_copies(device: Device, stream: Stream) -> None:
    pool = DeviceMemoryResource(device)
    a, b = pool.allocate(256, stream=stream), device.allocate(256, stream=stream)
    host = LegacyPinnedMemoryResource().allocate(256, stream=stream)
    a.fill(b"\x07", stream=stream)
    b.copy_from(a, stream=stream)
    b.copy_to(host, stream=stream)
    stream.sync()
    assert bytes(np.from_dlpack(host).view(np.uint8)) == b"\x07" * 256
    for buffer in (a, b, host):
        buffer.close(stream)
    stream.sync()


@pytest.mark.parametrize("resource", [PinnedMemoryResource, ManagedMemoryResource])
def test_memory_that_the_host_sees_too(stream: Stream, kernels: ObjectCode, resource: type) -> None:
    buffer = resource().allocate(4, stream=stream)
    assert buffer.is_host_accessible
    assert buffer.is_device_accessible
    stream.sync()
    values = np.from_dlpack(buffer).view(np.int32)
    values[0] = 5
    launch(stream, ONE, kernels.get_kernel("count_up"), int(buffer.handle), np.int32(2))
    stream.sync()
    assert values[0] == 7
    del values
    buffer.close(stream)
    stream.sync()


def test_kernels_tell_their_parameters(kernels: ObjectCode) -> None:
    kernel = kernels.get_kernel("axpy")
    assert kernel.num_arguments == 4
    assert [(one.offset, one.size) for one in kernel.arguments_info] == [(0, 4), (4, 4), (8, 8), (16, 8)]
    assert kernel.attributes.max_threads_per_block == 1024


def test_a_kernel_with_a_barrier(device: Device, stream: Stream, kernels: ObjectCode) -> None:
    n = 1000
    source, target = Numbers(stream, n), Numbers(stream, 4)
    values = np.arange(n, dtype=np.float32)
    source.values.view(np.float32)[:] = values
    launch(
        stream,
        LaunchConfig(grid=4, block=256),
        kernels.get_kernel("block_sum"),
        target.pointer,
        source.pointer,
        np.int32(n),
    )
    stream.sync()
    expected = np.pad(values, (0, 24)).reshape(4, 256).sum(axis=1)
    np.testing.assert_array_equal(target.values.view(np.float32), expected)


def test_builder_with_split_join_and_callback(
    device: Device, stream: Stream, numbers: Numbers, kernels: ObjectCode, tmp_path: Path
) -> None:
    seen: list[int] = []
    left_numbers, right_numbers = Numbers(stream), Numbers(stream)
    builder = device.create_graph_builder().begin_building()
    affine(builder, kernels, left_numbers, 0, 3)
    affine(builder, kernels, right_numbers, 0, 4)
    left, right = builder.split(2)
    affine(left, kernels, left_numbers, 10, 1)
    affine(right, kernels, right_numbers, 10, 2)
    joined = GraphBuilder.join(left, right)
    joined.callback(lambda: seen.append(int(left_numbers.values[0]) * 100 + int(right_numbers.values[0])))
    joined.end_building()
    path = tmp_path / "graph.dot"
    joined.debug_dot_print(str(path), GraphDebugPrintOptions(verbose=True))
    text = path.read_text()
    assert text.startswith("digraph dot {\n")
    assert text.count('label="{KERNEL') == 4
    graph = joined.complete()
    assert seen == []
    graph.upload(stream)
    for _ in range(3):
        graph.launch(stream)
    stream.sync()
    assert seen == [31 * 100 + 42] * 3
    graph.close()
    joined.close()


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_builder_modes(device: Device, stream: Stream, numbers: Numbers, kernels: ObjectCode, mode: str) -> None:
    builder = stream.create_graph_builder().begin_building(mode)
    affine(builder, kernels, numbers, 1, 5)
    graph = builder.end_building().complete()
    graph.launch(stream)
    stream.sync()
    assert numbers.values[0] == 5


@pytest.mark.parametrize("value", [0, 1])
def test_if(device: Device, stream: Stream, numbers: Numbers, kernels: ObjectCode, value: int) -> None:
    builder = device.create_graph_builder().begin_building()
    condition = builder.create_condition(default_value=0)
    launch(builder, ONE, kernels.get_kernel("set_condition"), condition.handle, np.uint32(value))
    body = builder.if_then(condition).begin_building()
    affine(body, kernels, numbers, 1, 10)
    body.end_building()
    affine(builder, kernels, numbers, 2, 1)
    graph = builder.end_building().complete()
    graph.launch(stream)
    stream.sync()
    assert numbers.values[0] == (21 if value else 1)


@pytest.mark.parametrize("value", [0, 7])
def test_if_else(device: Device, stream: Stream, numbers: Numbers, kernels: ObjectCode, value: int) -> None:
    builder = device.create_graph_builder().begin_building()
    condition = builder.create_condition()
    launch(builder, ONE, kernels.get_kernel("set_condition"), condition.handle, np.uint32(value))
    for branch, amount in zip(builder.if_else(condition), (10, 20), strict=True):
        affine(branch.begin_building(), kernels, numbers, 1, amount)
        branch.end_building()
    graph = builder.end_building().complete()
    graph.launch(stream)
    stream.sync()
    assert numbers.values[0] == (10 if value else 20)


def test_while(device: Device, stream: Stream, numbers: Numbers, kernels: ObjectCode) -> None:
    rounds = Numbers(stream)
    builder = device.create_graph_builder().begin_building()
    condition = builder.create_condition(default_value=1)
    body = builder.while_loop(condition).begin_building()
    affine(body, kernels, rounds, 1, 1)
    launch(body, ONE, kernels.get_kernel("loop_while_positive"), condition.handle, numbers.pointer)
    body.end_building()
    graph = builder.end_building().complete()
    numbers.values[0] = 5
    graph.launch(stream)
    stream.sync()
    assert (numbers.values[0], rounds.values[0]) == (0, 5)
    numbers.values[0] = 2  # the default holds again for the next launch
    graph.launch(stream)
    stream.sync()
    assert (numbers.values[0], rounds.values[0]) == (0, 7)


@pytest.mark.parametrize("value", [0, 1, 2, 3])
def test_switch(device: Device, stream: Stream, numbers: Numbers, kernels: ObjectCode, value: int) -> None:
    builder = device.create_graph_builder().begin_building()
    condition = builder.create_condition()
    launch(builder, ONE, kernels.get_kernel("set_condition"), condition.handle, np.uint32(value))
    for case, branch in enumerate(builder.switch(condition, 3)):
        affine(branch.begin_building(), kernels, numbers, 1, 100 + case)
        branch.end_building()
    graph = builder.end_building().complete()
    graph.launch(stream)
    stream.sync()
    assert numbers.values[0] == (100 + value if value < 3 else 0)


def test_a_graph_inside_a_graph(device: Device, stream: Stream, numbers: Numbers, kernels: ObjectCode) -> None:
    child = device.create_graph_builder().begin_building()
    affine(child, kernels, numbers, 3, 0)
    child.end_building()
    builder = device.create_graph_builder().begin_building()
    affine(builder, kernels, numbers, 0, 2)
    builder.embed(child)
    affine(builder, kernels, numbers, 1, 1)
    graph = builder.end_building().complete()
    graph.launch(stream)
    stream.sync()
    assert numbers.values[0] == 7


def test_updating_an_executable(device: Device, stream: Stream, numbers: Numbers, kernels: ObjectCode) -> None:
    def build(amount: int) -> GraphBuilder:
        builder = device.create_graph_builder().begin_building()
        affine(builder, kernels, numbers, 1, amount)
        return builder.end_building()

    graph = build(1).complete()
    graph.launch(stream)
    graph.update(build(50))
    graph.launch(stream)
    stream.sync()
    assert numbers.values[0] == 51


@pytest.mark.parametrize(
    "options",
    [
        GraphCompleteOptions(auto_free_on_launch=True),
        GraphCompleteOptions(device_launch=True),
        GraphCompleteOptions(use_node_priority=True),
    ],
    ids=["auto_free", "device_launch", "node_priority"],
)
def test_complete_options(
    device: Device, stream: Stream, numbers: Numbers, kernels: ObjectCode, options: GraphCompleteOptions
) -> None:
    builder = device.create_graph_builder().begin_building()
    affine(builder, kernels, numbers, 1, 1)
    builder.end_building()
    builder.complete(options).launch(stream)
    upload = builder.complete(GraphCompleteOptions(upload_stream=stream))
    upload.launch(stream)
    stream.sync()
    assert numbers.values[0] == 2


def test_graph_memory_in_a_builder(device: Device, stream: Stream, numbers: Numbers, kernels: ObjectCode) -> None:
    memory = GraphMemoryResource(device)
    builder = device.create_graph_builder().begin_building()
    scratch = memory.allocate(64, stream=builder)
    scratch.fill(b"\x01", stream=builder)
    launch(builder, ONE, kernels.get_kernel("count_up"), int(scratch.handle), np.int32(0))
    scratch.close(builder)
    affine(builder, kernels, numbers, 1, 1)
    graph = builder.end_building().complete()
    for _ in range(3):
        graph.launch(stream)
    stream.sync()
    assert numbers.values[0] == 3


def test_definition_by_explicit_nodes(
    device: Device, stream: Stream, numbers: Numbers, kernels: ObjectCode, tmp_path: Path
) -> None:
    result = Numbers(stream)
    event = device.create_event()
    seen: list[int] = []
    definition = GraphDefinition()
    first = definition.launch(ONE, kernels.get_kernel("affine"), numbers.pointer, np.int32(0), np.int32(6))
    second = first.launch(ONE, kernels.get_kernel("affine"), numbers.pointer, np.int32(7), np.int32(0))
    cleared = definition.memset(result.buffer, 0, 4)
    copied = definition.join(second, cleared).memcpy(result.buffer, numbers.buffer, 4)
    copied.record(event).callback(lambda: seen.append(int(result.values[0])))
    assert len(definition.nodes()) == 7
    assert (first, second) in definition.edges()
    path = tmp_path / "definition.dot"
    definition.debug_dot_print(str(path))
    assert path.read_text().count('shape="octagon"') == 2
    graph = definition.instantiate()
    graph.launch(stream)
    stream.sync()
    assert result.values[0] == 42
    assert seen == [42]
    assert event.is_done


def test_definition_with_memory_and_loops(
    device: Device, stream: Stream, numbers: Numbers, kernels: ObjectCode
) -> None:
    definition = GraphDefinition()
    condition = definition.create_condition(default_value=1)
    scratch = definition.allocate(4)
    armed = scratch.memset(scratch.dptr, np.uint8(0), 4).launch(
        ONE, kernels.get_kernel("affine"), scratch.dptr, np.int32(1), np.int32(3)
    )
    loop = armed.while_loop(condition)
    body = loop.body
    body.launch(ONE, kernels.get_kernel("affine"), numbers.pointer, np.int32(1), np.int32(1)).launch(
        ONE, kernels.get_kernel("loop_while_positive"), condition.handle, scratch.dptr
    )
    loop.deallocate(scratch.dptr)
    graph = definition.instantiate()
    graph.launch(stream)
    graph.launch(stream)
    stream.sync()
    assert numbers.values[0] == 6
