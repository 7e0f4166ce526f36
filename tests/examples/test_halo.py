"""``examples/halo.py`` under MPI: whatever the number of ranks, the grid is that of one rank, bit by bit."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
HALO = "examples/halo.py"
_IN_EMULATION = """
import runpy, sys
from tests.emulated_device import loader
loader.load()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
_HEAD = """
#include "graphcap_kernel.h"
struct example_dim3 { unsigned x, y, z; };
#define threadIdx (example_dim3{GRAPHCAP_THREAD_X, GRAPHCAP_THREAD_Y, GRAPHCAP_THREAD_Z})
#define blockIdx (example_dim3{GRAPHCAP_BLOCK_X, GRAPHCAP_BLOCK_Y, GRAPHCAP_BLOCK_Z})
#define blockDim (example_dim3{GRAPHCAP_BLOCK_SIZE_X, GRAPHCAP_BLOCK_SIZE_Y, GRAPHCAP_BLOCK_SIZE_Z})
#define __global__
"""


def mpiexec() -> str:
    """The launcher of the MPI library that mpi4py finds: the one beside this Python, else one on the path."""
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None or importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py or an MPI library is not installed")
    return found


def halo(
    ranks: int, *arguments: object, environment: dict[str, str] | None = None, emulated: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run the example on that many ranks."""
    program = ["-c", _IN_EMULATION, HALO] if emulated else [HALO]
    command = [mpiexec(), "-n", str(ranks), sys.executable, *program, *map(str, arguments)]
    given = {**os.environ, "GRAPHCAP_CPU_THREADS": "1", **(environment or {})}  # the ranks share the cores as it is
    return subprocess.run(
        command, cwd=ROOT, env=given, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False
    )


def result(
    folder: Path, ranks: int, *arguments: object, **how: Any
) -> tuple[np.ndarray[Any, Any], subprocess.CompletedProcess[str]]:
    """The grid after a run that found no difference to NumPy."""
    path = folder / f"{ranks}.npy"
    done = halo(ranks, "--out", path, *arguments, **how)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "largest difference 0"
    return np.load(path), done


@pytest.mark.parametrize("exchange", ["segments", "host"])
def test_ranks_agree_bit_by_bit(tmp_path: Path, exchange: str) -> None:
    """Two ranks and four against one, by segments and by a host node; what the table says."""
    arguments = ("--steps", 30, "--rows", 41, "--columns", 30, "--exchange", exchange)
    single, _ = result(tmp_path, 1, *arguments)
    for ranks in (2, 4):
        several, done = result(tmp_path, ranks, *arguments)
        assert several.tobytes() == single.tobytes()
        assert f"{ranks} on cpu" in done.stdout
        assert ("graph (give) -> eager (when_ready) -> graph (take)" in done.stdout) == (exchange == "segments")
    assert not np.array_equal(single[1:-1], np.asarray(single[0]))


def test_uneven_slabs(tmp_path: Path) -> None:
    """One row for some ranks, two for others; a grid of one column inside the rim."""
    arguments = ("--steps", 9, "--rows", 7, "--columns", 3, "--quiet")
    single, done = result(tmp_path, 1, *arguments)
    assert done.stdout == "largest difference 0\n"
    several, _ = result(tmp_path, 4, *arguments)
    assert several.tobytes() == single.tobytes()


@pytest.mark.parametrize("exchange", ["segments", "host"])
def test_on_cuda(tmp_path: Path, exchange: str) -> None:
    """Two ranks on the emulated device, or on a GPU, give the CPU backend's bits."""
    from tests.cuda import kit
    from tests.emulated_device import loader

    arguments: list[object] = ["--steps", 10, "--rows", 20, "--columns", 17, "--exchange", exchange]
    single, _ = result(tmp_path, 1, *arguments)
    image: list[object] = []
    if kit.is_emulated():
        source = tmp_path / "halo.c"
        text = (ROOT / "examples" / "halo.cu").read_text().replace('extern "C" ', "GRAPHCAP_KERNEL ")
        source.write_text(f"{_HEAD}{text}GRAPHCAP_EXPORT(diffuse)\n")
        image = ["--image", loader.build_kernels(source)]
    several, _ = result(tmp_path, 2, *arguments, "--device", "cuda", *image, emulated=kit.is_emulated())
    assert several.tobytes() == single.tobytes()


@pytest.mark.parametrize("tier", ["native", "software"])
@pytest.mark.parametrize("exchange", ["segments", "host"])
def test_on_xpu(tmp_path: Path, tier: str, exchange: str) -> None:
    """Two ranks on the OpenCL CPU device give the CPU backend's bits."""
    from graphcap.backends.xpu.discovery import opencl_runtime_library
    from tests.backends import xpu_missing

    missing = xpu_missing()
    if missing is not None:
        pytest.skip(missing)
    environment = {"GRAPHCAP_XPU_TIER": tier}
    library = opencl_runtime_library()
    if "ONEAPI_DEVICE_SELECTOR" not in os.environ and library is not None:
        environment |= {"ONEAPI_DEVICE_SELECTOR": "*:cpu", "OCL_ICD_FILENAMES": library}
    arguments: list[object] = ["--steps", 10, "--rows", 20, "--columns", 17, "--exchange", exchange]
    single, _ = result(tmp_path, 1, *arguments)
    several, _ = result(tmp_path, 2, *arguments, "--device", "xpu", environment=environment)
    assert several.tobytes() == single.tobytes()


@pytest.mark.parametrize(
    "arguments",
    [["--steps", 0], ["--rows", 5], ["--device", "abacus"], ["--device", "cpu:7"], ["--out", "/nowhere/x.npy"]],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[object]) -> None:
    """Told by one rank, and no rank waits for another."""
    done = halo(4, *arguments)
    assert done.returncode == 2, done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("halo: ")]
    assert len(told) == 1
    assert "Traceback" not in done.stderr
    assert done.stdout.count("largest difference") == 0


def test_without_mpi_it_says_what_is_missing(tmp_path: Path) -> None:
    """One line, exit code 2."""
    (tmp_path / "mpi4py.py").write_text("raise ImportError('no MPI here')\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(
        [sys.executable, HALO], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install mpi4py" in done.stderr
