"""Which recorded work NumPy has an inner loop for, and with which operands.

A loop is taken only where calling it is the same computation, bit by bit, as NumPy's own call: no casts, native byte order,
aligned, no partial overlap. Everything else stays a call of NumPy between the native blocks.
"""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

import numpy as np

from graphcap.backends.cpu.work import Work

__all__ = ["Loop", "recognise"]

_KINDS: Final = frozenset("?bBhHiIlLqQefdFD")
"""Type characters whose loops need no interpreter and no state: booleans, integers, floats, complex."""

_EXACT_FLOAT: Final = frozenset(
    [
        "add",
        "subtract",
        "multiply",
        "divide",
        "negative",
        "positive",
        "absolute",
        "fabs",
        "sqrt",
        "square",
        "reciprocal",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "less",
        "less_equal",
        "equal",
        "not_equal",
        "greater",
        "greater_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "logical_not",
        "sign",
        "signbit",
        "isnan",
        "isinf",
        "isfinite",
        "rint",
        "floor",
        "ceil",
        "trunc",
        "copysign",
        "conjugate",
    ]
)
_EXACT_INTEGER: Final = frozenset(
    [
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "invert",
        "left_shift",
        "right_shift",
        "add",
        "subtract",
        "multiply",
        "negative",
        "positive",
        "absolute",
        "square",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "less",
        "less_equal",
        "equal",
        "not_equal",
        "greater",
        "greater_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "logical_not",
        "sign",
        "conjugate",
        "floor",
        "ceil",
        "trunc",
        "divide",
    ]
)
_ALLOWED_KWARGS: Final = frozenset({"out"})


class Loop(NamedTuple):
    """One recognised piece of work.

    Attributes
    ----------
    node
        Index of the node in its graph.
    capsule
        NumPy's loop; ``None`` for a copy.
    inputs, outputs
        Arrays, all broadcast to the shape of the outputs.
    exact
        Each element's result is the same bits wherever a loop's call begins and ends (correctly rounded operations and
        integers); such work may be cut into strips.
    """

    node: int
    capsule: Any
    inputs: tuple[np.ndarray[Any, Any], ...]
    outputs: tuple[np.ndarray[Any, Any], ...]
    exact: bool


def recognise(node: int, work: Work) -> Loop | None:
    """The loop behind `work`, or ``None`` where there is none or it is not provably the same."""
    function = work.function
    if isinstance(function, np.ufunc):
        return _ufunc(node, function, work)
    if function is np.copyto and len(work.args) == 2 and work.kwargs.keys() <= {"casting"}:  # dtypes are equal anyway
        return _copy(node, *work.args)
    return None


def _ufunc(node: int, function: np.ufunc, work: Work) -> Loop | None:
    given = _operands(function, work)
    if given is None:
        return None
    inputs, outputs = given
    if not all(_usable(out) and out.flags.writeable and _injective(out) for out in outputs):
        return None
    described = _described(inputs)
    if described is None:
        return None
    found = _loop(function, (*described, *(out.dtype for out in outputs)))
    if found is None:
        return None
    dtypes, capsule = found
    if all(dtype.kind in "biu" for dtype in dtypes) and function.__name__ not in _EXACT_INTEGER:
        return None  # integer loops beyond these may raise (a negative power does), which takes an interpreter
    arrays = _as_arrays(inputs, dtypes)
    if arrays is None or any(out.dtype != dtype for out, dtype in zip(outputs, dtypes[function.nin :], strict=True)):
        return None
    shape = outputs[0].shape
    if any(out.shape != shape for out in outputs[1:]):
        return None
    try:
        spread = tuple(array if array.shape == shape else np.broadcast_to(array, shape) for array in arrays)
    except ValueError:
        return None
    exact = _is_exact(function, dtypes)
    if not _apart(spread, outputs) or not (exact or _one_long_call(arrays, outputs)):
        return None
    return Loop(node, capsule, spread, outputs, exact)


def _copy(node: int, target: Any, source: Any) -> Loop | None:
    if not (
        _usable(target)
        and _injective(target)
        and isinstance(source, np.ndarray)
        and _usable(source)
        and target.dtype == source.dtype
    ):
        return None
    try:
        spread = source if source.shape == target.shape else np.broadcast_to(source, target.shape)
    except ValueError:
        return None
    return Loop(node, None, (spread,), (target,), True) if _apart((spread,), (target,)) else None


