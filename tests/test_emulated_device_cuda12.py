"""The bindings of CUDA 12.9 on the emulated driver, in the environment that ``make_cuda12.sh`` makes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.emulated_device import harness, loader

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".venv-cuda12" / "bin" / "python"

pytestmark = [
    pytest.mark.skipif(not PYTHON.exists(), reason="no second environment: run tests/emulated_device/make_cuda12.sh"),
    pytest.mark.skipif(not harness.emulated(), reason="children find the emulated driver by LD_LIBRARY_PATH"),
]


def test_capture_edges_and_replay() -> None:
    program = loader.FOLDER / "programs_cuda12.py"
    done = subprocess.run(
        [PYTHON, program], capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("bindings").startswith("12.9.")
    assert found == {
        "status": 1,
        "same_id": True,
        "frontier": [2, 2, 2],  # the memset of its own and the copy that was joined
        "nodes": 4,
        "edges": [4, 4, 8],
        "before": 0,
        "after": [7, 7, 9, 9],
    }
