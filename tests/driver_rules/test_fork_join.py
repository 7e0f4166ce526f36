"""Forking and joining: S-D24 to S-D26, E-8 to E-11."""

from __future__ import annotations

import pytest
from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench
from tests.driver_rules.driving import (
    EXTERNAL,
    MODES,
    Code,
    Kind,
    Status,
    code,
    edges_of,
    kinds_of,
    nodes_of,
    ok,
    status_of,
)

rule = pytest.mark.driver_rule
modes = pytest.mark.parametrize("mode", list(MODES))
lenient_modes = pytest.mark.parametrize("mode", ["thread_local", "relaxed"])  # where destroying has been seen to work

# -- fork and join -----------------------------------------------------------------------------------------------------


@rule("D24", evidence="H1")
@modes
def test_a_diamond(bench: Bench, mode: str) -> None:
    origin, fork = bench.streams(2)
    out, back = bench.event(), bench.event()
    bench.begin(origin, mode)
    bench.work(origin)  # 0
    bench.fork(origin, fork, out)
    bench.work(fork)  # 1
    bench.work(origin)  # 2
    bench.fork(fork, origin, back)
    bench.work(origin)  # 3
    assert edges_of(bench.end(origin)) == {(0, 1), (0, 2), (1, 3), (2, 3)}
    assert status_of(fork) == Status.NONE


@rule("D24", evidence="H1")
@modes
def test_a_fork_never_joined(bench: Bench, mode: str) -> None:
    origin, fork = bench.streams(2)
    event = bench.event()
    bench.begin(origin, mode)
    bench.fork(origin, fork, event)
    bench.work(fork)
    assert bench.end_code(origin) == Code.CAPTURE_UNJOINED


@rule("D24", evidence="H3")
@rule("E-8", evidence="H3")
@modes
def test_work_on_a_fork_after_its_join(bench: Bench, mode: str) -> None:
    """The last leaf of the fork is again not covered by the origin."""
    origin, fork = bench.streams(2)
    out, back = bench.event(), bench.event()
    bench.begin(origin, mode)
    bench.fork(origin, fork, out)
    bench.work(fork)
    bench.fork(fork, origin, back)
    bench.work(fork)
    assert bench.end_code(origin) == Code.CAPTURE_UNJOINED


@rule("D24", evidence="H3")
@rule("E-8", evidence="H3")
@modes
def test_a_fork_without_a_node_of_its_own_needs_no_join(bench: Bench, mode: str) -> None:
    origin, fork = bench.streams(2)
    event = bench.event()
    bench.begin(origin, mode)
    bench.work(origin)
    bench.fork(origin, fork, event)
    assert len(nodes_of(bench.end(origin))) == 1
    bench.begin(fork, mode)  # the fork is free to begin a capture of its own
    bench.end(fork)


@rule("E-8", evidence="H3")
def test_a_joined_leaf_counts_even_if_the_origin_adds_nothing(bench: Bench) -> None:
    origin, fork = bench.streams(2)
    out, back = bench.event(), bench.event()
    bench.begin(origin)
    bench.fork(origin, fork, out)
    bench.work(fork)
    bench.fork(fork, origin, back)
    graph = bench.end(origin)
    assert (len(nodes_of(graph)), edges_of(graph)) == (1, set())


@rule("E-9", evidence="H3")
@modes
def test_work_issued_before_the_join_runs_normally(bench: Bench, mode: str) -> None:
    """Only what a stream is given after it joined is captured."""
    origin, fork = bench.streams(2)
    out, back = bench.event(), bench.event()
    early, late = bench.buffer(16), bench.buffer(16)
    bench.begin(origin, mode)
    bench.work(origin)
    ok(cu.cuMemsetD8Async(early, 1, 16, fork))
    bench.fork(origin, fork, out)
    ok(cu.cuMemsetD8Async(late, 2, 16, fork))
    bench.fork(fork, origin, back)
    graph = bench.end(origin)
    assert len(nodes_of(graph)) == 2
    assert bench.read(early, 16) == b"\x01" * 16
    assert bench.read(late, 16) == bytes(16)
    bench.run(bench.instantiate(graph))
    assert bench.read(late, 16) == b"\x02" * 16


@rule("E-10", evidence="H3")
@modes
def test_records_and_waits_make_no_nodes(bench: Bench, mode: str) -> None:
    """An all-empty fork and join gives a valid graph of nothing."""
    origin, *forks = bench.streams(4)
    events = [bench.event() for _ in range(6)]
    bench.begin(origin, mode)
    for fork, out, back in zip(forks, events[:3], events[3:], strict=True):
        bench.fork(origin, fork, out)
        bench.fork(fork, origin, back)
    graph = bench.end(origin)
    assert nodes_of(graph) == []
    bench.run(bench.instantiate(graph))


# -- events ------------------------------------------------------------------------------------------------------------


@rule("D25", evidence="H3")
def test_several_waits_on_one_event(bench: Bench) -> None:
    origin, *forks = bench.streams(4)
    event, back = bench.event(), [bench.event() for _ in range(3)]
    bench.begin(origin)
    bench.work(origin)
    ok(cu.cuEventRecord(event, origin))
    for fork in [*forks, *forks]:
        ok(cu.cuStreamWaitEvent(fork, event, 0))
    for fork, each in zip(forks, back, strict=True):
        bench.work(fork)
        bench.fork(fork, origin, each)
    assert edges_of(bench.end(origin)) == {(0, 1), (0, 2), (0, 3)}


