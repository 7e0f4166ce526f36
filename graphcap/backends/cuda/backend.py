"""CUDA devices as a backend: their streams, their memory, and what must happen before the process ends."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.util
import sys
import threading
import warnings
from collections.abc import Callable, Hashable
from typing import Any, Final

from graphcap._this_thread import ThreadMark, thread_mark
from graphcap.backends.base import Backend, BackendStatus, Capabilities, framework_hooks, one_object
from graphcap.backends.buffer import Buffer
from graphcap.backends.cuda import _calls as calls
from graphcap.backends.cuda import _driver as driver
from graphcap.backends.cuda import host_calls
from graphcap.backends.cuda.array import CUDAArray
from graphcap.backends.cuda.buffer import CUDABuffer, PinnedBuffer
from graphcap.backends.cuda.captures import Captures
from graphcap.backends.cuda.context import DeviceGuard, Relaxed, current_device, primary_devices
from graphcap.backends.cuda.event import CUDAEvent
from graphcap.backends.cuda.operands import device_operand
from graphcap.backends.cuda.source import DeviceSegments, PinnedSegments
from graphcap.backends.cuda.stream import CUDAStream
from graphcap.backends.cuda.trash import Trash
from graphcap.backends.host_errors import HostErrors
from graphcap.backends.streams import Event, Stream, current_stream
from graphcap.errors import GraphcapError, GraphcapWarning, UnsupportedError
from graphcap.interface import CaptureStatus
from graphcap.memory import CachingAllocator

__all__ = ["CUDABackend", "cuda_backend"]

CONDITIONAL_NODES_SINCE: Final = 12040
_DEFAULT_STREAMS: Final = (0, 1, 2)
"""The legacy default stream under both of its numbers, and the thread's own: they are of the current device."""
_HANDLE_NAMES: Final = ("ptr", "cuda_stream", "handle")


