"""Pausing the cyclic garbage collector while captures are open (rule 9).

A collection inside a capture may destroy device objects, which breaks captures on some drivers (E-17, E-18). Pauses of
several captures overlap: the collector runs again when the last is over, and only if it ran before the first.
"""

from __future__ import annotations

import gc
import threading

__all__ = ["GCPause"]

_lock = threading.RLock()
"""Re-entrant: a collection that runs while it is held may drop a graph, whose finalizer gives up a pause."""
_open = 0
_was_enabled = False


class GCPause:
    """One capture's pause. Both methods may be called any number of times."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = False

    def begin(self) -> None:
        """Stop the collector, if this pause does not hold it already."""
        global _open, _was_enabled
        with _lock:
            if self._held:
                return
            self._held = True
            if _open == 0:
                _was_enabled = gc.isenabled()
                gc.disable()
            _open += 1

    def end(self) -> None:
        """Give up this pause."""
        global _open
        with _lock:
            if not self._held:
                return
            self._held = False
            _open -= 1
            if _open == 0 and _was_enabled:
                gc.enable()
