"""Builds the CuPy tree: the wheel of the pinned version with the modules that carry NVIDIA's runtime rebuilt or replaced.

``python -m tests.emulated_device.cupy_tree`` builds it and says how long each step took.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import importlib.metadata
import os
import pathlib
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from typing import Final

from .. import loader, standins
from ..standins import cupy_text
from . import archives, pins

FOLDER: Final = pathlib.Path(__file__).resolve().parent
RUNTIME: Final = FOLDER / "runtime"
REPLACEMENTS: Final = FOLDER / "replacements"
CUDART: Final = "libcudart.so.13"

REBUILT: Final = ("cupy_backends.cuda.api.runtime", "cupy.cuda.cub", "cupy.cuda.thrust")
"""The modules that are compiled from CuPy's own text: against our runtime library, and our functions for Thrust's and CUB's."""

EMPTY: Final = ("libcublasLt.so.13", "libnvJitLink.so.13")
"""Libraries without a function: CuPy calls none of theirs, but the search for libraries that it calls wants them there first."""

REPLACED: Final = ("cupy.cuda.jitify", "cupy.random._generator_api")
"""The modules that Python modules of ours take the place of, which refuse what they are asked for."""

_DIRECTIVES: Final = (
    "linetrace=False",
    "profile=False",
    "embedsignature=True",
    "c_api_binop_methods=True",
    "binding=False",
    "freethreading_compatible=True",
)
"""As CuPy's own build sets them: the modules of the wheel bind to these by their C signatures."""


class Tree:
    """A built tree, and what is where in it.

    Attributes
    ----------
    root
        Its folder.
    site
        What goes on ``sys.path``.
    libraries
        The runtime library first, then :data:`EMPTY`.
    cuda
        What ``CUDA_PATH`` names.
    """

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.site = root / "site"
        self.libraries = [root / "lib" / name for name in (CUDART, *EMPTY)]
        self.cuda = root / "cuda"


def build(report: Callable[[str], None] = lambda line: None) -> Tree:
    """Build the tree, unless it was built before from the same sources.

    Parameters
    ----------
    report
        Gets a line with its time for each step that was taken.

    Returns
    -------
    Tree
        The tree, in a folder of its own under ``.cache/cupy_tree`` named after the hash of its sources. It is never changed.

    Raises
    ------
    archives.Unavailable
        No pinned wheel for this interpreter and machine, or no way to the package index.
    archives.ArchiveError
        An archive is not the pinned one.
    loader.BuildError
        No compiler, no Python headers, no Cython in the range that CuPy asks for, or a compiler's refusal.
    """
    archives.wheel_name()  # says at once when there is none for this machine
    root = archives.CACHE / "trees" / _key()
    if root.exists():
        return Tree(root)
    with archives.one_at_a_time():
        if root.exists():
            return Tree(root)
        started = last = time.perf_counter()

        def step(done: str) -> None:
            nonlocal last
            now = time.perf_counter()
            report(f"{now - last:6.1f} s  {done}")
            last = now

        wheel = archives.wheel()
        step(f"wheel of {pins.WHEEL} {pins.VERSION}")
        sdist = archives.sdist()
        step(f"sdist of {pins.SDIST} {pins.VERSION}")
        with archives.whole_folder(root) as draft:
            tree = Tree(draft)
            _link_wheel(wheel, tree.site)
            step("modules of the wheel")
            shutil.copytree(RUNTIME / "include", tree.cuda / "include")
            _libraries(tree)
            step("our runtime library")
            _modules(sdist, tree)
            step("CuPy's modules on it, and what takes the place of the others")
        report(f"{time.perf_counter() - started:6.1f} s  in all")
    return Tree(root)


def _key() -> str:
    digest = hashlib.sha256()
    words = [
        pins.VERSION,
        sysconfig.get_config_var("EXT_SUFFIX") or "",
        loader._compiler_version(loader.compiler()),
        _cython_version(),
    ]
    for word in words:
        digest.update(word.encode() + b"\0")
    ours = [file for file in FOLDER.rglob("*") if file.is_file() and file.suffix not in (".pyc", ".md")]
    for file in sorted([*ours, *cupy_text.cupy_sources()]):
        if file.name in ("loading.py", "__init__.py", "__main__.py"):
            continue  # these use a tree and take no part in it
        digest.update(str(file.relative_to(FOLDER.parent)).encode() + b"\0" + file.read_bytes())
    return f"cp{sys.version_info.major}{sys.version_info.minor}-{digest.hexdigest()[:16]}"


