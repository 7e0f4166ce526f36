"""Builds the extension of the native tier with a plain C++17 compiler.

No SYCL compiler is needed: the extension only calls into ``libsycl``, whose headers the ``intel-sycl-rt`` wheel brings.
``GRAPHCAP_SYCL_ROOT`` points to other headers, ``CXX`` to another compiler, ``GRAPHCAP_CACHE_DIR`` to another cache.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "MODULE_FILE",
    "SOURCE",
    "BuildError",
    "Toolchain",
    "build_extension",
    "cache_path",
    "find_toolchain",
    "packaged_path",
]

SOURCE = Path(__file__).with_name("_sycl_graph.cpp")
MODULE_FILE = "_sycl_graph.abi3.so"
_FLAGS = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-w",  # the SYCL headers warn a great deal under compilers that are not SYCL compilers
    "-DPy_LIMITED_API=0x030A0000",
    "-DSYCL_DISABLE_FSYCL_SYCLHPP_WARNING",
)
_TIMEOUT_S = 600


class BuildError(Exception):
    """The extension cannot be built here. `reason` and `cure` are one line each."""

    def __init__(self, reason: str, cure: str) -> None:
        super().__init__(f"{reason}. {cure}")
        self.reason = reason
        self.cure = cure


@dataclass(frozen=True)
class Toolchain:
    """What the build needs, and the key under which its result may be reused.

    Attributes
    ----------
    compiler
        The command, split into words.
    sycl_include, sycl_library
        Folder that holds ``sycl/sycl.hpp``; the ``libsycl.so`` to link with.
    python_include
        Folder that holds ``Python.h``.
    runtime
        The SYCL runtime's version, as precisely as it is known: a build for one is not used with another.
    """

    compiler: tuple[str, ...]
    sycl_include: Path
    sycl_library: Path
    python_include: Path
    runtime: str

    def abi(self) -> str:
        """The name under which the runtime is loaded: ``libsycl.so.9`` (2026), ``libsycl.so.8`` (2025)."""
        beside = self.sycl_library.parent.glob("libsycl.so.*")
        names = [path.name for path in beside if path.name.removeprefix("libsycl.so.").isdigit()]
        return max(names, key=lambda name: int(name.rpartition(".")[2]), default=self.sycl_library.name)

    def key(self) -> str:
        """Name of the cache folder: SYCL ABI, runtime version, machine, and a hash of source and flags."""
        digest = hashlib.sha256(SOURCE.read_bytes())
        digest.update("\0".join(_FLAGS).encode())
        return f"{self.abi()}-{self.runtime}-{sysconfig.get_platform()}-{digest.hexdigest()[:16]}"


def _compiler() -> tuple[str, ...]:
    named = os.environ.get("CXX")
    if named:
        words = tuple(shlex.split(named))
        if words and shutil.which(words[0]):
            return words
        raise BuildError(f"the C++ compiler named by CXX ({named!r}) was not found", "Correct CXX, or unset it.")
    for name in ("g++", "c++", "clang++"):
        if shutil.which(name):
            return (name,)
    raise BuildError(
        "no C++ compiler was found (g++, c++, clang++, CXX)",
        "Install one (Debian: apt install g++), or set GRAPHCAP_XPU_TIER=software to use the software tier quietly.",
    )


def _sycl_root() -> tuple[Path, Path, str]:
    """Include folder, library and version of the SYCL runtime that dpctl loads."""
    root = os.environ.get("GRAPHCAP_SYCL_ROOT")
    if root:
        include, library = Path(root) / "include", Path(root) / "lib" / "libsycl.so"
        if (include / "sycl" / "sycl.hpp").is_file() and library.exists():
            stamp = hashlib.sha256(str(library.resolve()).encode()).hexdigest()[:8]
            return include, library, f"root-{stamp}-{library.resolve().stat().st_mtime_ns}"
        raise BuildError(
            f"GRAPHCAP_SYCL_ROOT={root!r} holds no include/sycl/sycl.hpp and lib/libsycl.so",
            "Point it at the folder of a SYCL compiler or runtime that has both.",
        )
    try:
        distribution = importlib.metadata.distribution("intel-sycl-rt")
    except importlib.metadata.PackageNotFoundError:
        raise BuildError(
            "the SYCL headers were not found (no distribution intel-sycl-rt)",
            "Install dpctl from wheels (pip install dpctl), or set GRAPHCAP_SYCL_ROOT to a folder with include/ and lib/.",
        ) from None
    header: Path | None = None
    runtime: Path | None = None
    for file in distribution.files or ():
        if file.name == "sycl.hpp" and file.parent.name == "sycl":
            header = Path(os.path.realpath(str(file.locate())))
        elif file.name == "libsycl.so":
            runtime = Path(os.path.abspath(str(file.locate())))
    if header is None or runtime is None or not header.is_file() or not runtime.exists():
        raise BuildError(
            f"intel-sycl-rt {distribution.version} is installed without its headers or without libsycl.so",
            "Reinstall it (pip install --force-reinstall intel-sycl-rt), or set GRAPHCAP_SYCL_ROOT.",
        )
    return header.parent.parent, runtime, distribution.version


def find_toolchain() -> Toolchain:
    """Compiler, SYCL headers and Python headers of this machine.

    Raises
    ------
    BuildError
        One of them is missing.
    """
    if sys.platform != "linux":
        raise BuildError(f"the native tier is built on Linux only, not on {sys.platform}", "Use the software tier.")
    include, library, runtime = _sycl_root()
    python_include = Path(sysconfig.get_path("include"))
    if not (python_include / "Python.h").is_file():
        raise BuildError("Python's C headers are missing (Python.h)", "Install them (Debian: apt install python3-dev).")
    return Toolchain(_compiler(), include, library, python_include, runtime)


def cache_path(toolchain: Toolchain) -> Path:
    """Where the built extension lies for this user; ``GRAPHCAP_CACHE_DIR`` overrides the folder."""
    named = os.environ.get("GRAPHCAP_CACHE_DIR")
    if named:
        base = Path(named)
    else:
        xdg = os.environ.get("XDG_CACHE_HOME")
        base = (Path(xdg) if xdg else Path.home() / ".cache") / "graphcap"
    return base / "xpu" / toolchain.key() / MODULE_FILE


def packaged_path(toolchain: Toolchain) -> Path:
    """Where a build with ``--in-place`` lies; the key keeps it from serving another runtime or another source."""
    return SOURCE.parent / "prebuilt" / toolchain.key() / MODULE_FILE


def build_extension(toolchain: Toolchain, target: Path) -> Path:
    """Compile the extension to `target`. The file appears complete or not at all, whoever else builds it.

    Raises
    ------
    BuildError
        The compiler failed, or the folder cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as folder:
            output = Path(folder) / MODULE_FILE
            command = [
                *toolchain.compiler,
                *_FLAGS,
                f"-I{toolchain.sycl_include}",
                f"-I{toolchain.python_include}",
                str(SOURCE),
                str(toolchain.sycl_library),
                "-Wl,--strip-all",
                "-o",
                str(output),
            ]
            _compile(command)
            os.replace(output, target)
    except OSError as error:
        raise BuildError(
            f"the folder {target.parent} cannot be written ({error.strerror or error})",
            "Set GRAPHCAP_CACHE_DIR to a folder that can be.",
        ) from error
    return target


def _compile(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise BuildError(
            f"{command[0]} took longer than {_TIMEOUT_S} s", "Build ahead of time; see docs/xpu.md."
        ) from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or ["?"]
        raise BuildError(
            f"{command[0]} failed with status {done.returncode}: {errors[0].strip()}",
            "Use g++ 9 or later, or clang++ 10 or later.",
        )
