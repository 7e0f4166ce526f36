"""Arrays of other libraries as guests: where their memory lies, and a view of it where that is the host's.

Guests come by DLPack (PyTorch, JAX, CuPy, cuda.core, …) or by an array interface. None of the libraries is imported.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

__all__ = ["CUDA_MEMORY", "dlpack_device", "host_array"]

CUDA_MEMORY: Final = frozenset({2, 13})
"""DLPack's kinds of memory that CUDA kernels use by address: kDLCUDA, kDLCUDAManaged."""

_HOST_MEMORY: Final = frozenset({1, 3, 11})
"""Those that the host reads: kDLCPU, kDLCUDAHost, kDLROCMHost."""


def dlpack_device(value: Any) -> tuple[int, int] | None:
    """DLPack's (kind, index) of where an array lies; ``None`` for what exports none.

    Raises
    ------
    TypeError
        It exports in principle, but not now: its memory was freed, for instance.
    """
    kind = type(value)
    if not hasattr(kind, "__dlpack__") or not hasattr(kind, "__dlpack_device__"):
        return None
    try:
        device, index = value.__dlpack_device__()
    except Exception as error:  # each library has errors of its own for this
        raise TypeError(
            f"this {kind.__name__} does not tell where its memory lies ({type(error).__name__}: {error}). Was it deleted?"
        ) from error
    return int(device), int(index)


def host_array(value: Any, what: str) -> np.ndarray[Any, Any] | None:
    """A NumPy view of another library's array in host memory, which keeps that memory alive; ``None`` for anything else.

    Read-only where the library says so (JAX's arrays never change).

    Raises
    ------
    TypeError
        It lies in host memory, but its library does not export it, or NumPy does not know its element type.
    """
    device = dlpack_device(value)
    if device is None or device[0] not in _HOST_MEMORY:
        return None
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"{what}: the memory of this {type(value).__name__} cannot be used as a NumPy array: {error}. Give a contiguous, "
            "detached array of a type that NumPy has (bfloat16: viewed as 16-bit integers)."
        ) from error
