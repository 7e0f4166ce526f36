"""The base of the suite's test classes: fixtures, skips by capability, hygiene after each test."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

import numpy as np
import pytest

import graphcap
from graphcap.backends import streams
from graphcap.interface import CaptureStatus, GraphCaptureMode
from graphcap.testing.fixtures import BackendFixtures, FloatArray

__all__ = [
    "NBYTES",
    "ConformanceCase",
    "N",
    "allocated",
    "capturing",
    "in_thread",
    "needs",
    "needs_mode",
    "reserved",
    "vector",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")

N = 16
NBYTES = 4 * N
"""Bytes of the vectors that most tests work on."""


def needs(*capabilities: str) -> Callable[[_F], _F]:
    """Skip the test on a backend without one of these capabilities."""

    def mark(test: _F) -> _F:
        setattr(test, "needs", (*getattr(test, "needs", ()), *capabilities))  # noqa: B010  # functions take attributes
        return test

    return mark


def needs_mode(*modes: GraphCaptureMode) -> Callable[[_F], _F]:
    """Skip the test on a backend that does not tell these capture modes apart."""

    def mark(test: _F) -> _F:
        setattr(test, "needs_modes", modes)  # noqa: B010  # as above
        return test

    return mark


def vector(start: float = 0.0) -> FloatArray:
    """``start, start+1, …`` as float32: small whole numbers, so that results are exact."""
    return np.arange(start, start + N, dtype=np.float32)


def capturing(stream: graphcap.Stream) -> bool:
    """``stream.is_capturing``, of which a type checker does not believe that it changes."""
    return stream.is_capturing


def status(stream: graphcap.Stream) -> CaptureStatus:
    """``stream.capture_status``, as above."""
    return stream.capture_status


def allocated(device: str) -> int:
    """Bytes handed out on a device now."""
    return int(graphcap.memory_stats(device)["allocated_bytes.current"])


def reserved(device: str, pool: tuple[int, int] | None = None) -> int:
    """Bytes held from the driver of a device now, by one pool or by all; 0 for a pool that is gone."""
    stats = graphcap.memory_stats(device)
    found = stats if pool is None else stats["pools"].get(pool, {})
    return int(found.get("reserved_bytes.current", 0))


def in_thread(work: Callable[[], _T]) -> _T:
    """Run `work` on another thread to its end; give back its result or raise what it raised."""
    result: list[_T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.append(work())
        except BaseException as error:  # handed to the calling thread, whatever it is
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failure:
        raise failure.pop()
    return result[0]


class ConformanceCase:
    """A group of behaviours. :func:`graphcap.testing.conformance_classes` binds it to a backend."""

    fixtures_class: ClassVar[type[BackendFixtures]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        seeds = self.fixtures_class.seeds
        if len(seeds) > 1:
            metafunc.parametrize("fx", seeds, indirect=True, ids=[f"seed{seed}" for seed in seeds])

    @pytest.fixture(autouse=True)
    def fx(self, request: pytest.FixtureRequest) -> Iterator[BackendFixtures]:
        """The backend under test; afterwards nothing may be left of the test."""
        fx = self.fixtures_class()
        self._skip_unless_able(fx, request.function)
        fx.start(getattr(request, "param", fx.seeds[0]))
        current = graphcap.current_stream(fx.device)
        collecting = gc.isenabled()
        before = allocated(fx.device)
        try:
            yield fx
            self._check_nothing_is_left(fx, current, collecting, before)
        finally:
            fx.let_go()
            fx.finish()

    @staticmethod
    def _check_nothing_is_left(fx: BackendFixtures, current: graphcap.Stream, collecting: bool, before: int) -> None:
        assert gc.isenabled() == collecting, "the garbage collector was left in another state (rule 9)"
        assert streams.innermost(fx.backend) is None, "a stream was left current (rule 5)"
        assert graphcap.current_stream(fx.device) == current
        graphcap.synchronize(fx.device)  # refused while a capture is open, so none was left
        for generation in (0, 2):  # an exception's traceback refers to itself; most are young, and that is quicker
            if allocated(fx.device) != before:
                gc.collect(generation)
                graphcap.synchronize(fx.device)
        assert allocated(fx.device) == before, "memory that the test used was not given back"

    @staticmethod
    def _skip_unless_able(fx: BackendFixtures, test: Any) -> None:
        for capability in getattr(test, "needs", ()):
            if not getattr(fx.capabilities, capability):
                pytest.skip(f"backend {fx.backend.name} lacks the capability {capability!r}")
        for mode in getattr(test, "needs_modes", ()):
            if mode not in fx.capabilities.capture_modes:
                pytest.skip(f"backend {fx.backend.name} lacks the capture mode {mode.name.lower()!r}")

    # -- what many tests do ----------------------------------------------------------------------------------------

    @staticmethod
    def captured(fx: BackendFixtures, out: Any, a: float, x: Any, y: Any, **options: Any) -> graphcap.Graph:
        """A graph of one kernel, ``out = a * x + y``."""
        graph = graphcap.Graph(fx.device, **options)
        with fx.make_stream() as stream, graph:
            fx.launch_axpy(stream, out, a, x, y)
        return graph

    @staticmethod
    def assert_can_capture(fx: BackendFixtures, stream: graphcap.Stream, graph: graphcap.Graph) -> None:
        """`stream` is free, and `graph` is new: a capture with both works and replays right values."""
        assert stream.capture_status is CaptureStatus.NONE
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        with stream, graph:
            fx.launch_axpy(stream, out, 3, x, y)
        assert not fx.download(out).any(), "a captured kernel ran before the replay"
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(out), 3 * vector(1) + vector(2))
        graph.reset()
