"""NumPy's floating-point error state in a replay, and the note that names a node which failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from graphcap.errors import GraphStateError, add_note

__all__ = ["DEFAULT_ERRORS", "note_failure", "reentered", "under_present_state"]

DEFAULT_ERRORS: Final[Mapping[str, Any]] = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
"""NumPy's own default: in force for every node that was not captured under another error state."""


def under_present_state(call: Callable[[], Any]) -> tuple[Callable[[], Any], Mapping[str, Any] | None]:
    """`call` under the error state in force now, whatever is in force when it is made; and that state.

    The state is ``None``, and `call` comes back as it is, for NumPy's default, which every replay puts in force.
    """
    state = np.geterr()
    if state == DEFAULT_ERRORS:
        return call, None
    errors = {**state, "call": np.geterrcall()}
    return partial(_under, errors, call), errors


def _under(errors: Mapping[str, Any], call: Callable[[], Any]) -> None:
    with np.errstate(**errors):
        call()


def note_failure(error: BaseException, node: int, name: str) -> None:
    """Say on `error` which node of the replayed graph raised it."""
    add_note(error, f"raised in node {node} ({name!r}) of a graph that was replayed")


def reentered() -> GraphStateError:
    """A node of a graph asked for a replay of that graph."""
    return GraphStateError(
        "replay()", "the graph is being replayed by this very thread", "Replay it after its replay, not from inside."
    )
