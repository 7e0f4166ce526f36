"""Parameters of nodes, enabling, user objects, event nodes, conditionals: S-D50, S-D51, E-28, E-29, E-31, E-33, E-35."""

from __future__ import annotations

from typing import Any

import pytest
from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench
from tests.driver_rules.building import IF, SWITCH, WHILE, add_conditional, alloc_params, condition
from tests.driver_rules.child import in_child
from tests.driver_rules.driving import (
    NULL,
    Code,
    code,
    entry,
    ffi,
    handle,
    nodes_of,
    ok,
)

rule = pytest.mark.driver_rule

# -- kernel nodes, as far as no kernel is needed -----------------------------------------------------------------------


@rule("E-28", evidence="H2")
def test_a_kernel_node_without_a_function(bench: Bench) -> None:
    """Seen as 98 through the runtime, whose number that is: the driver's enum has none such, so here only that it is
    refused and adds nothing."""
    call = entry("cuGraphAddKernelNode", 12000, "int (*)(void **, void *, void *, size_t, void *)")
    params = cu.CUDA_KERNEL_NODE_PARAMS()
    params.gridDimX = params.gridDimY = params.gridDimZ = 1
    params.blockDimX = params.blockDimY = params.blockDimZ = 1
    graph, node = bench.graph(), ffi.new("void **")
    assert call(node, handle(graph), NULL, 0, handle(params.getPtr())) != Code.SUCCESS
    assert nodes_of(graph) == []


@rule("E-28", evidence="H2")
def test_kernel_calls_on_a_node_of_another_kind(bench: Bench) -> None:
    graph = bench.graph()
    node = bench.add_memset(graph)
    executable = bench.instantiate(graph)
    params = cu.CUDA_KERNEL_NODE_PARAMS()
    assert code(cu.cuGraphKernelNodeGetParams(node)) == Code.INVALID_VALUE
    assert code(cu.cuGraphKernelNodeSetParams(node, params)) == Code.INVALID_VALUE
    assert code(cu.cuGraphExecKernelNodeSetParams(executable, node, params)) == Code.INVALID_VALUE


# -- enabling ----------------------------------------------------------------------------------------------------------


@rule("E-29", evidence="H3")
@pytest.mark.parametrize("kind", ["memset", "memcpy"])
def test_a_node_can_be_disabled_and_enabled(bench: Bench, kind: str) -> None:
    graph = bench.graph()
    buffer, source = bench.buffer(16), bench.buffer(16)
    ok(cu.cuMemsetD8(source, 8, 16))
    node = (
        bench.add_memset(graph, pointer=buffer, value=8)
        if kind == "memset"
        else bench.add_copy(graph, bench.copy_params(buffer, source, 16))
    )
    executable = bench.instantiate(graph)
    assert ok(cu.cuGraphNodeGetEnabled(executable, node)) == 1
    ok(cu.cuGraphNodeSetEnabled(executable, node, 0))
    assert ok(cu.cuGraphNodeGetEnabled(executable, node)) == 0
    bench.run(executable)
    assert bench.read(buffer, 16) == bytes(16)
    ok(cu.cuGraphNodeSetEnabled(executable, node, 1))
    bench.run(executable)
    assert bench.read(buffer, 16) == b"\x08" * 16


@rule("E-29", evidence="H3")
@pytest.mark.parametrize("kind", ["host", "empty", "child", "event record", "event wait", "foreign", "clone"])
def test_nodes_that_cannot_be_disabled(bench: Bench, kind: str) -> None:
    graph, other, event = bench.graph(), bench.graph(), bench.event()
    inside = bench.add_memset(graph)
    made: dict[str, Any] = {
        "host": lambda: ok(cu.cuGraphAddHostNode(graph, [], 0, bench.host.node_params(lambda: None))),
        "empty": lambda: bench.add_empty(graph),
        "child": lambda: ok(cu.cuGraphAddChildGraphNode(graph, [], 0, other)),
        "event record": lambda: ok(cu.cuGraphAddEventRecordNode(graph, [], 0, event)),
        "event wait": lambda: ok(cu.cuGraphAddEventWaitNode(graph, [], 0, event)),
        "foreign": lambda: bench.add_memset(other),
        "clone": lambda: ok(cu.cuGraphNodeFindInClone(inside, bench.keep_graph(ok(cu.cuGraphClone(graph))))),
    }
    node = made[kind]()
    executable = bench.instantiate(graph)
    assert code(cu.cuGraphNodeSetEnabled(executable, node, 0)) == Code.INVALID_VALUE
    assert code(cu.cuGraphNodeGetEnabled(executable, node)) == Code.INVALID_VALUE


