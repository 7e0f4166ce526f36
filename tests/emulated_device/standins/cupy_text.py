"""CuPy's Thrust and CUB modules, compiled from CuPy's own text against our functions in place of Thrust and CUB.

The compiled modules want ``libgraphcap_primitives.so``, which :func:`tests.emulated_device.standins.load` loads.
"""

from __future__ import annotations

import pathlib
import re
import shutil
from typing import Final

CUPY_HEADERS: Final = pathlib.Path(__file__).resolve().parent / "cupy_headers"
"""Our headers of the names that CuPy's have."""

MODULES: Final = ("cupy.cuda.thrust", "cupy.cuda.cub")
"""The modules that can be compiled after :func:`prepare`."""

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


def cub_source(text: str) -> str:
    """The text of ``cub.pyx`` as it is compiled here.

    Its C++ functions are declared as raising, so that what is not offered raises, and the block reduction refuses.

    Parameters
    ----------
    text
        The file's text in the sdist.

    Raises
    ------
    ValueError
        The text has other declarations than the pinned version's.
    """
    text, functions = _FUNCTION.subn(r"\1 except +", text)
    text, definitions = re.subn(rf"^cpdef bint {_ASKED}\(", "cdef bint _axis_compatible(", text, flags=re.MULTILINE)
    text, calls = re.subn(rf"if not {_ASKED}\(", "if not _axis_compatible(", text)
    if (functions, definitions, calls) != (10, 1, 1):
        raise ValueError(
            f"cub.pyx has {functions} functions, {definitions} definitions and {calls} calls of the expected forms, not 10, 1 and 1: "
            "is this the text of the pinned CuPy?"
        )
    return text.rstrip() + _REFUSAL


def prepare(text: pathlib.Path) -> None:
    """Make a copy of CuPy's text fit for compiling :data:`MODULES`.

    Parameters
    ----------
    text
        The folder that holds ``cupy/cuda``. Our headers take the place of CuPy's of the same names, and ``cub.pyx`` is changed
        (:func:`cub_source`).

    Raises
    ------
    ValueError
        See :func:`cub_source`.
    """
    folder = text / "cupy" / "cuda"
    for header in CUPY_HEADERS.glob("*.h"):
        shutil.copy(header, folder / header.name)
    cub = folder / "cub.pyx"
    cub.write_text(cub_source(cub.read_text()))


def sources() -> list[pathlib.Path]:
    """The files on which the compiled modules depend, besides CuPy's."""
    return [pathlib.Path(__file__).resolve(), *sorted(CUPY_HEADERS.glob("*.h"))]
