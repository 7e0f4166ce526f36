"""CuPy's wheel and sdist: got by pip, checked against their pins, unpacked once."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator

from . import pins

CACHE = pathlib.Path(__file__).resolve().parents[3] / ".cache" / "cupy_tree"


class Unavailable(RuntimeError):
    """The tree cannot be had on this machine: no pinned wheel for it, or no way to the package index."""


class ArchiveError(RuntimeError):
    """An archive is not the one that is pinned."""


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Let one process fetch, unpack and build; the others wait and find what it made."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def wheel_name() -> str:
    """The file name of the wheel for this interpreter and machine.

    Raises
    ------
    Unavailable
        None is pinned: another interpreter than CPython 3.10 to 3.13, another machine than Linux on x86-64, a free-threaded
        build.
    """
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    name = f"{pins.WHEEL.replace('-', '_')}-{pins.VERSION}-{tag}-{tag}-manylinux2014_{platform.machine()}.whl"
    threaded = sys.version_info < (3, 13) or getattr(sys, "_is_gil_enabled", lambda: True)()
    if (
        sys.implementation.name != "cpython"
        or not sys.platform.startswith("linux")
        or not threaded
        or name not in pins.SHA256
    ):
        raise Unavailable(f"no wheel of CuPy {pins.VERSION} is pinned for {tag} on {sys.platform} {platform.machine()}")
    return name


def sdist_name() -> str:
    """The file name of the sdist."""
    return f"{pins.SDIST}-{pins.VERSION}.tar.gz"


def wheel() -> pathlib.Path:
    """The folder of the unpacked wheel, fetched when it is not there. Call it under :func:`one_at_a_time`.

    Raises
    ------
    Unavailable
        No wheel for this machine, or pip cannot get it.
    ArchiveError
        What pip got is not what is pinned.
    """
    name = wheel_name()
    folder = CACHE / "wheels" / name.removesuffix(".whl")
    if not folder.exists():
        archive = _archive(name, ["--only-binary", ":all:", f"{pins.WHEEL}=={pins.VERSION}"], {})
        with whole_folder(folder) as draft, zipfile.ZipFile(archive) as opened:
            opened.extractall(draft)
    return folder


def sdist() -> pathlib.Path:
    """The folder of the unpacked sdist, fetched when it is not there. Call it under :func:`one_at_a_time`.

    Raises
    ------
    Unavailable
        pip cannot get it.
    ArchiveError
        What pip got is not what is pinned.
    """
    name = sdist_name()
    folder = CACHE / "sdists" / name.removesuffix(".tar.gz")
    if not folder.exists():
        # pip asks an sdist for its metadata, for which CuPy's build looks for a CUDA installation: this setting, which CuPy has
        # for the builds of its documentation, makes it do without.
        wanted = ["--no-binary", pins.SDIST, f"{pins.SDIST}=={pins.VERSION}"]
        archive = _archive(name, wanted, {"READTHEDOCS": "True"})
        with whole_folder(folder) as draft, tarfile.open(archive) as opened:
            opened.extraction_filter = getattr(
                tarfile, "data_filter", None
            )  # not in the first releases of 3.10 and 3.11
            opened.extractall(draft)
    return folder / folder.name


def _archive(name: str, wanted: list[str], settings: dict[str, str]) -> pathlib.Path:
    target = CACHE / "archives" / name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            _pip_download(wanted, scratch, settings)
            got = pathlib.Path(scratch) / name
            if not got.exists():
                raise ArchiveError(f"pip was asked for {wanted[-1]} and brought {os.listdir(scratch)}, not {name}")
            os.replace(got, target)  # whole or not at all
    found = hashlib.sha256(target.read_bytes()).hexdigest()
    if found != pins.SHA256[name]:
        target.unlink()
        raise ArchiveError(f"{name}: SHA-256 is {found}, pinned is {pins.SHA256[name]}; the file was removed")
    return target


def _pip_download(wanted: list[str], folder: str, settings: dict[str, str]) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--dest",
        folder,
    ]
    environment = {**os.environ, **settings}
    try:
        done = subprocess.run(
            [*command, *wanted], capture_output=True, text=True, env=environment, timeout=900, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"pip did not bring {wanted[-1]} within 15 minutes") from None
    if done.returncode:
        raise Unavailable(f"pip cannot bring {wanted[-1]}: {_last_lines(done.stderr)}")


def _last_lines(text: str) -> str:
    return " / ".join([line for line in text.splitlines() if line.startswith("ERROR")] or text.splitlines()[-3:])


@contextlib.contextmanager
def whole_folder(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder that appears under its name when it is complete, and not before."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = pathlib.Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        yield draft
        draft.chmod(0o755)
        os.replace(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
