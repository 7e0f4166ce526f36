"""Who owns the memory that a graph's nodes use: matched at the end of a capture, checked again before replays if wanted.

A graph is replayed with the addresses that were captured. Whatever lies there by then is read and written, and no device
notices. So at the end of a capture every address is matched to an owner, one of

- the capture's own pools, which live as long as the graph;
- a block of one of graphcap's other pools, which the graph holds from then on, whoever frees it;
- an object that the graph retains, because graphcap launched work on it or because it was handed to ``retain``;
- an object that is watched: not kept, but looked at before each replay.

What is left is *unowned*: somebody else may free it. It is listed in a warning, or, in a strict capture, in an error. In debug
mode each owner is looked at again before each replay: alive, and where it was?

The rules come from user problems A (cupy#9655, pytorch#170646, pytorch#174649, flashinfer#4553, llama.cpp#26771).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from graphcap.backends.owners import Fault, HeldBlock, Owner, PoolSegment, Retained, Watched
from graphcap.errors import StalePointerError

if TYPE_CHECKING:
    from graphcap.interface import MempoolId
    from graphcap.memory import CachingAllocator
    from graphcap.memory.claims import Hold

__all__ = ["LEVELS", "Lifetimes", "PointerUse", "Unowned", "level_of", "listed", "match"]

LEVELS: Final = ("off", "warn", "strict")


def level_of(level: object) -> str:
    """A level of lifetime checks, checked.

    Raises
    ------
    ValueError
        It is none of :data:`LEVELS`.
    """
    if level not in LEVELS:
        raise ValueError(f"lifetimes={level!r}: one of {', '.join(map(repr, LEVELS))} is expected.")
    return str(level)


class PointerUse(NamedTuple):
    """One address in one node.

    Attributes
    ----------
    node
        The node in words: its id in the topology, its kind and its name.
    argument
        Which argument or operand of the node.
    address
        The address; 0 for memory that graphcap cannot see.
    nbytes
        How much is used from there on; 0 where that is not known, as for a kernel's argument.
    reads, writes
        What the node may do to it. A kernel may do both.
    certain
        It is an address, as a copy's operand is. A word among a kernel's arguments only looks like one until an owner or the
        driver knows it.
    position
        The node's place in the order of creation, for nodes that are not nested.
    owner
        Where the backend knows it itself.
    """

    node: str
    argument: str
    address: int
    nbytes: int = 0
    reads: bool = True
    writes: bool = True
    certain: bool = True
    position: int = 0
    owner: Owner | None = None


class Unowned(NamedTuple):
    """A use without an owner, and what is known of its memory."""

    use: PointerUse
    why: str


class Lifetimes:
    """What a capture's nodes use, and who owns it.

    Attributes
    ----------
    owned
        Each owner with its uses.
    unowned
        The uses that nobody is known to own.
    holds
        Holds of blocks of other pools: for the graph to keep.
    """

    def __init__(self) -> None:
        self.owned: list[tuple[PointerUse, Owner]] = []
        self.unowned: list[Unowned] = []
        self.holds: list[Hold] = []

    def check(self) -> None:
        """Look at every owner.

        Raises
        ------
        StalePointerError
            One is gone or has moved. The message names the first, its attribute ``others`` the rest.
        """
        faults = []
        for use, owner in self.owned:
            fault = owner.fault(use.address)
            if fault is not None:
                faults.append((use, fault))
        if faults:
            raise _stale(faults)

    def only_watched(self, *, movable: bool) -> None:
        """Forget all but what is to be looked at outside of debug mode.

        Parameters
        ----------
        movable
            Look also at retained objects of other libraries, which may let go of their memory, or move it.
        """
        self.owned = [
            (use, owner)
            for use, owner in self.owned
            if isinstance(owner, Watched) or (movable and isinstance(owner, Retained) and owner.may_move)
        ]


def _stale(faults: Sequence[tuple[PointerUse, Fault]]) -> StalePointerError:
    use, fault = faults[0]
    return StalePointerError(
        "replay()",
        f"{use.node}, {use.argument}, would use the memory at {use.address:#x}, but {fault.state}"
        + (f" (at {fault.freed_by})" if fault.freed_by else ""),
        "Keep the owner alive and in place as long as the graph (graph.retain(owner) in the capture), or capture again.",
        node=use.node,
        argument=use.argument,
        address=use.address,
        freed_by=fault.freed_by,
        others=tuple(f"{other.node}, {other.argument}: {other.address:#x}: {why.state}" for other, why in faults[1:]),
    )


class _Ranges:
    """Owners by the memory that they keep; ranges may overlap."""

    def __init__(self, rows: Iterable[tuple[int, int, Owner]]) -> None:
        self._rows = sorted(rows, key=lambda row: row[0])
        self._lows = [row[0] for row in self._rows]
        self._furthest = list(accumulate((row[1] for row in self._rows), max))

    def find(self, address: int) -> Owner | None:
        index = bisect_right(self._lows, address) - 1
        while index >= 0 and self._furthest[index] > address:
            if self._rows[index][1] > address:
                return self._rows[index][2]
            index -= 1
        return None


def match(
    uses: Iterable[PointerUse],
    allocators: Sequence[CachingAllocator],
    own_pools: Collection[MempoolId],
    *,
    retained: Callable[[], Iterable[tuple[int, int, Owner]]],
    watched: Sequence[Watched] = (),
    outside: Callable[[int], tuple[Owner | None, str] | None],
) -> Lifetimes:
    """Find the owner of each address.

    Parameters
    ----------
    uses
        What the nodes use, in their order.
    allocators
        The backend's memory managers.
    own_pools
        The capture's own.
    retained
        Objects that the graph keeps, with the memory that each keeps. Only asked for if something is left by then.
    watched
        Objects that it does not keep.
    outside
        What the driver says of an address that nobody knew: an owner that can be looked at, if there is one, and what the
        memory is, in words. ``None``: it is no memory at all.
    """
    found = Lifetimes()
    everything = list(uses)
    verdicts = _in_pools(everything, allocators, own_pools, watched, found)
    ranges: _Ranges | None = None
    seen: set[tuple[Hashable, int]] = set()
    for use in everything:
        owner = use.owner
        why = "graphcap cannot see what it is"
        if owner is None and use.address:
            known = verdicts.get(use.address)
            if known is None:
                if ranges is None:
                    ranges = _Ranges(retained())
                known = _beyond(use, ranges, outside)
                verdicts[use.address] = known
            owner, why = known
        if owner is not None:
            key = owner.key, use.address
            if key not in seen:
                seen.add(key)
                found.owned.append((use, owner))
        if why and use.owner is None:
            found.unowned.append(Unowned(use, why))
    return found


def _in_pools(
    uses: list[PointerUse],
    allocators: Sequence[CachingAllocator],
    own_pools: Collection[MempoolId],
    watched: Sequence[Watched],
    found: Lifetimes,
) -> dict[int, tuple[Owner | None, str]]:
    """The verdicts on addresses in graphcap's own memory: an owner, or why there is none."""
    addresses = {use.address for use in uses if use.address and use.owner is None}
    verdicts: dict[int, tuple[Owner | None, str]] = {}
    for owner in watched:
        for address in [address for address in addresses if owner.low <= address < owner.high]:
            verdicts[address] = owner, ""
            addresses.discard(address)
    for allocator in allocators:
        if not addresses:
            break
        for address, where in allocator.find(addresses, hold_outside=own_pools).items():
            addresses.discard(address)
            if where.hold is not None:
                verdicts[address] = HeldBlock(where.hold), ""
                found.holds.append(where.hold)
            elif where.pool_id in own_pools:
                verdicts[address] = PoolSegment(allocator, where), ""
            else:
                verdicts[address] = None, f"it was freed already: it is free memory of pool {tuple(where.pool_id)}"
    return verdicts


