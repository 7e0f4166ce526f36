"""The kinds of owners that the memory of a graph's nodes may have, and how each is looked at before a replay."""

from __future__ import annotations

import abc
import weakref
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from graphcap.memory.claims import Hold, Place
from graphcap.memory.history import caller_frames, place

if TYPE_CHECKING:
    from graphcap.memory import CachingAllocator

__all__ = [
    "Adopted",
    "Candidates",
    "DriverMemory",
    "Fault",
    "HeldBlock",
    "KeptObject",
    "Owner",
    "PoolSegment",
    "Retained",
    "Watched",
]


class Fault(NamedTuple):
    """What became of an owner, and who did it (empty if that is not known)."""

    state: str
    freed_by: str = ""


class Owner(abc.ABC):
    """What keeps the memory of a node in place."""

    @abc.abstractmethod
    def fault(self, address: int) -> Fault | None:
        """Why `address` is not to be used any more; ``None`` while all is well."""

    @property
    def key(self) -> Hashable:
        """Equal for owners of which one need be looked at."""
        return id(self)


class PoolSegment(Owner):
    """A segment of one of the capture's own pools."""

    def __init__(self, allocator: CachingAllocator, found: Place) -> None:
        self._allocator = allocator
        self._pool = found.pool_id
        self._registration = found.registration

    @property
    def key(self) -> Hashable:
        return id(self._allocator), self._registration

    def fault(self, address: int) -> Fault | None:
        found = self._allocator.find([address]).get(address)
        if found is not None and found.registration == self._registration:
            return None
        return Fault(f"the segment of pool {tuple(self._pool)} that it lay in went back to the driver")


class HeldBlock(Owner):
    """A block of another pool, which the graph holds."""

    def __init__(self, hold: Hold) -> None:
        self._block = hold.block
        self._segment = hold.block.segment

    @property
    def key(self) -> Hashable:
        return id(self._block)

    def fault(self, address: int) -> Fault | None:
        block = self._block
        if block.segment is self._segment and block.ptr <= address < block.ptr + block.size and block.holds:
            return None
        return Fault("its block was taken back from the graph", place(block.freed_at))


class _Extent(Protocol):
    def __call__(self, value: Any, /) -> tuple[int, int] | None: ...


class Retained(Owner):
    """An object that the graph keeps alive; its memory may still move, or be closed.

    Parameters
    ----------
    extent
        Where the object's memory lies now: its first byte and the one past its last.
    may_move
        It is of another library, and not of a kind that is known to keep its memory where it is.
    """

    def __init__(self, value: object, extent: _Extent, *, may_move: bool = False) -> None:
        self._value = value
        self._extent = extent
        self.may_move = may_move

    @property
    def key(self) -> Hashable:
        return id(self._value)

    def fault(self, address: int) -> Fault | None:
        now = self._extent(self._value)
        if now is not None and now[0] <= address < now[1]:
            return None
        what = f"the {type(self._value).__name__} that it belongs to"
        return Fault(
            f"{what} was closed" if now is None else f"{what} lies at {now[0]:#x} by now: it was moved or resized"
        )


class Candidates(abc.ABC):
    """Objects of a framework of which some may own what a capture's nodes use; a hook hands it to the graph's ``retain``.

    At the end of the capture the graph keeps those whose memory a node uses, and forgets the others.
    """

    @abc.abstractmethod
    def objects(self) -> Iterable[object]:
        """The objects; asked once, and only if an address is left that nobody else owns. Their memory must be known."""


class Adopted(Retained):
    """A candidate, before it is known whether the graph is to keep it."""

    def __init__(self, value: object, extent: _Extent) -> None:
        super().__init__(value, extent)
        self.value = value


class KeptObject(Owner):
    """An object that the graph keeps, where a node was given the object itself."""

    def __init__(self, value: object) -> None:
        self._value = value

    @property
    def key(self) -> Hashable:
        return "object", id(self._value)

    def fault(self, address: int) -> Fault | None:
        return None


class Watched(Owner):
    """An object that is not kept.

    Raises
    ------
    TypeError
        It cannot be referred to weakly, or its memory is not known.
    """

    def __init__(self, value: object, extent: _Extent) -> None:
        found = extent(value)
        if found is None:
            raise TypeError(f"keep_inputs=False: the memory of a {type(value).__name__} is not known.")
        self.low, self.high = found
        self._name = type(value).__name__
        self._extent = extent
        self._freed_by: list[str] = []
        freed_by = self._freed_by  # the callback must not keep this object
        try:
            self._reference = weakref.ref(value, lambda _: freed_by.append(place(caller_frames(1))))
        except TypeError as error:
            raise TypeError(
                f"keep_inputs=False: a {self._name} cannot be referred to weakly; let it be kept."
            ) from error

    def is_of(self, value: object) -> bool:
        """Whether this watches `value`."""
        return self._reference() is value

    def fault(self, address: int) -> Fault | None:
        value = self._reference()
        if value is None:
            return Fault(
                f"the {self._name} of {self.high - self.low} bytes that it belongs to is gone",
                self._freed_by[0] if self._freed_by else "",
            )
        now = self._extent(value)
        if now is not None and now[0] <= address < now[1]:
            return None
        return Fault(f"the {self._name} that it belongs to was moved or closed")


class DriverMemory(Owner):
    """Memory that only the driver knows: nobody keeps it, but whether it is still the same can be asked.

    Parameters
    ----------
    identity
        What the driver says of an address: something that no other allocation ever equals, or ``None``.
    """

    def __init__(self, address: int, identity: Callable[[int], Hashable]) -> None:
        self._identity = identity
        self._was = identity(address)

    @property
    def key(self) -> Hashable:
        return "driver", self._was

    def fault(self, address: int) -> Fault | None:
        if self._identity(address) == self._was:
            return None
        return Fault("its allocation was given back to the driver by code outside graphcap")