def _cython_version() -> str:
    try:
        version = importlib.metadata.version("Cython")
    except importlib.metadata.PackageNotFoundError:
        raise loader.BuildError(f'no Cython: pip install "Cython{pins.CYTHON}"') from None
    if not version.startswith("3.2."):
        raise loader.BuildError(
            f'Cython {version}, but CuPy {pins.VERSION} is built by Cython{pins.CYTHON}: pip install "Cython{pins.CYTHON}"'
        )
    return version


def _link_wheel(wheel: pathlib.Path, site: pathlib.Path) -> None:
    """The wheel's files, without copies where the file system can do that; none of them is ever written to."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    left_out = {wheel / f"{name.replace('.', '/')}{suffix}" for name in (*REBUILT, *REPLACED)}
    missing = [str(file.relative_to(wheel)) for file in left_out if not file.exists()]
    if missing:
        raise archives.ArchiveError(f"the wheel of CuPy {pins.VERSION} has no {', '.join(missing)}")
    for folder, _, names in os.walk(wheel):
        target = site / pathlib.Path(folder).relative_to(wheel)
        target.mkdir(parents=True, exist_ok=True)
        for name in names:
            source = pathlib.Path(folder) / name
            if source in left_out:
                continue
            try:
                os.link(source, target / name)
            except OSError:
                shutil.copy2(source, target / name)


def _libraries(tree: Tree) -> None:
    runtime, *empty = tree.libraries
    runtime.parent.mkdir()
    command = [
        loader.compiler(),
        "-std=c++17",
        "-O2",
        "-fPIC",
        "-shared",
        "-Wall",
        "-Wextra",
        f"-I{RUNTIME / 'include'}",
    ]
    command += [f"-Wl,-soname,{CUDART}", f"-Wl,--version-script={RUNTIME / 'exports.map'}", "-Wl,-z,defs"]
    sources = sorted(str(source) for source in RUNTIME.glob("*.cpp"))
    loader._run([*command, "-o", str(runtime), *sources, "-ldl", "-lpthread"])
    for library in empty:
        command = [loader.compiler(), "-shared", "-nostdlib", "-x", "c", os.devnull, f"-Wl,-soname,{library.name}"]
        loader._run([*command, "-o", str(library)])


def _modules(sdist: pathlib.Path, tree: Tree) -> None:
    """The modules that are compiled from the sdist's text, and ours."""
    with tempfile.TemporaryDirectory(dir=archives.CACHE) as scratch:
        text = pathlib.Path(scratch) / "text"
        for package in ("cupy", "cupy_backends"):
            # without the headers for which our stand-ins have others: the compiler would take these first
            unwanted = shutil.ignore_patterns(
                "include", *(header.name for header in cupy_text.CUPY_HEADERS.glob("*.h"))
            )
            shutil.copytree(sdist / package, text / package, ignore=unwanted)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
            list(pool.map(lambda name: _cython_module(text, name, tree), REBUILT))
    shutil.copytree(REPLACEMENTS, tree.site, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


def _cython_module(text: pathlib.Path, name: str, tree: Tree) -> None:
    stem = name.replace(".", "/")
    source, made = text / f"{stem}.pyx", text / f"{stem}.cpp"
    source.write_text(cupy_text.cython_source(source.stem, source.read_text()))
    constants = {
        "CUPY_USE_CUDA_PYTHON": False,
        "CUPY_CUFFT_STATIC": False,
        "CUPY_CYTHON_VERSION": _cython_version(),
        "CUPY_CUDA_VERSION": pins.CUDA_VERSION,
        "CUPY_HIP_VERSION": 0,
    }
    command = [sys.executable, "-m", "cython", "-3", "--cplus", "-w", str(text), "--module-name", name]
    command += [word for directive in (*_DIRECTIVES, "warn.deprecated.IF=False") for word in ("-X", directive)]
    command += ["-E", ",".join(f"{key}={value}" for key, value in constants.items())]
    loader._run([*command, "-o", str(made), str(source)])
    headers = sysconfig.get_paths()["include"]
    if not (pathlib.Path(headers) / "Python.h").exists():
        raise loader.BuildError(
            f"no Python.h in {headers}: install the headers of this Python (a package python3-dev, or like it)"
        )
    flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-w"]
    flags += [f"-I{folder}" for folder in (headers, cupy_text.CUPY_HEADERS, RUNTIME / "include", made.parent, text)]
    flags += ['-DCYTHON_EXTERN_C=extern "C"', "-D_FORCE_INLINES=1", "-DNPY_TARGET_VERSION=NPY_2_0_API_VERSION"]
    target = tree.site / f"{stem}{sysconfig.get_config_var('EXT_SUFFIX')}"
    libraries = [str(tree.libraries[0]), *([str(standins.build("primitives"))] if name.startswith("cupy.") else [])]
    loader._run([loader.compiler(), *flags, str(made), "-o", str(target), *libraries])
