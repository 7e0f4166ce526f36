"""What copies, fills and kernels are given: device memory or host memory, as an address, a size and an owner."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from graphcap.backends import guests
from graphcap.backends.buffer import Buffer
from graphcap.backends.cuda.context import DeviceGuard
from graphcap.backends.extents import Declared
from graphcap.errors import UnsupportedError

__all__ = ["Operand", "device_operand", "operand", "pattern_of"]

_NAMES_A_STREAM: Final = 3
"""The version of the CUDA array interface that has a stream."""
_NO_ORDER: Final = -1
"""DLPack's number for a consumer that orders nothing."""


def _nobody() -> int:
    return _NO_ORDER


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
    stream
        The stream that must be waited for before the memory is used, as its array interface says; 0 for none.
    shape
        Of an array; ``None`` for an untyped buffer.
    """

    address: int
    nbytes: int
    on_device: bool
    owner: object
    dtype: np.dtype[Any] | None = None
    read_only: bool = False
    stream: int = 0
    shape: tuple[int, ...] | None = None


def operand(value: Any, what: str, consumer: Callable[[], int] = _nobody) -> Operand:
    """The memory behind a device buffer, an array of the device, or a host array.

    Parameters
    ----------
    consumer
        Gives DLPack's number of the stream that will use it, for libraries that make it wait themselves.

    Raises
    ------
    TypeError
        `value` is none of these.
    ValueError
        It is not contiguous.
    """
    found = device_operand(value, what, consumer)
    if found is not None:
        return found
    if isinstance(value, (bytes, bytearray, memoryview)):
        view = np.frombuffer(value, np.uint8)
    elif isinstance(value, np.ndarray) or hasattr(value, "__array_interface__"):
        view = np.asarray(value)
    else:
        guest = guests.host_array(value, what)
        if guest is None:
            raise TypeError(
                f"{what}: expected a device buffer, an object with __cuda_array_interface__ or __dlpack__, or a host array, "
                f"not {type(value).__name__}."
            )
        view = guest
    if view.dtype.hasobject:
        raise TypeError(f"{what}: an array of Python objects cannot be copied to a device.")
    if not view.flags.c_contiguous:
        raise ValueError(f"{what}: the array is not contiguous. Use numpy.ascontiguousarray().")
    address = int(view.__array_interface__["data"][0])
    # The view is kept too: it holds what exported the memory, be it a buffer that could otherwise be resized.
    return Operand(address, view.nbytes, False, (value, view), view.dtype, not view.flags.writeable)


def device_operand(value: Any, what: str, consumer: Callable[[], int] = _nobody) -> Operand | None:
    """The device memory behind `value`; ``None`` if it is no device memory. Parameters and errors as of :func:`operand`."""
    if isinstance(value, Buffer):
        if getattr(value, "on_host", False):
            return None
        return Operand(value.ptr, value.nbytes, True, value)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None or (interface.get("version", 0) < _NAMES_A_STREAM and hasattr(type(value), "__dlpack__")):
        # An older interface (PyTorch's) cannot say what is to be waited for; DLPack lets the library do it.
        return _by_dlpack(value, what, consumer)
    dtype = np.dtype(interface["typestr"])
    shape = tuple(int(n) for n in interface["shape"])
    address, read_only = interface["data"]
    if not _is_contiguous(shape, interface.get("strides"), dtype.itemsize):
        raise ValueError(f"{what}: the device array is not contiguous (C order). Make a contiguous copy of it.")
    stream = interface.get("stream")
    if stream == 0:
        raise ValueError(f"{what}: its array interface names stream 0; the legacy default stream is 1.")
    nbytes = dtype.itemsize * prod(shape)
    return Operand(int(address), nbytes, True, value, dtype, bool(read_only), int(stream or 0), shape)


def _by_dlpack(value: Any, what: str, consumer: Callable[[], int]) -> Operand | None:
    if isinstance(value, np.ndarray):
        return None
    device = guests.dlpack_device(value)
    if device is None or device[0] not in guests.CUDA_MEMORY:
        return None
    if type(value).__module__.startswith("cuda.core") and hasattr(type(value), "from_handle"):
        # A Buffer: bytes without a type, as graphcap's own.
        return Operand(int(value.handle), int(value.size), True, value)
    try:
        utils: Any = importlib.import_module("cuda.core.utils")
    except ImportError as error:
        raise UnsupportedError("CUDA", f"{what} by DLPack", "dlpack", "pip install cuda-core") from error
    with DeviceGuard(device[1]):  # the library may ask the driver, on a thread that has no context yet
        view = utils.StridedMemoryView.from_dlpack(value, stream_ptr=consumer())
    dtype = view.dtype
    if dtype is None:
        raise TypeError(f"{what}: NumPy lacks the item type of this {type(value).__name__}. View it as integers.")
    shape = tuple(int(n) for n in view.shape)
    strides = None if view.strides is None else tuple(int(n) * dtype.itemsize for n in view.strides)
    if not _is_contiguous(shape, strides, dtype.itemsize):
        raise ValueError(f"{what}: the device array is not contiguous (C order). Make a contiguous copy of it.")
    address, nbytes = int(view.ptr), dtype.itemsize * prod(shape)
    # The view holds the capsule, and that whatever the library keeps for it.
    owner = Declared((value, view), address, nbytes)
    return Operand(address, nbytes, True, owner, dtype, bool(view.readonly), 0, shape)


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
