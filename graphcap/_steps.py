"""A step of a capture in segments, and what its arguments and results are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from graphcap._trees import Leaf
from graphcap._user_line import line_of, without_frames
from graphcap.backends.base import Backend
from graphcap.backends.parameters import Parameter, Scalar
from graphcap.errors import GraphcapError, GraphStructureError, add_note

__all__ = ["Step", "adopted", "holds", "is_number", "kept", "leaves_of", "name_of", "other_result"]

_NUMBERS: Final = (bool, int, float, complex)


class Step:
    """A call, and the places of its results."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.name = name_of(fn)
        self.result: Any = None
        self.arrays: list[Leaf] = []
        self.numbers: list[tuple[tuple[Any, ...], Parameter]] = []
        self.links: list[tuple[Parameter, Scalar]] = []
        """Of a captured step: results that follow from numbers which it was given."""
        self.opaque: list[Any] = []
        """Results that are neither arrays nor numbers: what takes them has to be called with those of its own replay."""


def kept(step: Step, error: GraphcapError) -> GraphcapError:
    line = line_of(step.fn, error)
    if line:
        add_note(error, f"in step {step.name!r}{line}")
    without_frames(error)
    return error


def name_of(fn: Callable[..., Any]) -> str:
    if isinstance(fn, partial):
        return name_of(fn.func)
    name = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or type(fn).__name__
    return str(name).rpartition("<locals>.")[2]


def leaves_of(backend: Backend, nest: Any, found: list[Leaf], place: tuple[Any, ...] = ()) -> None:
    """Everything in nested tuples, lists and dicts, arrays and others, with its place."""
    if backend.array_key(nest) is None:
        if isinstance(nest, dict):
            for name, item in nest.items():
                leaves_of(backend, item, found, (*place, name))
            return
        if isinstance(nest, (tuple, list)):
            for index, item in enumerate(nest):
                leaves_of(backend, item, found, (*place, index))
            return
    found.append(Leaf(nest, place))


def adopted(backend: Backend, value: Any) -> Any:
    """Arguments whose arrays a capture sees."""
    if backend.array_key(value) is not None:
        return backend.adopt_array(value)
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([adopted(backend, item) for item in value])
    if kind is dict:
        return {key: adopted(backend, item) for key, item in value.items()}
    return value


def is_number(value: Any) -> bool:
    return type(value) in _NUMBERS or (isinstance(value, np.generic) and value.dtype.kind in "biufc")


def holds(nest: Any, value: Any) -> bool:
    if nest is value:
        return True
    if isinstance(nest, dict):
        return any(holds(item, value) for item in nest.values())
    return isinstance(nest, (tuple, list)) and any(holds(item, value) for item in nest)


def other_result(step: Step, place: tuple[Any, ...], backend: Backend, wanted: Any, given: Any) -> GraphStructureError:
    where = "".join(f"[{part!r}]" for part in place)
    return GraphStructureError(
        f"step {step.name!r}",
        f"its result{where} was {_kind(backend, wanted)} when it first ran, and is {_kind(backend, given)} now",
        "A step gives results of the same structure, shapes and types each time.",
    )


def _kind(backend: Backend, value: Any) -> str:
    key = backend.array_key(value)
    return f"an array of {' '.join(map(str, key))}" if isinstance(key, tuple) else f"of type {type(value).__name__}"
