"""The memory in the nodes of a CPU template. A node holds NumPy views, and a view keeps what it was made from.

So nearly all memory is owned by the graph by construction. What is left: views of plain addresses (``ctypes`` objects made by
``from_address`` or from a pointer that C code returned), which keep nothing; and owners that live on but let their memory go:
``ndarray.resize(refcheck=False)``, a ``bytearray`` that grows, a shared memory or ``mmap`` that is closed under an array made
with ``numpy.ndarray(buffer=...)``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.lib.array_utils import byte_bounds

from graphcap.backends.buffer import Buffer
from graphcap.backends.cpu.memory_view import PoolMemory
from graphcap.backends.cpu.native.hazards import pool_memory
from graphcap.backends.cpu.work import Work
from graphcap.backends.extents import extent
from graphcap.backends.lifetimes import PointerUse
from graphcap.backends.owners import Fault, Owner

__all__ = ["RootOwner", "first_write", "pointer_uses", "pool_uses", "root_of"]


class RootOwner(Owner):
    """What a view was made from in the end."""

    def __init__(self, root: Any) -> None:
        self._root = root

    @property
    def key(self) -> Hashable:
        return id(self._root)

    def fault(self, address: int) -> Fault | None:
        root = self._root
        what = f"the {type(root).__name__} that it belongs to"
        if getattr(root, "closed", False) is True:
            return Fault(f"{what} was closed")
        now = _memory_of(root)
        if now is None or now[0] <= address < max(now[1], now[0] + 1):
            return None
        return Fault(f"{what} lies at {now[0]:#x} by now: it was resized")


def root_of(array: Any) -> Any:
    """The object at the end of a view's chain of owners."""
    root = array
    while True:
        if isinstance(root, np.ndarray):
            inner = root.base
        elif isinstance(root, memoryview):
            inner = _exporter(root)
        else:
            return root
        if inner is None:
            return root
        root = inner


def pointer_uses(nodes: Sequence[Work], *, everything: bool) -> Iterator[PointerUse]:
    """The uses of memory that nobody owns; in debug mode all uses, each with its owner.

    Memory of the capture's pool has no owner here: it is found by its address.
    """
    kept: set[int] = set()
    for index, work in enumerate(nodes):
        for views, writes in ((work.reads, False), (work.writes, True)):
            for number, view in enumerate(views):
                if not everything and _is_plainly_kept(view, kept):
                    continue
                root = root_of(view)
                if _is_raw(root):
                    owner = None
                elif everything:
                    owner = None if isinstance(root, PoolMemory) else RootOwner(root)
                else:
                    kept.add(id(view.base))
                    continue
                low, high = byte_bounds(view)
                node, at = f"node {index} ({work.kind} {work.name!r})", f"{'write' if writes else 'read'} {number}"
                yield PointerUse(node, at, low, high - low, not writes, writes, True, index, owner)


def _is_plainly_kept(view: Any, kept: set[int]) -> bool:
    """The usual cases, quickly: an array of its own, one of the capture's memory, or one of a base that was looked at."""
    base = view.base
    if base is None or id(base) in kept:
        return True
    if type(base) is np.ndarray:
        inner = base.base
        return inner is None or type(inner) is PoolMemory
    return False


def first_write(nodes: Sequence[Work], position: int, low: int, high: int) -> int | None:
    """The first node from `position` on that writes some of the memory from `low` to `high`."""
    for index in range(position, len(nodes)):
        for view in nodes[index].writes:
            start, end = byte_bounds(view)
            if start < high and low < end:
                return index
    return None


def pool_uses(nodes: Sequence[Work], touched: Sequence[tuple[int, int]] | None) -> Iterator[PointerUse]:
    """What each node reads and writes, exactly.

    Parameters
    ----------
    touched
        The memory of the capture's own that replays touch at all; ``None`` for all of it.
    """
    ranges = None if touched is None else set(touched)
    for index, work in enumerate(nodes):
        node = f"node {index} ({work.kind} {work.name!r})"
        for place, views, writes in (("read", work.reads, False), ("write", work.writes, True)):
            for number, view in enumerate(views):
                memory = pool_memory(view)
                if ranges is not None and memory is not None and memory.range not in ranges:
                    continue  # kept in scratch memory
                low, high = byte_bounds(view)
                yield PointerUse(node, f"{place} {number}", low, high - low, not writes, writes, True, index)


def _exporter(view: memoryview) -> Any:
    try:
        return view.obj
    except ValueError:  # released
        return None


def _memory_of(root: Any) -> tuple[int, int] | None:
    """Where the memory of a root lies now; ``None`` where that cannot be asked."""
    if isinstance(root, np.ndarray):
        low, high = byte_bounds(root)
        return int(low), int(high)
    if isinstance(root, Buffer):
        return extent(root)
    try:
        view = np.frombuffer(root, np.uint8)
    except (TypeError, BufferError, AttributeError):
        return None  # no buffer: an object with an array interface, say
    except ValueError:  # released, closed, or empty
        return (0, 0)
    low = int(view.__array_interface__["data"][0])
    return low, low + view.nbytes


def _is_raw(root: Any) -> bool:
    """Whether it is a ``ctypes`` object over an address that it does not keep."""
    while getattr(root, "_b_needsfree_", 1) == 0:
        outer = root._b_base_
        if outer is None:
            return True
        if hasattr(outer, "contents"):
            return not _keeps_memory(outer, 0)
        root = outer
    return False


def _keeps_memory(pointer: Any, depth: int) -> bool:
    """Whether a ``ctypes`` pointer was made from an object with memory of its own; other pointers are not that."""
    for kept in (pointer._objects or {}).values():
        if hasattr(kept, "contents"):
            if depth < _DEEPEST and _keeps_memory(kept, depth + 1):
                return True
        elif not isinstance(getattr(kept, "_type_", None), str):  # a single number is no memory worth the name
            return True
    return False


_DEEPEST: Final = 4
