"""Joining, moving, selecting and changing items under capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from graphcap.backends.cpu.array._base import Array, empty, operand, operands, wrap
from graphcap.backends.cpu.array._copies import assign, record_copy
from graphcap.backends.cpu.array._dispatch import recorded
from graphcap.backends.cpu.array._infer import ones_like, record_function, record_out, record_result
from graphcap.backends.cpu.array._memory import Plain, dense_strides
from graphcap.backends.cpu.array._operators import ufunc_calls
from graphcap.backends.cpu.array._recording import LAUNCH, record, refuse
from graphcap.backends.cpu.array._ufunc_methods import axes_of
from graphcap.backends.cpu.array._ufuncs import as_array, record_call, target_of, tiny
from graphcap.backends.cpu.array._views import reshaped
from graphcap.backends.cpu.scalars import cell
from graphcap.backends.cpu.stream import CPUStream
from graphcap.backends.parameters import Scalar, current_value
from graphcap.topology import NodeKind

__all__ = ["clipped", "refuse_changing_shape", "rolled", "stacked"]

# -- joining ---------------------------------------------------------------------------------------------------------


def _rows(arrays: Any, stream: CPUStream) -> list[Plain]:
    if isinstance(arrays, (Array, np.ndarray)):
        return list(as_array(arrays, stream))
    return [as_array(item, stream) for item in arrays]


def _concatenated(stream: CPUStream, parts: Sequence[Plain], axis: Any, out: Any, dtype: Any, casting: Any) -> Any:
    options: dict[str, Any] = {
        key: value for key, value in (("dtype", dtype), ("casting", casting)) if value is not None
    }
    if axis is None:
        parts = [np.asarray(operand(reshaped(stream, wrap(part), -1), stream)) for part in parts]
        axis = 0
    like = np.concatenate([tiny(part) for part in parts], axis, **options)
    if len({part.ndim for part in parts}) == 1 and parts[0].ndim:
        (place,) = axes_of(axis, parts[0].ndim)
        rest = {part.shape[:place] + part.shape[place + 1 :] for part in parts}
        if len(rest) > 1:
            raise ValueError(
                "all the input array dimensions except for the concatenation axis must match exactly, but the shapes "
                f"are {[part.shape for part in parts]} and the axis is {axis}"
            )
        length = sum(part.shape[place] for part in parts)
        shape = (*parts[0].shape[:place], length, *parts[0].shape[place + 1 :])
    else:
        shape = like.shape
    args = (list(parts), axis)
    if out is not None:
        target = target_of(out, stream)
        if target.shape != shape:
            raise ValueError(f"Output array is the wrong shape: {target.shape}, but the result's is {shape}")
        np.concatenate([tiny(part) for part in parts], axis, out=np.empty(like.shape, target.dtype), **options)
        record_out(stream, np.concatenate, args, options, target, list(parts))
        return out
    if dtype is not None:
        options.setdefault("casting", "same_kind")
    options.pop("dtype", None)
    return record_result(stream, np.concatenate, args, options, list(parts), like, shape, takes_out=True)


@recorded("concatenate concat")
def _concatenate(
    stream: CPUStream,
    function: Callable[..., Any],
    arrays: Any,
    /,
    axis: Any = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: Any = None,
) -> Any:
    return _concatenated(stream, _rows(arrays, stream), axis, out, dtype, casting)


def _expanded(parts: list[Plain], axis: int) -> tuple[list[Plain], int]:
    if not parts:
        raise ValueError("need at least one array to stack")
    if len({part.shape for part in parts}) != 1:
        raise ValueError("all input arrays must have the same shape")
    ndim = parts[0].ndim + 1
    (place,) = axes_of(axis, ndim)
    return [part[(slice(None),) * place + (None, ...)] for part in parts], place


@recorded("stack")
def _stack(
    stream: CPUStream,
    function: Callable[..., Any],
    arrays: Any,
    axis: int = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: Any = None,
) -> Any:
    parts, place = _expanded(_rows(arrays, stream), axis)
    return _concatenated(stream, parts, place, out, dtype, casting)


def stacked(arrays: list[Any]) -> Any:
    """``numpy.stack`` of arrays, recorded or at once."""
    return np.stack(arrays)


@recorded("hstack vstack")
def _hstack_vstack(
    stream: CPUStream, function: Callable[..., Any], tup: Any, *, dtype: Any = None, casting: Any = None
) -> Any:
    vertical = function is np.vstack
    parts = [(np.atleast_2d if vertical else np.atleast_1d)(part) for part in _rows(tup, stream)]
    axis = 0 if vertical or (parts and parts[0].ndim == 1) else 1
    return _concatenated(stream, parts, axis, None, dtype, casting)


@recorded("dstack")
def _dstack(stream: CPUStream, function: Callable[..., Any], tup: Any) -> Any:
    return _concatenated(stream, [np.atleast_3d(part) for part in _rows(tup, stream)], 2, None, None, None)


@recorded("column_stack")
def _column_stack(stream: CPUStream, function: Callable[..., Any], tup: Any) -> Any:
    parts = [part if part.ndim >= 2 else np.atleast_2d(part).T for part in _rows(tup, stream)]
    return _concatenated(stream, parts, 1, None, None, None)


# -- moving ----------------------------------------------------------------------------------------------------------


@recorded("roll")
def _roll(stream: CPUStream, function: Callable[..., Any], a: Any, shift: Any, axis: Any = None) -> Any:
    data = as_array(a, stream)
    if axis is None:
        flat = reshaped(stream, a if isinstance(a, Array) else data, -1)
        return reshaped(stream, _roll(stream, function, flat, shift, 0), data.shape)
    pairs = np.broadcast(shift, axis)
    if pairs.ndim > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    shifts: dict[int, int] = {}
    for by, place in pairs:
        (one,) = axes_of(int(place), data.ndim)
        shifts[one] = shifts.get(one, 0) + int(by)
    return rolled(stream, data, shifts)


def rolled(stream: CPUStream, data: Plain, shifts: dict[int, int]) -> Any:
    """A rolled copy, as one copy node for each piece that moves as a whole."""
    strides = dense_strides(data.shape, data.strides, data.itemsize)
    out = empty(data.shape, data.dtype, strides, stream)
    pieces: list[tuple[tuple[slice, ...], tuple[slice, ...]]] = [((), ())]
    for axis, length in enumerate(data.shape):
        by = shifts.get(axis, 0) % length if length else 0
        cuts = [(slice(None), slice(None))]
        if by:
            cuts = [(slice(None, -by), slice(by, None)), (slice(-by, None), slice(None, by))]
        pieces = [((*source, cut), (*target, place)) for source, target in pieces for cut, place in cuts]
    for source, target in pieces:
        record_copy(stream, out._pool[target], data[source])
    return out


@recorded("fft.fftshift fft.ifftshift")
def _fftshift(stream: CPUStream, function: Callable[..., Any], x: Any, axes: Any = None) -> Any:
    data = as_array(x, stream)
    places = axes_of(axes, data.ndim)
    sign = 1 if function is np.fft.fftshift else -1
    half = {axis: data.shape[axis] // 2 if sign > 0 else -(data.shape[axis] // 2) for axis in places}
    return rolled(stream, data, half)


# -- selecting -------------------------------------------------------------------------------------------------------


def refuse_changing_shape(name: str, why: str) -> None:
    """Refuse a call whose result's shape depends on values."""
    refuse(name, why, f"Keep the full shape, or leave the step to a kernel. {LAUNCH}")


