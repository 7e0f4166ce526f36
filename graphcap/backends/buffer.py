"""A piece of device memory as users hold it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from graphcap.backends.base import Backend
from graphcap.errors import GraphcapWarning
from graphcap.interface import NO_POOL, MempoolId

if TYPE_CHECKING:
    from graphcap.memory import Block, CachingAllocator

__all__ = ["Buffer"]


class Buffer:
    """A block from a device's memory manager, given back when the last reference dies.

    A backend adds the array interfaces of its device in a subclass.

    Attributes
    ----------
    ptr
        The device address as an int; 0 for an empty buffer.
    nbytes
        The size in bytes that was asked for.
    device
        The device string.
    """

    __slots__ = ("__weakref__", "_allocator", "backend", "block", "device_index", "nbytes", "ptr")

    def __init__(self, backend: Backend, device_index: int, block: Block | None, nbytes: int) -> None:
        self.backend = backend
        self.device_index = device_index
        self.block = block
        self.nbytes = nbytes
        self.ptr: int = 0 if block is None else block.ptr
        # Kept here: the finalizer must not depend on what else is torn down by then.
        self._allocator: CachingAllocator | None = None if block is None else backend.allocator(device_index)

    def __del__(self, _at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        # Runs on any thread and inside any other call: the allocator queues such frees without a lock (rule 18).
        allocator, block = getattr(self, "_allocator", None), getattr(self, "block", None)
        if allocator is not None and block is not None:
            try:
                allocator.free(block)
            except Exception as error:
                if _at_exit():
                    return  # modules are being taken apart, this one too: the process gives everything back
                warnings.warn(f"freeing a buffer of {self.nbytes} bytes failed: {error}", GraphcapWarning, stacklevel=1)

    @property
    def device(self) -> str:
        """The device string, such as ``"cuda:0"``."""
        return f"{self.backend.name.lower()}:{self.device_index}"

    @property
    def pool_id(self) -> MempoolId:
        """The pool that the memory came from; ``(0, 0)`` is the default pool."""
        return NO_POOL if self.block is None else self.block.pool_id

    def record_stream(self, stream: Any) -> None:
        """Note a use on another stream, so that the memory is not handed out again before that use is done."""
        if self.block is not None:
            self.backend.allocator(self.device_index).record_stream(self.block, stream.handle)

    def __len__(self) -> int:
        return self.nbytes

    def __copy__(self) -> NoReturn:
        # A second object over the same block would free it a second time.
        raise TypeError("a Buffer cannot be copied: it owns its memory. Allocate another and use Stream.copy().")

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Buffer cannot be pickled: its memory belongs to this process. Copy it to the host first.")

    def __repr__(self) -> str:
        return f"<graphcap.Buffer {self.device} ptr={self.ptr:#x} nbytes={self.nbytes}>"
