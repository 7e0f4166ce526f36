"""``numpy.random`` for arrays of this namespace: at once outside capture, refused inside it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from graphcap.backends.cpu.array._base import adopt, plains
from graphcap.backends.cpu.array._namespace import public_names
from graphcap.backends.cpu.array._recording import capturing_stream, refuse


def _drawing(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if capturing_stream(name) is not None:
            refuse(
                name,
                "random numbers would be drawn once, at capture, and be the same on every replay",
                "Draw them in a kernel that fills an array: stream.launch(rng.random, out=array) with rng = "
                "numpy.random.default_rng().",
            )
        return adopt(function(*plains(args), **plains(kwargs)))

    return call


for _name in public_names(np.random):
    _found = getattr(np.random, _name)
    globals()[_name] = (
        _found if isinstance(_found, type) or not callable(_found) else _drawing(_found, f"numpy.random.{_name}()")
    )


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
