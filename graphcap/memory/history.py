"""Allocation history: what happened, when, and on which line of the caller."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from typing import Any, NamedTuple, TypeAlias

from graphcap.interface import MempoolId

__all__ = ["Frames", "History", "TraceEvent", "caller_frames", "frames_as_dicts", "place"]

Frames: TypeAlias = tuple[tuple[str, int, str], ...]
"""Innermost first: (file name, line, function)."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class TraceEvent(NamedTuple):
    """One event, with the actions that PyTorch's visualiser knows.

    ``alloc``, ``free_requested``, ``free_completed``, ``segment_alloc``, ``segment_free``, ``oom``, ``snapshot``.
    """

    action: str
    address: int
    """Of the block or segment; for ``oom`` the free bytes of the device."""
    size: int
    """Bytes asked for; of a segment, its size."""
    stream: int
    pool_id: MempoolId
    time_us: int
    frames: Frames


def caller_frames(depth: int) -> Frames:
    """Return up to `depth` frames of the code that called into graphcap, innermost first."""
    frame = sys._getframe(1)
    found: list[tuple[str, int, str]] = []
    walk: Any = frame
    while walk is not None and len(found) < depth:
        code = walk.f_code
        if not code.co_filename.startswith(_PACKAGE):
            found.append((code.co_filename, walk.f_lineno, code.co_name))
        walk = walk.f_back
    return tuple(found)


def place(frames: Frames) -> str:
    """Return ``"file:line in function"`` of the innermost frame."""
    if not frames:
        return "an unknown place"
    filename, line, name = frames[0]
    return f"{filename}:{line} in {name}"


def frames_as_dicts(frames: Frames) -> list[dict[str, Any]]:
    return [{"filename": filename, "line": line, "name": name} for filename, line, name in frames]


class History:
    """A bounded list of :class:`TraceEvent`, oldest first.

    Parameters
    ----------
    max_entries
        Older events fall out.
    depth
        Frames kept of each caller; 0 keeps none and is much cheaper.
    """

    def __init__(self, max_entries: int, depth: int) -> None:
        self.events: deque[TraceEvent] = deque(maxlen=max_entries)
        self.depth = depth

    def add(self, action: str, address: int, size: int, stream: int, pool_id: MempoolId, frames: Frames) -> None:
        self.events.append(TraceEvent(action, address, size, stream, pool_id, time.time_ns() // 1000, frames))
