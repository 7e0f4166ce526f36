"""Host memory as segments for the pool manager."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from graphcap.errors import OutOfMemoryError

__all__ = ["HostSegments"]

_ALIGNMENT: Final = 512


class HostSegments:
    """A segment source over the host's heap.

    Segments are NumPy byte arrays kept by address. CPU work runs at once, so an event is done when it is recorded.
    """

    label = "cpu"
    alignment = _ALIGNMENT

    def __init__(self) -> None:
        self._segments: dict[int, np.ndarray[Any, Any]] = {}

    def allocate_segment(self, nbytes: int, stream: int) -> int:
        try:
            memory = np.empty(nbytes + _ALIGNMENT, np.uint8)
        except (MemoryError, ValueError) as error:  # ValueError: more than NumPy can index
            raise OutOfMemoryError(
                f"a segment of {nbytes} bytes", "the host has not that much memory", requested=nbytes
            ) from error
        address: int = -(-memory.ctypes.data // _ALIGNMENT) * _ALIGNMENT
        self._segments[address] = memory
        return address

    def free_segment(self, address: int, nbytes: int) -> None:
        del self._segments[address]

    def record_event(self, stream: int) -> object:
        return None

    def query_event(self, event: object) -> bool:
        return True

    def synchronize_event(self, event: object) -> None:
        return None

    def release_event(self, event: object) -> None:
        return None

    def memory_info(self) -> tuple[int, int] | None:
        return None

    def fill(self, address: int, nbytes: int, value: int, stream: int) -> None:
        _bytes_at(address, nbytes)[...] = value

    def read(self, address: int, nbytes: int, stream: int) -> bytes:
        return _bytes_at(address, nbytes).tobytes()


class _Memory:
    def __init__(self, address: int, nbytes: int) -> None:
        self.__array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 3}


def _bytes_at(address: int, nbytes: int) -> np.ndarray[Any, Any]:
    return np.asarray(_Memory(address, nbytes))
