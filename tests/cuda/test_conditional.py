"""Conditional nodes: if, if with else, while, switch; nesting; memory in bodies; failing bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.backends.cuda import cuda_backend
from tests.cuda import kit
from tests.cuda.kit import device, host, make_stream


def _decide(stream: Any, condition: Any, value: Any) -> None:
    stream.launch(kit.kernel("condition_from"), 1, 1, condition, value)


@pytest.mark.parametrize(("value", "expected"), [(0, 1), (1, 5), (7, 5)])
def test_if(value: int, expected: int) -> None:
    chosen, memory = device([value], np.int32), device([1], np.uint8)
    stream = make_stream()
    graph = graphcap.Graph("cuda")
    with stream, graph:
        condition = stream.condition(0)
        _decide(stream, condition, chosen)
        with stream.if_(condition) as body:
            body.fill(memory, 5)
    graph.replay()
    assert host(memory, np.uint8).tolist() == [expected]


@pytest.mark.parametrize(("value", "expected"), [(0, 6), (1, 5)])
def test_if_else(value: int, expected: int) -> None:
    chosen, memory = device([value], np.int32), device([1], np.uint8)
    with graphcap.capture("cuda") as graph:
        stream: Any = graphcap.current_stream("cuda")
        condition = stream.condition(0)
        _decide(stream, condition, chosen)
        then, otherwise = stream.if_else(condition)
        with then as body:
            body.fill(memory, 5)
        with otherwise as body:
            body.fill(memory, 6)
    graph.replay()
    assert host(memory, np.uint8).tolist() == [expected]
    (node,) = (node for node in graph.topology().nodes if node.kind == "conditional")
    assert node.params["branches"] == ("true", "false")
    assert [graph.topology().graphs[name].counts()["memset"] for name in node.graphs] == [1, 1]


@pytest.mark.parametrize("rounds", [1, 3, 10])
def test_while_repeats_as_the_device_decides(rounds: int) -> None:
    rest, done = device([rounds], np.int32), device([0], np.int32)
    stream = make_stream()
    graph = graphcap.Graph("cuda")
    with stream, graph:
        condition = stream.condition(1)
        with stream.while_(condition) as body:
            body.launch(kit.kernel("count_down"), 1, 1, condition, rest, done)
    graph.replay()
    assert host(done, np.int32).tolist() == [rounds]
    stream.copy(rest, np.array([2], np.int32))
    with stream:
        graph.replay()
    assert host(done, np.int32).tolist() == [rounds + 2]


@pytest.mark.parametrize(("value", "expected"), [(0, 10), (1, 11), (2, 12), (3, 1)])
def test_switch_runs_one_case_or_none(value: int, expected: int) -> None:
    chosen, memory = device([value], np.int32), device([1], np.uint8)
    stream = make_stream()
    graph = graphcap.Graph("cuda")
    with stream, graph:
        condition = stream.condition(0)
        _decide(stream, condition, chosen)
        cases = stream.switch(condition, 3)
        for number, case in enumerate(cases):
            with case as body:
                body.fill(memory, 10 + number)
    graph.replay()
    assert host(memory, np.uint8).tolist() == [expected]


def test_a_body_allocates_from_the_captures_pool_and_bodies_nest() -> None:
    chosen, out = device([1], np.int32), device([0], np.uint8)
    stream = make_stream()
    graph = graphcap.Graph("cuda")
    with stream, graph:
        outer = stream.condition(0)
        _decide(stream, outer, chosen)
        with stream.if_(outer) as body:
            current: Any = graphcap.current_stream("cuda")
            assert current is body
            memory = body.allocate(1)
            body.fill(memory, 3)
            inner = body.condition(0)  # a condition belongs to the graph that its node is in
            _decide(body, inner, chosen)
            with body.if_(inner) as deeper:
                deeper.copy(out, memory)
    assert memory.pool_id == graph.pool()
    graph.replay()
    assert host(out, np.uint8).tolist() == [3]


def test_an_exception_in_a_body_passes_and_throws_the_capture_away() -> None:
    memory = device([1], np.uint8)
    stream = make_stream()
    graph = graphcap.Graph("cuda")
    with pytest.raises(ValueError, match="own"), stream, graph:
        condition = stream.condition(1)
        with stream.if_(condition) as body:
            body.fill(memory, 2)
            raise ValueError("the user's own")
    with stream, graph:
        stream.fill(memory, 3)
    graph.replay()
    assert host(memory, np.uint8).tolist() == [3]


def test_a_swallowed_exception_in_a_body_makes_the_end_fail() -> None:
    stream = make_stream()
    graph = graphcap.Graph("cuda")
    with pytest.raises(graphcap.CaptureInvalidatedError), stream, graph:
        condition = stream.condition(1)
        try:
            with stream.if_(condition):
                raise ValueError("swallowed")
        except ValueError:
            pass
    assert not stream.is_capturing


def test_conditions_need_a_capture_and_a_driver_that_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = make_stream()
    with pytest.raises(graphcap.CaptureStateError, match="does not take part"):
        stream.condition()
    graph = graphcap.Graph("cuda")
    backend: Any = cuda_backend()
    with stream, graph:
        condition = stream.condition(1)
        monkeypatch.setattr(backend, "driver_version", 12040)
        with pytest.raises(graphcap.UnsupportedError, match=r"CUDA 12\.8"):
            stream.switch(condition, 2)
        monkeypatch.undo()
        with stream.if_(condition) as body:
            body.host_call  # noqa: B018  # host nodes are not allowed in bodies; the body stays empty
    graph.reset()
