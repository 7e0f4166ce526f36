"""What the lifetime tests share: kernels with bare addresses as arguments, and memory of nobody."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import graphcap
from graphcap.testing import BackendFixtures
from tests.cuda import kit

__all__ = ["Tensor", "foreign_memory", "raw_axpy"]


def raw_axpy(fx: BackendFixtures, stream: Any, out: Any, a: float, x: int, y: int) -> None:
    """``out = a * x + y`` with `x` and `y` as bare addresses, which keep nothing alive. For devices with addresses."""
    count = out.nbytes // 4
    if fx.device_type == "cuda":
        arguments = (out, np.float32(a), np.uint64(x), np.uint64(y), np.int32(count))
        stream.launch(kit.kernel("axpy_to"), 1, 128, *arguments)
        return
    from graphcap.backends.xpu import kernels

    kernel = kernels.load(stream, "arithmetic", "axpy_f32")
    stream.launch(kernel, [out, np.float32(a), np.uint64(x), np.uint64(y), np.uint64(count)], count)


@contextlib.contextmanager
def foreign_memory(nbytes: int) -> Iterator[int]:
    """The address of CUDA memory that graphcap did not allocate."""
    from cuda.bindings import driver

    graphcap.synchronize("cuda")  # makes the context current
    stream = kit.make_stream()
    with stream:
        code, address = driver.cuMemAlloc(nbytes)
        assert not code
    try:
        yield int(address)
    finally:
        driver.cuMemFree(address)


class Tensor:
    """An array of another library over memory at `address`: what ``__cuda_array_interface__`` tells, and no more."""

    def __init__(self, address: int, count: int) -> None:
        self.address, self.count = address, count

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.count,), "typestr": "<f4", "data": (self.address, False), "version": 3}