class CUDABackend(Backend):
    """All CUDA devices of the process, through the driver API and the devices' primary contexts.

    Raises
    ------
    BackendUnavailableError
        cuda-bindings, cffi, the driver or a device is missing; the message has the cure.
    """

    name = "CUDA"

    def __init__(self) -> None:
        driver.load()
        self.driver_version: Final = calls.driver_version()
        self.capabilities = Capabilities(
            wrap_stream=True,
            priorities=True,
            event_timing=True,
            parameters=True,
            external_events=True,
            dump_format="cuda-dot",
            graph_update=True,
            node_update=True,
            node_enable=True,
            conditional_nodes=self.driver_version >= CONDITIONAL_NODES_SINCE,
            memory_nodes=True,
            upload=True,
            array_namespace="cupy" in sys.modules or importlib.util.find_spec("cupy") is not None,
            asynchronous=True,
        )
        self.captures = Captures()
        self.trash = Trash(self.captures.__bool__)
        self.host_errors = HostErrors()
        self._lock = threading.RLock()
        self._sources: dict[int, tuple[DeviceSegments, PinnedSegments]] = {}
        self._allocators: dict[int, CachingAllocator] = {}
        self._pinned: dict[int, CachingAllocator] = {}
        self._default: dict[int, CUDAStream] = {}
        self._kept: list[object] = []
        self._orphans: dict[ThreadMark | None, list[CUDAStream]] = {}
        atexit.register(self.close)

    # -- devices -------------------------------------------------------------------------------------------------

    def status(self) -> BackendStatus:
        try:
            devices = [calls.device_name(index) for index in range(calls.device_count())]
        except GraphcapError as error:
            return BackendStatus(False, str(error), "See `nvidia-smi`.", capabilities=self.capabilities)
        details = {"devices": devices, "driver": self.driver_version}
        return BackendStatus(
            bool(devices), "" if devices else "no device", capabilities=self.capabilities, details=details
        )

    def device_count(self) -> int:
        return calls.device_count()

    def current_device(self) -> int:
        if self._orphans:
            self._end_orphans()
        return current_device()

    def device_guard(self, index: int) -> contextlib.AbstractContextManager[None]:
        return DeviceGuard(index)

    def synchronize(self, device: int) -> None:
        with DeviceGuard(device):
            self.captures.call("cuCtxSynchronize", asked="synchronize()")
        self.trash.empty()
        self.host_errors.raise_first()

    # -- streams and events --------------------------------------------------------------------------------------

    def create_stream(self, device: int, *, priority: int = 0, blocking: bool = False) -> CUDAStream:
        with DeviceGuard(device):
            if priority:
                least, greatest = calls.stream_priorities()
                if not greatest <= priority <= least:
                    raise ValueError(
                        f"Stream(priority={priority}): this device has priorities {greatest} (first) to {least} (last)."
                    )
            handle = calls.create_stream(blocking=blocking, priority=priority)
        return CUDAStream(self, device, handle, made_with=(blocking, priority))

    def wrap_stream(self, stream: object, device: int) -> Stream:
        """A :class:`Stream` over a stream of another library.

        Parameters
        ----------
        stream
            An object with ``__cuda_stream__`` (cuda.core, CuPy, Numba), ``.ptr`` (CuPy), ``.cuda_stream`` (PyTorch) or
            ``.handle``, or the driver's handle as an int.

        Raises
        ------
        TypeError
            `stream` is none of these.
        ValueError
            The driver says that it is a stream of another device; or it is a negative int.
        """
        if isinstance(stream, CUDAStream):
            return stream
        protocol = getattr(stream, "__cuda_stream__", None)
        if protocol is not None:
            found = protocol() if callable(protocol) else protocol
            if not (isinstance(found, tuple) and len(found) == 2 and found[0] == 0):
                raise TypeError(
                    f"Stream.wrap(): __cuda_stream__ of {type(stream).__name__} gave {found!r}, not (0, handle)."
                )
            return self._foreign(int(found[1]), device, stream)
        if isinstance(stream, int) and not isinstance(stream, bool):
            if stream < 0:
                raise ValueError(f"Stream.wrap({stream}): a stream handle is not negative.")
            return self._foreign(stream, device, None)
        for name in _HANDLE_NAMES:
            handle = getattr(stream, name, None)
            if isinstance(handle, int):
                return self._foreign(handle, device, stream)
        if type(stream).__name__ == "CUstream":
            number: Any = stream
            return self._foreign(int(number), device, stream)
        raise TypeError(
            f"Stream.wrap(): a {type(stream).__name__} is no CUDA stream: it has no __cuda_stream__, no .ptr, and is no int."
        )

    def _foreign(self, handle: int, device: int, owner: object) -> CUDAStream:
        if handle not in _DEFAULT_STREAMS:
            with DeviceGuard(device):
                home = calls.stream_device(handle)
            if home not in (device, None):
                raise ValueError(
                    f"Stream.wrap(): the stream {handle:#x} is of cuda:{home}, not of cuda:{device}. Name its device, as in "
                    f"Stream.wrap(stream, 'cuda:{home}')."
                )
        return CUDAStream(self, device, handle, owner=owner)

    def default_stream(self, device: int) -> Stream:
        found = self._default.get(device)
        if found is None:
            found = self._default.setdefault(device, CUDAStream(self, device, 0))
        return found

    def launch_stream(self, device: int) -> CUDAStream:
        """The calling thread's current stream of a device, for replays."""
        stream = current_stream(self, device)
        assert isinstance(stream, CUDAStream), "the current stream of a CUDA device is a CUDA stream"
        return stream

    def end_later(self, stream: CUDAStream, thread: ThreadMark | None) -> None:
        """A capture was thrown away on a thread that may not end it (908): its own thread ends it when it next comes here.

        Warns
        -----
        GraphcapWarning
            Always: until then the stream goes on capturing.
        """
        with self._lock:
            self._orphans.setdefault(thread, []).append(stream)
        warnings.warn(
            f"the capture on {stream!r} was thrown away on another thread than the one that began it; the stream captures "
            "until that thread uses graphcap again.",
            GraphcapWarning,
            stacklevel=4,
        )

    def _end_orphans(self) -> None:
        with self._lock:
            streams = self._orphans.pop(thread_mark(), [])
        for stream in streams:
            with DeviceGuard(stream.device_index):
                code, graph = driver.answer("cuStreamEndCapture", stream.handle)
            if not code:
                self.trash.destroy("cuGraphDestroy", int(graph), stream.device_index)

    def create_event(self, device: int, *, timing: bool = False) -> Event:
        return CUDAEvent(self, device, timing=timing)

    def keep_forever(self, owner: object) -> None:
        """Keep what a graph of another library uses: its end cannot be seen from here."""
        self._kept.append(owner)

    # -- memory --------------------------------------------------------------------------------------------------

    def allocator(self, device: int) -> CachingAllocator:
        found = self._allocators.get(device)
        if found is None:
            self._make_allocators(device)
            found = self._allocators[device]
        return found

    def allocators(self) -> list[CachingAllocator]:
        return [*self._allocators.values(), *self._pinned.values()]

    def pinned_allocator(self, device: int) -> CachingAllocator:
        """The manager of page-locked host memory for copies with a device."""
        self.allocator(device)
        return self._pinned[device]

    def _make_allocators(self, device: int) -> None:
        with self._lock:
            if device not in self._allocators:
                sources = self._sources[device] = (DeviceSegments(device), PinnedSegments(device))
                self._pinned[device] = CachingAllocator(sources[1])
                self._allocators[device] = CachingAllocator(sources[0])

    def allocate(self, nbytes: int, device: int, stream: Stream) -> Buffer:
        own = self._own(stream, nbytes)
        block = self.allocator(device).allocate(nbytes, own.handle) if nbytes else None
        return CUDABuffer(own, block, nbytes)

    def allocate_pinned(self, nbytes: int, device: int, stream: Stream) -> PinnedBuffer:
        """A buffer of page-locked host memory whose first use is on `stream`.

        Raises
        ------
        OutOfMemoryError, ValueError
            As :meth:`allocate`.
        """
        own = self._own(stream, nbytes)
        allocator = self.pinned_allocator(device)
        block = allocator.allocate(nbytes, own.handle) if nbytes else None
        return PinnedBuffer(own, allocator, block, nbytes)

    @staticmethod
    def _own(stream: Stream, nbytes: int) -> CUDAStream:
        if nbytes < 0:
            raise ValueError(f"allocate({nbytes}): the size must not be negative.")
        if not isinstance(stream, CUDAStream):
            raise TypeError(
                f"memory of a CUDA device is used first on a CUDA stream, not on a {type(stream).__name__}."
            )
        return stream

    def array_key(self, value: Any) -> Hashable | None:
        interface = getattr(value, "__cuda_array_interface__", None)
        if isinstance(value, Buffer):
            return super().array_key(value)
        if interface is not None:
            return tuple(interface["shape"]), interface["typestr"]
        memory = device_operand(value, "array")  # by DLPack
        if memory is None:
            return None
        return (memory.nbytes, "bytes") if memory.dtype is None else (memory.shape, memory.dtype.str)

    def clone_array(self, value: Any, stream: Stream) -> Any:
        if isinstance(value, Buffer):
            return stream.save(value)
        for hook in framework_hooks(self.name):
            clone = getattr(hook, "clone_array", None)
            made = None if clone is None else clone(value, stream)
            if made is not None:
                return made
        memory = device_operand(value, "array")
        if memory is None or memory.dtype is None:
            return stream.save(value)
        copy = stream.save(value)
        return CUDAArray(copy, copy.ptr, memory.shape or (), memory.dtype, device_index=stream.device_index)

    def load_array(self, target: Any, value: Any, stream: Stream) -> None:
        try:
            to, source = device_operand(target, "input"), device_operand(value, "input")
        except ValueError:  # one is not contiguous: its library may know how to copy it
            copies = [getattr(hook, "copy_array", None) for hook in framework_hooks(self.name)]
            if any(copy(target, value, stream) for copy in copies if copy is not None):
                return
            raise
        if to is None or source is None or to.address != source.address:
            stream.copy(target, value)
            if isinstance(value, Buffer) and value.block is not None and value.block.stream != stream.handle:
                value.record_stream(stream)  # it may die right after the call, and its memory be used by its own stream

    def array_namespace(self, device: int) -> Any:
        try:
            return importlib.import_module("cupy")
        except Exception as error:  # CuPy fails in many ways where its own libraries are missing
            cure = "pip install cupy-cuda13x (cupy-cuda12x for a driver of CUDA 12)."
            raise UnsupportedError(self.name, "array_namespace()", "array_namespace", cure) from error

    # -- the end -------------------------------------------------------------------------------------------------

    def trim(self) -> None:
        """Destroy what waits for it, and give unused events and cached memory back to the driver."""
        self.trash.empty()
        for device, (own, pinned) in list(self._sources.items()):
            self._allocators[device].empty_cache()
            self._pinned[device].empty_cache()
            if not self.captures:
                own.destroy_spare_events()
                pinned.destroy_spare_events()

    def close(self) -> None:
        """At interpreter exit: end open captures, wait for host calls in flight, and leave the rest to the driver.

        Finalizers that run later find the driver closed and do nothing, so nothing is printed and nothing crashes.
        """
        if self.trash.closed:
            return
        with contextlib.suppress(Exception):  # the process ends: whatever fails here fails for the last time
            for capture in self.captures.all():
                with DeviceGuard(capture.origin.device_index):
                    if capture.origin.capture_status is not CaptureStatus.NONE:
                        driver.answer("cuStreamEndCapture", capture.origin.handle)
                self.captures.closed(capture)
            if host_calls.ever_used():
                for device in primary_devices():
                    with DeviceGuard(device), Relaxed():
                        driver.answer("cuCtxSynchronize")
        self.trash.close()


cuda_backend: Callable[[], CUDABackend] = one_object(CUDABackend)
"""The one CUDA backend of this process."""
