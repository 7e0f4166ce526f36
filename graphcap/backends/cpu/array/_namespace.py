"""The names of the namespace and of its sub-namespaces, made from those of the installed NumPy."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from graphcap.backends.cpu.array import _creation
from graphcap.backends.cpu.array._array import ndarray
from graphcap.backends.cpu.array._base import adopt, plains
from graphcap.backends.cpu.array._dispatch import call_function
from graphcap.backends.cpu.array._recording import capturing_stream, refuse
from graphcap.backends.cpu.array._ufunc_type import Ufunc

__all__ = ["dispatches", "names_of", "public_names"]

_OWN: Final[dict[str, Any]] = {
    "ndarray": ndarray,
    "array": _creation.array,
    "asarray": _creation.asarray,
    "zeros": _creation.zeros,
    "ones": _creation.ones,
    "empty": _creation.new,
    "full": _creation.full,
    "asanyarray": _creation.asarray,
    "ascontiguousarray": _creation.ascontiguousarray,
    "asfortranarray": _creation.asfortranarray,
}
"""Names whose functions are graphcap's own, because NumPy's take no array or do not dispatch."""

_CONSTANTS: Final = frozenset(
    [
        "arange",
        "bartlett",
        "blackman",
        "diag_indices",
        "eye",
        "fft.fftfreq",
        "fft.rfftfreq",
        "fromfunction",
        "fromiter",
        "hamming",
        "hanning",
        "identity",
        "indices",
        "kaiser",
        "mask_indices",
        "tri",
        "tril_indices",
        "triu_indices",
        "frombuffer",
        "fromfile",
        "fromregex",
        "fromstring",
        "genfromtxt",
        "load",
        "loadtxt",
    ]
)
"""Functions that make arrays of Python values or of files: called now, the result is a constant of the capture."""


def public_names(module: Any) -> list[str]:
    """The public names of a NumPy module, without modules and deprecated names."""
    held = vars(module)
    return sorted(
        name
        for name in {*held, *getattr(module, "__all__", ())}
        if not name.startswith("_") and name in held and not isinstance(held[name], types.ModuleType)
    )


def dispatches(function: Any) -> bool:
    """Whether NumPy asks operands that are not its own what the function does (``__array_function__``)."""
    return hasattr(function, "_implementation")


def names_of(module: types.ModuleType, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every public name of a NumPy module with what it means here."""
    for name in public_names(module):
        found = getattr(module, name)
        dotted = f"{prefix}{name}"
        if dotted in _OWN:
            yield name, _OWN[dotted]
        elif isinstance(found, np.ufunc):
            yield name, Ufunc(found, name)
        elif dotted in _CONSTANTS:
            yield name, _made_of_constants(found)
        elif dispatches(found):
            yield name, _dispatched(found)
        elif isinstance(found, type) or not callable(found):
            yield name, found
        else:
            yield name, _passed_on(found, f"numpy.{dotted}()")


def _dispatched(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return call_function(function, args, kwargs)

    return call


def _made_of_constants(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device", None)
        found = function(*plains(args), **plains(kwargs))
        if isinstance(found, tuple):
            return tuple(_creation.constant(item) if isinstance(item, np.ndarray) else item for item in found)
        return _creation.constant(found) if isinstance(found, np.ndarray) else found

    return call


def _passed_on(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function without dispatch: runs at once on plain operands; refused during capture where an array takes part."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given, options = plains(args), plains(kwargs)
        if capturing_stream(name) is not None and (
            any(one is not other for one, other in zip(args, given, strict=True))
            or any(kwargs[key] is not options[key] for key in kwargs)
        ):
            refuse(name, "NumPy gives no way to record it")
        return adopt(function(*given, **options))

    return call
