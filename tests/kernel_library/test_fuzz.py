"""Broken text does not break the library: its parts under address and undefined-behaviour sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.emulated_device import loader
from tests.emulated_device.kernel_library import build
from tests.kernel_library.kit import emulated_only

PARTS = ("tokens", "declarations", "markers", "rewrite", "arithmetic", "diagnostics", "options")


@emulated_only
@pytest.mark.slow
def test_the_parts_that_read_text(tmp_path: Path) -> None:
    flags = [
        "-std=c++17",
        "-g",
        "-O1",
        "-D_GLIBCXX_ASSERTIONS",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    ]
    probe = tmp_path / "probe.cpp"
    probe.write_text("int main() {}\n")
    if subprocess.run(
        [loader.compiler(), *flags, str(probe), "-o", str(tmp_path / "probe")], capture_output=True, check=False
    ).returncode:
        pytest.skip("the sanitizers are not installed")
    sources = [Path(__file__).with_name("fuzz_parts.cpp"), *(build.SHIM / f"{part}.cpp" for part in PARTS)]
    program = tmp_path / "fuzz"
    subprocess.run([loader.compiler(), *flags, f"-I{build.SHIM}", *map(str, sources), "-o", str(program)], check=True)
    for seed in range(3):
        done = subprocess.run([str(program), str(seed), "40000"], capture_output=True, text=True, check=False)
        assert done.stdout == "done\n", done.stderr
