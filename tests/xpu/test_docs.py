"""The program in ``docs/xpu.md`` runs as printed, and the page names what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.xpu.child import run_child

PAGE = Path(__file__).parents[2] / "docs" / "xpu.md"


def test_program_of_the_page_runs() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    done = run_child(program + "\nassert (out == 1).all()\n")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.needs_no_dpctl
def test_variables_and_files_of_the_page_exist() -> None:
    """Every environment variable and every file that the page names is in the package."""
    text = PAGE.read_text()
    package = PAGE.parents[1] / "graphcap" / "backends" / "xpu"
    source = "\n".join(path.read_text() for path in package.rglob("*.py"))
    named = set(re.findall(r"`(GRAPHCAP_[A-Z_]+)`", text))
    assert named
    assert all(name in source for name in named)
    for path in set(re.findall(r"\b((?:graphcap|examples)/[\w/.]+\.\w+)", text)):
        assert (PAGE.parents[1] / path).exists(), path
