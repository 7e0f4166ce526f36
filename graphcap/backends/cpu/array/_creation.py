"""New arrays: from shapes, from constants, from other arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphcap.backends.cpu.array._base import Array, empty, operand, plain, plains, wrap
from graphcap.backends.cpu.array._copies import record_copy, record_fill
from graphcap.backends.cpu.array._dispatch import recorded
from graphcap.backends.cpu.array._infer import record_function
from graphcap.backends.cpu.array._memory import Plain, dense_strides
from graphcap.backends.cpu.array._recording import capturing_stream, check_readable
from graphcap.backends.cpu.array._standard import check_device
from graphcap.backends.cpu.array._ufuncs import as_array, holds_arrays
from graphcap.backends.cpu.array._views import copy_of
from graphcap.backends.cpu.scalars import cell, natural_type
from graphcap.backends.cpu.stream import CPUStream
from graphcap.backends.parameters import Scalar

__all__ = ["array", "asarray", "constant", "filled", "from_values", "order_strides", "zeros"]


def order_strides(data: Plain, order: str | None, itemsize: int) -> tuple[int, ...] | None:
    """Strides of a dense copy of `data` in a NumPy memory order; None for C."""
    if order == "A":
        order = "F" if data.flags.f_contiguous and not data.flags.c_contiguous else "C"
    if order in ("C", None):
        return None
    like = tuple(range(1, data.ndim + 1)) if order == "F" else data.strides
    return dense_strides(data.shape, like, itemsize)


def _shape(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, Array):
        check_readable("an array as a shape")
        shape = tuple(plain(shape).tolist())
    return tuple(np.broadcast_to(np.True_, shape).shape)


def new(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
    """An uninitialised array."""
    check_device(device)
    found = _shape(shape)
    kind = np.dtype(float if dtype is None else dtype)
    return empty(
        found, kind, dense_strides(found, tuple(range(1, len(found) + 1)), kind.itemsize) if order == "F" else None
    )


def filled(out: Any, value: Any) -> Any:
    """Fill a new array with a constant or with (the broadcast values of) an array."""
    stream = capturing_stream("filling an array")
    if stream is None:
        plain(out)[...] = plain(value)
        return out
    given = operand(value, stream)
    if isinstance(given, Scalar):
        given = cell(stream, given, out.dtype, "full()")
    if type(given) is not np.ndarray:
        given = np.asarray(given).astype(out.dtype)
    if given.ndim == 0 and given.dtype == out.dtype and not isinstance(value, (Array, np.ndarray)):
        record_fill(stream, out._pool, given)
    else:
        record_copy(stream, out._pool, np.broadcast_to(given, out.shape))
    return out


def zeros(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
    """An array of zeros."""
    out = new(shape, dtype, order, device=device)
    return filled(out, np.zeros((), out.dtype))


def ones(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
    """An array of ones."""
    out = new(shape, dtype, order, device=device)
    return filled(out, np.ones((), out.dtype))


def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Any:
    """An array of one value."""
    if dtype is None:
        known = natural_type(fill_value) if isinstance(fill_value, Scalar) else np.asarray(plain(fill_value)).dtype
        dtype = fill_value.graphcap_data.dtype if isinstance(fill_value, Array) else known
    return filled(new(shape, dtype, order, device=device), fill_value)


def constant(values: Plain) -> Any:
    """A new array with values that are known now; a replay sets them again."""
    out = empty(values.shape, values.dtype, dense_strides(values.shape, values.strides, values.itemsize))
    stream = capturing_stream("making an array of constants")
    if stream is None:
        plain(out)[...] = values
    else:
        record_copy(stream, out._pool, values)
    return out


def from_values(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The arrays that a NumPy function makes of Python values, as arrays of this namespace."""
    result = function(*plains(args), **plains(kwargs))
    return [constant(item) for item in result] if isinstance(result, list) else constant(np.asarray(result))


def asarray(
    obj: Any,
    dtype: Any = None,
    order: str | None = "K",
    *,
    copy: bool | None = None,
    device: Any = None,
    like: Any = None,
) -> Any:
    """An array over `obj`, without a copy where none is needed.

    A plain ``numpy.ndarray`` (or anything with an array interface, a buffer, DLPack) is used in place: it shares the memory
    and is kept alive. A list of numbers becomes a constant; one with arrays in it is stacked.
    """
    if isinstance(obj, Array):
        return _convert(obj, dtype, copy, order)
    if isinstance(obj, (list, tuple)) and holds_arrays(obj):
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array from a list of arrays.")
        from graphcap.backends.cpu.array._manipulation import stacked  # needs this module

        return _convert(stacked([asarray(item) for item in obj]), dtype, None, order)
    if not isinstance(obj, np.generic) and (hasattr(obj, "__array_interface__") or hasattr(obj, "__array__")):
        return _convert(_foreign(np.asarray(obj), obj), dtype, copy, order)
    if hasattr(obj, "__dlpack__"):
        return _convert(wrap(np.from_dlpack(obj)), dtype, copy, order)
    if isinstance(obj, (memoryview, bytearray)):
        return _convert(wrap(np.asarray(memoryview(obj))), dtype, copy, order)
    if copy is False:
        raise ValueError("Unable to avoid copy while creating an array from Python objects.")
    return constant(np.array(obj, dtype, order="F" if order == "F" else "C"))


