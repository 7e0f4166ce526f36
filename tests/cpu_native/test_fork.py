"""A process that is forked off while another thread replays."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.backends.cpu.native import unavailable_reason, walker

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is not installed on this system")

KINDS = [
    pytest.param("native", marks=pytest.mark.skipif(walker() is None, reason=unavailable_reason() or "-")),
    "python",
]


def _child_succeeds(body: Any) -> bool:
    """Whether `body` ends in a forked child; one that waits for ever is ended after a while."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
        try:
            body()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
@pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")  # JAX, where another test imported it
@pytest.mark.parametrize("kind", KINDS)
def test_fork_while_another_thread_replays(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread is not there in the child, so the child must not wait for its replay to end."""
    monkeypatch.setenv("GRAPHCAP_CPU_REPLAY", kind)
    inside, leave, parent = threading.Event(), threading.Event(), os.getpid()
    x = np.zeros(4)

    def hold(values: Any) -> None:
        values += 1
        if os.getpid() == parent:
            inside.set()
            leave.wait(20)

    graph, stream = graphcap.Graph("cpu"), graphcap.Stream("cpu")
    with stream, graph:
        stream.launch(hold, x)
    thread = threading.Thread(target=graph.replay)
    thread.start()
    try:
        assert inside.wait(10)
        assert _child_succeeds(graph.replay)
    finally:
        leave.set()
        thread.join()
    graph.replay()
    assert (x == 2.0).all()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
@pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")  # JAX, where another test imported it
@pytest.mark.parametrize("kind", KINDS)
def test_fork_inside_a_replay(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child goes on with its own replay, which still may not begin another one of the same graph."""
    monkeypatch.setenv("GRAPHCAP_CPU_REPLAY", kind)
    graph, stream = graphcap.Graph("cpu"), graphcap.Stream("cpu")
    seen: list[bool] = []

    def again() -> None:
        with pytest.raises(graphcap.GraphStateError, match="by this very thread"):
            graph.replay()

    with stream, graph:
        stream.launch(lambda: seen.append(_child_succeeds(again)))
    graph.replay()
    assert seen == [True]
