"""Whole-graph update and its result codes: S-D42 to S-D46.

The rows are those of the evidence page (section D.8). Some of their codes were seen on drivers of CUDA 11 and differ from
the text of today's header, which gives a difference in the count of nodes as "topology changed": the rows say so.
"""

from __future__ import annotations

from typing import Any

import pytest
from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench
from tests.driver_rules.building import (
    IF,
    SWITCH,
    Copies,
    Updated,
    add_alloc,
    add_conditional,
    add_free,
    condition,
    update,
)
from tests.driver_rules.driving import (
    NULL,
    Code,
    Update,
    code,
    entry,
    ffi,
    handle,
    nodes_of,
    ok,
)

rule = pytest.mark.driver_rule


def refused(answer: Updated, result: Update, node: Any | None) -> None:
    """Insists on a refusal with this result and this error node (None: no node)."""
    assert answer == (Code.GRAPH_EXEC_UPDATE_FAILURE, result, 0 if node is None else int(node))


@rule("D44", evidence="H3")
def test_new_addresses_are_taken_over(bench: Bench) -> None:
    copies = Copies(bench)
    first, second = bench.graph(), bench.graph()
    copies.to_device(first, 0)
    copies.to_device(second, 1)
    copies.memory[1][:] = b"\x04" * 64
    executable = bench.instantiate(first)
    assert update(executable, second) == (Code.SUCCESS, Update.SUCCESS, 0)
    bench.run(executable)
    assert bench.read(copies.device[1], 64) == b"\x04" * 64


@rule("D46", evidence="H3")
@rule("error-910", evidence="H3")
def test_another_type_of_node(bench: Bench) -> None:
    first, second = bench.graph(), bench.graph()
    bench.add_memset(first)
    node = Copies(bench).to_device(second, 0)
    refused(update(bench.instantiate(first), second), Update.NODE_TYPE_CHANGED, node)


@rule("D42", evidence="H2")
def test_another_type_and_an_edge_the_other_way(bench: Bench) -> None:
    """In the new graph the memset is made first and depends on the copy."""
    copies = Copies(bench)
    first, second = bench.graph(), bench.graph()
    a = copies.to_device(first, 0)
    copies.to_device(first, 1, [a])
    memset = bench.add_memset(second)
    copy = copies.to_device(second, 0)
    assert bench.add_edge(second, copy, memset) == Code.SUCCESS
    refused(update(bench.instantiate(first), second), Update.TOPOLOGY_CHANGED, memset)


@rule("D42", evidence="H3")
def test_other_dependents(bench: Bench) -> None:
    """A chain a-b-c against a-c and b-c."""
    copies = Copies(bench)
    first, second = bench.graph(), bench.graph()
    nodes: list[Any] = []
    for number in range(3):
        nodes.append(copies.to_device(first, number, nodes[-1:]))
    a, b = (copies.to_device(second, number) for number in range(2))
    copies.to_device(second, 2, [a, b])
    answer = update(bench.instantiate(first), second)
    assert (answer.code, answer.result) == (Code.GRAPH_EXEC_UPDATE_FAILURE, Update.TOPOLOGY_CHANGED)
    assert answer.node


@rule("D44", evidence="H3")
def test_a_copy_the_other_way(bench: Bench) -> None:
    copies = Copies(bench)
    first, second = bench.graph(), bench.graph()
    copies.to_device(first, 0)
    node = copies.to_host(second, 1)
    refused(update(bench.instantiate(first), second), Update.PARAMETERS_CHANGED, node)


@rule("D44", evidence="DOC")
@pytest.mark.parametrize("side", ["source", "target"])
def test_one_side_of_a_copy_in_another_kind_of_memory(bench: Bench, side: str) -> None:
    """Host to device, or device to host, against device to device."""
    copies = Copies(bench)
    first, second = bench.graph(), bench.graph()
    if side == "source":
        copies.to_device(first, 0)
    else:
        copies.to_host(first, 0)
    node = bench.add_copy(second, bench.copy_params(copies.device[1], copies.device[2], 64))
    refused(update(bench.instantiate(first), second), Update.PARAMETERS_CHANGED, node)


@rule("D42", evidence="H2")
def test_a_node_destroyed_in_the_same_graph(bench: Bench) -> None:
    copies = Copies(bench)
    graph = bench.graph()
    nodes = [copies.to_device(graph, number) for number in range(2)]
    executable = bench.instantiate(graph)
    ok(cu.cuGraphDestroyNode(nodes[1]))
    refused(update(executable, graph), Update.TOPOLOGY_CHANGED, None)


