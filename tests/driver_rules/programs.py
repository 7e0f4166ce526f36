"""Small programs over several streams, and what they must compute: a model that knows nothing of any driver.

A program is a list of steps: pieces of work, each in one stream, and `Sync` steps by which one stream waits for what
another has so far. `interpret` runs the work one after the other over NumPy arrays: the result that every order allowed by
the dependencies has to give. `dependencies` says which piece depends on which, as the rules of fork and join have it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
LENGTH = 8  # bytes in a place
HALF = LENGTH // 2
ORIGIN = 0

Place = tuple[str, int]  # ("device", 2): the third device buffer; ("host", 0): the first host buffer
Cell = tuple[str, int, int]  # one byte of a place
State = dict[Place, Bytes]


@dataclass(frozen=True)
class Fill:
    """Sets part of a device buffer to a value."""

    stream: int
    buffer: int
    start: int
    stop: int
    value: int

    def reads(self) -> set[Cell]:
        return set()

    def writes(self) -> set[Cell]:
        return {("device", self.buffer, i) for i in range(self.start, self.stop)}

    def apply(self, state: State) -> None:
        state["device", self.buffer][self.start : self.stop] = self.value


@dataclass(frozen=True)
class Copy:
    """Copies half of one place over half of another, at least one of the two a device buffer."""

    stream: int
    target: Place
    source: Place
    to: int = HALF  # first byte of the half that is written
    of: int = 0  # first byte of the half that is read

    def reads(self) -> set[Cell]:
        return {(*self.source, i) for i in range(self.of, self.of + HALF)}

    def writes(self) -> set[Cell]:
        return {(*self.target, i) for i in range(self.to, self.to + HALF)}

    def apply(self, state: State) -> None:
        state[self.target][self.to : self.to + HALF] = state[self.source][self.of : self.of + HALF]


@dataclass(frozen=True)
class HostCall:
    """A host function: a host buffer becomes three times itself, plus others, plus a number; its halves change places."""

    stream: int
    buffer: int
    add: int
    others: tuple[int, ...] = ()

    def reads(self) -> set[Cell]:
        return {("host", buffer, i) for buffer in (self.buffer, *self.others) for i in range(LENGTH)}

    def writes(self) -> set[Cell]:
        return {("host", self.buffer, i) for i in range(LENGTH)}

    def apply(self, state: State) -> None:
        self.change(state["host", self.buffer], [state["host", other] for other in self.others])

    def change(self, array: Bytes, others: Sequence[Bytes]) -> None:
        """What the host function does to its buffer."""
        total = array.astype(np.int64) * 3 + self.add + sum(other.astype(np.int64) for other in others)
        array[:] = np.roll(total, HALF) % 256


Work = Fill | Copy | HostCall


@dataclass(frozen=True)
class Sync:
    """``target`` waits for what ``source`` has so far."""

    source: int
    target: int


Step = Work | Sync
Order = list[set[int]]  # for each piece of work, the pieces it depends on directly


@dataclass(frozen=True)
class Shape:
    """How many streams, device buffers and host buffers there are."""

    streams: int = 4
    device: int = 4
    host: int = 4

    def places(self) -> list[Place]:
        return [("device", i) for i in range(self.device)] + [("host", i) for i in range(self.host)]


def initial(shape: Shape) -> State:
    """The bytes that every run starts from, all different."""
    return {
        place: np.arange(LENGTH, dtype=np.uint8) + np.uint8(10 * number + 1)
        for number, place in enumerate(shape.places())
    }


def work_of(steps: Iterable[Step]) -> list[Work]:
    """The pieces of work of a program, in order."""
    return [step for step in steps if not isinstance(step, Sync)]


def interpret(work: Iterable[Work], state: State) -> State:
    """What the pieces of work make of a state, one after the other."""
    made = {place: array.copy() for place, array in state.items()}
    for piece in work:
        piece.apply(made)
    return made


def conflict(a: Work, b: Work) -> bool:
    """Whether the order of two pieces of work can matter."""
    return bool(a.writes() & (b.reads() | b.writes()) or a.reads() & b.writes())


def dependencies(steps: Sequence[Step]) -> Order:
    """The direct dependencies of each piece of work: the frontier of its stream (S-D24, S-D25; nothing is reduced)."""
    frontier: dict[int, set[int]] = {}
    order: Order = []
    for step in steps:
        if isinstance(step, Sync):
            frontier[step.target] = frontier.get(step.target, set()) | frontier.get(step.source, set())
        else:
            order.append(set(frontier.get(step.stream, set())))
            frontier[step.stream] = {len(order) - 1}
    return order


def reachable(order: Order) -> list[set[int]]:
    """All that each piece depends on, directly or not."""
    closed: list[set[int]] = []
    for direct in order:
        closed.append(direct.union(*(closed[i] for i in direct)))
    return closed


def synchronised(work: Sequence[Work]) -> list[Step]:
    """A program of this work with the waits that keep it free of races: every stream forked from the origin before its
    first work, a wait wherever an earlier conflicting piece is not ordered yet, every stream joined at the end."""
    steps: list[Step] = []
    done: list[Work] = []
    used = {ORIGIN}
    for piece in work:
        if piece.stream not in used:
            used.add(piece.stream)
            steps.append(Sync(ORIGIN, piece.stream))
        for number, earlier in enumerate(done):
            if conflict(earlier, piece) and number not in reachable(dependencies([*steps, piece]))[-1]:
                steps.append(Sync(earlier.stream, piece.stream))
        steps.append(piece)
        done.append(piece)
    return steps + [Sync(stream, ORIGIN) for stream in sorted(used - {ORIGIN})]


def wrong_orders(work: Sequence[Work], order: Order, state: State, samples: int = 150) -> float:
    """The share of random orders allowed by ``order`` whose result differs from that of the order as written."""
    right = interpret(work, state)
    chance = random.Random(20_24)
    wrong = 0
    for _ in range(samples):
        waiting, done = set(range(len(work))), set[int]()
        chosen: list[int] = []
        while waiting:
            chosen.append(chance.choice(sorted(i for i in waiting if order[i] <= done)))
            waiting.discard(chosen[-1])
            done.add(chosen[-1])
        got = interpret([work[i] for i in chosen], state)
        wrong += any(not np.array_equal(got[place], right[place]) for place in right)
    return wrong / samples


def works(shape: Shape) -> st.SearchStrategy[list[Work]]:
    """Random work over a shape."""
    streams = st.integers(0, shape.streams - 1)
    device, host = st.integers(0, shape.device - 1), st.integers(0, shape.host - 1)
    spans = st.tuples(st.integers(0, LENGTH - 1), st.integers(1, LENGTH)).filter(lambda span: span[0] < span[1])
    values = st.integers(0, 255)
    fills = st.builds(lambda s, b, span, v: Fill(s, b, span[0], span[1], v), streams, device, spans, values)
    on_device, on_host = st.tuples(st.just("device"), device), st.tuples(st.just("host"), host)
    half = st.sampled_from([0, HALF])
    copies = st.one_of(
        st.builds(Copy, streams, on_device, on_device, half, half),
        st.builds(Copy, streams, on_device, on_host, half, half),
        st.builds(Copy, streams, on_host, on_device, half, half),
    )
    calls = st.builds(HostCall, streams, host, values, st.lists(host, max_size=2).map(tuple))
    return st.lists(st.one_of(fills, copies, copies, calls), min_size=1, max_size=14)


def programs(shape: Shape) -> st.SearchStrategy[list[Step]]:
    """Random programs without races, with more waits here and there than they need."""

    def with_extras(work: list[Work], extras: list[tuple[int, int, int]]) -> list[Step]:
        steps = synchronised(work)
        for where, source, target in extras:
            used = {ORIGIN} | {step.stream for step in steps[: where % len(steps)] if not isinstance(step, Sync)}
            if source in used and target in used and source != target:
                steps.insert(where % len(steps), Sync(source, target))
        return steps

    stream = st.integers(0, shape.streams - 1)
    extras = st.lists(st.tuples(st.integers(0, 60), stream, stream), max_size=4)
    return st.builds(with_extras, works(shape), extras)
