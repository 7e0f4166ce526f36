"""Loads CuPy for the tests: the built tree on the emulated driver, the installed CuPy on a real one."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pathlib
import re
import sys
from typing import Any, Final

from .. import loader, standins
from ..kernel_library import build as kernel_library
from ..standins import lockstep
from . import archives, pins
from . import build as building

KERNEL_CACHE: Final = archives.CACHE / "kernels"
"""Where CuPy keeps compiled kernels between processes; its keys name the compiler library, which names its own parts."""

_FOREIGN: Final = re.compile(
    r"/lib(cuda|cudart|nvrtc|nvJitLink|nvrtc-builtins|nvptxcompiler|nvvm|cublas|cublasLt|curand|cufft|cusolver|cusparse)\.so"
)

_mode: str | None = None
_tree: building.Tree | None = None
_kept: list[Any] = []  # keeps the libraries open


def load() -> str:
    """Make ``import cupy`` give the CuPy that the tests are to use, and import it.

    With the emulated driver (``GRAPHCAP_TEST_DRIVER``, see :func:`tests.emulated_device.loader.load`) that is the tree: the
    tree is built when it is not there; the emulated driver, our compiler library, our runtime library and the stand-ins for
    NVIDIA's other libraries are loaded under the names that CuPy asks for; CuPy's settings are made; the tree goes first on
    ``sys.path``. With a real driver it is the CuPy that is installed, and nothing is changed.

    Returns
    -------
    str
        ``"emulated"`` or ``"real"``. A second call does nothing and answers the same.

    Raises
    ------
    archives.Unavailable
        The tree cannot be had on this machine, see :func:`tests.emulated_device.cupy_tree.build.build`; with a real driver: no
        CuPy is installed.
    loader.BuildError
        A compiler, headers or Cython are missing, or a compiler refuses.
    RuntimeError
        Another CuPy is imported already, or the process has a library of NVIDIA's loaded that CuPy would get in place of ours.
    """
    global _mode, _tree
    if _mode is not None:
        return _mode
    if loader.load() == "real":
        if importlib.util.find_spec("cupy") is None:
            raise archives.Unavailable("no CuPy is installed: pip install cupy-cuda13x (or cupy-cuda12x)")
        importlib.import_module("cupy")
        _mode = "real"
        return _mode
    _refuse_other_cupy()
    tree = building.build()
    _refuse_foreign_libraries()
    _load_libraries(tree)
    _settings(tree)
    sys.path.insert(0, str(tree.site))
    _own_headers(tree)
    importlib.import_module("cupy")
    lockstep.mend(importlib.import_module("cupy._core._routines_sorting"))
    _tree = tree
    _mode = "emulated"
    return _mode


def is_loaded() -> bool:
    """Whether :func:`load` has given this process its CuPy."""
    return _mode is not None


def tree() -> building.Tree:
    """The tree that was loaded.

    Raises
    ------
    RuntimeError
        None was: :func:`load` was not called, or gave the CuPy that is installed.
    """
    if _tree is None:
        raise RuntimeError("no CuPy tree is loaded in this process")
    return _tree


def label() -> str:
    """How results are to be named: with the tree by its label, else by the version of the CuPy that is installed."""
    if _mode == "real":
        return f"CuPy {importlib.import_module('cupy').__version__}, as installed, on a real driver"
    return pins.LABEL


def foreign_libraries() -> list[str]:
    """Libraries of NVIDIA's that the process has mapped, apart from what lies in our own cache: none, where all is well."""
    cache = os.path.realpath(archives.CACHE.parent)
    return sorted(path for path in _mapped() if _FOREIGN.search(path) and not path.startswith(cache))


def _mapped() -> set[str]:
    """The files that the process has mapped."""
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if " /" in line}


def _refuse_other_cupy() -> None:
    found = sys.modules.get("cupy") or sys.modules.get("cupy_backends")
    if found is not None:
        raise RuntimeError(
            f"another CuPy is imported already ({getattr(found, '__file__', 'no file')}): call "
            "tests.emulated_device.cupy_tree.load() before anything imports cupy, in a process of its own if need be"
        )


def _refuse_foreign_libraries() -> None:
    if found := foreign_libraries():
        raise RuntimeError(
            f"these libraries are loaded already, and CuPy would get them in place of ours: {', '.join(found)}. Call "
            "tests.emulated_device.cupy_tree.load() before anything loads them, in a process of its own if need be"
        )


def _load_libraries(tree: building.Tree) -> None:
    import cffi

    kernel_library.load()
    standins.load()
    ffi = cffi.FFI()
    _kept.extend(ffi.dlopen(str(library), ffi.RTLD_NOW | ffi.RTLD_GLOBAL) for library in tree.libraries)


def _settings(tree: building.Tree) -> None:
    """CuPy's own settings, by the environment: it reads them as it is imported, and so do child processes."""
    os.environ["CUDA_PATH"] = str(tree.cuda)
    os.environ["CUPY_CACHE_DIR"] = str(KERNEL_CACHE)
    os.environ["CUPY_ACCELERATORS"] = ""  # neither CUB nor cuTENSOR
    os.environ.pop("CUPY_COMPILE_WITH_PTX", None)


def _own_headers(tree: building.Tree) -> None:
    """Give CuPy our headers where it looks for CUDA's: a wheel of NVIDIA's would be found before ``CUDA_PATH``."""
    from cuda import pathfinder

    found = pathfinder.find_nvidia_header_directory

    def find(libname: str) -> str | None:
        return str(tree.cuda / "include") if libname == "cudart" else found(libname)

    pathfinder.find_nvidia_header_directory = find
