"""Compares CuPy's calls with NumPy's, each by itself: also as a program, for the negative control."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.cupy import calls

_TOLERANCE: Final = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-11, "complex64": 2e-5, "complex128": 1e-11}
"""Relative to the largest value of a result: a GPU's functions differ from the host's by some units in the last place."""


def compare(cp: Any, text: str) -> None:
    """Evaluate a text with CuPy and with NumPy.

    Raises
    ------
    AssertionError
        Shape, dtype or a value differs.
    """
    with np.errstate(all="ignore"):
        expected = np.asarray(calls.evaluate(text, np))
    found = calls.evaluate(text, cp)
    found = cp.asnumpy(found) if isinstance(found, cp.ndarray) else np.asarray(found)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    bound = _TOLERANCE.get(expected.dtype.name)
    if bound is None:
        np.testing.assert_array_equal(found, expected)
    else:
        finite = np.abs(expected[np.isfinite(expected)])
        np.testing.assert_allclose(found, expected, rtol=bound, atol=bound * float(finite.max(initial=0)))


def main() -> None:
    """Print which texts are equal."""
    from tests.emulated_device import cupy_tree

    cupy_tree.load()
    import cupy

    for text in calls.CALLS:
        try:
            compare(cupy, text)
        except Exception as error:
            print("different", text, type(error).__name__)
        else:
            print("equal", text)
