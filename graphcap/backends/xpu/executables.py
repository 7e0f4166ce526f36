"""The executable graph of each tier."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

from graphcap.backends.xpu import _dpctl
from graphcap.backends.xpu.lane import Point
from graphcap.backends.xpu.native import SyclGraph
from graphcap.backends.xpu.recording import Recording
from graphcap.backends.xpu.work import HostWork, Work, kernel_arguments
from graphcap.errors import DriverError, GraphUpdateError

if TYPE_CHECKING:
    from graphcap.backends.xpu.streams import XPUStream

__all__ = ["Executable", "NativeExecutable", "SoftwareExecutable"]


class Executable(abc.ABC):
    """What a replay launches. It does not own what its nodes use: the graph does."""

    @abc.abstractmethod
    def launch(self, stream: XPUStream) -> Point | None:
        """Give all nodes to the stream's queue; the point at which they are done, ``None`` if there are none."""

    @abc.abstractmethod
    def update(self, recording: Recording) -> None:
        """Take over the parameters of another template of the same topology; only where the device can."""


class SoftwareExecutable(Executable):
    """Submits the recorded work again. The order of recording is a topological order, and the queue is in-order."""

    def __init__(self, recording: Recording) -> None:
        # Host calls stand between batches of work that go to the queue in one go.
        self._parts: list[HostWork | list[Work]] = []
        for work in recording.nodes:
            if isinstance(work, HostWork):
                self._parts.append(work)
            elif self._parts and isinstance(self._parts[-1], list):
                self._parts[-1].append(work)
            else:
                self._parts.append([work])

    def launch(self, stream: XPUStream) -> Point | None:
        point = None
        for part in self._parts:
            point = stream.run_all(part) if isinstance(part, list) else stream.run(part)
        return point

    def update(self, recording: Recording) -> None:
        raise AssertionError("refused before: the software tier has no graph_update")


class NativeExecutable(Executable):
    """SYCL's executable ``command_graph``.

    Parameters
    ----------
    updatable
        Let SYCL keep what an update needs. Only for devices with the full graph aspect.
    """

    def __init__(self, extension: SyclGraph, recording: Recording, *, updatable: bool) -> None:
        assert recording.native is not None, "recorded on the native tier"
        self._extension = extension
        self._updatable = updatable
        self._nodes = recording.nodes  # with the values of parameters that this executable was made with
        self._host_tasks = recording.native.host_tasks
        try:
            with kernel_arguments:
                self._exec: Any = extension.finalize(recording.native.graph, updatable)
        except RuntimeError as error:
            raise DriverError(
                "command_graph::finalize",
                0,
                "sycl::exception",
                str(error),
                "A node may be of a kind that the device cannot put into a graph, such as a prefetch.",
            ) from error

    def launch(self, stream: XPUStream) -> Point | None:
        try:
            capsule = self._extension.launch(self._exec, stream.target.capsule, self._host_tasks)
        except RuntimeError as error:
            raise DriverError("sycl::queue::ext_oneapi_graph", 0, "sycl::exception", str(error)) from error
        return Point(_dpctl.make_event(capsule))

    def update(self, recording: Recording) -> None:
        assert recording.native is not None, "recorded on the native tier"
        if not self._updatable:
            raise GraphUpdateError(
                "update()",
                "the graph was not made to be updated",
                "Capture it with keep_graph=True.",
            )
        try:
            with kernel_arguments:
                self._extension.update(self._exec, recording.native.graph)
        except RuntimeError as error:
            raise GraphUpdateError("update()", f"SYCL refused it: {error}", "Capture a new graph instead.") from error
