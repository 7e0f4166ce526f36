"""Ufuncs under capture: what they would give is inferred, what they do is recorded.

Data types and errors of a call come from the ufunc itself, called on arrays without elements: no loop runs, and NumPy's
own promotion (weak Python scalars too), casting rules and error messages apply. Shapes come from broadcasting. The
memory layout of an output is NumPy's: that of the operands, which its iterator works out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from graphcap.backends.cpu.array._base import Array, empty, operand
from graphcap.backends.cpu.array._memory import Plain, dense_strides
from graphcap.backends.cpu.array._recording import record
from graphcap.backends.cpu.scalars import cell, natural_cell
from graphcap.backends.cpu.stream import CPUStream
from graphcap.backends.parameters import Scalar
from graphcap.topology import NodeKind

__all__ = [
    "as_array",
    "finish",
    "holds_arrays",
    "record_call",
    "record_gufunc",
    "target_of",
    "tiny",
    "without_elements",
]

_empties: Final[dict[np.dtype[Any], Plain]] = {}
_scalar_types: Final[dict[Any, Any]] = {}
_PYTHON_NUMBERS: Final = (int, float, complex)
_OUT_BY_NAME: Final = (np.maximum, np.minimum)
"""Since NumPy 2.4 these two warn of a third positional argument; for the others it is the quicker way."""


def without_elements(dtype: np.dtype[Any]) -> Plain:
    """An array of `dtype` with no elements, to ask NumPy about types alone."""
    found = _empties.get(dtype)
    if found is None:
        found = _empties[dtype] = np.empty(0, dtype)
    return found


def tiny(data: Plain) -> Plain:
    """A stand-in of ones: the axes of `data` in the same memory order, each at most two long."""
    shape = tuple([min(length, 2) for length in data.shape])
    if 0 in data.strides and data.size > 1:  # broadcast axes stay so: NumPy takes no memory order from them
        narrow = tuple([1 if step == 0 else length for length, step in zip(shape, data.strides, strict=True)])
        return np.broadcast_to(_ones(narrow, data), shape)
    return _ones(shape, data)


def _ones(shape: tuple[int, ...], data: Plain) -> Plain:
    strides = dense_strides(shape, data.strides, data.itemsize)
    stand_in: Plain = np.empty(shape, data.dtype)
    if strides is not None:
        stand_in = np.ndarray(shape, data.dtype, stand_in, 0, strides)
    if data.dtype.kind in "VSUTmM":
        stand_in[...] = np.zeros((), data.dtype)
    else:
        stand_in[...] = np.ones((), data.dtype)
    return stand_in


def record_call(stream: CPUStream, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record ``ufunc(*inputs, **kwargs)``; give the output array or the tuple of them.

    Raises
    ------
    TypeError, ValueError, OverflowError
        What NumPy raises for these types and shapes.
    """
    if ufunc.signature is not None:
        return record_gufunc(stream, ufunc, inputs, kwargs)
    given: list[Any] = [_input(value, stream) for value in inputs[: ufunc.nin]]
    outs: tuple[Any, ...] = inputs[ufunc.nin :]
    options = dict(kwargs)
    if "out" in options:
        out = options.pop("out")
        outs = out if isinstance(out, tuple) else (out,)
    where = options.pop("where", True)
    if where is not True:
        where = options["where"] = _input(where, stream)
        if type(where) is not np.ndarray:
            where = options["where"] = np.asarray(where)
    if all(type(value) is not np.ndarray for value in given):
        given = [as_array(value, stream) for value in given]
    outs = tuple(outs) + (None,) * (ufunc.nout - len(outs))
    targets = [None if out is None else target_of(out, stream) for out in outs]

    dtypes = _result_types(ufunc, given, targets, options)
    if any(isinstance(value, Scalar) for value in given):
        given = _with_cells(stream, ufunc, given, targets, options)
    if not options:
        given = _bake(ufunc, given)
    arrays = [value for value in given if type(value) is np.ndarray]
    if where is not True:
        arrays.append(where)
    shape = _broadcast(arrays, targets, ufunc)
    order = options.get("order", "K")
    results: list[Any] = []
    for index, (out, dtype) in enumerate(zip(outs, dtypes, strict=True)):
        if out is None:
            out = empty(shape, dtype, _layout(arrays, shape, dtype, order), stream)
            targets[index] = out._pool
        results.append(out)
    return finish(stream, ufunc, ufunc.__name__, tuple(given), tuple(results), tuple(targets), options, arrays)


