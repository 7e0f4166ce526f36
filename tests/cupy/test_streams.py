"""Streams, events and host functions through CuPy."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest


def test_the_current_stream_is_the_threads(cp: Any) -> None:
    """Set by ``with`` and by ``use``; another thread has its own."""
    stream = cp.cuda.Stream()
    seen: list[bool] = []
    with stream:
        assert cp.cuda.get_current_stream() == stream
        thread = threading.Thread(target=lambda: seen.append(cp.cuda.get_current_stream() == cp.cuda.Stream.null))
        thread.start()
        thread.join()
    assert seen == [True]
    assert cp.cuda.get_current_stream() == cp.cuda.Stream.null


def test_a_thread_that_never_set_a_device_computes(cp: Any) -> None:
    """It gets the primary context of device 0 by itself."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(int((cp.arange(100) * 2).sum())))
    thread.start()
    thread.join()
    assert found == [9900]


def test_streams_are_ordered_by_events(cp: Any) -> None:
    """What waits sees what was done before, whatever the order of the submissions."""
    first, second = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    x, y = cp.zeros(10000), cp.zeros(10000)
    cp.cuda.Device().synchronize()
    for turn in range(5):
        with first:
            x.fill(turn)
            done = first.record(cp.cuda.Event(disable_timing=True))
        second.wait_event(done)
        with second:
            cp.multiply(x, 2, out=y)
        second.synchronize()
        assert (y.get() == 2 * turn).all()


def test_events_tell_time_and_state(cp: Any) -> None:
    """Recorded, waited for, done, elapsed."""
    start, end = cp.cuda.Event(), cp.cuda.Event()
    start.record()
    cp.ones(1000).sum()
    end.record()
    end.synchronize()
    assert start.done
    assert end.done
    assert cp.cuda.get_elapsed_time(start, end) >= 0


def test_an_event_without_timing_has_no_time(cp: Any) -> None:
    """Error 400, by name."""
    event = cp.cuda.Event(disable_timing=True)
    event.record()
    event.synchronize()
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="cudaErrorInvalidResourceHandle"):
        cp.cuda.get_elapsed_time(event, event)


def test_flags_and_priorities(cp: Any) -> None:
    """As they were given."""
    runtime = cp.cuda.runtime
    blocking, free = cp.cuda.Stream(), cp.cuda.Stream(non_blocking=True, priority=-1)
    assert runtime.streamGetFlags(blocking.ptr) == runtime.streamDefault
    assert runtime.streamGetFlags(free.ptr) == runtime.streamNonBlocking
    assert runtime.streamGetPriority(free.ptr) == -1


@pytest.mark.parametrize("way", ["launch_host_func", "add_callback"])
def test_host_functions_run_in_the_streams_order(cp: Any, way: str) -> None:
    """After what was submitted before, on the host."""
    seen: list[Any] = []
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        x = cp.ones(100)
        if way == "launch_host_func":
            stream.launch_host_func(seen.append, 1)
        else:
            stream.add_callback(lambda _stream, status, argument: seen.append((status, argument)), 2)
        x += 1
        stream.synchronize()
    assert seen == ([1] if way == "launch_host_func" else [(0, 2)])


def test_the_threads_own_default_stream(cp: Any) -> None:
    """Handle 2 orders like any stream."""
    with cp.cuda.Stream.ptds as stream:
        x = cp.arange(1000) + 1
        stream.synchronize()
        np.testing.assert_array_equal(x.get(), np.arange(1000) + 1)


def test_a_stream_that_is_gone(cp: Any) -> None:
    """A handle that is none is refused, and nothing is broken by it."""
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError):
        cp.cuda.runtime.eventRecord(0, 0)
    assert float(cp.ones(3).sum()) == 3


@pytest.mark.filterwarnings("ignore:ExternalStream is deprecated:DeprecationWarning")
def test_a_stream_made_elsewhere(cp: Any) -> None:
    """By its handle; CuPy neither owns nor ends it."""
    made = cp.cuda.runtime.streamCreateWithFlags(cp.cuda.runtime.streamNonBlocking)
    with cp.cuda.ExternalStream(made):
        x = cp.arange(10) * 5
    cp.cuda.runtime.streamSynchronize(made)
    assert int(x.sum()) == 225
    cp.cuda.runtime.streamDestroy(made)
