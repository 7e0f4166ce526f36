"""Which memory a piece of work touches, and whether two pieces may be interleaved element by element."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

from graphcap.backends.cpu.memory_view import PoolMemory

__all__ = ["Access", "Footprint", "access", "pool_memory"]


class Access(NamedTuple):
    """One operand's memory: its byte range, and what tells whether another operand is the very same elements."""

    low: int
    high: int
    key: tuple[Any, ...]


def access(array: np.ndarray[Any, Any]) -> Access:
    """The memory of `array`."""
    low, high = byte_bounds(array)
    return Access(low, high, (array.__array_interface__["data"][0], array.strides, array.shape, array.itemsize))


def pool_memory(array: Any) -> PoolMemory | None:
    """The capture's memory that an array is a view of, if it is."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, PoolMemory) else None


class Footprint:
    """What a group of work reads and writes, for a quick answer to "may this join?"."""

    __slots__ = ("reads", "writes")

    def __init__(self) -> None:
        self.reads: dict[tuple[Any, ...], Access] = {}
        self.writes: dict[tuple[Any, ...], Access] = {}

    def add(self, reads: list[Access], writes: list[Access]) -> None:
        """Take more accesses in."""
        for one in reads:
            self.reads[one.key] = one
        for one in writes:
            self.writes[one.key] = one

    def clashes(self, reads: list[Access], writes: list[Access], *, same_elements_ok: bool) -> bool:
        """Whether work with these accesses depends on the order against what is here.

        Parameters
        ----------
        same_elements_ok
            Accesses of the very same elements at the same index are in order already (strip by strip they are).
        """
        return (
            self._meets(self.writes, reads, same_elements_ok)
            or self._meets(self.writes, writes, same_elements_ok)
            or self._meets(self.reads, writes, same_elements_ok)
        )

    @staticmethod
    def _meets(known: dict[tuple[Any, ...], Access], new: list[Access], same_elements_ok: bool) -> bool:
        for one in new:
            for other in known.values():
                if one.low < other.high and other.low < one.high and not (same_elements_ok and one.key == other.key):
                    return True
        return False
