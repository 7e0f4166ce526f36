"""Builds the kernel library and puts it where ``cuda.bindings``, ``cuda.core`` and CuPy find NVRTC.

They look for an object that is loaded under the soname ``libnvrtc.so.13`` before they search anything, an installed NVRTC
wheel included. So :func:`load` has to come before the first call that needs the compiler in the process. Processes that
never ask for it pay nothing.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
from typing import Any, NamedTuple

from .. import loader

__all__ = ["NVCC", "Counts", "build", "counts", "load", "rewrite"]

FOLDER = pathlib.Path(__file__).resolve().parent
SHIM = FOLDER / "shim"
SONAME = "libnvrtc.so.13"

#: A stand-in for nvcc that refuses; :func:`load` puts it into the environment.
NVCC = FOLDER / "nvcc-refused.sh"

_DECLARATIONS = """
void graphcap_kernel_library_counts(long *compiled, long *found);
unsigned long graphcap_kernel_library_rewrite(const char *text, char *out, unsigned long room);
"""

_handle: Any = None  # keeps the library open
_ffi: Any = None


class Counts(NamedTuple):
    """What the library did in this process."""

    compiled: int  #: programs that the host compiler built, or tried to
    found: int  #: programs that the cache had


def build() -> pathlib.Path:
    """Build the kernel library, unless this source was built before.

    Returns
    -------
    pathlib.Path
        The library, in a folder of its own under ``.cache/emulated_device`` named after the hash of its sources.

    Raises
    ------
    tests.emulated_device.loader.BuildError
        No compiler, or the compiler's own refusal.
    """
    command = loader.compiler()
    sources = sorted(SHIM.glob("*.cpp"))
    flags = ["-std=c++17", "-fPIC", "-O1", "-fvisibility=hidden", "-Wall", "-Wextra"]
    shim_hash = loader._digest([*sources, *SHIM.glob("*.h")], *flags)
    flags += [
        f'-DGRAPHCAP_LIBRARY_FOLDER="{FOLDER}"',
        f'-DGRAPHCAP_KERNELS_FOLDER="{loader.KERNELS}"',
        f'-DGRAPHCAP_CACHE_FOLDER="{loader.CACHE / "kernel_library"}"',
        f'-DGRAPHCAP_SHIM_HASH="{shim_hash}"',
    ]
    target = loader.CACHE / loader._digest([], shim_hash, loader._compiler_version(command), *flags) / SONAME
    if target.exists():
        return target
    with loader._one_builder():
        if target.exists():
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        objects = loader._objects(command, flags, sources, sorted(SHIM.glob("*.h")))
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            made = pathlib.Path(scratch) / SONAME
            link = [command, "-shared", f"-Wl,-soname,{SONAME}", "-o", str(made), *map(str, objects), "-ldl"]
            loader._run(link)
            os.replace(made, target)  # whole or not at all
    return target


def _mapped_nvrtc() -> set[str]:
    """The files of every NVRTC that is mapped into this process."""
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    paths = {line.split(maxsplit=5)[5] for line in lines if line.count(" ") >= 5 and "/libnvrtc" in line}
    return {path for path in paths if pathlib.Path(path).name.startswith("libnvrtc")}


def load() -> pathlib.Path:
    """Make the kernel library the process's NVRTC.

    Also sets ``NVCC`` to a script that refuses. A second call does nothing and answers the same.

    Returns
    -------
    pathlib.Path
        The library.

    Raises
    ------
    RuntimeError
        The process uses a real driver, or a real NVRTC is loaded already: its machine code would not run here.
    tests.emulated_device.loader.BuildError
        The library cannot be built.
    """
    global _handle, _ffi
    if loader.load() != "emulated":
        raise RuntimeError("the kernel library serves the emulated device only: set GRAPHCAP_TEST_DRIVER=emulated")
    library = build()
    if _handle is not None:
        return library
    if foreign := _mapped_nvrtc() - {str(library)}:
        raise RuntimeError(
            f"a real NVRTC is loaded already ({', '.join(sorted(foreign))}): load the kernel library first, in a fresh process"
        )
    import cffi

    _ffi = cffi.FFI()
    _ffi.cdef(_DECLARATIONS)
    _handle = _ffi.dlopen(str(library), _ffi.RTLD_NOW | _ffi.RTLD_GLOBAL)
    os.environ["NVCC"] = str(NVCC)
    return library


def counts() -> Counts:
    """How many programs this process had compiled, and how many it found in the cache.

    Raises
    ------
    RuntimeError
        :func:`load` was not called.
    """
    library = _loaded()
    compiled, found = _ffi.new("long *"), _ffi.new("long *")
    library.graphcap_kernel_library_counts(compiled, found)
    return Counts(compiled[0], found[0])


def rewrite(text: str) -> str:
    """What the rewriter makes of preprocessed program text.

    Raises
    ------
    RuntimeError
        :func:`load` was not called.
    """
    library = _loaded()
    room = library.graphcap_kernel_library_rewrite(text.encode(), _ffi.NULL, 0)
    out = _ffi.new("char[]", room)
    library.graphcap_kernel_library_rewrite(text.encode(), out, room)
    return bytes(_ffi.buffer(out, room)).decode()


def _loaded() -> Any:
    if _handle is None:
        raise RuntimeError("the kernel library is not loaded: call load()")
    return _handle
