"""The 30-node chain as a CPU graph of NVIDIA Warp: one launch for each operation, captured and replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

__all__ = ["replay_of"]

wp.config.quiet = True


@wp.kernel
def multiply(x: wp.array(dtype=wp.float64), c: wp.float64, out: wp.array(dtype=wp.float64)):  # type: ignore[no-untyped-def,valid-type]  # Warp's own annotations
    i = wp.tid()
    out[i] = x[i] * c


@wp.kernel
def add(x: wp.array(dtype=wp.float64), a: wp.array(dtype=wp.float64), out: wp.array(dtype=wp.float64)):  # type: ignore[no-untyped-def,valid-type]  # as above
    i = wp.tid()
    out[i] = x[i] + a[i]


@wp.kernel
def subtract(x: wp.array(dtype=wp.float64), c: wp.float64, out: wp.array(dtype=wp.float64)):  # type: ignore[no-untyped-def,valid-type]  # as above
    i = wp.tid()
    out[i] = x[i] - c


def replay_of(x: np.ndarray[Any, Any], a: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> Callable[[], object]:
    """A call that replays the chain; its result was compared with `wanted`."""
    size = len(x)
    first, other = (wp.array(values, dtype=wp.float64, device="cpu") for values in (x, a))
    out = wp.zeros(size, dtype=wp.float64, device="cpu")

    def chain() -> None:
        source = first
        for _ in range(10):
            wp.launch(multiply, size, [source, wp.float64(1.0001)], [out], device="cpu")
            wp.launch(add, size, [out, other], [out], device="cpu")
            wp.launch(subtract, size, [out, wp.float64(0.5)], [out], device="cpu")
            source = out

    chain()
    with wp.ScopedCapture(device="cpu") as capture:
        chain()
    wp.capture_launch(capture.graph)
    if not np.allclose(out.numpy(), wanted, rtol=1e-12):
        raise SystemExit("Warp's chain differs from NumPy's")
    return lambda: wp.capture_launch(capture.graph)
