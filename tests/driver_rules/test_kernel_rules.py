"""Rules that only kernels show: S-D28, S-D36, S-D42, S-D43, S-D46, S-D50, S-D51, E-28, E-29, E-38."""

from __future__ import annotations

from typing import Any

import pytest
from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench
from tests.driver_rules.building import IF, WHILE, add_conditional, condition, update
from tests.driver_rules.child import in_child
from tests.driver_rules.driving import (
    AUTO_FREE,
    DEVICE_LAUNCH,
    MODES,
    NODE_PRIORITY,
    NULL,
    UPLOAD,
    Code,
    Kind,
    Update,
    capture_info,
    code,
    entry,
    ffi,
    get_edges,
    handle,
    kinds_of,
    nodes_of,
    ok,
    update_dependencies,
)
from tests.driver_rules.kernels import Kernels, UnavailableError, attribute

rule = pytest.mark.driver_rule
modes = pytest.mark.parametrize("mode", list(MODES))


@pytest.fixture
def kernels(bench: Bench) -> Kernels:
    """The test kernels; skips where none can be built."""
    try:
        return Kernels(bench)
    except UnavailableError as why:
        pytest.skip(str(why))


def number_at(bench: Bench, pointer: int) -> int:
    """The 32-bit number in device memory."""
    return int.from_bytes(bench.read(pointer, 4), "little", signed=True)


@rule("D36", evidence="H1")
@pytest.mark.parametrize("flags", [AUTO_FREE, UPLOAD, DEVICE_LAUNCH, NODE_PRIORITY])
def test_flags_on_a_graph_of_three_kernels(bench: Bench, kernels: Kernels, flags: int) -> None:
    graph, stream, buffer = bench.graph(), bench.stream(), bench.buffer(16)
    last: list[Any] = []
    for number in (1, 2, 3):
        last = [kernels.add(graph, "affine", buffer, 10, number, after=last)]
    params = cu.CUDA_GRAPH_INSTANTIATE_PARAMS()
    params.flags = cu.cuuint64_t(flags)
    params.hUploadStream = stream
    bench.run(bench.keep_exec(ok(cu.cuGraphInstantiateWithParams(graph, params))), stream)
    assert number_at(bench, buffer) == 123


@rule("D24", evidence="H1")
@modes
def test_captured_kernels_replay_in_order(bench: Bench, kernels: Kernels, mode: str) -> None:
    stream, buffer = bench.stream(), bench.buffer(16)
    bench.begin(stream, mode)
    for number in (4, 5, 6):
        assert kernels.launch(stream, "affine", buffer, 10, number) == Code.SUCCESS
    graph = bench.end(stream)
    assert kinds_of(graph) == [Kind.KERNEL] * 3
    assert number_at(bench, buffer) == 0
    bench.run(bench.instantiate(graph))
    assert number_at(bench, buffer) == 456


@rule("D28", evidence="H1")
def test_a_programmatic_launch_is_captured_as_a_programmatic_edge(bench: Bench, kernels: Kernels) -> None:
    stream = bench.stream()
    allowed = attribute("PROGRAMMATIC_STREAM_SERIALIZATION", 1)
    bench.begin(stream)
    kernels.launch(stream)
    got = kernels.launch(stream, attributes=(allowed,))
    assert got == Code.SUCCESS
    graph = bench.end(stream)
    count = ok(get_edges(graph, 0))[-1]
    assert count == 1
    _, _, (edge,), _ = ok(get_edges(graph, count))
    assert (edge.from_port, int(edge.type)) == (1, 1)  # CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, programmatic


@rule("D28", evidence="H1")
def test_a_query_that_would_lose_edge_data(bench: Bench, kernels: Kernels) -> None:
    call = entry("cuStreamGetCaptureInfo", 12030, "int (*)(void *, int *, void *, void *, void *, void *, void *)")
    stream = bench.stream()
    bench.begin(stream)
    kernels.launch(stream)
    edge = cu.CUgraphEdgeData()
    edge.from_port, edge.type = 1, 1
    assert code(update_dependencies(stream, capture_info(stream).dependencies, [edge], 1, 1)) == Code.SUCCESS
    status, dependencies, count = ffi.new("int *"), ffi.new("void **"), ffi.new("size_t *")
    lossy = call(handle(stream), status, NULL, NULL, dependencies, NULL, count)
    bench.end_code(stream)
    assert lossy == Code.LOSSY_QUERY


