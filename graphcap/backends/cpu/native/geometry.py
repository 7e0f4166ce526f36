"""Iteration spaces: dropping, ordering and merging dimensions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Space", "address", "simplify"]


class Space(NamedTuple):
    """An iteration space with the byte strides of each operand in it; the last dimension is the inner one."""

    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for extent in self.shape:
            size *= extent
        return size


def address(array: np.ndarray[Any, Any]) -> int:
    """The address of the first element."""
    found: int = array.__array_interface__["data"][0]
    return found


def simplify(shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> Space:
    """Drop dimensions of extent 1, order the others from far to near, merge those that all operands step through alike.

    Only the order of the elements changes, never which elements meet; so it suits work whose elements are independent.
    """
    kept = [d for d, extent in enumerate(shape) if extent != 1]
    if len(kept) > 1:
        kept.sort(key=lambda d: max(abs(s[d]) for s in strides), reverse=True)
    merged: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for d in kept:
        extent = shape[d]
        if merged and all(step[-1] == s[d] * extent for step, s in zip(steps, strides, strict=True)):
            merged[-1] *= extent
            for step, s in zip(steps, strides, strict=True):
                step[-1] = s[d]
        else:
            merged.append(extent)
            for step, s in zip(steps, strides, strict=True):
                step.append(s[d])
    if not merged:
        return Space((1,), tuple((0,) for _ in strides))
    return Space(tuple(merged), tuple(tuple(step) for step in steps))
