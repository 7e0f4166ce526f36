"""The CUDA examples as a user runs them."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys

import pytest

from tests.cuda import kit
from tests.emulated_device import loader

ROOT = pathlib.Path(__file__).parents[2]
_RUN = """
import runpy, sys
from tests.emulated_device import loader
loader.load()
sys.argv = sys.argv[1:]
sys.path.insert(0, "examples")
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def _example(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _RUN, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """The options that bring the example's kernels to the device: none on a GPU, an image for the emulated one."""
    if not kit.is_emulated():
        return []
    source = tmp_path_factory.mktemp("kernels") / "example.c"
    names = ("wave_step", "add_energy")
    exports = "".join(f"GRAPHCAP_EXPORT({name})\n" for name in names)
    head = pathlib.Path(__file__).with_name("example_kernels.c").read_text()
    source.write_text(head + (ROOT / "examples" / "cuda_kernels.cu").read_text() + exports)
    return ["--image", loader.build_kernels(source)]


def test_own_kernels_through_cuda_core(image: list[object]) -> None:
    done = _example("examples/cuda_kernels.py", "--steps", 20, "--size", 40, *image)
    assert done.returncode == 0, done.stderr
    assert "5 nodes" in done.stdout
    assert float(done.stdout.split()[-1]) < 1e-6


@pytest.mark.parametrize("options", [["--steps", 3], ["--size", 1], ["--image", "nowhere"]])
def test_bad_input_is_told_in_one_line(options: list[object]) -> None:
    done = _example("examples/cuda_kernels.py", *options)
    assert done.returncode == 2
    assert done.stderr.startswith("cuda_kernels: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="CuPy is installed: the example runs")
def test_terrain_without_cupy_says_so_in_one_line() -> None:
    done = _example("examples/terrain.py", "--device", "cuda", "--steps", 3)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "cupy" in done.stderr.lower()
