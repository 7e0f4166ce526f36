"""Conditional nodes: parts of a graph that a replay runs, repeats or chooses as the device decides.

A kernel decides, by setting a condition (``cudaGraphSetConditional`` in device code); graphcap captures the bodies. Each
body is captured on a stream of its own into the body's graph (S-B50); memory in it comes from the pool of the capture.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, overload

from graphcap.backends.cuda import _calls as calls
from graphcap.backends.cuda import _driver as driver
from graphcap.backends.cuda import _graph_calls as graph_calls
from graphcap.backends.cuda.captures import Capture, Conditional
from graphcap.backends.cuda.context import DeviceGuard, primary_context
from graphcap.errors import CaptureStateError, UnsupportedError, add_note

if TYPE_CHECKING:
    from graphcap.backends.cuda.stream import CUDAStream

__all__ = ["Body", "Condition", "Switch", "add", "new_condition"]

_KINDS: Final = {"if": 0, "while": 1, "switch": 2}
_SINCE: Final = {"if": 12040, "if with else": 12080, "while": 12040, "switch": 12080}


class Condition:
    """A number on the device that kernels of the graph set and conditional nodes read.

    Given to ``Stream.launch`` as an argument it is the 64-bit handle that ``cudaGraphSetConditional`` takes.
    """

    __slots__ = ("graph", "handle")

    def __init__(self, handle: int, graph: int) -> None:
        self.handle = handle
        self.graph = graph

    def __int__(self) -> int:
        return self.handle

    def __repr__(self) -> str:
        return f"<graphcap.Condition {self.handle:#x}>"


class Body:
    """``with body as stream:`` captures the block's work into one body of a conditional node. Can be entered once."""

    def __init__(self, parent: CUDAStream, capture: Capture, graph: int, what: str) -> None:
        self._parent = parent
        self._capture = capture
        self._graph = graph
        self._what = what
        self._stream: CUDAStream | None = None
        self._identity = 0
        self._entered = False

    def __enter__(self) -> CUDAStream:
        if self._entered or not self._capture.open:
            raise CaptureStateError(
                f"the body of {self._what}",
                "it was captured already, or its capture is over",
                "Make a new conditional node.",
            )
        backend, device = self._parent.backend, self._parent.device_index
        stream = backend.create_stream(device)
        with DeviceGuard(device):
            calls.begin_capture_to_graph(stream.handle, self._graph, self._capture.mode)
            try:
                self._identity = calls.capture_info(stream.handle).id
            except BaseException:
                driver.answer("cuStreamEndCapture", stream.handle)
                raise
        self._entered = True
        self._stream = stream
        backend.captures.opened(self._capture, self._identity)
        stream.__enter__()
        return stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stream = self._stream
        assert stream is not None, "only left after it was entered"
        self._stream = None
        try:
            stream.__exit__(kind, error, trace)
        finally:
            with DeviceGuard(stream.device_index):
                code, _ = driver.answer("cuStreamEndCapture", stream.handle)
            stream.backend.captures.body_closed(self._capture, self._identity)
        if error is not None:
            self._capture.failed_body = error
            if code:
                add_note(
                    error,
                    f"then ending the body of {self._what} failed too: {driver.error_of('cuStreamEndCapture', code)}",
                )
            return
        if code:
            failure = driver.mapped("cuStreamEndCapture", code, f"the end of the body of {self._what}")
            self._capture.note(failure)
            self._capture.failed_body = failure
            raise failure


class Switch(Sequence[Body]):
    """The bodies of a node with several of them."""

    def __init__(self, bodies: Sequence[Body]) -> None:
        self._bodies = tuple(bodies)

    @overload
    def __getitem__(self, index: int) -> Body: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Body]: ...
    def __getitem__(self, index: int | slice) -> Body | Sequence[Body]:
        return self._bodies[index]

    def __len__(self) -> int:
        return len(self._bodies)


def new_condition(stream: CUDAStream, default: int | None) -> Condition:
    """As ``CUDAStream.condition``."""
    asked = "Stream.condition()"
    stream.backend.capabilities.require("conditional_nodes", "CUDA", asked, "They need a driver of CUDA 12.4 or newer.")
    _, info = _capturing(stream, asked)
    if default is not None and not 0 <= default < 1 << 32:
        raise ValueError(f"condition(default={default}): a condition is an unsigned number of 32 bits.")
    with DeviceGuard(stream.device_index):
        handle = graph_calls.create_condition(info.graph, primary_context(stream.device_index), default, asked)
    return Condition(handle, info.graph)


def add(stream: CUDAStream, condition: Condition, word: str, size: int) -> list[Body]:
    """Add a conditional node after the stream's work; give its bodies, still empty.

    Raises
    ------
    UnsupportedError
        The driver is too old: the message names the version needed.
    CaptureStateError
        The stream does not capture, or not by graphcap.
    """
    what = "if with else" if word == "if" and size == 2 else word
    asked = f"Stream.{word}{'' if word == 'switch' else '_'}()"
    needed = _SINCE[what]
    if stream.backend.driver_version < needed:
        version = f"{needed // 1000}.{needed % 1000 // 10}"
        raise UnsupportedError(
            "CUDA", asked, "conditional_nodes", f"{what!r} needs a driver of CUDA {version} or newer."
        )
    capture, info = _capturing(stream, asked)
    with DeviceGuard(stream.device_index):
        context = primary_context(stream.device_index)
        node, graphs = graph_calls.add_conditional_node(
            info.graph, info.frontier, condition.handle, _KINDS[word], size, context, asked
        )
        calls.set_frontier(stream.handle, node)
    capture.conditionals[node] = Conditional(word, condition.handle, tuple(graphs))
    return [Body(stream, capture, graph, f"{word} node") for graph in graphs]


def _capturing(stream: CUDAStream, asked: str) -> tuple[Capture, calls.CaptureInfo]:
    with DeviceGuard(stream.device_index):
        info = calls.capture_info(stream.handle)
    capture = stream.backend.captures.by_id(info.id) if info.id else None
    if capture is None:
        raise CaptureStateError(
            asked, f"{stream!r} does not take part in a capture of graphcap", "Use it inside `with stream, graph:`."
        )
    return capture, info
