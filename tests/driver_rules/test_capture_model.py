"""Random sequences of calls by two threads over several streams, against a model of what is known of capture.

The model is the evidence, restated: S-D1 to S-D15, S-D19 to S-D25, E-1 to E-8, E-13, E-14, E-21, E-23. Where the evidence is
silent (what 905 and 908 leave behind, most calls on an invalidated capture, events of captures that have ended) the step is
left out, so that everything that is asserted here may also be asserted of a real device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from cuda.bindings import driver as cu
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.driver_rules.bench import Bench
from tests.driver_rules.driving import (
    MODES,
    NULL_STREAM,
    Code,
    Status,
    code,
    edges_of,
    nodes_of,
    ok,
    status_of,
    thread_mode,
)

rule = pytest.mark.driver_rule
STREAMS, EVENTS = 4, 3
Expected = Code | None  # None: nothing is known, so nothing is done


@dataclass(eq=False)
class Capture:
    """What is known of one open capture."""

    origin: int
    mode: str
    thread: int
    frontier: dict[int, set[int]]  # of each of its streams
    edges: list[set[int]] = field(default_factory=list)  # for each node, what it depends on
    broken: bool = False

    def unjoined(self) -> bool:
        """Whether some leaf is not reached from the origin's frontier."""
        reached, pending = set[int](), set(self.frontier[self.origin])
        while pending:
            node = pending.pop()
            reached.add(node)
            pending |= self.edges[node] - reached
        return any(not frontier <= reached for frontier in self.frontier.values())


@dataclass
class Recorded:
    """What an event stands for."""

    capture: Capture | None = None  # None: work outside any capture
    frontier: set[int] = field(default_factory=set)


class Model:
    """What is known of all captures."""

    def __init__(self, blocking: bool) -> None:
        self.blocking = blocking
        self.captures: list[Capture] = []
        self.events: dict[int, Recorded] = {}

    def of(self, stream: int) -> Capture | None:
        """The open capture that a stream takes part in."""
        return next((capture for capture in self.captures if stream in capture.frontier), None)

    def status(self, stream: int) -> Status:
        """What a stream says of itself."""
        capture = self.of(stream)
        return Status.NONE if capture is None else Status.INVALIDATED if capture.broken else Status.ACTIVE

    def close(self, capture: Capture) -> None:
        """Ends a capture: all its streams are free."""
        self.captures.remove(capture)

    def break_all(self, concerned: list[Capture], number: Code) -> Expected:
        """A call that ``concerned`` captures forbid."""
        if any(capture.broken for capture in concerned):
            return None
        for capture in concerned:
            capture.broken = True
        return number if concerned else Code.SUCCESS

    def unsafe(self, thread: int, mode: str) -> Expected:
        """S-D8 to S-D13: a call that is not ordered by any stream."""
        own_or_global = [
            c
            for c in self.captures
            if c.mode != "relaxed"
            and mode != "relaxed"
            and (c.thread == thread or (c.mode == "global" and mode == "global"))
        ]
        return self.break_all(own_or_global, Code.CAPTURE_UNSUPPORTED)