def _beyond(
    use: PointerUse, ranges: _Ranges, outside: Callable[[int], tuple[Owner | None, str] | None]
) -> tuple[Owner | None, str]:
    owner = ranges.find(use.address)
    if owner is not None:
        return owner, ""
    known = outside(use.address)
    if known is not None:
        return known
    return None, "memory that neither graphcap nor the driver knows: ordinary host memory?" if use.certain else ""


_NODES_SHOWN: Final = 8
_WAYS_OUT: Final = (
    "Let the graph keep what they belong to: graph.retain(array) in the capture, capture(inputs=[array, ...]), or make it in "
    "the capture. Where something else keeps it for as long as the graph is replayed, capture with lifetimes='off'."
)


def listed(unowned: Sequence[Unowned]) -> tuple[str, str, tuple[str, ...]]:
    """Uses without an owner, for people: what is wrong, the cure, and a line for each."""
    lines = []
    by_node: dict[str, tuple[list[str], list[str]]] = {}
    for use, why in unowned:
        where = f"{use.argument} = {use.address:#x}" if use.address else use.argument
        told, reasons = by_node.setdefault(use.node, ([], []))
        told.append(where)
        if why not in reasons:
            reasons.append(why)
        lines.append(f"{use.node}: {where} ({why})")
    shown = [
        f"{node}: {', '.join(told)} ({'; '.join(reasons)})"
        for node, (told, reasons) in list(by_node.items())[:_NODES_SHOWN]
    ]
    if len(by_node) > _NODES_SHOWN:
        shown.append(f"and {len(by_node) - _NODES_SHOWN} nodes more")
    count = f"{len(lines)} pointers" if len(lines) > 1 else "a pointer"
    state = f"the graph uses {count} whose owner graphcap does not know, so the memory may be freed before a replay: "
    return state + "; ".join(shown), _WAYS_OUT, tuple(lines)
