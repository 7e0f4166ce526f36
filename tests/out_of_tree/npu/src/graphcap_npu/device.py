"""Streams, events and captures of the pretend device."""

from __future__ import annotations

import itertools
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from graphcap import (
    CaptureForbiddenError,
    CaptureInvalidatedError,
    CaptureIsolationError,
    CaptureStatus,
    Event,
    Stream,
    UnjoinedStreamError,
)
from graphcap.backends.base import Backend
from graphcap.backends.buffer import Buffer
from graphcap.backends.parameters import Scalar
from graphcap.topology import Node, NodeKind

lock = threading.RLock()
open_captures: list[Capture] = []
streams: weakref.WeakValueDictionary[int, NPUStream] = weakref.WeakValueDictionary()
_handles, _captures = itertools.count(1), itertools.count(1)


class Errors:
    """Exceptions of work that ran later, kept for the next synchronise or replay."""

    def __init__(self) -> None:
        self.kept: list[Exception] = []

    def run(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            self.kept.append(error)

    def raise_first(self) -> None:
        if self.kept:
            error = self.kept[0]
            self.kept.clear()
            raise error


class Capture:
    """An open capture: what was recorded, what depends on what, and who takes part."""

    def __init__(self, origin: NPUStream) -> None:
        self.id = next(_captures)
        self.origin = origin
        self.status = CaptureStatus.ACTIVE
        self.cause: BaseException | None = None
        self.nodes: list[Node] = []
        self.calls: list[Callable[[], object]] = []
        self.dependencies: list[tuple[int, ...]] = []
        self.members: list[NPUStream] = []

    def enlist(self, stream: NPUStream, frontier: tuple[int, ...]) -> None:
        self.members.append(stream)
        stream.capture, stream.frontier = self, frontier

    def add(self, stream: NPUStream, kind: NodeKind, name: str, call: Callable[[], object], nbytes: int) -> None:
        with lock:
            self.check(name)
            node = len(self.nodes)
            self.nodes.append(Node(node, kind, name, {"bytes": nbytes} if nbytes else {}))
            self.calls.append(call)
            self.dependencies.append(stream.frontier)
            stream.frontier = (node,)

    def check(self, asked: str) -> None:
        if self.status is CaptureStatus.INVALIDATED:
            raise CaptureInvalidatedError(asked, "the capture was invalidated", "End it first.") from self.cause

    def close(self) -> None:
        with lock:
            for stream in self.members:
                stream.capture, stream.frontier = None, ()
            if self in open_captures:
                open_captures.remove(self)

    def end(self) -> None:
        with lock:
            try:
                self.check("capture_end()")
                inner = {node for found in self.dependencies for node in found}
                loose = set(range(len(self.nodes))) - inner - set(self.origin.frontier)
                if loose:
                    forks = [repr(stream) for stream in self.members if loose & set(stream.frontier)]
                    raise UnjoinedStreamError(
                        "capture_end()", f"forked and not joined: {', '.join(forks)}", "Let the origin wait for them."
                    )
            finally:
                self.close()


def forbid(error: Any, *captures: Capture) -> Any:
    """Break `captures` because of `error`, and give it back to be raised."""
    for capture in captures:
        if capture.status is CaptureStatus.ACTIVE:
            capture.status, capture.cause = CaptureStatus.INVALIDATED, error.with_traceback(None)
    return error


class NPUEvent(Event):
    """A point in a stream's work."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.device_index = 0
        self.capture: Capture | None = None
        self.frontier: tuple[int, ...] = ()
        self.done: threading.Event | None = None

    handle = 0

    @property
    def is_captured(self) -> bool:
        return self.capture is not None

    def query(self) -> bool:
        self._check("Event.query()")
        return self.done is None or self.done.is_set()

    def synchronize(self) -> None:
        self._check("Event.synchronize()")
        if self.done is not None:
            self.done.wait()

    def elapsed_since(self, earlier: Event) -> float:
        self.backend.capabilities.require("event_timing", self.backend.name, "Event.elapsed_since()")
        raise AssertionError("unreachable: there is no such capability")

    def _check(self, call: str) -> None:
        if self.capture is not None:
            with lock:
                raise forbid(
                    CaptureForbiddenError(call, "the event was recorded in a capture", "Record it outside."),
                    self.capture,
                )


def _work_off(work: queue.SimpleQueue[Callable[[], object] | None]) -> None:
    while (call := work.get()) is not None:
        call()
        del call  # or the last piece of work would keep its memory while the next is waited for


class NPUStream(Stream):
    """A queue of work and the thread that works it off."""

    def __init__(self, backend: Any, *, default: bool = False) -> None:
        self.backend: Any = backend
        self.device_index = 0
        self._handle = 0 if default else next(_handles)
        self.capture: Capture | None = None
        self.frontier: tuple[int, ...] = ()
        self._work: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        threading.Thread(target=_work_off, args=(self._work,), daemon=True).start()
        streams[self._handle] = self

    def __del__(self) -> None:
        self._work.put(None)

    @property
    def handle(self) -> int:
        return self._handle

    @property
    def capture_status(self) -> CaptureStatus:
        return CaptureStatus.NONE if self.capture is None else self.capture.status

    @property
    def capture_id(self) -> int:
        return 0 if self.capture is None else self.capture.id

    def record(self, event: Event | None = None, *, timing: bool = False, external: bool = False) -> Event:
        if external:
            self.backend.capabilities.require("external_events", self.backend.name, "Stream.record(external=True)")
        if timing:
            self.backend.capabilities.require("event_timing", self.backend.name, "Stream.record(timing=True)")
        own = NPUEvent(self.backend) if event is None else event
        if not isinstance(own, NPUEvent):
            raise TypeError(f"an NPU stream works with NPU events, not {type(own).__name__}.")
        with lock:
            if self.capture is not None:
                self.capture.check("Stream.record()")
                own.capture, own.frontier, own.done = self.capture, self.frontier, None
                return own
        own.capture, own.done = None, threading.Event()
        self._work.put(own.done.set)
        return own

    def wait(self, event: Event | Stream, *, external: bool = False) -> None:
        found = event.record() if isinstance(event, Stream) else event
        if not isinstance(found, NPUEvent):
            raise TypeError(f"an NPU stream works with NPU events, not {type(found).__name__}.")
        asked = f"{self!r}.wait(event)"
        with lock:
            own, other = self.capture, found.capture
            if own is not None:
                own.check(asked)
            if other is None:
                if own is not None and found.done is not None:
                    raise forbid(CaptureIsolationError(asked, "the event is of outside", "Record it inside."), own)
                if found.done is not None:
                    self._work.put(found.done.wait)
                return
            other.check(asked)
            if other not in open_captures:
                raise CaptureIsolationError(asked, "the event's capture is over", "Record it again.")
            if own is None:
                other.enlist(self, found.frontier)
            elif own is other:
                self.frontier += tuple(node for node in found.frontier if node not in self.frontier)
            else:
                raise forbid(
                    CaptureIsolationError(asked, "two captures would be merged", "Keep them apart."), own, other
                )

    def synchronize(self) -> None:
        self._refuse_while_capturing("Stream.synchronize()")
        self.drain()
        self.backend.errors.raise_first()

    def query(self) -> bool:
        self._refuse_while_capturing("Stream.query()")
        return self._work.empty()

    def drain(self) -> None:
        """Wait for the work so far."""
        done = threading.Event()
        self._work.put(done.set)
        done.wait()

    def _refuse_while_capturing(self, call: str) -> None:
        with lock:
            if self.capture is not None:
                self.capture.check(call)
                raise forbid(
                    CaptureForbiddenError(call, f"{self!r} is capturing", "Do it outside the capture."), self.capture
                )

    def submit(self, kind: NodeKind, name: str, call: Callable[[], object], nbytes: int = 0) -> None:
        """Record the work when the stream captures, else queue it."""
        if self.capture is not None:
            self.capture.add(self, kind, name, call, nbytes)
        else:
            errors = self.backend.errors
            self._work.put(lambda: errors.run(call))

    def copy(self, dst: Any, src: Any) -> None:
        target, source = as_bytes(dst, write=True), as_bytes(src)
        if target.nbytes != source.nbytes:
            raise ValueError(f"copy(): the destination has {target.nbytes} bytes, the source {source.nbytes}.")
        self.submit(NodeKind.MEMCPY, "memcpy", lambda: np.copyto(target, source), target.nbytes)

    def fill(self, dst: Any, value: int | float | complex | Scalar) -> None:
        self._plain("Stream.fill()", value)
        target = as_bytes(dst, write=True)
        if value not in range(256):
            raise ValueError(f"fill(): {value!r} does not fit a byte.")
        self.submit(NodeKind.MEMSET, "memset", lambda: target.fill(value), target.nbytes)

    def _plain(self, call: str, *values: Any) -> None:
        """Numbers that change from replay to replay are nothing that this backend can do."""
        if any(isinstance(value, Scalar) for value in values):
            self.backend.capabilities.require("parameters", self.backend.name, call)

    def host_call(self, fn: Callable[..., Any], *args: Any) -> None:
        self.submit(NodeKind.HOST, getattr(fn, "__name__", "host"), lambda: fn(*args))

    def launch(self, kernel: Any, *args: Any, **options: Any) -> None:
        self._plain("Stream.launch()", *args)
        given = [as_bytes(arg) if isinstance(arg, Buffer) else arg for arg in args]
        self.submit(NodeKind.KERNEL, kernel.__name__, lambda: kernel(*given, **options))


class _Memory:
    def __init__(self, owner: Buffer) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "shape": (owner.nbytes,), "typestr": "|u1", "data": (owner.ptr, False), "version": 3,
        }  # fmt: skip


def as_bytes(value: Any, *, write: bool = False) -> Any:
    """The bytes of a buffer or of a contiguous host array; the view keeps its owner alive."""
    if isinstance(value, Buffer):
        return np.asarray(_Memory(value))
    if not isinstance(value, np.ndarray):
        raise TypeError(f"expected a buffer or a host array, not {type(value).__name__}.")
    if not value.flags.c_contiguous or (write and not value.flags.writeable):
        raise ValueError("the array must be contiguous, and writable where it is written.")
    return value.reshape(-1).view(np.uint8)
