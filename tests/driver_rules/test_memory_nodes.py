"""Memory allocation and free nodes: S-D30 to S-D35, E-32, E-34."""

from __future__ import annotations

from typing import Any

import pytest
from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench
from tests.driver_rules.building import add_alloc, add_free, alloc_params, unfreed
from tests.driver_rules.driving import (
    AUTO_FREE,
    MODES,
    Code,
    Kind,
    code,
    kinds_of,
    nodes_of,
    ok,
    remove_dependencies,
    same,
)

rule = pytest.mark.driver_rule
modes = pytest.mark.parametrize("mode", list(MODES))


# -- by capture --------------------------------------------------------------------------------------------------------


@rule("D30", evidence="H1")
@modes
def test_allocating_in_a_capture_makes_nodes(bench: Bench, mode: str) -> None:
    stream = bench.stream()
    target = bench.buffer(16)
    bench.begin(stream, mode)
    pointer = ok(cu.cuMemAllocAsync(256, stream))
    ok(cu.cuMemsetD8Async(pointer, 6, 256, stream))
    ok(cu.cuMemcpyDtoDAsync(target, pointer, 16, stream))
    ok(cu.cuMemFreeAsync(pointer, stream))
    graph = bench.end(stream)
    assert kinds_of(graph) == [Kind.MEMCPY, Kind.MEMSET, Kind.MEM_ALLOC, Kind.MEM_FREE]
    executable = bench.instantiate(graph)
    for _ in range(2):
        bench.run(executable)
        assert bench.read(target, 16) == b"\x06" * 16


@rule("D30", evidence="H1")
@modes
def test_allocating_nothing_in_a_capture(bench: Bench, mode: str) -> None:
    """Size 0, as cuda.core's memory resource passes it on, is accepted by that library; the driver's own answer may be
    an argument error, which harms nothing (E-23)."""
    stream = bench.stream()
    bench.begin(stream, mode)
    answer = cu.cuMemAllocAsync(0, stream)
    assert code(answer) in (Code.SUCCESS, Code.INVALID_VALUE)
    if code(answer) == Code.SUCCESS and int(answer[1]):
        ok(cu.cuMemFreeAsync(answer[1], stream))
    bench.end(stream)


@rule("D30", evidence="DOC")
def test_the_address_is_fixed_over_instantiations_and_launches(bench: Bench) -> None:
    graph, executable, pointer = unfreed(bench)
    stream = bench.stream()
    for _ in range(2):
        for _ in range(2):
            bench.run(executable, stream)
            assert bench.read(int(pointer), 256) == b"\x07" * 256
            ok(cu.cuMemFreeAsync(pointer, stream))
            ok(cu.cuStreamSynchronize(stream))
        assert bench.destroy_exec(executable) == Code.SUCCESS
        executable = bench.instantiate(graph)


@rule("D30", evidence="DOC")
@pytest.mark.parametrize("outside", ["mem_alloc", "mem_alloc_async"])
def test_a_captured_free_needs_a_graphs_allocation(bench: Bench, outside: str) -> None:
    """Which number it gives when it is not one is known of free nodes alone (1); here only that it is refused."""
    stream, side = bench.streams(2)
    if outside == "mem_alloc":
        pointer = bench.buffer(256)
    else:
        pointer = int(ok(cu.cuMemAllocAsync(256, side)))
        ok(cu.cuStreamSynchronize(side))
        bench.later(lambda: cu.cuMemFree(pointer))
    bench.begin(stream, "relaxed")
    got = code(cu.cuMemFreeAsync(pointer, stream))
    bench.end_code(stream)
    assert got != Code.SUCCESS


# -- by hand -----------------------------------------------------------------------------------------------------------


@rule("D31", evidence="H2")
def test_freeing_twice_in_one_graph(bench: Bench) -> None:
    graph = bench.graph()
    node, pointer = add_alloc(bench, graph)
    free = add_free(graph, pointer, [node])
    assert code(cu.cuGraphAddMemFreeNode(graph, [free], 1, pointer)) == Code.INVALID_VALUE
    assert len(nodes_of(graph)) == 2


@rule("D31", evidence="H2")
def test_a_free_node_for_plain_device_memory(bench: Bench) -> None:
    graph = bench.graph()
    assert code(cu.cuGraphAddMemFreeNode(graph, [], 0, bench.scratch)) == Code.INVALID_VALUE


@rule("D31", evidence="H2")
def test_a_free_node_for_null(bench: Bench) -> None:
    graph = bench.graph()
    assert code(cu.cuGraphAddMemFreeNode(graph, [], 0, 0)) == Code.INVALID_VALUE


