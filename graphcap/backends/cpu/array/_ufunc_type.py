"""The ufuncs of the namespace: NumPy's, for any operand that NumPy takes, giving arrays of this namespace."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphcap.backends.cpu.array._dispatch import call_ufunc

__all__ = ["Ufunc"]


class Ufunc:
    """A NumPy ufunc whose results are arrays of this namespace.

    Attributes such as ``nin``, ``types`` and ``identity`` are those of the NumPy ufunc.
    """

    __slots__ = ("__dict__", "_ufunc")

    def __init__(self, ufunc: np.ufunc, name: str) -> None:
        self._ufunc = ufunc
        self.__name__ = self.__qualname__ = name
        self.__doc__ = ufunc.__doc__

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        return call_ufunc(self._ufunc, "__call__", inputs, kwargs)

    def reduce(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, **kwargs: Any) -> Any:
        """As ``numpy.ufunc.reduce``."""
        return call_ufunc(self._ufunc, "reduce", (array,), _given(kwargs, axis=axis, dtype=dtype, out=out))

    def accumulate(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        """As ``numpy.ufunc.accumulate``."""
        return call_ufunc(self._ufunc, "accumulate", (array,), _given({}, axis=axis, dtype=dtype, out=out))

    def reduceat(self, array: Any, indices: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        """As ``numpy.ufunc.reduceat``."""
        return call_ufunc(self._ufunc, "reduceat", (array, indices), _given({}, axis=axis, dtype=dtype, out=out))

    def outer(self, a: Any, b: Any, /, **kwargs: Any) -> Any:
        """As ``numpy.ufunc.outer``."""
        return call_ufunc(self._ufunc, "outer", (a, b), kwargs)

    def at(self, a: Any, indices: Any, *values: Any) -> None:
        """As ``numpy.ufunc.at``."""
        call_ufunc(self._ufunc, "at", (a, indices, *values), {})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ufunc, name)

    def __repr__(self) -> str:
        return f"<graphcap ufunc {self.__name__!r}>"


def _given(kwargs: dict[str, Any], *, out: Any, **rest: Any) -> dict[str, Any]:
    found = {**rest, **kwargs}
    if out is not None:
        found["out"] = out if isinstance(out, tuple) else (out,)
    return found
