"""Methods of ufuncs under capture: reduce, accumulate, reduceat, outer, at."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from graphcap.backends.cpu.array._base import Array, empty, operand
from graphcap.backends.cpu.array._copies import record_into
from graphcap.backends.cpu.array._dispatch import UFUNC_METHODS
from graphcap.backends.cpu.array._indexing import advanced
from graphcap.backends.cpu.array._memory import Plain, dense_strides
from graphcap.backends.cpu.array._recording import record
from graphcap.backends.cpu.array._ufuncs import as_array, record_call, target_of, tiny
from graphcap.backends.cpu.stream import CPUStream
from graphcap.topology import NodeKind

__all__ = ["axes_of", "record_reduce", "reduced_shape"]

_OUT_DIFFERS: Final = np.lib.NumpyVersion(np.__version__) < "2.2.0"
"""NumPy before 2.2 reduces otherwise with ``out`` than without where it casts, and gets ``maximum.reduce(..., out=...)`` of
bools and integers wrong for some negative strides (seen on 2.0.2 and 2.1.3)."""


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes that an ``axis`` argument names, none negative; all of them for ``None``."""
    if axis is None:
        return tuple(range(ndim))
    if ndim == 0 and axis in (0, -1):
        return ()
    return tuple(np.lib.array_utils.normalize_axis_tuple(axis, ndim))


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape after a reduction over `axes`."""
    if keepdims:
        return tuple(1 if axis in axes else length for axis, length in enumerate(shape))
    return tuple(length for axis, length in enumerate(shape) if axis not in axes)


def record_reduce(stream: CPUStream, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record ``ufunc.reduce(...)``. The operand keeps its layout, on which the bits of a sum depend."""
    options = dict(kwargs)
    data = as_array(inputs[0], stream)
    axis = options.get("axis", 0)
    keepdims = bool(options.get("keepdims", False))
    shape = reduced_shape(data.shape, axes_of(axis, data.ndim), keepdims)
    reads = _read_options(stream, options)
    return _finish(stream, ufunc, "reduce", (data,), (tiny(data),), options, shape, [data, *reads])


def _record_accumulate(stream: CPUStream, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    data = as_array(inputs[0], stream)
    return _finish(stream, ufunc, "accumulate", (data,), (tiny(data),), dict(kwargs), data.shape, [data])


def _record_reduceat(stream: CPUStream, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    data, indices = as_array(inputs[0], stream), as_array(inputs[1], stream)
    (axis,) = axes_of(kwargs.get("axis", 0), data.ndim)
    shape = (*data.shape[:axis], len(indices), *data.shape[axis + 1 :])
    stand_ins = (tiny(data), np.zeros(min(len(indices), 2), np.intp))
    return _finish(stream, ufunc, "reduceat", (data, indices), stand_ins, dict(kwargs), shape, [data, indices])


def _record_outer(stream: CPUStream, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    left, right = (as_array(value, stream) for value in inputs)
    left = left.reshape(left.shape + (1,) * right.ndim)  # adds axes only: a view
    return record_call(stream, ufunc, (left, right), kwargs)


def _record_at(stream: CPUStream, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    data = target_of(inputs[0], stream)
    key = inputs[1] if isinstance(inputs[1], tuple) else (inputs[1],)
    index, stand_in, reads = advanced(stream, key)
    values = tuple(as_array(value, stream) for value in inputs[2:])
    found: Plain = np.empty_like(data)[stand_in]
    for value in values:
        np.broadcast_shapes(value.shape, np.shape(found))  # raises what a shape that does not fit raises
    args = (data, index if isinstance(inputs[1], tuple) else index[0], *values)
    record(
        stream,
        NodeKind.KERNEL,
        f"{ufunc.__name__}.at",
        partial(ufunc.at, *args),
        ufunc.at,
        args,
        reads=(data, *reads, *values),
        writes=(data,),
    )


def _read_options(stream: CPUStream, options: dict[str, Any]) -> list[Plain]:
    reads = []
    for name in ("where", "initial"):
        value = options.get(name)
        if isinstance(value, (Array, np.ndarray)):
            options[name] = operand(value, stream)
            reads.append(options[name])
        elif name == "where" and isinstance(value, list):
            options[name] = np.asarray(value)
    return reads


def _finish(
    stream: CPUStream,
    ufunc: np.ufunc,
    method: str,
    given: tuple[Plain, ...],
    stand_ins: tuple[Plain, ...],
    options: dict[str, Any],
    shape: tuple[int, ...],
    reads: list[Plain],
) -> Any:
    bound: Callable[..., Any] = getattr(ufunc, method)
    out = options.pop("out", None)
    if isinstance(out, tuple):
        (out,) = out
    probe_options = dict(options)
    if "where" in probe_options and probe_options["where"] is not True:
        probe_options["where"] = np.array(True)
    if isinstance(probe_options.get("initial"), np.ndarray):
        probe_options["initial"] = np.ones((), probe_options["initial"].dtype)
    target: Plain
    if out is not None:
        target = target_of(out, stream)
        if target.shape != shape:
            raise ValueError(
                f"output parameter for {method} of {ufunc.__name__} has the shape {target.shape}, but the result's is "
                f"{shape}"
            )
        probe_options["out"] = tiny(target)
    if ufunc.ntypes == 1 and set(ufunc.types[0]) <= set("O->"):  # a Python function: it is not called for a probe
        like: Plain = np.empty((0,) * len(shape), object)
    else:
        with np.errstate(all="ignore"):
            like = np.asarray(bound(*stand_ins, **probe_options))
    own = out is None
    if own:
        out = empty(shape, like.dtype, dense_strides(shape, like.strides, like.itemsize), stream)
        target = out._pool
        if options.get("dtype") is None and given[0].dtype.kind in "biu" and ufunc in (np.add, np.multiply):
            options["dtype"] = like.dtype  # what NumPy widens to on its own; with `out` given it would not
    name = f"{ufunc.__name__}.{method}"
    if _OUT_DIFFERS and own:
        record_into(stream, (target,), bound, given, options, reads, name)
        return out
    record(
        stream,
        NodeKind.KERNEL,
        name,
        partial(bound, *given, out=target, **options),
        bound,
        given,
        {"out": target, **options},
        reads=tuple(reads),
        writes=(target,),
    )
    return out


UFUNC_METHODS.update(
    {
        "__call__": record_call,
        "reduce": record_reduce,
        "accumulate": _record_accumulate,
        "reduceat": _record_reduceat,
        "outer": _record_outer,
        "at": _record_at,
    }
)
