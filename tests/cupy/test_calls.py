"""Values, shapes and dtypes of CuPy's calls against NumPy's, on the same inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cupy import calls

_TOLERANCE = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-11, "complex64": 2e-5, "complex128": 1e-11}
"""Relative to the largest value of a result: a GPU's functions differ from the host's by some units in the last place."""


@pytest.mark.parametrize("text", calls.CALLS)
def test_a_call_equals_numpys(cp: Any, text: str) -> None:
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
