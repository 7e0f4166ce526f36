"""The Python array API standard: what it asks for beyond the names that NumPy has.

NumPy's main namespace follows the standard since 2.0, and the names here are NumPy's: the edition that is declared is the
one that the installed NumPy declares. Source: https://data-apis.org/array-api/
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from graphcap.backends.cpu.array._base import Array, wrap
from graphcap.backends.cpu.array._memory import Plain
from graphcap.backends.cpu.array._recording import check_readable

__all__ = ["EDITION", "asnumpy", "check_api_version", "check_device", "from_dlpack"]

EDITION: Final[str] = getattr(np, "__array_api_version__", "2022.12")
_EDITIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


def check_api_version(version: str | None) -> None:
    """Accept the declared edition and the earlier ones.

    Raises
    ------
    ValueError
        `version` is none of them.
    """
    if version is not None and (version not in _EDITIONS or version > EDITION):
        raise ValueError(f"array API version {version!r} is not supported; this namespace conforms to {EDITION!r}.")


def check_device(device: Any) -> None:
    """Accept the one device there is.

    Raises
    ------
    ValueError
        `device` is neither ``None`` nor ``"cpu"``.
    """
    if device is not None and device != "cpu":
        raise ValueError(f"device {device!r}: arrays of this namespace live on 'cpu'.")


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """An array over the memory of any array that speaks DLPack."""
    check_device(device)
    # NumPy before 2.1 takes everything from DLPack as read-only, its own arrays too.
    found: Any = x if isinstance(x, Array) else wrap(x if type(x) is np.ndarray else np.from_dlpack(x))
    return found.copy() if copy else found


def asnumpy(a: Any) -> Plain:
    """The plain NumPy view of an array, without a copy (as CuPy has it, where it copies).

    Raises
    ------
    CaptureForbiddenError
        The current stream is capturing.
    """
    check_readable("asnumpy()")
    return np.asarray(a)
