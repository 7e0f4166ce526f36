"""The array type."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphcap.backends.cpu.array._base import empty, set_class
from graphcap.backends.cpu.array._memory import dense_strides
from graphcap.backends.cpu.array._methods import Methods
from graphcap.backends.cpu.array._operators import Operators
from graphcap.backends.cpu.array._protocols import Protocols

__all__ = ["ndarray"]


@set_class
class ndarray(Methods, Protocols, Operators):  # noqa: N801  # NumPy's name for it
    """An array in CPU memory whose work is recorded while the current stream captures, and runs at once otherwise.

    Not a subclass of ``numpy.ndarray``: a subclass would leak its data through the buffer protocol, ``numpy.asarray`` and
    assignment into plain arrays without any hook, and so without being seen by a capture.

    Parameters
    ----------
    shape, dtype, order
        As for ``numpy.empty``: the contents are not initialised.

    Raises
    ------
    OutOfMemoryError
        The memory cannot be had.
    """

    __slots__ = ()

    def __new__(cls, shape: Any, dtype: Any = float, *, order: str = "C") -> Any:
        found = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        kind = np.dtype(dtype)
        like = np.empty((1,) * len(found), kind).strides if order == "C" else tuple(range(1, len(found) + 1))
        return empty(tuple(map(int, found)), kind, dense_strides(found, like, kind.itemsize) if order == "F" else None)
