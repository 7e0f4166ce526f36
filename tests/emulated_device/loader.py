"""Builds the emulated driver and puts it where NVIDIA's bindings find it.

A library that is already loaded under the soname ``libcuda.so.1`` is what ``cuda.bindings`` then gets, so :func:`load` has to
run before anything imports ``cuda.*``.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import functools
import hashlib
import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator

FOLDER = pathlib.Path(__file__).resolve().parent
DRIVER = FOLDER / "driver"
KERNELS = FOLDER / "kernels"
CACHE = FOLDER.parents[1] / ".cache" / "emulated_device"
SONAME = "libcuda.so.1"

#: The library that was loaded, or None with a real driver or before :func:`load`.
loaded_library: pathlib.Path | None = None
_mode: str | None = None
_handle: object = None  # keeps the library open


class BuildError(RuntimeError):
    """The host compiler refused; the message holds its output."""


@functools.cache
def include_folder() -> pathlib.Path:
    """The folder of ``cuda.h`` in the ``nvidia-cuda-runtime`` wheel."""
    for name in ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"):
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in distribution.files or ():
            if file.name == "cuda.h":
                return pathlib.Path(str(distribution.locate_file(file))).resolve().parent
    raise BuildError("cuda.h not found: the emulated driver is built against the nvidia-cuda-runtime wheel")


def compiler() -> str:
    """The host C++ compiler: ``CXX``, else g++."""
    found = shutil.which(os.environ.get("CXX", "g++"))
    if found is None:
        raise BuildError("no C++ compiler: install g++, or set CXX")
    return found


@functools.cache
def _compiler_version(command: str) -> str:
    return subprocess.run([command, "--version"], check=True, capture_output=True, text=True).stdout


def _clean_environment() -> dict[str, str]:
    """Without what our own libraries put in the way of the compiler."""
    return {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "LD_PRELOAD")}


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, env=_clean_environment(), check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def _digest(files: list[pathlib.Path], *words: str) -> str:
    digest = hashlib.sha256()
    for word in words:
        digest.update(word.encode() + b"\0")
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:20]


def build(sanitize: str | None = None) -> pathlib.Path:
    """Build the driver, unless this source was built before.

    Parameters
    ----------
    sanitize
        A value for the compiler's ``-fsanitize``, for example ``"address,undefined"``. Left out, it is
        ``GRAPHCAP_EMULATED_SANITIZE``, else none. The process must have been started with the sanitizer's library
        preloaded.

    Returns
    -------
    pathlib.Path
        The library, in a folder of its own under ``.cache/emulated_device`` named after the hash of its sources.

    Raises
    ------
    BuildError
        No compiler, no ``cuda.h``, or the compiler's own refusal.
    """
    sanitize = sanitize or os.environ.get("GRAPHCAP_EMULATED_SANITIZE") or None
    sources = sorted(DRIVER.glob("*.cpp"))
    command = compiler()
    flags = ["-std=c++17", "-fPIC", "-fno-semantic-interposition", "-Wall", "-Wextra", f"-I{include_folder()}"]
    flags += (
        ["-g", "-O1", f"-fsanitize={sanitize}", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined"]
        if sanitize
        else ["-O2"]
    )
    headers = [*DRIVER.glob("*.h"), DRIVER / "exports.map", KERNELS / "graphcap_kernel.h"]
    key = _digest(
        [*sources, *headers],
        _compiler_version(command),
        *flags,
        (include_folder() / "cuda.h").read_text("latin-1")[:40000],
    )
    target = CACHE / key / SONAME
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _one_builder():
        if target.exists():
            return target
        objects = _objects(command, flags, sources, headers)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            made = pathlib.Path(scratch) / SONAME
            link = [command, "-shared", f"-Wl,-soname,{SONAME}", f"-Wl,--version-script={DRIVER / 'exports.map'}"]
            link += ["-o", str(made), *map(str, objects), "-ldl", "-lpthread", "-Wl,-z,nodelete"]
            _run([*link, f"-fsanitize={sanitize}"] if sanitize else link)
            os.replace(made, target)  # whole or not at all
    return target


@contextlib.contextmanager
def _one_builder() -> Iterator[None]:
    """Let one process build at a time; the others find what it made."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _objects(
    command: str, flags: list[str], sources: list[pathlib.Path], headers: list[pathlib.Path]
) -> list[pathlib.Path]:
    """Compile source files, as many at a time as there are processors."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        return list(pool.map(lambda source: _object(command, flags, source, headers), sources))


def _object(command: str, flags: list[str], source: pathlib.Path, headers: list[pathlib.Path]) -> pathlib.Path:
    """Compile one source file, unless it was compiled before with the same headers and flags."""
    made = CACHE / "objects" / f"{source.stem}-{_digest([source, *headers], command, *flags)}.o"
    if not made.exists():
        made.parent.mkdir(exist_ok=True)
        draft = made.with_suffix(f".{os.getpid()}")
        _run([command, *flags, "-c", str(source), "-o", str(draft)])
        os.replace(draft, made)
    return made


def build_kernels(source: pathlib.Path) -> pathlib.Path:
    """Build a kernel file for the emulated device.

    Parameters
    ----------
    source
        A file in the common subset of C and CUDA C that includes ``graphcap_kernel.h``.

    Returns
    -------
    pathlib.Path
        A host shared object that ``cuModuleLoadData`` and ``cuLibraryLoadData`` take.

    Raises
    ------
    BuildError
        The compiler's refusal.
    """
    command = compiler()
    flags = [
        "-x",
        "c++",
        "-std=c++17",
        "-O2",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-fno-gnu-unique",
        "-fno-strict-aliasing",
    ]
    flags += ["-fwrapv", "-ffp-contract=off", "-Wl,-Bsymbolic", f"-I{KERNELS}"]
    key = _digest([source, KERNELS / "graphcap_kernel.h"], _compiler_version(command), *flags)
    target = CACHE / "kernels" / key / f"{source.stem}.so"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        made = pathlib.Path(scratch) / target.name
        _run([command, *flags, str(source), "-o", str(made)])
        os.replace(made, target)
    return target


def _real_driver_answers() -> bool:
    """Asks in a child process, so that nothing is loaded here."""
    if not (os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")):
        return False
    program = (
        "import cffi, sys\n"
        "ffi = cffi.FFI(); ffi.cdef('int cuInit(unsigned); int cuDeviceGetCount(int *);')\n"
        "lib = ffi.dlopen('libcuda.so.1'); n = ffi.new('int *')\n"
        "sys.exit(0 if lib.cuInit(0) == 0 and lib.cuDeviceGetCount(n) == 0 and n[0] > 0 else 1)\n"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0


def load() -> str:
    """Make the driver that the tests are to use the process's ``libcuda.so.1``.

    ``GRAPHCAP_TEST_DRIVER`` decides: ``emulated``, ``real``, or ``auto`` (the default), which is real where a GPU answers.

    Returns
    -------
    str
        ``"emulated"`` or ``"real"``. A second call does nothing and answers the same.

    Raises
    ------
    ValueError
        ``GRAPHCAP_TEST_DRIVER`` holds another word.
    RuntimeError
        ``cuda.bindings`` was imported before, so a driver is loaded already.
    """
    global _handle, _mode, loaded_library
    if _mode is not None:
        return _mode
    wanted = os.environ.get("GRAPHCAP_TEST_DRIVER", "auto").lower()
    if wanted not in ("emulated", "real", "auto"):
        raise ValueError(f"GRAPHCAP_TEST_DRIVER={wanted!r}: expected emulated, real or auto")
    if wanted == "real" or (wanted == "auto" and _real_driver_answers()):
        _mode = "real"
        return _mode
    if any(name.startswith("cuda.bindings.") and name.endswith("driver") for name in sys.modules):
        raise RuntimeError("cuda.bindings is imported already: load the emulated driver first")
    import cffi

    library = build()
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(
        [str(library.parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    )
    ffi = cffi.FFI()
    _handle = ffi.dlopen(str(library), ffi.RTLD_NOW | ffi.RTLD_GLOBAL)
    loaded_library = library
    _mode = "emulated"
    return _mode
