"""Protocols and aliases that several layers share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

__all__ = ["HostFunction", "PathLike", "SupportsCudaStream"]

PathLike: TypeAlias = "str | os.PathLike[str]"
HostFunction: TypeAlias = Callable[..., Any]


@runtime_checkable
class SupportsCudaStream(Protocol):
    """The stream protocol of cuda.core: ``(version, handle)``."""

    def __cuda_stream__(self) -> tuple[int, int]: ...
