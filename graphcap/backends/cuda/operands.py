"""What copies, fills and kernels are given: device memory or host memory, as an address, a size and an owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphcap.backends.buffer import Buffer

__all__ = ["Operand", "device_operand", "operand", "pattern_of"]


@dataclass(slots=True)
class Operand:
    """Contiguous memory.

    Attributes
    ----------
    address, nbytes
        Where and how much.
    on_device
        Device memory; otherwise the host's.
    owner
        Keeps the memory alive.
    dtype
        The element type; ``None`` for an untyped buffer.
    read_only
        It may not be written.
    """

    address: int
    nbytes: int
    on_device: bool
    owner: object
    dtype: np.dtype[Any] | None = None
    read_only: bool = False


def operand(value: Any, what: str) -> Operand:
    """The memory behind a device buffer, an array of the device, or a host array.

    Raises
    ------
    TypeError
        `value` is none of these.
    ValueError
        It is not contiguous.
    """
    found = device_operand(value, what)
    if found is not None:
        return found
    if isinstance(value, (bytes, bytearray, memoryview)):
        view = np.frombuffer(value, np.uint8)
    elif isinstance(value, np.ndarray) or hasattr(value, "__array_interface__"):
        view = np.asarray(value)
    else:
        raise TypeError(
            f"{what}: expected a device buffer, an object with __cuda_array_interface__, or a host array, not "
            f"{type(value).__name__}."
        )
    if view.dtype.hasobject:
        raise TypeError(f"{what}: an array of Python objects cannot be copied to a device.")
    if not view.flags.c_contiguous:
        raise ValueError(f"{what}: the array is not contiguous. Use numpy.ascontiguousarray().")
    address = int(view.__array_interface__["data"][0])
    # The view is kept too: it holds what exported the memory, be it a buffer that could otherwise be resized.
    return Operand(address, view.nbytes, False, (value, view), view.dtype, not view.flags.writeable)


def device_operand(value: Any, what: str) -> Operand | None:
    """The device memory behind `value`; ``None`` if it is no device memory."""
    if isinstance(value, Buffer):
        if getattr(value, "on_host", False):
            return None
        return Operand(value.ptr, value.nbytes, True, value)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        return None
    dtype = np.dtype(interface["typestr"])
    shape = tuple(int(n) for n in interface["shape"])
    address, read_only = interface["data"]
    if not _is_contiguous(shape, interface.get("strides"), dtype.itemsize):
        raise ValueError(f"{what}: the device array is not contiguous (C order). Make a contiguous copy of it.")
    nbytes = dtype.itemsize
    for n in shape:
        nbytes *= n
    return Operand(int(address), nbytes, True, value, dtype, bool(read_only))


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int) -> bool:
    if strides is None or 0 in shape:
        return True
    expected = itemsize
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != expected:
            return False
        expected *= n
    return True


def pattern_of(value: float | complex, dtype: np.dtype[Any] | None) -> bytes:
    """The bytes of one item set to `value`, cut to the shortest pattern that repeats.

    Raises
    ------
    ValueError
        `value` does not fit the item.
    """
    item = np.empty((), np.uint8 if dtype is None else dtype)
    try:
        with np.errstate(over="raise", invalid="raise"):
            item[...] = value
    except (OverflowError, FloatingPointError, TypeError, ValueError) as error:
        raise ValueError(f"fill(): {value!r} does not fit an item of type {item.dtype}.") from error
    data = item.tobytes()
    for width in (1, 2, 4):
        if len(data) % width == 0 and data == data[:width] * (len(data) // width):
            return data[:width]
    return data
