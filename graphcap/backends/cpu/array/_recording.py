"""Whether a call runs now or is recorded, how it is recorded, and how it is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from graphcap.backends.cpu import scalars
from graphcap.backends.cpu.array._memory import current
from graphcap.backends.cpu.captures import open_captures
from graphcap.backends.cpu.errors import under_present_state
from graphcap.backends.cpu.stream import CPUStream
from graphcap.backends.cpu.work import Work
from graphcap.errors import CaptureForbiddenError
from graphcap.topology import NodeKind

__all__ = ["LAUNCH", "capturing_stream", "check_readable", "record", "refuse"]

LAUNCH: Final = "Wrap it in stream.launch(function, *arrays), or call it before or after the capture."


def capturing_stream(call: str) -> CPUStream | None:
    """The calling thread's current CPU stream if it captures; ``None`` if work is to run at once.

    Raises
    ------
    CaptureInvalidatedError
        The stream's capture is broken.
    CaptureForbiddenError
        The stream is the default stream, and a blocking stream captures (S-D22).
    """
    if not open_captures:
        return None
    stream = current()
    capture = stream.capture
    if capture is None:
        stream.check_eager(call)
        return None
    capture.check_valid(call)
    return stream


def refuse(call: str, why: str, cure: str = LAUNCH) -> NoReturn:
    """Refuse a call that cannot be recorded. Nothing has happened yet, so the capture goes on.

    Raises
    ------
    CaptureForbiddenError
        Always.
    """
    raise CaptureForbiddenError(call, why, cure)


def check_readable(call: str) -> None:
    """Refuse a call that would read values while the current stream captures: there are none yet (rule 1)."""
    if open_captures and capturing_stream(call) is not None:
        refuse(
            call,
            "it needs values, but the current stream is capturing: its work is recorded, not run, so there are none yet",
            "Read values before or after the capture (after replay()), or do the work inside a kernel: "
            "stream.launch(function, *arrays).",
        )


def _unrecognised() -> None:
    raise AssertionError("the recorded call itself is made")


def record(
    stream: CPUStream,
    kind: NodeKind,
    name: str,
    call: Callable[[], Any],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    reads: tuple[Any, ...] = (),
    writes: tuple[Any, ...] = (),
    params: Mapping[str, Any] | None = None,
) -> None:
    """Submit one piece of work to a capturing stream, under the floating-point error state in force now.

    `call` does what ``function(*args, **kwargs)`` does. Where the error state is not NumPy's default it becomes part of the
    call, and of the node for a replay that takes the call apart (``Work.errstate``).
    """
    capture = stream.capture
    if capture is not None:
        with_parameters = scalars.with_values(stream, name, function, args, {} if kwargs is None else kwargs)
        if with_parameters is not None:
            call = with_parameters
        if with_parameters is not None or capture.cells:
            names = scalars.names_in(stream, args, {} if kwargs is None else kwargs)
            if names:
                params = {**({} if params is None else params), "parameters": names}
        if with_parameters is not None:
            function, args, kwargs = _unrecognised, (), None  # only the call itself knows where the values go
    call, errors = under_present_state(call)
    stream.submit(
        Work(
            kind,
            name,
            call,
            reads=reads,
            writes=writes,
            function=function,
            args=args,
            kwargs=kwargs,
            params=params,
            errstate=errors,
        )
    )
