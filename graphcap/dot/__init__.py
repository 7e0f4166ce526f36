"""Topology <-> DOT text. `write` gives clean DOT with stable ids; `read` takes what any producer prints."""

from __future__ import annotations

from graphcap.dot.fold import fold_repeats
from graphcap.dot.reader import read, read_bytes
from graphcap.dot.writer import write

__all__ = ["fold_repeats", "read", "read_bytes", "write"]
