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

__all__ = [
    "HandedOn",
    "Step",
    "adopted",
    "holds",
    "is_number",
    "kept",
    "leaves_of",
    "name_of",
    "other_result",
    "results_of",
]

_NUMBERS: Final = (bool, int, float, complex)
_SAME: Final = "A step gives results of the same structure, shapes and types each time."


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
        self.opaque: list[Leaf] = []
        """Results that are neither arrays nor numbers: what takes them has to be called with those of its own replay."""
        self.places: dict[tuple[Any, ...], Any] = {}
        """All values of the first result, ``None`` too, by their places."""


class HandedOn:
    """What steps gave when they first ran, and what stands for it now.

    Arrays need no standing in: they are written in place.
    """

    def __init__(self) -> None:
        self.numbers: dict[int, Parameter] = {}
        self._objects: dict[int, _Object] = {}

    def give(self, step: Step, first: Leaf) -> None:
        """An object that a step gave when it first ran."""
        self._objects.setdefault(id(first.value), _Object(first.value, first.value, (step, first.place)))

    def give_again(self, step: Step, results: Mapping[tuple[Any, ...], Any]) -> None:
        """The objects that a step gave now.

        Raises
        ------
        GraphStructureError
            It first gave the same object as another step, and no longer does: what takes it cannot tell whose is meant.
        """
        for first, place in step.opaque:
            known, value = self._objects[id(first)], results[place]
            if known.giver == (step, place):
                known.now = value
            elif value is not known.now and not (isinstance(value, (str, bytes)) and value == known.now):
                raise GraphStructureError(
                    f"step {step.name!r}",
                    f"its result{_where(place)} was the very {type(first).__name__} that the step {known.giver[0].name!r} gave when "
                    "both first ran, and is another one now, so which of them a later step is to take cannot be told",
                    "Let the two steps give objects of their own.",
                )

    def latest(self, nest: Any, *, plain: bool) -> Any:
        """Arguments with what stands for them now.

        Parameters
        ----------
        plain
            Numbers that steps gave as plain numbers, for an eager call.
        """
        if plain and id(nest) in self.numbers:
            return self.numbers[id(nest)].now()
        known = self._objects.get(id(nest))
        return known.now if known is not None else _each(nest, lambda item: self.latest(item, plain=plain))


class _Object:
    def __init__(self, first: Any, now: Any, giver: tuple[Step, tuple[Any, ...]]) -> None:
        self.first = first  # kept, so that its id stays its own
        self.now = now
        self.giver = giver


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
    return _each(value, lambda item: adopted(backend, item))


def _each(nest: Any, change: Callable[[Any], Any]) -> Any:
    """A tuple, named tuple, list or dict with every item changed; anything else as it is."""
    kind = type(nest)
    if kind is tuple or kind is list:
        return kind([change(item) for item in nest])
    if kind is dict:
        return {key: change(item) for key, item in nest.items()}
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return kind(*[change(item) for item in nest])
    return nest


def results_of(step: Step, backend: Backend, result: Any) -> dict[tuple[Any, ...], Any]:
    """The values of a step's result by their places.

    Raises
    ------
    GraphStructureError
        There are others than when the step first ran, or a value where there was none, or none where there was one.
    """
    found: list[Leaf] = []
    leaves_of(backend, result, found)
    new = {leaf.place: leaf.value for leaf in found}
    for place in [*step.places, *new]:
        if place not in new or place not in step.places:
            raise GraphStructureError(
                f"step {step.name!r}",
                f"it gave {len(step.places)} values when it first ran, and gives {len(new)} now (result{_where(place)} was "
                f"{'there' if place in step.places else 'not there'} then)",
                _SAME,
            )
    kept_back = {place for _, place in step.opaque}  # an object may be None at times: it is handed on as it is
    for place, value in step.places.items():
        if place not in kept_back and (value is None) != (new[place] is None):
            raise other_result(step, place, backend, value, new[place])
    return new


def is_number(value: Any) -> bool:
    return type(value) in _NUMBERS or (isinstance(value, np.generic) and value.dtype.kind in "biufc")


def holds(nest: Any, value: Any) -> bool:
    if nest is value:
        return True
    if isinstance(nest, dict):
        return any(holds(item, value) for item in nest.values())
    return isinstance(nest, (tuple, list)) and any(holds(item, value) for item in nest)


def other_result(step: Step, place: tuple[Any, ...], backend: Backend, wanted: Any, given: Any) -> GraphStructureError:
    return GraphStructureError(
        f"step {step.name!r}",
        f"its result{_where(place)} was {_kind(backend, wanted)} when it first ran, and is {_kind(backend, given)} now",
        _SAME,
    )


def _where(place: tuple[Any, ...]) -> str:
    return "".join(f"[{part!r}]" for part in place)


def _kind(backend: Backend, value: Any) -> str:
    key = backend.array_key(value)
    return f"an array of {' '.join(map(str, key))}" if isinstance(key, tuple) else f"of type {type(value).__name__}"
