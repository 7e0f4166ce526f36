"""The CPU backend's part in the conformance suite."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import graphcap
from graphcap.testing import BackendFixtures, scalar

__all__ = ["CPUFixtures", "axpy"]


def axpy(out: NDArray[np.uint8], a: np.float32, x: NDArray[np.uint8], y: NDArray[np.uint8]) -> None:
    """``out = a * x + y`` over float32 items."""
    out.view(np.float32)[...] = a * x.view(np.float32) + y.view(np.float32)


class CPUFixtures(BackendFixtures):
    """Kernels are Python callables."""

    device = "cpu"

    def launch_axpy(self, stream: graphcap.Stream, out: Any, a: Any, x: Any, y: Any) -> None:
        stream.launch(axpy, out, scalar(a), x, y)
