"""Sends small arrays down the paths that large ones take, so that random programs reach them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from graphcap.backends.cpu.native import thresholds, walker


@contextlib.contextmanager
def as_if_large() -> Iterator[None]:
    """No serial runs, strips of a few elements, the GIL let go, every thread woken, runs side by side."""
    walk = walker()
    if walk is None:  # not built here: then there is nothing to tune
        yield
        return
    tuned = walk.tune(0, 1)
    small = {"SERIAL_BYTES": 0, "SIDE_BY_SIDE_BYTES": 0, "STRIP_BYTES": 1, "QUANTUM": 2, "SKEW": 1}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in small.items():
            patch.setattr(thresholds, name, value)
        yield
    walk.tune(*tuned)
