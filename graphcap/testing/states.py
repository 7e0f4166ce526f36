"""Every call in every state of a graph, through the public API, against a table written from the design's rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.interface import CaptureStatus
from graphcap.testing.case import ConformanceCase, N, vector
from graphcap.testing.fixtures import BackendFixtures

__all__ = ["States"]

_CALLS: dict[str, Callable[[graphcap.Graph, Path], Any]] = {
    "capture_begin": lambda graph, path: graph.capture_begin(),
    "capture_end": lambda graph, path: graph.capture_end(),
    "instantiate": lambda graph, path: graph.instantiate(),
    "replay": lambda graph, path: graph.replay(),
    "pool": lambda graph, path: graph.pool(),
    "topology": lambda graph, path: graph.topology(),
    "debug_dump": lambda graph, path: graph.debug_dump(path),
    "reset": lambda graph, path: graph.reset(),
    "enable_debug_mode": lambda graph, path: graph.enable_debug_mode(),
}

_STATE, _GRAPH, _BROKEN = graphcap.CaptureStateError, graphcap.GraphStateError, graphcap.CaptureInvalidatedError
_ALWAYS = {"reset": None, "enable_debug_mode": None}
_LATER = ("instantiate", "replay", "pool", "topology", "debug_dump")
_REFUSED_BEFORE = dict.fromkeys(_LATER, _GRAPH)
_SERVED = dict.fromkeys(_LATER, None)

# state -> call -> the error that the rules give it, or None where it is legal (rules 4, 8, 10 and 11)
_TABLE: dict[str, dict[str, type[graphcap.GraphcapError] | None]] = {
    "new": {"capture_begin": None, "capture_end": _STATE, **_REFUSED_BEFORE, **_ALWAYS},
    "active": {"capture_begin": _STATE, "capture_end": None, **_REFUSED_BEFORE, **_ALWAYS},
    "invalidated": {**dict.fromkeys(("capture_begin", "capture_end", *_LATER), _BROKEN), **_ALWAYS},
    "template": {"capture_begin": _STATE, "capture_end": _STATE, **_SERVED, **_ALWAYS},
    "executable": {
        "capture_begin": _STATE,
        "capture_end": _STATE,
        **_SERVED,
        "topology": _GRAPH,
        "debug_dump": _GRAPH,
        **_ALWAYS,
    },
    "both": {"capture_begin": _STATE, "capture_end": _STATE, **_SERVED, **_ALWAYS},
    "debug": {"capture_begin": _STATE, "capture_end": _STATE, **_SERVED, **_ALWAYS},
    "reset": {"capture_begin": None, "capture_end": _STATE, **_REFUSED_BEFORE, **_ALWAYS},
    "failed": {"capture_begin": None, "capture_end": _STATE, **_REFUSED_BEFORE, **_ALWAYS},
}
_PAIRS = [(state, call) for state, row in _TABLE.items() for call in row]


class States(ConformanceCase):
    """New, active, invalidated, template, executable, both: what each serves, and what each refuses with which error."""

    @staticmethod
    def enter(fx: BackendFixtures, state: str, stream: graphcap.Stream, buffers: tuple[Any, ...]) -> graphcap.Graph:
        """A graph in the state, with `stream` current. Its capture is ``out = 2x + y``."""
        out, x, y = buffers
        graph = graphcap.Graph(fx.device, keep_graph=state in ("template", "both"))
        if state == "new":
            return graph
        if state == "debug":
            graph.enable_debug_mode()
        graph.capture_begin()
        fx.launch_axpy(stream, out, 2, x, y)
        if state == "active":
            return graph
        if state in ("invalidated", "failed"):
            with pytest.raises(graphcap.CaptureForbiddenError):
                stream.synchronize()
            if state == "failed":
                with pytest.raises(graphcap.CaptureInvalidatedError):
                    graph.capture_end()
            return graph
        graph.capture_end()
        if state == "both":
            graph.instantiate()
        if state == "reset":
            graph.reset()
        return graph

    @staticmethod
    def look(graph: graphcap.Graph, stream: graphcap.Stream) -> tuple[Any, ...]:
        """What can be seen of a graph's state without changing it."""
        seen: list[Any] = [stream.capture_status]
        for ask in (graph.pool, graph.topology):
            try:
                ask()
                seen.append(None)
            except graphcap.GraphcapError as error:
                seen.append(type(error))
        return tuple(seen)

    @pytest.mark.parametrize(("state", "call"), _PAIRS, ids=[f"{state}-{call}" for state, call in _PAIRS])
    def test_call(self, fx: BackendFixtures, tmp_path: Path, state: str, call: str) -> None:
        """Rules 4, 8, 10, 11: legal moves are made; illegal ones raise their error and leave the state as it was."""
        expected = _TABLE[state][call]
        buffers = fx.upload(np.zeros(N, np.float32)), fx.upload(vector(1)), fx.upload(vector(2))
        with fx.make_stream() as stream:
            graph = self.enter(fx, state, stream, buffers)
            before = self.look(graph, stream)
            if expected is None:
                _CALLS[call](graph, tmp_path / "graph.dot")
            else:
                with pytest.raises(expected) as caught:
                    _CALLS[call](graph, tmp_path / "graph.dot")
                assert type(caught.value) is expected
                assert caught.value.asked
                assert caught.value.state
                assert caught.value.cure
                assert not (tmp_path / "graph.dot").exists()
                if (state, call) != ("invalidated", "capture_end"):
                    assert self.look(graph, stream) == before
            graph.reset()
        assert stream.capture_status is CaptureStatus.NONE
        if call == "replay" and expected is None:
            np.testing.assert_array_equal(fx.download(buffers[0]), 2 * vector(1) + vector(2))
        else:
            assert not fx.download(buffers[0]).any(), "captured work ran although nothing was replayed"
        self.assert_can_capture(fx, stream, graph)

    @pytest.mark.parametrize("state", ["template", "executable", "both", "debug"])
    def test_graph_serves_after_each_refusal(self, fx: BackendFixtures, tmp_path: Path, state: str) -> None:
        """Rules 8 and 11: after all that it refuses, a graph still replays right."""
        buffers = fx.upload(np.zeros(N, np.float32)), fx.upload(vector(1)), fx.upload(vector(2))
        with fx.make_stream() as stream:
            graph = self.enter(fx, state, stream, buffers)
            pool = graph.pool()
            for call, error in _TABLE[state].items():
                if error is not None:
                    with pytest.raises(error):
                        _CALLS[call](graph, tmp_path / "graph.dot")
            assert graph.pool() == pool
            graph.instantiate()
            graph.replay()
        np.testing.assert_array_equal(fx.download(buffers[0]), 2 * vector(1) + vector(2))

    def test_capture_survives_all_refusals(self, fx: BackendFixtures, tmp_path: Path) -> None:
        """Rule 4: calls that a capturing graph refuses do not break its capture."""
        buffers = fx.upload(np.zeros(N, np.float32)), fx.upload(vector(1)), fx.upload(vector(2))
        with fx.make_stream() as stream:
            graph = self.enter(fx, "active", stream, buffers)
            for call, error in _TABLE["active"].items():
                if error is not None:
                    with pytest.raises(error):
                        _CALLS[call](graph, tmp_path / "graph.dot")
            assert stream.is_capturing
            graph.capture_end()
            graph.replay()
        np.testing.assert_array_equal(fx.download(buffers[0]), 2 * vector(1) + vector(2))

    def test_messages_name_the_way_out(self, fx: BackendFixtures, tmp_path: Path) -> None:
        """Rule 11: the message names the state, and the call or option that is missing."""
        buffers = fx.upload(np.zeros(N, np.float32)), fx.upload(vector(1)), fx.upload(vector(2))
        with fx.make_stream() as stream:
            wanted = [("executable", "topology", "keep_graph"), ("executable", "debug_dump", "keep_graph")]
            wanted += [("new", "replay", "with stream, graph"), ("template", "capture_begin", "reset()")]
            for state, call, word in wanted:
                graph = self.enter(fx, state, stream, buffers)
                with pytest.raises(graphcap.GraphcapError) as caught:
                    _CALLS[call](graph, tmp_path / "graph.dot")
                assert word in str(caught.value)

    @pytest.mark.parametrize("state", list(_TABLE))
    def test_reset_is_idempotent(self, fx: BackendFixtures, state: str) -> None:
        """Design 1 and S-A36: ``reset`` is legal everywhere, any number of times, and makes the graph new."""
        buffers = fx.upload(np.zeros(N, np.float32)), fx.upload(vector(1)), fx.upload(vector(2))
        with fx.make_stream() as stream:
            graph = self.enter(fx, state, stream, buffers)
            for _ in range(3):
                graph.reset()
            with pytest.raises(graphcap.GraphStateError):
                graph.replay()
        self.assert_can_capture(fx, stream, graph)
