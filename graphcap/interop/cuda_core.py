"""cuda.core: its memory from graphcap's pools, streams both ways, and its errors inside a capture in graphcap's words.

``device.memory_resource = PoolMemoryResource()`` lets every ``device.allocate(...)`` of cuda.core come from graphcap. Streams need
nothing: ``graphcap.Stream.wrap(core_stream, "cuda")`` and ``core_device.create_stream(graphcap_stream)`` go by
``__cuda_stream__``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

from graphcap._device import resolve
from graphcap.backends.base import Backend
from graphcap.backends.streams import Stream
from graphcap.interop import _explain
from graphcap.interop._blocks import BlockTable, handle_of
from graphcap.memory import MemPool

__all__ = ["CudaCoreHook", "PoolMemoryResource", "hook"]

core: Final[Any] = importlib.import_module("cuda.core")  # no type information

_CURES: Final = {
    900: "Memory: use graphcap.interop.cuda_core.PoolMemoryResource, or allocate before the capture. Do not synchronise or query "
    "inside it.",
}


class PoolMemoryResource(core.MemoryResource):  # type: ignore[misc]  # no types
    """A cuda.core ``MemoryResource`` over graphcap's pools.

    ``allocate(size, stream=s)`` gives memory whose first use is on `s`: from the capture's pool while graphcap captures `s`,
    from `pool` otherwise. A buffer that is closed, or dies, gives it back in the order of the stream that cuda.core hands over
    (that of the allocation, unless ``close(stream)`` or ``set_deallocation_stream`` named another). Memory of a capture's pool
    stays valid until the buffer dies and the graph is gone, whichever is later. The resource lives as long as a buffer of it.

    Parameters
    ----------
    pool
        A :class:`graphcap.MemPool`, which is kept; the device's default pool if not given.
    device
        A device string; the pool's device, or the default CUDA device, if not given.

    Raises
    ------
    TypeError
        `pool` is no ``MemPool``.
    ValueError
        `device` is no CUDA device, or the pool is of another one.
    """

    def __init__(self, pool: MemPool | None = None, *, device: str | None = None) -> None:
        if pool is not None and not isinstance(pool, MemPool):
            raise TypeError(f"PoolMemoryResource(): expected a graphcap.MemPool, not {type(pool).__name__}.")
        found = resolve("cuda" if device is None else device)
        if not found.backend.capabilities.wrap_stream:
            raise ValueError(f"PoolMemoryResource(device={device!r}): cuda.core works on CUDA devices.")
        index = found.current
        if pool is not None and pool.allocator is not found.backend.allocator(index):
            index = _device_of(pool, found.backend, device)
        self._device = index
        self._backend = found.backend
        self._pool = pool
        self._blocks = BlockTable()

    def allocate(self, size: int, *, stream: Any) -> Any:
        """A ``cuda.core.Buffer`` of `size` bytes whose first use is on `stream`.

        Parameters
        ----------
        size
            Bytes; zero gives an empty buffer.
        stream
            A ``cuda.core`` stream or graph builder, or anything with ``__cuda_stream__``.

        Raises
        ------
        OutOfMemoryError
            There is no memory left.
        CaptureForbiddenError
            The stream takes part in a capture that is not graphcap's.
        ValueError
            `size` is negative.
        TypeError
            `stream` is no CUDA stream.
        """
        if size < 0:
            raise ValueError(f"allocate({size}): the size must not be negative.")
        handle = handle_of(stream)
        with self._backend.device_guard(self._device):
            if not isinstance(stream, (core.Stream, core.graph.GraphBuilder)):
                stream = core.Device(self._device).create_stream(stream)  # keeps the other library's object
            address = self._blocks.allocate(size, self._device, handle, self._pool) if size else 0
            return core.Buffer.from_handle(address, size, mr=self, stream=stream)

    def deallocate(self, ptr: Any, size: int, *, stream: Any) -> None:
        """Give memory back in the order of `stream`. cuda.core calls it when a buffer is closed or dies, on any thread.

        Raises
        ------
        PoolStateError
            The memory is not out.
        """
        if size:
            self._blocks.free(int(ptr), handle_of(stream))

    @property
    def is_device_accessible(self) -> bool:
        """Device work may use the memory."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """The host may not."""
        return False

    @property
    def is_managed(self) -> bool:
        """It is plain device memory."""
        return False

    @property
    def device_id(self) -> int:
        """The number of the device."""
        return self._device

    @property
    def pool(self) -> MemPool | None:
        """The pool given, if any."""
        return self._pool

    def __repr__(self) -> str:
        return f"<PoolMemoryResource cuda:{self._device} pool={self._pool}, {len(self._blocks)} blocks out>"


def _device_of(pool: MemPool, backend: Backend, device: str | None) -> int:
    for index in range(backend.device_count()):
        if device is None and pool.allocator is backend.allocator(index):
            return index
    raise ValueError(f"PoolMemoryResource({pool!r}, device={device!r}): the pool is of another device.")


class CudaCoreHook:
    """The hook of cuda.core; see :class:`graphcap.backends.base.FrameworkHook`. It only explains errors."""

    def stream_entered(self, stream: Stream) -> Callable[[], None] | None:
        return None  # cuda.core has no current stream

    def current_stream(self, backend: Backend, device: int) -> Stream | None:
        return None

    def capture_begun(
        self, stream: Stream, pool: tuple[int, int], retain: Callable[[object], object]
    ) -> Callable[[], None] | None:
        return None

    def explain(self, error: BaseException) -> BaseException | None:
        """What to raise in place of an error of cuda.core inside a capture; ``None`` for errors of other kinds."""
        if not type(error).__module__.startswith("cuda.core"):
            return None
        return _explain.explained(error, "cuda.core", _CURES)


hook: Final = CudaCoreHook()
