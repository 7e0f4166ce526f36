"""How the driver is found and what a request for a function gets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cffi
import pytest
from cuda.bindings import driver as cu

from tests.emulated_device import control, harness, loader
from tests.emulated_device.harness import code, ok

pytestmark = pytest.mark.skipif(not harness.emulated(), reason="about the emulated driver itself")

ROOT = Path(__file__).resolve().parents[1]
NOT_SUPPORTED = int(cu.CUresult.CUDA_ERROR_NOT_SUPPORTED)

#: Names that clients ask for in more than one version, with what each request must get (cuda-driver-emulation.md, section 4).
VERSIONS = {
    "cuStreamGetCaptureInfo": {10010: 10010, 11030: 11030, 12020: 11030, 12030: 12030, 13040: 12030},
    "cuStreamUpdateCaptureDependencies": {11030: 11030, 12030: 12030},
    "cuGraphGetEdges": {10000: 10000, 12020: 10000, 12030: 12030},
    "cuGraphNodeGetDependencies": {10000: 10000, 12030: 12030},
    "cuGraphNodeGetDependentNodes": {10000: 10000, 12030: 12030},
    "cuGraphAddDependencies": {10000: 10000, 12030: 12030},
    "cuGraphRemoveDependencies": {10000: 10000, 12030: 12030},
    "cuGraphAddNode": {12020: 12020, 12030: 12030, 13041: 13040},
    "cuGraphNodeSetParams": {12020: 12020, 13041: 13040},
    "cuGraphInstantiate": {11000: 10000, 12000: 12000, 13000: 12000},
    "cuGraphAddKernelNode": {10000: 10000, 12000: 12000},
    "cuGraphExecUpdate": {10020: 10020, 12000: 12000},
    "cuCtxCreate": {3020: 3020, 11040: 11040, 12050: 12050},
    "cuCtxGetDevice": {2000: 2000, 13000: 13000},
    "cuCtxSynchronize": {2000: 2000, 13000: 13000},
    "cuStreamGetCtx": {9020: 9020, 12050: 12050},
    "cuLaunchHostFunc": {10000: 10000, 13020: 13010},
    "cuMemAlloc": {2000: 0, 3020: 3020},
    "cuNoSuchFunction": {13000: 0},
}


@pytest.mark.parametrize(
    ("name", "asked", "given"),
    [(name, asked, given) for name, rows in VERSIONS.items() for asked, given in rows.items()],
)
def test_the_newest_interface_that_is_not_newer_than_asked(name: str, asked: int, given: int) -> None:
    assert control.abi(name, asked) == given


def requested(name: str, version: int, flags: int = 0) -> tuple[int, int]:
    """The address for a request, and the query result."""
    ffi = cffi.FFI()
    ffi.cdef("int cuGetProcAddress_v2(const char *, void **, int, uint64_t, int *);")
    lib = ffi.dlopen(str(loader.loaded_library))
    out, status = ffi.new("void **"), ffi.new("int *")
    assert lib.cuGetProcAddress_v2(name.encode(), out, version, flags, status) == 0
    return int(ffi.cast("uintptr_t", out[0])), int(status[0])


def test_suffixed_symbols_are_exported_too() -> None:
    """Some clients take functions by dlsym instead (L6); nothing else of ours is seen."""
    names = subprocess.run(
        ["nm", "-D", "--defined-only", str(loader.loaded_library)], capture_output=True, text=True, check=True
    )
    symbols = {line.split()[-1] for line in names.stdout.splitlines()}
    assert {
        "cuMemAlloc_v2",
        "cuStreamGetCaptureInfo_v3",
        "cuGraphGetEdges_v2",
        "cuCtxCreate_v4",
        "cuGetProcAddress_v2",
    } <= symbols
    assert all(symbol.startswith(("cu", "graphcap_emulator_")) for symbol in symbols)


@pytest.mark.parametrize("name", ["cuNoSuchFunction", "cuTexObjectCreate", "cuMemCreate", "cuImportExternalMemory"])
def test_what_is_not_implemented_says_so_when_called(name: str) -> None:
    address, status = requested(name, 13000)
    assert address
    assert status == 0
    ffi = cffi.FFI()
    control.clear_calls()
    function = ffi.cast("int (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t)", address)
    assert function(1, 2, 3, 4, 5, 6, 7) == NOT_SUPPORTED
    assert [(call.name, call.result) for call in control.calls()] == [(name, NOT_SUPPORTED)]
    assert control.notes() == [f"not implemented: {name}"]


def test_the_per_thread_flag_changes_the_null_stream() -> None:
    legacy, _ = requested("cuStreamGetId", 12000, 1)
    per_thread, _ = requested("cuStreamGetId", 12000, 2)
    assert legacy != per_thread
    ffi = cffi.FFI()
    with harness.board():
        ids = []
        for address in (legacy, per_thread):
            out = ffi.new("unsigned long long *")
            assert ffi.cast("int (*)(void *, unsigned long long *)", address)(ffi.NULL, out) == 0
            ids.append(out[0])
        assert ids == [ok(cu.cuStreamGetId(cu.CUstream(1))), ok(cu.cuStreamGetId(cu.CUstream(2)))]


def test_unloaded_functions_of_the_bindings_are_not_called_by_mistake() -> None:
    """A call through the bindings that nobody implements: an error, no crash, and no success."""
    ok(cu.cuInit(0))
    assert code(cu.cuMemGetAllocationGranularity(None, cu.CUmemAllocationGranularity_flags(0))) == NOT_SUPPORTED


def in_a_child(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


def test_children_find_the_driver_by_the_path() -> None:
    """LD_LIBRARY_PATH, set by loading: a child that knows nothing of the loader."""
    done = in_a_child("from cuda.bindings import driver as d; print(d.cuInit(0)[0].value, d.cuDeviceGetCount()[1])")
    assert done.stdout.split() == ["0", "2"], done.stderr


@pytest.mark.parametrize("count", [0, 1, 5])
def test_the_number_of_devices_is_a_setting(count: int) -> None:
    program = "from cuda.bindings import driver as d; print(d.cuInit(0)[0].value, d.cuDeviceGetCount()[1])"
    done = in_a_child(program, GRAPHCAP_EMULATED_DEVICES=str(count))
    assert done.stdout.split() == (["0", str(count)] if count else ["100", "0"]), done.stderr


def test_nothing_works_before_initialisation() -> None:
    done = in_a_child(
        "from cuda.bindings import driver as d; print(d.cuDeviceGetCount()[0].value, d.cuCtxSynchronize()[0].value)"
    )
    assert done.stdout.split() == ["3", "3"], done.stderr


def test_the_driver_is_not_older_than_the_toolkit() -> None:
    from importlib.metadata import version

    major, minor = version("cuda-bindings").split(".")[:2]
    assert ok(cu.cuDriverGetVersion()) >= 1000 * int(major) + 10 * int(minor)


@pytest.mark.parametrize("word", ["emulated", "EMULATED"])
def test_the_setting_chooses_the_driver(word: str) -> None:
    done = in_a_child(
        "from tests.emulated_device import loader; print(loader.load(), loader.load())", GRAPHCAP_TEST_DRIVER=word
    )
    assert done.stdout.split() == ["emulated", "emulated"], done.stderr


def test_another_word_is_refused() -> None:
    done = in_a_child("from tests.emulated_device import loader; loader.load()", GRAPHCAP_TEST_DRIVER="fake")
    assert "expected emulated, real or auto" in done.stderr


def test_loading_after_the_bindings_is_refused() -> None:
    program = "from cuda.bindings import driver\nfrom tests.emulated_device import loader\nloader.load()"
    done = in_a_child(program, GRAPHCAP_TEST_DRIVER="emulated")
    assert "load the emulated driver first" in done.stderr


def test_a_compiler_error_is_shown(tmp_path: Path) -> None:
    source = tmp_path / "broken.c"
    source.write_text('#include "graphcap_kernel.h"\nGRAPHCAP_KERNEL void k(int x) { x = ; }\n')
    with pytest.raises(loader.BuildError, match="error"):
        loader.build_kernels(source)
