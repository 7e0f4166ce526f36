"""Builds the stand-in libraries, once per source text, and loads them where CuPy finds them."""

from __future__ import annotations

import functools
import os
import pathlib
import subprocess
import tempfile
from typing import Any, Final, NamedTuple

from .. import loader
from .cupy_text import CUPY_HEADERS

FOLDER: Final = pathlib.Path(__file__).resolve().parent


class Library(NamedTuple):
    """One stand-in."""

    soname: str  #: under which CuPy's extensions ask for it; also the version of its symbols
    source: str  #: the file in ``api/``
    kernels: str | None  #: the file in ``kernels/``, if it computes
    names: str | None  #: the file in ``names/``, if it stands in for a library
    exports: str  #: pattern of the names that are seen outside
    refusal: int  #: what a name that is not offered returns


#: In the order in which they are loaded.
LIBRARIES: Final = {
    "primitives": Library("libgraphcap_primitives.so", "primitives.cpp", "primitives.cpp", None, "graphcap_*", 0),
    "cublas": Library("libcublas.so.13", "blas.cpp", "blas.cpp", "cublas.txt", "cublas*", 15),
    "curand": Library("libcurand.so.10", "rand.cpp", "rand.cpp", "curand.txt", "curand*", 103),
    "cufft": Library("libcufft.so.12", "fft.cpp", "fft.cpp", "cufft.txt", "cufft*", 14),
    "cusolver": Library("libcusolver.so.12", "solver.cpp", None, "cusolver.txt", "cusolver*", 9),
    "cusparse": Library("libcusparse.so.12", "sparse.cpp", None, "cusparse.txt", "cusparse*", 10),
}

_loaded: list[Any] = []


def names(library: str) -> list[str]:
    """The names of a library that the pinned CuPy wheel links."""
    file = LIBRARIES[library].names
    return (FOLDER / "names" / file).read_text().split() if file else []


def refused(library: str) -> list[str]:
    """Those of :func:`names` that refuse: they are not defined in the library's source."""
    out = subprocess.run(
        ["nm", "-D", "--defined-only", str(build(library))], check=True, capture_output=True, text=True
    ).stdout
    weak = {
        fields[2].split("@")[0] for line in out.splitlines() if len(fields := line.split()) == 3 and fields[1] == "W"
    }
    return [name for name in names(library) if name in weak]


def _sources(library: Library) -> list[pathlib.Path]:
    files = [*FOLDER.glob("kernels/*.h"), *FOLDER.glob("api/*.h"), CUPY_HEADERS / "graphcap_primitives.h"]
    files.append(FOLDER / "api" / library.source)
    if library.kernels:
        files.append(FOLDER / "kernels" / library.kernels)
    if library.names:
        files.append(FOLDER / "names" / library.names)
    return files


def _refusals(name: str) -> str:
    """C text in which every name of the library returns its refusal, unless it is defined elsewhere."""
    body = f"(void) {{ return {LIBRARIES[name].refusal}; }}"
    return "".join(f'__attribute__((weak, visibility("default"))) int {one}{body}\n' for one in names(name))


@functools.cache
def build(name: str) -> pathlib.Path:
    """Build one stand-in, unless this source was built before.

    Parameters
    ----------
    name
        A key of :data:`LIBRARIES`.

    Returns
    -------
    pathlib.Path
        The library, under its soname in a folder of its own in ``.cache/emulated_device/standins``.

    Raises
    ------
    tests.emulated_device.loader.BuildError
        No compiler, no ``cuda.h``, or the compiler's own refusal.
    """
    library = LIBRARIES[name]
    command = loader.compiler()
    common = ["-std=c++17", "-O3", "-fPIC", "-fno-strict-aliasing", "-fwrapv", "-ffp-contract=off", "-Wall", "-Wextra"]
    common += ["-fvisibility=hidden", "-fno-gnu-unique", f"-I{FOLDER / 'kernels'}"]
    builder = pathlib.Path(__file__)
    key = loader._digest(
        [*_sources(library), loader.KERNELS / "graphcap_kernel.h", builder], loader._compiler_version(command), *common
    )
    target = loader.CACHE / "standins" / key / library.soname
    if target.exists():
        return target
    driver = loader.build()
    target.parent.mkdir(parents=True, exist_ok=True)
    with loader._one_builder():
        if target.exists():
            return target
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            folder = pathlib.Path(scratch)
            (folder / "refusals.c").write_text(_refusals(name))
            inputs = ["-x", "c", str(folder / "refusals.c"), "-x", "c++"]
            if library.kernels:
                image = folder / "kernels.so"
                kernels = ["-x", "c++", "-shared", "-Wl,-Bsymbolic", f"-I{loader.KERNELS}"]
                loader._run([command, *common, *kernels, str(FOLDER / "kernels" / library.kernels), "-o", str(image)])
                (folder / "image.cpp").write_text(_embedded(image))
                inputs.append(str(folder / "image.cpp"))
            inputs.append(str(FOLDER / "api" / library.source))
            (folder / "exports.map").write_text(f"{library.soname} {{ global: {library.exports}; local: *; }};\n")
            made = folder / library.soname
            link = ["-shared", f"-Wl,-soname,{library.soname}", f"-Wl,--version-script={folder / 'exports.map'}"]
            flags = [flag for flag in common if not flag.startswith("-std")]
            loader._run(
                [
                    command,
                    *flags,
                    *link,
                    f"-I{loader.include_folder()}",
                    "-o",
                    str(made),
                    *inputs,
                    "-x",
                    "none",
                    str(driver),
                ]
            )
            os.replace(made, target)  # whole or not at all
    return target


def _embedded(image: pathlib.Path) -> str:
    """C++ text that carries a kernel image."""
    return (
        'asm(".section .rodata\\n.balign 16\\n.global graphcap_standin_kernels\\n.hidden graphcap_standin_kernels\\n"\n'
        f'    "graphcap_standin_kernels:\\n.incbin \\"{image}\\"\\n.previous\\n");\n'
    )


def libraries() -> list[pathlib.Path]:
    """All stand-ins, built, in the order in which to load them.

    They have to be loaded with ``RTLD_NOW | RTLD_GLOBAL``, after the emulated driver and before ``cupy`` is imported: a library that
    is loaded under a soname is what an extension that asks for that soname gets, whatever is installed.

    Raises
    ------
    tests.emulated_device.loader.BuildError
        See :func:`build`.
    """
    return [build(name) for name in LIBRARIES]


def load() -> None:
    """Load the emulated driver and all stand-ins into the process. A second call does nothing.

    Raises
    ------
    RuntimeError
        The process uses a real driver; its libraries are then NVIDIA's.
    tests.emulated_device.loader.BuildError
        See :func:`build`.
    """
    if _loaded:
        return
    if loader.load() != "emulated":
        raise RuntimeError("the stand-in libraries serve the emulated driver: set GRAPHCAP_TEST_DRIVER=emulated")
    import cffi

    ffi = cffi.FFI()
    _loaded.extend(ffi.dlopen(str(path), ffi.RTLD_NOW | ffi.RTLD_GLOBAL) for path in libraries())
