"""The conformance suite and the scenarios for 20 seeds of the emulated driver's scheduler, each in a process of its own."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tests.cuda import kit

_FOLDER = pathlib.Path(__file__).parent
_FILES = ("test_conformance.py", "test_scenarios.py", "test_conditional.py")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_conformance(seed: int) -> None:
    if not kit.is_emulated():
        pytest.skip("a real device's order cannot be chosen")
    environment = {**os.environ, "GRAPHCAP_TEST_SEED": str(seed)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", *(str(_FOLDER / name) for name in _FILES)]
    done = subprocess.run(
        command, env=environment, cwd=_FOLDER.parents[1], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, f"seed {seed}:\n{done.stdout[-6000:]}{done.stderr[-2000:]}"
