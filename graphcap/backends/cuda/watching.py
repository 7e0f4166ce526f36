"""Debug mode: which line of the program broke a capture by a call that did not raise.

Some calls invalidate a capture and return as if nothing had happened (a stream query in CuPy, any driver call whose code is not looked
at). In debug mode the capture's status, which may be asked at any time, is looked at before each line of the capturing thread
outside graphcap; the line before the first look that finds the capture broken did it. Costs capture time, not replay time.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any

from graphcap.errors import CaptureForbiddenError, GraphcapError
from graphcap.interface import CaptureStatus

if TYPE_CHECKING:
    from graphcap.backends.cuda.captures import Capture

__all__ = ["LineWatch"]


class LineWatch:
    """Looks at one capture from its beginning to its end. A debugger's or profiler's trace function is put back afterwards."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._thread = threading.get_ident()
        self._before: Any = sys.gettrace()
        self._frames: list[FrameType] = []
        self._last = "before the first line"
        self._found = False
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:  # the frames that run already get no call event any more
            if not _is_own(frame) and frame.f_trace is None:
                frame.f_trace = self._on_line
                self._frames.append(frame)
            frame = frame.f_back
        sys.settrace(self._on_call)

    def stop(self) -> None:
        """Stop looking; once more before. Does nothing the second time."""
        self.look()
        for frame in self._frames:
            frame.f_trace = None
        self._frames.clear()
        if threading.get_ident() == self._thread and sys.gettrace() == self._on_call:
            sys.settrace(self._before)
        self._found = True

    def look(self) -> None:
        """Note the last line as the cause if the capture is found broken and nothing else is known."""
        if self._found:
            return
        try:
            broken = self._capture.origin.capture_status is CaptureStatus.INVALIDATED
        except GraphcapError:
            return  # a look is not worth an error of its own; the next one asks again
        if not broken:
            return
        self._found = True
        self._capture.note(
            CaptureForbiddenError(
                f"a call at {self._last}",
                "it broke the capture without raising",
                "Synchronise, query, allocate and free outside the capture. (Found in debug mode by looking at each line.)",
            )
        )

    def _on_call(self, frame: FrameType, event: str, argument: object) -> Any:
        return None if _is_own(frame) else self._on_line

    def _on_line(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            self.look()
            self._last = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        return self._on_line


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in ("graphcap", "contextlib", "importlib")