def finish(
    stream: CPUStream,
    ufunc: np.ufunc,
    name: str,
    given: tuple[Any, ...],
    results: tuple[Any, ...],
    targets: tuple[Any, ...],
    options: dict[str, Any],
    reads: list[Plain],
) -> Any:
    """Record the call with all its outputs given, and give back `results`."""
    call: Callable[[], Any]
    if ufunc in _OUT_BY_NAME:
        call = partial(ufunc, *given, out=targets, **options)
    else:
        call = partial(ufunc, *given, *targets, **options)
    record(
        stream,
        NodeKind.KERNEL,
        name,
        call,
        ufunc,
        given,
        {"out": targets, **options},
        reads=tuple(reads),
        writes=targets,
    )
    return results[0] if len(results) == 1 else results


def record_gufunc(stream: CPUStream, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """As :func:`record_call` for a generalised ufunc such as ``matmul``."""
    given: list[Any] = [as_array(value, stream) for value in inputs[: ufunc.nin]]
    outs: tuple[Any, ...] = inputs[ufunc.nin :]
    options = dict(kwargs)
    if "out" in options:
        out = options.pop("out")
        outs = out if isinstance(out, tuple) else (out,)
    outs = tuple(outs) + (None,) * (ufunc.nout - len(outs))
    targets = [None if out is None else target_of(out, stream) for out in outs]
    plan = _Cores(ufunc, given, options)
    probe_options = {key: value for key, value in options.items() if key not in ("axes", "axis", "keepdims")}
    stand_ins = [tiny(value) for value in plan.moved]
    with np.errstate(all="ignore"):
        probed = ufunc(*stand_ins, **probe_options)
    found = probed if isinstance(probed, tuple) else (probed,)
    results: list[Any] = []
    for index, (out, stand_in, shape) in enumerate(zip(outs, found, plan.shapes, strict=True)):
        if out is None:
            like = np.asarray(stand_in)
            out = empty(shape, like.dtype, dense_strides(shape, like.strides, like.itemsize), stream)
            targets[index] = out._pool
        else:
            _check_out(ufunc, shape, np.asarray(targets[index]), like=np.asarray(stand_in).dtype, options=options)
        results.append(out)
    name = ufunc.__name__
    return finish(stream, ufunc, name, tuple(given), tuple(results), tuple(targets), options, given)


class _Cores:
    """Core dimensions of a generalised ufunc's signature matched against operands: the shapes of the outputs."""

    def __init__(self, ufunc: np.ufunc, given: list[Plain], options: dict[str, Any]) -> None:
        assert ufunc.signature is not None, "only called for generalised ufuncs"
        left, right = ufunc.signature.replace(" ", "").split("->")
        cores_in, cores_out = _cores(left), _cores(right)
        self.moved = self._to_end(given, cores_in, options, ufunc)
        dropped: set[str] = set()
        sizes: dict[str, int] = {}
        loops: list[tuple[int, ...]] = []
        for position, (data, core) in enumerate(zip(self.moved, cores_in, strict=True)):
            names = list(core)
            optional = [name for name in names if name.endswith("?")]
            while len(names) > data.ndim and optional:
                dropped.add(optional[0])
                names.remove(optional.pop(0))
            names = [name for name in names if name not in dropped]
            if len(names) > data.ndim:
                raise ValueError(
                    f"{ufunc.__name__}: Input operand {position} does not have enough dimensions (has {data.ndim}, "
                    f"gufunc core with signature {ufunc.signature} requires {len(names)})"
                )
            cut = data.ndim - len(names)
            loops.append(data.shape[:cut])
            for name, length in zip(names, data.shape[cut:], strict=True):
                fixed = int(name) if name.isdigit() else sizes.setdefault(name, length)
                if fixed != length:
                    raise ValueError(
                        f"{ufunc.__name__}: Input operand {position} has a mismatch in its core dimension, with gufunc "
                        f"signature {ufunc.signature} (size {length} is different from {fixed})"
                    )
        loop = np.broadcast_shapes(*loops)
        keep = bool(options.get("keepdims", False))
        self.shapes: list[tuple[int, ...]] = []
        for core in cores_out:
            names = [name for name in core if name not in dropped]
            lengths = tuple(int(name) if name.isdigit() else sizes[name] for name in names)
            self.shapes.append(self._placed(loop, lengths, options, keep, given))

    @staticmethod
    def _to_end(
        given: list[Plain], cores: list[tuple[str, ...]], options: dict[str, Any], ufunc: np.ufunc
    ) -> list[Plain]:
        axes = options.get("axes")
        if axes is None:
            axis = options.get("axis")
            if axis is None:
                return given
            axes = [(axis,) if core else () for core in cores]
        moved = []
        for data, core, where in zip(given, cores, axes, strict=False):
            places = (where,) if isinstance(where, int) else tuple(where)
            moved.append(np.moveaxis(data, places, tuple(range(-len(core), 0))) if core else data)
        return moved

    @staticmethod
    def _placed(
        loop: tuple[int, ...], lengths: tuple[int, ...], options: dict[str, Any], keep: bool, given: list[Plain]
    ) -> tuple[int, ...]:
        axes = options.get("axes")
        if keep:
            where = axes[-1] if axes is not None and len(axes) > len(given) else options.get("axis", -1)
            if axes is not None and len(axes) <= len(given):
                where = axes[0]
            place = where if isinstance(where, int) else where[0]
            shape = list(loop)
            ndim = len(loop) + 1
            shape.insert(place % ndim, 1)
            return tuple(shape)
        if axes is not None and len(axes) > len(given) and lengths:
            where = axes[len(given)]
            places = (where,) if isinstance(where, int) else tuple(where)
            ndim = len(loop) + len(lengths)
            full: list[int | None] = [None] * ndim
            for place, length in zip(places, lengths, strict=True):
                full[place % ndim] = length
            rest = iter(loop)
            return tuple(next(rest) if length is None else length for length in full)
        return loop + lengths


def _cores(side: str) -> list[tuple[str, ...]]:
    return [tuple(name for name in part.strip("()").split(",") if name) for part in side.split("),(")]


def _input(value: Any, stream: CPUStream) -> Any:
    """A plain array, or a Python number that stays weak (NEP 50)."""
    if isinstance(value, Array):
        return operand(value, stream)
    if type(value) in _PYTHON_NUMBERS or isinstance(value, Scalar):
        return value
    found = operand(value, stream)
    return found if type(found) is np.ndarray else as_array(found, stream)


def as_array(value: Any, stream: CPUStream) -> Any:
    """A plain array of any operand; a constant becomes one now."""
    found = operand(value, stream)
    if type(found) is np.ndarray:
        return found
    if isinstance(found, Scalar):
        return natural_cell(stream, found, "an array")
    if isinstance(found, (list, tuple)) and holds_arrays(found):
        from graphcap.backends.cpu.array._creation import array  # needs this module

        return operand(array(found), stream)
    return np.asarray(found)


def holds_arrays(value: Any) -> bool:
    """Whether an array is somewhere in nested lists and tuples."""
    return any(isinstance(item, Array) or (isinstance(item, (list, tuple)) and holds_arrays(item)) for item in value)


def target_of(out: Any, stream: CPUStream) -> Plain:
    """The plain array behind an operand that is written to."""
    found = operand(out, stream)
    if type(found) is not np.ndarray:
        raise TypeError("return arrays must be of ArrayType")
    if not found.flags.writeable:
        raise ValueError("output array is read-only")
    return found


def _result_types(
    ufunc: np.ufunc, given: list[Any], targets: list[Plain | None], options: dict[str, Any]
) -> list[np.dtype[Any]]:
    """What NumPy says about types alone; raises what it raises."""
    probes = [
        without_elements(value.dtype)
        if type(value) is np.ndarray
        else value.now()
        if isinstance(value, Scalar)
        else value
        for value in given
    ]
    options = {key: value for key, value in options.items() if key != "where"}
    if any(target is not None for target in targets):
        options["out"] = tuple(None if target is None else without_elements(target.dtype) for target in targets)
    found = ufunc(*probes, **options)
    return [result.dtype for result in (found if type(found) is tuple else (found,))]


def _with_cells(
    stream: CPUStream, ufunc: np.ufunc, given: list[Any], targets: list[Plain | None], options: dict[str, Any]
) -> list[Any]:
    """Give each parameter memory of the type that NumPy resolves for it in this call."""
    kinds = [
        value.dtype if type(value) is np.ndarray else _kind_of(value.now() if isinstance(value, Scalar) else value)
        for value in given
    ]
    outs = [None if target is None else target.dtype for target in targets]
    choice = {key: options[key] for key in ("casting", "signature") if key in options}
    if "sig" in options:
        choice["signature"] = options["sig"]
    if "dtype" in options:
        choice["signature"] = (*[None] * ufunc.nin, *[options["dtype"]] * ufunc.nout)
    resolved = ufunc.resolve_dtypes((*kinds, *outs), **choice)
    return [
        cell(stream, value, dtype, f"{ufunc.__name__}()") if isinstance(value, Scalar) else value
        for value, dtype in zip(given, resolved, strict=False)
    ]


def _kind_of(value: Any) -> Any:
    return value.dtype if isinstance(value, np.generic) else np.dtype(bool) if type(value) is bool else type(value)


def _bake(ufunc: np.ufunc, given: list[Any]) -> list[Any]:
    """Give each Python number the type that NumPy resolves for it, once instead of on every replay."""
    if all(type(value) is np.ndarray for value in given):
        return given
    kinds = [value.dtype if type(value) is np.ndarray else type(value) for value in given]
    key = (ufunc, *kinds)
    resolved = _scalar_types.get(key)
    if resolved is None:
        try:
            resolved = ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout))
        except TypeError:
            resolved = (np.dtype(object),) * len(kinds)
        _scalar_types[key] = resolved
    baked = []
    for value, dtype in zip(given, resolved, strict=False):
        if type(value) is not np.ndarray and dtype.kind in "biufc":
            try:
                value = np.array(value, dtype)
            except OverflowError:
                pass  # a comparison with an integer out of range, which NumPy treats by itself
        baked.append(value)
    return baked


