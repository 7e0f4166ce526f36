"""Native replay: elementwise work of a CPU graph run by NumPy's own inner loops, without the interpreter in between.

Reading order: ``loops`` (which work has such a loop) -> ``geometry`` (iteration spaces) -> ``hazards`` (what may share a
strip) -> ``strips`` (runs of calls and their scratch memory) -> ``executable``; ``_walk.c`` does the walking.

The extension is optional: where it was not built, the Python replay serves, and :func:`unavailable_reason` says why.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

__all__ = ["unavailable_reason", "walker"]

_reason = ""
_walk: Any = None
try:
    _walk = importlib.import_module("graphcap.backends.cpu.native._walk")
except ImportError as error:
    _reason = f"the extension was not built ({error}); reinstall graphcap-core where a C compiler is installed"
else:
    # An unknown capsule name means another layout: the Python replay is right then.
    _add: Any = np.add
    _, _capsule = _add._resolve_dtypes_and_context((np.dtype("f8"), np.dtype("f8"), None))
    if f'"{_walk.CAPSULE_NAME}"' not in repr(_capsule):
        _reason = f"NumPy {np.__version__} hands its loops out in another layout: {_capsule!r}"


def unavailable_reason() -> str:
    """Why the native replay cannot serve here; empty if it can."""
    return _reason


def walker() -> Any:
    """The extension module, or ``None``."""
    return None if _reason else _walk
