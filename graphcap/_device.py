"""From a device string to a backend and an index."""

from __future__ import annotations

import contextlib
import os
import warnings
from dataclasses import dataclass

from graphcap import registry
from graphcap.backends import streams
from graphcap.backends.base import Backend
from graphcap.backends.streams import Event, Stream
from graphcap.errors import BackendUnavailableError, CaptureStateError, GraphcapWarning
from graphcap.interface import DeviceType

__all__ = ["Device", "current_stream", "default_device", "resolve", "synchronize", "type_of"]


@dataclass(frozen=True)
class Device:
    """A backend and, if the user named one, a device index."""

    backend: Backend
    index: int | None

    @property
    def current(self) -> int:
        """The index given, or the backend's current device."""
        return self.backend.current_device() if self.index is None else self.index


def type_of(device: str) -> tuple[str, int | None]:
    """Split ``"cuda:1"`` into the type's name and the index.

    Raises
    ------
    TypeError
        Not a string.
    ValueError
        Not of the form ``type`` or ``type:index``.
    """
    if not isinstance(device, str):
        raise TypeError(f"a device is a string such as 'cuda' or 'cuda:1', not {type(device).__name__}")
    name, colon, index = device.partition(":")
    if colon and not (index.isascii() and index.isdigit()):
        raise ValueError(f"device {device!r}: the part after ':' must be a device index, as in '{name}:0'.")
    return str(DeviceType(name)), int(index) if colon else None


def default_device() -> str:
    """The device used where none is named: ``GRAPHCAP_DEVICE``, else the first usable of CUDA, XPU, CPU.

    Warns
    -----
    GraphcapWarning
        A backend that is installed but broken was passed over; the reason is in the text.

    Raises
    ------
    BackendUnavailableError
        No backend is usable.
    """
    named = os.environ.get("GRAPHCAP_DEVICE")
    if named:
        return named
    for name in registry.known_backends():
        status = registry.status_of(name)
        if status.ok:
            return name.lower()
        if status.installed:
            warnings.warn(
                f"backend {name} is installed but not usable, so another one is chosen: {status.reason} {status.cure} "
                f"(Name a device, or set GRAPHCAP_DEVICE, to choose by yourself.)",
                GraphcapWarning,
                stacklevel=3,
            )
    raise BackendUnavailableError("any", "no registered backend is usable", "See graphcap.backend_status().")


def resolve(device: str | None = None) -> Device:
    """The backend and index of a device string.

    Raises
    ------
    TypeError, ValueError
        `device` is not a device string, or its index is past the last device.
    BackendNotFoundError, BackendUnavailableError, UnsupportedError
        As :func:`graphcap.registry.get_backend`.
    """
    text = default_device() if device is None else device
    known = _resolved.get(text) if isinstance(text, str) else None
    if known is not None and known[0] == registry.generation:
        return known[1]
    name, index = type_of(text)
    backend = registry.get_backend(name)
    if index is not None:
        count = backend.device_count()
        if index >= count:
            raise ValueError(f"device {text!r}: {name} has {count} device{'s' * (count != 1)}.")
    found = Device(backend, index)
    _resolved[text] = registry.generation, found
    return found


_resolved: dict[str, tuple[int, Device]] = {}
"""Device strings that were resolved, with the registry's generation then."""


def current_stream(device: str | None = None) -> Stream:
    """The calling thread's current stream of a device; follows a framework's own ``with stream:`` too.

    Raises
    ------
    TypeError, ValueError, BackendError
        As :func:`resolve`.
    """
    found = resolve(device)
    backend, index = found.backend, found.index
    return streams.current_stream(backend, index)


def work_stream(device: str | None) -> Stream:
    """The current stream for work on `device`, which must not be a stream of another device of the same type.

    Raises
    ------
    CaptureStateError
        The device index given differs from that of the stream which the user made current.
    """
    found = resolve(device)
    backend, index = found.backend, found.index
    if index is not None:
        made = streams.innermost(backend)
        if made is not None and made.device_index != index:
            raise CaptureStateError(
                f"work on {backend.name.lower()}:{index}",
                f"the current stream is {made!r}, of another device",
                f"Make a stream of {backend.name.lower()}:{index} current, or leave the index out.",
            )
    return streams.current_stream(backend, index)


def synchronize(device: str | None = None) -> None:
    """Wait for all work of a device.

    Raises
    ------
    CaptureForbiddenError
        A capture is open on the device; it is broken by the call (S-D15, E-19).
    Exception
        What a host call raised since the last synchronise.
    """
    found = resolve(device)
    found.backend.synchronize(found.current)


def _make_stream(device: str | None = None, *, priority: int = 0, blocking: bool = False) -> Stream:
    found = resolve(device)
    return found.backend.create_stream(found.current, priority=priority, blocking=blocking)


def _make_event(device: str | None = None, *, timing: bool = False) -> Event:
    found = resolve(device)
    if timing:
        found.backend.capabilities.require("event_timing", found.backend.name, "Event(timing=True)")
    return found.backend.create_event(found.current, timing=timing)


def _wrap_stream(stream: object, device: str | None = None) -> Stream:
    if isinstance(stream, Stream):
        if device is not None:
            _check_stream_of(stream, device)
        return stream
    found = resolve(device)
    return found.backend.wrap_stream(stream, found.current)


def _check_stream_of(stream: Stream, device: str) -> None:
    """Refuse a stream of another device: made current, it would leave the work meant for it to the default stream."""
    name, index = type_of(device)
    if stream.backend is not registry.get_backend(name) or index not in (None, stream.device_index):
        raise ValueError(f"{stream!r} is no stream of {device!r}. Make one with graphcap.Stream({device!r}).")


streams.stream_factory.update({"Stream": _make_stream, "Event": _make_event, "Stream.wrap": _wrap_stream})


def guard(device: Device) -> contextlib.AbstractContextManager[None]:
    """Make the index that the user gave current; nothing where none was given."""
    return contextlib.nullcontext() if device.index is None else device.backend.device_guard(device.index)
