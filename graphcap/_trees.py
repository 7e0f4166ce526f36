"""Nested tuples, lists and dicts of arrays and other values: taken apart, compared by kind, put together again."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from graphcap.backends.base import Backend

__all__ = ["Leaf", "find", "flatten", "rebuild"]


class Leaf(NamedTuple):
    """An array found in a nest, and where."""

    value: Any
    place: tuple[Any, ...]


def flatten(
    backend: Backend, nest: Any, leaves: list[Leaf], place: tuple[Any, ...] = (), *, others: bool = False
) -> Hashable:
    """Collect the arrays of a nest into `leaves`; give the key by which two nests are of the same kind.

    Parameters
    ----------
    others
        Do not look at what is neither array nor nest (it need not be hashable then; the key is of no use).

    Raises
    ------
    TypeError
        Something in the nest is neither an array of the device nor hashable.
    """
    key = backend.array_key(nest)
    if key is not None:
        leaves.append(Leaf(nest, place))
        return key
    kind = type(nest)
    if kind is tuple or kind is list:
        inner = tuple([flatten(backend, item, leaves, (*place, i), others=others) for i, item in enumerate(nest)])
        return (kind, inner)
    if kind is dict:
        return (
            kind,
            tuple(
                [
                    (name, flatten(backend, nest[name], leaves, (*place, name), others=others))
                    for name in sorted(nest, key=repr)
                ]
            ),
        )
    if isinstance(nest, tuple):  # a named tuple
        return (
            kind,
            tuple([flatten(backend, item, leaves, (*place, i), others=others) for i, item in enumerate(nest)]),
        )
    if others:
        return None
    if kind is float or kind is complex:
        return (kind, repr(nest))  # tells -0.0 from 0.0, and finds a NaN again
    if isinstance(nest, np.generic) and not nest.dtype.hasobject:
        return (kind, nest.tobytes())
    try:
        hash(nest)
    except TypeError:
        where = "".join(f"[{part!r}]" for part in place[1:])
        raise TypeError(
            f"argument {where or '[?]'}: {kind.__name__} is neither an array of {backend.name} nor hashable, so calls "
            "cannot be told apart by it. Give an array of the device, a number, a string, or a tuple of these."
        ) from None
    return (kind, nest)


def find(nest: Any, kind: type, place: tuple[Any, ...] = ()) -> list[Leaf]:
    """All objects of a type in a nest, with their places."""
    if isinstance(nest, kind):
        return [Leaf(nest, place)]
    if isinstance(nest, dict):
        items: Any = nest.items()
    elif isinstance(nest, (tuple, list)):
        items = enumerate(nest)
    else:
        return []
    return [leaf for name, item in items for leaf in find(item, kind, (*place, name))]


def rebuild(nest: Any, leaves: list[Leaf], arrays: list[Any]) -> Any:
    """The nest with its arrays replaced, in the order in which :func:`flatten` found them."""
    return _rebuild(nest, {leaf.place: array for leaf, array in zip(leaves, arrays, strict=True)}, ())


def _rebuild(nest: Any, arrays: dict[tuple[Any, ...], Any], place: tuple[Any, ...]) -> Any:
    if place in arrays:
        return arrays[place]
    if isinstance(nest, dict):
        return {name: _rebuild(item, arrays, (*place, name)) for name, item in nest.items()}
    if isinstance(nest, list):
        return [_rebuild(item, arrays, (*place, i)) for i, item in enumerate(nest)]
    if isinstance(nest, tuple):
        items = [_rebuild(item, arrays, (*place, i)) for i, item in enumerate(nest)]
        return type(nest)(*items) if hasattr(nest, "_fields") else tuple(items)
    return nest
