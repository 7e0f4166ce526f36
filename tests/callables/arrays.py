"""One kind of array each, for the tests of graphed callables that are the same everywhere: how to make, read and compute."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import graphcap
from graphcap.testing import BackendFixtures
from tests.backends import fixtures_of

__all__ = ["KINDS", "Arrays", "arrays_of"]


class Arrays:
    """Buffers of a backend: ``graphcap.allocate``, and kernels launched on the current stream."""

    def __init__(self, fx: BackendFixtures) -> None:
        self.fx = fx
        self.device = fx.device

    def make(self, values: Any) -> Any:
        """An array of the device with these float32 values."""
        return self.fx.upload(np.asarray(values, np.float32))

    def read(self, array: Any) -> Any:
        """Its values, once all work is done."""
        return self.fx.download(array)

    def new(self, like: Any) -> Any:
        """An array for a result, from the current stream's memory."""
        return graphcap.allocate(like.nbytes, device=self.device)

    def axpy(self, a: Any, x: Any, y: Any) -> Any:
        """``a * x + y``, a new array."""
        out = self.new(x)
        self.fx.launch_axpy(graphcap.current_stream(self.device), self.memory(out), a, self.memory(x), self.memory(y))
        return out

    def look(self, x: Any) -> float:
        """A value read: its first item."""
        stream = graphcap.current_stream(self.device)
        host = np.empty(x.nbytes // 4, np.float32)
        stream.copy(host, x)
        stream.synchronize()  # LOOK
        return float(host[0])

    @staticmethod
    def memory(array: Any) -> Any:
        """What a kernel is given."""
        return array


class CPUArrays(Arrays):
    """Arrays of the namespace."""

    def make(self, values: Any) -> Any:
        return graphcap.array_namespace("cpu").asarray(np.asarray(values, np.float32))

    def read(self, array: Any) -> Any:
        return np.asarray(array)

    def axpy(self, a: Any, x: Any, y: Any) -> Any:
        return (np.float32(a) if isinstance(a, float) else a) * x + y

    def look(self, x: Any) -> float:
        return float(x[0])  # LOOK


class _Typed:
    """A device array of another library, as far as its interface goes."""

    def __init__(self, buffer: Any, interface: str) -> None:
        self.buffer = buffer
        self.nbytes = buffer.nbytes
        self._interface = interface

    def __getattr__(self, name: str) -> Any:
        if name == self.__dict__.get("_interface"):
            described = dict(getattr(self.buffer, name))
            return {**described, "shape": (self.nbytes // 4,), "typestr": "<f4", "strides": None}
        raise AttributeError(name)


class ForeignCUDAArrays(Arrays):
    """Objects with ``__cuda_array_interface__``."""

    interface = "__cuda_array_interface__"

    def make(self, values: Any) -> Any:
        return _Typed(super().make(values), self.interface)

    def new(self, like: Any) -> Any:
        return _Typed(super().new(like), self.interface)


class _USM:
    def __init__(self, buffer: Any) -> None:
        self.buffer, self.nbytes = buffer, buffer.nbytes

    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]:
        return {**self.buffer.__sycl_usm_array_interface__, "shape": (self.nbytes // 4,), "typestr": "<f4"}


class ForeignXPUArrays(Arrays):
    """Objects with ``__sycl_usm_array_interface__``."""

    def make(self, values: Any) -> Any:
        return _USM(super().make(values))

    def new(self, like: Any) -> Any:
        return _USM(super().new(like))


_KINDS: Final[dict[str, tuple[str, type[Arrays]]]] = {
    "cpu": ("cpu", CPUArrays),
    "cpu-buffers": ("cpu", Arrays),
    "cuda-buffers": ("cuda", Arrays),
    "cuda-interface": ("cuda", ForeignCUDAArrays),
    "xpu-buffers": ("xpu", Arrays),
    "xpu-interface": ("xpu", ForeignXPUArrays),
    "xpu_software-buffers": ("xpu_software", Arrays),
    "xpu_software-interface": ("xpu_software", ForeignXPUArrays),
}
KINDS: Final = tuple(_KINDS)


def arrays_of(kind: str) -> Arrays:
    """The arrays of that name; skips the test where the backend cannot be had."""
    device, made = _KINDS[kind]
    fx = fixtures_of(device)
    fx.start(fx.seeds[0])
    return made(fx)


@pytest.fixture(params=KINDS)
def arrays(request: pytest.FixtureRequest) -> Any:
    """Each kind in turn."""
    return arrays_of(request.param)
