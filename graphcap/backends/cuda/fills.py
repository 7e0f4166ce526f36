"""Fills of device memory as the driver's memsets: items wider than its widest element are filled word by word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphcap.backends.cuda.operands import Operand
from graphcap.backends.cuda.scalars import FillBinding
from graphcap.backends.parameters import Scalar, fitted

if TYPE_CHECKING:
    from graphcap.backends.cuda.captures import Capture
    from graphcap.backends.cuda.stream import CUDAStream

__all__ = ["fill_bytes", "fill_later"]

_WIDEST = 4
_NAMES = {1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async"}


def fill_bytes(stream: CUDAStream, target: Operand, pattern: bytes) -> None:
    """Submit a fill of memory by a pattern of 1, 2, or a multiple of 4 bytes."""
    width = len(pattern)
    if width <= _WIDEST:
        word = int.from_bytes(pattern, "little")
        stream.submit(_NAMES[width], target.address, word, target.nbytes // width, asked="Stream.fill()")
        return
    for offset in range(0, width, _WIDEST):
        _fill_column(stream, target, offset, pattern)


def fill_later(stream: CUDAStream, target: Operand, value: Scalar, capture: Capture) -> None:
    """Capture a fill whose value may change: each word of the item is a node, and no word is cut short."""
    dtype = np.dtype(np.uint8) if target.dtype is None else target.dtype
    pattern = fitted(value.now(), dtype, "Stream.fill()").tobytes()
    width = min(len(pattern), _WIDEST)
    for offset in range(0, len(pattern), width):
        if len(pattern) <= _WIDEST:
            fill_bytes(stream, target, pattern)
        else:
            _fill_column(stream, target, offset, pattern)
        capture.bindings[stream.last_node()] = FillBinding(value, dtype, offset, width)


def _fill_column(stream: CUDAStream, target: Operand, offset: int, pattern: bytes) -> None:
    """One word of each item: a column of a two-dimensional fill."""
    stream.submit(
        "cuMemsetD2D32Async",
        target.address + offset,
        len(pattern),
        int.from_bytes(pattern[offset : offset + _WIDEST], "little"),
        1,
        target.nbytes // len(pattern),
        asked="Stream.fill()",
    )