def disable_a_destroyed_node(bench: Bench) -> int:
    """In a child: the node is gone from the template the executable was made of."""
    graph = bench.graph()
    node = bench.add_memset(graph)
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    ok(cu.cuGraphDestroyNode(node))
    return code(cu.cuGraphNodeSetEnabled(executable, node, 0))


@rule("E-29", evidence="H3")
def test_a_destroyed_node_cannot_be_disabled() -> None:
    answer = in_child(f"{__name__}:disable_a_destroyed_node")
    assert answer.exit_status == 0, answer.output
    assert answer.value == Code.INVALID_VALUE


# -- memset nodes ------------------------------------------------------------------------------------------------------


@rule("E-31", evidence="H2")
@pytest.mark.parametrize(
    "bad",
    [
        {"width": 0},
        {"height": 0},
        {"element_size": 3},
        {"element_size": 8},
        {"element_size": 0},
        {"width": 32, "height": 2, "pitch": 16},
        {"width": 1 << 40},
    ],
    ids=str,
)
def test_parameters_a_memset_node_refuses(bench: Bench, bad: dict[str, int]) -> None:
    """The range is looked at when the node is added."""
    graph = bench.graph()
    params = bench.memset_params(**bad)
    assert code(cu.cuGraphAddMemsetNode(graph, [], 0, params, bench.context)) == Code.INVALID_VALUE
    assert nodes_of(graph) == []


# -- user objects ------------------------------------------------------------------------------------------------------


def user_object(bench: Bench, fn: Any, references: int = 1) -> Any:
    """A user object that calls ``fn`` when its last reference goes."""
    return ok(cu.cuUserObjectCreate(1, cu.CUhostFn(bench.host.destructor(fn)), references, 1))


CREATE = "int (*)(void **, void *, void *, unsigned int, unsigned int)"


@rule("E-33", evidence="H3")
@pytest.mark.parametrize("case", ["no place", "no destructor", "count 0", "flags 0", "flags 2"])
def test_arguments_of_making_a_user_object(bench: Bench, case: str) -> None:
    call = entry("cuUserObjectCreate", 11030, CREATE)
    place, destructor = ffi.new("void **"), handle(bench.host.destructor(lambda: None))
    arguments = {
        "no place": (NULL, NULL, destructor, 1, 1),
        "no destructor": (place, NULL, NULL, 1, 1),
        "count 0": (place, NULL, destructor, 0, 1),
        "flags 0": (place, NULL, destructor, 1, 0),
        "flags 2": (place, NULL, destructor, 1, 2),
    }
    assert call(*arguments[case]) == Code.INVALID_VALUE


@rule("E-33", evidence="H3")
def test_arguments_of_keeping_a_user_object(bench: Bench) -> None:
    gone: list[int] = []
    held = user_object(bench, lambda: gone.append(1))
    graph = bench.graph()
    null_graph, null_object = cu.CUgraph(0), cu.CUuserObject(0)
    assert code(cu.cuUserObjectRetain(null_object, 1)) == Code.INVALID_VALUE
    assert code(cu.cuUserObjectRetain(held, 0)) == Code.INVALID_VALUE
    assert code(cu.cuUserObjectRelease(null_object, 1)) == Code.INVALID_VALUE
    assert code(cu.cuUserObjectRelease(held, 0)) == Code.INVALID_VALUE
    assert code(cu.cuGraphRetainUserObject(null_graph, held, 1, 0)) == Code.INVALID_VALUE
    assert code(cu.cuGraphRetainUserObject(graph, null_object, 1, 0)) == Code.INVALID_VALUE
    assert code(cu.cuGraphRetainUserObject(graph, held, 0, 0)) == Code.INVALID_VALUE
    assert code(cu.cuGraphRetainUserObject(graph, held, 1, 2)) == Code.INVALID_VALUE
    assert code(cu.cuGraphReleaseUserObject(null_graph, held, 1)) == Code.INVALID_VALUE
    assert code(cu.cuGraphReleaseUserObject(graph, null_object, 1)) == Code.INVALID_VALUE
    assert code(cu.cuGraphReleaseUserObject(graph, held, 0)) == Code.INVALID_VALUE
    assert not gone
    ok(cu.cuUserObjectRelease(held, 1))


