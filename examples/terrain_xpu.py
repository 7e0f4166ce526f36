"""The time step of ``terrain.py`` as one SPIR-V kernel in single precision, for ``--device xpu``.

The kernel's source is ``graphcap/backends/xpu/kernels/terrain.cl``. It does the operations of the NumPy code in the same order
and contracts nothing, so that NumPy in single precision is its check, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphcap


def capture_kernel(
    device: str, start: np.ndarray[Any, Any], kx: float, ky: float
) -> tuple[graphcap.Graph, Callable[[], np.ndarray[Any, Any]]]:
    """Capture one step. Gives the graph and a function that fetches the result."""
    from graphcap.backends.xpu import kernels

    rows, columns = start.shape
    initial = start.astype(np.float32)
    stream = graphcap.Stream(device)
    kernel = kernels.load(stream, "terrain", "diffuse_f32")
    z = stream.allocate(initial.nbytes)
    stream.copy(z, initial)
    with graphcap.capture(device, stream=stream) as graph:
        after = stream.allocate(initial.nbytes)  # from the graph's own pool
        arguments = [after, z, np.float32(kx), np.float32(ky), np.uint64(rows), np.uint64(columns)]
        stream.launch(kernel, arguments, (rows, columns))
        stream.copy(z, after)

    def fetch() -> np.ndarray[Any, Any]:
        result = np.empty_like(initial)
        graphcap.current_stream(device).copy(result, z)
        graphcap.synchronize(device)
        return result

    return graph, fetch


def rounding_bound(start: np.ndarray[Any, Any], steps: int) -> float:
    """How far single precision may be from double precision after `steps`, in metres.

    A step is a weighted mean (its weights are positive and sum to 1), so errors do not grow, they add: per step at most
    four roundings of half a unit in the last place of the highest elevation, and one of the start.
    """
    half_ulp = float(np.spacing(np.float32(np.abs(start).max()))) / 2
    return (4 * steps + 1) * half_ulp
