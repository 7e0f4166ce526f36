"""Every exception and warning of graphcap; messages are built here.

All exceptions share one shape: what was *asked*, in what *state*, and the *cure*. The three parts stay readable
as attributes, so that a tool can show them in its own way, and so that a test can check a cure is never missing.

``DriverError`` carries what a driver said. It is either raised by itself (a failure that has no class of its own) or
is the ``__cause__`` of one of the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = [
    "BackendError",
    "BackendNotFoundError",
    "BackendUnavailableError",
    "CaptureError",
    "CaptureForbiddenError",
    "CaptureInvalidatedError",
    "CaptureIsolationError",
    "CaptureStateError",
    "DotSyntaxError",
    "DriverError",
    "EmptyGraphWarning",
    "GraphError",
    "GraphStateError",
    "GraphStructureError",
    "GraphUpdateError",
    "GraphcapError",
    "GraphcapWarning",
    "OutOfMemoryError",
    "PoolError",
    "PoolStateError",
    "ReusedMemoryWarning",
    "StalePointerError",
    "UnjoinedStreamError",
    "UnownedPointerError",
    "UnownedPointerWarning",
    "UnsupportedError",
    "add_note",
]


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text[-1] in ".!?" else text + "."


class GraphcapError(Exception):
    """Base of every error that graphcap raises.

    Parameters
    ----------
    asked
        What the caller wanted: the call, with the arguments that matter.
    state
        What stood in its way.
    cure
        What to do instead; may be empty only where nothing can be done.
    """

    def __init__(self, asked: str = "", state: str = "", cure: str = "") -> None:
        super().__init__(asked, state, cure)
        self.asked = asked
        self.state = state
        self.cure = cure

    def __str__(self) -> str:
        head = f"{self.asked}: {self.state}" if self.asked and self.state else self.asked or self.state
        return " ".join(part for part in (_sentence(head), _sentence(self.cure)) if part)


class BackendError(GraphcapError):
    """Something about a backend itself, not about a capture or a graph."""


class BackendNotFoundError(BackendError, LookupError):
    """The name is not a registered backend."""

    def __init__(self, name: str, known: Iterable[str] = (), cure: str = "") -> None:
        names = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"backend {name!r}",
            f"no backend of that name is registered (known: {names})",
            cure or "Use a known name.",
        )
        self.args = (name, tuple(known), cure)
        self.name = name


class BackendUnavailableError(BackendError, RuntimeError):
    """The backend is registered, but its library or its device is missing."""

    def __init__(self, backend: str, reason: str = "", cure: str = "") -> None:
        super().__init__(f"backend {backend!r} is not usable here", reason, cure)
        self.args = (backend, reason, cure)
        self.backend = backend
        self.reason = reason


class UnsupportedError(BackendError, NotImplementedError):
    """The backend lacks a capability that the operation needs."""

    def __init__(self, backend: str, operation: str = "", capability: str = "", cure: str = "") -> None:
        lacks = (
            f"backend {backend!r} lacks the capability {capability!r}" if capability else f"backend {backend!r} cannot"
        )
        super().__init__(operation, lacks, cure)
        self.args = (backend, operation, capability, cure)
        self.backend = backend
        self.operation = operation
        self.capability = capability


class CaptureError(GraphcapError, RuntimeError):
    """Something about a capture."""


class CaptureStateError(CaptureError):
    """Begin and end out of order, on the wrong stream, or on the wrong thread."""


class CaptureForbiddenError(CaptureError):
    """A call that must not happen while a stream captures: the call, why it is refused, what to do instead."""


class CaptureInvalidatedError(CaptureError):
    """The capture was broken earlier; the first cause, as far as graphcap saw it, is chained as ``__cause__``."""


class UnjoinedStreamError(CaptureError):
    """A forked stream was not joined back to the origin stream before the capture ended."""


class CaptureIsolationError(CaptureError):
    """A dependency crosses into or out of a capture, or would join two captures."""


class UnownedPointerError(CaptureError):
    """Nodes of a strict capture use memory whose owner is not known. The capture is over, and the graph is new.

    Attributes
    ----------
    pointers
        One line for each pointer: node, argument, address, and what is known of the memory.
    """

    def __init__(self, asked: str = "", state: str = "", cure: str = "", *, pointers: tuple[str, ...] = ()) -> None:
        super().__init__(asked, state, cure)
        self.pointers = pointers


class GraphError(GraphcapError, RuntimeError):
    """Something about a graph after its capture."""


class GraphStateError(GraphError):
    """The graph is in a state that cannot serve the call."""


class GraphStructureError(GraphError, ValueError):
    """The nodes and edges given do not form a graph that can be replayed."""


class GraphUpdateError(GraphError):
    """An executable graph could not be updated; it still replays as before."""


class StalePointerError(GraphError):
    """A node would use memory whose owner is gone or has moved. Nothing was launched.

    Attributes
    ----------
    node, argument
        The node and its argument, in words.
    address
        The address that was captured.
    freed_by
        File, line and function of the code that let the owner go; empty where that is not known.
    others
        Further pointers that are stale, in words.
    """

    def __init__(
        self,
        asked: str = "",
        state: str = "",
        cure: str = "",
        *,
        node: str = "",
        argument: str = "",
        address: int = 0,
        freed_by: str = "",
        others: tuple[str, ...] = (),
    ) -> None:
        super().__init__(asked, state, cure)
        self.node = node
        self.argument = argument
        self.address = address
        self.freed_by = freed_by
        self.others = others


class PoolError(GraphcapError, RuntimeError):
    """Something about a memory pool."""


class OutOfMemoryError(PoolError, MemoryError):
    """An allocation could not be served, even after everything cached was released.

    Attributes
    ----------
    requested, reserved, allocated
        Bytes asked for, held from the driver, and handed out, at the moment of the failure.
    limit
        The limit in bytes that applied, or ``None``.
    """

    def __init__(
        self,
        asked: str = "",
        state: str = "",
        cure: str = "",
        *,
        requested: int = 0,
        reserved: int = 0,
        allocated: int = 0,
        limit: int | None = None,
    ) -> None:
        super().__init__(asked, state, cure)
        self.requested = requested
        self.reserved = reserved
        self.allocated = allocated
        self.limit = limit


class PoolStateError(PoolError):
    """A pool or a block is in a state that cannot serve the call."""


class DotSyntaxError(GraphcapError, ValueError):
    """A DOT text that cannot be read.

    Attributes
    ----------
    file
        The file's name, or ``None`` when bytes were given.
    line
        The line (from 1) at which reading failed.
    expected
        What would have been right there.
    """

    def __init__(self, state: str = "", *, file: str | None = None, line: int = 0, expected: str = "") -> None:
        where = f"{file or '<bytes>'}:{line}" if line else (file or "<bytes>")
        super().__init__(where, state, f"Expected {expected}" if expected else "")
        self.args = (state,)
        self.file = file
        self.line = line
        self.expected = expected


class DriverError(GraphcapError, RuntimeError):
    """What a device driver answered.

    Attributes
    ----------
    call
        The driver's function.
    code
        The error's number.
    name
        The error's name in the driver's own spelling.
    """

    def __init__(self, call: str, code: int = 0, name: str = "", text: str = "", cure: str = "") -> None:
        super().__init__(call, f"{name} ({code})" + (f": {text}" if text else ""), cure)
        self.args = (call, code, name, text, cure)
        self.call = call
        self.code = code
        self.name = name


class GraphcapWarning(RuntimeWarning):
    """Base of every warning of graphcap, and the one that tells of trouble inside a finalizer."""


class EmptyGraphWarning(GraphcapWarning):
    """A capture ended with no node in it. The graph can be replayed and does nothing."""


class UnownedPointerWarning(GraphcapWarning):
    """Nodes of a captured graph use memory whose owner is not known: a replay may come after it was freed.

    Attributes
    ----------
    pointers
        One line for each pointer: node, argument, address, and what is known of the memory.
    """

    def __init__(self, text: str = "", pointers: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.pointers = pointers


class ReusedMemoryWarning(GraphcapWarning):
    """Every replay overwrites an array that was made in the capture and that the captured work never writes."""


def add_note(error: BaseException, note: str) -> None:
    """Attach a note to an exception, also on Python 3.10, which shows it only in ``__notes__``."""
    adder: Any = getattr(error, "add_note", None)
    if adder is not None:
        adder(note)
        return
    notes: list[str] = list(getattr(error, "__notes__", ()))
    notes.append(note)
    setattr(error, "__notes__", notes)  # noqa: B010  # not an attribute that the type knows before Python 3.11