@rule("E-33", evidence="H1")
def test_a_destructor_waits_for_the_last_executable(bench: Bench) -> None:
    import time

    gone: list[int] = []
    held = user_object(bench, lambda: gone.append(1))
    graph = bench.graph()
    bench.add_memset(graph)
    ok(cu.cuGraphRetainUserObject(graph, held, 1, 1))  # the graph takes over the one reference
    executables = [bench.instantiate(graph) for _ in range(2)]
    assert bench.destroy_graph(graph) == Code.SUCCESS
    for executable in executables:
        bench.run(executable)
        assert not gone
        assert bench.destroy_exec(executable) == Code.SUCCESS
    deadline = time.monotonic() + 10  # the destructor runs when the driver comes to it
    while not gone and time.monotonic() < deadline:
        time.sleep(0.002)
    assert gone == [1]


def take_over_more_than_there_are(bench: Bench) -> list[int]:
    """In a child: a graph takes over two references where there is one, and gives back three."""
    held = user_object(bench, lambda: None)
    graph = bench.graph()
    taken = code(cu.cuGraphRetainUserObject(graph, held, 2, 1))
    return [taken, code(cu.cuGraphReleaseUserObject(graph, held, 3))]


@rule("E-33", evidence="H3")
def test_references_are_not_counted_against_their_owner() -> None:
    answer = in_child(f"{__name__}:take_over_more_than_there_are")
    assert answer.exit_status == 0, answer.output
    assert answer.value == [Code.SUCCESS, Code.SUCCESS]


# -- event nodes -------------------------------------------------------------------------------------------------------


@rule("E-35", evidence="H3")
def test_event_nodes_without_an_event(bench: Bench) -> None:
    graph, nothing = bench.graph(), cu.CUevent(0)
    assert code(cu.cuGraphAddEventRecordNode(graph, [], 0, nothing)) == Code.INVALID_VALUE
    assert code(cu.cuGraphAddEventWaitNode(graph, [], 0, nothing)) == Code.INVALID_VALUE
    assert nodes_of(graph) == []


@rule("E-35", evidence="H3")
def test_event_calls_on_a_node_of_another_kind(bench: Bench) -> None:
    graph, event = bench.graph(), bench.event()
    record = ok(cu.cuGraphAddEventRecordNode(graph, [], 0, event))
    wait = ok(cu.cuGraphAddEventWaitNode(graph, [], 0, event))
    memset = bench.add_memset(graph)
    for node in (wait, memset):
        assert code(cu.cuGraphEventRecordNodeGetEvent(node)) == Code.INVALID_VALUE
        assert code(cu.cuGraphEventRecordNodeSetEvent(node, event)) == Code.INVALID_VALUE
    for node in (record, memset):
        assert code(cu.cuGraphEventWaitNodeGetEvent(node)) == Code.INVALID_VALUE
        assert code(cu.cuGraphEventWaitNodeSetEvent(node, event)) == Code.INVALID_VALUE


@rule("E-35", evidence="H3")
@pytest.mark.parametrize("timing", [True, False])
def test_elapsed_time_between_events_recorded_by_a_graph(bench: Bench, timing: bool) -> None:
    graph = bench.graph()
    start, stop = bench.event(timing=timing), bench.event(timing=timing)
    first = ok(cu.cuGraphAddEventRecordNode(graph, [], 0, start))
    middle = bench.add_memset(graph, [first])
    ok(cu.cuGraphAddEventRecordNode(graph, [middle], 1, stop))
    bench.run(bench.instantiate(graph))
    answer = cu.cuEventElapsedTime(start, stop)
    if timing:
        assert ok(answer) >= 0
    else:
        assert code(answer) == Code.INVALID_HANDLE


# -- conditionals ------------------------------------------------------------------------------------------------------


@rule("D50", evidence="H1")
@pytest.mark.parametrize(
    ("kind", "size", "value", "runs"),
    [
        (IF, 1, 1, 0),
        (IF, 1, 0, None),
        (IF, 2, 1, 0),
        (IF, 2, 0, 1),
        (WHILE, 1, 0, None),
        (SWITCH, 3, 0, 0),
        (SWITCH, 3, 2, 2),
        (SWITCH, 3, 3, None),
        (SWITCH, 3, 77, None),
    ],
)
def test_which_body_runs(bench: Bench, kind: Any, size: int, value: int, runs: int | None) -> None:
    """An out-of-range switch and a while that is zero run nothing."""
    buffer = bench.buffer(16)
    graph = bench.graph()
    got, bodies = add_conditional(bench, graph, condition(bench, graph, value), kind, size)
    if got == Code.NOT_SUPPORTED:
        pytest.skip("conditional nodes of this kind need a newer driver")
    assert (got, len(bodies)) == (Code.SUCCESS, size)
    for number, body in enumerate(bodies):
        bench.add_memset(body, pointer=buffer + number, value=1, width=1)
    executable = bench.instantiate(graph)
    for _ in range(2):  # the default is applied at every launch
        ok(cu.cuMemsetD8(buffer, 0, 16))
        bench.run(executable)
        assert bench.read(buffer, size) == bytes(int(number == runs) for number in range(size))


