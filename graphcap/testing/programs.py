"""Random programs over several streams, against NumPy: values and order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.testing.case import NBYTES, ConformanceCase, N
from graphcap.testing.fixtures import BackendFixtures, FloatArray

__all__ = ["Programs"]

_STREAMS, _BUFFERS, _LENGTH = 3, 4, 14


class Step:
    """One piece of work: its kind, its stream, its buffers (target first), its number."""

    def __init__(self, kind: str, stream: int, buffers: tuple[int, ...], value: int) -> None:
        self.kind = kind
        self.stream = stream
        self.buffers = buffers
        self.value = value

    def conflicts(self, other: Step) -> bool:
        """Whether one of the two writes what the other touches."""
        return self.buffers[0] in other.buffers or other.buffers[0] in self.buffers

    def on_host(self, data: list[FloatArray]) -> None:
        """The step as NumPy does it."""
        target = data[self.buffers[0]]
        if self.kind == "fill":
            target[...] = np.full(NBYTES, self.value, np.uint8).view(np.float32)
        elif self.kind == "copy":
            target[...] = data[self.buffers[1]]
        else:
            target[...] = np.float32(self.value) * data[self.buffers[1]] + data[self.buffers[2]]

    def submit(self, fx: BackendFixtures, streams: list[graphcap.Stream], data: list[Any]) -> None:
        """The step as the device does it."""
        stream, used = streams[self.stream], [data[index] for index in self.buffers]
        if self.kind == "fill":
            stream.fill(used[0], self.value)
        elif self.kind == "copy":
            stream.copy(used[0], used[1])
        else:
            fx.launch_axpy(stream, used[0], self.value, used[1], used[2])


def random_program(seed: int) -> list[Step]:
    """A program; fills use 0 only, and factors are 0 or 1, so that all values stay exact in float32."""
    random = np.random.default_rng(seed)
    steps = []
    for _ in range(_LENGTH):
        kind = str(random.choice(["axpy", "axpy", "copy", "fill"]))
        stream = int(random.integers(_STREAMS))
        buffers = tuple(int(index) for index in random.permutation(_BUFFERS)[: {"fill": 1, "copy": 2, "axpy": 3}[kind]])
        steps.append(Step(kind, stream, buffers, 0 if kind == "fill" else int(random.integers(2))))
    return steps


def submit_program(fx: BackendFixtures, program: list[Step], streams: list[graphcap.Stream], data: list[Any]) -> None:
    """Submit every step to its stream, with just the waits that its buffers need; the first stream joins all."""
    done: list[graphcap.Event] = []
    for number, step in enumerate(program):
        for earlier in range(number):
            if program[earlier].stream != step.stream and program[earlier].conflicts(step):
                streams[step.stream].wait(done[earlier])
        step.submit(fx, streams, data)
        done.append(streams[step.stream].record())
    for event in done:
        streams[0].wait(event)


class Programs(ConformanceCase):
    """Captured random programs do what the same programs do in NumPy, whatever runs beside what."""

    @staticmethod
    def start_values() -> list[FloatArray]:
        return [np.arange(1 + 20 * index, 1 + 20 * index + N, dtype=np.float32) for index in range(_BUFFERS)]

    @staticmethod
    def assert_equal(fx: BackendFixtures, data: list[Any], expected: list[FloatArray]) -> None:
        for buffer, values in zip(data, expected, strict=True):
            np.testing.assert_array_equal(fx.download(buffer), values)

    @pytest.mark.parametrize("seed", range(12))
    def test_values(self, fx: BackendFixtures, seed: int) -> None:
        """Rule 1, S-D24: eager once, then captured and replayed three times: NumPy's values after each."""
        program = random_program(seed)
        expected = self.start_values()
        data = [fx.upload(values) for values in expected]
        streams = [fx.make_stream() for _ in range(_STREAMS)]
        submit_program(fx, program, streams, data)
        for step in program:
            step.on_host(expected)
        self.assert_equal(fx, data, expected)
        graph = graphcap.Graph(fx.device, keep_graph=True)
        with streams[0], graph:
            for stream in streams[1:]:
                stream.wait(streams[0])
            submit_program(fx, program, streams, data)
        self.assert_equal(fx, data, expected)
        for turn in range(3):
            graph.replay(streams[turn])
            for step in program:
                step.on_host(expected)
            self.assert_equal(fx, data, expected)

    @pytest.mark.parametrize("seed", range(12))
    def test_order(self, fx: BackendFixtures, seed: int) -> None:
        """S-D24: the topology orders every two steps that touch the same memory, unless both only read it."""
        program = random_program(seed)
        data = [fx.upload(values) for values in self.start_values()]
        streams = [fx.make_stream() for _ in range(_STREAMS)]
        graph = graphcap.Graph(fx.device, keep_graph=True)
        with streams[0], graph:
            for stream in streams[1:]:
                stream.wait(streams[0])
            submit_program(fx, program, streams, data)
        topology = graph.topology()
        words = {"axpy": "launch"}
        assert [node.kind for node in topology.nodes] == [fx.kinds[words.get(step.kind, step.kind)] for step in program]
        ids = [node.id for node in topology.nodes]
        for later, step in enumerate(program):
            for earlier in range(later):
                same_stream = program[earlier].stream == step.stream
                if same_stream or program[earlier].conflicts(step):
                    assert topology.precedes(ids[earlier], ids[later]), f"step {later} does not wait for {earlier}"
