"""Numba (the package numba-cuda): its memory from graphcap's pools, streams both ways, and its calls inside a capture.

Loaded once the user has imported ``numba.cuda``; then, while a capture is open (see :mod:`graphcap.interop._numba_guard`):

- what Numba sends to a captured stream keeps its arrays, host and device, alive as long as the graph;
- what the capturing thread sends to Numba's default stream is refused, since it would run at once and never again;
- Numba destroys nothing (its own ``defer_cleanup``).

Numba has no current stream: a call without ``stream=`` goes to the default stream, whatever ``with stream:`` says. Give it
the stream: ``kernel[grid, block, external_stream()](x)``.

Two more things are for the user to ask for: :func:`use_graphcap_memory`, without which an array cannot be made inside a
capture, and :func:`external_stream`.
"""

from __future__ import annotations

import contextlib
import importlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

from graphcap._device import current_stream
from graphcap.backends.base import Backend
from graphcap.backends.cuda import cuda_backend
from graphcap.backends.streams import Stream
from graphcap.backends.streams import current_stream as stream_of_device
from graphcap.errors import OutOfMemoryError, PoolStateError
from graphcap.interop import _explain
from graphcap.interop._blocks import LEGACY, BlockTable, handle_of, numba_base
from graphcap.interop._numba_guard import Guard

__all__ = ["GraphcapMemoryManager", "NumbaHook", "external_stream", "hook", "record_stream", "use_graphcap_memory"]

cuda: Final[Any] = importlib.import_module("numba.cuda")  # no type stubs
_driver: Final[Any] = importlib.import_module("numba.cuda.cudadrv.driver")

_blocks: Final = BlockTable()

_STREAM_CURE: Final = (
    "Numba works on its default stream unless it is given another: "
    "`s = graphcap.interop.numba.external_stream()` inside the capture, then `kernel[grid, block, s](...)` and `stream=s`."
)
_CURES: Final = {
    900: "Make arrays before the capture, or call graphcap.interop.numba.use_graphcap_memory() first thing in the program; "
    "do not synchronise, query, or read values inside the capture.",
    906: _STREAM_CURE,
}


# -- memory ------------------------------------------------------------------------------------------------------------


class GraphcapMemoryManager(cuda.GetIpcHandleMixin, cuda.HostOnlyCUDAMemoryManager):  # type: ignore[misc]  # no types
    """Numba's external memory manager over graphcap's pools; pinned, mapped and managed memory stays Numba's.

    An array belongs to graphcap's current stream at the moment when it is made: to the capture's pool while that stream
    is captured, to the innermost ``use_mem_pool``, or to the device's default pool. Eager arrays are handed out again once the work
    that their stream, the default stream and all blocking streams (Numba's own ``cuda.stream()`` among them) had at the
    free is done. Use on *another non-blocking* stream has to be announced: :func:`record_stream`.

    Numba makes one for each device; :func:`use_graphcap_memory` tells it to.
    """

    def initialize(self) -> None:
        """Numba calls this before each use of the device; there is nothing to prepare."""

    def memalloc(self, size: int) -> Any:
        """Device memory for Numba.

        Raises
        ------
        OutOfMemoryError
            There is none left, also after Numba's pending frees were done.
        """
        try:
            address = self._allocate(size)
        except OutOfMemoryError:
            self.deallocations.clear()
            address = self._allocate(size)
        allocations = self.allocations

        def free() -> None:
            allocations.pop(address, None)
            _blocks.free(address)

        pointer = _driver.binding.CUdeviceptr(address)
        memory = _driver.AutoFreePointer(weakref.proxy(self.context), pointer, size, finalizer=free)
        allocations[address] = memory
        return memory.own()

    def _allocate(self, size: int) -> int:
        device = self.context.device.id
        stream = stream_of_device(cuda_backend(), device)
        address = _blocks.allocate(size, device, stream.handle)
        if not _blocks.is_captured(device, stream.handle):
            # Numba never tells on which stream an array is used. One event of the legacy stream stands for all blocking ones.
            _blocks.record_stream(address, LEGACY)
        return address

    def get_memory_info(self) -> Any:
        """Free and total bytes of the device. What graphcap holds in reserve counts as used."""
        free, total = _driver.driver.cuMemGetInfo()
        return _driver.MemoryInfo(free=free, total=total)

    @property
    def interface_version(self) -> int:
        """The version of Numba's plug-in interface that this is written for."""
        return 1


