"""The CPU's executable graph: bound calls in topological order.

This is the plain Python replay: the fallback where the native one was not built, and its oracle in tests.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphcap.backends.cpu.errors import DEFAULT_ERRORS, note_failure, reentered
from graphcap.backends.cpu.work import Work

__all__ = ["PythonExecutable"]


class PythonExecutable:
    """Runs each node's bound call, one after the other: no allocation, no dispatch.

    Nodes are recorded after everything they depend on, so the order of recording is a topological order.

    Parameters
    ----------
    nodes
        The recorded work.
    gates, check
        `check` is called before a replay if one of the lists is not empty; it raises if the replay may not go on.
    refresh
        Called at the start of every replay, once no other replay is under way: new values of parameters are put in place.

    Attributes
    ----------
    in_use
        Dead once nobody can be replaying any more: a replay under way owns what it refers to.
    """

    def __init__(
        self,
        nodes: Sequence[Work],
        gates: tuple[list[Any], ...],
        check: Callable[[], None],
        refresh: Callable[[], object] | None = None,
    ) -> None:
        self._nodes = nodes
        self._calls: list[Callable[[], Any]] = [node.call for node in nodes]
        self._gates = gates
        self._check = check
        self._refresh = refresh
        self._lock = threading.Lock()
        self._owner = 0
        self.in_use: weakref.ref[object] = weakref.ref(self)
        _living.add(self)

    def replay(self) -> None:
        """Run all nodes. One executable never overlaps itself (S-D38).

        Raises
        ------
        GraphStateError
            The replay was asked for by a node of this very graph.
        Exception
            What a node raises, with a note that names it; the nodes after it did not run.
        """
        if any(self._gates):
            self._check()
        if self._owner == threading.get_ident():
            raise reentered()
        with self._lock, np.errstate(**DEFAULT_ERRORS):
            self._owner = threading.get_ident()
            if self._refresh is not None:
                self._refresh()
            calls: Any = iter(self._calls)
            try:
                for call in calls:
                    call()
            except BaseException as error:
                node = len(self._calls) - calls.__length_hint__() - 1
                note_failure(error, node, self._nodes[node].name)
                raise
            finally:
                self._owner = 0

    def forget_other_threads(self) -> None:
        """In a forked child: a replay that another thread was at will never end here."""
        if self._lock.locked() and self._owner != threading.get_ident():
            self._lock, self._owner = threading.Lock(), 0


_living: weakref.WeakSet[PythonExecutable] = weakref.WeakSet()


def _after_fork() -> None:
    for executable in list(_living):
        executable.forget_other_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