@rule("D31", evidence="H3")
@pytest.mark.parametrize("how", ["stream", "mem_free", "second graph"])
def test_ways_to_free_what_a_graph_left(bench: Bench, how: str) -> None:
    stream = bench.stream()
    _, executable, pointer = unfreed(bench)
    freeing = bench.graph()
    if how == "second graph":
        add_free(freeing, pointer, [])
    by_graph = bench.instantiate(freeing)
    for _ in range(2):  # twice: the second launch shows that the first free was one
        bench.run(executable, stream)
        assert bench.read(int(pointer), 256) == b"\x07" * 256
        if how == "stream":
            ok(cu.cuMemFreeAsync(pointer, stream))
        elif how == "mem_free":
            assert code(cu.cuMemFree(pointer)) == Code.SUCCESS
        else:
            ok(cu.cuGraphLaunch(by_graph, stream))
        ok(cu.cuStreamSynchronize(stream))


@rule("D31", evidence="H1")
def test_freeing_the_memory_of_a_graph_never_launched(bench: Bench) -> None:
    _, _, pointer = unfreed(bench)
    assert code(cu.cuMemFreeAsync(pointer, bench.stream())) == Code.INVALID_VALUE


@rule("D31", evidence="DOC")
@pytest.mark.parametrize("first", ["owner", "other graph"])
def test_an_allocation_is_freed_by_its_own_graph_or_by_another(bench: Bench, first: str) -> None:
    """By one of them alone: the second free node is refused."""
    owner, other = bench.graph(), bench.graph()
    node, pointer = add_alloc(bench, owner)
    places = [(owner, [node]), (other, [])]
    (graph, after), (late, late_after) = places if first == "owner" else places[::-1]
    add_free(graph, pointer, after)
    assert code(cu.cuGraphAddMemFreeNode(late, late_after, len(late_after), pointer)) != Code.SUCCESS


@rule("D31", evidence="DOC")
def test_what_a_graph_frees_itself_cannot_be_freed_outside(bench: Bench) -> None:
    graph, stream = bench.graph(), bench.stream()
    node, pointer = add_alloc(bench, graph)
    add_free(graph, pointer, [node])
    bench.run(bench.instantiate(graph), stream)
    assert code(cu.cuMemFreeAsync(pointer, stream)) != Code.SUCCESS
    assert code(cu.cuMemFree(pointer)) != Code.SUCCESS


@rule("D32", evidence="H2")
@pytest.mark.parametrize("what", ["second instantiation", "clone", "child", "remove edge"])
def test_what_a_graph_with_memory_nodes_cannot_do(bench: Bench, what: str) -> None:
    graph, parent = bench.graph(), bench.graph()
    node, pointer = add_alloc(bench, graph)
    free = add_free(graph, pointer, [node])
    if what == "second instantiation":
        bench.instantiate(graph)
        answer = cu.cuGraphInstantiate(graph, 0)
    elif what == "clone":
        answer = cu.cuGraphClone(graph)
    elif what == "child":
        answer = cu.cuGraphAddChildGraphNode(parent, [], 0, graph)
    else:
        answer = remove_dependencies(graph, [node], [free], None, 1)
    assert code(answer) == Code.NOT_SUPPORTED


@rule("D32", evidence="H1")
def test_a_refused_deletion_leaves_the_node(bench: Bench) -> None:
    graph = bench.graph()
    node, pointer = add_alloc(bench, graph)
    add_free(graph, pointer, [node])
    assert code(cu.cuGraphDestroyNode(node)) != Code.SUCCESS
    assert len(nodes_of(graph)) == 2
    assert same(nodes_of(graph)[0], node)
    bench.run(bench.instantiate(graph))


@rule("D32", evidence="DOC")
def test_one_executable_after_another(bench: Bench) -> None:
    graph = bench.graph()
    node, pointer = add_alloc(bench, graph)
    add_free(graph, pointer, [node])
    for _ in range(2):
        executable = bench.instantiate(graph)
        bench.run(executable)
        assert bench.destroy_exec(executable) == Code.SUCCESS


@rule("D33", evidence="DOC")
def test_launching_with_unfreed_memory(bench: Bench) -> None:
    stream = bench.stream()
    _, executable, pointer = unfreed(bench)
    bench.run(executable, stream)
    assert code(cu.cuGraphLaunch(executable, stream)) == Code.INVALID_VALUE
    ok(cu.cuMemFreeAsync(pointer, stream))
    bench.run(executable, stream)
    ok(cu.cuMemFree(pointer))


def graph_memory(bench: Bench, name: str) -> int:
    """One of the figures about graph memory of the device."""
    attribute = getattr(cu.CUgraphMem_attribute, f"CU_GRAPH_MEM_ATTR_{name}")
    return int(ok(cu.cuDeviceGetGraphMemAttribute(bench.device, attribute)))


@rule("D33", evidence="H3")
def test_auto_free_makes_relaunching_possible(bench: Bench) -> None:
    """Three launches, and the device's figures do not grow."""
    stream = bench.stream()
    _, executable, pointer = unfreed(bench, AUTO_FREE)
    figures = []
    for _ in range(3):
        bench.run(executable, stream)
        figures.append([graph_memory(bench, name) for name in ("USED_MEM_CURRENT", "RESERVED_MEM_CURRENT")])
    assert figures[0] == figures[1] == figures[2]
    assert bench.read(int(pointer), 256) == b"\x07" * 256
    ok(cu.cuMemFree(pointer))