@rule("E-28", evidence="H2")
def test_a_kernel_node_without_arguments(bench: Bench, kernels: Kernels) -> None:
    graph = bench.graph()
    params = kernels.params("affine", bench.scratch, 1, 1)
    params.kernelParams = 0
    assert code(cu.cuGraphAddKernelNode(graph, [], 0, params)) == Code.INVALID_VALUE
    assert nodes_of(graph) == []


@rule("E-28", evidence="H2")
def test_kernel_parameters_of_a_node_that_is_not_in_the_executable(bench: Bench, kernels: Kernels) -> None:
    graph, other = bench.graph(), bench.graph()
    kernels.add(graph, "empty")
    stranger = kernels.add(other, "empty")
    executable = bench.instantiate(graph)
    answer = cu.cuGraphExecKernelNodeSetParams(executable, stranger, kernels.params("empty"))
    assert code(answer) == Code.INVALID_VALUE


@rule("E-29", evidence="H3")
def test_a_kernel_node_can_be_disabled(bench: Bench, kernels: Kernels) -> None:
    graph, buffer = bench.graph(), bench.buffer(16)
    node = kernels.add(graph, "count_up", buffer, 1)
    executable = bench.instantiate(graph)
    counted = []
    for enabled in (1, 0, 1):
        ok(cu.cuGraphNodeSetEnabled(executable, node, enabled))
        bench.run(executable)
        counted.append(number_at(bench, buffer))
    assert counted == [1, 1, 2]


@rule("D42", evidence="H1")
def test_two_kernels_against_three_in_a_line(bench: Bench, kernels: Kernels) -> None:
    graphs = bench.graph(), bench.graph()
    for graph, length in zip(graphs, (2, 3), strict=True):
        last: list[Any] = []
        for _ in range(length):
            last = [kernels.add(graph, "empty", after=last)]
    answer = update(bench.instantiate(graphs[0]), graphs[1])
    assert (answer.code, answer.result) == (Code.GRAPH_EXEC_UPDATE_FAILURE, Update.TOPOLOGY_CHANGED)


@rule("D43", evidence="DOC")
def test_a_cooperative_kernel_stays_one(bench: Bench, kernels: Kernels) -> None:
    graphs = []
    stream = bench.stream()
    for cooperative in (0, 1):
        bench.begin(stream)
        assert kernels.launch(stream, attributes=(attribute("COOPERATIVE", cooperative),)) == Code.SUCCESS
        graphs.append(bench.end(stream))
    for first, second in (graphs, graphs[::-1]):
        answer = update(bench.instantiate(first), second)
        assert answer.code == Code.GRAPH_EXEC_UPDATE_FAILURE
        assert answer.node == int(nodes_of(second)[0])


@rule("D43", evidence="DOC")
@rule("D36", evidence="DOC")
def test_a_priority_is_copied_from_the_stream_and_then_fixed(bench: Bench, kernels: Kernels) -> None:
    """Fixed where the executable was made to use it; free otherwise."""
    lowest, highest = ok(cu.cuCtxGetStreamPriorityRange())
    if lowest == highest:
        pytest.skip("this device knows no priorities")
    which = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PRIORITY
    graphs = []
    for priority in (lowest, highest):
        stream = bench.stream(priority=priority)
        bench.begin(stream)
        kernels.launch(stream)
        graphs.append(bench.end(stream))
        node = nodes_of(graphs[-1])[0]
        assert ok(cu.cuGraphKernelNodeGetAttribute(node, which)).priority == priority
    first, second = graphs
    assert update(bench.instantiate(first), second).code == Code.SUCCESS
    assert update(bench.instantiate(first, NODE_PRIORITY), second).code == Code.GRAPH_EXEC_UPDATE_FAILURE


