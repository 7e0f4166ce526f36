"""A replay that costs no more than the driver's own launch call: one function per graph, armed by its first replay.

``graph.replay()`` has to find the calling thread's current stream, look whether a host call failed, and launch. All of that is
settled by the first replay on a stream; as long as the same stream is current (one look at a thread-local, and one at the
framework that has current streams of its own, if one is imported) later replays only launch. What would make the answer
another one takes the function back to the long way: another current stream, a kept exception, a new executable, ``reset``,
and the import of such a framework. A graph whose owners are looked at before each replay (debug mode) always goes the long way.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from graphcap.backends import base, streams

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

    def replay(stream: Any = _UNARMED, _launch: Callable[[], int] = _nothing, *, inputs: Any = None) -> None:
        # The defaults are what the function is armed with: the token of the current stream, which no caller can give, and the
        # launch on it. They are taken together, so that a thread which replays on its own stream never launches on another's.
        if local.top is stream and not errors and inputs is None:
            code = _launch()
            if code:
                if code == _ANOTHER_STREAM:
                    long_way(None, None)
                else:
                    graph._launch_failed(code, graph._backend.launch_stream(graph.device_index))
        elif _launch is _nothing or _launch is (own().__defaults__ or (0, 0))[1]:
            long_way(stream, inputs)
        else:
            raise TypeError("replay() takes a stream and inputs=, nothing else.")

    own: Any = weakref.ref(
        replay
    )  # a closure over itself would be a cycle, and graphs must die with their last reference

    def long_way(stream: Any, inputs: Any) -> None:
        function = own()
        assert isinstance(function, FunctionType), "called by the function itself"
        plain = stream is None or (function.__defaults__ is not None and stream is function.__defaults__[0])
        if not plain or inputs is not None:
            general(None if plain else stream, inputs=inputs)
            return
        graph.replay()
        top = local.stack[-1][0] if local.stack else None
        decided = top is None or (top.backend is graph._backend and top.device_index == graph.device_index)
        if not decided or graph._checks is not None or not _watcher.settled():
            return  # streams further down would have to be looked at, or owners, or a framework that is just coming
        launchable = graph._launchable
        if launchable is None:
            return  # another thread has set a parameter since
        current = graph._backend.launch_stream(graph.device_index)
        launch: Callable[[], int] = partial(graph._launch_function, launchable, current.pointer)
        if _watcher.witness is not None:
            launch = _if_same(_watcher.witness, graph.device_index, launch)
        function.__defaults__ = (local.top, launch)
        _armed.add(function)
        if graph._launchable is not launchable:  # or has set one just now, and found nothing armed
            disarm(function)

    assert isinstance(replay, FunctionType), "a def makes a function"
    graph._replay_function = weakref.ref(replay)
    return replay


def disarm(function: FunctionType) -> None:
    """Let the next replay go the long way."""
    function.__defaults__ = (_UNARMED, _nothing)
    _armed.discard(function)


def _nothing() -> int:
    raise AssertionError("only called once it is armed")


_ANOTHER_STREAM: Final = -1
"""No error of the driver: those are positive."""


def _if_same(witness: Callable[[int], object], device: int, launch: Callable[[], int]) -> Callable[[], int]:
    """A launch for as long as a framework's current stream of the device is what it is now."""
    seen = witness(device)
    return lambda: launch() if witness(device) is seen else _ANOTHER_STREAM


class _Watcher:
    """Sees the import of a framework with current streams of its own, by way of the import system. Finds nothing itself."""

    def __init__(self) -> None:
        self._watching = False
        self._wary = 0
        self.witness: Callable[[int], object] | None = None
        """Tells what a framework's current stream of a device is: as long as it gives the same object, nothing changed."""

    def names(self) -> set[str]:
        return {entry.module for entry in base._hooks.get("CUDA", ()) if entry.own_streams}

    def settled(self) -> bool:
        """Whether current streams can be told by a look or two; begins to watch for frameworks at the first question."""
        if not self._watching:
            self._watching = True
            sys.meta_path.insert(0, self)
        if self._wary:
            self._wary -= 1
            return False
        entries = [entry for entry in base._hooks.get("CUDA", ()) if entry.own_streams and entry.module in sys.modules]
        hooks = [entry.hook for entry in entries if not entry.failed]
        witnesses = [getattr(hook, "current_object", None) for hook in hooks]
        self.witness = witnesses[0] if witnesses else None
        return len(witnesses) == sum(witness is not None for witness in witnesses) <= 1

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in self.names():
            # An import begins, or somebody asks whether the framework is installed. A few long ways will tell which.
            self._wary = _LONG_WAYS
            for function in list(_armed):
                disarm(function)


_LONG_WAYS: Final = 100
_watcher: Final = _Watcher()
