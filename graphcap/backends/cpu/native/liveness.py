"""Which intermediates nobody can reach after the capture, so that their full-size stores are dead.

Memory made in a capture ends in a :class:`PoolMemory`, which knows whether an array of the user still owns it. Where none does,
only the graph's own nodes touch it, and the graph can keep it wherever it likes, as long as it is used inside one run of
strips and is written before it is read. Memory that several intermediates used one after the other counts as several.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphcap.backends.cpu.memory_view import PoolMemory
from graphcap.backends.cpu.native.hazards import access, pool_memory
from graphcap.backends.cpu.native.strips import Run, StripRun

__all__ = ["Liveness"]


class Liveness:
    """The dead intermediates of one graph, and which run each of them is confined to.

    Parameters
    ----------
    runs
        The native runs.
    others
        Arrays that work outside of runs touches.
    """

    def __init__(self, runs: Iterable[Run], others: Iterable[Any]) -> None:
        self._home: dict[int, Run | None] = {}
        self._memory: list[PoolMemory] = []  # an id is good only while its object lives
        for run in runs:
            for loop in run.loops:
                for array in (*loop.inputs, *loop.outputs):
                    self._meet(array, run)
        for array in others:
            self._meet(array, None)

    def _meet(self, array: Any, run: Run | None) -> None:
        memory = pool_memory(array)
        if memory is None or memory.owner() is not None:
            return
        self._memory.append(memory)
        if self._home.setdefault(id(memory), run) is not run:
            self._home[id(memory)] = None

    def scratch(self, run: StripRun) -> set[int]:
        """The dead intermediates (by id of their memory) that `run` can keep in strip-sized memory.

        Those that it writes before it reads them, always as a whole and always at the same index.
        """
        keys: dict[int, Any] = {}
        for loop in run.loops:
            for array, writes in (*((a, False) for a in loop.inputs), *((a, True) for a in loop.outputs)):
                memory = pool_memory(array)
                if memory is None or self._home.get(id(memory)) is not run:
                    continue
                key = access(array).key if array.nbytes == memory.nbytes else None
                if id(memory) not in keys:
                    keys[id(memory)] = key if writes else None
                elif keys[id(memory)] != key:
                    keys[id(memory)] = None
        return {which for which, key in keys.items() if key is not None}
