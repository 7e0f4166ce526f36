"""Segments for the pool managers: device memory, and pinned host memory with a pool manager of its own."""

from __future__ import annotations

from graphcap.backends.cuda import _calls as calls
from graphcap.backends.cuda import _driver as driver
from graphcap.backends.cuda.context import DeviceGuard, Relaxed

__all__ = ["DeviceSegments", "PinnedSegments"]

_INVALID_HANDLE = 400
_LEGACY = 1


class _Events:
    """The events of a segment source; those given back are used again."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._spare: list[int] = []

    def record_event(self, stream: int) -> int:
        with DeviceGuard(self._device), Relaxed():
            event = self._spare.pop() if self._spare else calls.create_event(timing=False)
            try:
                code, _ = driver.answer("cuEventRecord", event, stream)
                if code == _INVALID_HANDLE:
                    # Its library has destroyed the stream, whose work may still run: after a wait for all there is, it does not.
                    driver.call("cuCtxSynchronize")
                    driver.call("cuEventRecord", event, _LEGACY)
                else:
                    driver.check("cuEventRecord", code)
            except BaseException:
                self._spare.append(event)
                raise
            return event

    def query_event(self, event: int) -> bool:
        with DeviceGuard(self._device), Relaxed():
            return calls.event_is_done(event)

    def synchronize_event(self, event: int) -> None:
        with DeviceGuard(self._device), Relaxed():
            driver.call("cuEventSynchronize", event)

    def release_event(self, event: int) -> None:
        self._spare.append(event)

    def destroy_spare_events(self) -> None:
        """Give the events that nobody uses back to the driver."""
        with DeviceGuard(self._device), Relaxed():
            while self._spare:
                driver.call("cuEventDestroy", self._spare[-1])
                self._spare.pop()


class DeviceSegments(_Events):
    """A segment source over ``cuMemAlloc``.

    Segments are made during captures too: the thread is relaxed meanwhile, so that the capture does not break (S-C21).
    """

    alignment = 256

    def __init__(self, device: int) -> None:
        super().__init__(device)
        self.label = f"cuda:{device}"

    def allocate_segment(self, nbytes: int, stream: int) -> int:
        with DeviceGuard(self._device), Relaxed():
            return calls.allocate(nbytes)

    def free_segment(self, address: int, nbytes: int) -> None:
        # cuMemFree waits for the work that may still use the memory.
        with DeviceGuard(self._device), Relaxed():
            calls.free(address)

    def memory_info(self) -> tuple[int, int] | None:
        with DeviceGuard(self._device), Relaxed():
            return calls.memory_info()

    def fill(self, address: int, nbytes: int, value: int, stream: int) -> None:
        with DeviceGuard(self._device):
            driver.call("cuMemsetD8Async", address, value, nbytes, stream)

    def read(self, address: int, nbytes: int, stream: int) -> bytes:
        host = bytearray(nbytes)
        with DeviceGuard(self._device):
            driver.call("cuStreamSynchronize", stream)
            driver.call(
                "cuMemcpyDtoH", int(driver.ffi().cast("uintptr_t", driver.ffi().from_buffer(host))), address, nbytes
            )
        return bytes(host)


class PinnedSegments(_Events):
    """A segment source over page-locked host memory."""

    alignment = 64

    def __init__(self, device: int) -> None:
        super().__init__(device)
        self.label = f"cuda-pinned:{device}"

    def allocate_segment(self, nbytes: int, stream: int) -> int:
        with DeviceGuard(self._device), Relaxed():
            return calls.allocate_host(nbytes)

    def free_segment(self, address: int, nbytes: int) -> None:
        with DeviceGuard(self._device), Relaxed():
            calls.free_host(address)

    def memory_info(self) -> tuple[int, int] | None:
        return None
