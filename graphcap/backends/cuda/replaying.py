"""A replay that costs no more than the driver's own launch call: one function per graph, armed by its first replay.

``graph.replay()`` has to find the calling thread's current stream, look whether a host call failed, and launch. All of that is
settled by the first replay on a stream; as long as the same stream is current (one look at a thread-local) later replays only
launch. What would make the answer another one takes the function back to the long way: another current stream, a kept
exception, a new executable, ``reset``, and the import of a framework that has current streams of its own. A graph whose
owners are looked at before each replay (debug mode) always goes the long way.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from graphcap.backends import base, streams
from graphcap.backends.cuda.stream import CUDAStream

if TYPE_CHECKING:
    from graphcap.backends.cuda.graph import CUDAGraphImpl

__all__ = ["disarm", "replay_function"]

_UNARMED: Final = object()
_armed: Final[weakref.WeakSet[FunctionType]] = weakref.WeakSet()


def replay_function(graph: CUDAGraphImpl, general: Callable[..., None]) -> Callable[..., None]:
    """``Graph.replay`` of one graph. It keeps the implementation alive, which does not keep the function alive.

    Parameters
    ----------
    general
        The replay of the user's object, for whatever is asked beyond a plain replay.
    """
    local: Any = streams.local
    errors = graph._backend.host_errors.kept
    launch: Callable[[], int] = _nothing

    def replay(stream: Any = _UNARMED, *, inputs: Any = None) -> None:
        # The default of `stream` is the token of the stream for which the function is armed; no caller can give one.
        if local.top is stream and not errors and inputs is None:
            code = launch()
            if code:
                graph._launch_failed(code, local.stack[-1][0])
        else:
            long_way(stream, inputs)

    own = weakref.ref(replay)  # a closure over itself would be a cycle, and graphs must die with their last reference

    def long_way(stream: Any, inputs: Any) -> None:
        nonlocal launch
        function = own()
        assert isinstance(function, FunctionType), "called by the function itself"
        plain = stream is None or (function.__defaults__ is not None and stream is function.__defaults__[0])
        if not plain or inputs is not None:
            general(None if plain else stream, inputs=inputs)
            return
        graph.replay()
        top = local.stack[-1][0] if local.stack else None
        if (
            isinstance(top, CUDAStream)
            and top.backend is graph._backend
            and top.device_index == graph.device_index
            and graph._checks is None
            and not _watcher.seen()
        ):
            launch = partial(graph._launch_function, graph._launchable, top.pointer)
            function.__defaults__ = (top.token,)
            _armed.add(function)

    assert isinstance(replay, FunctionType), "a def makes a function"
    graph._replay_function = weakref.ref(replay)
    return replay


def disarm(function: FunctionType) -> None:
    """Let the next replay go the long way."""
    function.__defaults__ = (_UNARMED,)
    _armed.discard(function)


def _nothing() -> int:
    raise AssertionError("only called once it is armed")


class _Watcher:
    """Sees the import of a framework with current streams of its own, by way of the import system. Finds nothing itself."""

    def __init__(self) -> None:
        self._watching = False
        self._wary = 0

    def names(self) -> set[str]:
        return {entry.module for entry in base._hooks.get("CUDA", ()) if entry.own_streams}

    def seen(self) -> bool:
        """Whether such a framework is imported, or may be just now; begins to watch at the first question."""
        if not self._watching:
            self._watching = True
            sys.meta_path.insert(0, self)
        if any(name in sys.modules for name in self.names()):
            return True
        if self._wary:
            self._wary -= 1
            return True
        return False

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in self.names():
            # An import begins, or somebody asks whether the framework is installed. A few long ways will tell which.
            self._wary = _LONG_WAYS
            for function in list(_armed):
                disarm(function)


_LONG_WAYS: Final = 100
_watcher: Final = _Watcher()
