"""The two ways to record a capture, and what is left of it: the template.

The software tier keeps the work. The native tier lets SYCL record: the queue stands in recording state, whatever is
submitted to it becomes a node of a ``command_graph``, also what users submit through dpctl without graphcap.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from graphcap.backends.xpu import _dpctl
from graphcap.backends.xpu.captures import Capture, Recorder
from graphcap.backends.xpu.native import SyclGraph
from graphcap.backends.xpu.work import HostWork, Target, Work
from graphcap.errors import CaptureStateError, DriverError, GraphcapWarning

if TYPE_CHECKING:
    from graphcap.backends.xpu.streams import XPUStream

__all__ = ["BARRIER_TYPES", "NativeRecorder", "NativeTemplate", "Recording", "SoftwareRecorder", "record_again"]

BARRIER_TYPES: Final = frozenset({0, 8})
"""SYCL's node types ``empty`` and ``ext_oneapi_barrier``: order, no work."""


@dataclass(frozen=True)
class NativeTemplate:
    """SYCL's graph of a capture.

    Attributes
    ----------
    graph
        The extension's capsule of the modifiable ``command_graph``.
    nodes
        ``(type, predecessors)`` per node, in recorded order, barriers included.
    indices
        For each piece of work that graphcap submitted, the index of its node.
    host_tasks
        How many nodes call back into Python.
    """

    graph: Any
    nodes: list[tuple[int, list[int]]]
    indices: list[int]
    host_tasks: int

    def effective_predecessors(self) -> dict[int, list[int]]:
        """For each node that does work: the working nodes that it waits for, barriers looked through."""
        behind: list[list[int]] = []
        found: dict[int, list[int]] = {}
        for index, (kind, predecessors) in enumerate(self.nodes):
            reached = list(dict.fromkeys(node for before in predecessors for node in behind[before]))
            if kind in BARRIER_TYPES:
                behind.append(reached)
            else:
                behind.append([index])
                found[index] = reached
        return found


@dataclass(frozen=True)
class Recording:
    """The template of a graph.

    Attributes
    ----------
    nodes, dependencies
        The work that graphcap saw, and the indices of what each piece waits for.
    native
        SYCL's graph; ``None`` on the software tier.
    """

    name: str
    nodes: list[Work]
    dependencies: list[tuple[int, ...]]
    native: NativeTemplate | None = None

    @property
    def count(self) -> int:
        """The number of nodes that do work, whoever submitted them."""
        if self.native is None:
            return len(self.nodes)
        return sum(kind not in BARRIER_TYPES for kind, _ in self.native.nodes)

    @property
    def has_foreign_nodes(self) -> bool:
        """Whether SYCL recorded work that did not come through graphcap."""
        return self.count != len(self.nodes)


def record_again(extension: SyclGraph, queue: Any, recording: Recording) -> Recording:
    """The same template, recorded anew from its work: how a SYCL graph gets other values where the device cannot update one.

    Parameters
    ----------
    queue
        Any queue of the context and the device; it is not used.

    Raises
    ------
    DriverError
        SYCL refused it.
    """
    native = recording.native
    assert native is not None, "recorded on the native tier"
    # A queue of its own, without an order of its own: the dependencies alone make the edges.
    own = _dpctl.make_unordered_queue(queue.sycl_context, queue.sycl_device)
    target = Target(own, extension, _dpctl.queue_capsule(own))
    try:
        graph = extension.begin(target.capsule)
    except RuntimeError as error:
        raise DriverError("command_graph::begin_recording", 0, "sycl::exception", str(error)) from error
    events: list[Any] = []
    try:
        for work, sources in zip(recording.nodes, recording.dependencies, strict=True):
            events.append(work.enqueue(target, [events[source] for source in sources]))
    finally:
        extension.end(graph)
    return replace(recording, native=replace(native, graph=graph))


class SoftwareRecorder(Recorder):
    """Keeps the work that comes through graphcap; nothing reaches the queue."""

    def begin(self, stream: XPUStream) -> None:
        return None

    def join(self, stream: XPUStream) -> None:
        return None

    def mark(self, stream: XPUStream) -> Any:
        return None

    def wait(self, stream: XPUStream, mark: Any) -> None:
        return None

    def add(self, stream: XPUStream, work: Work) -> None:
        return None

    def expose(self, stream: XPUStream) -> None:
        return None

    def end(self, capture: Capture) -> Recording:
        return Recording(f"capture_{capture.id}", capture.nodes, capture.dependencies)

    def abandon(self) -> None:
        return None


