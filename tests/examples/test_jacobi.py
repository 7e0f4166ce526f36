"""The Jacobi example as a user runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

JACOBI = Path(__file__).parents[2] / "examples" / "jacobi.py"


def jacobi(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the example in a process of its own."""
    return subprocess.run(
        [sys.executable, str(JACOBI), *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


def test_the_table_and_the_solution() -> None:
    """Second order: a quarter of the distance to the solution at twice the cells, once the iteration has settled."""
    apart = []
    for cells in (16, 32):
        done = jacobi("--cells", cells, "--tolerance", 1e-10)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "largest difference 0"
        found = re.search(r"([0-9.e-]+) apart at most", done.stdout)
        assert found
        apart.append(float(found[1]))
    assert 3.8 < apart[0] / apart[1] < 4.2


@pytest.mark.parametrize(
    "arguments",
    [
        ("--cells", 2),
        ("--tolerance", 0),
        ("--tolerance", 1.5),
        ("--device", "nope"),
        ("--device", "cpu:7"),
        ("--device", ""),
    ],
)
def test_bad_input_is_told_in_one_line(arguments: tuple[object, ...]) -> None:
    done = jacobi(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(r"jacobi: [^\n]+\n", done.stderr)
