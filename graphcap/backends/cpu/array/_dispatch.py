"""Where a call goes: eager work to NumPy at once, work of a capturing stream to the rule that records it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from graphcap.backends.cpu.array._base import Array, adopt, plain, plains
from graphcap.backends.cpu.array._recording import LAUNCH, capturing_stream, refuse

__all__ = [
    "INDEXING",
    "RECORDED_NAMES",
    "REFUSED",
    "RULES",
    "UFUNC_METHODS",
    "Refusal",
    "Rule",
    "call_function",
    "call_ufunc",
    "eager",
    "find",
    "get_item",
    "name_of",
    "recorded",
    "set_item",
]

Rule: TypeAlias = Callable[..., Any]
"""Records a call of a NumPy function: ``(capturing stream, function, *arguments, **arguments) -> result``."""

Refusal: TypeAlias = tuple[str, str]
"""Why a function cannot be recorded, and what to do instead."""

RULES: Final[dict[Callable[..., Any], Rule]] = {}
"""Every NumPy function that is recorded; filled by the family modules."""

RECORDED_NAMES: Final[dict[str, str]] = {}
"""How each of them is recorded, by its name below ``numpy``: "node", "view", "no value is read"."""

REFUSED: Final[dict[Callable[..., Any], Refusal]] = {}
"""Functions that are refused for a reason of their own; filled by ``_refused``."""

UFUNC_METHODS: Final[dict[str, Callable[..., Any]]] = {}
"""``(stream, ufunc, inputs, kwargs) -> result`` by name of the method; ``"__call__"`` is the call itself."""

INDEXING: Final[dict[str, Callable[..., Any]]] = {}
"""How ``"get"`` and ``"set"`` of items are recorded."""


def recorded(names: str, how: str = "node") -> Callable[[Rule], Rule]:
    """Decorator: the rule by which NumPy functions are recorded.

    Parameters
    ----------
    names
        Their names below ``numpy``, separated by spaces. One that the installed NumPy lacks is passed over; a test
        keeps the versions in which names come and go.
    how
        For the documentation.
    """

    def register(rule: Rule) -> Rule:
        for name in names.split():
            RECORDED_NAMES[name] = how
            found = find(name)
            if found is not None:
                RULES[found] = rule
        return rule

    return register


def find(name: str) -> Any:
    """The object that a dotted name below ``numpy`` names; ``None`` if the installed NumPy has none."""
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def name_of(function: Callable[..., Any]) -> str:
    """The name that a user knows a NumPy function by."""
    module = getattr(function, "__module__", None) or "numpy"
    return f"{module}.{getattr(function, '__name__', type(function).__name__)}"


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A ufunc, or a method of one, with an array among its operands."""
    stream = capturing_stream(ufunc.__name__)
    if stream is not None:
        return UFUNC_METHODS[method](stream, ufunc, inputs, kwargs)
    out = kwargs.get("out")
    if kwargs:
        kwargs = {key: plains(value) for key, value in kwargs.items()}
    given = [plains(value) for value in inputs]
    if method == "__call__":
        result = ufunc(*given, **kwargs)
        positional = inputs[ufunc.nin :]
        if positional:
            out = positional
    else:
        result = getattr(ufunc, method)(*given, **kwargs)
    if out is None:
        return adopt(result)
    outs = out if isinstance(out, tuple) else (out,)
    if type(result) is tuple:
        return tuple(
            adopt(value) if target is None else target
            for value, target in zip(result, _padded(outs, len(result)), strict=True)
        )
    return adopt(result) if outs[0] is None else outs[0]


def _padded(outs: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    return outs + (None,) * (count - len(outs))


def call_function(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A NumPy function of the public API.

    Raises
    ------
    CaptureForbiddenError
        The current stream captures, and the function cannot be recorded.
    """
    stream = capturing_stream(getattr(function, "__name__", "a NumPy function"))
    if stream is None:
        return eager(function, args, kwargs)
    rule = RULES.get(function)
    if rule is not None:
        return rule(stream, function, *args, **kwargs)
    why, cure = REFUSED.get(
        function, ("the current stream is capturing, and graphcap does not know how to record this function", LAUNCH)
    )
    refuse(f"{name_of(function)}()", why, cure)


def eager(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call NumPy at once on plain views; its arrays become arrays of this namespace."""
    known: dict[int, Any] = {}
    for value in (*args, *kwargs.values()):
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, Array):
                known[id(item.graphcap_data)] = item
    result = function(*[plains(value) for value in args], **{key: plains(value) for key, value in kwargs.items()})
    same = known.get(id(result))
    return adopt(result) if same is None else same


def get_item(array: Any, key: Any) -> Any:
    """``array[key]``."""
    stream = capturing_stream("indexing an array")
    if stream is None:
        return adopt(plain(array)[plains(key)])
    return INDEXING["get"](stream, array, key)


def set_item(array: Any, key: Any, value: Any) -> None:
    """``array[key] = value``."""
    stream = capturing_stream("assignment to an array")
    if stream is None:
        plain(array)[plains(key)] = plains(value)
        return
    INDEXING["set"](stream, array, key, value)
