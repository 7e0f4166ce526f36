"""What the CUDA tests share: kernels for whichever driver answers, typed device arrays, the emulated driver's control."""

from __future__ import annotations

import functools
import importlib
import pathlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

import graphcap
from tests.emulated_device import loader

KERNELS = pathlib.Path(__file__).with_name("kernels.c")


def is_emulated() -> bool:
    """Whether the emulated driver answers."""
    return loader.load() == "emulated"


@functools.cache
def object_code() -> Any:
    """The test kernels as a ``cuda.core.ObjectCode``: the host compiler's for the emulated device, NVRTC's for a GPU."""
    core = importlib.import_module("cuda.core")
    device = core.Device()
    device.set_current()
    if is_emulated():
        return core.ObjectCode.from_cubin(loader.build_kernels(KERNELS).read_bytes())
    options = core.ProgramOptions(arch=f"sm_{device.arch}", include_path=str(loader.KERNELS))
    return core.Program(KERNELS.read_text(), "c++", options).compile("cubin")


@functools.cache
def kernel(name: str) -> Any:
    """A test kernel as a ``cuda.core.Kernel``."""
    return object_code().get_kernel(name)


class DeviceArray:
    """The least that a device array is: shape, type, memory, and the array interface."""

    def __init__(self, host: NDArray[Any], stream: graphcap.Stream) -> None:
        self.buffer = stream.allocate(host.nbytes)
        self.dtype, self.shape, self.nbytes = host.dtype, host.shape, host.nbytes
        self.strides: tuple[int, ...] | None = None
        self.read_only = False
        stream.copy(self, np.ascontiguousarray(host))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.buffer.ptr, self.read_only),
            "strides": self.strides,
            "version": 3,
        }


def make_stream(**options: Any) -> Any:
    """A new stream; of type ``Any``, because the tests use what only CUDA streams have."""
    make: Any = graphcap.Stream
    return make("cuda", **options)


def host(memory: Any, dtype: Any = np.float32) -> NDArray[Any]:
    """The contents of device memory, after all work of the device is done."""
    graphcap.synchronize("cuda")
    found = np.empty(memory.nbytes // np.dtype(dtype).itemsize, dtype)
    stream = make_stream()
    stream.copy(found, memory)
    stream.synchronize()
    return found


def device(values: Any, dtype: Any = np.float32) -> DeviceArray:
    """A device array with these contents."""
    stream = make_stream()
    made = DeviceArray(np.asarray(values, dtype), stream)
    stream.synchronize()
    return made
