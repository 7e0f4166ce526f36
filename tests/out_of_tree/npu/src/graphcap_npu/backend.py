"""The pretend device as a backend: its streams, its memory, and what it can do."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from graphcap import BackendStatus, Buffer, Capabilities, CaptureForbiddenError, Event, Stream, UnsupportedError
from graphcap.backends.base import Backend
from graphcap.memory import CachingAllocator
from graphcap_npu import device
from graphcap_npu.device import Errors, NPUEvent, NPUStream


class _Segments:
    """Where the memory manager gets its segments from."""

    label = "npu"
    alignment = 512

    def __init__(self) -> None:
        self._segments: dict[int, Any] = {}

    def allocate_segment(self, nbytes: int, stream: int) -> int:
        memory = np.zeros(nbytes + self.alignment, np.uint8)
        address = -(-int(memory.__array_interface__["data"][0]) // self.alignment) * self.alignment
        self._segments[address] = memory
        return address

    def free_segment(self, address: int, nbytes: int) -> None:
        del self._segments[address]

    def record_event(self, stream: int) -> object:
        found = device.streams.get(stream)
        return None if found is None else found.record()

    def query_event(self, event: Any) -> bool:
        return event is None or event.query()

    def synchronize_event(self, event: Any) -> None:
        if event is not None:
            event.synchronize()

    def release_event(self, event: object) -> None:
        return None

    def memory_info(self) -> tuple[int, int] | None:
        return None


class NPUBackend(Backend):
    """One pretend device."""

    name = "NPU"
    capabilities = Capabilities(native_graph=False, capture_modes=frozenset(), legacy_stream=False, asynchronous=True)

    def __init__(self) -> None:
        self.errors = Errors()
        self._allocator = CachingAllocator(_Segments())
        self._default = NPUStream(self, default=True)

    def status(self) -> BackendStatus:
        return BackendStatus(True, capabilities=self.capabilities)

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def device_guard(self, index: int) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def create_stream(self, index: int, *, priority: int = 0, blocking: bool = False) -> Stream:
        if priority:
            raise UnsupportedError(self.name, "Stream(priority=...)", "priorities", "Leave the priority out.")
        return NPUStream(self)

    def wrap_stream(self, stream: object, index: int) -> Stream:
        raise UnsupportedError(self.name, "Stream.wrap()", "wrap_stream", "Use graphcap.Stream('npu').")

    def default_stream(self, index: int) -> Stream:
        return self._default

    def create_event(self, index: int, *, timing: bool = False) -> Event:
        return NPUEvent(self)

    def synchronize(self, index: int) -> None:
        with device.lock:
            if device.open_captures:
                raise device.forbid(
                    CaptureForbiddenError("synchronize()", "a capture is open", "Do it before or after."),
                    *device.open_captures,
                )
        for stream in list(device.streams.values()):
            stream.drain()
        self.errors.raise_first()

    def allocator(self, index: int) -> CachingAllocator:
        return self._allocator

    def allocate(self, nbytes: int, index: int, stream: Stream) -> Buffer:
        if nbytes < 0:
            raise ValueError(f"allocate({nbytes}): the size must not be negative.")
        return Buffer(self, 0, self._allocator.allocate(nbytes, stream.handle) if nbytes else None, nbytes)


npu_backend: Callable[[], NPUBackend] = functools.cache(NPUBackend)
