"""Plain NumPy views of whatever the CPU backend is given."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from graphcap.backends.buffer import Buffer
from graphcap.backends.guests import host_array

__all__ = ["CPUBuffer", "PoolMemory", "plain", "writable"]


class CPUBuffer(Buffer):
    """A buffer of host memory. ``numpy.asarray(buffer)`` is a view of its bytes."""

    __slots__ = ()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.ptr, False), "version": 3}

    def __dlpack__(self, **options: Any) -> Any:
        return np.asarray(self).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU

    @property
    def graphcap_data(self) -> np.ndarray[Any, Any]:
        """The bytes as a plain view that keeps the buffer alive."""
        return np.asarray(self)


class PoolMemory:
    """The memory of a buffer by address, without ownership; `owner` tells whether anybody can still reach it.

    Nodes of a capture hold arrays over this, so that memory which the captured program has dropped is handed out again.
    """

    __slots__ = ("__array_interface__", "nbytes", "owner", "ptr")

    def __init__(self, buffer: Buffer, nbytes: int) -> None:
        self.ptr = buffer.ptr
        self.nbytes = nbytes
        self.owner = weakref.ref(buffer)
        self.__array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (buffer.ptr, False), "version": 3}

    @property
    def range(self) -> tuple[int, int]:
        """The address of the first byte, and of the one past the last."""
        return self.ptr, self.ptr + self.nbytes


def plain(value: Any, what: str, *, others: bool = False) -> Any:
    """The plain ``numpy.ndarray`` view of an array, of a buffer, of a NumPy array itself, or of another library's array.

    Parameters
    ----------
    others
        Pass anything else through unchanged instead of refusing it.

    Raises
    ------
    TypeError
        `value` is none of these, or its library does not export it (see :func:`graphcap.backends.guests.host_array`).
    """
    if type(value) is np.ndarray:
        return value
    data = getattr(value, "graphcap_data", None)
    if data is not None:
        return data
    if isinstance(value, np.ndarray):
        return value.view(np.ndarray)
    if others:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return np.frombuffer(value, np.uint8)
    guest = host_array(value, what)
    if guest is not None:
        return guest
    raise TypeError(f"{what}: expected an array or a buffer of the CPU, not {type(value).__name__}.")


def writable(value: Any, what: str) -> Any:
    """As :func:`plain`; raises ``ValueError`` if the memory is read-only."""
    view = plain(value, what)
    if not view.flags.writeable:
        raise ValueError(f"{what}: the memory is read-only.")
    return view
