"""New contents for a replay: arrays by the names they were bound by, numbers by the names of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from graphcap.backends import streams
from graphcap.backends.base import Backend
from graphcap.backends.buffer import Buffer
from graphcap.backends.extents import extent
from graphcap.backends.parameter_uses import set_values
from graphcap.backends.parameters import Parameter
from graphcap.backends.streams import Stream

__all__ = ["apart", "check_bound", "load_inputs", "named_parameters"]


def named_parameters(used: tuple[Parameter, ...], bound: Mapping[str, Any]) -> dict[str, Parameter]:
    """The parameters that a name reaches: their own, unless two have the same, or the one they are bound by."""
    own = [one.name for one in used]
    found = {one.name: one for one in used if one.name and own.count(one.name) == 1}
    return {**found, **{name: value for name, value in bound.items() if isinstance(value, Parameter)}}


def check_bound(backend: Backend, device: str, used: tuple[Parameter, ...], arrays: Mapping[str, Any]) -> None:
    """Refuse what cannot be bound.

    Raises
    ------
    TypeError
        Something is no array of the device.
    ValueError
        A parameter that the graph does not use.
    """
    for name, array in arrays.items():
        if isinstance(array, Parameter):
            if all(one is not array for one in used):
                raise ValueError(f"bind({name}=...): the captured work does not use the parameter {array}.")
        elif backend.array_key(array) is None:
            raise TypeError(f"bind({name}=...): {type(array).__name__} is no array of {device}.")


def load_inputs(
    backend: Backend,
    device: str,
    index: int | None,
    used: tuple[Parameter, ...],
    bound: Mapping[str, Any],
    inputs: Mapping[str, Any],
) -> None:
    """Set and copy in what a replay is given; all of it, or nothing if something is refused.

    Parameters
    ----------
    device, index
        The device in words, and its index; the current one if ``None``.
    used
        The parameters of the captured work.
    bound
        What was bound, by name.

    Raises
    ------
    ValueError
        A name that is neither bound nor a parameter's, or that several parameters have; an array of another shape or dtype.
    TypeError
        Something that is no array of the device, or no number of the parameter's kind.
    OverflowError, ArithmeticError
        A number does not fit where the captured work uses it.
    """
    parameters = named_parameters(used, bound)
    numbers: dict[Parameter, Any] = {}
    for name, value in inputs.items():
        target = parameters[name] if name in parameters else bound.get(name)
        if target is None:
            same = sum(one.name == name for one in used)
            if same > 1:
                raise ValueError(
                    f"replay(inputs=...): {same} parameters of the graph have the name {name!r}, so it cannot be told which is meant. "
                    f"Give them names of their own, or bind the one that is meant: graph.bind({name}=parameter)."
                )
            known = ", ".join({**bound, **parameters}) or "none"
            raise ValueError(
                f"replay(inputs=...): {name!r} is neither bound nor a parameter of the graph (bound: {known}). Use "
                f"graph.bind({name}=array), or capture with graphcap.parameter(value, name={name!r})."
            )
        if isinstance(target, Parameter):
            numbers[target] = value
            continue
        wanted, given = backend.array_key(target), backend.array_key(value)
        if given is None:
            raise TypeError(f"replay(inputs=...): {name!r} got {type(value).__name__}, no array of {device}.")
        if given != wanted:
            raise ValueError(f"replay(inputs=...): {name!r} is {wanted}, but {given} was given.")
    stream = streams.current_stream(backend, index)
    if stream.is_capturing:
        return  # the replay is about to be refused; nothing must be recorded before that
    if numbers:
        set_values(numbers)
    names = [name for name in inputs if name not in parameters]
    targets = [bound[name] for name in names]
    for target, value in zip(targets, apart(backend, targets, [inputs[name] for name in names], stream), strict=True):
        backend.load_array(target, value, stream)


def apart(backend: Backend, targets: Sequence[Any], values: Sequence[Any], stream: Stream) -> Sequence[Any]:
    """The values to load into `targets` one after the other, as if at once.

    Where a value lies in a target that is loaded before it (two arrays change places, say), it is a copy, made in stream order;
    also where it overlaps its own target, which copies on devices do not bear.
    """
    written: list[tuple[int, int] | None] = []
    found = []
    for target, value in zip(targets, values, strict=True):
        to, own = _memory(target), _memory(value)
        moved = own is not None and to is not None and own != to and _meet(own, to)
        if moved or any(_meet(own, one) for one in written):
            value = backend.clone_array(value, stream)
        found.append(value)
        written.append(to)
    return found


def _meet(own: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    """Whether two arrays may have memory in common."""
    return own is None or other is None or (own[0] < other[1] and other[0] < own[1])


def _memory(value: Any) -> tuple[int, int] | None:
    """The first byte of an array and the one past its last, of the view alone; ``None`` if that is not known."""
    for name in ("__sycl_usm_array_interface__", "__cuda_array_interface__", "__array_interface__"):
        described = None if isinstance(value, Buffer) else getattr(value, name, None)
        if isinstance(described, Mapping) and described.get("data") is not None:
            return _of_interface(described, in_items=name.startswith("__sycl"))
    return extent(value)


def _of_interface(described: Mapping[str, Any], *, in_items: bool) -> tuple[int, int]:
    """The memory of what an array interface describes; SYCL's counts offset and strides in items."""
    size, shape = np.dtype(described["typestr"]).itemsize, described["shape"]
    unit = size if in_items else 1
    low = int(described["data"][0]) + described.get("offset", 0) * unit
    strides = described.get("strides")
    if strides is None or 0 in shape:
        return low, low + prod(shape) * size
    steps = [step * unit * (count - 1) for step, count in zip(strides, shape, strict=True)]
    return low + sum(min(step, 0) for step in steps), low + size + sum(max(step, 0) for step in steps)