def _broadcast(arrays: list[Plain], targets: list[Plain | None], ufunc: np.ufunc) -> tuple[int, ...]:
    shape: tuple[int, ...] = ()
    for data in arrays:
        if data.shape != shape and data.ndim:  # the common cases are equal shapes and scalars
            if shape:
                shape = _broadcast_shapes(arrays, ufunc)
                break
            shape = data.shape
    for target in targets:
        if target is not None and target.shape != shape:
            # Inputs stretch to the output's shape; the output never stretches.
            full = _broadcast_shapes([*arrays, *(other for other in targets if other is not None)], ufunc)
            if target.shape != full:
                raise ValueError(
                    f"non-broadcastable output operand with shape {_text(target.shape)} doesn't match the broadcast "
                    f"shape {_text(full)}"
                )
            shape = full
    return shape


def _broadcast_shapes(arrays: list[Plain], ufunc: np.ufunc) -> tuple[int, ...]:
    try:
        return tuple(np.broadcast_shapes(*[data.shape for data in arrays]))
    except ValueError:
        shapes = " ".join(_text(data.shape) for data in arrays)
        raise ValueError(f"operands could not be broadcast together with shapes {shapes}") from None


def _text(shape: tuple[int, ...]) -> str:
    return "(" + ",".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def _layout(arrays: list[Plain], shape: tuple[int, ...], dtype: np.dtype[Any], order: str) -> tuple[int, ...] | None:
    """Strides that NumPy's iterator gives to an output of this call; None for C order."""
    if len(shape) < 2 or order == "C":
        return None
    if order == "K" and all((data.flags.c_contiguous and data.shape == shape) or data.ndim == 0 for data in arrays):
        return None
    count = len(arrays)
    iterator: Any = np.nditer(  # type: ignore[call-overload]  # the stubs know no list of operands with None in it
        [*arrays, None],
        flags=["refs_ok", "zerosize_ok"],
        op_flags=[["readonly"]] * count + [["writeonly", "allocate"]],
        op_dtypes=[None] * count + [dtype],
        order=order,
        itershape=shape,
    )
    found: tuple[int, ...] = iterator.operands[count].strides
    return found if dense_strides(shape, found, dtype.itemsize) is not None else None


def _check_out(
    ufunc: np.ufunc, shape: tuple[int, ...], target: Plain, *, like: np.dtype[Any], options: dict[str, Any]
) -> None:
    ndim = len(shape)
    if target.ndim < ndim or target.shape[target.ndim - ndim :] != shape:
        raise ValueError(
            f"{ufunc.__name__}: Output operand 0 has a mismatch: its shape is {_text(target.shape)}, but the result's "
            f"is {_text(shape)}"
        )
    if not np.can_cast(like, target.dtype, options.get("casting", "same_kind")):
        raise TypeError(
            f"Cannot cast ufunc '{ufunc.__name__}' output from {like!r} to {target.dtype!r} with casting rule "
            f"'{options.get('casting', 'same_kind')}'"
        )
