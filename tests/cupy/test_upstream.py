"""A short selection of CuPy's own tests, read from the sdist (``make cupy-tests`` runs the whole list)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cupy.upstream import run

PLAN = run.plan()

pytestmark = pytest.mark.usefixtures("emulated")


@pytest.mark.parametrize("file", PLAN["short"])
def test_cupys_own_tests(cp: Any, file: str) -> None:
    """As many pass as the list says, and no test fails but those that are expected to."""
    result = run.run_file(file, 300, PLAN)
    assert result.unexpected == {}
    assert len(result.passed) >= PLAN["files"][file] > 0


def test_failures_are_told_apart() -> None:
    """An expected one by its cause; one that nobody expects by what it said; a skip is neither."""
    lines: list[dict[str, Any]] = [
        {"selected": 4},
        {"test": "tests/cupy_tests/a.py::one", "outcome": "passed", "reason": ""},
        {"test": "tests/cupy_tests/a.py::two", "outcome": "failed", "reason": "no textures"},
        {"test": "tests/cupy_tests/a.py::three", "outcome": "failed", "reason": "wrong value"},
        {"test": "tests/cupy_tests/a.py::four", "outcome": "skipped", "reason": ""},
    ]
    plan = {"expected": [{"cause": "textures", "tests": "a.py::two$"}]}
    result = run._sort("a.py", lines, plan, 1.0)
    assert result.passed == ["a.py::one"]
    assert result.expected == {"textures": ["a.py::two"]}
    assert result.unexpected == {"a.py::three": "wrong value"}
    assert (result.skipped, result.run, result.selected) == (1, 4, 4)
