"""NumPy functions that cannot be recorded, each with the reason and the cure."""

from __future__ import annotations

from typing import Final

from graphcap.backends.cpu.array._dispatch import REFUSED, find
from graphcap.backends.cpu.array._recording import LAUNCH

__all__ = ["REFUSALS"]

_SHAPE: Final = "the shape of what it gives depends on values, and there are none while the stream captures"
_TYPE: Final = "the type of what it gives depends on values, and there are none while the stream captures"
_VALUE: Final = "it gives Python values, and there are none while the stream captures"
_PYTHON: Final = "it calls a Python function, which would run now and not on replay"
_FILE: Final = "it writes values to a file or a text, and there are none while the stream captures"
_STRING: Final = "text functions are not recorded"

_FULL: Final = f"Keep the full shape (xp.where, array[mask] = scalar). {LAUNCH}"
_KERNEL: Final = "Make it a kernel: stream.launch(function, *arrays)."
_AFTER: Final = "Call it before or after the capture (after replay())."

_GROUPS: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "nonzero flatnonzero argwhere extract compress unique unique_all unique_counts unique_inverse unique_values "
        "intersect1d union1d setdiff1d setxor1d trim_zeros bincount roots poly polydiv polymul linalg.lstsq",
        _SHAPE,
        _FULL,
    ),
    (
        "real_if_close emath.sqrt emath.log emath.log2 emath.log10 emath.logn emath.power emath.arccos emath.arcsin "
        "emath.arctanh",
        _TYPE,
        f"Use the function of the main namespace on complex operands. {LAUNCH}",
    ),
    (
        "allclose array_equal array_equiv shares_memory may_share_memory",
        _VALUE,
        f"{_AFTER} Or keep an array: xp.all(a == b).",
    ),
    ("polyfit", "how well it is determined depends on values", LAUNCH),
    ("apply_along_axis apply_over_axes piecewise", _PYTHON, _KERNEL),
    ("array2string array_repr array_str save savetxt savez savez_compressed datetime_as_string", _FILE, _AFTER),
    (
        "strings.capitalize strings.center strings.decode strings.encode strings.expandtabs strings.ljust strings.lower "
        "strings.mod strings.partition strings.replace strings.rjust strings.rpartition strings.swapcase strings.title "
        "strings.translate strings.upper strings.zfill strings.multiply char.capitalize char.center char.decode char.encode "
        "char.equal char.expandtabs char.greater char.greater_equal char.join char.less char.less_equal char.ljust char.lower "
        "char.mod char.not_equal char.replace char.rjust char.rsplit char.split char.splitlines char.swapcase char.title "
        "char.translate char.upper char.zfill",
        _STRING,
        _KERNEL,
    ),
)

REFUSALS: Final[dict[str, tuple[str, str]]] = {
    name: (why, cure) for names, why, cure in _GROUPS for name in names.split()
}
"""Every function that dispatches on its operands and is refused, by its name below ``numpy``: (why, cure)."""

for _name, _refusal in REFUSALS.items():
    _found = find(_name)
    if _found is not None:
        REFUSED[_found] = _refusal
