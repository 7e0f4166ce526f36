"""Blocks that a library holds by address: who gave them out, and giving them back at any time, from any thread."""

from __future__ import annotations

from collections import deque
from typing import Any, Final, NamedTuple

from graphcap.backends.cuda import _calls as calls
from graphcap.backends.cuda import cuda_backend
from graphcap.errors import CaptureForbiddenError, CaptureInvalidatedError, PoolStateError
from graphcap.interface import CaptureStatus
from graphcap.memory import Block, CachingAllocator, MemPool, use_mem_pool

__all__ = ["LEGACY", "BlockTable", "Held", "handle_of", "numba_base"]

LEGACY: Final = 1
"""The driver's handle for the legacy default stream, said in so many words (0 may mean the thread's own)."""


class Held(NamedTuple):
    """A block that is out."""

    allocator: CachingAllocator
    block: Block
    owners: list[object]


class BlockTable:
    """Memory of one library, by address.

    Libraries free by address, from finalizers, on any thread, and in the middle of anything: :meth:`free` takes no lock
    that could be held then, and never waits for the device.
    """

    def __init__(self) -> None:
        self._held: dict[int, Held] = {}
        self._late: deque[tuple[Held, int]] = deque()
        """Frees on another stream that came in the middle of an operation of the allocator on the same thread."""

    def __len__(self) -> int:
        return len(self._held)

    def allocate(self, nbytes: int, device: int, stream: int, pool: MemPool | None = None) -> int:
        """The address of a new block whose first use is on `stream`.

        It comes from the capture's pool where graphcap captures `stream`, otherwise from `pool`, otherwise from the device's
        default pool.

        Raises
        ------
        OutOfMemoryError
            There is no memory left.
        CaptureForbiddenError
            The stream takes part in a capture that is not graphcap's: nobody could tell when its graph is gone.
        CaptureInvalidatedError
            The stream's capture is broken.
        """
        self._settle()
        backend = cuda_backend()
        captured = self.is_captured(device, stream)
        allocator = backend.allocator(device)
        if pool is None or captured:
            block = allocator.allocate(nbytes, stream)
        else:
            with use_mem_pool(pool):
                block = allocator.allocate(nbytes, stream)
        self._held[block.ptr] = Held(allocator, block, [])
        return block.ptr

    def is_captured(self, device: int, stream: int) -> bool:
        """Whether a capture of graphcap records a stream. Raises as :meth:`allocate`."""
        backend = cuda_backend()
        if stream in (0, LEGACY):
            return False
        with backend.device_guard(device):
            if backend.captures.of_stream(stream) is not None:
                return True
            status = calls.capture_status(stream)
        if status is CaptureStatus.NONE:
            return False
        asked = f"allocating on stream {stream:#x}"
        if status is CaptureStatus.INVALIDATED:
            broken = next((capture for capture in backend.captures.all() if capture.has_member(stream)), None)
            if broken is not None:
                raise backend.captures.invalidated(broken, asked)
            raise CaptureInvalidatedError(asked, "its capture was invalidated by an earlier call", "End the capture.")
        raise CaptureForbiddenError(
            asked,
            "it takes part in a capture that is not graphcap's: memory could be handed out again while that capture's graph "
            "still uses it",
            "Capture with graphcap (`with graphcap.Stream.wrap(stream), graphcap.Graph('cuda'):`), or allocate before the "
            "capture and keep the memory as long as the graph.",
        )

    def block(self, address: int) -> Block | None:
        """The block that begins at an address; ``None`` if none is out there."""
        held = self._held.get(address)
        return None if held is None else held.block

    def record_stream(self, address: int, stream: int, owner: object = None) -> None:
        """Let the block at an address not be handed out again before what `stream` does until its free is done.

        Parameters
        ----------
        owner
            Kept until the free, so that the stream is still there then.

        Raises
        ------
        ValueError
            No block of this table begins there.
        """
        held = self._held.get(address)
        if held is None:
            raise ValueError(f"record_stream(): no memory from graphcap begins at {address:#x}.")
        held.allocator.record_stream(held.block, stream)
        if owner is not None:
            held.owners.append(owner)

    def free(self, address: int, stream: int | None = None) -> None:
        """Give a block back; it is used again after what `stream` does by now, where that is another than its own.

        Raises
        ------
        PoolStateError
            No block of this table begins there: it was freed before.
        """
        held = self._held.pop(address, None)
        if held is None:
            raise PoolStateError(
                f"free the memory at {address:#x}", "it is not out", "Free each allocation once, where it was made."
            )
        if stream is None or stream == held.block.stream or {stream, held.block.stream} <= {0, LEGACY}:
            held.allocator.free(held.block)
        else:
            self._free_after(held, stream)

    def _free_after(self, held: Held, stream: int) -> None:
        try:
            held.allocator.record_stream(held.block, stream)
        except PoolStateError:
            # A finalizer inside an operation of the allocator: put off to the next request, which only makes it later.
            self._late.append((held, stream))
            return
        held.allocator.free(held.block)

    def _settle(self) -> None:
        for _ in range(len(self._late)):
            try:
                held, stream = self._late.popleft()
            except IndexError:
                return  # another thread was quicker
            self._free_after(held, stream)


def numba_base(array: Any) -> int:
    """The address at which the allocation behind a Numba device array begins; 0 if Numba did not make it."""
    owner = getattr(getattr(array, "gpu_data", None), "owner", None)
    handle = getattr(owner, "handle", None)
    return 0 if handle is None else int(handle)


def handle_of(stream: Any) -> int:
    """The driver's handle of a stream of any library: an int, or an object with ``__cuda_stream__`` or ``handle``.

    Raises
    ------
    TypeError
        `stream` is none of these.
    """
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int(protocol()[1])
    inner = getattr(stream, "stream", None)  # a cuda.core GraphBuilder
    if inner is not None and inner is not stream:
        return handle_of(inner)
    raise TypeError(f"expected a CUDA stream, not {type(stream).__name__}.")
