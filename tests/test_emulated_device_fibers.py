"""The stacks that kernels run on, alone: with the switch in assembly, and with the portable one that other processors get."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.emulated_device import harness, loader

pytestmark = pytest.mark.skipif(not harness.emulated(), reason="a real driver has stacks of its own")


@pytest.mark.parametrize("flags", [[], ["-DGRAPHCAP_PORTABLE_FIBERS"]], ids=["usual", "portable"])
def test_what_belongs_to_a_stack_is_kept(tmp_path: Path, flags: list[str]) -> None:
    program = tmp_path / "fiber_check"
    sources = [str(loader.FOLDER / "fiber_check.cpp"), str(loader.DRIVER / "fiber.cpp")]
    subprocess.run([loader.compiler(), "-std=c++17", "-O2", *flags, *sources, "-o", str(program)], check=True)
    environment = {**os.environ, "GRAPHCAP_EMULATED_STACK": "40000", "LD_PRELOAD": ""}
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True, env=environment)
    total = 2 * sum(1000 + fiber + turn for fiber in range(50) for turn in range(1, 101))
    assert done.stdout == f"wrong 0 total {total} below 1 inside 0 bytes 40960\n"
