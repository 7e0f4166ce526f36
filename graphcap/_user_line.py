"""Where in the user's own function an error came from."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

__all__ = ["line_of", "without_frames"]


def line_of(fn: Callable[..., Any], error: BaseException) -> str:
    """The place in the user's function where it went wrong: the deepest frame in the function's own file."""
    code = getattr(fn, "__code__", None)
    if code is None:
        return ""
    frames: list[traceback.FrameSummary] = []
    cause: BaseException | None = error
    while cause is not None and not frames:  # a framework's own refusal is told by another error, which it caused
        found = traceback.extract_tb(cause.__traceback__)
        frames = [frame for frame in found if frame.filename == code.co_filename]
        cause = cause.__cause__
    return f", at {frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""


def without_frames(error: BaseException) -> None:
    """Drop the tracebacks of an error that is kept, and of its causes: they hold the frames, and so the arrays, of its call."""
    known: BaseException | None = error
    while known is not None:
        known.__traceback__ = None
        known = known.__cause__ or known.__context__
