"""What host calls raise has no caller to go to: it is kept until somebody waits for the device or replays."""

from __future__ import annotations

import threading

from graphcap.errors import add_note

__all__ = ["HostErrors"]


class HostErrors:
    """Exceptions of the host calls of one backend.

    Attributes
    ----------
    kept
        Oldest first. Always the same list, so that a replay can look at it without a lock.
    """

    def __init__(self) -> None:
        self.kept: list[BaseException] = []
        self._lock = threading.Lock()

    def keep(self, error: BaseException) -> None:
        """Keep an exception for :meth:`raise_first`. From any thread."""
        with self._lock:
            self.kept.append(error)

    def raise_first(self) -> None:
        """Raise the oldest kept exception; later ones become notes on it."""
        if not self.kept:
            return
        with self._lock:
            kept = self.kept.copy()
            self.kept.clear()
        if not kept:
            return  # another thread took them
        first, *rest = kept
        for error in rest:
            add_note(first, f"a later host call failed too: {error!r}")
        raise first
