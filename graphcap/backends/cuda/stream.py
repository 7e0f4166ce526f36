"""Streams of a CUDA device, graphcap's own and those of other libraries, and the work that they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from graphcap.backends.cuda import _calls as calls
from graphcap.backends.cuda import _driver as driver
from graphcap.backends.cuda import _graph_calls as graph_calls
from graphcap.backends.cuda import conditional, fills, host_calls
from graphcap.backends.cuda.buffer import PinnedBuffer
from graphcap.backends.cuda.conditional import Body, Condition, Switch
from graphcap.backends.cuda.context import DeviceGuard, Relaxed
from graphcap.backends.cuda.event import CUDAEvent
from graphcap.backends.cuda.launch import Parameters, dimensions, kernel_ref
from graphcap.backends.cuda.operands import Operand, operand, pattern_of
from graphcap.backends.cuda.scalars import KernelBinding
from graphcap.backends.parameters import Scalar, current_value, refuse_in_host_call
from graphcap.backends.streams import Event, Stream
from graphcap.dot.names import demangle
from graphcap.errors import CaptureIsolationError, UnsupportedError
from graphcap.interface import CaptureStatus

if TYPE_CHECKING:
    from graphcap.backends.cuda.backend import CUDABackend
    from graphcap.backends.cuda.captures import Capture
    from graphcap.backends.cuda.trash import Handle

__all__ = ["CUDAStream"]

_LEGACY = 1
_INVALID_VALUE = 1


class CUDAStream(Stream):
    """A CUDA stream.

    Parameters
    ----------
    handle
        The driver's stream; 0 is the legacy default stream.
    owner
        The object of another library that owns the stream, kept alive; ``None`` for a raw handle.
    made_with
        Of a stream that is graphcap's own: whether it is blocking, and its priority. Such a stream is destroyed, once its work
        is done, with the last reference.
    """

    def __init__(
        self,
        backend: CUDABackend,
        device: int,
        handle: int,
        *,
        owner: object = None,
        made_with: tuple[bool, int] | None = None,
    ) -> None:
        self.backend: CUDABackend = backend
        self.device_index = device
        self._handle = 0 if handle == _LEGACY else handle
        self._owner = owner
        self._made_with = made_with
        self.grave: Handle | None = None
        """Set by the finalizer: what waits to be destroyed."""
        self.token = object()
        self.pointer: Any = driver.ffi().cast("void *", self._handle)
        """The handle as calls by pointer take it; made once, for replays."""

    def __del__(self) -> None:
        if getattr(self, "_made_with", None) is not None:
            self.grave = self.backend.trash.destroy("cuStreamDestroy", self._handle, self.device_index)

    def renew(self) -> bool:
        """Take a new driver stream in place of one whose capture nobody else may end; ``False`` for a foreign stream.

        Destroying the origin ends its capture, whichever thread does it (E-12).
        """
        if self._made_with is None:
            return False
        blocking, priority = self._made_with
        with DeviceGuard(self.device_index), Relaxed():
            new = calls.create_stream(blocking=blocking, priority=priority)
            old, self._handle = self._handle, new
            self.pointer = driver.ffi().cast("void *", new)
            driver.call("cuStreamDestroy", old)
        return True

    @property
    def handle(self) -> int:
        return self._handle

    def __cuda_stream__(self) -> tuple[int, int]:
        """The protocol by which cuda.core, Numba and others take the stream."""
        return (0, self._handle)

    @property
    def capture_status(self) -> CaptureStatus:
        with DeviceGuard(self.device_index):
            return calls.capture_status(self._handle)

    @property
    def capture_id(self) -> int:
        return self._info().id

    # -- order ---------------------------------------------------------------------------------------------------

    def record(self, event: Event | None = None, *, timing: bool = False, external: bool = False) -> Event:
        own = CUDAEvent(self.backend, self.device_index, timing=timing) if event is None else _own(event)
        info = self._info()
        capturing = info.status is CaptureStatus.ACTIVE
        with DeviceGuard(self.device_index):
            if external:
                self._need_capture("record", capturing)
                self._call("cuEventRecordWithFlags", own.handle, self._handle, calls.EXTERNAL, asked="Stream.record()")
                own.recorded(captured=False, capture=None)
                self._keep(own)
            else:
                self._call("cuEventRecord", own.handle, self._handle, asked="Stream.record()")
                capture = self.backend.captures.by_id(info.id) if capturing else None
                own.recorded(captured=capturing, capture=capture)
        return own

    def wait(self, event: Event | Stream, *, external: bool = False) -> None:
        asked = f"{self!r}.wait(event)"
        own = _own(event.record() if isinstance(event, Stream) else event)
        if own.is_stale:
            raise CaptureIsolationError(
                asked,
                "the event was recorded in a capture that is over",
                "Record the event again before waiting for it.",
            )
        capture = own.capture
        with DeviceGuard(self.device_index):
            if external:
                self._need_capture("wait", self.capture_status is CaptureStatus.ACTIVE)
                self._call("cuStreamWaitEvent", self._handle, own.handle, calls.EXTERNAL, asked=asked)
                self._keep(own)
                return
            code, _ = driver.answer("cuStreamWaitEvent", self._handle, own.handle, 0)
        captures = self.backend.captures
        if code == _INVALID_VALUE and capture is not None and capture.cause is not None:
            raise captures.invalidated(capture, asked)  # E-7: the driver does not say why
        if code:
            raise captures.refused(driver.mapped("cuStreamWaitEvent", code, asked), self._handle)
        if capture is not None:
            capture.joined(self)

    def synchronize(self) -> None:
        with DeviceGuard(self.device_index):
            self._call("cuStreamSynchronize", self._handle, asked="Stream.synchronize()")
        self.backend.host_errors.raise_first()

    def query(self) -> bool:
        with DeviceGuard(self.device_index):
            return self.backend.captures.is_done(
                "cuStreamQuery", self._handle, asked="Stream.query()", stream=self._handle
            )

    # -- work ----------------------------------------------------------------------------------------------------

    def copy(self, dst: Any, src: Any) -> None:
        consumer = self.consumer_number
        target, source = operand(dst, "copy() destination", consumer), operand(src, "copy() source", consumer)
        if target.read_only:
            raise ValueError("copy() destination: the memory is read-only.")
        if target.nbytes != source.nbytes:
            raise ValueError(f"copy(): the destination has {target.nbytes} bytes, the source {source.nbytes}.")
        if not target.nbytes:
            return
        name = _COPIES[source.on_device, target.on_device]
        with DeviceGuard(self.device_index):
            captured = self._keep_operands(target, source)
            self._call(name, target.address, source.address, target.nbytes, self._handle, asked="Stream.copy()")
            if not captured:
                self._hold_until_done(target, source)

    def save(self, array: Any) -> Any:
        memory = operand(array, "save()", self.consumer_number)
        saved = self.allocate(memory.nbytes)
        self.copy(saved, array)
        return saved

    def fill(self, dst: Any, value: float | complex | Scalar) -> None:
        target = operand(dst, "fill() destination", self.consumer_number)
        if target.read_only:
            raise ValueError("fill() destination: the memory is read-only.")
        if not target.on_device:
            raise TypeError("fill(): the destination is host memory. Fill it with NumPy, or with host_call().")
        pattern = pattern_of(current_value(value), target.dtype)
        if not target.nbytes:
            return
        if isinstance(value, Scalar):
            with DeviceGuard(self.device_index):
                capture = self._binding([(0, value)], "Stream.fill()")
                if capture is not None:
                    self._keep_operands(target)
                    fills.fill_later(self, target, value, capture)
                    return
        with DeviceGuard(self.device_index):
            self._keep_operands(target)
            fills.fill_bytes(self, target, pattern)

    def host_call(self, fn: Callable[..., Any], *args: Any) -> None:
        refuse_in_host_call(args)
        call = host_calls.HostCall(self.backend.host_errors, fn, args)
        info = self._info()
        with DeviceGuard(self.device_index):
            if info.status is CaptureStatus.ACTIVE:
                self._keep(call)  # the owner first: a node without one must never exist (user problems L)
                node = graph_calls.add_host_node(info.graph, info.frontier, call.token, "Stream.host_call()")
                calls.set_frontier(self._handle, node)
                return
            code = host_calls.launch(self._handle, call)
        if code:
            error = driver.mapped("cuLaunchHostFunc", code, "Stream.host_call()")
            raise self.backend.captures.refused(error, self._handle)

    def launch(
        self,
        kernel: Any,
        grid: int | Sequence[int] = 1,
        block: int | Sequence[int] = 1,
        *args: Any,
        shared: int = 0,
        **options: Any,
    ) -> None:
        """Launch a kernel.

        Parameters
        ----------
        kernel
            A ``cuda.core.Kernel``, or the raw handle of a kernel or function (an int, or an object of the bindings).
        grid, block
            Blocks, and threads per block, in up to three dimensions, x first.
        *args
            The kernel's arguments: buffers and device arrays, NumPy scalars, Python numbers, parameters. A Python number takes the size of the
            kernel's parameter where the driver tells it (not for a plain int as `kernel`), 8 bytes otherwise; a Python int for a
            floating-point parameter cannot be told from an int, so give a float.
        shared
            Bytes of dynamic shared memory per block.

        Raises
        ------
        TypeError, ValueError
            The arguments do not fit the kernel, as far as the driver tells its parameters.
        CaptureError, DriverError
            The driver refuses the launch.
        """
        if options:
            raise TypeError(f"launch(): unknown option {next(iter(options))!r}. Kernel arguments are positional.")
        if not isinstance(shared, int) or shared < 0:
            raise ValueError(f"launch(): shared={shared!r} must be zero or more bytes.")
        blocks, threads = dimensions(grid, "grid"), dimensions(block, "block")
        with DeviceGuard(self.device_index):
            ref = kernel_ref(kernel)
            parameters = Parameters(args, ref.layout, self.consumer_number)
            capture = self._binding(parameters.scalars, "Stream.launch()") if parameters.scalars else None
            if self._keep_operands(*parameters.operands):
                self._keep(ref.owner)
            self._call(
                "cuLaunchKernel",
                driver.struct("CUfunction", ref.handle),
                *blocks,
                *threads,
                shared,
                self._handle,
                parameters.address,
                0,
                asked="Stream.launch()",
            )
            if capture is not None:
                node = self.last_node()
                row = graph_calls.kernel_params(node)
                name = demangle(graph_calls.kernel_name(row.function, row.kernel))
                capture.bindings[node] = KernelBinding(parameters.values, parameters.scalars, name)

    # -- conditional nodes ---------------------------------------------------------------------------------------

    def condition(self, default: int | None = None) -> Condition:
        """A new condition of the graph under capture, for kernels to set and conditional nodes to read.

        Parameters
        ----------
        default
            The value that it has at the start of every launch; without one it keeps what the last launch left (S-D51).

        Raises
        ------
        UnsupportedError
            The driver is too old: the message names the version needed.
        CaptureStateError
            This stream does not capture.
        """
        return conditional.new_condition(self, default)

    def if_(self, condition: Condition) -> Body:
        """``with stream.if_(condition) as body:`` captures work that a replay does only if the condition is not zero.

        Raises
        ------
        UnsupportedError, CaptureStateError
            As :meth:`condition`.
        """
        return conditional.add(self, condition, "if", 1)[0]

    def if_else(self, condition: Condition) -> tuple[Body, Body]:
        """``then, otherwise = stream.if_else(condition)``: two bodies, of which a replay runs one. Raises as :meth:`if_`."""
        then, otherwise = conditional.add(self, condition, "if", 2)
        return then, otherwise

    def while_(self, condition: Condition) -> Body:
        """``with stream.while_(condition) as body:`` captures work that a replay repeats while the condition is not zero.

        The body has to set the condition again, or the replay never ends. Raises as :meth:`if_`.
        """
        return conditional.add(self, condition, "while", 1)[0]

    def switch(self, condition: Condition, cases: int) -> Switch:
        """`cases` bodies, of which a replay runs the one that the condition numbers, or none if it is past the last.

        Raises
        ------
        ValueError
            `cases` is less than one.
        UnsupportedError, CaptureStateError
            As :meth:`if_`.
        """
        if cases < 1:
            raise ValueError(f"switch(cases={cases}): at least one case is needed.")
        return Switch(conditional.add(self, condition, "switch", cases))

    def allocate_pinned(self, nbytes: int) -> PinnedBuffer:
        """Page-locked host memory for copies on this stream; from the capture's own pinned pool while it captures.

        Raises
        ------
        ValueError
            `nbytes` is negative.
        OutOfMemoryError
            The host has not that much memory to lock.
        """
        return self.backend.allocate_pinned(nbytes, self.device_index, self)

    # -- pieces --------------------------------------------------------------------------------------------------

    def submit(self, name: str, *args: Any, asked: str) -> None:
        """Call a driver function that takes a stream, this one, as its last argument."""
        self._call(name, *args, self._handle, asked=asked)

    def _call(self, name: str, *args: Any, asked: str) -> Any:
        return self.backend.captures.call(name, *args, asked=asked, stream=self._handle)

    def _info(self) -> calls.CaptureInfo:
        with DeviceGuard(self.device_index):
            return calls.capture_info(self._handle)

    def _capture(self) -> Capture | None:
        with DeviceGuard(self.device_index):
            return self.backend.captures.of_stream(self._handle)

    def _binding(self, scalars: list[tuple[int, Scalar]], asked: str) -> Capture | None:
        """The capture whose nodes are to know parameters; ``None`` for eager work. Refuses what could not be changed later."""
        info = self._info()
        if info.status is not CaptureStatus.ACTIVE:
            return None
        capture = self._capture()
        if capture is None or info.id != capture.identity:
            where = "a capture of another library" if capture is None else "the body of a conditional node"
            raise UnsupportedError(
                "CUDA",
                f"{asked} with the parameter {scalars[0][1]} in {where}",
                "node_update",
                "Give a plain number, or keep the number in device memory and copy a new one there.",
            )
        return capture

    def last_node(self) -> int:
        """The node that the last work given to this stream became; only while it captures."""
        (node,) = self._info().frontier
        return node

    def _keep(self, owner: object) -> None:
        """Let the graph under capture own an object; a capture of another library has no owner to give it to."""
        capture = self._capture()
        if capture is not None:
            capture.retain(owner)
        elif self.capture_status is CaptureStatus.ACTIVE:
            self.backend.keep_forever(owner)

    def _keep_operands(self, *operands: Operand) -> bool:
        """Before submitting: let the graph under capture own what its replays will read and write.

        Memory of the capture's own pool is left out: the pool keeps it, and a temporary that dies in the body shall be used
        again by the body. Gives back whether a capture of graphcap records the stream.
        """
        capture = self._capture()
        for memory in operands:
            if memory.stream and memory.stream != self._handle:
                self.order_after(memory)
        if capture is None:
            return False
        for memory in operands:
            if not capture.owns(memory):
                capture.retain(memory.owner)
        return True

    def order_after(self, memory: Operand) -> None:
        """Wait for the stream that an array's interface names. Between eager streams alone: a graph cannot wait for them."""
        producer = CUDAStream(self.backend, self.device_index, memory.stream, owner=memory.owner)
        if producer.handle == self._handle or self.capture_status is not CaptureStatus.NONE:
            return
        if not producer.is_default and producer.capture_status is not CaptureStatus.NONE:
            return  # the array is of a capture, and so are its contents
        self.wait(producer)

    def consumer_number(self) -> int:
        """What DLPack calls this stream: libraries let it wait for their own. -1, no waiting, while it captures."""
        if self.is_default:
            return _LEGACY
        return -1 if self.capture_status is not CaptureStatus.NONE else self._handle

    def _hold_until_done(self, *operands: Operand) -> None:
        """After submitting eager work: host memory must outlive it."""
        hosts = [memory.owner for memory in operands if not memory.on_device]
        if hosts and self.capture_status is CaptureStatus.NONE:
            self.backend.trash.retire(hosts, [self], self.device_index)

    @staticmethod
    def _need_capture(call: str, capturing: bool) -> None:
        if not capturing:
            raise ValueError(f"{call}(external=True): the stream does not capture. Leave `external` out.")


_COPIES = {
    (True, True): "cuMemcpyDtoDAsync",
    (False, True): "cuMemcpyHtoDAsync",
    (True, False): "cuMemcpyDtoHAsync",
    (False, False): "cuMemcpyAsync",
}


def _own(event: Event) -> CUDAEvent:
    if not isinstance(event, CUDAEvent):
        raise TypeError(f"a CUDA stream works with CUDA events, not {type(event).__name__}.")
    return event
