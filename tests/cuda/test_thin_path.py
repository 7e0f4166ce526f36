"""The thin path: capture a fill, replay it."""

from __future__ import annotations

import numpy as np
import pytest

import graphcap
from tests.cuda.kit import host, make_stream


def test_a_captured_fill_runs_on_replay_only() -> None:
    stream = make_stream()
    memory = stream.allocate(64)
    stream.fill(memory, 1)
    graph = graphcap.Graph("cuda")
    with stream, graph:
        stream.fill(memory, 7)
    assert host(memory, np.uint8).tolist() == [1] * 64
    graph.replay()
    assert host(memory, np.uint8).tolist() == [7] * 64


def test_replays_follow_the_current_stream() -> None:
    stream, other = make_stream(), make_stream()
    memory = stream.allocate(64)
    graph = graphcap.Graph("cuda")
    with stream, graph:
        stream.fill(memory, 7)
    with other:
        other.fill(memory, 1)
        graph.replay()
    other.synchronize()
    assert host(memory, np.uint8).tolist() == [7] * 64


def test_the_default_stream_cannot_be_captured() -> None:
    graph = graphcap.Graph("cuda")
    with pytest.raises(graphcap.CaptureStateError, match="default stream"):
        graph.capture_begin()
