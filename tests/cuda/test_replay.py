"""The replay of little cost does what the long way does: the right stream, kept exceptions, states, lifetimes."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphcap
from tests.cuda import kit
from tests.cuda.kit import device, host, make_stream
from tests.emulated_device import control


def _counting(stream: Any) -> tuple[graphcap.Graph, list[int]]:
    hits: list[int] = []
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        stream.host_call(hits.append, 1)
    return graph, hits


def _launches(graph: graphcap.Graph, *streams: Any) -> list[int]:
    """The stream of each launch that the driver saw: twice below each stream, then once more below the first."""
    control.clear_calls()
    for stream in (*streams, streams[0]):
        with stream:
            graph.replay()
            graph.replay()
    return [call.stream for call in control.calls() if call.name == "cuGraphLaunch"]


@pytest.mark.skipif(not kit.is_emulated(), reason="reads the emulated driver's log of calls")
def test_every_replay_goes_to_the_stream_that_is_current_then() -> None:
    a, b = make_stream(), make_stream()
    graph, _ = _counting(a)
    assert _launches(graph, a, b) == [s.handle for s in (a, a, b, b, a, a)]
    control.clear_calls()
    with a:
        graph.replay()
        with b:
            graph.replay()
            graph.replay(stream=a)
        graph.replay()
        graph.replay(stream=b)
        other = threading.Thread(target=graph.replay)  # has a current stream of its own: the default one
        other.start()
        other.join()
    for stream in (a, b, a):  # given, not current: also the one that the function is armed for
        graph.replay(stream)
    graph.replay(None)
    graph.replay()
    assert [c.stream for c in control.calls() if c.name == "cuGraphLaunch" and not c.result] == [
        a.handle, b.handle, a.handle, a.handle, b.handle, 0, a.handle, b.handle, a.handle, 0, 0
    ]  # fmt: skip
    graphcap.synchronize("cuda")


def _arm(graph: graphcap.Graph, stream: Any) -> None:
    """Replay until the short way is taken: a question about an installed framework makes it wait for a while."""
    from graphcap.backends.cuda.replaying import _armed

    for _ in range(200):
        stream.backend.host_errors.kept.clear()
        graph.replay()
        if graph.__dict__["replay"] in _armed:
            stream.backend.host_errors.kept.clear()
            graph.replay()
            return
    pytest.fail("the short way is never taken")


def test_kept_exceptions_are_raised_by_the_next_replay() -> None:
    stream = make_stream()
    graph = graphcap.Graph("cuda")
    with stream, graph:
        stream.host_call(int, "no number")
    with stream:
        graph.replay()
        with pytest.raises(ValueError, match="no number"):
            stream.synchronize()
        _arm(graph, stream)
        while not stream.query():
            pass
        with pytest.raises(ValueError, match="no number"):
            graph.replay()


def test_reset_and_instantiate_take_effect_at_once() -> None:
    stream = make_stream()
    graph, hits = _counting(stream)
    with stream:
        graph.replay()
        graph.replay()
        graph.instantiate()
        graph.replay()
        graph.reset()
        with pytest.raises(graphcap.GraphStateError):
            graph.replay()
        memory = stream.allocate(4)
        with graph:
            stream.fill(memory, 2)
        graph.replay()
        graph.replay()
    assert host(memory, np.uint8).tolist() == [2] * 4
    assert hits == [1] * 3


def test_a_replay_taken_from_its_graph_keeps_what_it_needs() -> None:
    stream = make_stream()
    graph, hits = _counting(stream)
    with stream:
        graph.replay()
    replay = graph.replay
    del graph
    gc.collect()
    with stream:
        replay()
        replay()
        stream.synchronize()
    assert hits == [1] * 3


def test_dropping_the_last_reference_destroys_the_graph_without_the_collector() -> None:
    stream = make_stream()
    graph, _ = _counting(stream)
    with stream:
        graph.replay()
        graph.replay()
    stream.synchronize()
    gc.disable()
    try:
        before = control.counts()["graph_exec"] if kit.is_emulated() else 1
        del graph
        after = control.counts()["graph_exec"] if kit.is_emulated() else 0
    finally:
        gc.enable()
    assert after == before - 1


def test_a_replay_on_a_capturing_stream_is_refused_and_named_as_the_cause() -> None:
    stream = make_stream()
    graph, _ = _counting(stream)
    other = graphcap.Graph("cuda")
    with stream:
        graph.replay()
        with pytest.raises(graphcap.CaptureForbiddenError, match=r"replay\(\)"), other:
            graph.replay()
    with pytest.raises(graphcap.GraphStateError):
        other.replay()


def test_a_subclass_keeps_its_own_replay() -> None:
    class Counted(graphcap.Graph):
        calls = 0

        def replay(self, stream: Any = None, *, inputs: Any = None) -> None:
            type(self).calls += 1
            super().replay(stream, inputs=inputs)

    stream = make_stream()
    memory = stream.allocate(4)
    graph = Counted("cuda")
    with stream, graph:
        stream.fill(memory, 3)
    graph.replay()
    graph.replay()
    assert Counted.calls == 2
    assert host(memory, np.uint8).tolist() == [3] * 4


def test_inputs_are_copied_in_before_the_launch() -> None:
    stream = make_stream()
    x, y = device([1, 2]), device([0, 0])
    graph = graphcap.Graph("cuda")
    with stream, graph:
        stream.copy(y, x)
    graph.bind(x=x)
    with stream:
        graph.replay()
        graph.replay(inputs={"x": device([5, 6])})
        assert host(y).tolist() == [5, 6]
        with pytest.raises(ValueError, match="neither bound nor a parameter"):
            graph.replay(inputs={"z": x})
        graph.replay(stream, inputs={"x": device([7, 8])})
    assert host(y).tolist() == [7, 8]


_FRAMEWORK = """
import sys, types
from tests.emulated_device import loader
loader.load()
import graphcap
from graphcap.backends.base import register_framework_hook

class Hook:
    current = None
    def stream_entered(self, stream): return None
    def current_stream(self, backend, device): return self.current
    def capture_begun(self, stream, pool, retain): return None
    def explain(self, error): return None

hooks = types.ModuleType("the_hooks"); hooks.hook = Hook(); sys.modules["the_hooks"] = hooks
register_framework_hook("cuda", "a_framework", "the_hooks:hook")
a, b = graphcap.Stream("cuda"), graphcap.Stream("cuda")
m = a.allocate(4)
g = graphcap.Graph("cuda")
with a, g:
    a.fill(m, 1)
from tests.emulated_device import control
with a:
    g.replay(); g.replay()
    sys.path.insert(0, sys.argv[1])
    import a_framework
    hooks.hook.current = b
    control.clear_calls()
    g.replay()
    hooks.hook.current = None
    g.replay()
got = [c.stream for c in control.calls() if c.name == "cuGraphLaunch"]
assert got == [b.handle, a.handle], got
"""


@pytest.mark.skipif(not kit.is_emulated(), reason="reads the emulated driver's log of calls")
def test_a_framework_imported_later_is_followed_at_once(tmp_path: Path) -> None:
    (tmp_path / "a_framework.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-c", _FRAMEWORK, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_replay_costs_at_most_a_fifth_more_than_a_bare_launch() -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, str(root / "benchmarks" / "cuda_replay.py"), "--emulated"]
    runs = [subprocess.run(command, capture_output=True, text=True, timeout=300, check=False) for _ in range(3)]
    assert any(run.returncode == 0 for run in runs), [run.stdout + run.stderr for run in runs]
