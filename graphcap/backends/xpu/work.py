"""One piece of work for a SYCL queue: submitted now, recorded into a SYCL graph, or kept as a node of a software graph."""

from __future__ import annotations

import abc
import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from graphcap.backends.parameter_uses import Use
from graphcap.backends.xpu import _dpctl
from graphcap.backends.xpu.host_calls import HostCall
from graphcap.backends.xpu.native import SyclGraph
from graphcap.errors import DriverError
from graphcap.topology import NodeKind

# A kernel object keeps its arguments between "set" and "enqueue" (OpenCL's rule, and Level Zero's). SYCL sets them when it
# finalizes a graph too, so a submission on one thread and a finalize on another must not meet. Submissions hold the GIL
# throughout, inside dpctl; finalize does not, and takes this lock as well.
kernel_arguments: Final = threading.Lock()

__all__ = ["CopyWork", "FillBytesWork", "HostWork", "KernelWork", "Target", "Work", "kernel_arguments"]


@dataclass(frozen=True)
class Target:
    """Where work goes: a dpctl queue, and for the native tier the extension and the queue's capsule."""

    queue: Any
    extension: SyclGraph | None = None
    capsule: Any = None


class Work(abc.ABC):
    """What one node does.

    Attributes
    ----------
    kind, name, params
        For the topology.
    owners
        What must live as long as the work may run. A graph keeps all of them.
    """

    __slots__ = ("kind", "name", "owners", "params")

    def __init__(self, kind: NodeKind, name: str, params: Mapping[str, Any], owners: tuple[object, ...]) -> None:
        self.kind = kind
        self.name = name
        self.params = params
        self.owners = owners

    @property
    def uses(self) -> Sequence[Use]:
        """Where the work takes the values of parameters."""
        return ()

    def rebound(self) -> Work:
        """The work with the values that its :attr:`uses` have by now; itself if it has none."""
        return self

    @abc.abstractmethod
    def enqueue(self, target: Target, waits: Sequence[Any] = ()) -> Any:
        """Submit to the target's queue, which executes or records; give the ``SyclEvent``.

        Parameters
        ----------
        waits
            Events of the same capture that the work depends on, besides the queue's own order.

        Raises
        ------
        DriverError
            SYCL refused the work.
        """


class KernelWork(Work):
    """A kernel over a global range. Also a fill, where `kind` says so.

    Parameters
    ----------
    slots
        Positions of arguments that are values of parameters; what each use has packed is the argument.
    """

    __slots__ = ("_arguments", "_global", "_kernel", "_local", "_slots")

    def __init__(
        self,
        kernel: Any,
        arguments: Sequence[Any],
        global_size: Sequence[int],
        local_size: Sequence[int] | None,
        *,
        name: str,
        params: Mapping[str, Any],
        owners: tuple[object, ...],
        kind: NodeKind = NodeKind.KERNEL,
        slots: Sequence[tuple[int, Use]] = (),
    ) -> None:
        if slots:
            params = {**params, "parameters": tuple(dict.fromkeys(str(use.scalar) for _, use in slots))}
        super().__init__(kind, name, params, (*owners, kernel))
        self._slots = tuple(slots)
        self._kernel = kernel
        self._arguments = list(arguments)
        self._global = list(global_size)
        self._local = None if local_size is None else list(local_size)

    @property
    def uses(self) -> Sequence[Use]:
        return [use for _, use in self._slots]

    def rebound(self) -> Work:
        if not self._slots:
            return self
        made = copy.copy(self)
        made._arguments = list(self._arguments)
        for position, use in self._slots:
            made._arguments[position] = use.packed
        return made

    def enqueue(self, target: Target, waits: Sequence[Any] = ()) -> Any:
        try:
            with kernel_arguments:
                return target.queue.submit_async(self._kernel, self._arguments, self._global, self._local, list(waits))
        except _dpctl.SubmitErrors as error:
            # dpctl drops SYCL's own words, so the sizes have to do.
            raise DriverError(
                "dpctl.SyclQueue.submit_async",
                0,
                type(error).__name__,
                f"kernel {self.name!r} over global size {self._global}, local size {self._local}",
                "Check the sizes against the device's limits and the arguments against the kernel's signature.",
            ) from error


class CopyWork(Work):
    """A copy of bytes between USM memory and host memory, in any direction."""

    __slots__ = ("_dst", "_nbytes", "_src")

    def __init__(self, dst: Any, src: Any, nbytes: int, params: Mapping[str, Any], owners: tuple[object, ...]) -> None:
        super().__init__(NodeKind.MEMCPY, "memcpy", params, (*owners, dst, src))
        self._dst = dst
        self._src = src
        self._nbytes = nbytes

    def enqueue(self, target: Target, waits: Sequence[Any] = ()) -> Any:
        try:
            return target.queue.memcpy_async(self._dst, self._src, self._nbytes, list(waits))
        except RuntimeError as error:
            raise DriverError("dpctl.SyclQueue.memcpy_async", 0, type(error).__name__, str(error)) from error


class FillBytesWork(Work):
    """A memset of USM memory. Native tier only: dpctl's own memset waits."""

    __slots__ = ("_nbytes", "_pointer", "_value")

    def __init__(
        self, pointer: int, value: int, nbytes: int, params: Mapping[str, Any], owners: tuple[object, ...]
    ) -> None:
        super().__init__(NodeKind.MEMSET, "memset", params, owners)
        self._pointer = pointer
        self._value = value
        self._nbytes = nbytes

    def enqueue(self, target: Target, waits: Sequence[Any] = ()) -> Any:
        assert target.extension is not None, "only made for the native tier"
        try:
            events = [_dpctl.event_capsule(event) for event in waits]
            capsule = target.extension.fill_bytes(target.capsule, self._pointer, self._value, self._nbytes, events)
        except RuntimeError as error:
            raise DriverError("sycl::queue::memset", 0, "sycl::exception", str(error)) from error
        return _dpctl.make_event(capsule)


class HostWork(Work):
    """A call on the host, in the queue's order."""

    __slots__ = ("call",)

    def __init__(self, call: HostCall) -> None:
        super().__init__(NodeKind.HOST, call.name, {}, (call,))
        self.call = call

    def enqueue(self, target: Target, waits: Sequence[Any] = ()) -> Any:
        assert target.extension is not None, "the software tier runs host calls in its lanes"
        try:
            events = [_dpctl.event_capsule(event) for event in waits]
            return _dpctl.make_event(target.extension.host_task(target.capsule, self.call.token, events))
        except RuntimeError as error:
            raise DriverError("sycl::handler::host_task", 0, "sycl::exception", str(error)) from error