@rule("D50", evidence="H1")
def test_a_switch_over_nothing(bench: Bench) -> None:
    graph = bench.graph()
    assert add_conditional(bench, graph, condition(bench, graph, 0), SWITCH, 0)[0] != Code.SUCCESS


@rule("D50", evidence="DOC")
@pytest.mark.parametrize(("kind", "size"), [(IF, 0), (IF, 3), (WHILE, 0), (WHILE, 2)])
def test_sizes_a_conditional_refuses(bench: Bench, kind: Any, size: int) -> None:
    graph = bench.graph()
    assert add_conditional(bench, graph, condition(bench, graph, 0), kind, size)[0] != Code.SUCCESS


@rule("D50", evidence="H1")
def test_a_handle_of_another_graph(bench: Bench) -> None:
    graph, other = bench.graph(), bench.graph()
    assert add_conditional(bench, graph, condition(bench, other, 0), IF, 1)[0] != Code.SUCCESS


@rule("D50", evidence="H1")
def test_a_body_cannot_allocate(bench: Bench) -> None:
    graph = bench.graph()
    _, (body,) = add_conditional(bench, graph, condition(bench, graph, 1), IF, 1)
    added = code(cu.cuGraphAddMemAllocNode(body, [], 0, alloc_params(bench, 256)))
    assert added != Code.SUCCESS or code(cu.cuGraphInstantiate(graph, 0)) != Code.SUCCESS


@rule("D50", evidence="H1")
def test_what_a_body_may_hold(bench: Bench) -> None:
    """A copy, a child graph, a fork and a join by edges; a conditional of its own."""
    buffer, source = bench.buffer(16), bench.buffer(16)
    ok(cu.cuMemsetD8(source, 5, 16))
    graph, child = bench.graph(), bench.graph()
    bench.add_memset(child, pointer=buffer + 4, value=6, width=4)
    _, (body,) = add_conditional(bench, graph, condition(bench, graph, 1), IF, 1)
    first = bench.add_copy(body, bench.copy_params(buffer, source, 4))
    left = ok(cu.cuGraphAddChildGraphNode(body, [first], 1, child))
    right = bench.add_memset(body, [first], pointer=buffer + 8, value=7, width=4)
    bench.add_empty(body, [left, right])
    bench.run(bench.instantiate(graph))
    assert bench.read(buffer, 12) == b"\x05" * 4 + b"\x06" * 4 + b"\x07" * 4


@rule("D50", evidence="DOC")
@pytest.mark.parametrize("what", ["clone", "child", "second executable"])
def test_what_a_graph_with_conditionals_cannot_do(bench: Bench, what: str) -> None:
    graph, parent = bench.graph(), bench.graph()
    add_conditional(bench, graph, condition(bench, graph, 0), IF, 1)
    if what == "clone":
        answer = cu.cuGraphClone(graph)
    elif what == "child":
        answer = cu.cuGraphAddChildGraphNode(parent, [], 0, graph)
    else:
        bench.instantiate(graph)
        answer = cu.cuGraphInstantiate(graph, 0)
    assert code(answer) != Code.SUCCESS


@rule("D49", evidence="H1")
def test_a_child_with_conditionals_is_refused(bench: Bench) -> None:
    child, parent = bench.graph(), bench.graph()
    add_conditional(bench, child, condition(bench, child, 0), IF, 1)
    assert code(cu.cuGraphAddChildGraphNode(parent, [], 0, child)) != Code.SUCCESS
    assert nodes_of(parent) == []


@rule("D51", evidence="unknown")
@pytest.mark.parametrize("case", ["handle unused", "default without assignment"])
def test_observe_handles(bench: Bench, case: str, observe: Any) -> None:
    """An unused handle *may* fail; a default that is not assigned leaves the value open."""
    graph, buffer = bench.graph(), bench.buffer(16)
    if case == "handle unused":
        condition(bench, graph, 0)
        bench.add_memset(graph)
        answer = cu.cuGraphInstantiate(graph, 0)
        observe(code=code(answer))
        if code(answer) == Code.SUCCESS:
            bench.keep_exec(answer[1])
        return
    _, (body,) = add_conditional(bench, graph, condition(bench, graph, 1, assign=0), IF, 1)
    bench.add_memset(body, pointer=buffer, value=1, width=1)
    bench.run(bench.instantiate(graph))
    observe(ran=bench.read(buffer, 1)[0])
