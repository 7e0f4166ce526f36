"""USM memory as segments for the pool manager: one source per device and kind of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from graphcap.backends.xpu import _dpctl
from graphcap.errors import OutOfMemoryError
from graphcap.interface import MempoolId
from graphcap.memory import CachingAllocator

if TYPE_CHECKING:
    from graphcap.backends.xpu.backend import XPUBackend

__all__ = ["USM_KINDS", "DeviceAllocator", "USMSegments"]

USM_KINDS: Final = ("device", "shared", "host")
_ALIGNMENT: Final = 512


class USMSegments:
    """A segment source over ``sycl::malloc_device``, ``malloc_shared`` or ``malloc_host``.

    Segments are dpctl memory objects kept by address. SYCL's free neither waits nor follows a queue's order, so the
    whole device is waited for first.
    """

    alignment = _ALIGNMENT

    def __init__(self, backend: XPUBackend, device_index: int, kind: str) -> None:
        self._backend = backend
        self._device_index = device_index
        self._kind = kind
        self._segments: dict[int, Any] = {}

    @property
    def label(self) -> str:
        return f"{self._backend.name.lower()}:{self._device_index}"

    def allocate_segment(self, nbytes: int, stream: int) -> int:
        queue = self._backend.service_queue(self._device_index)
        try:
            memory = _dpctl.usm_memory(self._kind, nbytes, queue, _ALIGNMENT)
        except (_dpctl.AllocationError, ValueError, OverflowError) as error:
            raise OutOfMemoryError(
                f"a segment of {nbytes} bytes of USM {self._kind} memory",
                f"{self.label} cannot give it ({error})",
                requested=nbytes,
            ) from error
        address = int(memory._pointer)
        self._segments[address] = memory
        return address

    def free_segment(self, address: int, nbytes: int) -> None:
        self._backend.wait_for_device(self._device_index)
        del self._segments[address]

    def record_event(self, stream: int) -> object:
        return self._backend.point_of(stream, self._device_index)

    def query_event(self, event: Any) -> bool:
        return bool(event.is_done())

    def synchronize_event(self, event: Any) -> None:
        event.wait()

    def release_event(self, event: Any) -> None:
        return None

    def memory_info(self) -> tuple[int, int] | None:
        return self._backend.memory_info(self._device_index)

    # For the pool manager's debug mode; not called while a capture is open.

    def fill(self, address: int, nbytes: int, value: int, stream: int) -> None:
        self._move(address, nbytes, lambda queue, memory: queue.memcpy(memory, bytes([value]) * nbytes, nbytes))

    def read(self, address: int, nbytes: int, stream: int) -> bytes:
        found = bytearray(nbytes)
        self._move(address, nbytes, lambda queue, memory: queue.memcpy(found, memory, nbytes))
        return bytes(found)

    def _move(self, address: int, nbytes: int, copy: Callable[[Any, Any], None]) -> None:
        self._backend.wait_for_device(self._device_index)
        queue = self._backend.service_queue(self._device_index)
        copy(queue, _dpctl.memory_at(address, nbytes, queue, self))


class DeviceAllocator(CachingAllocator):
    """The manager of device memory, which is the one that users reach by a device string.

    Parameters
    ----------
    others
        The managers of shared and host memory of the same device; they empty their caches together with this one.
    """

    def __init__(self, source: USMSegments, others: Callable[[], list[CachingAllocator]]) -> None:
        super().__init__(source)
        self._others = others

    def empty_cache(self, pool_id: MempoolId | None = None) -> int:
        """As :meth:`CachingAllocator.empty_cache`, for all kinds of memory of the device."""
        return super().empty_cache(pool_id) + sum(other.empty_cache(pool_id) for other in self._others())
