"""Runs of elementwise work over one iteration space, walked strip by strip, and the memory that intermediates need not have.

A run takes work in the order of recording while two things hold: all of it steps through the same space, and wherever two
pieces touch the same memory they touch the same elements at the same index. Then a strip of all of it can be done before the
next strip begins, and each intermediate is still in cache when it is read.

An intermediate that nobody can reach after the capture, and that only this run touches, lives in strip-sized scratch memory:
its full-size store is dead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from graphcap.backends.cpu.native import geometry, thresholds
from graphcap.backends.cpu.native.geometry import address
from graphcap.backends.cpu.native.hazards import Access, Footprint, access, pool_memory
from graphcap.backends.cpu.native.loops import Loop

__all__ = ["Run", "SerialRun", "StripRun"]

_MAX_CALLS: Final = 512


class Run:
    """Native work in order; becomes one ``Block``."""

    def __init__(self) -> None:
        self.loops: list[Loop] = []
        self.footprint = Footprint()

    def nodes(self) -> list[int]:
        """The nodes in it."""
        return [loop.node for loop in self.loops]


class SerialRun(Run):
    """Small pieces of work, call after call; each may have a space of its own, of one dimension."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[tuple[Any, ...]] = []

    def take(self, loop: Loop, mask: int, space: geometry.Space) -> bool:
        """Take one more, if it fits. Order is kept, so there are no hazards."""
        if len(space.shape) != 1 or len(self._calls) >= 65_536:
            return False
        operands = tuple(
            (address(array), steps[0], -1, ())
            for array, steps in zip((*loop.inputs, *loop.outputs), space.strides, strict=True)
        )
        self._calls.append((loop.capsule, loop.node, mask, loop.outputs[0].itemsize, space.shape[0], operands))
        self.loops.append(loop)
        return True

    def build(self, walk: Any) -> Any:
        """The block."""
        kept = [(loop.capsule, loop.inputs, loop.outputs) for loop in self.loops]
        return walk.Block(self._calls, (), 0, 0, 1, 0, False, kept)


class StripRun(Run):
    """Work over one shape, strip by strip."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape
        self._masks: list[int] = []

    def take(self, loop: Loop, mask: int) -> bool:
        """Take one more, if it steps through the same space and meets the others only at the same index."""
        if loop.outputs[0].shape != self.shape or len(self.loops) >= _MAX_CALLS:
            return False
        if self.loops and not (loop.exact and self.loops[0].exact):
            return False
        reads, writes = _accesses(loop.inputs), _accesses(loop.outputs)
        if self.footprint.clashes(reads, writes, same_elements_ok=True):
            return False
        self.footprint.add(reads, writes)
        self.loops.append(loop)
        self._masks.append(mask)
        return True

    def build(self, walk: Any, dead: set[int]) -> Any | None:
        """The block; ``None`` if the space cannot be walked natively.

        Parameters
        ----------
        dead
            Intermediates (by id of their memory) that live in scratch memory.
        """
        operands = [(*loop.inputs, *loop.outputs) for loop in self.loops]
        flat = [array for group in operands for array in group]
        space = geometry.simplify(self.shape, tuple(array.strides for array in flat))
        exact = self.loops[0].exact
        if not exact and len(space.shape) > 1:
            return None  # its bits depend on how NumPy's own iterator cuts it
        inner, outer = space.shape[-1], space.shape[:-1]
        slots, scratch_width = _slots(self.loops, dead)
        live = {
            access(array).key: array.itemsize
            for array in flat
            if any(array.strides) and id(pool_memory(array)) not in slots
        }
        width = max(1, sum(live.values()) + scratch_width)
        strip = max(thresholds.QUANTUM, thresholds.STRIP_BYTES // width // thresholds.QUANTUM * thresholds.QUANTUM)
        chunked = exact and inner > strip
        if chunked:
            chunks = -(-inner // strip)
            length, last = strip, inner - (chunks - 1) * strip
            outer, rows_per_strip = (*outer, chunks), 1
        else:
            length = last = inner
            rows_per_strip = max(1, strip // inner)
            outer = outer or (1,)
        if len(outer) > walk.MAX_OUTER:
            return None
        places = (
            -(-length * rows_per_strip // thresholds.QUANTUM) * thresholds.QUANTUM + thresholds.SKEW
        )  # elements of a strip in scratch memory
        steps = iter(space.strides)
        calls = []
        for loop, mask, group in zip(self.loops, self._masks, operands, strict=True):
            described: list[tuple[int | None, int, int, tuple[int, ...]]] = []
            for array in group:
                *rows, step = next(steps)
                slot = slots.get(id(pool_memory(array)))
                if slot is not None:
                    described.append((None, array.itemsize, slot * places, (length * array.itemsize,)))
                elif chunked:
                    described.append((address(array), step, -1, (*rows, length * step)))
                else:
                    described.append((address(array), step, -1, tuple(rows) or (0,)))
            calls.append((loop.capsule, loop.node, mask, loop.outputs[0].itemsize, length, tuple(described)))
        kept = [(loop.capsule, loop.inputs, loop.outputs) for loop in self.loops]
        return walk.Block(calls, outer, length, last, rows_per_strip, scratch_width * places, exact, kept)


def _slots(loops: list[Loop], dead: set[int]) -> tuple[dict[int, int], int]:
    """A place in the scratch memory for each dead intermediate, shared by those that are not needed at the same time.

    Returns
    -------
    dict, int
        For each intermediate its offset, and the size of all, both in bytes per element of a strip.
    """
    last_use: dict[int, int] = {}
    for position, loop in enumerate(loops):
        for array in (*loop.inputs, *loop.outputs):
            last_use[id(pool_memory(array))] = position
    places: dict[int, int] = {}
    free: dict[int, list[int]] = {}
    ending: dict[int, list[tuple[int, int]]] = {}
    total = 0
    for position, loop in enumerate(loops):
        for array in loop.outputs:
            which, itemsize = id(pool_memory(array)), array.itemsize
            if which not in dead or which in places:
                continue
            if free.get(itemsize):
                places[which] = free[itemsize].pop()
            else:
                places[which], total = total, total + itemsize
            ending.setdefault(last_use[which], []).append((which, itemsize))
        for which, itemsize in ending.pop(position, ()):
            free.setdefault(itemsize, []).append(places[which])
    return places, total


def _accesses(arrays: Iterable[np.ndarray[Any, Any]]) -> list[Access]:
    return [access(array) for array in arrays]
