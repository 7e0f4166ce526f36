"""Aliases that several layers share."""

from __future__ import annotations

import os
from typing import TypeAlias

__all__ = ["PathLike"]

PathLike: TypeAlias = "str | os.PathLike[str]"
