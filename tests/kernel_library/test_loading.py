"""How the library becomes a process's NVRTC, and when it refuses to."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.emulated_device import loader
from tests.emulated_device.kernel_library import build
from tests.kernel_library.kit import emulated_only, in_a_child

pytestmark = emulated_only


def test_the_soname_is_nvrtcs() -> None:
    assert build.load().name == "libnvrtc.so.13"
    assert str(build.load()) in Path("/proc/self/maps").read_text()


def test_nothing_is_loaded_unless_asked_for() -> None:
    out = in_a_child("""
        from tests.emulated_device import loader
        loader.load()
        from cuda.bindings import driver, nvrtc
        print("libnvrtc" in open("/proc/self/maps").read())
    """)
    assert out.strip() == "False"


def test_a_lookup_that_found_nothing_before_does_no_harm() -> None:
    """The bindings look again: so the order matters only where a real NVRTC is installed."""
    out = in_a_child("""
        from tests.emulated_device import loader
        loader.load()
        from cuda.bindings import nvrtc
        try:
            nvrtc.nvrtcVersion()
            print("found")
        except Exception as error:
            print("none")
        from tests.emulated_device.kernel_library import build
        try:
            build.load()
            print(nvrtc.nvrtcVersion()[1:])
        except RuntimeError as error:
            print("refused", "real NVRTC" in str(error))
    """)
    assert out.split("\n")[:2] in (["none", "(13, 0)"], ["found", "refused True"])


def test_it_refuses_beside_a_real_one(tmp_path: Path) -> None:
    foreign = tmp_path / "libnvrtc.so.12"
    source = tmp_path / "foreign.c"
    source.write_text("int nvrtcVersion(int *a, int *b) { return 0; }\n")
    subprocess.run([loader.compiler(), "-shared", "-fPIC", str(source), "-o", str(foreign)], check=True)
    out = in_a_child(f"""
        from tests.emulated_device import loader
        loader.load()
        import cffi
        held = cffi.FFI().dlopen({str(foreign)!r})
        from tests.emulated_device.kernel_library import build
        try:
            build.load()
        except RuntimeError as error:
            print(error)
    """)
    assert str(foreign) in out
    assert "fresh process" in out


def test_it_refuses_with_a_real_driver() -> None:
    out = in_a_child(
        """
        from tests.emulated_device.kernel_library import build
        try:
            build.load()
        except RuntimeError as error:
            print(error)
        """,
        GRAPHCAP_TEST_DRIVER="real",
    )
    assert "emulated device only" in out


def test_it_comes_before_an_installed_wheel() -> None:
    """cuda.pathfinder, which the bindings, cuda.core and CuPy all ask, takes what is loaded under the soname."""
    out = in_a_child("""
        from tests.emulated_device.kernel_library import build
        library = build.load()
        from cuda.pathfinder import load_nvidia_dynamic_lib
        found = load_nvidia_dynamic_lib("nvrtc")
        print(found.abs_path == str(library), found.was_already_loaded_from_elsewhere)
    """)
    assert out.split() == ["True", "True"]


def test_nvcc_is_a_script_that_refuses() -> None:
    build.load()
    import os

    assert os.environ["NVCC"] == str(build.NVCC)
    done = subprocess.run([str(build.NVCC), "--cubin", "kernel.cu"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "nvcc is not used" in done.stderr
    version = subprocess.run([str(build.NVCC), "--version"], capture_output=True, text=True, check=True).stdout
    assert "compiles nothing" in version


def test_without_a_compiler_the_log_says_so() -> None:
    out = in_a_child(
        """
        from tests.emulated_device.kernel_library import build
        build.load()
        from tests.kernel_library.kit import attempt
        out = attempt("__global__ void k() {}")
        print(out.code.name, out.log)
        """,
        GRAPHCAP_KERNEL_CXX="/no/such/g++",
    )
    assert out.startswith("NVRTC_ERROR_COMPILATION")
    assert "/no/such/g++: No such file or directory" in out


def test_only_the_interface_is_exported() -> None:
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("nm is not installed")
    lines = subprocess.run([nm, "-D", "--defined-only", str(build.load())], capture_output=True, text=True, check=True)
    names = {line.split()[-1] for line in lines.stdout.splitlines() if line.split()[-2] == "T"}
    assert {"nvrtcCompileProgram", "nvrtcGetCUBIN", "nvrtcGetLoweredName"} <= names
    assert all(name.startswith(("nvrtc", "graphcap_kernel_library_")) for name in names), names
