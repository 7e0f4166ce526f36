"""RMM: a callback memory resource over graphcap's pools.

``rmm.mr.set_current_device_resource(memory_resource())`` lets RMM's device buffers, and so cuDF and what else allocates by
RMM, come from graphcap: from the capture's pool while graphcap captures the stream that RMM names.

RMM names a stream for each allocation and each free, so that memory is handed out again in stream order: at once to the
stream that it was made for; for a free on another stream, after that stream's work.

RMM itself is imported only by :func:`memory_resource`; the two functions of :class:`Callbacks` work without it.
"""

from __future__ import annotations

import importlib
from typing import Any

from graphcap._device import resolve
from graphcap.errors import BackendUnavailableError
from graphcap.interop._blocks import BlockTable, handle_of
from graphcap.memory import MemPool

__all__ = ["Callbacks", "memory_resource"]


class Callbacks:
    """The two functions that ``rmm.mr.CallbackMemoryResource`` takes.

    Parameters
    ----------
    pool
        A :class:`graphcap.MemPool`, which is kept; the device's default pool if not given.
    device
        A device string; the default CUDA device if not given. RMM wants a resource for each device.

    Raises
    ------
    TypeError
        `pool` is no ``MemPool``.
    ValueError
        The pool is of another device.
    """

    def __init__(self, pool: MemPool | None = None, *, device: str | None = None) -> None:
        found = resolve("cuda" if device is None else device)
        if pool is not None and not isinstance(pool, MemPool):
            raise TypeError(f"a graphcap.MemPool is needed, not {type(pool).__name__}.")
        if pool is not None and pool.allocator is not found.backend.allocator(found.current):
            raise ValueError(f"{pool!r} is not of {found.backend.name.lower()}:{found.current}. Name its device.")
        self._device = found.current
        self._guard = found.backend.device_guard
        self._pool = pool
        self._blocks = BlockTable()

    def allocate(self, nbytes: int, stream: Any) -> int:
        """The address of `nbytes` bytes whose first use is on `stream`; 0 for none.

        Raises
        ------
        OutOfMemoryError
            There is no memory left. It is a ``MemoryError``, which RMM passes on as its own out-of-memory error.
        CaptureForbiddenError
            The stream takes part in a capture that is not graphcap's.
        """
        if not nbytes:
            return 0
        with self._guard(self._device):
            return self._blocks.allocate(nbytes, self._device, handle_of(stream), self._pool)

    def deallocate(self, address: int, nbytes: int, stream: Any) -> None:
        """Give memory back in the order of `stream`; on any thread, also inside a finalizer.

        Raises
        ------
        PoolStateError
            The memory is not out.
        """
        if nbytes:
            self._blocks.free(address, handle_of(stream))

    @property
    def blocks_out(self) -> int:
        """How many allocations are out."""
        return len(self._blocks)


def memory_resource(pool: MemPool | None = None, *, device: str | None = None) -> Any:
    """An ``rmm.mr.CallbackMemoryResource`` over a pool. Parameters and errors as of :class:`Callbacks`.

    It must not be dropped while RMM memory is out (RMM's own rule); ``.callbacks`` are graphcap's.

    Raises
    ------
    BackendUnavailableError
        RMM is not installed, or does not load on this machine.
    """
    try:
        rmm: Any = importlib.import_module("rmm.mr")
    except Exception as error:  # its libraries fail in their own ways where the CUDA runtime is missing
        raise BackendUnavailableError("CUDA", f"RMM cannot be imported ({error})", "pip install rmm-cu13.") from error
    callbacks = Callbacks(pool, device=device)

    class GraphcapMemoryResource(rmm.CallbackMemoryResource):  # type: ignore[misc]  # no types
        """``rmm.mr.CallbackMemoryResource`` over graphcap's pools."""

        def __init__(self) -> None:
            super().__init__(callbacks.allocate, callbacks.deallocate)
            self.callbacks = callbacks

    return GraphcapMemoryResource()
