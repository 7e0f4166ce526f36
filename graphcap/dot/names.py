"""Names that a person can read: C++ names demangled, and short forms for labels.

Demangling is LLVM's, through pydemumble (extra ``cli``). Without it names stay as the compiler made them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import lru_cache

__all__ = ["can_demangle", "demangle", "short_name"]

_LONGEST = 4096  # a longer name is no name; also bounds the native demangler's recursion
_TYPEINFO = "typeinfo name for "


@lru_cache(maxsize=1)
def _demangler() -> Callable[[str], str] | None:
    try:
        library = importlib.import_module("pydemumble")  # no type stubs
    except ImportError:
        return None
    found: Callable[[str], str] = library.demangle
    return found


def can_demangle() -> bool:
    """Say whether the demangling library is installed (extra ``cli``)."""
    return _demangler() is not None


@lru_cache(maxsize=16384)
def demangle(name: str) -> str:
    """Return the C++ name that a mangled name stands for; any other name is returned as it is.

    SYCL's kernel names are demangled without the words "typeinfo name for" that its mangling adds.
    """
    text = name
    if name.startswith(("_Z", "__Z")) and len(name) <= _LONGEST:
        library = _demangler()
        text = (library(name) if library is not None else "") or name
    return text.removeprefix(_TYPEINFO)


def _without_brackets(text: str) -> str | None:
    """Drop everything in (), <> and {}; ``None`` where brackets do not match (operators and the like)."""
    kept: list[str] = []
    depth = 0
    previous = ""
    for char in text:
        if char in "(<{":
            depth += 1
        elif char in ")>}" and previous != "-":
            depth -= 1
            if depth < 0:
                return None
        elif not depth:
            kept.append(char)
        previous = char
    return "".join(kept) if not depth else None


@lru_cache(maxsize=16384)
def short_name(name: str, limit: int = 34) -> str:
    """Return the function's own name without namespace, template arguments and parameters.

    Parameters
    ----------
    name
        As the producer gave it, mangled or not.
    limit
        The most characters to return; a longer name loses its middle.
    """
    full = demangle(name)
    bare = _without_brackets(full.replace("(anonymous namespace)", "").replace("operator()", "operator"))
    if bare is None:
        bare = full
    parts = [part.strip().removesuffix(" const").strip() for part in bare.split("::")]
    own = [part for part in parts if part and not part.startswith(("'lambda", "operator", "const", "[", "#"))]
    text = own[-1].split(" ")[-1] if own else full
    if own and "lambda" in parts[-1]:
        text += "::lambda"
    text = text or full
    if len(text) > limit:
        half = (limit - 1) // 2
        text = f"{text[:half]}…{text[-half:]}"
    return text
