"""CuPy's Thrust and CUB modules, compiled from CuPy's own text against our functions in place of Thrust and CUB.

The compiled modules want ``libgraphcap_primitives.so``, which :func:`tests.emulated_device.standins.load` loads.
"""

from __future__ import annotations

import pathlib
import re
from typing import Final

CUPY_HEADERS: Final = pathlib.Path(__file__).resolve().parent / "cupy_headers"
"""Goes first among the include folders. CuPy's own headers of the same names must not lie beside the generated C++, where the
compiler would take them first."""

_FUNCTION: Final = re.compile(r"^( {4}(?:void|size_t) cub_device_\w+\([^)]*\))$", re.MULTILINE)
"""A declaration of cub.pyx that does not say that the function may raise."""

_ASKED: Final = "_cub_device_segmented_reduce_axis_compatible"
"""What CuPy's block reduction asks before it goes on to compile CUB's headers, and cub.pyx for itself."""

_REFUSAL: Final = f"""

cpdef bint {_ASKED}(tuple cub_axis, Py_ssize_t ndim, str order) except -1:
    raise NotImplementedError(
        'CUB as kernel text (the accelerator "cub" of reductions) is not on the emulated device: leave it off here '
        '(cupy._core.set_reduction_accelerators([])), and CuPy uses kernels of its own. Test this part on a GPU.')
"""


def cython_source(name: str, text: str) -> str:
    """The text of one of CuPy's Cython modules as it is compiled here.

    Parameters
    ----------
    name
        The module's last name: ``"cub"``, ``"thrust"``, ``"runtime"``.
    text
        The file's text in the sdist.

    Returns
    -------
    str
        For ``cub``, the text with its C++ functions declared as raising, so that what is not offered raises, and with the
        block reduction refusing; for any other, the text.

    Raises
    ------
    ValueError
        The text of ``cub.pyx`` has other declarations than the pinned version's.
    """
    if name != "cub":
        return text
    text, functions = _FUNCTION.subn(r"\1 except +", text)
    text, definitions = re.subn(rf"^cpdef bint {_ASKED}\(", "cdef bint _axis_compatible(", text, flags=re.MULTILINE)
    text, calls = re.subn(rf"if not {_ASKED}\(", "if not _axis_compatible(", text)
    if (functions, definitions, calls) != (10, 1, 1):
        raise ValueError(
            f"cub.pyx has {functions} functions, {definitions} definitions and {calls} calls of the expected forms, not 10, 1 and 1: "
            "is this the text of the pinned CuPy?"
        )
    return text.rstrip() + _REFUSAL


def cupy_sources() -> list[pathlib.Path]:
    """The files on which the compiled modules depend, besides CuPy's."""
    return [pathlib.Path(__file__).resolve(), *sorted(CUPY_HEADERS.glob("*.h"))]


sources = cupy_sources