@rule("D46", evidence="H3")
def test_a_kernel_of_another_device(bench: Bench, kernels: Kernels, two_devices: tuple[Any, Any]) -> None:
    first_context, second_context = two_devices
    first, second = bench.graph(), bench.graph()
    kernels.add(first, "empty")
    executable = bench.instantiate(first)
    ok(cu.cuCtxSetCurrent(second_context))
    elsewhere = Kernels(bench)
    node = elsewhere.add(second, "empty")
    answer = update(executable, second)
    ok(cu.cuCtxSetCurrent(first_context))
    assert answer == (Code.GRAPH_EXEC_UPDATE_FAILURE, Update.UNSUPPORTED_FUNCTION_CHANGE, int(node))


@rule("D50", evidence="H1")
def test_a_loop_that_its_body_ends(bench: Bench, kernels: Kernels) -> None:
    graph, counter, trips = bench.graph(), bench.buffer(16), bench.buffer(16)
    which = condition(bench, graph, 1)
    got, (body,) = add_conditional(bench, graph, which, WHILE, 1)
    assert got == Code.SUCCESS
    counted = kernels.add(body, "count_up", trips, 1)
    kernels.add(body, "loop_while_positive", which, counter, after=[counted])
    executable = bench.instantiate(graph)
    for launch in (1, 2):
        ok(cu.cuMemsetD32(counter, 7, 1))
        bench.run(executable)
        assert number_at(bench, trips) == 7 * launch


@rule("D51", evidence="H1")
@rule("D6", evidence="H1")
def test_a_kernel_arms_a_condition_whose_default_is_not_assigned(bench: Bench, kernels: Kernels) -> None:
    """The body captured on a second stream while the root capture is still open."""
    root, inner = bench.streams(2)
    counter, trips = bench.buffer(16), bench.buffer(16)
    bench.begin(root, "relaxed")
    graph = capture_info(root).graph
    which = condition(bench, graph, 0, assign=0)
    assert kernels.launch(root, "set_condition", which, 1) == Code.SUCCESS
    info = capture_info(root)
    got, (body,) = add_conditional(bench, graph, which, WHILE, 1, info.dependencies)
    assert got == Code.SUCCESS
    assert code(cu.cuStreamBeginCaptureToGraph(inner, body, [], None, 0, MODES["relaxed"])) == Code.SUCCESS
    kernels.launch(inner, "count_up", trips, 1)
    kernels.launch(inner, "loop_while_positive", which, counter)
    ok(cu.cuStreamEndCapture(inner))
    executable = bench.instantiate(bench.end(root))
    for launch in (1, 2):
        ok(cu.cuMemsetD32(counter, 7, 1))
        bench.run(executable)
        assert number_at(bench, trips) == 7 * launch


@rule("D50", evidence="H1")
def test_a_body_with_kernels(bench: Bench, kernels: Kernels) -> None:
    graph, buffer = bench.graph(), bench.buffer(16)
    _, (body,) = add_conditional(bench, graph, condition(bench, graph, 1), IF, 1)
    kernels.add(body, "affine", buffer, 10, 4, after=[kernels.add(body, "affine", buffer, 1, 3)])
    bench.run(bench.instantiate(graph))
    assert number_at(bench, buffer) == 34


def fault_in_a_replay(bench: Bench) -> dict[str, int]:
    """In a child: a kernel of a graph writes where nothing is."""
    kernels = Kernels(bench)
    graph, stream = bench.graph(), bench.stream()
    kernels.add(graph, "poke", 0x7_0000_0000_0000 & ~0xFFF, 1)
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    return {
        "launch": code(cu.cuGraphLaunch(executable, stream)),
        "sync": code(cu.cuStreamSynchronize(stream)),
        "later": code(cu.cuCtxSynchronize()),
    }


@rule("E-38", evidence="H1")
def test_a_fault_in_a_replay_surfaces_at_the_next_synchronisation(kernels: Kernels) -> None:
    """Not at the launch; and it stays."""
    answer = in_child(f"{__name__}:fault_in_a_replay")
    assert answer.exit_status == 0, answer.output
    assert answer.value == {
        "launch": Code.SUCCESS,
        "sync": Code.ILLEGAL_ADDRESS,
        "later": Code.ILLEGAL_ADDRESS,
    }
