"""``reset()`` while a replay is under way (rule 12): its memory and its owners stay until it is over."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import pytest

import graphcap
from graphcap.backends.cpu.native import unavailable_reason, walker

KINDS = [
    pytest.param("native", marks=pytest.mark.skipif(walker() is None, reason=unavailable_reason() or "-")),
    "python",
]
xp = graphcap.array_namespace("cpu")


class Owner:
    """Something that a graph keeps alive."""


def _graph(hold: Any) -> tuple[graphcap.Graph, weakref.ref[Owner]]:
    """A graph that calls `hold` in the midst of work on memory of its own pool."""
    graph, stream, owner = graphcap.Graph("cpu", keep_graph=True), graphcap.Stream("cpu"), Owner()
    x = xp.ones(1_000)
    with stream, graph:
        y = x + 1
        stream.launch(hold)
        z = y * 2  # dropped here, as y is: only the graph's use of its pool holds their memory
        del y, z
    graph.retain(owner)
    return graph, weakref.ref(owner)


def _is_held(pool: graphcap.MempoolId) -> bool:
    graphcap.empty_cache("cpu")
    found = graphcap.memory_stats("cpu")["pools"].get(pool)
    return found is not None and found["reserved_bytes.current"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_reset_while_another_thread_replays(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other thread is in the middle of it; afterwards nothing is left."""
    monkeypatch.setenv("GRAPHCAP_CPU_REPLAY", kind)
    inside, leave = threading.Event(), threading.Event()
    seen: list[bool] = []

    def hold() -> None:
        inside.set()
        seen.append(leave.wait(20))

    graph, owner = _graph(hold)
    graph.instantiate()
    pool = graph.pool()
    thread = threading.Thread(target=graph.replay)
    thread.start()
    try:
        assert inside.wait(10)
        graph.reset()
        assert _is_held(pool)
        assert owner() is not None
        with pytest.raises(graphcap.GraphStateError):
            graph.replay()
    finally:
        leave.set()
        thread.join()
    assert seen == [True]
    assert not _is_held(pool)
    assert owner() is None


@pytest.mark.parametrize("kind", KINDS)
def test_reset_by_a_node_of_the_graph(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replay goes on to its end on memory that is still its own."""
    monkeypatch.setenv("GRAPHCAP_CPU_REPLAY", kind)
    seen: list[bool] = []

    def hold() -> None:
        graph.reset()
        seen.append(_is_held(pool))

    graph, owner = _graph(hold)
    graph.instantiate()
    pool = graph.pool()
    graph.replay()
    assert seen == [True]
    assert not _is_held(pool)
    assert owner() is None


@pytest.mark.parametrize("kind", KINDS)
def test_reset_at_rest_gives_back_at_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no replay under way nothing stays."""
    monkeypatch.setenv("GRAPHCAP_CPU_REPLAY", kind)
    graph, owner = _graph(lambda: None)
    graph.replay()
    pool = graph.pool()
    assert _is_held(pool)
    graph.reset()
    assert not _is_held(pool)
    assert owner() is None
