"""Where the memory of an object lies, for objects of all libraries, by the protocols that they share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.lib.array_utils import byte_bounds

from graphcap.backends.buffer import Buffer

__all__ = ["Declared", "extent", "flattened", "may_move"]

_DEEPEST: Final = 4
_INTERFACES: Final = ("__cuda_array_interface__", "__array_interface__")


class Declared:
    """Memory that somebody says belongs to an object: what ``retain(owner, address=, nbytes=)`` keeps."""

    def __init__(self, owner: object, address: int, nbytes: int) -> None:
        self.owner = owner
        self.low, self.high = address, address + nbytes


def extent(value: Any) -> tuple[int, int] | None:
    """The first byte of an object's memory and the one past its last; ``None`` if there is none, or it is not known.

    Known are graphcap's buffers, whatever has a CUDA or NumPy array interface, CuPy's memory behind an array (so that a view
    counts for all that it keeps), host memory by the buffer protocol, and objects with a ``handle`` and a ``size``
    (``cuda.core.Buffer``).
    """
    if isinstance(value, Declared):
        return value.low, value.high
    if isinstance(value, Buffer):
        return (value.ptr, value.ptr + value.nbytes) if value.ptr else None
    if isinstance(value, np.ndarray):
        low, high = byte_bounds(value)
        return int(low), int(high)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _of_host_bytes(value)
    whole = _of_cupy_memory(value)
    if whole is not None:
        return whole
    for name in _INTERFACES:
        interface = _attribute(value, name)
        if isinstance(interface, Mapping):
            return _of_interface(interface)
    return _of_handle(value)


def may_move(value: Any) -> bool:
    """Whether an object may let go of its memory while it lives: a tensor that is resized, a buffer that is closed.

    graphcap's buffers, NumPy's arrays and bytes that others refer to, and CuPy's arrays do not.
    """
    if isinstance(value, (Buffer, Declared, np.ndarray, bytes, bytearray, memoryview)):
        return False
    return _of_cupy_memory(value) is None


def flattened(values: Iterable[object], depth: int = 0) -> Iterator[object]:
    """All objects that a list of owners keeps: themselves, and what tuples, lists and mappings among them hold."""
    for value in values:
        yield value
        if depth < _DEEPEST:
            if isinstance(value, (tuple, list)):
                yield from flattened(value, depth + 1)
            elif isinstance(value, Mapping):
                yield from flattened(value.values(), depth + 1)


def _of_host_bytes(value: bytes | bytearray | memoryview) -> tuple[int, int] | None:
    try:
        view = np.frombuffer(value, np.uint8)
    except (ValueError, TypeError, BufferError):  # released, or not contiguous: nothing that a copy could use
        return None
    low = int(view.__array_interface__["data"][0])
    return low, low + view.nbytes


def _of_cupy_memory(value: Any) -> tuple[int, int] | None:
    memory = _attribute(_attribute(value, "data"), "mem")
    address, size = _attribute(memory, "ptr"), _attribute(memory, "size")
    if isinstance(address, int) and isinstance(size, int) and address and size:
        return address, address + size
    return None


def _of_interface(interface: Mapping[str, Any]) -> tuple[int, int] | None:
    address = interface["data"][0] if interface.get("data") else 0
    if not address:
        return None
    itemsize = np.dtype(interface["typestr"]).itemsize
    shape = tuple(int(n) for n in interface["shape"])
    low = high = int(address)
    if 0 in shape:
        return low, high
    strides = interface.get("strides")
    if strides is None:
        return low, low + itemsize * int(np.prod(shape, dtype=np.int64))
    for n, stride in zip(shape, strides, strict=True):
        reach = (n - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high + itemsize


def _of_handle(value: Any) -> tuple[int, int] | None:
    size = _attribute(value, "size")
    handle: Any = _attribute(value, "handle") if isinstance(size, int) else None
    try:
        address = int(handle)
    except (TypeError, ValueError):
        return None
    return (address, address + size) if address and size else None


def _attribute(value: Any, name: str) -> Any:
    """An attribute of somebody else's object, which may fail in ways of its own: then its memory is not known."""
    if value is None:
        return None
    try:
        return getattr(value, name, None)
    except Exception:
        return None