_numba_memory_manager: Final = GraphcapMemoryManager
"""What ``NUMBA_CUDA_MEMORY_MANAGER=graphcap.interop.numba`` makes Numba look for."""


def use_graphcap_memory() -> None:
    """Let Numba's device arrays come from graphcap's pools. Call it before Numba first uses a device.

    The same as the environment variable ``NUMBA_CUDA_MEMORY_MANAGER=graphcap.interop.numba``.

    Raises
    ------
    PoolStateError
        Numba uses a device already, with another memory manager: it would go on with that one.
    RuntimeError
        This release of Numba has another plug-in interface.
    """
    for device in _driver.driver.list_devices():
        context = device.primary_context
        if context is not None and not isinstance(context.memory_manager, GraphcapMemoryManager):
            raise PoolStateError(
                "use_graphcap_memory()",
                f"Numba uses device {device.id} already, with {type(context.memory_manager).__name__}",
                "Call it right after `import numba.cuda`, before arrays, streams or kernels.",
            )
    cuda.set_memory_manager(GraphcapMemoryManager)


def record_stream(array: Any, stream: Any) -> None:
    """Say that work on `stream` uses a Numba array, so that its memory is not handed out again before that is done.

    Parameters
    ----------
    array
        A device array whose memory came from graphcap, or a view of one.
    stream
        A stream of any library, or a driver's handle.

    Raises
    ------
    ValueError
        The memory is not graphcap's.
    TypeError
        `array` is no Numba device array, or `stream` no stream.
    """
    if getattr(array, "gpu_data", None) is None:
        raise TypeError(f"record_stream(): expected a Numba device array, not {type(array).__name__}.")
    _blocks.record_stream(numba_base(array), handle_of(stream), stream)


# -- streams -----------------------------------------------------------------------------------------------------------


def external_stream(stream: Any = None) -> Any:
    """A graphcap stream as Numba takes it: ``kernel[grid, block, external_stream()](x)``.

    The other way needs nothing: ``graphcap.Stream.wrap(numba_stream, "cuda")``.

    Parameters
    ----------
    stream
        A :class:`graphcap.Stream`, or a stream of any library; graphcap's current stream if not given. It is kept alive by what
        is returned.

    Raises
    ------
    TypeError
        `stream` is no CUDA stream.
    """
    given = current_stream("cuda") if stream is None else stream
    made = cuda.external_stream(handle_of(given))
    made.graphcap_owner = given
    return made


# -- captures ----------------------------------------------------------------------------------------------------------


class NumbaHook:
    """The hook of Numba; see :class:`graphcap.backends.base.FrameworkHook`."""

    def __init__(self) -> None:
        self._guard = Guard(_blocks, _STREAM_CURE)

    def stream_entered(self, stream: Stream) -> Callable[[], None] | None:
        return None  # Numba has no current stream that could be set

    def current_stream(self, backend: Backend, device: int) -> Stream | None:
        return None

    def capture_begun(
        self, stream: Stream, pool: tuple[int, int], retain: Callable[[object], object]
    ) -> Callable[[], None] | None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_no_clean_up())
            stack.enter_context(self._guard.watching(stream, pool))
            return stack.pop_all().close

    def explain(self, error: BaseException) -> BaseException | None:
        """What to raise in place of an error of Numba inside a capture; ``None`` for errors of other kinds."""
        if not isinstance(error, _driver.CudaAPIError):
            return None
        return _explain.explained(error, "numba.cuda", _CURES)

    def clone_array(self, value: Any, stream: Stream) -> Any:
        """A device array like `value` with its contents, in stream order; ``None`` if `value` is not Numba's."""
        if not isinstance(value, cuda.devicearray.DeviceNDArray):
            return None
        with stream:
            made = cuda.device_array_like(value)
            stream.copy(made, value)
        return made


@contextlib.contextmanager
def _no_clean_up() -> Iterator[None]:
    """Let Numba destroy nothing meanwhile: freeing pinned memory or an event would break the capture."""
    with contextlib.ExitStack() as stack:
        for device in _driver.driver.list_devices():
            if device.primary_context is not None:
                stack.enter_context(device.primary_context.defer_cleanup())
        yield


hook: Final = NumbaHook()
