"""Both tiers in one process: ``"xpu"`` is the native one, ``"xpu_software"`` is registered here beside it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

import graphcap
from graphcap.backends.base import Backend
from graphcap.testing import BackendFixtures, scalar

__all__ = ["TIERS", "NativeFixtures", "SoftwareFixtures", "axpy", "register_software_tier"]

TIERS = ("xpu", "xpu_software")


def register_software_tier() -> None:
    """Register ``"XPU_SOFTWARE"``: the same backend with the software tier."""
    from graphcap.backends.xpu import XPUBackend, XPUGraphImpl

    class SoftwareBackend(XPUBackend):
        name = "XPU_SOFTWARE"

        def __init__(self) -> None:
            super().__init__("software")

    class SoftwareGraphImpl(XPUGraphImpl):
        backend: ClassVar[Callable[[], Backend]] = staticmethod(functools.cache(SoftwareBackend))

    if not graphcap.has_graph_impl("xpu_software"):
        graphcap.register_graph_impl("xpu_software", SoftwareGraphImpl)


def axpy(stream: Any, out: Any, a: Any, x: Any, y: Any) -> None:
    """``out = a * x + y`` over float32 items."""
    from graphcap.backends.xpu import kernels

    count = out.nbytes // 4
    kernel = kernels.load(stream, "arithmetic", "axpy_f32")
    stream.launch(kernel, [out, scalar(a), x, y, np.uint64(count)], count)


class NativeFixtures(BackendFixtures):
    """SYCL's own graphs."""

    device = "xpu"

    def start(self, seed: int) -> None:
        assert self.capabilities.native_graph, "the native tier is not in use; is there a C++ compiler?"

    def launch_axpy(self, stream: graphcap.Stream, out: Any, a: Any, x: Any, y: Any) -> None:
        axpy(stream, out, a, x, y)


class SoftwareFixtures(BackendFixtures):
    """Recorded calls, submitted again."""

    device = "xpu_software"

    def __init__(self) -> None:
        register_software_tier()

    def start(self, seed: int) -> None:
        assert not self.capabilities.native_graph

    def launch_axpy(self, stream: graphcap.Stream, out: Any, a: Any, x: Any, y: Any) -> None:
        axpy(stream, out, a, x, y)