@recorded("where")
def _where(stream: CPUStream, function: Callable[..., Any], condition: Any, /, *choices: Any) -> Any:
    if not choices:
        refuse_changing_shape("numpy.where() with a condition alone", "how many items it finds depends on values")
    if len(choices) != 2:
        raise ValueError("either both or neither of x and y should be given")
    mask = as_array(condition, stream)
    weak = [
        value if type(value) in (int, float, complex) or isinstance(value, Scalar) else as_array(value, stream)
        for value in choices
    ]
    dtype = np.result_type(*map(current_value, weak))
    one, other = (
        value
        if isinstance(value, np.ndarray)
        else cell(stream, value, dtype, "where()")
        if isinstance(value, Scalar)
        else np.asarray(value).astype(dtype)
        for value in weak
    )
    shape = np.broadcast_shapes(mask.shape, one.shape, other.shape)
    if mask.dtype != np.bool_ or dtype.hasobject:
        like = np.where(*[tiny(part) for part in (mask, one, other)])
        return record_result(stream, np.where, (mask, one, other), {}, [mask, one, other], like, shape)
    like = np.where(*[tiny(part) for part in (mask, one, other)])
    out = empty(shape, dtype, dense_strides(shape, like.strides, dtype.itemsize), stream)
    target = out._pool
    record(
        stream,
        NodeKind.KERNEL,
        "where",
        partial(where_into, target, mask, one, other),
        where_into,
        (target, mask, one, other),
        reads=(mask, one, other),
        writes=(target,),
    )
    return out


def where_into(target: Plain, mask: Plain, one: Plain, other: Plain) -> None:
    """``target[...] = where(mask, one, other)`` without a temporary."""
    target[...] = other
    np.copyto(target, one, "unsafe", mask)


@recorded("take")
def _take(
    stream: CPUStream,
    function: Callable[..., Any],
    a: Any,
    indices: Any,
    axis: Any = None,
    out: Any = None,
    mode: str = "raise",
) -> Any:
    data, index = as_array(a, stream), as_array(indices, stream)
    if axis is None:
        data = operand(reshaped(stream, a if isinstance(a, Array) else data, -1), stream)
        axis = 0
    if data.ndim == 0:
        data = data.reshape(1)
    (place,) = axes_of(axis, data.ndim)
    shape = data.shape[:place] + index.shape + data.shape[place + 1 :]
    if index.size and not data.shape[place]:
        raise IndexError("cannot do a non-empty take from an empty axes.")
    options = {"axis": place, "mode": mode}
    if out is not None:
        target = target_of(out, stream)
        np.take(ones_like(data), ones_like(index), out=np.empty_like(target), **options)  # type: ignore[call-overload]
        record_out(stream, np.take, (data, index), options, target, [data, index])
        return out
    like = np.empty(shape, data.dtype)
    return record_result(stream, np.take, (data, index), options, [data, index], like, takes_out=True)


