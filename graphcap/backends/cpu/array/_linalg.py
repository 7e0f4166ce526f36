"""Products and linear algebra under capture."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from graphcap.backends.cpu.array._base import Array, operand
from graphcap.backends.cpu.array._dispatch import recorded
from graphcap.backends.cpu.array._infer import (
    identity_like,
    ones_like,
    record_function,
    record_out,
    record_result,
    record_shaped,
)
from graphcap.backends.cpu.array._memory import Plain
from graphcap.backends.cpu.array._recording import refuse
from graphcap.backends.cpu.array._ufuncs import as_array, record_call, target_of, tiny
from graphcap.backends.cpu.stream import CPUStream

__all__: list[str] = []


@recorded("dot")
def _dot(stream: CPUStream, function: Callable[..., Any], a: Any, b: Any, out: Any = None) -> Any:
    left, right = as_array(a, stream), as_array(b, stream)
    if left.ndim == 0 or right.ndim == 0:  # NumPy's layout of a scaled array has no simple rule
        return record_function(stream, np.dot, left, right, **({} if out is None else {"out": out}))
    else:
        core = 0 if right.ndim == 1 else -2
        if left.shape[-1] != right.shape[core]:
            raise ValueError(
                f"shapes {left.shape} and {right.shape} not aligned: {left.shape[-1]} (dim {left.ndim - 1}) != "
                f"{right.shape[core]} (dim {right.ndim + core if core else 0})"
            )
        shape = left.shape[:-1] + right.shape[:-2] + (right.shape[-1:] if right.ndim > 1 else ())
    options = {} if out is None else {"out": out}
    if out is not None and target_of(out, stream).shape == shape:
        target = target_of(out, stream)
        np.dot(ones_like(left), ones_like(right), out=np.empty_like(target))
        record_out(stream, np.dot, (left, right), {}, target, [left, right])
        return out
    return record_shaped(stream, np.dot, (left, right), options, shape, takes_out=True)


@recorded("inner")
def _inner(stream: CPUStream, function: Callable[..., Any], a: Any, b: Any, /) -> Any:
    left, right = as_array(a, stream), as_array(b, stream)
    if left.ndim == 0 or right.ndim == 0:
        return record_function(stream, np.inner, left, right)
    if left.shape[-1] != right.shape[-1]:
        raise ValueError(f"shapes {left.shape} and {right.shape} not aligned: the last axes differ")
    return record_shaped(stream, np.inner, (left, right), {}, left.shape[:-1] + right.shape[:-1])


@recorded("vdot")
def _vdot(stream: CPUStream, function: Callable[..., Any], a: Any, b: Any, /) -> Any:
    left, right = as_array(a, stream), as_array(b, stream)
    if left.size != right.size:
        raise ValueError("cannot reshape array: vdot needs arrays of the same size")
    like = np.vdot(np.ones(1, left.dtype), np.ones(1, right.dtype))
    return record_result(stream, np.vdot, (left, right), {}, [left, right], like, ())


@recorded("outer")
def _outer(stream: CPUStream, function: Callable[..., Any], a: Any, b: Any, out: Any = None) -> Any:
    from graphcap.backends.cpu.array._views import reshaped

    left = operand(reshaped(stream, a if isinstance(a, Array) else as_array(a, stream), -1), stream)
    right = operand(reshaped(stream, b if isinstance(b, Array) else as_array(b, stream), -1), stream)
    options = {} if out is None else {"out": (out,)}
    return record_call(stream, np.multiply, (left[:, None], right[None, :]), options)


@recorded("tensordot linalg.tensordot")
def _tensordot(stream: CPUStream, function: Callable[..., Any], a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
    axes = args[0] if args else kwargs.get("axes", 2)
    left, right = as_array(a, stream), as_array(b, stream)
    if isinstance(axes, (int, np.integer)):
        count = int(axes)
        over: tuple[Any, Any] = (list(range(left.ndim - count, left.ndim)), list(range(count)))
    else:
        over = (axes[0], axes[1])
    places = [np.atleast_1d(part).astype(np.intp).tolist() for part in over]
    gone_left = [axis % max(left.ndim, 1) for axis in places[0]]
    gone_right = [axis % max(right.ndim, 1) for axis in places[1]]
    if [left.shape[axis] for axis in gone_left] != [right.shape[axis] for axis in gone_right]:
        raise ValueError("shape-mismatch for sum")
    shape = tuple(n for axis, n in enumerate(left.shape) if axis not in gone_left) + tuple(
        n for axis, n in enumerate(right.shape) if axis not in gone_right
    )
    return record_shaped(stream, np.tensordot, (left, right), {"axes": axes}, shape)


@recorded("einsum")
def _einsum(stream: CPUStream, function: Callable[..., Any], *operands_: Any, **kwargs: Any) -> Any:
    subscripts = operands_[0]
    if not isinstance(subscripts, str) or "." in subscripts:
        return record_function(stream, np.einsum, *operands_, **kwargs)
    reads: list[Plain] = []
    given = [as_array(value, stream) for value in operands_[1:]]
    reads.extend(given)
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    sizes: dict[str, int] = {}
    for term, data in zip(terms, given, strict=False):
        for letter, length in zip(term, data.shape, strict=False):
            if sizes.setdefault(letter, length) in (1, length):
                sizes[letter] = length
            elif length != 1:
                raise ValueError(f"einsum: the label {letter!r} has the lengths {sizes[letter]} and {length}")
    if not arrow:
        letters = "".join(terms)
        right = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    like = np.einsum(subscripts, *[tiny(data) for data in given], **{k: v for k, v in kwargs.items() if k != "out"})
    shape = tuple(sizes[letter] for letter in right)
    out = kwargs.pop("out", None)
    if out is not None:
        target = target_of(out, stream)
        if target.shape != shape:
            raise ValueError(f"einsum: out has the shape {target.shape}, but the result's is {shape}")
        record_out(stream, np.einsum, (subscripts, *given), kwargs, target, reads)
        return out
    return record_result(stream, np.einsum, (subscripts, *given), kwargs, reads, like, shape, takes_out=True)


@recorded(
    "linalg.inv linalg.solve linalg.det linalg.slogdet linalg.cholesky linalg.qr linalg.svd linalg.svdvals linalg.eigh "
    "linalg.eigvalsh linalg.pinv linalg.cond linalg.norm linalg.matrix_norm linalg.vector_norm linalg.matrix_power "
    "linalg.matrix_rank linalg.multi_dot linalg.tensorinv linalg.tensorsolve linalg.cross linalg.outer linalg.vecdot "
    "linalg.matmul cross"
)
def _general(stream: CPUStream, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if function is np.linalg.matrix_power and len(args) > 1 and isinstance(args[1], Array):
        operator.index(args[1])  # type: ignore[arg-type]  # refused: a value is needed
    return record_function(stream, function, *args, maker=identity_like, **kwargs)


@recorded("linalg.eig linalg.eigvals", "node for complex operands; refused for real ones")
def _eig(stream: CPUStream, function: Callable[..., Any], a: Any) -> Any:
    if as_array(a, stream).dtype.kind != "c":
        refuse(
            f"numpy.linalg.{function.__name__}() of a real matrix",
            "whether it gives real or complex values depends on the matrix",
            "Give it a complex matrix (a.astype(complex)), or use eigh for a symmetric one.",
        )
    return record_function(stream, function, a, maker=identity_like)
