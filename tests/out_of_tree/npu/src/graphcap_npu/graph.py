"""Graphs of the pretend device: the template is what was recorded, a replay is one piece of work that does it all."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, ClassVar

from graphcap import CaptureForbiddenError, GraphCaptureMode, Stream, dot
from graphcap.backends.base import Backend
from graphcap.backends.graph_impl import GraphImpl
from graphcap.backends.streams import current_stream
from graphcap.topology import GraphTopology, NodeKind
from graphcap_npu import device
from graphcap_npu.backend import npu_backend
from graphcap_npu.device import Capture, NPUStream


class NPUGraphImpl(GraphImpl):
    """What ``graphcap.Graph("npu")`` is made of."""

    backend: ClassVar[Callable[[], Backend]] = staticmethod(npu_backend)
    _backend: Any
    _capture: Capture | None = None
    _template: Capture | None = None
    _executable: Callable[[list[object]], None] | None = None

    def _begin(self, stream: Stream, mode: GraphCaptureMode) -> Callable[[int], bool]:
        assert isinstance(stream, NPUStream)
        capture = self._capture = Capture(stream)
        with device.lock:
            device.open_captures.append(capture)
            capture.enlist(stream, ())
        return lambda handle: any(member.handle == handle for member in capture.members)

    def _end(self) -> int:
        capture, self._capture = self._capture, None
        assert capture is not None
        capture.end()
        self._template = capture
        return len(capture.nodes)

    def _abandon(self) -> None:
        capture, self._capture = self._capture, None
        if capture is not None:
            capture.close()

    def _broken_by(self) -> BaseException | None:
        return None if self._capture is None else self._capture.cause

    def _instantiate(self) -> None:
        assert self._template is not None
        calls, one_at_a_time = tuple(self._template.calls), threading.Lock()

        def run(owned: list[object]) -> None:  # `owned` lives as long as the replay is in flight
            with one_at_a_time:
                for call in calls:
                    call()

        self._executable = run

    def _launch(self) -> None:
        stream = current_stream(self._backend, 0)
        assert isinstance(stream, NPUStream)
        executable, owned = self._executable, list(self._owned)
        assert executable is not None
        with device.lock:
            if stream.capture is not None:
                stream.capture.check("replay()")
                raise device.forbid(
                    CaptureForbiddenError("replay()", f"{stream!r} is capturing", "Replay it on another stream."),
                    stream.capture,
                )
        self._backend.errors.raise_first()
        stream.submit(NodeKind.CHILD_GRAPH, "replay", lambda: executable(owned))

    def _drop_template(self) -> None:
        self._template = None

    def _drop_executable(self) -> None:
        self._executable = None

    def _topology(self) -> GraphTopology:
        assert self._template is not None
        edges = [
            (before, node) for node, found in enumerate(self._template.dependencies) for before in sorted(set(found))
        ]
        return GraphTopology(self._template.nodes, edges, name="captured", origin="npu")

    def _dump(self, path: str) -> None:
        text = dot.write(self._topology()).encode()
        part = f"{path}.{os.getpid()}.partial"
        try:
            with open(part, "wb") as file:
                file.write(text)
            os.replace(part, path)
        except OSError:
            if os.path.exists(part):
                os.unlink(part)
            raise
