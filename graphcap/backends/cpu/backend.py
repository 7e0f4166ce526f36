"""The CPU as a backend: one device, its streams and its memory."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from graphcap.backends.base import Backend, BackendStatus, Capabilities, one_object
from graphcap.backends.buffer import Buffer
from graphcap.backends.cpu import captures
from graphcap.backends.cpu.memory_view import CPUBuffer, plain, writable
from graphcap.backends.cpu.source import HostSegments
from graphcap.backends.cpu.stream import CPUEvent, CPUStream
from graphcap.backends.guests import host_array
from graphcap.backends.host_errors import HostErrors
from graphcap.backends.streams import Event, Stream
from graphcap.errors import UnsupportedError
from graphcap.memory import CachingAllocator

__all__ = ["CPUBackend", "cpu_backend"]


class CPUBackend(Backend):
    """All cores of the host as one device, ``"cpu"``."""

    name = "CPU"
    capabilities = Capabilities(
        native_graph=False,
        event_timing=True,
        external_events=True,
        array_namespace=True,
        host_can_read=True,
        parameters=True,
    )

    def __init__(self) -> None:
        self.host_errors = HostErrors()
        self._allocator = CachingAllocator(HostSegments())
        self._default = CPUStream(self, blocking=True, default=True)

    def status(self) -> BackendStatus:
        return BackendStatus(True, capabilities=self.capabilities, details={"device": platform.processor() or "CPU"})

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def device_guard(self, index: int) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def create_stream(self, device: int, *, priority: int = 0, blocking: bool = False) -> Stream:
        if priority:
            raise UnsupportedError(self.name, "Stream(priority=...)", "priorities", "Leave the priority out.")
        return CPUStream(self, blocking=blocking)

    def wrap_stream(self, stream: object, device: int) -> Stream:
        raise UnsupportedError(self.name, "Stream.wrap()", "wrap_stream", "Use graphcap.Stream('cpu').")

    def default_stream(self, device: int) -> Stream:
        return self._default

    def create_event(self, device: int, *, timing: bool = False) -> Event:
        return CPUEvent(self, timing=timing)

    def synchronize(self, device: int) -> None:
        captures.check_device_call("synchronize()")
        self.host_errors.raise_first()

    def allocator(self, device: int) -> CachingAllocator:
        return self._allocator

    def allocate(self, nbytes: int, device: int, stream: Stream) -> Buffer:
        if nbytes < 0:
            raise ValueError(f"allocate({nbytes}): the size must not be negative.")
        block = self._allocator.allocate(nbytes, stream.handle) if nbytes else None
        return CPUBuffer(self, 0, block, nbytes)

    def array_key(self, value: Any) -> Hashable | None:
        if type(value) is not np.ndarray:
            data = getattr(value, "graphcap_data", None)
            value = host_array(value, "an array argument") if data is None else data
            if value is None:
                return None
        return value.shape, value.dtype

    def clone_array(self, value: Any, stream: Stream) -> Any:
        own = value if hasattr(value, "graphcap_data") else plain(value, "an array argument")
        with stream:
            return self.array_namespace(0).asarray(own, copy=True)

    def load_array(self, target: Any, value: Any, stream: Stream) -> None:
        if target is not value:
            own = getattr(target, "graphcap_data", None)
            np.copyto(writable(target, "a bound array") if own is None else own, plain(value, "an input"))

    def loader(self, target: Any) -> Callable[[Any, Stream], None]:
        own = getattr(target, "graphcap_data", None)
        memory = writable(target, "a bound array") if own is None else own
        ndarray = np.ndarray

        def load(value: Any, stream: Stream) -> None:
            if value is not target:
                memory[...] = value if type(value) is ndarray else plain(value, "an input")

        return load

    def store_array(self, target: Any, value: Any, stream: Stream) -> None:
        if hasattr(target, "__setitem__"):
            target[...] = value  # nothing is recorded where the two are the same memory
        else:
            stream.copy(target, value)

    def adopt_array(self, value: Any) -> Any:
        return value if hasattr(value, "graphcap_data") else self.array_namespace(0).asarray(value)

    def result_array(self, value: Any, stream: Stream, like: Any) -> Any:
        if type(like) is np.ndarray:  # the caller works with plain arrays
            return getattr(value, "graphcap_data", value).copy()
        return self.clone_array(value, stream)

    def array_namespace(self, device: int) -> Any:
        import graphcap.backends.cpu.array as namespace  # it is large, and only array users pay for it

        return namespace


cpu_backend: Callable[[], CPUBackend] = one_object(CPUBackend)
"""The one CPU backend of this process."""
