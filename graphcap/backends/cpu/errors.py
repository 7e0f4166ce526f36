"""NumPy's floating-point error state in a replay, and the note that names a node which failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from graphcap.errors import GraphStateError, add_note

__all__ = ["DEFAULT_ERRORS", "note_failure", "reentered"]

DEFAULT_ERRORS: Final[Mapping[str, Any]] = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
"""NumPy's own default: in force for every node that was not captured under another error state."""


def note_failure(error: BaseException, node: int, name: str) -> None:
    """Say on `error` which node of the replayed graph raised it."""
    add_note(error, f"raised in node {node} ({name!r}) of a graph that was replayed")


def reentered() -> GraphStateError:
    """A node of a graph asked for a replay of that graph."""
    return GraphStateError(
        "replay()", "the graph is being replayed by this very thread", "Replay it after its replay, not from inside."
    )