@rule("D46", evidence="H2")
def test_two_copies_in_and_one_copy_out(bench: Bench) -> None:
    """Seen as 6; the header's text would make it 2, for the count differs."""
    copies = Copies(bench)
    first, second = bench.graph(), bench.graph()
    copies.to_device(first, 0)
    copies.to_device(first, 1)
    copies.to_host(second, 2)
    refused(update(bench.instantiate(first), second), Update.NOT_SUPPORTED, None)


@rule("D46", evidence="H2")
def test_a_graph_grown_to_two_independent_nodes(bench: Bench) -> None:
    """Seen as 6; the header's text would make it 2, for the count differs."""
    copies = Copies(bench)
    graph = bench.graph()
    copies.to_device(graph, 0)
    executable = bench.instantiate(graph)
    copies.to_device(graph, 1)
    refused(update(executable, graph), Update.NOT_SUPPORTED, None)


@rule("D46", evidence="H2")
def test_a_source_that_had_a_node_destroyed(bench: Bench) -> None:
    """Seen as 6 although the shapes agree; nothing in the header's text explains it."""
    copies = Copies(bench)
    graph, single = bench.graph(), bench.graph()
    copies.to_device(graph, 0)
    gone = copies.to_device(graph, 1)
    bench.instantiate(graph)
    ok(cu.cuGraphDestroyNode(gone))
    copies.to_device(single, 2)
    refused(update(bench.instantiate(single), graph), Update.NOT_SUPPORTED, None)


@rule("D42", evidence="H1")
def test_two_nodes_against_three_in_a_line(bench: Bench) -> None:
    """Seen with kernels; the nodes here are memsets."""
    first, second = bench.graph(), bench.graph()
    bench.chain(first, 2)
    bench.chain(second, 3)
    answer = update(bench.instantiate(first), second)
    assert (answer.code, answer.result) == (Code.GRAPH_EXEC_UPDATE_FAILURE, Update.TOPOLOGY_CHANGED)


@rule("D46", evidence="H3")
@pytest.mark.parametrize("missing", ["executable", "graph", "info"])
def test_null_arguments(bench: Bench, missing: str) -> None:
    """A plain 1, not a refusal."""
    call = entry("cuGraphExecUpdate", 12000, "int (*)(void *, void *, void *)")
    graph = bench.graph()
    bench.add_memset(graph)
    given = {"executable": handle(bench.instantiate(graph)), "graph": handle(graph), "info": ffi.new("update_info *")}
    given[missing] = NULL
    assert call(*given.values()) == Code.INVALID_VALUE


@rule("D45", evidence="H1")
def test_the_default_of_a_switch_is_updated(bench: Bench) -> None:
    buffer = bench.buffer(16)

    def build(value: int) -> Any:
        graph = bench.graph()
        _, bodies = add_conditional(bench, graph, condition(bench, graph, value), SWITCH, 2)
        for number, body in enumerate(bodies):
            bench.add_memset(body, pointer=buffer + number, value=1, width=1)
        return graph

    executable = bench.instantiate(build(0))
    assert update(executable, build(1)) == (Code.SUCCESS, Update.SUCCESS, 0)
    bench.run(executable)
    assert bench.read(buffer, 2) == b"\x00\x01"


@rule("D45", evidence="H1")
def test_a_body_with_another_child_is_updated(bench: Bench) -> None:
    buffer = bench.buffer(16)

    def build(value: int) -> Any:
        graph, child = bench.graph(), bench.graph()
        bench.add_memset(child, pointer=buffer, value=value, width=1)
        _, (body,) = add_conditional(bench, graph, condition(bench, graph, 1), IF, 1)
        ok(cu.cuGraphAddChildGraphNode(body, [], 0, child))
        return graph

    executable = bench.instantiate(build(3))
    assert update(executable, build(9)) == (Code.SUCCESS, Update.SUCCESS, 0)
    bench.run(executable)
    assert bench.read(buffer, 1) == b"\x09"