class Play:
    """One sequence: each step asks the model what has to come, and the driver what comes."""

    def __init__(self, bench: Bench, blocking: bool, threads: list[Callable[..., Any]], streams: list[Any]) -> None:
        self.bench, self.threads, self.streams = bench, threads, streams
        self.model = Model(blocking)
        self.events = [bench.event() for _ in range(EVENTS)]

    def check(self, thread: int, call: Callable[[], Any], expected: Expected) -> None:
        """Makes a call in a thread and compares; then all streams are as the model has them."""
        if expected is None:
            return
        assert self.threads[thread](lambda: code(call())) == expected
        for number, stream in enumerate(self.streams):
            assert status_of(stream) == self.model.status(number), f"stream {number}"

    # -- the steps; each returns without doing anything where nothing is known -----------------------------------------

    def begin(self, thread: int, stream: int, mode: str, _: int) -> None:
        model, expected = self.model, Code.ILLEGAL_STATE
        if model.of(stream) is None:
            model.captures.append(Capture(stream, mode, thread, {stream: set()}))
            expected = Code.SUCCESS
        self.check(thread, lambda: cu.cuStreamBeginCapture(self.streams[stream], MODES[mode]), expected)

    def end(self, thread: int, stream: int, _mode: str, _: int) -> None:
        capture = self.model.of(stream)
        call = functools.partial(cu.cuStreamEndCapture, self.streams[stream])
        if capture is None:
            return self.check(thread, call, Code.ILLEGAL_STATE)
        if stream != capture.origin:
            if capture.broken or capture.thread != thread:
                return None
            capture.broken = True
            return self.check(thread, call, Code.CAPTURE_UNMATCHED)
        if capture.mode != "relaxed":
            thread = capture.thread
        self.model.close(capture)
        if capture.broken:
            return self.check(thread, call, Code.CAPTURE_INVALIDATED)
        if capture.unjoined():
            return self.check(thread, call, Code.CAPTURE_UNJOINED)
        graph = self.threads[thread](lambda: ok(call()))
        assert len(nodes_of(graph)) == len(capture.edges)
        assert edges_of(graph) == {(a, b) for b, direct in enumerate(capture.edges) for a in direct}
        return self.check(thread, lambda: cu.cuGraphDestroy(graph), Code.SUCCESS)

    def work(self, thread: int, stream: int, _mode: str, _: int) -> None:
        capture = self.model.of(stream)
        if capture is not None:
            if capture.broken:
                return
            capture.edges.append(set(capture.frontier[stream]))
            capture.frontier[stream] = {len(capture.edges) - 1}
        self.check(thread, functools.partial(self.bench.work_code, self.streams[stream]), Code.SUCCESS)

    def wrong_argument(self, thread: int, stream: int, _mode: str, _: int) -> None:
        if self.model.status(stream) == Status.ACTIVE:
            self.check(thread, lambda: cu.cuMemcpyDtoDAsync(0, 0, 16, self.streams[stream]), Code.INVALID_VALUE)

    def record(self, thread: int, stream: int, _mode: str, event: int) -> None:
        capture = self.model.of(stream)
        if capture is not None and capture.broken:
            return
        frontier = set(capture.frontier[stream]) if capture else set[int]()
        self.model.events[event] = Recorded(capture, frontier)
        self.check(thread, lambda: cu.cuEventRecord(self.events[event], self.streams[stream]), Code.SUCCESS)

    def wait(self, thread: int, stream: int, _mode: str, event: int) -> None:
        self.check(
            thread,
            lambda: cu.cuStreamWaitEvent(self.streams[stream], self.events[event], 0),
            self.waited(self.model.of(stream), stream, self.model.events.get(event)),
        )

    def fork(self, thread: int, stream: int, mode: str, event: int) -> None:
        """A record and a wait on another stream: what most sequences are made of."""
        self.record(thread, stream, mode, event)
        self.wait(thread, (stream + 1 + event) % STREAMS, mode, event)

    def fork_and_work(self, thread: int, stream: int, mode: str, event: int) -> None:
        """The same, with work on the other stream."""
        self.fork(thread, stream, mode, event)
        self.work(thread, (stream + 1 + event) % STREAMS, mode, event)

    def waited(self, capture: Capture | None, stream: int, recorded: Recorded | None) -> Expected:
        """What a wait has to give."""
        source = recorded.capture if recorded else None
        if capture is not None and capture.broken:
            return Code.CAPTURE_INVALIDATED
        if recorded is None or source is None:  # never recorded, or outside any capture
            return Code.SUCCESS if capture is None else None
        if source not in self.model.captures:
            return None
        if capture is None:
            if source.broken:
                return Code.INVALID_VALUE
            source.frontier[stream] = set(recorded.frontier)
            return Code.SUCCESS
        if capture is source:
            capture.frontier[stream] |= recorded.frontier
            return Code.SUCCESS
        return self.model.break_all([capture, source], Code.CAPTURE_MERGE)

    def query(self, thread: int, stream: int, mode: str, _: int) -> None:
        capture = self.model.of(stream)
        expected = self.model.break_all([capture], Code.CAPTURE_UNSUPPORTED) if capture else None
        if capture is None:
            ok(cu.cuThreadExchangeStreamCaptureMode(MODES["relaxed"]))  # idle for certain: no "not ready"
            try:
                ok(cu.cuStreamSynchronize(self.streams[stream]))
            finally:
                ok(cu.cuThreadExchangeStreamCaptureMode(MODES["global"]))
            expected = self.model.unsafe(thread, mode)
        self.check(thread, functools.partial(self.under, mode, cu.cuStreamQuery, self.streams[stream]), expected)

    def event_query(self, thread: int, _stream: int, mode: str, event: int) -> None:
        recorded = self.model.events.get(event)
        if recorded is None or recorded.capture not in self.model.captures:
            return  # of uncaptured events: the tests of the modes
        expected = self.model.break_all([recorded.capture], Code.CAPTURED_EVENT)
        self.check(thread, functools.partial(self.under, mode, cu.cuEventQuery, self.events[event]), expected)

    def allocate(self, thread: int, _stream: int, mode: str, _: int) -> None:
        def call() -> Any:
            answer = cu.cuMemAlloc(64)
            if code(answer) == Code.SUCCESS:
                self.bench.later(lambda: cu.cuMemFree(answer[1]))
            return answer

        self.check(thread, functools.partial(self.under, mode, call), self.model.unsafe(thread, mode))

    def synchronize_device(self, thread: int, _stream: int, mode: str, _: int) -> None:
        expected = self.model.break_all(list(self.model.captures), Code.CAPTURE_UNSUPPORTED)
        self.check(thread, functools.partial(self.under, mode, cu.cuCtxSynchronize), expected)

    def ask_legacy(self, thread: int, _stream: int, _mode: str, _: int) -> None:
        open_ = self.model.captures if self.model.blocking else []
        if not any(capture.broken for capture in open_):
            expected = Code.CAPTURE_IMPLICIT if open_ else Code.SUCCESS
            self.check(thread, lambda: cu.cuStreamIsCapturing(NULL_STREAM), expected)

    def sync_memset(self, thread: int, _stream: int, _mode: str, _: int) -> None:
        open_ = list(self.model.captures) if self.model.blocking else []
        if any(capture.mode == "relaxed" for capture in open_):
            return  # seen with the other two modes alone
        expected = self.model.break_all(open_, Code.CAPTURE_IMPLICIT)
        self.check(thread, lambda: cu.cuMemsetD8(self.bench.scratch, 1, 16), expected)

    @staticmethod
    def under(mode: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """A call with the thread's mode set for it."""
        with thread_mode(mode):
            return call(*arguments)

    def finish(self) -> None:
        """Ends what is open, each capture where it began."""
        while self.model.captures:
            capture = self.model.captures[0]
            self.end(capture.thread, capture.origin, capture.mode, 0)


STEPS = (
    Play.begin,
    Play.end,
    Play.work,
    Play.wrong_argument,
    Play.record,
    Play.wait,
    Play.query,
    Play.event_query,
    Play.allocate,
    Play.synchronize_device,
    Play.ask_legacy,
    Play.sync_memset,
)
# Capturing, forking and joining most of the time, so that what breaks captures has something to break.
CHOSEN = (*STEPS, *[Play.begin, Play.work, Play.fork, Play.fork_and_work] * 3, Play.event_query)
calls = st.tuples(
    st.sampled_from(CHOSEN),
    st.integers(0, 1),
    st.integers(0, STREAMS - 1),
    st.sampled_from(list(MODES)),
    st.integers(0, EVENTS - 1),
)


@pytest.fixture(params=[False, True], ids=["non-blocking", "blocking"])
def play(bench: Bench, request: pytest.FixtureRequest) -> Callable[[], Play]:
    """Makes one sequence after another over the same streams, which all block or all do not."""
    other = bench.other_thread()
    streams = bench.streams(STREAMS, blocking=request.param)
    here: Callable[..., Any] = lambda fn: fn()  # noqa: E731  # the first of the two threads
    return lambda: Play(bench, request.param, [here, other], streams)


@rule("D8", evidence="H1")
@rule("D13", evidence="H1")
@rule("D24", evidence="H1")
@rule("E-5", evidence="H4")
@rule("E-14", evidence="H3")
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sequence=st.lists(calls, min_size=8, max_size=40))
def test_random_sequences(play: Callable[[], Play], sequence: list[tuple[Any, int, int, str, int]]) -> None:
    playing = play()
    try:
        for step, thread, stream, mode, event in sequence:
            step(playing, thread, stream, mode, event)
        playing.finish()
    finally:
        for stream in playing.streams:  # also where the driver differs from the model
            for run in playing.threads:
                if status_of(stream):
                    run(functools.partial(playing.bench.end_code, stream))
