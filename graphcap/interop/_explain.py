"""What a library's error inside a capture means, in graphcap's words, with the line of the user's program."""

from __future__ import annotations

import linecache
import re
import sys
from types import FrameType, TracebackType
from typing import Final

from graphcap.backends.cuda import _driver as driver
from graphcap.errors import CaptureForbiddenError, GraphcapError

__all__ = ["caller", "capture_code", "explained", "line_of", "refused"]

_LIBRARIES: Final = ("numba", "numba_cuda", "cuda", "graphcap", "rmm", "cupy", "contextlib", "functools", "weakref")
_NAMES: Final = {
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": 900,
    "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED": 901,
    "CUDA_ERROR_STREAM_CAPTURE_MERGE": 902,
    "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED": 903,
    "CUDA_ERROR_STREAM_CAPTURE_UNJOINED": 904,
    "CUDA_ERROR_STREAM_CAPTURE_ISOLATION": 905,
    "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT": 906,
    "CUDA_ERROR_CAPTURED_EVENT": 907,
    "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD": 908,
}
_NAME: Final = re.compile("|".join(_NAMES))
_CALL: Final = re.compile(r"\bcu(?:da)?[A-Z]\w+")


def capture_code(error: BaseException) -> int:
    """The driver's number if `error` says that a capture is in the way; 0 otherwise."""
    try:
        code = int(getattr(error, "code", 0))
    except (TypeError, ValueError):
        code = 0
    if 900 <= code < 910:
        return code
    found = _NAME.search(str(error))
    return _NAMES[found[0]] if found else 0


def explained(error: BaseException, library: str, cures: dict[int, str]) -> BaseException | None:
    """The error of graphcap's tree for a library's error inside a capture; ``None`` if it is about something else.

    Parameters
    ----------
    library
        Its name, for the message.
    cures
        What to do instead, by the driver's number; those of :mod:`graphcap.backends.cuda` for the others.
    """
    if isinstance(error, GraphcapError) or not isinstance(error, Exception):
        return None
    code = capture_code(error)
    if not code:
        return None
    call = _CALL.search(str(error))
    name = call[0] if call else library
    found = driver.mapped(name, code, f"{library} inside a capture{line_of(error.__traceback__)}")
    cure = cures.get(code)
    if cure is not None:
        said = f"{found.state}; the call was {name}" if call else found.state
        found = type(found)(found.asked, said, cure)
    found.__cause__ = error
    return found


def line_of(trace: TracebackType | None) -> str:
    """The words ", at file:line: text" for the last line of the user's program in a traceback; empty if there is none."""
    last = ""
    while trace is not None:
        if _is_users(trace.tb_frame):
            last = _words(trace.tb_frame, trace.tb_lineno)
        trace = trace.tb_next
    return last


def caller() -> str:
    """The words ", at file:line: text" for the nearest frame of the user's program that is running now."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_users(frame):
            return _words(frame, frame.f_lineno)
        frame = frame.f_back
    return ""


def refused(what: str, why: str, cure: str) -> CaptureForbiddenError:
    """A call that graphcap itself refuses in a library's place, with the line that made it."""
    return CaptureForbiddenError(f"{what} inside a capture{caller()}", why, cure)


def _is_users(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _LIBRARIES


def _words(frame: FrameType, line: int) -> str:
    text = linecache.getline(frame.f_code.co_filename, line).strip()
    return f", at {frame.f_code.co_filename}:{line}" + (f": `{text}`" if text else "")
