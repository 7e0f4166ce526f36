"""The part of a graph implementation that knows its memory: what it keeps, what its nodes use, what it left in its pool.

A backend supplies the device parts: the addresses in its nodes, and what the driver knows of an address. See
:mod:`graphcap.backends.lifetimes` for how they are matched.
"""

from __future__ import annotations

import sys
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from graphcap.backends import lifetimes
from graphcap.backends.extents import extent, flattened, may_move
from graphcap.backends.lifetimes import Lifetimes, PointerUse
from graphcap.backends.owners import Adopted, Candidates, KeptObject, Owner, Retained, Watched
from graphcap.backends.pool_traces import LeftArray, PoolTraces, WhereWhen, handed_out_before, merged
from graphcap.errors import ReusedMemoryWarning, UnownedPointerError, UnownedPointerWarning, UnsupportedError
from graphcap.memory.claims import HandOut, HandOuts
from graphcap.memory.history import place

if TYPE_CHECKING:
    from graphcap.interface import MempoolId
    from graphcap.memory import CachingAllocator

__all__ = ["GraphMemory", "issue"]

_PACKAGE: Final = __name__.partition(".")[0]


class GraphMemory:
    """Mixed into :class:`graphcap.backends.graph_impl.GraphImpl`."""

    debug: bool

    def __init__(self) -> None:
        self.lifetimes = "warn"
        """What is done about pointers without an owner: ``"off"``, ``"warn"``, ``"strict"``."""
        self._owned: list[object] = []
        self._watched: list[Watched] = []
        self._checks: Lifetimes | None = None
        """What is looked at before each replay; ``None`` if nothing is."""
        self._given: HandOuts | None = None
        self._traces: PoolTraces | None = None

    # -- device parts --------------------------------------------------------------------------------------------

    def _pointers(self) -> Iterable[PointerUse] | None:
        """What the nodes of the live template use. A backend that keeps some of it by itself may leave that out.

        In debug mode everything is wanted. ``None`` from a backend that cannot tell.
        """
        return None

    def _outside(self, address: int) -> tuple[Owner | None, str] | None:
        """What the driver says of an address that neither graphcap's memory nor anything retained holds.

        An owner that can be looked at (if there is one) and the memory in words; ``None`` if it is no memory.
        """
        return None

    def _extent(self, value: Any) -> tuple[int, int] | None:
        """Where an object's memory lies: the first byte, and the one past the last; ``None`` if that is not known."""
        return extent(value)

    def _marker(self) -> Callable[[], object]:
        """Something that tells how far the open capture has come. Must not keep the graph alive."""
        return _nothing

    def _positions(self, marks: Sequence[object]) -> list[int]:
        """The number of nodes that came before each mark. Called while the template is live."""
        return [0 for _ in marks]

    def _allocators(self) -> Sequence[CachingAllocator]:
        """The memory managers whose memory nodes may use."""
        return ()

    def _own_pools(self) -> frozenset[MempoolId]:
        """The pools that live as long as the graph."""
        return frozenset()

    def _pool_uses(self, uses: list[PointerUse] | None) -> Callable[[], Iterable[PointerUse]] | None:
        """Later access to the uses of memory in the own pools.

        Parameters
        ----------
        uses
            What :meth:`_pointers` gave, with extents; ``None`` if it was not asked.
        """
        return None if uses is None else lambda: uses

    def _first_write(self, position: int, low: int, high: int) -> int | None:
        """The first node from `position` on that may write some of the memory from `low` to `high`.

        Called at the capture's end, after :meth:`_pool_uses`.
        """
        if self._traces is None or self._traces.uses is None:
            return None
        uses = list(self._traces.uses())
        for use in islice(uses, bisect_left(uses, position, key=lambda use: use.position), None):
            if use.writes and use.address < high and low < use.address + use.nbytes:
                return use.position
        return None

    # -- owners --------------------------------------------------------------------------------------------------

    def retain(self, owner: object) -> None:
        """Keep `owner` alive until ``reset`` or until the graph dies (rule 12)."""
        if self._watched and any(watched.is_of(owner) for watched in self._watched):
            return
        self._owned.append(owner)

    def watch(self, value: object) -> None:
        """Do not keep `value`, but look before each replay whether it is alive and where it was. In a capture only.

        Raises
        ------
        TypeError
            Its memory is not known, or it cannot be referred to weakly.
        """
        self._watched.append(Watched(value, self._extent))

    def uses_changed(self, node: int | str, values: Iterable[object]) -> None:
        """A node of the executable was given other memory: from now on that is looked at before replays, in debug mode."""
        if self._checks is None:
            return
        owned = [(use, owner) for use, owner in self._checks.owned if use.position != node]
        position = node if isinstance(node, int) else -1
        for value in values if self.debug else ():
            found = self._extent(value)
            if found is not None:
                use = PointerUse(f"node {node} as it was changed", "an argument", found[0], position=position)
                owned.append((use, Retained(value, self._extent)))
        self._checks.owned = owned

    def pool_traces(self) -> PoolTraces | None:
        """What the graph does in its pools; ``None`` before a capture."""
        return self._traces

    # -- for the capture's end -----------------------------------------------------------------------------------

    def _inspect_memory(self) -> list[Warning]:
        """Match what the nodes use to owners, and remember what the graph leaves in its pools.

        Returns
        -------
        list of Warning
            To be issued when the graph's state is settled (rule 7).

        Raises
        ------
        UnownedPointerError
            The capture is strict, and a pointer has no owner.
        UnsupportedError
            It is strict, and the backend cannot tell what its nodes use.
        """
        given, self._given = self._given, None
        candidates = [owner for owner in self._owned if isinstance(owner, Candidates)]
        if candidates:
            self._owned = [owner for owner in self._owned if not isinstance(owner, Candidates)]
        wanted = self.lifetimes != "off" or self.debug or bool(self._watched)
        told = self._pointers() if wanted else None
        if wanted and told is None and self.lifetimes == "strict":
            raise UnsupportedError(
                type(self).__name__, "a strict capture", "pointers of nodes", "Use lifetimes='warn'."
            )
        uses = list(told or ())
        trouble: list[Warning] = []
        if uses:
            found = lifetimes.match(
                uses,
                self._allocators(),
                self._own_pools(),
                retained=lambda: [*self._kept_ranges(), *self._candidate_ranges(candidates)],
                watched=self._watched,
                outside=self._outside,
            )
            self._owned.extend(found.holds)
            self._owned.extend({id(o.value): o.value for _, o in found.owned if isinstance(o, Adopted)}.values())
            trouble += self._told(found)
            if not self.debug:
                found.only_watched(movable=self.lifetimes == "strict")
            if found.owned:
                self._checks = found
        rows = [] if given is None else given.take()
        left = self._left_arrays(rows)
        located = None if told is None else self._with_extents(uses, rows)
        self._traces = PoolTraces(
            self._own_pools(),
            merged((row.low, row.high) for row in rows),
            left,
            self._pool_uses(located),
        )
        if wanted and self.lifetimes != "off" and left:
            trouble += self._reused(rows, left)
        return trouble

    def _told(self, found: Lifetimes) -> list[Warning]:
        if not found.unowned or self.lifetimes == "off":
            return []
        state, cure, lines = lifetimes.listed(found.unowned)
        if self.lifetimes == "strict":
            raise UnownedPointerError("capture_end() of a strict capture", state, cure, pointers=lines)
        return [UnownedPointerWarning(f"{state}. {cure}", lines)]

    def _kept_ranges(self) -> Iterator[tuple[int, int, Owner]]:
        for value in flattened(self._owned):
            yield id(value), id(value) + 1, KeptObject(value)  # what the host calls of other libraries are given
            found = self._extent(value)
            if found is not None:
                yield (*found, Retained(value, self._extent, may_move=may_move(value)))

    def _candidate_ranges(self, candidates: Iterable[Candidates]) -> Iterator[tuple[int, int, Owner]]:
        for value in (value for one in candidates for value in one.objects()):
            found = self._extent(value)
            if found is not None:
                yield (*found, Adopted(value, self._extent))

    def _left_arrays(self, rows: Sequence[HandOut]) -> tuple[LeftArray, ...]:
        """The arrays of the capture that live; each is watched from now on."""
        last: dict[int, HandOut] = {row.low: row for row in rows if row.block.ptr == row.low}
        left: list[LeftArray] = []
        for allocator in self._allocators() if last else ():
            for block, watch in allocator.watch(row.block for row in last.values()):
                row = last.get(block.ptr)
                if row is not None and row.block is block:
                    made_at = place(block.allocated_at) if block.allocated_at else ""
                    left.append(LeftArray(block.ptr, block.ptr + block.requested, made_at, watch))
        return tuple(left)

    def _with_extents(self, uses: list[PointerUse], rows: Sequence[HandOut]) -> list[PointerUse]:
        """The uses in memory that the capture was given or that lies in its pools, with what each may touch."""
        if not uses:
            return []
        positions = self._positions([row.mark for row in rows])
        own, found = self._own_pools(), []
        elsewhere: dict[int, Any] = {}
        for allocator in self._allocators():
            elsewhere.update(allocator.find({use.address for use in uses}))
        given = WhereWhen(rows, positions)
        for use in uses:
            where = elsewhere.get(use.address)
            if where is None or where.pool_id not in own:
                continue
            if not use.nbytes:
                # A kernel may use the whole array that its pointer points into: the one that lay there when it was launched.
                high = given.end_of_array(use.address, use.position) or where.high
                use = use._replace(nbytes=high - use.address)
            found.append(use)
        return found

    def _reused(self, rows: Sequence[HandOut], left: Sequence[LeftArray]) -> list[Warning]:
        """The arrays that live in memory which an earlier node of the same graph writes, and which no later node writes.

        Whatever the user puts there, a replay overwrites it (aiter#5393).
        """
        last = {row.low: index for index, row in enumerate(rows)}
        before = handed_out_before(rows, left, last)
        candidates = [array for array in left if array.low in before]
        if not candidates or self._traces is None or self._traces.uses is None:
            return []
        positions = self._positions([row.mark for row in rows])
        again = []
        for array in candidates:
            made = positions[last[array.low]]
            if self._first_write(made, array.low, array.high) is not None:
                continue
            touching = [
                use
                for use in self._traces.uses()
                if use.writes and use.address < array.high and array.low < use.address + use.nbytes
            ]
            if touching:
                again.append((array, min(touching, key=lambda use: use.reads)))  # rather one that is known to write
        if not again:
            return []
        array, use = again[0]
        where = f", made at {array.made_at}" if array.made_at else ""
        more = f" (and {len(again) - 1} more such arrays)" if len(again) > 1 else ""
        return [
            ReusedMemoryWarning(
                f"an array of {array.high - array.low} bytes at {array.low:#x}{where}, was made in the capture in memory that an "
                f"earlier temporary had, and the captured work does not write it{more}: each replay overwrites it by "
                f"{use.node}. Make what must last (a cache, a workspace) before the capture: warmup= does."
            )
        ]

    def _check_memory(self) -> None:
        """Look at the owners before a replay. Only called if there are any to look at.

        Raises
        ------
        StalePointerError
            One is gone or has moved.
        """
        assert self._checks is not None, "as said"
        self._checks.check()

    def _forget_memory(self) -> None:
        self._watched.clear()
        self._checks = self._given = self._traces = None


def issue(trouble: Iterable[Warning]) -> None:
    """Warn, at the user's line."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (
        _PACKAGE,
        "contextlib",
    ):
        level, frame = level + 1, frame.f_back
    for one in trouble:
        warnings.warn(one, stacklevel=level)


def _nothing() -> object:
    return None
