"""The XPU devices of this process: queues, memory, and which tier serves them."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final

import numpy as np

from graphcap.backends.base import Backend, BackendStatus, Capabilities, one_object
from graphcap.backends.host_errors import HostErrors
from graphcap.backends.streams import Event, Stream
from graphcap.backends.xpu import _dpctl, captures, host_calls, leaving, native
from graphcap.backends.xpu.buffer import XPUArray, XPUBuffer
from graphcap.backends.xpu.discovery import choose_devices, no_device
from graphcap.backends.xpu.events import XPUEvent
from graphcap.backends.xpu.lane import Lane, Point
from graphcap.backends.xpu.operands import array_of
from graphcap.backends.xpu.parked import Parked, ParkedQueue
from graphcap.backends.xpu.segments import USM_KINDS, DeviceAllocator, USMSegments
from graphcap.backends.xpu.streams import XPUStream
from graphcap.errors import BackendUnavailableError, GraphcapWarning, UnsupportedError
from graphcap.interface import GraphCaptureMode
from graphcap.memory import CachingAllocator

__all__ = ["TIERS", "XPUBackend", "xpu_backend"]

TIERS: Final = ("auto", "native", "software")


class XPUBackend(Backend):
    """All XPU devices of the process.

    Parameters
    ----------
    tier
        ``"native"``: SYCL's own graphs; ``"software"``: recorded calls, submitted again; ``"auto"``: native where the
        extension can be had and the devices have the graph aspect, else software with a warning that tells why.
        ``GRAPHCAP_XPU_TIER`` if not given.

    Raises
    ------
    BackendUnavailableError
        A device is missing, or the tier asked for cannot be had.
    """

    name = "XPU"

    def __init__(self, tier: str | None = None) -> None:
        wanted = tier or os.environ.get("GRAPHCAP_XPU_TIER") or "auto"
        if wanted not in TIERS:
            raise BackendUnavailableError("XPU", f"GRAPHCAP_XPU_TIER={wanted!r} is unknown", f"Use one of {TIERS}.")
        keys = (("level_zero", "gpu"), ("opencl", "gpu"), ("opencl", "cpu"))
        self.devices: Final = choose_devices({key: _dpctl.devices(*key) for key in keys})
        if not self.devices:
            missing = no_device()
            raise BackendUnavailableError("XPU", missing.reason, missing.cure)
        self.host_errors: Final = HostErrors()
        self._parked: Final = Parked()
        self._streams: Final[weakref.WeakValueDictionary[int, XPUStream]] = weakref.WeakValueDictionary()
        self._lock = threading.RLock()
        self._local = threading.local()
        self._allocators: dict[tuple[int, str], CachingAllocator] = {}
        # The queue that is no user's: it names the context, gives memory, and stands behind the default stream.
        self._service: Final = [_dpctl.make_queue(None, device) for device in self.devices]
        self._defaults: dict[int, XPUStream] = {}
        self.extension: native.SyclGraph | None = None
        self.has_full_aspect = False
        self.tier_note = ""
        if wanted != "software":
            self._choose_native(required=wanted == "native")
        leaving.register(self)
        self.capabilities = Capabilities(
            native_graph=self.extension is not None,
            capture_modes=frozenset({GraphCaptureMode.DEFAULT}),
            legacy_stream=False,
            wrap_stream=True,
            dump_format="graphcap-dot" if self.extension is None else "sycl-dot",
            graph_update=self.has_full_aspect,
            parameters=True,
            asynchronous=True,
        )

    def _choose_native(self, *, required: bool) -> None:
        try:
            extension = native.load()
        except native.BuildError as error:
            if required:
                raise BackendUnavailableError(
                    "XPU", f"the native tier is not to be had: {error.reason}", error.cure
                ) from error
            self.tier_note = f"software tier: {error.reason}. {error.cure}"
            warnings.warn(
                f"XPU: SYCL graphs are off, calls are submitted again instead. {error}", GraphcapWarning, stacklevel=2
            )
            return
        levels = [extension.support(_dpctl.queue_capsule(queue)) for queue in self._service]
        if min(levels) == 0:
            reason = "the device has no SYCL graph aspect"
            if required:
                raise BackendUnavailableError("XPU", reason, "Use GRAPHCAP_XPU_TIER=software.")
            self.tier_note = f"software tier: {reason}"
            return
        extension.set_host_dispatcher(host_calls.dispatch)
        _dpctl.wait_for_event = extension.wait_event
        self.extension = extension
        self.has_full_aspect = min(levels) == 2

    # -- what the contract asks ----------------------------------------------------------------------------------

    def status(self) -> BackendStatus:
        details: dict[str, Any] = {
            "devices": [device.name.strip() for device in self.devices],
            "sycl_backend": self.devices[0].backend.name,
            "driver": self.devices[0].driver_version,
            "dpctl": _dpctl.VERSION,
            "tier": "native" if self.extension is not None else "software",
        }
        if self.tier_note:
            details["note"] = self.tier_note
        return BackendStatus(True, capabilities=self.capabilities, details=details)

    def device_count(self) -> int:
        return len(self.devices)

    def current_device(self) -> int:
        return int(getattr(self._local, "device", 0))

    @contextlib.contextmanager
    def device_guard(self, index: int) -> Iterator[None]:
        self._check_device(index)
        before = self.current_device()
        self._local.device = index
        try:
            yield
        finally:
            self._local.device = before

    def create_stream(self, device: int, *, priority: int = 0, blocking: bool = False) -> Stream:
        if priority:
            raise UnsupportedError(self.name, "Stream(priority=...)", "priorities", "Leave the priority out.")
        self._check_device(device)
        self.sweep()
        context = self._service[device].sycl_context
        return self._intern(device, _dpctl.make_queue(context, self.devices[device]), exposed=False)

    def wrap_stream(self, stream: object, device: int) -> Stream:
        queue: Any = stream
        if not _dpctl.is_queue(queue):
            queue = getattr(stream, "sycl_queue", None)
            if not _dpctl.is_queue(queue):
                raise TypeError(f"Stream.wrap(): expected a dpctl.SyclQueue, not {type(stream).__name__}.")
        self._check_device(device)
        asked = f"Stream.wrap() on {self.name.lower()}:{device}"
        if queue.sycl_device != self.devices[device]:
            raise ValueError(f"{asked}: the queue belongs to another device, {queue.sycl_device.name.strip()}.")
        if queue.sycl_context != self._service[device].sycl_context:
            raise ValueError(
                f"{asked}: the queue has a context of its own, which cannot use this device's memory. Make it in the default "
                "context: dpctl.SyclQueue(device, property='in_order')."
            )
        if not queue.is_in_order:
            raise ValueError(
                f"{asked}: the queue is out of order, so a stream's work would have no order. Make it with "
                "property='in_order'."
            )
        return self._intern(device, queue, exposed=True)

    def default_stream(self, device: int) -> XPUStream:
        self._check_device(device)
        with self._lock:
            found = self._defaults.get(device)
            if found is None:
                found = self._defaults[device] = XPUStream(self, device, self._service[device], default=True)
            return found

    def create_event(self, device: int, *, timing: bool = False) -> Event:
        if timing:
            raise UnsupportedError(self.name, "Event(timing=True)", "event_timing", "Time on the host.")
        self._check_device(device)
        return XPUEvent(self, device)

    def synchronize(self, device: int) -> None:
        captures.check_device_call("synchronize()")
        self.wait_for_device(device)
        self.sweep()
        self.host_errors.raise_first()

    def allocator(self, device: int) -> CachingAllocator:
        return self.allocator_of(device, "device")

    def allocators(self) -> list[CachingAllocator]:
        return list(self._allocators.values())

    def allocate(self, nbytes: int, device: int, stream: Stream, *, kind: str = "device") -> XPUBuffer:
        """A buffer of USM memory.

        Parameters
        ----------
        kind
            ``"device"``: the device's own; ``"shared"``: both sides, moved as needed; ``"host"``: the host's, which the
            device can reach.

        Raises
        ------
        OutOfMemoryError
            The memory cannot be had.
        ValueError
            `nbytes` is negative, or there is no such kind.
        """
        if nbytes < 0:
            raise ValueError(f"allocate({nbytes}): the size must not be negative.")
        self.sweep()
        allocator = self.allocator_of(device, kind)
        block = allocator.allocate(nbytes, stream.handle) if nbytes else None
        return XPUBuffer(self, device, block, nbytes, kind, self._service[device])

    def array_namespace(self, device: int) -> Any:
        """dpnp, if it is installed. Best effort, hence no capability: what works in a capture is in ``docs/xpu.md``."""
        try:
            import dpnp
        except ImportError as error:
            raise UnsupportedError(
                self.name, "array_namespace()", "array_namespace", "dpnp is not installed: pip install dpnp."
            ) from error
        return dpnp

    def array_key(self, value: Any) -> Hashable | None:
        if isinstance(value, XPUBuffer):
            return super().array_key(value)
        return array_of(value)

    def clone_array(self, value: Any, stream: Stream) -> Any:
        kind = array_of(value)
        if isinstance(value, XPUBuffer) or kind is None:
            return stream.save(value)
        shape, dtype = kind
        assert isinstance(stream, XPUStream), "a stream of this backend"
        buffer = stream.allocate(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
        stream.copy(buffer, value)
        return XPUArray(buffer, shape, dtype)

    def load_array(self, target: Any, value: Any, stream: Stream) -> None:
        stream.copy(target, value)  # which does nothing where the two are the same memory

    # -- for this package ----------------------------------------------------------------------------------------

    def allocator_of(self, device: int, kind: str) -> CachingAllocator:
        """The memory manager of one kind of USM memory; made on first use.

        Raises
        ------
        ValueError
            There is no such kind.
        """
        found = self._allocators.get((device, kind))
        if found is not None:
            return found
        if kind not in USM_KINDS:
            raise ValueError(f"USM memory of kind {kind!r} is unknown. Use one of {', '.join(map(repr, USM_KINDS))}.")
        self._check_device(device)
        with self._lock:
            found = self._allocators.get((device, kind))
            if found is None:
                source = USMSegments(self, device, kind)
                if kind == "device":
                    found = DeviceAllocator(source, lambda: self._other_allocators(device))
                else:
                    found = CachingAllocator(source)
                self._allocators[device, kind] = found
            return found

    def _other_allocators(self, device: int) -> list[CachingAllocator]:
        with self._lock:
            return [found for (index, kind), found in self._allocators.items() if index == device and kind != "device"]

    def service_queue(self, device: int) -> Any:
        """The queue behind the default stream, whose context all memory and streams of the device share."""
        return self._service[device]

    def wait_for_device(self, device: int) -> None:
        """Wait for all work that every queue has so far; what a queue records meanwhile is not work."""
        for stream in self.live_streams():
            if stream.device_index == device:
                stream.settle()
        for parked in self._parked.queues():
            if parked.device_index == device and parked.point is not None:
                parked.point.wait()

    def live_streams(self) -> list[XPUStream]:
        """All streams that graphcap knows of, default ones included if they were ever used."""
        with self._lock:
            return [*self._defaults.values(), *self._streams.values()]

    def point_of(self, handle: int, device: int) -> Point:
        """The point after all work so far of the stream with that handle, also if the stream is gone."""
        stream = self.default_stream(device) if handle == 0 else self._streams.get(handle)
        if stream is not None:
            return stream.point()
        for parked in self._parked.queues():
            if parked.handle == handle and parked.point is not None:
                return parked.point
        return Point()  # gone, and its work with it

    def memory_info(self, device: int) -> tuple[int, int] | None:
        """Free and total bytes, where the device tells (Level Zero with sysman)."""
        return _dpctl.memory_info(self.devices[device])

    def park(self, point: Point, owner: object) -> None:
        """Keep `owner` until `point` is done. Takes no lock."""
        self._parked.put(point, owner)

    def park_queue(self, handle: int, device: int, queue: Any, lane: Lane | None, owner: object) -> None:
        """Keep the queue of a stream that dies until its work is done. Takes no lock."""
        self._parked.put(ParkedQueue(handle, device, queue, lane), owner)

    def sweep(self) -> None:
        """Let go of what was parked and is done."""
        self._parked.sweep()

    def _intern(self, device: int, queue: Any, *, exposed: bool) -> XPUStream:
        """One stream object per SYCL queue, so that a queue's capture has one home however often it is wrapped."""
        with self._lock:
            for stream in list(self._streams.values()):
                if stream.target.queue == queue:
                    return stream
            if queue == self._service[device]:
                return self.default_stream(device)
            made = XPUStream(self, device, queue, exposed=exposed)
            self._streams[made.handle] = made
            return made

    def _check_device(self, index: int) -> None:
        if not 0 <= index < len(self.devices):
            raise ValueError(f"device {self.name.lower()}:{index}: {self.name} has {len(self.devices)} device(s).")


xpu_backend: Callable[[], XPUBackend] = one_object(XPUBackend)
"""The one XPU backend of this process; raises ``BackendUnavailableError`` as :class:`XPUBackend` does."""
