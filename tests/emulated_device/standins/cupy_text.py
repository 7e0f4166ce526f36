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
        For ``cub``, the text with its C++ functions declared as raising, so that what is not offered raises; for any other, the
        text.

    Raises
    ------
    ValueError
        The text of ``cub.pyx`` has other declarations than the pinned version's.
    """
    if name != "cub":
        return text
    text, count = _FUNCTION.subn(r"\1 except +", text)
    if count != 10:
        raise ValueError(
            f"cub.pyx declares {count} functions of the expected form, not 10: is this the text of the pinned CuPy?"
        )
    return text


def cupy_sources() -> list[pathlib.Path]:
    """The files on which the compiled modules depend, besides CuPy's."""
    return [pathlib.Path(__file__).resolve(), *sorted(CUPY_HEADERS.glob("*.h"))]