@recorded("clip")
def _clip(
    stream: CPUStream,
    function: Callable[..., Any],
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
    **kwargs: Any,
) -> Any:
    low = min if a_min is None else a_min
    high = max if a_max is None else a_max
    return clipped(stream, a, low, high, out, kwargs)


def clipped(stream: CPUStream, a: Any, low: Any, high: Any, out: Any, kwargs: dict[str, Any]) -> Any:
    """Record ``clip`` as the ufuncs that NumPy itself calls for these types of bounds."""
    data = as_array(a, stream)
    bounds = [
        value
        if type(value) in (int, float, complex, type(None)) or isinstance(value, Scalar)
        else as_array(value, stream)
        for value in (low, high)
    ]
    known = [
        None if value is None else tiny(value) if isinstance(value, np.ndarray) else current_value(value)
        for value in bounds
    ]
    calls = ufunc_calls(np.clip, data, *known)
    used = [value for _, inputs in calls for value in inputs]
    for real, stand_in in zip(bounds, known, strict=True):
        if isinstance(real, Scalar) and all(value is not stand_in for value in used):
            refuse(
                f"clip() to {real}", f"NumPy leaves the bound out for {data.dtype}", "Use numpy.minimum and maximum."
            )
    current: Any = data
    result: Any = None
    for position, (ufunc, inputs) in enumerate(calls):
        last = position == len(calls) - 1
        given = []
        for value in inputs:
            if value is None:
                given.append(current)
            else:
                given.append(
                    next((real for real, stand_in in zip(bounds, known, strict=True) if stand_in is value), value)
                )
        options = {**kwargs, "out": (out,)} if out is not None and last else dict(kwargs)
        current = result = record_call(stream, ufunc, tuple(given), options)
    return result


@recorded(
    "append pad tile resize block tril triu diagflat vander choose select take_along_axis kron meshgrid "
    "packbits unpackbits ravel_multi_index unravel_index ix_ tril_indices_from triu_indices_from "
    "diag_indices_from"
)
def _general(stream: CPUStream, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return record_function(stream, function, *args, **kwargs)


@recorded("repeat delete insert")
def _by_position(
    stream: CPUStream, function: Callable[..., Any], arr: Any, where: Any, *args: Any, **kwargs: Any
) -> Any:
    """The shape follows from the second argument, which must be a constant."""
    if isinstance(where, (Array, np.ndarray)):
        refuse_changing_shape(
            f"numpy.{function.__name__}() with an array as its second argument",
            "the result's shape depends on its values",
        )
    return record_function(stream, function, arr, where, *args, **kwargs)


# -- changing --------------------------------------------------------------------------------------------------------


@recorded("copyto")
def _copyto(
    stream: CPUStream, function: Callable[..., Any], dst: Any, src: Any, casting: str = "same_kind", where: Any = True
) -> None:
    target = target_of(dst, stream)
    source = operand(src, stream)
    if type(source) is not np.ndarray:
        np.copyto(np.empty(0, target.dtype), source, casting)  # type: ignore[arg-type]  # raises what does not fit
        source = np.asarray(source, target.dtype)
    elif not np.can_cast(source.dtype, target.dtype, casting):  # type: ignore[arg-type]  # a casting rule's name
        raise TypeError(
            f"Cannot cast array data from {source.dtype!r} to {target.dtype!r} according to the rule '{casting}'"
        )
    if where is True:
        assign(stream, target, source)
        return
    mask = as_array(where, stream)
    if np.broadcast_shapes(target.shape, source.shape, mask.shape) != target.shape:
        raise ValueError(f"could not broadcast input array from shape {source.shape} into shape {target.shape}")
    if mask.dtype != np.bool_:
        raise TypeError(f"Cannot cast array data from {mask.dtype!r} to dtype('bool') according to the rule 'safe'")
    record(
        stream,
        NodeKind.KERNEL,
        "copyto",
        partial(np.copyto, target, source, "unsafe", mask),
        np.copyto,
        (target, source),
        {"casting": "unsafe", "where": mask},
        reads=(source, mask),
        writes=(target,),
    )


@recorded("put place putmask put_along_axis fill_diagonal")
def _change(stream: CPUStream, function: Callable[..., Any], a: Any, *args: Any, **kwargs: Any) -> None:
    reads: list[Plain] = []
    target = target_of(a, stream)
    given, options = operands(args, stream, reads), operands(kwargs, stream, reads)
    if function is np.fill_diagonal or function is np.put_along_axis or function is np.put:
        from graphcap.backends.cpu.array._infer import evaluate

        evaluate(function, (target, *given), options, ones_like)
    record(
        stream,
        NodeKind.KERNEL,
        function.__name__,
        partial(function, target, *given, **options),
        function,
        (target, *given),
        options,
        reads=tuple(reads),
        writes=(target,),
    )
