"""Arrays of libraries that are guests in graphcap (PyTorch, JAX, …), by DLPack and the array interfaces.

Guests need no adapter: copies, fills, kernel arguments, ``Graph.bind``, ``replay(inputs=...)`` and graphed callables take any
object with ``__dlpack__``, ``__cuda_array_interface__`` or ``__array_interface__`` whose memory the backend can use. The graph
keeps it. The other way, buffers and arrays of graphcap are taken by ``from_dlpack`` of the libraries.

The two functions here give what neither way does: a shape and a type for a buffer, and a view of a guest.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from graphcap._device import current_stream
from graphcap.backends import guests
from graphcap.backends.buffer import Buffer
from graphcap.backends.cuda.array import CUDAArray
from graphcap.backends.cuda.operands import device_operand
from graphcap.errors import UnsupportedError

__all__ = ["CUDAArray", "as_array", "from_dlpack"]


def as_array(buffer: Buffer, shape: int | Sequence[int], dtype: Any) -> Any:
    """A buffer's memory as an array: of NumPy where the host can read it, a :class:`CUDAArray` on a CUDA device.

    Parameters
    ----------
    buffer
        What ``graphcap.allocate`` or ``stream.allocate`` gave. The array keeps it alive.
    shape, dtype
        As NumPy's; C order, from the buffer's first byte.

    Raises
    ------
    ValueError
        The buffer is smaller.
    UnsupportedError
        The buffer is neither host nor CUDA memory.
    """
    dims = (shape,) if isinstance(shape, int) else tuple(shape)
    item = np.dtype(dtype)
    nbytes = prod(dims) * item.itemsize
    if nbytes > buffer.nbytes:
        raise ValueError(f"as_array(): {dims} items of {item} take {nbytes} bytes, the buffer has {buffer.nbytes}.")
    if hasattr(buffer, "__cuda_array_interface__"):
        return CUDAArray(buffer, buffer.ptr, dims, item, device_index=buffer.device_index)
    if hasattr(buffer, "__array_interface__"):
        return np.asarray(buffer)[:nbytes].view(item).reshape(dims)
    raise UnsupportedError(buffer.backend.name, "as_array()", "array_interface", "Use the arrays of dpnp.")


def from_dlpack(array: Any, device: str | None = None) -> Any:
    """A view of another library's array: NumPy's for host memory, a :class:`CUDAArray` for memory of a CUDA device.

    On a device the current stream of graphcap waits for the work by which the library makes the array, as DLPack has it;
    not while that stream captures, because a graph cannot wait for eager work.

    Parameters
    ----------
    device
        Where the memory has to be, as a device string; anywhere if not given.

    Raises
    ------
    TypeError
        It is no array that graphcap could use, or its library does not export it.
    ValueError
        It is not contiguous, or lies on another device than `device`.
    """
    host = array if isinstance(array, np.ndarray) else guests.host_array(array, "from_dlpack()")
    if host is not None:
        if device is not None and not current_stream(device).backend.capabilities.host_can_read:
            raise ValueError(f"from_dlpack(device={device!r}): the array lies in host memory.")
        return host
    stream: Any = current_stream("cuda" if device is None else device)
    memory = device_operand(array, "from_dlpack()", getattr(stream, "consumer_number", lambda: -1))
    if memory is None:
        raise TypeError(f"from_dlpack(): a {type(array).__name__} exports no memory that graphcap can use.")
    found = guests.dlpack_device(array)
    index = stream.device_index if found is None else found[1]
    if stream.backend.capabilities.host_can_read or (device is not None and index != stream.device_index):
        raise ValueError(f"from_dlpack(device={device!r}): the array lies on cuda:{index}.")
    if memory.stream:
        stream.order_after(memory)
    shape = (memory.nbytes,) if memory.shape is None else memory.shape
    item = np.dtype(np.uint8) if memory.dtype is None else memory.dtype
    return CUDAArray(memory.owner, memory.address, shape, item, device_index=index, read_only=memory.read_only)
