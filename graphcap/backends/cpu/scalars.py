"""Parameters in recorded work on the CPU: each use is a cell of memory that the work reads, or a value put in at the call.

A cell is a 0-d array of the type that NumPy resolved at the capture. Native loops step through it with stride 0, as through any
constant, so a new value is one store and costs a replay nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphcap.backends.cpu.captures import lock
from graphcap.backends.parameter_uses import Use
from graphcap.backends.parameters import Scalar, fitted

if TYPE_CHECKING:
    from graphcap.backends.cpu.captures import Capture
    from graphcap.backends.cpu.stream import CPUStream

__all__ = ["cell", "names_in", "natural_cell", "natural_type", "with_values"]

_CONTAINERS: Final = (tuple, list, dict)


def cell(stream: CPUStream, scalar: Scalar, dtype: np.dtype[Any], where: str) -> np.ndarray[Any, Any]:
    """The memory in which work of a capture finds a scalar as `dtype`; one for all such work of the capture.

    Raises
    ------
    OverflowError
        The present value does not fit.
    TypeError
        The value is no number of that type: a complex one for a real type, say.
    """
    capture = _capture(stream)
    with lock:
        known = capture.cells.get((id(scalar), dtype))
        if known is None:
            made = np.empty((), dtype)
            told = f"{scalar} in {where}"
            use = Use(scalar, told, partial(_fitted, dtype, told), partial(_store, made))
            made[...] = use.packed
            capture.cells[id(scalar), dtype] = known = made
            capture.uses.append(use)
            capture.cell_names[id(made)] = str(scalar)
    return known


def natural_type(scalar: Scalar) -> np.dtype[Any]:
    """The type of an array made of the scalar alone."""
    return np.asarray(scalar.now()).dtype


def natural_cell(stream: CPUStream, scalar: Scalar, where: str) -> np.ndarray[Any, Any]:
    """The scalar as an array, for work that takes nothing else."""
    return cell(stream, scalar, natural_type(scalar), where)


def with_values(
    stream: CPUStream, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Callable[[], Any] | None:
    """``function(*args, **kwargs)`` with each scalar's value of that replay put in; ``None`` where there is no scalar."""
    uses: dict[int, Use] = {}
    _find((args, kwargs), uses, name)
    if not uses:
        return None
    with lock:
        _capture(stream).uses.extend(uses.values())
    return partial(_call, function, args, dict(kwargs), uses)


def names_in(stream: CPUStream, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """The scalars among the operands of recorded work, by name, for the topology."""
    names = _capture(stream).cell_names
    found: dict[str, None] = {}
    _name((args, kwargs), names, found)
    return tuple(found)


def _capture(stream: CPUStream) -> Capture:
    capture = stream.capture
    assert capture is not None, "only called while the stream captures"
    return capture


def _fitted(dtype: np.dtype[Any], where: str, value: Any) -> np.ndarray[Any, Any]:
    return fitted(value, dtype, where)


def _store(memory: np.ndarray[Any, Any], packed: np.ndarray[Any, Any]) -> None:
    memory[...] = packed


def _find(value: Any, uses: dict[int, Use], name: str) -> None:
    if isinstance(value, Scalar):
        if id(value) not in uses:
            uses[id(value)] = Use(value, f"{value} in {name}", _itself)
    elif type(value) in _CONTAINERS:
        for item in value.values() if type(value) is dict else value:
            if isinstance(item, Scalar) or type(item) in _CONTAINERS:
                _find(item, uses, name)


def _itself(value: Any) -> Any:
    return value


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], uses: dict[int, Use]) -> Any:
    return function(*_filled(args, uses), **_filled(kwargs, uses))


def _filled(value: Any, uses: dict[int, Use]) -> Any:
    if isinstance(value, Scalar):
        return uses[id(value)].packed
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([_filled(item, uses) for item in value])
    if kind is dict:
        return {key: _filled(item, uses) for key, item in value.items()}
    return value


def _name(value: Any, names: dict[int, str], found: dict[str, None]) -> None:
    if isinstance(value, Scalar):
        found[str(value)] = None
    elif id(value) in names:
        found[names[id(value)]] = None
    elif type(value) in _CONTAINERS:
        for item in value.values() if type(value) is dict else value:
            _name(item, names, found)
