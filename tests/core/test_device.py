"""From a device string to a backend: defaults, indexes, and the warnings on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap import _device, registry
from graphcap.backends.base import BackendStatus


@pytest.fixture
def statuses(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pretend that the backends here are in these states."""
    monkeypatch.delenv("GRAPHCAP_DEVICE", raising=False)

    def pretend(**found: BackendStatus) -> None:
        monkeypatch.setattr(registry, "known_backends", lambda: list(found))
        monkeypatch.setattr(registry, "status_of", lambda name: found[name])

    return pretend


_OK = BackendStatus(True)
_MISSING = BackendStatus(False, "cuda-python is not installed", "pip install cuda-python", installed=False)
_BROKEN = BackendStatus(False, "no driver: libcuda.so.1 not found", "Install the driver.", installed=True)


def test_first_usable_is_chosen(statuses: Any) -> None:
    """Design 3: the first usable of CUDA, XPU, CPU; one that is not installed is passed without a word."""
    statuses(CUDA=_MISSING, XPU=_OK, CPU=_OK)
    assert _device.default_device() == "xpu"


def test_broken_backend_is_passed_with_a_warning(statuses: Any) -> None:
    """Design 3: falling past a backend that is installed but broken warns with its reason and cure."""
    statuses(CUDA=_BROKEN, XPU=_MISSING, CPU=_OK)
    with pytest.warns(graphcap.GraphcapWarning, match=r"(?s)CUDA.*no driver.*Install the driver"):
        assert _device.default_device() == "cpu"


def test_nothing_usable(statuses: Any) -> None:
    """Design 3: no backend at all is an error with a cure."""
    statuses(CUDA=_MISSING, CPU=_MISSING)
    with pytest.raises(graphcap.BackendUnavailableError) as caught:
        _device.default_device()
    assert "backend_status" in str(caught.value)


def test_environment_decides(statuses: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Design 3: ``GRAPHCAP_DEVICE`` comes first, and no other backend is even looked at."""
    statuses(CUDA=_BROKEN, CPU=_OK)
    monkeypatch.setenv("GRAPHCAP_DEVICE", "cpu")
    assert graphcap.Graph().device == "cpu"
    assert graphcap.current_stream().device == "cpu:0"


@pytest.mark.parametrize(("value", "error"), [("nowhere", LookupError), ("cpu:7", ValueError), ("cpu:", ValueError)])
def test_bad_environment(monkeypatch: pytest.MonkeyPatch, value: str, error: type[Exception]) -> None:
    """Design 3: a bad value is an error, not a fall-back."""
    monkeypatch.setenv("GRAPHCAP_DEVICE", value)
    with pytest.raises(error):
        graphcap.Graph()


@pytest.mark.parametrize("text", ["cpu:-1", "cpu:1.0", "cpu:x", "cpu:", "cpu:0:0", "cpu: 0", ":0", "", "cpu:٣"])
def test_bad_device_strings(text: str) -> None:
    """Design 3: ``type`` or ``type:index``; anything else is a ValueError."""
    with pytest.raises(ValueError):
        graphcap.synchronize(text)


@pytest.mark.parametrize("device", [0, b"cpu", object()])
def test_devices_of_another_type(device: Any) -> None:
    """Design 3: a device is a string."""
    with pytest.raises(TypeError, match="device"):
        graphcap.Graph(device)


def test_index_past_the_last_device() -> None:
    """Design 3: refused where it is given, with the number of devices."""
    for ask in (graphcap.Graph, graphcap.current_stream, graphcap.Stream, graphcap.allocate):
        call: Any = ask
        with pytest.raises(ValueError, match="1 device"):
            call(16, "cpu:1") if ask is graphcap.allocate else call("cpu:1")


def test_current_stream_of_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design 3: an index makes that device current for the work; a current stream of another device is an error."""
    make: Any = graphcap.Stream
    stream: graphcap.Stream = make("cpu")
    monkeypatch.setattr(stream, "device_index", 1)
    with stream:
        for ask in (lambda: graphcap.allocate(16, "cpu:0"), lambda: graphcap.Graph("cpu:0").capture_begin()):
            with pytest.raises(graphcap.CaptureStateError, match="another device") as caught:
                ask()
            assert caught.value.cure


def test_wrap_needs_the_capability() -> None:
    """Design 3: what a backend cannot do is an UnsupportedError that names the capability."""
    with pytest.raises(graphcap.UnsupportedError, match="wrap_stream"):
        graphcap.Stream.wrap(123, "cpu")


class _Elsewhere:
    """A backend that is not the CPU's."""

    name = "ELSEWHERE"


def test_stream_of_another_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design 3: made current, it would leave the replay or capture that was meant for it to the default stream."""
    make: Any = graphcap.Stream
    target = np.zeros(2)
    graph, stream = graphcap.Graph("cpu"), make("cpu")
    with stream, graph:
        stream.fill(target, 1.0)
    monkeypatch.setattr(stream, "backend", _Elsewhere())
    with pytest.raises(ValueError, match="no stream of 'cpu'"):
        graph.replay(stream)
    with pytest.raises(ValueError, match="no stream of 'cpu:0'"), graphcap.capture("cpu", stream=stream):
        pytest.fail("the body ran")
    assert not target.any()
    monkeypatch.undo()
    with pytest.raises(ValueError, match="no stream of 'cpu:1'"):
        graphcap.Stream.wrap(stream, "cpu:1")
    assert graphcap.Stream.wrap(stream, "cpu:0") is graphcap.Stream.wrap(stream) is stream
    graph.replay(stream)
    assert target.all()


@pytest.mark.parametrize("count", [0, -1])
def test_warmup_count_must_be_positive(count: int) -> None:
    """capture: a count that would run no warm-up is a ValueError, not a missing warm-up."""
    with pytest.raises(ValueError, match="warmup_count"), graphcap.capture("cpu", warmup=print, warmup_count=count):
        pytest.fail("the body ran")


def test_update_with_something_else() -> None:
    """Graph.update: what is no Graph is a TypeError."""
    other: Any = object()
    with pytest.raises(TypeError, match="Graph"):
        graphcap.Graph("cpu").update(other)
