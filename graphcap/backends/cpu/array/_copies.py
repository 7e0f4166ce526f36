"""Nodes that fill and copy, and the way in which any call's result gets into memory that was given out at capture."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from graphcap.backends.cpu.array._memory import Plain
from graphcap.backends.cpu.array._recording import record
from graphcap.backends.cpu.scalars import cell
from graphcap.backends.cpu.stream import CPUStream
from graphcap.backends.parameters import Scalar
from graphcap.topology import NodeKind

__all__ = ["assign", "record_copy", "record_fill", "record_into", "same_memory", "store"]


def assign(stream: CPUStream, target: Plain, value: Any) -> None:
    """Record ``target[...] = value``; `value` is a plain array or a constant.

    Raises
    ------
    TypeError, ValueError, OverflowError
        What NumPy raises when `value` does not fit.
    """
    if not target.flags.writeable:
        raise ValueError("assignment destination is read-only")
    if isinstance(value, Scalar):
        record_fill(stream, target, cell(stream, value, target.dtype, "an assignment"))
        return
    if type(value) is not np.ndarray:
        constant: Plain = np.empty((), target.dtype)
        if isinstance(value, (list, range)) or (isinstance(value, tuple) and target.dtype.names is None):
            value = np.asarray(value, target.dtype)
        elif hasattr(value, "__array__"):
            value = np.asarray(value)
        else:
            constant[()] = value
            record_fill(stream, target, constant)
            return
    while value.ndim > target.ndim and value.shape[0] == 1:
        value = value[0, ...]
    if value.shape != target.shape:
        try:
            fits = np.broadcast_shapes(value.shape, target.shape) == target.shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"could not broadcast input array from shape {value.shape} into shape {target.shape}")
    elif same_memory(value, target):
        return  # the last step of `a[key] += b`, which NumPy has done in place
    record_copy(stream, target, value)


def same_memory(one: Plain, other: Plain) -> bool:
    """Whether two arrays are the same items at the same places."""
    return (
        one.shape == other.shape
        and one.strides == other.strides
        and one.dtype == other.dtype
        and bool(one.__array_interface__["data"][0] == other.__array_interface__["data"][0])
    )


def record_copy(stream: CPUStream, target: Plain, source: Plain) -> None:
    """Record that `source` is copied to `target`, cast and stretched as in an assignment."""
    if target.size == 0:
        return
    record(
        stream,
        NodeKind.MEMCPY,
        "copy",
        partial(operator.setitem, target, ..., source),
        np.copyto,
        (target, source),
        {"casting": "unsafe"},
        reads=(source,),
        writes=(target,),
        params={"bytes": target.nbytes},
    )


def record_fill(stream: CPUStream, target: Plain, constant: Plain) -> None:
    """Record that every item of `target` becomes the 0-d `constant`, which has the same type."""
    if target.size == 0:
        return
    record(
        stream,
        NodeKind.MEMSET,
        "fill",
        partial(operator.setitem, target, ..., constant),
        np.copyto,
        (target, constant),
        {"casting": "unsafe"},
        writes=(target,),
        params={
            "bytes": target.nbytes,
            "value": constant[()].item() if constant.dtype.kind in "biuf" else str(constant[()]),
        },
    )


def record_into(
    stream: CPUStream,
    targets: tuple[Plain, ...],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    reads: list[Plain],
    name: str | None = None,
) -> None:
    """Record a call whose results are copied to `targets`: for functions that take no ``out``."""
    record(
        stream,
        NodeKind.KERNEL,
        str(name or getattr(function, "__name__", "function")),
        partial(store, targets, function, args, kwargs),
        store,
        (targets, function, args, kwargs),
        reads=tuple(reads),
        writes=targets,
    )


def store(
    targets: tuple[Plain, ...], function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Call `function` and copy each array of its result to its place."""
    result = function(*args, **kwargs)
    if len(targets) == 1 and not isinstance(result, (tuple, list)):
        targets[0][...] = result
        return
    for target, value in zip(targets, leaves(result), strict=True):
        target[...] = value


def leaves(result: Any) -> list[Any]:
    """The arrays and scalars in a result, in order, through tuples and lists."""
    if isinstance(result, (tuple, list)):
        return [leaf for item in result for leaf in leaves(item)]
    return [result]
