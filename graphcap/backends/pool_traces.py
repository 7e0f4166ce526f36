"""What a graph does in its pools: the arrays that it leaves there, and the memory that its nodes write, node by node."""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from graphcap.memory.claims import HandOut, Watch

if TYPE_CHECKING:
    from graphcap.backends.lifetimes import PointerUse
    from graphcap.interface import MempoolId

__all__ = ["LeftArray", "PoolTraces", "WhereWhen", "handed_out_before", "merged", "overlaps"]


class LeftArray(NamedTuple):
    """An array that was made in a capture and lived at its end: what the graph gives to the outside.

    Attributes
    ----------
    low, high
        Its memory: the first byte, and the one past the last that was asked for.
    made_at
        Where it was made, if debug mode of the memory keeps that.
    watch
        Whether it is still the same array.
    """

    low: int
    high: int
    made_at: str
    watch: Watch


class PoolTraces(NamedTuple):
    """What a graph does in its pools.

    Attributes
    ----------
    pools
        The pools.
    given
        The memory that its own capture was given there, as ascending ranges.
    left
        The arrays that lived at its end.
    uses
        The uses of memory in those pools, node by node, with their extents. ``None`` where they are not known.
    """

    pools: frozenset[MempoolId]
    given: tuple[tuple[int, int], ...]
    left: tuple[LeftArray, ...]
    uses: Callable[[], Iterable[PointerUse]] | None


_FEW: Final = 1_000_000


class WhereWhen:
    """Which array lay where when: the arrays that a capture was given, by their first byte."""

    def __init__(self, rows: Sequence[HandOut], positions: Sequence[int]) -> None:
        by_low: dict[int, list[tuple[int, int]]] = {}
        for row, position in zip(rows, positions, strict=True):
            by_low.setdefault(row.low, []).append((position, row.high))
        self._lows = sorted(by_low)
        self._arrays = [sorted(by_low[low], key=lambda array: array[0]) for low in self._lows]
        self._furthest = list(accumulate((max(high for _, high in arrays) for arrays in self._arrays), max))

    def end_of_array(self, address: int, position: int) -> int:
        """The end of the array that `address` lay in when the node at `position` was made; 0 if there was none."""
        index = bisect_right(self._lows, address) - 1
        latest, end = -1, 0
        while index >= 0 and self._furthest[index] > address:
            arrays = self._arrays[index]
            at = bisect_right(arrays, position, key=lambda array: array[0]) - 1
            if at >= 0 and arrays[at][1] > address and arrays[at][0] > latest:
                latest, end = arrays[at]
            index -= 1
        return end


class _Seen:
    """A growing set of ranges."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int]] = []

    def meets(self, low: int, high: int) -> bool:
        index = bisect_left(self._rows, (low, low))
        around = self._rows[max(index - 1, 0) : index + 1]
        return any(low < other[1] and other[0] < high for other in around)

    def add(self, low: int, high: int) -> None:
        index = bisect_left(self._rows, (low, low))
        start = index
        while start > 0 and self._rows[start - 1][1] >= low:
            start -= 1
        end = index
        while end < len(self._rows) and self._rows[end][0] <= high:
            end += 1
        if start < end:
            low = min(low, self._rows[start][0])
            high = max(high, *(row[1] for row in self._rows[start:end]))
        self._rows[start:end] = [(low, high)]


def handed_out_before(rows: Sequence[HandOut], left: Sequence[LeftArray], last: Mapping[int, int]) -> set[int]:
    """The arrays (by address) in whose memory the capture was given another one before."""
    if len(rows) * len(left) <= _FEW:
        return {
            array.low
            for array in left
            if any(row.low < array.high and array.low < row.high for row in rows[: last[array.low]])
        }
    found: set[int] = set()
    seen = _Seen()
    for index, row in enumerate(rows):
        if last[row.low] == index and seen.meets(row.low, row.high):
            found.add(row.low)
        seen.add(row.low, row.high)
    return found


def merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same memory as ascending ranges that do not touch."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return tuple(found)


def overlaps(low: int, high: int, ranges: Sequence[tuple[int, int]]) -> bool:
    """Whether a range meets one of several ascending ones that do not touch."""
    index = bisect_right(ranges, (low, sys.maxsize))
    return any(low < other[1] and other[0] < high for other in ranges[max(index - 1, 0) : index + 1])
