"""Reading and writing items under capture: views where NumPy gives views, nodes where it copies."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any, NoReturn

import numpy as np

from graphcap.backends.cpu.array._base import Array, empty, operand, view
from graphcap.backends.cpu.array._copies import assign, record_copy, record_into
from graphcap.backends.cpu.array._dispatch import INDEXING
from graphcap.backends.cpu.array._memory import Plain, dense_strides
from graphcap.backends.cpu.array._recording import LAUNCH, record, refuse
from graphcap.backends.cpu.scalars import cell
from graphcap.backends.cpu.stream import CPUStream
from graphcap.backends.parameters import Scalar
from graphcap.topology import NodeKind

__all__ = ["advanced", "get_item", "set_item"]

_BASIC = (int, np.integer, slice, type(Ellipsis), type(None))


def get_item(stream: CPUStream, array: Array, key: Any) -> Any:
    """Record ``array[key]``. A single item is a copy, as NumPy's scalars are; slices are views and no node at all."""
    parts = key if isinstance(key, tuple) else (key,)
    if isinstance(key, (str, list)) and array.graphcap_data.dtype.names:
        return _same_view(array, key)
    if all(isinstance(part, _BASIC) and not isinstance(part, bool) for part in parts):
        _check_slices(parts)
        found = array.graphcap_data[key]
        if type(found) is np.ndarray:
            return _same_view(array, key)
        whole = (*parts, ...)
        source = operand(array, stream)[whole]
        out = empty((), source.dtype, None, stream)
        record_copy(stream, out._pool, source)
        return out
    plain_key, stand_in_key, reads = advanced(stream, parts)
    if any(read.dtype == np.bool_ for read in reads):
        _refuse_mask("reading through a mask (array[mask])")
    data = operand(array, stream)
    like: Plain = np.empty_like(data)[stand_in_key]
    out = empty(like.shape, like.dtype, dense_strides(like.shape, like.strides, like.itemsize), stream)
    record_into(stream, (out._pool,), operator.getitem, (data, plain_key), {}, [data, *reads], "take")
    return out


def set_item(stream: CPUStream, array: Array, key: Any, value: Any) -> None:
    """Record ``array[key] = value``."""
    given = operand(value, stream)
    if isinstance(given, (list, tuple)) and any(isinstance(item, Array) for item in given):
        from graphcap.backends.cpu.array._creation import array as make  # needs this module

        given = operand(make(given), stream)
    data = operand(array, stream)
    parts = key if isinstance(key, tuple) else (key,)
    if isinstance(key, (str, list)) and data.dtype.names:
        assign(stream, data[key], given)
        return
    if all(isinstance(part, _BASIC) and not isinstance(part, bool) for part in parts):
        _check_slices(parts)
        whole = (*parts, ...) if Ellipsis not in parts else parts
        if type(given) is np.ndarray and given.ndim and type(data[key]) is not np.ndarray:
            np.zeros(1, data.dtype)[0] = np.zeros(given.shape, given.dtype)  # NumPy's word on a scalar made of an array
        assign(stream, data[whole], given)
        return
    if not data.flags.writeable:
        raise ValueError("assignment destination is read-only")
    plain_key, stand_in_key, reads = advanced(stream, parts)
    masked = any(read.dtype == np.bool_ for read in reads)
    if isinstance(given, Scalar):
        given = cell(stream, given, data.dtype, "an assignment")
    fixed = given if type(given) is np.ndarray else np.asarray(given, data.dtype)
    if masked and fixed.size != 1:
        _refuse_mask("assigning an array through a mask (array[mask] = values)")
    if masked and fixed.ndim:
        fixed = fixed.reshape(())
    probe = np.empty_like(data)
    if masked:
        probe[stand_in_key] = np.zeros((), data.dtype)
        mask = plain_key[0]
        if len(plain_key) == 1 and mask.shape == data.shape:
            record(
                stream,
                NodeKind.KERNEL,
                "copyto",
                partial(np.copyto, data, fixed, casting="unsafe", where=mask),
                np.copyto,
                (data, fixed),
                {"casting": "unsafe", "where": mask},
                reads=(fixed, mask),
                writes=(data,),
            )
            return
    else:
        probe[stand_in_key] = np.zeros(fixed.shape, data.dtype)
    record(
        stream,
        NodeKind.KERNEL,
        "put",
        partial(operator.setitem, data, plain_key, fixed),
        operator.setitem,
        (data, plain_key, fixed),
        reads=(fixed, *reads),
        writes=(data,),
    )


def _same_view(array: Array, key: Any) -> Any:
    owning, pool = array.graphcap_data, array._pool
    return view(array, owning[key], None if pool is owning else pool[key])


def _check_slices(parts: tuple[Any, ...]) -> None:
    for part in parts:
        if isinstance(part, slice):
            for bound in (part.start, part.stop, part.step):
                if isinstance(bound, Array):
                    operator.index(bound)  # type: ignore[arg-type]  # refused: the shape would depend on a value


def advanced(stream: CPUStream, parts: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...], list[Plain]]:
    """The index with plain arrays in it, the same for a stand-in (no user's values), and the arrays that it reads."""
    _check_slices(parts)
    plain_key: list[Any] = []
    stand_in: list[Any] = []
    reads: list[Plain] = []
    for part in parts:
        found = operand(part, stream)
        if isinstance(found, list) and _mentions_array(found):
            from graphcap.backends.cpu.array._creation import array as make  # needs this module

            found = operand(make(found), stream)
        if isinstance(found, _BASIC) and not isinstance(found, bool):
            plain_key.append(found)
            stand_in.append(found)
        elif type(found) is np.ndarray:
            plain_key.append(found)
            stand_in.append(np.zeros(found.shape, found.dtype))
            reads.append(found)
        else:
            constant = np.asarray(found)
            if constant.size == 0 and isinstance(found, list):
                constant = constant.astype(np.intp)
            plain_key.append(constant)
            stand_in.append(constant)
    return tuple(plain_key), tuple(stand_in), reads


def _mentions_array(value: list[Any]) -> bool:
    return any(isinstance(item, Array) or (isinstance(item, list) and _mentions_array(item)) for item in value)


def _refuse_mask(call: str) -> NoReturn:
    refuse(
        call,
        "how many items a mask selects depends on its values, and there are none while the stream captures",
        "Keep the full shape: xp.where(mask, values, other), or array[mask] = scalar. " + LAUNCH,
    )


INDEXING["get"] = get_item
INDEXING["set"] = set_item
