"""``numpy.emath`` for arrays of this namespace."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphcap.backends.cpu.array._namespace import names_of

globals().update(names_of(np.emath, "emath."))


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
