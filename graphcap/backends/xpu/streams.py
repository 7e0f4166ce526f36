"""Streams over dpctl queues: work is given to the queue, or recorded while the stream captures."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from graphcap.backends.parameters import Scalar, refuse_in_host_call
from graphcap.backends.streams import Event, Stream
from graphcap.backends.xpu import _dpctl, captures
from graphcap.backends.xpu.events import XPUEvent
from graphcap.backends.xpu.host_calls import HostCall
from graphcap.backends.xpu.lane import Lane, Point
from graphcap.backends.xpu.prepare import Prepared, prepare_copy, prepare_fill, prepare_launch
from graphcap.backends.xpu.work import HostWork, Target, Work
from graphcap.errors import DriverError, UnsupportedError
from graphcap.interface import CaptureStatus

if TYPE_CHECKING:
    from graphcap.backends.xpu.backend import XPUBackend

__all__ = ["XPUStream"]

_KEPT_WORK: Final = 16
"""Pieces of eager work whose owners are kept before the stream looks which of them are done."""


class XPUStream(Stream):
    """An in-order SYCL queue.

    Parameters
    ----------
    exposed
        Somebody else has the queue too.
    """

    def __init__(
        self, backend: XPUBackend, device_index: int, queue: Any, *, default: bool = False, exposed: bool = False
    ) -> None:
        self.backend: XPUBackend = backend
        self.device_index = device_index
        self.is_exposed = exposed
        self.capture: captures.Capture | None = None
        self.frontier: tuple[int, ...] = ()
        self.before_capture: Point | None = None
        self._handle = 0 if default else int(queue.addressof_ref())
        extension = backend.extension
        self.target: Final = Target(queue, extension, None if extension is None else _dpctl.queue_capsule(queue))
        self.lane: Final = Lane(queue, backend.host_errors) if extension is None else None
        self._kept: deque[tuple[Point, tuple[object, ...]]] = deque()
        self._probe: Any = None

    def __del__(self) -> None:
        # The handle is the name under which the memory manager knows this stream's work, so the queue must live, and its
        # handle stay taken, until that work is done.
        backend = getattr(self, "backend", None)
        if backend is not None and hasattr(self, "_probe"):
            backend.park_queue(self._handle, self.device_index, self.target.queue, self.lane, self._kept)

    @property
    def queue(self) -> Any:
        """The ``dpctl.SyclQueue``. On the native tier work given to it directly takes part in order and in captures.

        What graphcap cannot check then is listed in ``docs/xpu.md``. Taking the queue costs the graphs of forked
        captures some barrier nodes.
        """
        if not self.is_exposed:
            self.is_exposed = True
            capture = self.capture
            if capture is not None:
                capture.expose(self)
        return self.target.queue

    @property
    def handle(self) -> int:
        return self._handle

    @property
    def capture_status(self) -> CaptureStatus:
        capture = self.capture
        return CaptureStatus.NONE if capture is None else capture.status

    @property
    def capture_id(self) -> int:
        capture = self.capture
        return 0 if capture is None else capture.id

    # -- order ---------------------------------------------------------------------------------------------------

    def record(self, event: Event | None = None, *, timing: bool = False, external: bool = False) -> Event:
        if timing:
            raise UnsupportedError(self.backend.name, "Stream.record(timing=True)", "event_timing", "Time on the host.")
        if external:
            raise UnsupportedError(self.backend.name, "Stream.record(external=True)", "external_events")
        own = XPUEvent(self.backend, self.device_index) if event is None else self._own(event)
        capture = self.capture
        if capture is not None:
            capture.mark(self, own)
        else:
            own.set_point(self.point())
        return own

    def wait(self, event: Event | Stream, *, external: bool = False) -> None:
        if external:
            raise UnsupportedError(self.backend.name, "Stream.wait(external=True)", "external_events")
        own = self._own(event.record() if isinstance(event, Stream) else event)
        if captures.join(self, own) or own.point is None:
            return
        self.wait_point(own.point)

    def synchronize(self) -> None:
        captures.check_stream_call("Stream.synchronize()", self)
        self.drain()
        self.backend.sweep()
        self.backend.host_errors.raise_first()

    def query(self) -> bool:
        captures.check_stream_call("Stream.query()", self)
        return self.is_idle()

    # -- work ----------------------------------------------------------------------------------------------------

    def submit(self, work: Work, *, keep: tuple[object, ...] = ()) -> Point | None:
        """Give `work` to the queue, or record it when the stream captures (rule 1).

        Parameters
        ----------
        keep
            What must live until the work is done. A graph keeps all that its nodes use anyway.

        Returns
        -------
        Point or None
            When the work is done; ``None`` if it was recorded.

        Raises
        ------
        CaptureInvalidatedError
            The stream belongs to a broken capture.
        DriverError
            SYCL refused the work.
        """
        capture = self.capture
        if capture is not None:
            capture.add(self, work)
            return None
        point = self.run(work)
        if keep:
            self._keep(point, keep)
        return point

    def run(self, work: Work) -> Point:
        """Give `work` to the queue now. Only called while the stream does not capture."""
        self._probe = None
        if self.lane is None:
            return Point(work.enqueue(self.target))
        if isinstance(work, HostWork):
            return self.lane.submit_host(work.call.run)
        return self.lane.submit(partial(work.enqueue, self.target))

    def run_all(self, works: Sequence[Work]) -> Point:
        """Give several pieces of work to the queue, none of them a host call; the point after the last."""
        self._probe = None

        def enqueue() -> Any:
            event = None
            for work in works:
                event = work.enqueue(self.target)
            return event

        return Point(enqueue()) if self.lane is None else self.lane.submit(enqueue)

    def copy(self, dst: Any, src: Any) -> None:
        """Copy all bytes of `src` to `dst`, in the stream's order.

        A host array that is no USM behaves as pageable memory does on CUDA: outside a capture the call returns when the
        host array may be used again. In a capture the array itself is recorded, and every replay reads or writes it.

        Raises
        ------
        ValueError
            The sizes differ, the two overlap, or one of them is not contiguous or not writable.
        TypeError
            One of the two is no memory.
        """
        prepared = prepare_copy(dst, src, snapshot=self.capture is None)
        if prepared is None:
            return
        self._note_use(prepared)
        point = self.submit(prepared.work, keep=prepared.keep)
        if point is not None and prepared.waits:
            point.wait()

    def fill(self, dst: Any, value: float | complex | Scalar) -> None:
        """Set every item of USM memory to `value`; every byte of memory that has no item type.

        Raises
        ------
        ValueError
            `value` does not fit the item, or the memory is not contiguous or not writable.
        TypeError
            `dst` is no USM memory.
        """
        prepared = prepare_fill(dst, value, self.target)
        if prepared is not None:
            self._note_use(prepared)
            self.submit(prepared.work, keep=prepared.keep)

    def host_call(self, fn: Callable[..., Any], *args: Any) -> None:
        refuse_in_host_call(args)
        if not callable(fn):
            raise TypeError(f"host_call(): the function must be callable, not {type(fn).__name__}.")
        call = HostCall(self.backend.host_errors, fn, args)
        if self.capture is None and self.lane is None:
            call.hold_until_run()
        self.submit(HostWork(call))

    def launch(self, kernel: Any, *args: Any, **options: Any) -> None:
        """Launch a ``dpctl`` kernel: ``launch(kernel, args, global_size, local_size=None)``.

        Parameters
        ----------
        kernel
            A ``dpctl.program.SyclKernel``: from SPIR-V by ``graphcap.backends.xpu.kernels``, or by dpctl itself.
        args
            Buffers, dpctl memory and USM arrays (passed by address), NumPy scalars and parameters of a NumPy type (passed
            by value), or dpctl's ``LocalAccessor``, ``WorkGroupMemory`` and ``RawKernelArg``.
        global_size, local_size
            Work-items per dimension, all of them and per group; one integer or up to three. The device picks the groups
            if `local_size` is not given.

        Raises
        ------
        TypeError
            `kernel` or an argument is of a kind that cannot be used; Python numbers are one such kind.
        ValueError
            The number of arguments is not the kernel's, or the sizes do not fit each other or the kernel.
        DriverError
            SYCL refused the launch.
        """
        prepared = prepare_launch(kernel, args, options)
        self._note_use(prepared)
        self.submit(prepared.work, keep=prepared.keep)

    def allocate(self, nbytes: int, kind: str = "device") -> Any:
        """A :class:`Buffer` of USM memory (``"device"``, ``"shared"``, ``"host"``) whose first use is on this stream."""
        return self.backend.allocate(nbytes, self.device_index, self, kind=kind)

    # -- for the backend -----------------------------------------------------------------------------------------

    def barrier(self, events: Sequence[Any]) -> Any:
        """Submit a barrier to the queue, which executes or records; give its event."""
        try:
            return self.target.queue.submit_barrier(list(events))
        except RuntimeError as error:
            raise DriverError("dpctl.SyclQueue.submit_barrier", 0, type(error).__name__, str(error)) from error

    def point(self) -> Point:
        """The point after all work so far. Only called while the stream does not capture."""
        if self.lane is None:
            return Point(self.barrier(()))
        return self.lane.submit(partial(self.barrier, ()))

    def wait_point(self, point: Point) -> None:
        """Order later work after a point of another stream. Only called while the stream does not capture."""
        self._probe = None
        if self.lane is not None and not point.is_settled:
            self.lane.submit_waiting(partial(self._wait_settled, point))
        elif point.event is None:
            return
        elif self.lane is not None:
            self.lane.submit(partial(self.barrier, (point.event,)))
        else:
            self.barrier((point.event,))

    def drain(self) -> None:
        """Wait on the host for all work so far. Only called while the stream does not capture."""
        if self.lane is not None:
            self.lane.drain()
            self.target.queue.wait()
        else:
            assert self.target.extension is not None, "a stream has a lane or the extension"
            try:
                self.target.extension.wait(self.target.capsule)
            except RuntimeError as error:
                raise DriverError("sycl::queue::wait", 0, "sycl::exception", str(error)) from error
        self._kept.clear()

    def settle(self) -> None:
        """Wait on the host for all eager work so far, also if another thread begins a capture on this stream meanwhile."""
        for attempt in range(10):
            before = self.before_capture
            if before is not None:
                before.wait()
                return
            try:
                self.drain()
                return
            except DriverError:
                if attempt == 9 or self._is_recorded_by_others():
                    raise
                # A capture began between the two, or has ended again by now: look anew.

    def _is_recorded_by_others(self) -> bool:
        """Whether the queue stands in recording state although none of graphcap's captures holds it."""
        extension = self.target.extension
        with captures.lock:
            return extension is not None and self.capture is None and extension.state(self.target.capsule) == 1

    def is_idle(self) -> bool:
        """Whether all work so far is done, without waiting."""
        if self.lane is None:
            assert self.target.extension is not None, "a stream has a lane or the extension"
            return self.target.extension.is_idle(self.target.capsule)
        if not self.lane.is_idle():
            return False
        # dpctl cannot ask a queue, so a barrier is sent after the work and asked instead, now and at later calls.
        if self._probe is None:
            self._probe = self.barrier(())
        done = any(_dpctl.is_complete(self._probe) for _ in range(100))
        if done:
            self._probe = None  # work given to the queue directly must not be missed next time
        return done

    # -- pieces --------------------------------------------------------------------------------------------------

    def _wait_settled(self, point: Point) -> Any:
        point.wait()
        return None

    def _own(self, event: Event) -> XPUEvent:
        if not isinstance(event, XPUEvent):
            raise TypeError(f"an XPU stream works with XPU events, not {type(event).__name__}.")
        if event.device_index != self.device_index and event.recorded:
            raise UnsupportedError(
                self.backend.name,
                f"{self!r}.wait(an event of device {event.device_index})",
                "order between devices",
                "Synchronize the event on the host.",
            )
        return event

    def _note_use(self, prepared: Prepared) -> None:
        """Tell the memory manager of eager uses on a stream other than the one a buffer was made for."""
        if self.capture is not None:
            return  # the graph owns the buffer
        for buffer in prepared.buffers:
            if buffer.block is not None and buffer.block.stream != self._handle:
                buffer.record_stream(self)

    def _keep(self, point: Point, owners: tuple[object, ...]) -> None:
        kept = self._kept
        kept.append((point, owners))
        if len(kept) > _KEPT_WORK:
            while kept and kept[0][0].is_done():
                kept.popleft()
