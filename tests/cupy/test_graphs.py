"""CuPy's own capture and replay (``Stream.begin_capture``, ``Graph.launch``), by values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.fixture
def stream(cp: Any) -> Any:
    with cp.cuda.Stream(non_blocking=True) as made:
        yield made
        made.synchronize()


def test_a_replay_works_on_what_the_inputs_hold_then(cp: Any, stream: Any) -> None:
    """Nothing runs at capture; each replay does."""
    x, y = cp.arange(100, dtype="f8"), cp.zeros(100)
    cp.multiply(x, 2, out=y)
    y.fill(0)
    stream.synchronize()
    stream.begin_capture()
    cp.multiply(x, 2, out=y)
    cp.add(y, 1, out=y)
    graph = stream.end_capture()
    stream.synchronize()
    assert (y.get() == 0).all()
    for start in (0, 5, 100):
        x[...] = cp.arange(start, start + 100, dtype="f8")
        graph.launch(stream)
        np.testing.assert_array_equal(y.get(), 2 * np.arange(start, start + 100) + 1)


def test_a_scalar_is_that_of_the_capture(cp: Any, stream: Any) -> None:
    """What Python has later does not reach the graph (kind A of the problems that users have)."""
    x = cp.zeros(10)
    factor = 3.0
    cp.add(x, factor, out=x)
    x.fill(0)
    stream.begin_capture()
    cp.add(x, factor, out=x)
    graph = stream.end_capture()
    factor = 100.0
    for _ in range(3):
        graph.launch(stream)
    assert (x.get() == 9).all()


def test_a_fork_by_events_is_joined(cp: Any, stream: Any) -> None:
    """Work on a second stream is part of the graph, before what waits for it."""
    a, b, c = cp.arange(64, dtype="f4"), cp.zeros(64, dtype="f4"), cp.zeros(64, dtype="f4")
    other = cp.cuda.Stream(non_blocking=True)
    fork, join = cp.cuda.Event(disable_timing=True), cp.cuda.Event(disable_timing=True)

    def work() -> None:
        fork.record(stream)
        other.wait_event(fork)
        with other:
            cp.multiply(a, 2, out=b)
        cp.add(a, 1, out=c)
        join.record(other)
        stream.wait_event(join)
        cp.add(b, c, out=c)

    work()
    stream.synchronize()
    stream.begin_capture()
    work()
    graph = stream.end_capture()
    a += 10
    graph.launch(stream)
    np.testing.assert_array_equal(c.get(), 3 * (np.arange(64) + 10) + 1)


def test_a_reduction_of_two_kernels_is_captured(cp: Any, stream: Any) -> None:
    """With its output given, so that no memory is needed at replay."""
    x, out = cp.ones(5000), cp.zeros(())
    x.sum(out=out)
    stream.begin_capture()
    cp.sqrt(x, out=x)
    x.sum(out=out)
    graph = stream.end_capture()
    x.fill(16)
    graph.launch(stream)
    assert float(out) == 20000


def test_an_upload_and_two_streams(cp: Any, stream: Any) -> None:
    """A graph may be launched on another stream than the one it was captured on."""
    x = cp.zeros(4)
    x += 1
    x.fill(0)
    stream.begin_capture()
    x += 1
    graph = stream.end_capture()
    graph.upload(stream)
    graph.launch(stream)
    stream.synchronize()
    with cp.cuda.Stream(non_blocking=True) as other:
        graph.launch(other)
        other.synchronize()
    assert (x.get() == 2).all()


def test_what_waits_for_the_device_is_refused_in_a_capture(cp: Any, stream: Any) -> None:
    """A result cannot be read while the work is only recorded; the capture is lost, and the stream works on."""
    x = cp.ones(4)
    stream.begin_capture()
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="StreamCapture"):
        stream.synchronize()
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="StreamCapture"):
        stream.end_capture()
    assert not stream.is_capturing()
    assert float(x.sum()) == 4


def test_the_null_stream_cannot_capture(cp: Any) -> None:
    """Neither for CuPy nor for the runtime below it."""
    with pytest.raises(RuntimeError, match="default"):
        cp.cuda.Stream.null.begin_capture()
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="cudaErrorStreamCaptureUnsupported"):
        cp.cuda.runtime.streamBeginCapture(0)