@rule("D25", evidence="H4")
def test_a_later_record_overwrites(bench: Bench) -> None:
    origin, fork = bench.streams(2)
    event, back = bench.event(), bench.event()
    bench.begin(origin)
    bench.work(origin)
    ok(cu.cuEventRecord(event, origin))
    bench.work(origin)
    ok(cu.cuEventRecord(event, origin))
    ok(cu.cuStreamWaitEvent(fork, event, 0))
    bench.work(fork)
    bench.fork(fork, origin, back)
    assert edges_of(bench.end(origin)) == {(0, 1), (1, 2)}


@rule("D25", evidence="H4")
def test_a_stream_that_waits_for_itself_back_to_back(bench: Bench) -> None:
    """Adds no edge beyond the stream's own."""
    stream, event = bench.stream(), bench.event()
    bench.begin(stream)
    bench.work(stream)
    bench.fork(stream, stream, event)
    bench.work(stream)
    assert edges_of(bench.end(stream)) == {(0, 1)}


@rule("D25", evidence="H4")
def test_a_stream_that_waits_for_its_own_past(bench: Bench) -> None:
    """With work in between, the old frontier becomes one more, redundant edge: nothing is reduced."""
    stream, event = bench.stream(), bench.event()
    bench.begin(stream)
    bench.work(stream)
    ok(cu.cuEventRecord(event, stream))
    bench.work(stream)
    ok(cu.cuStreamWaitEvent(stream, event, 0))
    bench.work(stream)
    assert edges_of(bench.end(stream)) == {(0, 1), (1, 2), (0, 2)}


@rule("D25", evidence="H3")
def test_joining_twice_does_not_double_an_edge(bench: Bench) -> None:
    origin, fork = bench.streams(2)
    out, back = bench.event(), bench.event()
    bench.begin(origin)
    bench.fork(origin, fork, out)
    bench.work(fork)
    bench.fork(fork, origin, back)
    bench.fork(fork, origin, back)
    bench.work(origin)
    assert edges_of(bench.end(origin)) == {(0, 1)}


@rule("D26", evidence="H1")
@modes
def test_an_external_record_and_wait_become_nodes(bench: Bench, mode: str) -> None:
    """They signal at replay, and may cross the boundary where a plain event may not."""
    stream = bench.stream()
    recorded, waited = bench.event(timing=True), bench.recorded_event()
    bench.begin(stream, mode)
    bench.work(stream)
    ok(cu.cuEventRecordWithFlags(recorded, stream, EXTERNAL))
    ok(cu.cuStreamWaitEvent(stream, waited, EXTERNAL))
    bench.work(stream)
    graph = bench.end(stream)
    assert kinds_of(graph) == [Kind.MEMSET, Kind.MEMSET, Kind.EVENT_WAIT, Kind.EVENT_RECORD]
    assert edges_of(graph) == {(0, 1), (1, 2), (2, 3)}
    bench.run(bench.instantiate(graph))
    assert code(cu.cuEventQuery(recorded)) == Code.SUCCESS


@rule("D26", evidence="DOC")
@pytest.mark.parametrize("call", ["record", "wait"])
def test_the_external_flag_is_invalid_outside_a_capture(bench: Bench, call: str) -> None:
    """Which number it gives is not known."""
    stream, event = bench.stream(), bench.recorded_event()
    answer = (
        cu.cuEventRecordWithFlags(event, stream, EXTERNAL)
        if call == "record"
        else cu.cuStreamWaitEvent(stream, event, EXTERNAL)
    )
    assert code(answer) != Code.SUCCESS


@rule("E-11", evidence="H1")
@lenient_modes
def test_captured_events_may_be_destroyed_before_the_end(bench: Bench, mode: str) -> None:
    origin, fork = bench.streams(2)
    out, back = bench.event(), bench.event()
    bench.begin(origin, mode)
    bench.fork(origin, fork, out)
    bench.work(fork)
    bench.fork(fork, origin, back)
    assert bench.destroy_event(out) == bench.destroy_event(back) == Code.SUCCESS
    bench.work(origin)
    assert edges_of(bench.end(origin)) == {(0, 1)}


@rule("E-11", evidence="H1")
@lenient_modes
def test_a_joined_fork_may_be_destroyed_before_the_end(bench: Bench, mode: str) -> None:
    origin, fork = bench.streams(2)
    out, back = bench.event(), bench.event()
    bench.begin(origin, mode)
    bench.fork(origin, fork, out)
    bench.work(fork)
    bench.fork(fork, origin, back)
    assert bench.destroy_stream(fork) == Code.SUCCESS
    assert len(nodes_of(bench.end(origin))) == 1


@rule("E-11", evidence="H4")
def test_an_unjoined_fork_that_is_destroyed_stays_unjoined(bench: Bench) -> None:
    origin, fork = bench.streams(2)
    event = bench.event()
    bench.begin(origin, "thread_local")
    bench.fork(origin, fork, event)
    bench.work(fork)
    assert bench.destroy_stream(fork) == Code.SUCCESS
    assert bench.end_code(origin) == Code.CAPTURE_UNJOINED


@rule("E-11", evidence="H4")
def test_grandchildren_stay_enrolled_when_their_parent_is_destroyed(bench: Bench) -> None:
    origin, fork, grandchild = bench.streams(3)
    events = [bench.event() for _ in range(4)]
    bench.begin(origin, "thread_local")
    bench.fork(origin, fork, events[0])
    bench.work(fork)
    bench.fork(fork, grandchild, events[1])
    bench.work(grandchild)
    bench.fork(fork, origin, events[2])
    assert bench.destroy_stream(fork) == Code.SUCCESS
    assert status_of(grandchild) == Status.ACTIVE
    bench.fork(grandchild, origin, events[3])
    assert len(nodes_of(bench.end(origin))) == 2
    assert status_of(grandchild) == Status.NONE
