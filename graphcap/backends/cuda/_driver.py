"""The one file that imports ``cuda.bindings``: loads the driver, calls it, and turns what it answers into errors.

Everything else in this package names a driver function and gives it ints: a handle of the driver is an ``int`` here, 0
for none. What comes back of type ``Any`` is given a type in ``_calls`` and nowhere else.

Works with cuda-bindings 12.9 and 13.x. They differ in the names of the calls that carry edge data (:func:`edge_name`).
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from graphcap.errors import (
    BackendUnavailableError,
    CaptureError,
    CaptureForbiddenError,
    CaptureInvalidatedError,
    CaptureIsolationError,
    CaptureStateError,
    DriverError,
    GraphcapError,
    GraphUpdateError,
    OutOfMemoryError,
    UnjoinedStreamError,
    UnsupportedError,
)

__all__ = [
    "ErrorRow",
    "answer",
    "bindings",
    "call",
    "check",
    "driver_code",
    "edge_name",
    "entry",
    "error_of",
    "ffi",
    "is_capture_error",
    "load",
    "mapped",
    "struct",
]

_CURE: Final = "pip install cuda-python cffi"
_OLDEST_BINDINGS: Final = (12, 9)


class ErrorRow(NamedTuple):
    """What one error number of the driver means to a user of graphcap."""

    error: type[GraphcapError]
    state: str
    cure: str


_CAPTURE_AGAIN: Final = "End the capture, mend the first cause, and capture again."
ERRORS: Final[dict[int, ErrorRow]] = {
    2: ErrorRow(OutOfMemoryError, "the device has not that much memory", "Free memory, or call empty_cache()."),
    900: ErrorRow(
        CaptureForbiddenError,
        "it may not happen while a stream captures",
        "Do it before the capture begins or after it has ended; if another thread captures, use capture_mode="
        "'thread_local' or 'relaxed' there.",
    ),
    901: ErrorRow(CaptureInvalidatedError, "the capture was invalidated by an earlier call", _CAPTURE_AGAIN),
    902: ErrorRow(
        CaptureIsolationError,
        "it would join two captures into one",
        "Keep the two captures apart, or capture both parts into one graph.",
    ),
    903: ErrorRow(
        CaptureStateError,
        "the capture did not begin on this stream",
        "End it on the stream on which it began.",
    ),
    904: ErrorRow(
        UnjoinedStreamError,
        "work forked to another stream was not joined back",
        "Before the capture ends, let the origin stream wait for each forked stream: `origin.wait(fork)`.",
    ),
    905: ErrorRow(
        CaptureIsolationError,
        "the stream captures, but what it would wait for was recorded outside the capture",
        "Record the event inside the capture, or wait for it before the capture begins.",
    ),
    906: ErrorRow(
        CaptureForbiddenError,
        "it involves the legacy default stream while a blocking stream captures",
        "Submit the work to the capturing stream (`with stream:`), or capture on a non-blocking stream.",
    ),
    907: ErrorRow(
        CaptureForbiddenError,
        "the event was last recorded in a capture, so it marks a place in a graph and never completes",
        "Record it outside the capture, or use an external event: stream.record(event, external=True).",
    ),
    908: ErrorRow(
        CaptureStateError,
        "the capture began on another thread, and its mode is not relaxed",
        "End it on the thread that began it, or capture with capture_mode='relaxed'.",
    ),
    910: ErrorRow(GraphUpdateError, "the two graphs differ too much", "Capture again and instantiate a new graph."),
}
"""The driver's numbers that have a class of their own (S-D11). All others are raised as ``DriverError``."""

_NOT_SUPPORTED: Final = 801
_UNKNOWN_CODE: Final = re.compile(r"(\d+) is not a valid CUresult")


@functools.cache
def bindings() -> Any:
    """The module ``cuda.bindings.driver``.

    Raises
    ------
    BackendUnavailableError
        It is not installed, or too old.
    """
    try:
        package: Any = importlib.import_module("cuda.bindings")
        module = importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise BackendUnavailableError("CUDA", f"the package cuda-bindings is missing ({error})", _CURE) from error
    version = str(getattr(package, "__version__", "0"))
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < _OLDEST_BINDINGS:
        raise BackendUnavailableError("CUDA", f"cuda-bindings {version} is older than 12.9", _CURE)
    return module


@functools.cache
def _foreign_functions() -> Any:
    try:
        return importlib.import_module("cffi").FFI()
    except ImportError as error:
        raise BackendUnavailableError("CUDA", f"the package cffi is missing ({error})", _CURE) from error


def ffi() -> Any:
    """The one cffi instance of this backend: host callbacks, parameter memory, entry points by pointer."""
    return _foreign_functions()


