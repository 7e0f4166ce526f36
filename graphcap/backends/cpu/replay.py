"""The CPU's executable graph: bound calls in topological order.

This is the plain Python replay. A native one may take its place behind the same two methods (``build``, ``run``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from graphcap.backends.cpu.work import Work
from graphcap.errors import add_note

__all__ = ["PythonExecutable"]


class PythonExecutable:
    """Runs each node's bound call, one after the other: no allocation, no dispatch.

    Nodes are recorded after everything they depend on, so the order of recording is a topological order.
    """

    def __init__(self, nodes: Sequence[Work]) -> None:
        self._nodes = nodes
        self._calls: list[Callable[[], Any]] = [node.call for node in nodes]
        self._lock = threading.Lock()

    def run(self) -> None:
        """Run all nodes. One executable never overlaps itself (S-D38).

        Raises
        ------
        Exception
            What a node raises, with a note that names it; the nodes after it did not run.
        """
        with self._lock:
            calls: Any = iter(self._calls)
            try:
                for call in calls:
                    call()
            except BaseException as error:
                index = len(self._calls) - calls.__length_hint__() - 1
                add_note(error, f"raised in node {index} ({self._nodes[index].name!r}) of a graph that was replayed")
                raise
