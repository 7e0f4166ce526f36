"""A later thread that is given an earlier one's identifier is not taken for it."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap._this_thread import ThreadMark, thread_mark
from graphcap.backends.cpu import captures
from graphcap.testing import BackendFixtures
from graphcap.testing.case import NBYTES, N, in_thread, vector
from tests.backends import DEVICES, fixtures_of


@pytest.fixture(params=DEVICES)
def fx(request: pytest.FixtureRequest) -> Iterator[BackendFixtures]:
    found = fixtures_of(request.param)
    found.start(found.seeds[0])
    try:
        yield found
    finally:
        found.let_go()
        found.finish()


def one_after_the_other(first: Callable[[], Any], second: Callable[[], Any]) -> Any:
    """Call `first` on a thread to its end, then `second` on a new thread with the same identifier; give what that gave."""

    def begin() -> int:
        first()
        return threading.get_ident()

    ident = in_thread(begin)

    def go_on() -> tuple[bool, Any]:
        return (True, second()) if threading.get_ident() == ident else (False, None)

    for _ in range(1000):
        same, result = in_thread(go_on)
        if same:
            return result
    raise AssertionError("no thread was given the identifier again; the test shows nothing here")


def test_marks() -> None:
    """One for each thread, and never the same again."""
    assert thread_mark() is thread_mark()
    assert "MainThread" in repr(thread_mark())
    marks: list[ThreadMark] = []
    one_after_the_other(lambda: marks.append(thread_mark()), lambda: marks.append(thread_mark()))
    assert len({*map(id, marks), id(thread_mark())}) == 3


def test_only_its_own_thread_ends_a_capture(fx: BackendFixtures) -> None:
    """Rules 2 and 6 (908)."""
    x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
    stream, graph = fx.make_stream(), graphcap.Graph(fx.device)

    def begin() -> None:
        with stream:
            graph.capture_begin()
            fx.launch_axpy(stream, out, 2, x, y)

    def end() -> str:
        with stream, pytest.raises(graphcap.CaptureStateError) as caught:
            graph.capture_end()
        return str(caught.value)

    assert "began on another thread" in one_after_the_other(begin, end)
    assert stream.is_capturing
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", graphcap.GraphcapWarning
        )  # CUDA: its thread is gone, so nobody can end it there
        graph.reset()


def test_an_open_capture_does_not_bind_a_later_thread() -> None:
    """S-D8: what a thread-local capture forbids, it forbids its own thread."""
    make: Any = graphcap.Stream
    stream, idle, graph = make("cpu"), make("cpu"), graphcap.Graph("cpu", capture_mode="thread_local")

    def begin() -> None:
        with stream:
            graph.capture_begin()

    one_after_the_other(begin, lambda: captures.check_unsafe("a call", idle))
    assert stream.is_capturing
    graph.reset()


def test_a_scope_of_memory_that_was_left_open(fx: BackendFixtures) -> None:
    """S-C48: ``use_mem_pool`` is of one thread. A thread that ends inside it leaves nothing to a later one."""
    pool = graphcap.MemPool(fx.device)
    scope = graphcap.use_mem_pool(pool)
    assert one_after_the_other(scope.__enter__, lambda: fx.allocate(NBYTES).pool_id) == (0, 0)
    scope.__exit__(None, None, None)
    del scope
    gc.collect()
