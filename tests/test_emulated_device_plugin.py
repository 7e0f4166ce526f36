"""Another project's tests on the emulated device: the plug-in in a pytest of its own, beside a package named ``tests``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphcap.testing import emulated_device as plugin

_CORE = """
def test_a_graph_of_cuda_core(emulated_device):
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    text = 'extern "C" __global__ void f(float *a) { a[threadIdx.x] += threadIdx.x; }'
    kernel = Program(text, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("f")
    memory = device.allocate(16, stream=stream)
    memory.fill(0, stream=stream)
    builder = stream.create_graph_builder().begin_building()
    launch(builder, LaunchConfig(grid=1, block=4), kernel, memory)
    graph = builder.end_building().complete()
    for _ in range(3):
        graph.launch(stream)
    stream.sync()
    assert sum(call.name == "cuGraphLaunch" for call in emulated_device.calls()) == 3
"""

_CUPY = """
def test_a_graph_of_cupy():
    import cupy
    with cupy.cuda.Stream(non_blocking=True) as stream:
        x = cupy.arange(5.0)
        x * 2
        stream.begin_capture()
        y = x * 2
        graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()
    assert y.get().tolist() == [0, 2, 4, 6, 8]
"""


def project(folder: Path, text: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a project whose tests lie in a package called ``tests``, as graphcap's do."""
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests" / "__init__.py").touch()
    (folder / "tests" / "test_graphs.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "graphcap.testing.emulated_device", *arguments, "tests"]
    own = {"GRAPHCAP_TEST_DRIVER": "emulated", **environment}
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **own}, capture_output=True, text=True, timeout=400, check=False
    )


def test_kernels_from_text_run_with_a_seed(tmp_path: Path) -> None:
    done = project(tmp_path, _CORE, "--emulated-device=kernels", "--emulated-seed=3", "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CUDA device: emulated, kernels built by the host compiler" in done.stdout


def test_cupy_by_the_ini_file(tmp_path: Path) -> None:
    from tests.emulated_device import cupy_tree
    from tests.emulated_device.cupy_tree.build import build

    try:
        build()
    except cupy_tree.Unavailable as error:
        pytest.skip(f"no CuPy for the tests: {error}")
    (tmp_path / "pytest.ini").write_text("[pytest]\nemulated_device = cupy\n")
    done = project(tmp_path, _CUPY, "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"CUDA device: emulated, {cupy_tree.label()}" in done.stdout


def test_the_driver_alone_is_the_default(tmp_path: Path) -> None:
    done = project(tmp_path, "import sys\ndef test(emulated_device):\n    assert 'cupy' not in sys.modules\n", "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CUDA device: emulated\n" in done.stdout


def test_a_missing_checkout_is_told_with_the_cure(tmp_path: Path) -> None:
    done = project(tmp_path, _CORE, **{plugin.FOLDER_VARIABLE: str(tmp_path)})
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert plugin.FOLDER_VARIABLE in done.stderr
    assert "pip install -e" in done.stderr


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nemulated_device = everything\n")
    done = project(tmp_path, _CORE)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "everything" in done.stderr
    assert "kernels" in done.stderr