@rule("D46", evidence="H1")
def test_a_refused_update_leaves_the_executable_as_it_was(bench: Bench) -> None:
    buffer = bench.buffer(16)
    gone: list[int] = []
    held = ok(cu.cuUserObjectCreate(1, cu.CUhostFn(bench.host.destructor(lambda: gone.append(1))), 1, 1))
    first, second = bench.graph(), bench.graph()
    bench.add_memset(first, pointer=buffer, value=2)
    ok(cu.cuGraphRetainUserObject(first, held, 1, 1))
    bench.chain(second, 3)
    executable = bench.instantiate(first)
    assert bench.destroy_graph(first) == Code.SUCCESS
    assert update(executable, second).code == Code.GRAPH_EXEC_UPDATE_FAILURE
    bench.run(executable)
    assert bench.read(buffer, 16) == b"\x02" * 16
    assert not gone


@rule("D42", evidence="DOC")
def test_more_exit_nodes(bench: Bench) -> None:
    """As many nodes, but one more that nothing follows."""
    first, second = bench.graph(), bench.graph()
    bench.chain(first, 3)
    a = bench.add_memset(second)
    bench.add_memset(second, [a])
    bench.add_memset(second, [a])
    answer = update(bench.instantiate(first), second)
    assert (answer.code, answer.result) == (Code.GRAPH_EXEC_UPDATE_FAILURE, Update.TOPOLOGY_CHANGED)


@rule("D44", evidence="DOC")
@pytest.mark.parametrize("change", ["address", "value", "width"])
def test_a_two_dimensional_memset(bench: Bench, change: str) -> None:
    """Only its address and its value may change."""
    first, second = bench.graph(), bench.graph()
    buffers = [bench.buffer(64) for _ in range(2)]
    shape: dict[str, Any] = {"width": 4, "height": 2, "pitch": 16}
    bench.add_memset(first, pointer=buffers[0], value=1, **shape)
    changed: dict[str, Any] = {
        "address": {"pointer": buffers[1], "value": 1, **shape},
        "value": {"pointer": buffers[0], "value": 6, **shape},
        "width": {"pointer": buffers[0], "value": 1, **shape, "width": 8},
    }[change]
    node = bench.add_memset(second, **changed)
    executable = bench.instantiate(first)
    answer = update(executable, second)
    if change == "width":
        refused(answer, Update.PARAMETERS_CHANGED, node)
        return
    assert answer == (Code.SUCCESS, Update.SUCCESS, 0)
    bench.run(executable)
    row = bytes([changed["value"]]) * 4
    assert bench.read(changed["pointer"], 20) == row + bytes(12) + row


@rule("D45", evidence="DOC")
def test_memory_nodes_keep_their_parameters(bench: Bench) -> None:
    """A graph that allocates cannot be updated to another size."""
    first, second = bench.graph(), bench.graph()
    for graph, nbytes in ((first, 256), (second, 4096)):
        node, pointer = add_alloc(bench, graph, nbytes)
        add_free(graph, pointer, [node])
    assert update(bench.instantiate(first), second).code == Code.GRAPH_EXEC_UPDATE_FAILURE


@rule("D42", evidence="unknown")
@pytest.mark.parametrize("case", ["reordered edges", "child grown", "disabled node"])
def test_observe_other_updates(bench: Bench, case: str, observe: Any) -> None:
    first, second = bench.graph(), bench.graph()
    if case == "reordered edges":
        for graph, order in ((first, 1), (second, -1)):
            pair = [bench.add_memset(graph) for _ in range(2)]
            bench.add_memset(graph, pair[::order])
    elif case == "child grown":
        for graph, count in ((first, 1), (second, 2)):
            child = bench.graph()
            bench.chain(child, count)
            ok(cu.cuGraphAddChildGraphNode(graph, [], 0, child))
    else:
        bench.chain(first, 1)
        bench.chain(second, 1)
    executable = bench.instantiate(first)
    if case == "disabled node":
        ok(cu.cuGraphNodeSetEnabled(executable, nodes_of(first)[0], 0))
    answer = update(executable, second)
    observe(case=case, code=answer.code, result=answer.result, node=bool(answer.node))


@rule("E-38", evidence="H1")
def test_a_single_copy_with_a_bad_pointer(bench: Bench) -> None:
    """Setting it on the executable fails at once, with 1, and changes nothing."""
    copies = Copies(bench)
    graph = bench.graph()
    node = copies.to_device(graph, 0)
    executable = bench.instantiate(graph)
    bad = bench.copy_params(0, copies.host[0], 64, of="host")
    assert code(cu.cuGraphExecMemcpyNodeSetParams(executable, node, bad, bench.context)) == Code.INVALID_VALUE
    copies.memory[0][:] = b"\x05" * 64
    bench.run(executable)
    assert bench.read(copies.device[0], 64) == b"\x05" * 64
