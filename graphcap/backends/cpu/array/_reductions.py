"""Reductions, statistics, sorting and searching under capture."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from graphcap.backends.cpu.array._base import Array, operand
from graphcap.backends.cpu.array._dispatch import UFUNC_METHODS, recorded
from graphcap.backends.cpu.array._infer import ones_like, record_function, record_shaped
from graphcap.backends.cpu.array._memory import Plain
from graphcap.backends.cpu.array._recording import record
from graphcap.backends.cpu.array._ufunc_methods import axes_of, record_reduce, reduced_shape
from graphcap.backends.cpu.array._ufuncs import as_array, tiny
from graphcap.backends.cpu.array._views import copy_of, reshaped
from graphcap.backends.cpu.stream import CPUStream
from graphcap.topology import NodeKind

__all__ = ["argument_free", "sort_in_place"]

_NO_VALUE: Final = np._NoValue

_REDUCTIONS: Final[dict[str, np.ufunc]] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "amax": np.maximum,
    "min": np.minimum,
    "amin": np.minimum,
}


def argument_free(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Without the arguments that carry NumPy's mark for "not given"."""
    return {key: value for key, value in kwargs.items() if value is not _NO_VALUE}


@recorded("sum prod max amax min amin")
def _reduction(
    stream: CPUStream,
    function: Callable[..., Any],
    a: Any,
    axis: Any = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    typed = function in (np.sum, np.prod)
    names = ("dtype", "out", "keepdims", "initial", "where") if typed else ("out", "keepdims", "initial", "where")
    given = argument_free({"axis": axis, **dict(zip(names, args, strict=False)), **kwargs})
    return record_reduce(stream, _REDUCTIONS[function.__name__], (a,), given)


@recorded("any all")
def _logical(
    stream: CPUStream,
    function: Callable[..., Any],
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = _NO_VALUE,
    *,
    where: Any = _NO_VALUE,
) -> Any:
    given = argument_free({"axis": axis, "keepdims": keepdims, "where": where})
    if out is not None:
        given["out"] = out
    if as_array(a, stream).dtype.kind != "O":
        given["dtype"] = np.bool_
    return record_reduce(stream, np.logical_or if function is np.any else np.logical_and, (a,), given)


@recorded("cumsum cumprod")
def _cumulative(
    stream: CPUStream, function: Callable[..., Any], a: Any, axis: Any = None, dtype: Any = None, out: Any = None
) -> Any:
    if axis is None:
        a, axis = reshaped(stream, a if isinstance(a, Array) else as_array(a, stream), -1), 0
    kwargs = {"axis": axis, "dtype": dtype} if out is None else {"axis": axis, "dtype": dtype, "out": out}
    ufunc = np.add if function is np.cumsum else np.multiply
    return UFUNC_METHODS["accumulate"](stream, ufunc, (a,), kwargs)


@recorded("mean std var")
def _moment(
    stream: CPUStream,
    function: Callable[..., Any],
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    names = ("keepdims",) if function is np.mean else ("ddof", "keepdims")
    options = argument_free({**dict(zip(names, args, strict=False)), **kwargs, "axis": axis, "dtype": dtype})
    data = as_array(a, stream)
    shape = reduced_shape(data.shape, axes_of(axis, data.ndim), bool(options.get("keepdims", False)))
    if out is not None:
        options["out"] = out
    where = options.get("where", True)
    if isinstance(where, (Array, np.ndarray, list)):  # a mask has the shape of the operand: no tiny stand-in
        return record_function(stream, function, data, **options)
    # For half precision NumPy computes in single precision, and with `out` it would round in between.
    exact = data.dtype.kind in "fciub" and data.dtype != np.float16 and dtype is None
    return record_shaped(stream, function, (data,), options, shape, takes_out=exact)


@recorded("argmax argmin")
def _position(
    stream: CPUStream,
    function: Callable[..., Any],
    a: Any,
    axis: Any = None,
    out: Any = None,
    *,
    keepdims: Any = _NO_VALUE,
) -> Any:
    data = as_array(a, stream)
    options = argument_free({"axis": axis, "keepdims": keepdims})
    shape = reduced_shape(data.shape, axes_of(axis, data.ndim), bool(options.get("keepdims", False)))
    if out is not None:
        options["out"] = out
    return record_shaped(stream, function, (data,), options, shape, takes_out=True)


@recorded(
    "median average percentile quantile ptp count_nonzero nansum nanprod nanmax nanmin nanmean nanvar nanstd nanmedian "
    "nanpercentile nanquantile nanargmax nanargmin nancumsum nancumprod cumulative_sum cumulative_prod cov corrcoef trace "
    "linalg.trace searchsorted digitize lexsort sort_complex"
)
def _general(stream: CPUStream, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return record_function(stream, function, *args, **argument_free(kwargs))


@recorded("sort")
def _sort(
    stream: CPUStream,
    function: Callable[..., Any],
    a: Any,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
) -> Any:
    if axis is None:
        a, axis = reshaped(stream, a if isinstance(a, Array) else as_array(a, stream), -1, copy=True), -1
    data = as_array(a, stream)
    out = copy_of(stream, data, data.dtype, _like_copy(data))
    sort_in_place(
        stream, np.ndarray.sort, operand(out, stream), (axis,), {"kind": kind, "order": order, "stable": stable}
    )
    return out


def _like_copy(data: Plain) -> tuple[int, ...] | None:
    from graphcap.backends.cpu.array._creation import order_strides  # needs this module

    return order_strides(data, "K", data.itemsize)


def sort_in_place(stream: CPUStream, method: Any, target: Plain, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Record a sort or partition of an array in place."""
    kwargs = {key: value for key, value in kwargs.items() if value is not None}
    method(tiny(target), *args, **kwargs) if method is np.ndarray.sort else method(ones_like(target), *args, **kwargs)
    if not target.flags.writeable:
        raise ValueError("sort array is read-only")
    record(
        stream,
        NodeKind.KERNEL,
        method.__name__,
        partial(method, target, *args, **kwargs),
        method,
        (target, *args),
        kwargs,
        reads=(target,),
        writes=(target,),
    )


@recorded("argsort")
def _argsort(stream: CPUStream, function: Callable[..., Any], a: Any, axis: Any = -1, *args: Any, **kwargs: Any) -> Any:
    data = as_array(a, stream)
    shape = (data.size,) if axis is None else data.shape
    return record_shaped(stream, function, (data, axis, *args), argument_free(kwargs), shape)


@recorded("partition argpartition")
def _partition(stream: CPUStream, function: Callable[..., Any], a: Any, kth: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(kth, Array):
        operator.index(kth)  # type: ignore[arg-type]  # refused: a value is needed
    return record_function(stream, function, a, kth, *args, **kwargs)
