"""USM memory as users hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphcap.backends.buffer import Buffer
from graphcap.backends.xpu import _dpctl

if TYPE_CHECKING:
    from graphcap.backends.xpu.backend import XPUBackend
    from graphcap.memory import Block

__all__ = ["XPUArray", "XPUBuffer"]


class XPUBuffer(Buffer):
    """A buffer of USM memory.

    dpctl and dpnp take it through ``__sycl_usm_array_interface__``, without a copy. Shared and host memory can be
    looked at by the host too: ``numpy.asarray(buffer)`` is a view of the bytes.

    Attributes
    ----------
    usm_kind
        ``"device"``, ``"shared"`` or ``"host"``.
    """

    __slots__ = ("_queue", "usm_kind")

    backend: XPUBackend

    def __init__(
        self, backend: XPUBackend, device_index: int, block: Block | None, nbytes: int, usm_kind: str, queue: Any
    ) -> None:
        super().__init__(backend, device_index, block, nbytes)
        self.usm_kind = usm_kind
        self._queue = queue
        if block is not None:
            self._allocator = backend.allocator_of(device_index, usm_kind)

    @property
    def memory(self) -> Any:
        """A dpctl memory object over the bytes, which keeps this buffer alive; ``None`` if there are no bytes."""
        return _dpctl.as_memory(self) if self.nbytes else None

    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]:
        return {
            "data": (self.ptr, False),
            "shape": (self.nbytes,),
            "strides": None,
            "typestr": "|u1",
            "version": 1,
            "syclobj": self._queue,
        }

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if self.usm_kind == "device":
            raise TypeError(
                "the host cannot read USM device memory. Copy it: stream.copy(numpy_array, buffer), then synchronize; or "
                "allocate with kind='shared'."
            )
        view = np.asarray(memoryview(self.memory)) if self.nbytes else np.empty(0, np.uint8)
        return np.array(view, dtype=dtype, copy=copy)

    def record_stream(self, stream: Any) -> None:
        """Note a use on another stream, so that the memory is not handed out again before that use is done."""
        if self.block is not None and self._allocator is not None:
            self._allocator.record_stream(self.block, stream.handle)

    def __repr__(self) -> str:
        return f"<graphcap.Buffer {self.device} {self.usm_kind} ptr={self.ptr:#x} nbytes={self.nbytes}>"


class XPUArray:
    """A contiguous array over a buffer: what graphcap gives where it copies an array of another library.

    Attributes
    ----------
    buffer
        The memory.
    shape, dtype, nbytes
        What lies in it, in C order.
    """

    __slots__ = ("__weakref__", "buffer", "dtype", "nbytes", "shape")

    def __init__(self, buffer: XPUBuffer, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.buffer = buffer
        self.shape = shape
        self.dtype = dtype
        self.nbytes = buffer.nbytes

    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]:
        return {**self.buffer.__sycl_usm_array_interface__, "shape": self.shape, "typestr": self.dtype.str}

    def __repr__(self) -> str:
        return f"<graphcap array {self.buffer.device} {self.dtype}{list(self.shape)}>"
