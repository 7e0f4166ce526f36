"""The value tests have teeth: with kernels that are taken and never run, almost every one of them fails."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.cupy import calls

pytestmark = pytest.mark.usefixtures("emulated")

ROOT = pathlib.Path(__file__).resolve().parents[2]


def _passed(environment: dict[str, str]) -> set[str]:
    """Which texts give NumPy's values, in a process of its own with these settings."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom tests.cupy import compare\ncompare.main()"
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment}, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(re.findall(r"^equal (.*)$", done.stdout, re.MULTILINE))


def test_values_are_wrong_when_kernels_do_not_run(cp: Any) -> None:
    """Right are then only calls that run no kernel: views, allocations of zeros."""
    right = _passed({"GRAPHCAP_EMULATED_NO_KERNELS": "1"})
    assert len(right) <= 0.1 * len(calls.CALLS), sorted(right)
    assert all(text in calls.CALLS for text in right)
    assert right, "a view needs no kernel"
