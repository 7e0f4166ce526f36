"""The collector's pause: counts overlapping captures, may be ended twice, and keeps what it found."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphcap import _gc_pause
from graphcap._gc_pause import GCPause


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    gc.enable()
    yield
    assert gc.isenabled()
    assert _gc_pause._open == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40))
def test_any_order_of_begins_and_ends(steps: list[tuple[int, bool]]) -> None:
    """Rule 9: the collector stands still exactly while some pause is held; both methods may be called repeatedly."""
    pauses = [GCPause() for _ in range(4)]
    held: set[int] = set()
    for which, begins in steps:
        if begins:
            pauses[which].begin()
            held.add(which)
        else:
            pauses[which].end()
            held.discard(which)
        assert gc.isenabled() == (not held)
    for pause in pauses:
        pause.end()


def test_collector_that_was_off() -> None:
    """Rule 9: off before the first pause, off after the last."""
    gc.disable()
    try:
        first, second = GCPause(), GCPause()
        first.begin()
        second.begin()
        first.end()
        second.end()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_threads() -> None:
    """Rule 9: pauses of many threads overlap; the last one out switches it on."""
    barrier = threading.Barrier(8)
    seen: list[bool] = []

    def work() -> None:
        pause = GCPause()
        pause.begin()
        barrier.wait()
        seen.append(gc.isenabled())
        barrier.wait()
        pause.end()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [False] * 8


def test_graph_collected_while_a_pause_ends() -> None:
    """A collection may run as soon as the collector is on again, and its finalizers give up pauses of their own."""

    class Enabling:
        isenabled = staticmethod(gc.isenabled)
        disable = staticmethod(gc.disable)

        @staticmethod
        def enable() -> None:
            gc.enable()
            GCPause().end()  # what the finalizer of a graph does

    def end() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_gc_pause, "gc", Enabling)
            pause = GCPause()
            pause.begin()
            pause.end()

    thread = threading.Thread(target=end, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
