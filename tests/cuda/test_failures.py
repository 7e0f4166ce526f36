"""Failures injected into every driver call of a capture in turn: no crash, no leak, no wrong class, and the next capture works."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.backends.cuda import cuda_backend
from tests.cuda import kit
from tests.cuda.kit import device, host, make_stream
from tests.emulated_device import control

pytestmark = pytest.mark.skipif(not kit.is_emulated(), reason="only the emulated driver can be told to fail")

_INJECTED = 999
_STICKY = ("library", "module", "kernel", "function")


class _Program:
    """A capture that uses most of the driver: fork and join, kernel, copies, fills, host call, memory, an external event."""

    def __init__(self) -> None:
        self.stream, self.side = make_stream(), make_stream()
        self.x, self.y = device(np.arange(64)), device(np.zeros(64))
        self.out = np.zeros(64, np.float32)
        self.hits: list[int] = []
        self.event = self.stream.record(timing=True)
        self.stream.synchronize()

    def run(self, keep_graph: bool) -> None:
        graph = graphcap.Graph("cuda", keep_graph=keep_graph)
        with self.stream, graph:
            temporary = self.stream.allocate(256)
            self.stream.launch(kit.kernel("scale"), 1, 64, temporary, self.x, np.float32(2), np.int32(64))
            self.side.wait(self.stream)
            self.side.fill(self.y, 1.0)
            self.side.copy(self.y, temporary)
            self.stream.wait(self.side)
            self.stream.record(self.event, external=True)
            self.stream.copy(self.out, self.y)
            self.stream.host_call(self.hits.append, 1)
        if keep_graph:
            graph.topology()
        with self.stream:
            graph.replay()
            graph.upload()
        self.stream.synchronize()
        graph.reset()


def _counts() -> dict[str, int]:
    gc.collect()
    for _ in range(2):  # what is retired only now waits for events of its own
        graphcap.synchronize("cuda")
        cuda_backend().trim()
    return {kind: count for kind, count in control.counts().items() if kind not in _STICKY}


def _calls_of(program: _Program, keep_graph: bool) -> list[str]:
    program.run(keep_graph)
    _counts()
    control.clear_calls()
    program.run(keep_graph)
    return [call.name for call in control.calls()]


@pytest.mark.parametrize("keep_graph", [False, True])
@pytest.mark.parametrize("which", ["first and last", pytest.param("all", marks=pytest.mark.slow)])
def test_every_call_of_a_capture_may_fail(which: str, keep_graph: bool) -> None:
    program = _Program()
    names = _calls_of(program, keep_graph)
    occurrences: dict[str, int] = {}
    for name in names:
        occurrences[name] = occurrences.get(name, 0) + 1
    assert {"cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphLaunch", "cuMemAlloc"} <= set(occurrences)
    before = _counts()
    tried = failed = 0
    for name, count in occurrences.items():
        for nth in range(1, count + 1) if which == "all" else sorted({1, count}):
            program.hits.clear()
            program.out[:] = 0
            tried += 1
            failed += _fail_once(program, keep_graph, name, nth)
            after = _counts()
            assert after == before, f"call {nth} of {name} failed: something leaked"
            _works(program, keep_graph, name, nth)
            assert _counts() == before, f"call {nth} of {name} failed: the capture afterwards leaked"
    assert failed > tried // 2, "an injected failure is seen by the user in most places"


def _fail_once(program: _Program, keep_graph: bool, name: str, nth: int) -> bool:
    control.fail(name, nth, _INJECTED)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            program.run(keep_graph)
            gc.collect()
    except graphcap.GraphcapError as error:
        if not _drivers(error):
            pytest.fail(f"call {nth} of {name}: {type(error).__name__} without the driver's answer: {error}")
        return True
    finally:
        control.reset_faults()
    assert all(issubclass(w.category, graphcap.GraphcapWarning) for w in caught), [str(w.message) for w in caught]
    return bool(caught)


def _drivers(error: BaseException | None) -> bool:
    """Whether the injected answer is the error, its cause, or what it is a note of."""
    while error is not None:
        if isinstance(error, graphcap.DriverError) and error.code == _INJECTED:
            return True
        error = error.__cause__ or error.__context__
    return False


def _works(program: _Program, keep_graph: bool, name: str, nth: int) -> None:
    program.hits.clear()
    program.out[:] = 0
    program.run(keep_graph)
    assert program.out.tolist() == (2 * np.arange(64)).tolist(), f"after call {nth} of {name} had failed"
    assert program.hits == [1], f"after call {nth} of {name} had failed"


@pytest.mark.parametrize("code", [2, 900, 901, 902, 903, 904, 905, 906, 907, 908, 910, 801, 1, 400, 700])
def test_every_number_becomes_its_class_with_the_drivers_own_words(code: int) -> None:
    from graphcap.backends.cuda import _driver as driver

    control.fail("cuMemGetInfo", 1, code)
    try:
        with pytest.raises(graphcap.GraphcapError) as caught:
            driver.call("cuMemGetInfo")
    finally:
        control.reset_faults()
    expected: dict[int, type[Exception]] = {
        2: graphcap.OutOfMemoryError,
        900: graphcap.CaptureForbiddenError,
        901: graphcap.CaptureInvalidatedError,
        902: graphcap.CaptureIsolationError,
        903: graphcap.CaptureStateError,
        904: graphcap.UnjoinedStreamError,
        905: graphcap.CaptureIsolationError,
        906: graphcap.CaptureForbiddenError,
        907: graphcap.CaptureForbiddenError,
        908: graphcap.CaptureStateError,
        910: graphcap.GraphUpdateError,
        801: graphcap.UnsupportedError,
    }
    assert type(caught.value) is expected.get(code, graphcap.DriverError)
    cause: Any = caught.value if isinstance(caught.value, graphcap.DriverError) else caught.value.__cause__
    assert (cause.code, cause.call) == (code, "cuMemGetInfo")
    assert cause.name.startswith("CUDA_ERROR_")


def test_a_number_that_the_bindings_do_not_know_is_still_a_driver_error() -> None:
    from graphcap.backends.cuda import _driver as driver

    control.fail("cuMemGetInfo", 1, 4711)
    try:
        with pytest.raises(graphcap.DriverError, match="4711"):
            driver.call("cuMemGetInfo")
    finally:
        control.reset_faults()


def test_out_of_memory_tells_the_figures_and_leaves_nothing_behind() -> None:
    stream = make_stream()
    before = _counts()
    control.memory_limit(64 << 20)
    try:
        with pytest.raises(graphcap.OutOfMemoryError) as caught:
            stream.allocate(256 << 20)
    finally:
        control.memory_limit(0)
    assert caught.value.requested == 256 << 20
    assert _counts() == before
    assert host(device([1.0])).tolist() == [1]
