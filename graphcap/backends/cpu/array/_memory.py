"""Memory of arrays: from the CPU's memory manager, and so from a capture's private pool while its stream captures.

An array holds two plain views of its memory. The *owning* view has the :class:`Buffer` at the end of its ``base``
chain: whoever has it, or a view of it, keeps the memory. The *pool* view does not. Work recorded on arrays that were made
in the same capture uses pool views, so that memory which the captured program has dropped is handed out again within the
capture, and the graph needs no more of it than the program did; the graph's use of the pool keeps the segment.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphcap.backends.buffer import Buffer
from graphcap.backends.cpu.backend import cpu_backend
from graphcap.backends.cpu.memory_view import PoolMemory
from graphcap.backends.cpu.stream import CPUStream
from graphcap.backends.streams import current_stream

__all__ = [
    "Plain",
    "allocate",
    "axes_by_stride",
    "axes_of_iteration",
    "current",
    "dense_strides",
    "is_managed",
    "same_strides",
]

Plain = np.ndarray[Any, Any]


def current() -> CPUStream:
    """The calling thread's current CPU stream."""
    stream = current_stream(cpu_backend(), 0)
    assert isinstance(stream, CPUStream), "the current stream of the CPU is a CPU stream"
    return stream


def is_managed(dtype: np.dtype[Any]) -> bool:
    """Whether items of `dtype` can live in raw memory; those with references in them are left to NumPy."""
    return not dtype.hasobject and dtype.kind != "T"


def allocate(
    shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...] | None, stream: CPUStream
) -> tuple[Plain, Plain, Buffer | None]:
    """Memory for one array, on `stream`: owning view, pool view, buffer.

    Parameters
    ----------
    strides
        None negative, none overlapping; C order if not given. See :func:`dense_strides`, :func:`same_strides`.

    Raises
    ------
    OutOfMemoryError
        The memory cannot be had.
    """
    nbytes = dtype.itemsize
    if strides is None or 0 in shape:
        for length in shape:
            nbytes *= length
    else:
        nbytes += sum((length - 1) * step for length, step in zip(shape, strides, strict=True))
    if nbytes == 0 or not is_managed(dtype):
        plain: Plain = np.empty(shape, dtype)
        if strides is not None:
            plain = _in_order(plain, strides)
        return plain, plain, None
    buffer = cpu_backend().allocate(nbytes, 0, stream)
    owning: Plain = np.ndarray(shape, dtype, np.asarray(buffer), 0, strides)
    pool: Plain = np.ndarray(shape, dtype, np.asarray(PoolMemory(buffer, nbytes)), 0, strides)
    return owning, pool, buffer


def dense_strides(shape: tuple[int, ...], like: tuple[int, ...], itemsize: int) -> tuple[int, ...] | None:
    """Strides of a dense array of `shape` whose axes lie in memory as those with the strides `like`; None for C order."""
    axes = axes_by_stride(like)
    if axes == list(range(len(shape))):
        return None
    strides = [0] * len(shape)
    step = itemsize
    for axis in reversed(axes):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def axes_by_stride(strides: tuple[int, ...]) -> list[int]:
    """The axes from outermost to innermost in memory, as NumPy's "K" order has them (stable: ties keep C order)."""
    return sorted(range(len(strides)), key=lambda axis: -abs(strides[axis]))


def axes_of_iteration(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """The axes from outermost to innermost as NumPy walks an array in "K" order.

    As :func:`axes_by_stride`, but an axis along which nothing moves (broadcast, or of one item) is not compared with others: it stays
    where it is, so that ``broadcast_to(x, (2, n)).ravel("K")`` repeats the row and not the items.
    """
    inward: list[int] = []  # innermost first; each axis goes inwards past those whose strides are larger
    for axis in reversed(range(len(shape))):
        own = abs(strides[axis]) if shape[axis] != 1 else 0
        place = len(inward)
        for index in reversed(range(len(inward))):
            other = abs(strides[inward[index]]) if shape[inward[index]] != 1 else 0
            if not own or not other:
                continue
            if other <= own:
                break
            place = index
        inward.insert(place, axis)
    return inward[::-1]


def same_strides(data: Plain) -> tuple[int, ...] | None:
    """Strides for an array laid out as `data`, with its gaps; dense where that cannot be written to. None for C order."""
    if data.flags.c_contiguous or data.dtype.itemsize == 0:
        return None
    if min(data.strides) <= 0 or 0 in data.shape:
        return dense_strides(data.shape, data.strides, data.itemsize)
    return data.strides


def _in_order(plain: Plain, strides: tuple[int, ...]) -> Plain:
    axes = axes_by_stride(strides)
    dense = plain.reshape(tuple(plain.shape[axis] for axis in axes))
    ordered: Plain = dense.transpose(np.argsort(axes))
    return ordered
