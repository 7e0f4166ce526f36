"""The stand-ins as libraries: their names, their symbol versions, and that what is not offered refuses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import cffi
import pytest

from tests.emulated_device import loader, standins
from tests.emulated_device.standins import cupy_text

NVIDIA = [name for name, library in standins.LIBRARIES.items() if library.names]

#: What does work, by library; every other name that the wheel links refuses.
WORKS = {
    "cublas": r"(Create|Destroy|GetVersion|[SG]etPointerMode|[SG]etStream)_v2|[SG]etMathMode|[SDCZ]gemm(_v2|Batched|StridedBatched)"
    r"|SgemmEx|GemmEx|GemmStridedBatchedEx|[SDCZ](gemv|syrk|trsm|axpy|scal)_v2|[SDCZ](geam|dgmm)|([SD]ger|[CZ]ger[uc])_v2"
    r"|([SD]dot|[CZ]dot[uc])_v2|([SD]|Sc|Dz)(nrm2|asum)_v2|I[sdcz]am(ax|in)_v2|(Css|Zds)cal_v2",
    "curand": r"CreateGenerator|DestroyGenerator|GetVersion|Set.*|Generate.*",
    "cufft": r"Create|Destroy|GetVersion|SetStream|SetAutoAllocation|SetWorkArea|MakePlan(1d|Many)|Exec[CZ]2[CZ]|Exec(R2C|C2R|D2Z|Z2D)",
    "cusolver": r"(Dn|Sp)(Create|Destroy|SetStream|GetStream)|GetProperty",
    "cusparse": r"Create|Destroy|[SG]etStream|SetPointerMode|GetVersion|GetError(Name|String)",
}
STATUS = {"cublas": 15, "curand": 103, "cufft": 14, "cusolver": 9, "cusparse": 10}


def symbols(path: Path) -> dict[str, str]:
    """The names that a library offers, with their versions."""
    out = subprocess.run(
        ["nm", "-D", "--defined-only", "--with-symbol-versions", str(path)], check=True, capture_output=True, text=True
    )
    found = (re.fullmatch(r"\S+ [TW] (\w+)@@(\S+)", line) for line in out.stdout.splitlines())
    return {match[1]: match[2] for match in found if match}


@pytest.mark.parametrize("name", NVIDIA)
def test_every_name_that_the_wheel_links_is_there_under_its_version(name: str) -> None:
    library = standins.LIBRARIES[name]
    offered = symbols(standins.build(name))
    assert {one: offered.get(one) for one in standins.names(name)} == dict.fromkeys(
        standins.names(name), library.soname
    )


@pytest.mark.parametrize("name", NVIDIA)
def test_what_refuses_is_what_is_not_said_to_work(name: str) -> None:
    works = {one for one in standins.names(name) if re.fullmatch(name + f"({WORKS[name]})", one)}
    assert set(standins.refused(name)) == set(standins.names(name)) - works


@pytest.mark.parametrize("name", NVIDIA)
def test_a_name_that_is_not_offered_returns_the_status_for_that(name: str) -> None:
    standins.load()
    ffi = cffi.FFI()
    refused = standins.refused(name)
    ffi.cdef("".join(f"int {one}(void);\n" for one in refused))
    library = ffi.dlopen(str(standins.build(name)))
    assert {getattr(library, one)() for one in refused} <= {STATUS[name]}


def test_the_loaded_libraries_are_what_their_sonames_give() -> None:
    """An extension that asks for the soname gets ours, whatever else is installed."""
    standins.load()
    ffi = cffi.FFI()
    ffi.cdef("int curandGetVersion(int *version);")
    out = ffi.new("int *")
    assert ffi.dlopen(standins.LIBRARIES["curand"].soname).curandGetVersion(out) == 0
    mapped = Path("/proc/self/maps").read_text()
    for path in standins.libraries():
        assert str(path) in mapped
        assert len({line.split()[-1] for line in mapped.splitlines() if line.endswith(path.name)}) == 1


def test_none_asks_for_another_library_than_the_driver_and_the_compilers_own() -> None:
    for path in standins.libraries():
        out = subprocess.run(["readelf", "-d", str(path)], check=True, capture_output=True, text=True).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[(\S+)\]", out))
        assert needed <= {
            loader.SONAME,
            "libstdc++.so.6",
            "libm.so.6",
            "libc.so.6",
            "libgcc_s.so.1",
            "ld-linux-x86-64.so.2",
        }


def test_a_build_is_kept() -> None:
    path = standins.build("curand")
    standins.build.cache_clear()
    before = path.stat().st_mtime_ns
    assert standins.build("curand") == path
    assert path.stat().st_mtime_ns == before


def test_the_text_of_cub_is_checked_before_it_is_changed() -> None:
    with pytest.raises(ValueError, match="is this the text of the pinned CuPy"):
        cupy_text.cython_source("cub", "cdef extern from 'cupy_cub.h' nogil:\n    void cub_device_reduce(void*)\n")
    assert cupy_text.cython_source("thrust", "text") == "text"


_WITHOUT_CONTEXT = """
import threading
import numpy as np
from tests.emulated_device import standins
standins.load()
from cuda.bindings import driver as cu
from tests.standins.interface import interface, library

def draw():
    out = interface().new("void **")
    assert library("curand").curandCreateGenerator(out, 161) == 0
    error, device = cu.cuCtxGetDevice()
    assert int(error) == 0 and int(device) == 0
    error, pointer = cu.cuMemAlloc(16)
    assert library("curand").curandGenerate(out[0], int(pointer), 4) == 0
    numbers = np.empty(4, np.uint32)
    cu.cuMemcpyDtoH(numbers.ctypes.data, pointer, 16)
    got.append(numbers.tolist())

got = []
for _ in range(2):
    thread = threading.Thread(target=draw)
    thread.start()
    thread.join()
print(len(got), got[0] == got[1])
"""


def test_a_thread_without_a_context_gets_the_first_devices() -> None:
    """As from libraries on the CUDA runtime; in a process of its own, for the context is kept."""
    command = [sys.executable, "-c", _WITHOUT_CONTEXT]
    done = subprocess.run(command, cwd=loader.FOLDER.parents[1], capture_output=True, text=True, check=False)
    assert done.stdout == "2 True\n", done.stderr
