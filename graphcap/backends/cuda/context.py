"""Primary contexts, the calling thread's current device, and the thread's tolerance for calls inside captures."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final

from graphcap.backends.cuda import _calls as calls
from graphcap.errors import DriverError

__all__ = ["DeviceGuard", "Relaxed", "current_device", "primary_context"]

_lock: Final = threading.Lock()
_primary: Final[dict[int, int]] = {}


def primary_context(index: int) -> int:
    """The primary context of a device: the one that the CUDA runtime, and so every framework, uses. Kept for ever."""
    found = _primary.get(index)
    if found is None:
        with _lock:
            found = _primary.get(index)
            if found is None:
                found = _primary[index] = calls.retain_primary_context(index)
    return found


def primary_devices() -> list[int]:
    """The devices whose primary context is in use by graphcap."""
    return list(_primary)


def current_device() -> int:
    """The device of the thread's current context, whoever made it current; 0 where there is none."""
    return calls.device_of_current_context() if calls.current_context() else 0


class DeviceGuard:
    """``with``: the primary context of one device is current; afterwards what was current before."""

    __slots__ = ("_before", "_index", "_switched")

    def __init__(self, index: int) -> None:
        self._index = index
        self._before = 0
        self._switched = False

    def __enter__(self) -> None:
        wanted = primary_context(self._index)
        self._before = calls.current_context()
        self._switched = self._before != wanted
        if self._switched:
            calls.set_current_context(wanted)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._switched:
            _insist(lambda: calls.set_current_context(self._before))


class Relaxed:
    """``with``: this thread may make calls that open captures otherwise forbid (S-D11, S-C21, S-B42).

    Only for calls that touch no capture: making and freeing segments, destroying handles, asking events that were
    recorded outside captures.
    """

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before = calls.Mode.GLOBAL

    def __enter__(self) -> None:
        self._before = calls.exchange_thread_mode(calls.Mode.RELAXED)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _insist(lambda: calls.exchange_thread_mode(self._before))


def _insist(restore: Callable[[], object]) -> None:
    """Put something back; a second time if the driver refuses.

    What was done inside the ``with`` has worked: an error here would lose its result, and leave the thread as it is not.
    """
    try:
        restore()
    except DriverError:
        restore()
