"""What the array API standard's inspection interface tells (``__array_namespace_info__``)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from graphcap.backends.cpu.array._standard import check_device

__all__ = ["NamespaceInfo"]

_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]
_ALL: Final = _KINDS["bool"] + _KINDS["numeric"]


class NamespaceInfo:
    """Inspection of the namespace, as the array API standard has it. NumPy 2.0 has none of its own."""

    def capabilities(self) -> dict[str, Any]:
        """What optional behaviour there is. While a stream captures, shapes cannot depend on values."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The one device."""
        return "cpu"

    def devices(self) -> list[str]:
        """All devices."""
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The types that creation functions take when none is given."""
        check_device(device)
        return {
            "real floating": np.dtype(np.float64),
            "complex floating": np.dtype(np.complex128),
            "integral": np.dtype(np.int_),
            "indexing": np.dtype(np.intp),
        }

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, Any]:
        """The types of the standard, of one kind or of several.

        Raises
        ------
        ValueError
            `kind` is none of the standard's.
        """
        check_device(device)
        kinds = (kind,) if isinstance(kind, str) else kind
        if kinds is None:
            wanted: set[str] = set(_ALL)
        else:
            unknown = [name for name in kinds if name not in _KINDS]
            if unknown:
                raise ValueError(f"unsupported kind: {unknown[0]!r}. The kinds are: {', '.join(_KINDS)}.")
            wanted = {name for one in kinds for name in _KINDS[one]}
        return {name: np.dtype(name) for name in _ALL if name in wanted}
