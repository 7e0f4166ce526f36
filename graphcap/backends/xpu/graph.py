"""The XPU's graph implementation, on either tier."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from graphcap import dot
from graphcap._capture_state import Move
from graphcap._files import write_whole
from graphcap.backends.base import Backend
from graphcap.backends.graph_impl import GraphImpl
from graphcap.backends.lifetimes import PointerUse
from graphcap.backends.owners import Owner
from graphcap.backends.parameter_uses import Use
from graphcap.backends.streams import Stream, current_stream
from graphcap.backends.xpu import captures
from graphcap.backends.xpu.backend import XPUBackend, xpu_backend
from graphcap.backends.xpu.captures import Capture
from graphcap.backends.xpu.describe import describe
from graphcap.backends.xpu.executables import Executable, NativeExecutable, SoftwareExecutable
from graphcap.backends.xpu.lane import Point
from graphcap.backends.xpu.pointers import known_outside, pointer_uses
from graphcap.backends.xpu.recording import NativeRecorder, Recording, SoftwareRecorder, record_again
from graphcap.backends.xpu.streams import XPUStream
from graphcap.errors import DriverError, GraphStructureError, GraphUpdateError, UnsupportedError
from graphcap.interface import GraphCaptureMode, GraphImplArgs, GraphImplInterface, MempoolId
from graphcap.memory import CachingAllocator
from graphcap.topology import GraphTopology

__all__ = ["XPUGraphImpl"]

_EXTRA_KINDS = ("shared", "host")


class XPUGraphImpl(GraphImpl):
    """A captured XPU graph: a SYCL ``command_graph``, or a list of recorded work on the software tier."""

    backend: ClassVar[Callable[[], Backend]] = staticmethod(xpu_backend)
    _backend: XPUBackend
    _capture: Capture | None = None
    _template: Recording | None = None
    _executable: Executable | None = None
    _last: Point | None = None
    _last_stream: XPUStream | None = None

    def __init__(self, args: GraphImplArgs) -> None:
        self._extra_uses: list[tuple[CachingAllocator, MempoolId]] = []
        self._has_new_values = False
        super().__init__(args)

    # -- capture -------------------------------------------------------------------------------------------------

    def _begin(self, stream: Stream, mode: GraphCaptureMode) -> Callable[[int], bool]:
        assert isinstance(stream, XPUStream), "the current stream of an XPU is an XPU stream"
        extension = self._backend.extension
        capture = Capture(stream, SoftwareRecorder() if extension is None else NativeRecorder(extension))
        capture.begin()
        self._capture = capture
        return capture.includes

    def _end(self) -> int:
        capture, self._capture = self._capture, None
        assert capture is not None, "only called while a capture is open"
        recording = capture.end()
        if self.debug:
            _validate(recording)
        if recording.has_foreign_nodes and any(work.uses for work in recording.nodes):
            raise UnsupportedError(
                self._backend.name,
                "a capture with parameters in which work was submitted to the queue directly",
                "node_update",
                "Submit all work through graphcap's stream, or capture plain numbers.",
            )
        for work in recording.nodes:
            self._owned.extend(work.owners)
        self._template = recording
        return recording.count

    def _abandon(self) -> None:
        capture, self._capture = self._capture, None
        if capture is not None:
            capture.close()

    def _broken_by(self) -> BaseException | None:
        return None if self._capture is None else self._capture.cause

    def _enter_hooks(self, stream: Stream, pool: MempoolId) -> contextlib.ExitStack:
        # Shared and host memory have managers of their own, which the shared part does not know of.
        capture = self._capture
        assert capture is not None, "the device's capture has begun"
        with contextlib.ExitStack() as undo:
            for kind in _EXTRA_KINDS:
                allocator = self._backend.allocator_of(stream.device_index, kind)
                allocator.release_freeable_pools(keep=pool)
                allocator.begin_allocate_to_pool(pool, self._logged(capture.includes))
                self._extra_uses.append((allocator, pool))
                undo.callback(self._end_extra_routing, allocator, pool)
                allocator.capture_began()
                undo.callback(allocator.capture_ended)
            undo.push(super()._enter_hooks(stream, pool))
            return undo.pop_all()

    def _end_extra_routing(self, allocator: CachingAllocator, pool: MempoolId) -> None:
        self._extra_uses += [(allocator, nested) for nested in allocator.end_allocate_to_pool(pool)]

    def _forget(self) -> None:
        uses, self._extra_uses = self._extra_uses, []
        self._has_new_values = False
        try:
            super()._forget()
        finally:
            for allocator, pool in uses:
                allocator.release_pool(pool)

    # -- memory --------------------------------------------------------------------------------------------------

    def _pointers(self) -> Iterable[PointerUse]:
        assert self._template is not None, "only called while a template is live"
        return pointer_uses(self._template)

    def _outside(self, address: int) -> tuple[Owner | None, str] | None:
        return known_outside(address, self._backend.service_queue(self.device_index))

    def _own_pools(self) -> frozenset[MempoolId]:
        return super()._own_pools().union(pool for _, pool in self._extra_uses)

    def _marker(self) -> Callable[[], object]:
        capture = self._capture
        assert capture is not None, "only asked for while a capture is open"
        return lambda: len(capture.nodes)

    def _positions(self, marks: Sequence[object]) -> list[int]:
        return [mark if isinstance(mark, int) else 0 for mark in marks]

    # -- the graph -----------------------------------------------------------------------------------------------

    def _instantiate(self) -> None:
        assert self._template is not None, "only called while a template is live"
        extension = self._backend.extension
        template = self._template
        if self._has_new_values:
            template = replace(template, nodes=[work.rebound() for work in template.nodes])
        if template.native is None or extension is None:
            made: Executable = SoftwareExecutable(template)
        else:
            if self._has_new_values:
                template = record_again(extension, self._backend.service_queue(self.device_index), template)
            updatable = self._backend.has_full_aspect and self.keep_graph
            made = NativeExecutable(extension, template, updatable=updatable)
        self._drop_executable()
        self._executable = made

    def _launch(self) -> None:
        stream = current_stream(self._backend, self.device_index)
        assert isinstance(stream, XPUStream), "the current stream of an XPU is an XPU stream"
        captures.check_stream_call("replay() on a capturing stream", stream)  # E-17
        self._backend.host_errors.raise_first()
        if self.parameters is not None and self.parameters.pending:
            self.parameters.refresh()
            self._has_new_values = True
            self._instantiate()
        assert self._executable is not None, "only called while an executable is live"
        # One executable never overlaps itself, whatever the stream (S-D38).
        if self._last is not None and self._last_stream is not stream and not self._last.is_done():
            stream.wait_point(self._last)
        self._last, self._last_stream = self._executable.launch(stream), stream

    def _parameter_uses(self) -> list[Use]:
        return [] if self._template is None else [use for work in self._template.nodes for use in work.uses]

    def _end_move(self) -> Move:
        capture, move = self._capture, super()._end_move()
        # New values need an executable made anew from the template, which has to live for that.
        bound = capture is not None and any(work.uses for work in capture.nodes)
        return Move.END_BOTH if bound and move is Move.END_EXECUTABLE else move

    def update(self, other: GraphImplInterface) -> None:
        """Give the executable the parameters of another captured graph of the same topology.

        Raises
        ------
        UnsupportedError
            The device lacks SYCL's full graph aspect, or the tier is the software one.
        GraphUpdateError
            SYCL refused it, or this graph was not captured with ``keep_graph=True``.
        """
        self._check(Move.UPDATE)
        if not self._backend.has_full_aspect:
            raise UnsupportedError(
                self._backend.name,
                "Graph.update()",
                "graph_update",
                "The device has only the limited graph aspect; capture a new graph instead.",
            )
        if not isinstance(other, XPUGraphImpl):
            raise TypeError(f"update(): expected a graph of the XPU backend, not {type(other).__name__}.")
        other._check(Move.INSPECT, "update() from this graph")
        if self.parameters is not None or other.parameters is not None:
            raise GraphUpdateError(
                "update()",
                "one of the two graphs has parameters",
                "Give the parameters new values instead, or capture a new graph.",
            )
        assert self._executable is not None, "checked by the state table"
        assert other._template is not None, "as above"
        self._executable.update(other._template)
        self._owned.extend(other._owned)

    def _drop_template(self) -> None:
        self._template = None

    def _drop_executable(self) -> None:
        executable, self._executable = self._executable, None
        if executable is not None and self._last is not None and not self._last.is_done():
            self._backend.park(self._last, executable)

    def _release_owned(self, owned: list[object]) -> None:
        last, self._last, self._last_stream = self._last, None, None
        if last is not None and not last.is_done():
            self._backend.park(last, owned)
        else:
            owned.clear()
        self._backend.sweep()

    # -- inspection ----------------------------------------------------------------------------------------------

    def _topology(self) -> GraphTopology:
        assert self._template is not None, "only called while a template is live"
        return describe(self._template)

    def _dump(self, path: str) -> None:
        assert self._template is not None, "only called while a template is live"
        native, extension = self._template.native, self._backend.extension
        if native is None or extension is None:
            write_whole(path, dot.write(self._topology()).encode())
            return
        # SYCL writes to a path that ends in .dot and tells nobody when it fails.
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "graph.dot")
            try:
                extension.print(native.graph, file, True)
            except RuntimeError as error:
                raise DriverError("command_graph::print_graph", 0, "sycl::exception", str(error)) from error
            with open(file, "rb") as written:
                text = written.read()
        write_whole(path, text)


def _validate(recording: Recording) -> None:
    """The extra validation of debug mode: SYCL recorded what graphcap gave it, in an order that keeps its dependencies.

    Raises
    ------
    GraphStructureError
        It did not.
    """
    native = recording.native
    if native is None:
        return
    waits = native.effective_predecessors()
    before: dict[int, set[int]] = {}
    for node, sources in waits.items():
        before[node] = set(sources).union(*(before[source] for source in sources))
    for position, sources_wanted in enumerate(recording.dependencies):
        node = native.indices[position]
        missing = [source for source in sources_wanted if native.indices[source] not in before.get(node, set())]
        if node not in before or missing:
            raise GraphStructureError(
                "capture_end() in debug mode",
                f"SYCL's graph does not order node {position} ({recording.nodes[position].name!r}) after nodes {missing}",
                "Report it: graphcap and the SYCL runtime disagree about the order of this capture.",
            )
