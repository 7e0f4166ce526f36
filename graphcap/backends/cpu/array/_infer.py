"""What a function would give, without running it on anybody's data: the function is asked about stand-ins.

A stand-in has the shape, type and memory order of an operand, and constants in it that no function minds: zeros for
integers (valid indices), the identity for matrices, ones otherwise. A *tiny* stand-in (:func:`tiny`) has axes of at most
two items; it serves where the shape of the result is known by a rule, so that only type and memory order are asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from graphcap.backends.cpu.array._base import Array, empty, operands
from graphcap.backends.cpu.array._copies import leaves, record_into
from graphcap.backends.cpu.array._dispatch import name_of
from graphcap.backends.cpu.array._memory import Plain, dense_strides, same_strides
from graphcap.backends.cpu.array._recording import record, refuse
from graphcap.backends.cpu.array._ufuncs import target_of, tiny
from graphcap.backends.cpu.stream import CPUStream
from graphcap.backends.parameters import Scalar
from graphcap.topology import NodeKind

__all__ = [
    "Maker",
    "evaluate",
    "identity_like",
    "ones_like",
    "record_function",
    "record_out",
    "record_result",
    "record_shaped",
    "stand_ins",
]

Maker = Callable[[Plain], Plain]


def ones_like(data: Plain) -> Plain:
    """A stand-in of ones (of zeros for integers, so that it holds valid indices)."""
    broadcast = [step == 0 and length > 1 for step, length in zip(data.strides, data.shape, strict=True)]
    narrow = data[tuple([slice(None, 1) if one else slice(None) for one in broadcast])]
    stand_in = _empty_like(narrow)
    stand_in[...] = np.ones((), data.dtype) if data.dtype.kind in "fc" else np.zeros((), data.dtype)
    return np.broadcast_to(stand_in, data.shape) if any(broadcast) else stand_in  # as in tiny()


def _empty_like(data: Plain) -> Plain:
    """Uninitialised, with the strides of `data`: some functions ask how memory is laid out."""
    if data.flags.c_contiguous or data.flags.f_contiguous or data.dtype.itemsize == 0:
        same_order: Plain = np.empty_like(data)
        return same_order
    reach = [(length - 1) * step for length, step in zip(data.shape, data.strides, strict=True)]
    span = sum(map(abs, reach)) + data.itemsize
    first = -sum(step for step in reach if step < 0)  # an axis may run backwards
    found: Plain = np.ndarray(data.shape, data.dtype, np.empty(span, np.uint8), first, data.strides)
    return found


def identity_like(data: Plain) -> Plain:
    """A stand-in whose last two axes are the identity: regular, symmetric, positive definite."""
    stand_in: Plain = np.zeros_like(data)
    if data.ndim >= 2:
        count = min(data.shape[-2:])
        stand_in[..., np.arange(count), np.arange(count)] = 1
    else:
        stand_in[...] = 1
    return stand_in


def stand_ins(value: Any, maker: Maker) -> Any:
    """`value` with a stand-in for every plain array in it, through lists, tuples and dicts."""
    kind = type(value)
    if kind is np.ndarray:
        return maker(value)
    if kind is list or kind is tuple:
        return kind([stand_ins(item, maker) for item in value])
    if kind is dict:
        return {key: stand_ins(item, maker) for key, item in value.items()}
    return value.now() if isinstance(value, Scalar) else value


def evaluate(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], maker: Maker) -> Any:
    """The function's result on stand-ins. Numerical trouble of the constants is nobody's trouble."""
    for value in leaves([args, list(kwargs.values())]):
        if type(value) is np.ndarray and value.dtype.hasobject:
            refuse(
                f"{name_of(function)}() of an object array", "what it gives cannot be told without calling its objects"
            )
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*stand_ins(args, maker), **stand_ins(kwargs, maker))


def record_function(
    stream: CPUStream, function: Callable[..., Any], *args: Any, maker: Maker = ones_like, **kwargs: Any
) -> Any:
    """Record a call of any function whose result's shape depends on shapes and constants alone.

    A given ``out`` is written by the function itself; otherwise each array of the result is copied to its place.
    """
    reads: list[Plain] = []
    plain_args = operands(args, stream, reads)
    out = kwargs.pop("out", None)
    plain_kwargs = operands(kwargs, stream, reads)
    if out is not None:
        target = target_of(out, stream)
        evaluate(function, plain_args, {**plain_kwargs, "out": target}, maker)
        record_out(stream, function, plain_args, plain_kwargs, target, reads)
        return out
    result = evaluate(function, plain_args, plain_kwargs, maker)
    return record_result(stream, function, plain_args, plain_kwargs, reads, result)


def record_result(
    stream: CPUStream,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    reads: list[Plain],
    like: Any,
    shape: tuple[int, ...] | None = None,
    *,
    takes_out: bool = False,
) -> Any:
    """Record a call on plain operands whose result looks `like` this.

    Parameters
    ----------
    like
        Array or scalar, or nested tuples and lists of them.
    shape
        The real shape, where `like` is tiny.
    takes_out
        The function writes an ``out`` with the same bits.
    """
    made: list[Any] = []
    result = _outputs(like, shape, stream, made)
    targets = tuple(out._pool for out in made)
    if takes_out and isinstance(result, Array):
        record_out(stream, function, args, kwargs, targets[0], reads)
    else:
        record_into(stream, targets, function, args, kwargs, reads)
    return result


def _outputs(like: Any, shape: tuple[int, ...] | None, stream: CPUStream, made: list[Any]) -> Any:
    """New arrays for a result, nested as it is; each is appended to `made`. (No closure: a cycle would keep them.)"""
    if isinstance(like, tuple) and hasattr(like, "_fields"):
        return type(like)(*[_outputs(item, shape, stream, made) for item in like])
    if isinstance(like, (tuple, list)):
        return type(like)([_outputs(item, shape, stream, made) for item in like])
    data = np.asarray(like)
    real = data.shape if shape is None else shape
    strides = same_strides(data) if shape is None else dense_strides(real, data.strides, data.itemsize)
    out = empty(real, data.dtype, strides, stream)
    made.append(out)
    return out


def record_out(
    stream: CPUStream,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    target: Plain,
    reads: list[Plain],
) -> None:
    """Record ``function(*args, out=target, **kwargs)``."""

    full = {**kwargs, "out": target}
    record(
        stream,
        NodeKind.KERNEL,
        getattr(function, "__name__", "function"),
        partial(function, *args, **full),
        function,
        args,
        full,
        reads=tuple(reads),
        writes=(target,),
    )


def record_shaped(
    stream: CPUStream,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    shape: tuple[int, ...],
    *,
    takes_out: bool = False,
) -> Any:
    """As :func:`record_function` where the result's shape is known, so that tiny stand-ins are enough.

    The integers that fix the shape must not be among the arguments in a way that a tiny operand would refuse.
    """
    reads: list[Plain] = []
    plain_args = operands(args, stream, reads)
    out = kwargs.pop("out", None)
    plain_kwargs = operands(kwargs, stream, reads)
    if out is not None:
        target = target_of(out, stream)
        if target.shape != shape:
            raise ValueError(f"{function.__name__}: out has the shape {target.shape}, but the result's is {shape}")
        evaluate(function, plain_args, {**plain_kwargs, "out": target}, tiny)
        record_out(stream, function, plain_args, plain_kwargs, target, reads)
        return out
    like = evaluate(function, plain_args, plain_kwargs, tiny)
    return record_result(stream, function, plain_args, plain_kwargs, reads, like, shape, takes_out=takes_out)
