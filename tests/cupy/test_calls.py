"""Values, shapes and dtypes of CuPy's calls against NumPy's, on the same inputs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cupy import calls, compare


@pytest.mark.parametrize("text", calls.CALLS)
def test_a_call_equals_numpys(cp: Any, text: str) -> None:
    compare.compare(cp, text)