@rule("D34", evidence="H1")
@pytest.mark.parametrize("name", ["USED_MEM_CURRENT", "RESERVED_MEM_CURRENT"])
def test_current_figures_cannot_be_set(bench: Bench, name: str) -> None:
    attribute = getattr(cu.CUgraphMem_attribute, f"CU_GRAPH_MEM_ATTR_{name}")
    answer = cu.cuDeviceSetGraphMemAttribute(bench.device, attribute, cu.cuuint64_t(0))
    assert code(answer) == Code.INVALID_VALUE


@rule("D34", evidence="H1")
@pytest.mark.parametrize("name", ["USED_MEM_HIGH", "RESERVED_MEM_HIGH"])
def test_high_marks_can_only_be_set_to_zero(bench: Bench, name: str) -> None:
    attribute = getattr(cu.CUgraphMem_attribute, f"CU_GRAPH_MEM_ATTR_{name}")
    assert code(cu.cuDeviceSetGraphMemAttribute(bench.device, attribute, cu.cuuint64_t(1))) == Code.INVALID_VALUE
    assert code(cu.cuDeviceSetGraphMemAttribute(bench.device, attribute, cu.cuuint64_t(0))) == Code.SUCCESS


@rule("D34", evidence="H3")
def test_figures_of_a_device_that_does_not_exist(bench: Bench) -> None:
    attribute = cu.CUgraphMem_attribute.CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT
    assert code(cu.cuDeviceGetGraphMemAttribute(cu.CUdevice(10_000), attribute)) == Code.INVALID_DEVICE
    answer = cu.cuDeviceSetGraphMemAttribute(cu.CUdevice(10_000), attribute, cu.cuuint64_t(0))
    assert code(answer) == Code.INVALID_DEVICE


@rule("D34", evidence="H1")
def test_trimming_keeps_the_high_marks(bench: Bench) -> None:
    stream = bench.stream()
    _, executable, pointer = unfreed(bench)
    bench.run(executable, stream)
    ok(cu.cuMemFreeAsync(pointer, stream))
    ok(cu.cuStreamSynchronize(stream))
    high = [graph_memory(bench, name) for name in ("USED_MEM_HIGH", "RESERVED_MEM_HIGH")]
    assert min(high) > 0
    ok(cu.cuDeviceGraphMemTrim(bench.device))
    assert [graph_memory(bench, name) for name in ("USED_MEM_HIGH", "RESERVED_MEM_HIGH")] == high
    assert graph_memory(bench, "RESERVED_MEM_CURRENT") <= high[1]


@rule("D35", evidence="unknown")
def test_observe_auto_free_with_device_launch(bench: Bench, observe: Any) -> None:
    graph = bench.graph()
    bench.add_memset(graph)
    answer = cu.cuGraphInstantiate(graph, 1 | 4)
    if code(answer) == Code.SUCCESS:
        bench.keep_exec(answer[1])
    observe(code=code(answer))


@rule("D31", evidence="H4")
def test_an_allocation_outlives_its_graph(bench: Bench) -> None:
    """One left unfreed stays valid after graph and executable are destroyed."""
    graph, executable, pointer = unfreed(bench)
    bench.run(executable)
    assert bench.destroy_exec(executable) == bench.destroy_graph(graph) == Code.SUCCESS
    assert bench.read(int(pointer), 256) == b"\x07" * 256
    assert code(cu.cuMemFree(pointer)) == Code.SUCCESS


@rule("E-32", evidence="H2")
def test_an_allocation_node_of_impossible_size(bench: Bench) -> None:
    graph = bench.graph()
    answer = cu.cuGraphAddMemAllocNode(graph, [], 0, alloc_params(bench, 2**64 - 1))
    assert code(answer) == Code.OUT_OF_MEMORY
    assert nodes_of(graph) == []


@rule("E-32", evidence="H2")
def test_an_allocation_node_with_a_bad_count_of_access_descriptors(bench: Bench) -> None:
    params = alloc_params(bench, 256)
    params.accessDescCount = 5  # five descriptors, and no list
    graph = bench.graph()
    assert code(cu.cuGraphAddMemAllocNode(graph, [], 0, params)) == Code.INVALID_VALUE


@rule("E-34", evidence="H3")
def test_parameters_of_a_memory_node_of_the_other_kind(bench: Bench) -> None:
    graph = bench.graph()
    node, pointer = add_alloc(bench, graph)
    free = add_free(graph, pointer, [node])
    assert code(cu.cuGraphMemAllocNodeGetParams(free)) == Code.INVALID_VALUE
    assert code(cu.cuGraphMemFreeNodeGetParams(node)) == Code.INVALID_VALUE
    assert int(ok(cu.cuGraphMemAllocNodeGetParams(node)).dptr) == int(pointer)
    assert int(ok(cu.cuGraphMemFreeNodeGetParams(free))) == int(pointer)
