"""``examples/terrain.py --device xpu`` as a user runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from graphcap.backends.xpu.discovery import opencl_runtime_library

ROOT = Path(__file__).parents[2]


def terrain(tier: str, *arguments: str, registered: bool = True) -> subprocess.CompletedProcess[str]:
    import os

    library = opencl_runtime_library()
    environment = {**os.environ, "GRAPHCAP_XPU_TIER": tier, "ONEAPI_DEVICE_SELECTOR": "*:cpu"}
    environment.pop("OCL_ICD_FILENAMES", None)
    if registered and library is not None:
        environment["OCL_ICD_FILENAMES"] = library
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / "terrain.py"), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("tier", ["native", "software"])
def test_terrain_equals_the_cpu_backend_within_rounding(tier: str, tmp_path: Path) -> None:
    """Issue: runs on the OpenCL CPU device with a SPIR-V kernel; equals the CPU's result within float32's rounding, stated.

    The CPU backend's result is that of eager NumPy, bit by bit (its own tests). Here the example itself compares with both
    precisions and says how far apart they are.
    """
    model = tmp_path / "model.npy"
    y, x = np.mgrid[0:60, 0:80]
    np.save(model, 300 + 50 * np.sin(x / 5.0) * np.cos(y / 7.0) + (x > 40) * 80.0)
    arguments = ["--device", "xpu", "--steps", "200", "--input", str(model), "--out", str(tmp_path / "out")]
    done = terrain(tier, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("largest difference 0\n")
    told = re.search(r"([0-9.e-]+) m apart; rounding of float32 allows ([0-9.e-]+) m", " ".join(done.stdout.split()))
    assert told is not None
    apart, bound = map(float, told.groups())
    assert 0 < apart <= bound < 0.1
    assert (tmp_path / "out" / "terrain.png").stat().st_size > 1000
    assert (tmp_path / "out" / "terrain.dot").stat().st_size > 100


def test_terrain_without_a_device(tmp_path: Path) -> None:
    """One clear line on stderr, exit code 2, nothing written."""
    out = tmp_path / "out"
    done = terrain("native", "--device", "xpu", "--out", str(out), registered=False)
    if done.returncode == 0:
        pytest.skip("XPU: this machine registers an OpenCL CPU device of its own")
    assert done.returncode == 2
    assert "OCL_ICD_FILENAMES" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not out.exists() or list(out.iterdir()) == []
