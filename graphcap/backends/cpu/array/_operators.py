"""Operators: each is the ufunc that NumPy's own operator calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from graphcap.backends.cpu.array._memory import Plain

__all__ = ["Operators", "ufunc_calls"]


class _Spy(np.ndarray[Any, Any]):
    """Notes which ufuncs NumPy's own code calls on it, instead of letting them run."""

    calls: list[tuple[np.ufunc, str, tuple[Any, ...]]]

    def __array_finalize__(self, parent: Any) -> None:
        self.calls = getattr(parent, "calls", [])

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        self.calls.append((ufunc, method, inputs))
        return self


def ufunc_calls(function: Any, data: Plain, *args: Any) -> list[tuple[np.ufunc, tuple[Any, ...]]]:
    """The ufunc calls that ``function(data, *args)`` comes down to, with `data` (and each result) standing as ``None``.

    A type stands for `data` converted to it (integers to a fractional power, before NumPy 2.3).

    NumPy's shortcuts (``x ** 2`` is ``square(x)``, a bound that cannot matter is left out of ``clip``) depend on its
    version and on types; this asks NumPy itself.
    """
    spy = np.zeros((1,) * max(data.ndim, 1), data.dtype).view(_Spy)
    function(spy, *args)

    def operand(value: Any) -> Any:
        return None if value is spy else value.dtype if isinstance(value, _Spy) else value

    return [(ufunc, tuple(operand(value) for value in inputs)) for ufunc, method, inputs in spy.calls]


class Operators(NDArrayOperatorsMixin):
    """Operators by ufuncs, as NumPy's mixin has them; the power operator with NumPy's shortcuts."""

    __slots__ = ()

    def __pow__(self, other: Any) -> Any:
        return _power(self, other, None)

    def __ipow__(self, other: Any) -> Any:
        return _power(self, other, self)

    def __imatmul__(self, other: Any) -> Any:
        return np.matmul(self, other, out=self)  # type: ignore[call-overload]  # dispatched by __array_ufunc__

    __hash__ = None  # type: ignore[assignment]  # equality is elementwise


def _power(base: Any, exponent: Any, out: Any) -> Any:
    if type(exponent) in (int, float, complex) and base.dtype.kind not in "OVSUTmM":
        data: Plain = base.graphcap_data

        def operator(spy: Any) -> Any:
            return spy**exponent

        calls = ufunc_calls(operator, data)
        if len(calls) == 1:
            ufunc, inputs = calls[0]
            given = tuple(
                base if value is None else base.astype(value) if isinstance(value, np.dtype) else value
                for value in inputs
            )
            return ufunc(*given) if out is None else ufunc(*given, out=(out,))
    if getattr(exponent, "__array_ufunc__", True) is None:
        return NotImplemented
    return np.power(base, exponent) if out is None else np.power(base, exponent, out=(out,))
