"""A typed view of device memory, for exchange with array libraries."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from graphcap.backends.buffer import Buffer
from graphcap.backends.cuda.buffer import CUDABuffer
from graphcap.backends.cuda.context import DeviceGuard
from graphcap.errors import UnsupportedError

__all__ = ["CUDAArray"]


class CUDAArray:
    """Memory of a device with a shape and an element type, C order: ``cupy.asarray(a)``, ``torch.from_dlpack(a)``, ….

    It computes nothing. Another library's arrays become such ones where graphcap has to make a copy of them.

    Parameters
    ----------
    memory
        What keeps the memory alive: a buffer, or another library's array.
    ptr
        The address.
    shape, dtype
        As NumPy's.
    device_index
        The device that it lies on.
    read_only
        It may not be written.
    """

    __slots__ = ("__weakref__", "device_index", "dtype", "memory", "nbytes", "ptr", "read_only", "shape")

    def __init__(
        self,
        memory: Any,
        ptr: int,
        shape: Sequence[int],
        dtype: Any,
        *,
        device_index: int,
        read_only: bool = False,
    ) -> None:
        self.memory = memory
        self.ptr = ptr
        self.shape = tuple(int(n) for n in shape)
        self.dtype = np.dtype(dtype)
        self.nbytes = prod(self.shape) * self.dtype.itemsize
        self.device_index = device_index
        self.read_only = read_only

    @property
    def size(self) -> int:
        """The number of items."""
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        stream = self.memory.__cuda_array_interface__["stream"] if isinstance(self.memory, CUDABuffer) else None
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.ptr, self.read_only),
            "strides": None,
            "version": 3,
            "stream": stream,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.device_index)  # kDLCUDA

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule. Parameters and errors as of :meth:`graphcap.Buffer.__dlpack__` on a device."""
        if isinstance(self.memory, CUDABuffer):
            self.memory.check_export(stream, dl_device, copy)
        try:
            core: Any = importlib.import_module("cuda.core")
            utils: Any = importlib.import_module("cuda.core.utils")
        except ImportError as error:
            raise UnsupportedError("CUDA", "__dlpack__()", "dlpack", "pip install cuda-core") from error
        with DeviceGuard(self.device_index):
            whole = core.Buffer.from_handle(self.ptr, self.nbytes, owner=self)
            view = utils.StridedMemoryView.from_buffer(
                whole, shape=self.shape, dtype=self.dtype, is_readonly=self.read_only
            )
            return view.__dlpack__(stream=-1, max_version=max_version)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        owner = "graphcap" if isinstance(self.memory, Buffer) else type(self.memory).__module__.partition(".")[0]
        return f"<CUDAArray cuda:{self.device_index} {self.shape} {self.dtype}, memory of {owner}>"
