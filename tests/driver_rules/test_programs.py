"""Programs over several streams: captured and replayed, or run as they stand, they compute what the model says; and
without any one of the edges they need, some order that the driver is then free to choose computes something else.

Rules: S-D24, S-D25 (edges from forks and joins), E-10 (records and waits make no node).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as cu
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.driver_rules import emulator
from tests.driver_rules.bench import Bench
from tests.driver_rules.driving import code, edges_of, ffi, nodes_of, ok, remove_dependencies
from tests.driver_rules.programs import (
    HALF,
    LENGTH,
    ORIGIN,
    Copy,
    Fill,
    HostCall,
    Order,
    Place,
    Shape,
    State,
    Step,
    Sync,
    Work,
    dependencies,
    initial,
    interpret,
    programs,
    synchronised,
    work_of,
    wrong_orders,
)

rule = pytest.mark.driver_rule
SHAPE = Shape()
SEEDS = range(200)
# An edge counts as needed if at least this share of the orders allowed without it gives something else; at this share
# 200 seeds miss all of them once in ten million times.
NEEDED = 0.08

fast = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Stage:
    """The streams and the memory of a shape, and how a step is given to the driver."""

    def __init__(self, bench: Bench, shape: Shape = SHAPE) -> None:
        self.bench = bench
        self.streams = bench.streams(shape.streams)
        self.events = [bench.event() for _ in range(3)]
        self.start = initial(shape)
        self.address: dict[Place, int] = {}
        self.host: dict[int, Any] = {}
        for kind, number in shape.places():
            if kind == "device":
                self.address[kind, number] = bench.buffer(LENGTH)
            else:
                pointer = int(ok(cu.cuMemAllocHost(LENGTH)))
                bench.later(functools.partial(cu.cuMemFreeHost, pointer))
                self.address[kind, number] = pointer
                self.host[number] = np.frombuffer(
                    ffi.buffer(ffi.cast("void *", pointer), LENGTH), dtype=np.uint8, count=LENGTH
                )
        self.syncs = 0

    def reset(self) -> None:
        """Puts the initial bytes everywhere."""
        for place, array in self.start.items():
            if place[0] == "device":
                ok(cu.cuMemcpyHtoD(self.address[place], array.ctypes.data, LENGTH))
            else:
                self.host[place[1]][:] = array

    def state(self) -> State:
        """What is everywhere, once all work is done."""
        ok(cu.cuCtxSynchronize())
        found: State = {}
        for place in self.start:
            array = np.empty(LENGTH, np.uint8)
            if place[0] == "device":
                ok(cu.cuMemcpyDtoH(array.ctypes.data, self.address[place], LENGTH))
            else:
                array[:] = self.host[place[1]]
            found[place] = array
        return found

    def submit(self, step: Step) -> None:
        """Gives one step to the driver."""
        if isinstance(step, Sync):
            event = self.events[self.syncs % len(self.events)]
            self.syncs += 1
            self.bench.fork(self.streams[step.source], self.streams[step.target], event)
            return
        stream = self.streams[step.stream]
        if isinstance(step, Fill):
            start = self.address["device", step.buffer] + step.start
            ok(cu.cuMemsetD8Async(start, step.value, step.stop - step.start, stream))
        elif isinstance(step, Copy):
            target, source = self.address[step.target] + step.to, self.address[step.source] + step.of
            if step.source[0] == "host":
                ok(cu.cuMemcpyHtoDAsync(target, source, HALF, stream))
            elif step.target[0] == "host":
                ok(cu.cuMemcpyDtoHAsync(target, source, HALF, stream))
            else:
                ok(cu.cuMemcpyDtoDAsync(target, source, HALF, stream))
        else:
            array, others = self.host[step.buffer], [self.host[other] for other in step.others]
            assert self.bench.host.launch(stream, lambda: step.change(array, others)) == 0

    def capture(self, steps: list[Step], mode: str = "global") -> Any:
        """The graph of a program."""
        self.bench.begin(self.streams[ORIGIN], mode)
        for step in steps:
            self.submit(step)
        return self.bench.end(self.streams[ORIGIN])

    def launch(self, executable: Any) -> State:
        """What one launch makes of the initial bytes."""
        self.reset()
        ok(cu.cuGraphLaunch(executable, self.streams[ORIGIN]))
        return self.state()

    def run(self, steps: list[Step]) -> State:
        """What the program makes of the initial bytes, without any capture."""
        self.reset()
        for step in steps:
            self.submit(step)
        return self.state()


def equal(a: State, b: State) -> bool:
    """Whether two states are the same."""
    return all(np.array_equal(a[place], b[place]) for place in a)


@pytest.fixture
def stage(bench: Bench) -> Stage:
    """A stage."""
    return Stage(bench)


@pytest.fixture
def seeds() -> Iterator[Any]:
    """How to set the seed of the order in which the driver runs what is ready; there is none on real hardware."""
    if not emulator.is_emulated():
        pytest.skip("a real device's order of work cannot be seeded")
    from tests.emulated_device import control

    yield control.seed
    control.seed(0)


@rule("D24", evidence="H1")
@rule("D25", evidence="H3")
@rule("E-10", evidence="H3")
@fast
@given(steps=programs(SHAPE), mode=st.sampled_from(["global", "thread_local", "relaxed"]))
def test_a_captured_program_replays_as_the_model_says(stage: Stage, steps: list[Step], mode: str) -> None:
    """One node per piece of work, the edges of the model, and its result at every replay."""
    work = work_of(steps)
    graph = stage.capture(steps, mode)
    order = dependencies(steps)
    assert len(nodes_of(graph)) == len(work)
    assert edges_of(graph) == {(before, after) for after, direct in enumerate(order) for before in direct}
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    try:
        expected = interpret(work, stage.start)
        for _ in range(2):
            assert equal(stage.launch(executable), expected)
    finally:
        ok(cu.cuGraphExecDestroy(executable))
        stage.bench.destroy_graph(graph)


@rule("D24", evidence="H1")
@fast
@given(steps=programs(SHAPE))
def test_a_program_run_as_it_stands_gives_the_same(stage: Stage, steps: list[Step]) -> None:
    assert equal(stage.run(steps), interpret(work_of(steps), stage.start))


# -- one edge less -----------------------------------------------------------------------------------------------------


def device(number: int) -> Place:
    """A device buffer."""
    return "device", number


def host(number: int) -> Place:
    """A host buffer."""
    return "host", number


def pipeline() -> list[Step]:
    """Three forks, joined in two places; copies, sets and host calls; no edge that something does not need."""
    work: list[Work] = [
        Fill(0, 0, 0, LENGTH, 50),
        Copy(1, host(1), device(0)),
        HostCall(1, 1, 7),
        Copy(2, host(2), device(0), to=0),
        HostCall(2, 2, 11),
        Copy(0, host(0), device(0)),
        HostCall(0, 0, 3, others=(1, 2)),  # the first join: of streams 1 and 2
        Copy(0, device(1), host(0)),
        Copy(3, host(3), device(1), to=0, of=HALF),
        HostCall(3, 3, 5),
        Copy(0, device(3), device(1), to=0, of=HALF),
        Copy(0, device(1), host(3)),  # the second join: of stream 3
    ]
    return synchronised(work)


def without(order: Order, before: int, after: int) -> Order:
    """The order with one direct dependency less."""
    return [direct - {before} if number == after else set(direct) for number, direct in enumerate(order)]


def drop_each_edge(stage: Stage, seed: Any, steps: list[Step]) -> int:
    """Takes every needed edge out of the captured graph, one at a time, and insists that some seed then gives a wrong
    result; how many were needed."""
    work, order = work_of(steps), dependencies(steps)
    expected = interpret(work, stage.start)
    graph = stage.capture(steps)
    nodes, needed = nodes_of(graph), 0
    for before, after in sorted(edges_of(graph)):
        if wrong_orders(work, without(order, before, after), stage.start) < NEEDED:
            continue
        needed += 1
        assert code(remove_dependencies(graph, [nodes[before]], [nodes[after]], None, 1)) == 0
        executable = ok(cu.cuGraphInstantiate(graph, 0))
        wrong = any(seed(number) or not equal(stage.launch(executable), expected) for number in SEEDS)
        ok(cu.cuGraphExecDestroy(executable))
        assert stage.bench.add_edge(graph, nodes[before], nodes[after]) == 0
        assert wrong, f"no seed shows that edge {before} -> {after} is missing"
    stage.bench.destroy_graph(graph)
    return needed


def test_every_edge_of_a_graph_is_needed(stage: Stage, seeds: Any) -> None:
    steps = pipeline()
    graph = stage.capture(steps)
    executable = stage.bench.instantiate(graph)
    expected = interpret(work_of(steps), stage.start)
    for number in SEEDS:
        seeds(number)
        assert equal(stage.launch(executable), expected), f"seed {number} gives a wrong result"
    assert drop_each_edge(stage, seeds, steps) == sum(map(len, dependencies(steps)))


def test_every_wait_between_streams_is_needed(stage: Stage, seeds: Any) -> None:
    """The same without a capture: a dropped wait shows up as well."""
    steps = pipeline()
    expected = interpret(work_of(steps), stage.start)
    for number in SEEDS:
        seeds(number)
        assert equal(stage.run(steps), expected), f"seed {number} gives a wrong result"
    needed = 0
    for position, step in enumerate(steps):
        rest = steps[:position] + steps[position + 1 :]
        if not isinstance(step, Sync) or wrong_orders(work_of(rest), dependencies(rest), stage.start) < NEEDED:
            continue
        needed += 1
        assert any(seeds(number) or not equal(stage.run(rest), expected) for number in SEEDS), f"{step} is not missed"
    assert needed >= 4


@settings(fast, max_examples=15)
@given(steps=programs(Shape(streams=3, device=3, host=1)))
def test_edges_of_random_programs_are_needed(stage: Stage, seeds: Any, steps: list[Step]) -> None:
    drop_each_edge(stage, seeds, steps)
