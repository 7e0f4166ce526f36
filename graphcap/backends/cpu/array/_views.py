"""Functions that give a view of their operand: no node, since nothing is read or written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphcap.backends.cpu.array._base import Array, empty, operand, view, wrap
from graphcap.backends.cpu.array._copies import record_copy
from graphcap.backends.cpu.array._dispatch import recorded
from graphcap.backends.cpu.array._memory import Plain, axes_of_iteration
from graphcap.backends.cpu.array._ufuncs import as_array
from graphcap.backends.cpu.stream import CPUStream

__all__ = ["as_view", "copy_of", "reshaped", "viewed"]


def viewed(array: Any, function: Callable[[Plain], Any]) -> Any:
    """What `function` gives for the data of `array` (views of it), as arrays that share the memory."""
    if not isinstance(array, Array):
        return _adopt(function(np.asarray(array)), None, array)
    owning, pool = array.graphcap_data, array._pool
    return _adopt(function(owning), None if pool is owning else function(pool), array)


def _adopt(owning: Any, pool: Any, array: Any) -> Any:
    if isinstance(owning, (list, tuple)):
        pools = [None] * len(owning) if pool is None else pool
        return type(owning)([_adopt(own, other, array) for own, other in zip(owning, pools, strict=True)])
    return view(array, owning, pool) if isinstance(array, Array) else wrap(owning)


@recorded(
    "transpose permute_dims swapaxes moveaxis rollaxis squeeze expand_dims broadcast_to diagonal linalg.diagonal flip fliplr "
    "flipud rot90 matrix_transpose linalg.matrix_transpose array_split split hsplit vsplit dsplit unstack "
    "lib.stride_tricks.sliding_window_view",
    "view",
)
def as_view(stream: CPUStream, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A view of the first argument, whatever its name is."""
    rest = dict(kwargs)
    array = args[0] if args else rest.pop(next(iter(kwargs)))
    data = as_array(array, stream)
    if data.ndim == 0 and isinstance(function(data, *args[1:], **rest), np.generic):
        return copy_of(stream, data, data.dtype, None)  # where NumPy gives a scalar, which is a copy
    return viewed(array, lambda plain: function(plain, *args[1:], **rest))


@recorded("diag", "view of a matrix, node for a vector")
def _diag(stream: CPUStream, function: Callable[..., Any], v: Any, k: int = 0) -> Any:
    if as_array(v, stream).ndim == 2:
        return viewed(v, lambda data: np.diag(data, k))
    from graphcap.backends.cpu.array._infer import record_function  # needs views

    return record_function(stream, np.diag, v, k)


@recorded("atleast_1d atleast_2d atleast_3d", "view")
def _atleast(stream: CPUStream, function: Callable[..., Any], *arrays: Any) -> Any:
    found = tuple(viewed(array, function) for array in arrays)
    return found[0] if len(found) == 1 else found


@recorded("broadcast_arrays", "view")
def _broadcast_arrays(stream: CPUStream, function: Callable[..., Any], *arrays: Any, subok: bool = False) -> Any:
    shape = np.broadcast_shapes(*[np.shape(operand(array, stream)) for array in arrays])
    return tuple(viewed(array, lambda data: np.broadcast_to(data, shape)) for array in arrays)


@recorded("real", "view")
def _real(stream: CPUStream, function: Callable[..., Any], val: Any) -> Any:
    return viewed(val, np.real) if _is_complex(val) else val


@recorded("imag", "view of a complex array, node for a real one")
def _imag(stream: CPUStream, function: Callable[..., Any], val: Any) -> Any:
    if _is_complex(val):
        return viewed(val, np.imag)
    return viewed(np.zeros_like(val, order="A"), _read_only)  # zeros_like is dispatched: a node


def _read_only(data: Plain) -> Plain:
    found: Plain = data.view()
    found.flags.writeable = False
    return found


def _is_complex(value: Any) -> bool:
    data = value.graphcap_data if isinstance(value, Array) else np.asarray(value)
    return bool(data.dtype.kind == "c")


@recorded("reshape", "view where NumPy gives one, else node")
def _reshape(
    stream: CPUStream,
    function: Callable[..., Any],
    a: Any,
    /,
    shape: Any = None,
    order: str = "C",
    *,
    newshape: Any = None,
    copy: bool | None = None,
) -> Any:
    return reshaped(stream, a, newshape if shape is None else shape, order, copy)


@recorded("ravel", "view where NumPy gives one, else node")
def _ravel(stream: CPUStream, function: Callable[..., Any], a: Any, order: str = "C") -> Any:
    source = a if isinstance(a, Array) else as_array(a, stream)
    data = as_array(a, stream)
    if order == "A":
        order = "F" if data.flags.f_contiguous and not data.flags.c_contiguous else "C"
    if order == "K":
        axes = axes_of_iteration(data.shape, data.strides)
        source = viewed(source, lambda plain: plain.transpose(axes))
        data, order = as_array(source, stream), "C"
    whole = data.flags.f_contiguous if order == "F" else data.flags.c_contiguous
    return reshaped(stream, source, -1, order, None if whole else True)


def reshaped(stream: CPUStream, array: Any, shape: Any, order: str = "C", copy: bool | None = None) -> Any:
    """Record ``array.reshape(shape)``: a view if the memory allows it, else a copy node."""
    data = as_array(array, stream)
    if order == "A":
        order = "F" if data.flags.f_contiguous and not data.flags.c_contiguous else "C"
    new = np.broadcast_to(np.zeros((), np.bool_), data.shape).reshape(shape).shape  # resolves -1, checks the size
    if copy is not True:
        try:
            return viewed(array if isinstance(array, Array) else data, lambda plain: _without_copy(plain, new, order))
        except _MustCopyError:
            if copy is False:
                raise ValueError("Unable to avoid creating a copy while reshaping.") from None
    out = empty(new, data.dtype, None, stream)
    if order == "F":
        out = empty(new[::-1], data.dtype, None, stream)
        out = viewed(out, np.transpose)
    record_copy(stream, _without_copy(out._pool, data.shape, order), data)
    return out


def reshaped_view(array: Array, shape: Any) -> Any:
    """A view of another shape, for ``array.shape = shape``.

    Raises
    ------
    AttributeError
        The memory does not allow it.
    """
    new = np.broadcast_to(np.zeros((), np.bool_), array.graphcap_data.shape).reshape(shape).shape
    try:
        return viewed(array, lambda plain: _without_copy(plain, new, "C"))
    except _MustCopyError:
        raise AttributeError(
            "Incompatible shape for in-place modification. Use `.reshape()` to make a copy with the desired shape."
        ) from None


class _MustCopyError(Exception):
    pass


def _without_copy(data: Plain, shape: tuple[int, ...], order: str) -> Any:
    if order == "F":
        return _without_copy(data.T, shape[::-1], "C").T
    if _HAS_COPY:
        try:
            return data.reshape(shape, copy=False)
        except ValueError:
            raise _MustCopyError from None
    found = data.view()
    try:
        found.shape = shape
    except AttributeError:
        raise _MustCopyError from None
    return found


_HAS_COPY = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def copy_of(stream: CPUStream, data: Plain, dtype: np.dtype[Any], strides: tuple[int, ...] | None) -> Any:
    """A new array with the items of `data`, cast to `dtype`."""
    out = empty(data.shape, dtype, strides, stream)
    record_copy(stream, out._pool, data)
    return out
