"""The shipped SPIR-V is that of the OpenCL C beside it, and every kernel does what it says."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.backends.xpu import kernels
from graphcap.backends.xpu.kernels import FOLDER

TOLD: dict[str, Any] = json.loads((FOLDER / "spirv.json").read_text())
CLANG = os.environ.get("CLANG", "clang-14")
TRANSLATOR = os.environ.get("LLVM_SPIRV", "llvm-spirv-14")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_binaries_are_those_of_the_sources() -> None:
    """Whoever changes a .cl without `make spirv`, or a .spv by hand, is told here, also without the compiler."""
    sources = sorted(path.stem for path in FOLDER.glob("*.cl"))
    assert sources == sorted(TOLD["files"]) == kernels.module_names()
    for name in sources:
        assert digest(FOLDER / f"{name}.cl") == TOLD["files"][name]["source"], f"{name}.cl changed: run make spirv"
        assert digest(FOLDER / f"{name}.spv") == TOLD["files"][name]["spirv"], f"{name}.spv is not what was built"


@pytest.mark.skipif(
    shutil.which(CLANG) is None or shutil.which(TRANSLATOR) is None,
    reason=f"XPU: {CLANG} and {TRANSLATOR} are not installed, so the SPIR-V cannot be built anew",
)
def test_binaries_are_current(tmp_path: Path) -> None:
    """Built anew with the tools that made them, the binaries are the same bytes."""
    environment = {**os.environ, "SPIRV_OUT": str(tmp_path)}
    subprocess.run(["sh", str(FOLDER / "build.sh")], env=environment, check=True)
    built = json.loads((tmp_path / "spirv.json").read_text())
    if (built["clang"], built["llvm-spirv"]) != (TOLD["clang"], TOLD["llvm-spirv"]):
        pytest.skip(f"XPU: the SPIR-V was built by {TOLD['clang']}, here is {built['clang']}")
    for name in TOLD["files"]:
        assert (tmp_path / f"{name}.spv").read_bytes() == (FOLDER / f"{name}.spv").read_bytes(), name


COUNT = 1000
RANDOM = np.random.default_rng(11)


def sample(dtype: Any) -> Any:
    if np.dtype(dtype).kind == "i":
        return RANDOM.integers(-(2**31), 2**31, COUNT, dtype=dtype)
    return RANDOM.standard_normal(COUNT).astype(dtype)


EXPECTED: dict[str, Any] = {
    "add_scalar": lambda x, y, v: x + v,
    "scale": lambda x, y, v: x * v,
    "add": lambda x, y, v: x + y,
    "axpy": lambda x, y, v: v * x + y,
}


@pytest.mark.parametrize(
    ("module", "kernel", "dtype"),
    [
        ("arithmetic", "add_scalar_i32", np.int32),
        ("arithmetic", "scale_i32", np.int32),
        ("arithmetic", "add_i32", np.int32),
        ("arithmetic", "add_scalar_f32", np.float32),
        ("arithmetic", "scale_f32", np.float32),
        ("arithmetic", "add_f32", np.float32),
        ("arithmetic", "axpy_f32", np.float32),
        ("arithmetic_f64", "add_scalar_f64", np.float64),
        ("arithmetic_f64", "scale_f64", np.float64),
        ("arithmetic_f64", "add_f64", np.float64),
        ("arithmetic_f64", "axpy_f64", np.float64),
    ],
)
def test_arithmetic_equals_numpy(stream: Any, module: str, kernel: str, dtype: Any) -> None:
    """Bit for bit, since nothing is contracted; items past the count are left alone."""
    if module.endswith("f64") and not stream.target.queue.sycl_device.has_aspect_fp64:
        pytest.skip("XPU: the device has no 64-bit floats")
    x, y, value = sample(dtype), sample(dtype), np.dtype(dtype).type(3)
    here, there, out = (stream.allocate(x.nbytes, "shared") for _ in range(3))
    stream.copy(here, x)
    stream.copy(there, y)
    stream.fill(out, 0)
    found = kernels.load(stream, module, kernel)
    count = np.uint64(COUNT - 1)
    what = kernel.rpartition("_")[0]
    if what in ("add_scalar", "scale"):
        stream.launch(found, [here, value, count], 1024)
        result = here
        rest = x[-1]
    else:
        arguments = [out, value, here, there] if what == "axpy" else [out, here, there]
        stream.launch(found, [*arguments, count], 1024)
        result = out
        rest = np.dtype(dtype).type(0)
    stream.synchronize()
    expected = EXPECTED[what](x, y, value)
    expected[-1] = rest
    np.testing.assert_array_equal(np.asarray(result).view(dtype), expected)


def test_names_that_do_not_exist(stream: Any) -> None:
    with pytest.raises(ValueError, match="There are: arithmetic"):
        kernels.load(stream, "algebra", "add")
    with pytest.raises(ValueError, match="no kernel 'subtract'"):
        kernels.load(stream, "arithmetic", "subtract")
    with pytest.raises(TypeError, match="XPU stream"):
        kernels.load(3, "arithmetic", "add_f32")


@pytest.mark.parametrize("binary", [b"", b"#version", b"\x7fELF" + bytes(12), kernels.spirv("fill")[:-1]])
def test_what_is_no_spirv(stream: Any, binary: bytes) -> None:
    """Refused before the device's compiler sees it."""
    with pytest.raises(graphcap.DriverError, match="SPIR"):
        kernels.load_spirv(stream, binary, "x")


def test_spirv_that_the_device_cannot_build(stream: Any) -> None:
    """dpctl says nothing about the reason; the error names the module and a likely one."""
    binary = kernels.spirv("fill")
    with pytest.raises(graphcap.DriverError, match="a SPIR-V module: the device gave no reason"):
        kernels.load_spirv(stream, binary[:64], "fill_u8")


def test_spirv_of_your_own(stream: Any) -> None:
    buffer = stream.allocate(4, "shared")
    kernel = kernels.load_spirv(stream, kernels.spirv("fill"), "fill_u32")
    stream.launch(kernel, [buffer, np.uint32(0xDEADBEEF), np.uint64(1)], 1)
    stream.synchronize()
    assert np.asarray(buffer).view(np.uint32)[0] == 0xDEADBEEF
