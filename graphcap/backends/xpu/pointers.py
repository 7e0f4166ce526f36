"""The addresses in the nodes of an XPU template.

Everything that comes through graphcap holds its memory itself. What is left: addresses that a kernel is given as plain numbers,
and, on the native tier, nodes that were submitted to a queue past graphcap, of which SYCL tells nothing but their kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from graphcap.backends.lifetimes import PointerUse
from graphcap.backends.owners import KeptObject, Owner, Retained
from graphcap.backends.xpu import _dpctl
from graphcap.backends.xpu.describe import describe
from graphcap.backends.xpu.recording import Recording
from graphcap.backends.xpu.work import Work
from graphcap.topology import NodeKind

__all__ = ["memory_extent", "pointer_uses"]

_LOWEST: Final = 1 << 16
_HIGHEST: Final = 1 << 57


def pointer_uses(recording: Recording) -> Iterator[PointerUse]:
    """The uses of memory, node by node."""
    positions = range(len(recording.nodes)) if recording.native is None else recording.native.indices
    for position, work in zip(positions, recording.nodes, strict=True):
        yield from _uses(work, f"node {position} ({work.kind} {work.name!r})", position)
    if recording.native is not None and recording.has_foreign_nodes:
        for node in describe(recording).nodes:
            if node.name.startswith("sycl_") and node.kind not in (NodeKind.EMPTY, NodeKind.HOST):
                yield PointerUse(f"node {node.id} ({node.kind})", "submitted to the queue past graphcap", 0)


def _uses(work: Work, node: str, position: int) -> Iterator[PointerUse]:
    if work.kind is NodeKind.HOST:
        return
    for index, (value, reads, writes) in enumerate(_operands(work)):
        if isinstance(value, (np.generic, np.ndarray)) and work.kind is NodeKind.KERNEL:
            raw = value.tobytes()
            for place in range(0, len(raw) - 7, 8):
                word = int.from_bytes(raw[place : place + 8], "little")
                if _LOWEST <= word < _HIGHEST:
                    at = f"argument {index}" + (f" at byte {place}" if place else "")
                    yield PointerUse(node, at, word, certain=False, position=position)
            continue
        found = memory_extent(value)
        if found is not None:
            owner: Owner = Retained(value, memory_extent)
            at = f"argument {index}" if work.kind is NodeKind.KERNEL else ("destination", "source")[min(index, 1)]
            yield PointerUse(node, at, found[0], found[1] - found[0], reads, writes, position=position, owner=owner)


def _operands(work: Work) -> list[tuple[Any, bool, bool]]:
    if work.kind is NodeKind.MEMCPY:
        return [(work.owners[0], False, True), (work.owners[1], True, False)]
    if work.kind is NodeKind.MEMSET:
        return [(work.owners[0], False, True)]
    return [(value, True, True) for value in work.owners[:-1]]  # the last one is the kernel


def memory_extent(value: Any) -> tuple[int, int] | None:
    """The first byte of USM or host memory and the one past its last; ``None`` if `value` has none."""
    address = getattr(value, "ptr", None) or getattr(value, "_pointer", None)
    nbytes = getattr(value, "nbytes", None)
    if isinstance(address, int) and isinstance(nbytes, int) and address:
        return address, address + nbytes
    array = getattr(value, "_array_obj", None)  # dpnp's arrays wrap dpctl's
    if array is not None:
        return memory_extent(array)
    if isinstance(value, np.ndarray) and value.nbytes:
        low = int(value.__array_interface__["data"][0])
        return low, low + value.nbytes
    return None


def known_outside(address: int, queue: Any) -> tuple[Owner | None, str] | None:
    """What SYCL says of an address that nobody in graphcap knows."""
    owner = KeptObject(None)
    try:
        kind = _dpctl.memory_at(address, 1, queue, owner).get_usm_type()
    except ValueError:  # no USM of this context
        return None
    return None, f"USM {kind} memory of another library"