class NativeRecorder(Recorder):
    """Lets SYCL record into a ``command_graph``.

    Order between streams is told to SYCL in one of two ways. A stream whose queue nobody else has gives its events as
    dependencies of its next piece of work, so the graph holds no node but work. A queue that was handed out gets barriers,
    which order also what is submitted past graphcap; they are nodes of SYCL's graph, and no work.
    """

    def __init__(self, extension: SyclGraph) -> None:
        self._extension = extension
        self._graph: Any = None
        self._origin: XPUStream | None = None
        self._streams: dict[int, XPUStream] = {}
        self._events: list[Any] = []
        self._waits: dict[int, list[Any]] = {}  # stream handle -> what its next piece of work must wait for
        self._last: dict[int, Any] = {}  # stream handle -> its last piece of work

    def begin(self, stream: XPUStream) -> None:
        try:
            self._graph = self._extension.begin(stream.target.capsule)
        except RuntimeError as error:
            raise CaptureStateError(
                "capture_begin()",
                f"SYCL cannot record {stream!r} ({error})",
                "End what else records this queue, or capture on another stream.",
            ) from error
        self._origin = stream
        self._streams[stream.handle] = stream

    def join(self, stream: XPUStream) -> None:
        try:
            self._extension.join(self._graph, stream.target.capsule)
        except RuntimeError as error:
            raise DriverError("command_graph::begin_recording", 0, "sycl::exception", str(error)) from error
        self._streams[stream.handle] = stream

    def mark(self, stream: XPUStream) -> Any:
        if stream.is_exposed:
            return [stream.barrier(())]
        last = self._last.get(stream.handle)
        return [*self._waits.get(stream.handle, ()), *(() if last is None else (last,))]

    def wait(self, stream: XPUStream, mark: Any) -> None:
        if not stream.is_exposed:
            self._waits.setdefault(stream.handle, []).extend(mark)
        elif mark:
            stream.barrier(mark)

    def add(self, stream: XPUStream, work: Work) -> None:
        waits = self._waits.get(stream.handle, [])
        last = self._last.get(stream.handle)
        event = work.enqueue(stream.target, [event for event in waits if event is not last])
        self._waits.pop(stream.handle, None)
        self._last[stream.handle] = event
        self._events.append(event)

    def expose(self, stream: XPUStream) -> None:
        waits = self._waits.pop(stream.handle, None)
        if waits:
            stream.barrier(waits)

    def end(self, capture: Capture) -> Recording:
        assert self._graph is not None, "only called once, while it records"
        assert self._origin is not None, "as above"
        last = None
        if len(self._streams) > 1 and any(stream.is_exposed for stream in self._streams.values()):
            self.expose(self._origin)
            last = self._origin.barrier(())  # what it waits for is what the origin stream covers
        self._stop()
        nodes, indices = self._read([*self._events, *(() if last is None else (last,))])
        if last is not None:
            self._check_covered(capture, nodes, indices.pop())
        graph, self._graph = self._graph, None
        self._forget_events()
        host_tasks = sum(isinstance(work, HostWork) for work in capture.nodes)
        return Recording(
            f"capture_{capture.id}",
            capture.nodes,
            capture.dependencies,
            NativeTemplate(graph, nodes, indices, host_tasks),
        )

    def abandon(self) -> None:
        if self._graph is None:
            return
        try:
            self._extension.end(self._graph)
        except RuntimeError as error:
            warnings.warn(f"SYCL did not end a recording that was thrown away: {error}", GraphcapWarning, stacklevel=2)
        self._graph = None
        self._forget_events()

    def _forget_events(self) -> None:
        """Let no event of the recording live on: one given to an eager submission starts a recording again."""
        self._events, self._waits, self._last = [], {}, {}

    def _stop(self) -> None:
        try:
            self._extension.end(self._graph)
        except RuntimeError as error:
            raise DriverError("command_graph::end_recording", 0, "sycl::exception", str(error)) from error

    def _read(self, events: list[Any]) -> tuple[list[tuple[int, list[int]]], list[int]]:
        try:
            return self._extension.nodes(self._graph, [_dpctl.event_capsule(event) for event in events])
        except RuntimeError as error:
            raise DriverError("command_graph::get_nodes", 0, "sycl::exception", str(error)) from error

    def _check_covered(self, capture: Capture, nodes: list[tuple[int, list[int]]], last: int) -> None:
        """Find forked work that only SYCL saw and that the origin stream does not wait for (E-8)."""
        covered = {last}
        waiting = [last]
        while waiting:
            for before in nodes[waiting.pop()][1]:
                if before not in covered:
                    covered.add(before)
                    waiting.append(before)
        loose = [index for index, (kind, _) in enumerate(nodes) if kind not in BARRIER_TYPES and index not in covered]
        if loose:
            raise capture.unjoined(
                f"{len(loose)} node{'s' * (len(loose) != 1)} submitted to a forked stream's queue directly",
                [repr(stream) for stream in capture.streams if stream is not self._origin],
            )