def _operands(function: np.ufunc, work: Work) -> tuple[tuple[Any, ...], tuple[np.ndarray[Any, Any], ...]] | None:
    if function.signature is not None or not _ALLOWED_KWARGS.issuperset(work.kwargs):
        return None
    outputs = work.args[function.nin :] or work.kwargs.get("out", ())
    if isinstance(outputs, np.ndarray):
        outputs = (outputs,)
    if len(outputs) != function.nout or not all(isinstance(out, np.ndarray) for out in outputs):
        return None
    return work.args[: function.nin], tuple(outputs)


def _usable(array: np.ndarray[Any, Any]) -> bool:
    return array.dtype.char in _KINDS and array.dtype.isnative and array.flags.aligned


def _injective(array: np.ndarray[Any, Any]) -> bool:
    """Whether no two elements of `array` lie in the same memory, as far as the strides tell at a glance."""
    reach = array.itemsize
    for step, extent in sorted((abs(step), extent) for step, extent in zip(array.strides, array.shape, strict=True)):
        if extent == 1:
            continue
        if step < reach:
            return False
        reach = step * extent
    return True


def _described(inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The operands as ``resolve_dtypes`` wants them: dtypes, and Python's own types for weak scalars (NEP 50)."""
    found: list[Any] = []
    for value in inputs:
        if isinstance(value, np.ndarray):
            if not _usable(value):
                return None
            found.append(value.dtype)
        elif isinstance(value, np.generic) or type(value) is bool:
            found.append(np.asarray(value).dtype)
        elif type(value) in (int, float, complex):
            found.append(type(value))
        else:
            return None
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def _loop(function: np.ufunc, dtypes: tuple[Any, ...]) -> tuple[tuple[np.dtype[Any], ...], Any] | None:
    resolver: Any = function
    try:
        resolved, capsule = resolver._resolve_dtypes_and_context(dtypes)
        if any(dtype.char not in _KINDS for dtype in resolved):
            return None
        resolver._get_strided_loop(capsule)
    except (TypeError, ValueError, NotImplementedError):
        return None  # NumPy itself will say so, with its own words, when the work is called
    return resolved, capsule


def _as_arrays(inputs: tuple[Any, ...], dtypes: tuple[np.dtype[Any], ...]) -> tuple[np.ndarray[Any, Any], ...] | None:
    """Scalars become constant arrays of the loop's dtype; arrays must have it already."""
    found = []
    for value, dtype in zip(inputs, dtypes, strict=False):
        if isinstance(value, np.ndarray):
            if value.dtype != dtype:
                return None
            found.append(value)
            continue
        try:
            constant = np.array(value, dtype=dtype) if type(value) is int else np.asarray(value).astype(dtype)
        except (OverflowError, TypeError, ValueError):
            return None
        found.append(_constant(constant.tobytes(), dtype))
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def _constant(item: bytes, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """One array for equal scalars: a program repeats few of them many times."""
    return np.frombuffer(item, dtype).reshape(())


def _apart(inputs: tuple[np.ndarray[Any, Any], ...], outputs: tuple[np.ndarray[Any, Any], ...]) -> bool:
    """Whether each output is disjoint from every other operand, or the very same elements as an input."""
    for position, out in enumerate(outputs):
        for other in outputs[position + 1 :]:
            if np.may_share_memory(out, other):
                return False
        for array in inputs:
            if np.may_share_memory(out, array) and not _same_elements(out, array):
                return False
    return True


def _same_elements(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return (
        one.__array_interface__["data"][0] == other.__array_interface__["data"][0]
        and one.strides == other.strides
        and one.itemsize == other.itemsize
        and one.shape == other.shape
    )


def _one_long_call(arrays: tuple[np.ndarray[Any, Any], ...], outputs: tuple[np.ndarray[Any, Any], ...]) -> bool:
    """Whether NumPy runs the work in one call of its loop over dense memory, so that the same call gives the same bits."""
    shape = outputs[0].shape
    if outputs[0].size == 1:
        return False  # which strides the loop is given for a single element differs from case to case
    operands = [array for array in (*arrays, *outputs) if array.size != 1 or array.shape == shape]
    if any(array.shape != shape for array in operands):
        return False
    return all(array.flags.c_contiguous for array in operands) or all(array.flags.f_contiguous for array in operands)


def _is_exact(function: np.ufunc, dtypes: tuple[np.dtype[Any], ...]) -> bool:
    kinds = {dtype.kind for dtype in dtypes}
    if "c" in kinds or any(dtype.char == "e" for dtype in dtypes):
        return False  # their vector and scalar loops may contract differently
    return function.__name__ in (_EXACT_FLOAT if "f" in kinds else _EXACT_INTEGER)