@functools.cache
def load() -> None:
    """Load the driver and initialise it; cheap once it has worked.

    Raises
    ------
    BackendUnavailableError
        No bindings, no cffi, no driver, or no device, each with its cure.
    """
    cu = bindings()
    ffi()
    try:
        code = int(cu.cuInit(0)[0])
    except (
        Exception
    ) as error:  # the bindings find their library here, and each release says "not found" in its own class
        reason = f"no driver: {error}"
        raise BackendUnavailableError("CUDA", reason, "Install the NVIDIA driver (libcuda.so.1).") from error
    if code:
        cause = error_of("cuInit", code)
        cure = "A device is needed: see `nvidia-smi` and CUDA_VISIBLE_DEVICES."
        raise BackendUnavailableError("CUDA", f"the driver does not start: {cause.name} ({code})", cure) from cause


def error_of(name: str, code: int) -> DriverError:
    """The ``DriverError`` for a number that the function `name` answered."""
    cu = bindings()
    try:
        label = str(cu.CUresult(code).name)
        text = cu.cuGetErrorString(cu.CUresult(code))[1]
    except ValueError:  # a driver newer than the bindings
        return DriverError(name, code, f"CUDA_ERROR_{code}", "an error that these bindings do not know")
    return DriverError(name, code, label, text.decode(errors="replace") if isinstance(text, bytes) else "")


def mapped(name: str, code: int, asked: str | None = None) -> GraphcapError:
    """The error of graphcap's tree for a number, with the ``DriverError`` as its cause."""
    cause = error_of(name, code)
    row = ERRORS.get(code)
    if row is None and code != _NOT_SUPPORTED:
        return cause
    if row is None:
        error: GraphcapError = UnsupportedError("CUDA", asked or name, name, "A newer driver may offer it.")
    else:
        said = f"{row.state} ({cause.name}, {code})"
        error = row.error(asked or f"{name}()", said, row.cure)
    error.__cause__ = cause
    return error


def answer(name: str, *args: Any) -> tuple[int, Any]:
    """Call a driver function; give its code and what it returned beside it (one value, a tuple, or ``None``)."""
    try:
        result = getattr(bindings(), name)(*args)
    except ValueError as error:
        # A driver newer than the bindings may answer with a number that their enumeration does not know.
        unknown = _UNKNOWN_CODE.match(str(error))
        if unknown is None:
            raise
        return int(unknown[1]), None
    code = int(result[0])
    rest = result[1:]
    return code, rest[0] if len(rest) == 1 else rest or None


def call(name: str, *args: Any, asked: str | None = None) -> Any:
    """Call a driver function that must succeed.

    Parameters
    ----------
    name
        As ``cuda.h`` has it.
    asked
        What the user asked for, for the message; the function's name if not given.

    Raises
    ------
    GraphcapError
        The class of the code's row in :data:`ERRORS`, with a ``DriverError`` as its cause; or ``DriverError`` itself.
    """
    code, value = answer(name, *args)
    if code:
        raise mapped(name, code, asked)
    return value


def check(name: str, code: int, asked: str | None = None) -> None:
    """Raise as :func:`call` if a function called by pointer answered with an error."""
    if code:
        raise mapped(name, code, asked)


def driver_code(error: BaseException) -> int:
    """The driver's number behind an error of this module; 0 if there is none."""
    cause = error if isinstance(error, DriverError) else error.__cause__
    return cause.code if isinstance(cause, DriverError) else 0


def is_capture_error(error: BaseException) -> bool:
    """Whether the driver refused something because of a capture."""
    return isinstance(error, CaptureError) and 900 <= driver_code(error) < 910


@functools.cache
def edge_name(name: str) -> str:
    """The name that these bindings give to the form with edge data of a call.

    CUDA 12 keeps the plain name for the older form without edge data; CUDA 13 dropped that one.
    """
    for candidate in (f"{name}_v3", f"{name}_v2") if name == "cuStreamGetCaptureInfo" else (f"{name}_v2",):
        if hasattr(bindings(), candidate):
            return candidate
    return name


def struct(kind: str, *args: Any) -> Any:
    """An object of the bindings: a struct to fill in, or a handle around an int."""
    return getattr(bindings(), kind)(*args)


@functools.cache
def entry(name: str, version: int, signature: str) -> Callable[..., int]:
    """A driver function as a cffi callable, for the calls where the bindings' own cost or lifetime rules matter.

    Parameters
    ----------
    version
        The driver release that introduced the wanted form, as ``1000*major + 10*minor``.
    signature
        The C type of the pointer.

    Raises
    ------
    UnsupportedError
        The driver does not have the function.
    """
    code, found = answer("cuGetProcAddress", name.encode(), version, 0)
    address = 0 if code else int(found[0])
    if not address:
        raise UnsupportedError(
            "CUDA", f"{name}()", name, f"It needs a driver of CUDA {version // 1000}.{version % 1000 // 10}."
        )
    made: Callable[..., int] = ffi().cast(signature, address)
    return made
