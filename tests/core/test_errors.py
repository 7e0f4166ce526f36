"""The error tree: who inherits from whom, what a message says, and that errors travel between processes."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from graphcap import errors

# Design section 5, written out: class -> its bases outside graphcap and inside
_TREE: dict[str, set[type[BaseException]]] = {
    "GraphcapError": {Exception},
    "BackendError": {errors.GraphcapError},
    "BackendNotFoundError": {errors.BackendError, LookupError},
    "BackendUnavailableError": {errors.BackendError, RuntimeError},
    "UnsupportedError": {errors.BackendError, NotImplementedError},
    "CaptureError": {errors.GraphcapError, RuntimeError},
    "CaptureStateError": {errors.CaptureError},
    "CaptureForbiddenError": {errors.CaptureError},
    "CaptureInvalidatedError": {errors.CaptureError},
    "UnjoinedStreamError": {errors.CaptureError},
    "CaptureIsolationError": {errors.CaptureError},
    "GraphError": {errors.GraphcapError, RuntimeError},
    "GraphStateError": {errors.GraphError},
    "GraphStructureError": {errors.GraphError, ValueError},
    "GraphUpdateError": {errors.GraphError},
    "PoolError": {errors.GraphcapError, RuntimeError},
    "OutOfMemoryError": {errors.PoolError, MemoryError},
    "PoolStateError": {errors.PoolError},
    "DotSyntaxError": {errors.GraphcapError, ValueError},
    "DriverError": {errors.GraphcapError, RuntimeError},
    "GraphcapWarning": {RuntimeWarning},
    "EmptyGraphWarning": {errors.GraphcapWarning},
}

_EXAMPLES: list[errors.GraphcapError] = [
    errors.BackendNotFoundError("npu", ["CPU", "CUDA"]),
    errors.BackendUnavailableError("CUDA", "no driver", "pip install cuda-python cffi"),
    errors.UnsupportedError("CPU", "Graph.update()", "graph_update", "Capture again."),
    errors.CaptureStateError("capture_end()", "no capture is open", "Call capture_begin() first."),
    errors.OutOfMemoryError(
        "allocate 5 bytes", "the limit is 4", "Raise it.", requested=5, reserved=3, allocated=2, limit=4
    ),
    errors.DotSyntaxError("a brace is missing", file="x.dot", line=3, expected="'}'"),
    errors.DriverError("cuGraphLaunch", 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not now", "Later."),
]


@pytest.mark.parametrize("name", list(_TREE))
def test_tree(name: str) -> None:
    """Design 5: the bases are these, and the class is public."""
    found = getattr(errors, name)
    assert set(found.__bases__) == _TREE[name]
    assert name in errors.__all__


def test_nothing_beside_the_tree() -> None:
    """Design 5: every public class is in the tree, but for those that lifetime checks add."""
    added = {
        "StalePointerError": errors.GraphError,
        "UnownedPointerError": errors.CaptureError,
        "UnownedPointerWarning": errors.GraphcapWarning,
        "ReusedMemoryWarning": errors.GraphcapWarning,
    }
    assert set(errors.__all__) - set(_TREE) == {"add_note", *added}
    for name, base in added.items():
        assert getattr(errors, name).__bases__ == (base,)


def test_message_has_three_parts() -> None:
    """Design 5: what was asked, in what state, and the cure, as one text."""
    error = errors.CaptureStateError("capture_end()", "no capture is open", "Call capture_begin() first")
    assert str(error) == "capture_end(): no capture is open. Call capture_begin() first."
    assert (error.asked, error.state, error.cure) == (
        "capture_end()",
        "no capture is open",
        "Call capture_begin() first",
    )


@pytest.mark.parametrize("error", _EXAMPLES, ids=lambda error: type(error).__name__)
def test_message_says_all(error: errors.GraphcapError) -> None:
    """Design 5: each class builds its message from asked, state and cure."""
    text = str(error)
    for part in (error.asked, error.state, error.cure):
        assert part.rstrip(".") in text
        assert part


def test_messages_name_what_is_known() -> None:
    """Design 5: the tree's own notes: known names, backend and capability, call, code and name, file and line."""
    not_found, unavailable, unsupported, _, memory, syntax, driver = map(str, _EXAMPLES)
    assert "CPU, CUDA" in not_found
    assert "no driver" in unavailable
    assert "pip install cuda-python cffi" in unavailable
    assert all(word in unsupported for word in ("CPU", "Graph.update()", "graph_update"))
    assert "allocate 5 bytes" in memory
    assert "x.dot:3" in syntax
    assert all(word in driver for word in ("cuGraphLaunch", "900", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"))


@pytest.mark.parametrize(
    "duplicate", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copy", "pickle"]
)
@pytest.mark.parametrize("error", _EXAMPLES, ids=lambda error: type(error).__name__)
def test_errors_travel(error: errors.GraphcapError, duplicate: Any) -> None:
    """Errors go through process pools: the twin has the class, the text and every attribute."""
    twin = duplicate(error)
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)


def test_errors_can_be_made_without_arguments() -> None:
    """What unpickling and testing tools rely on for the plain classes."""
    for name in ("CaptureStateError", "GraphStateError", "PoolStateError", "OutOfMemoryError", "GraphUpdateError"):
        assert str(getattr(errors, name)()) == ""


def test_note_on_an_exception() -> None:
    """add_note: on Python 3.10 too, where exceptions have no such method, notes land in ``__notes__``."""
    error = ValueError("x")
    errors.add_note(error, "first")
    errors.add_note(error, "second")
    assert getattr(error, "__notes__", None) == ["first", "second"]

    class Old(Exception):
        add_note = None

    old = Old()
    errors.add_note(old, "first")
    errors.add_note(old, "second")
    assert getattr(old, "__notes__", None) == ["first", "second"]