def _foreign(data: Plain, owner: Any) -> Any:
    from graphcap.backends.buffer import Buffer

    return wrap(data, None, owner if isinstance(owner, Buffer) else None)


def _convert(found: Any, dtype: Any, copy: bool | None, order: str | None) -> Any:
    data: Plain = found.graphcap_data
    kind = data.dtype if dtype is None else np.dtype(dtype)
    laid_out = (
        order in ("K", "A", None)
        or (order == "C" and data.flags.c_contiguous)
        or (order == "F" and data.flags.f_contiguous)
    )
    if copy is not True and kind == data.dtype and laid_out:
        return found
    if copy is False:
        raise ValueError("Unable to avoid copy while creating an array as requested: the type or layout differs.")
    stream = capturing_stream("copying an array")
    strides = order_strides(data, order, kind.itemsize)
    if stream is not None:
        return copy_of(stream, operand(found, stream), kind, strides)
    out = empty(data.shape, kind, strides)
    plain(out)[...] = plain(found)
    return out


def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: str | None = "K",
    subok: bool = False,
    ndmin: int = 0,
    like: Any = None,
) -> Any:
    """A new array, as ``numpy.array``."""
    found = asarray(object, dtype, order, copy=copy)
    missing = ndmin - found.ndim
    return found[(None,) * missing + (...,)] if missing > 0 else found


def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """An array in C order, at least one-dimensional; a copy only where needed."""
    found = asarray(a, dtype, "C")
    return found if found.ndim else found[None]


def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """An array in Fortran order; a copy only where needed."""
    return asarray(a, dtype, "F")


@recorded("copy")
def _copy(stream: CPUStream, function: Callable[..., Any], a: Any, order: str = "K", subok: bool = False) -> Any:
    data = as_array(a, stream)
    return copy_of(stream, data, data.dtype, order_strides(data, order, data.itemsize))


@recorded("astype", "node")
def _astype(
    stream: CPUStream, function: Callable[..., Any], x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None
) -> Any:
    return converted(stream, x, dtype, "K", "unsafe", copy)


def converted(stream: CPUStream, array: Any, dtype: Any, order: str, casting: Any, copy: bool) -> Any:
    """Record ``array.astype(...)``."""
    data = as_array(array, stream)
    kind = np.dtype(dtype)
    if not np.can_cast(data.dtype, kind, casting):
        raise TypeError(f"Cannot cast array data from {data.dtype!r} to {kind!r} according to the rule '{casting}'")
    if kind.itemsize == 0 and kind.kind in "USV":  # the size of flexible types comes from the values
        kind = without_values(data).astype(kind).dtype
    strides = order_strides(data, order, kind.itemsize)
    if not copy and kind == data.dtype and (order == "K" or strides == data.strides or data.flags.c_contiguous):
        return array
    return copy_of(stream, data, kind, strides)


def without_values(data: Plain) -> Plain:
    """An array of the same type without items."""
    return np.empty(0, data.dtype)


def _like(a: Any, stream: CPUStream, dtype: Any, order: str, shape: Any) -> Any:
    data = as_array(a, stream)
    kind = data.dtype if dtype is None else np.dtype(dtype)
    if shape is None:
        return empty(data.shape, kind, order_strides(data, order, kind.itemsize), stream)
    found = _shape(shape)
    same = len(found) == data.ndim and order == "K"
    strides = dense_strides(found, data.strides, kind.itemsize) if same else None
    return empty(found, kind, strides, stream)


@recorded("empty_like")
def _empty_like(
    stream: CPUStream,
    function: Callable[..., Any],
    prototype: Any,
    /,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Any:
    return _like(prototype, stream, dtype, order, shape)


@recorded("zeros_like ones_like")
def _constant_like(
    stream: CPUStream,
    function: Callable[..., Any],
    a: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Any:
    out = _like(a, stream, dtype, order, shape)
    return filled(out, (np.zeros if function is np.zeros_like else np.ones)((), out.dtype))


@recorded("full_like")
def _full_like(
    stream: CPUStream,
    function: Callable[..., Any],
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Any:
    return filled(_like(a, stream, dtype, order, shape), fill_value)


@recorded("linspace logspace geomspace", "constant, or node where a bound is an array")
def _space(stream: CPUStream, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    check_device(kwargs.pop("device", None))
    if holds_arrays([*args, *kwargs.values()]):
        return record_function(stream, function, *args, **kwargs)
    found = function(*args, **kwargs)
    return (constant(found[0]), found[1]) if isinstance(found, tuple) else constant(found)
