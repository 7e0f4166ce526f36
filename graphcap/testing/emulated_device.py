"""A pytest plug-in: another project's CUDA graph tests on the emulated device, on machines without a GPU.

The emulated device lies in graphcap's repository, not in its wheel. With a checkout of it in ``$GRAPHCAP``::

    pip install -e "$GRAPHCAP[test]"
    pytest -p graphcap.testing.emulated_device --emulated-device=cupy tests/

What is loaded, each with what stands before it:

``driver``
    ``libcuda.so.1``: for ``cuda.bindings.driver``, ``cuda.core`` and graphcap, with kernels from ready images.
``kernels``
    ``libnvrtc.so.13`` too: kernels from CUDA C++ text, by ``cuda.core.Program`` or ``cuda.bindings.nvrtc``, built by g++.
``cupy``
    ``import cupy`` too: the pinned release with its runtime module rebuilt, on stand-ins for NVIDIA's libraries.

It is loaded before pytest imports any test, because the first library of a name is the one that a process keeps. Where a GPU
answers (or ``GRAPHCAP_TEST_DRIVER=real``) nothing is loaded and the same tests run on it. A test may ask for the fixture
:func:`emulated_device`: the device's controls (``seed``, ``counts``, ``calls``, ``fail``, …), or a skip on a GPU.

What a green run says: the program and its use of the API are right. It does not say that they are right on a GPU; what the
device leaves out (inline PTX, dynamic parallelism, textures, grid-wide synchronisation, several GPUs' peer copies by NVLink,
cuSOLVER, cuSPARSE, NCCL, jitify, timing) is listed in ``tests/emulated_device/README.md`` and ``docs/emulated-cupy.md``.

Raises
------
pytest.UsageError
    No checkout is found, or what was asked for cannot be built or had here; the message says what is missing.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, Final

import pytest

__all__ = ["FOLDER_VARIABLE", "PARTS", "emulated_device", "folder"]

PARTS: Final = ("driver", "kernels", "cupy")
FOLDER_VARIABLE: Final = "GRAPHCAP_EMULATED_DEVICE"
"""The environment variable that names the folder ``tests/emulated_device`` of a checkout."""

_NAME: Final = "graphcap_emulated_device"  # not `tests`: that name is the other project's
_label = pytest.StashKey[str]()


def folder() -> Path:
    """Where the emulated device lies: what the environment says, else the checkout that graphcap is imported from.

    Raises
    ------
    FileNotFoundError
        It is in neither place.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    found = Path(named) if named else Path(__file__).resolve().parents[2] / "tests" / "emulated_device"
    if (found / "loader.py").is_file():
        return found
    raise FileNotFoundError(
        f"no emulated device in {found}: it is not in graphcap's wheel. Install graphcap from a checkout (pip install -e), "
        f"or set {FOLDER_VARIABLE} to the folder tests/emulated_device of one."
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("graphcap's emulated device")
    group.addoption("--emulated-device", choices=PARTS, help="what to load (default: the ini option, else driver)")
    group.addoption(
        "--emulated-seed", type=int, metavar="N", help="the order of work: another legal one for each number"
    )
    parser.addini("emulated_device", f"what of the emulated device to load: {', '.join(PARTS)}", default="driver")


def pytest_configure(config: pytest.Config) -> None:
    asked = config.getoption("--emulated-device") or str(config.getini("emulated_device"))
    if asked not in PARTS:
        raise pytest.UsageError(f"emulated_device = {asked}: use one of {', '.join(PARTS)}.")
    os.environ.setdefault("GRAPHCAP_EMULATED_PROTECTION", "1")  # the host may not touch device memory
    try:
        config.stash[_label] = _load(asked)
    except Exception as error:
        raise pytest.UsageError(f"the emulated device ({asked}) cannot be set up: {error}") from error
    seed = config.getoption("--emulated-seed")
    if seed is not None and _is_emulated():
        _part("control").seed(seed)


def pytest_report_header(config: pytest.Config) -> str:
    return f"CUDA device: {config.stash[_label]}"


@pytest.fixture
def emulated_device() -> Any:
    """The controls of the emulated device: order of work, counts of live handles, log of calls, failures to inject."""
    if not _is_emulated():
        pytest.skip("needs the emulated device, and a real GPU answers")
    return _part("control")


def _load(asked: str) -> str:
    if _part("loader").load() == "real":
        return "a real GPU"
    if asked == "driver":
        return "emulated"
    if asked == "kernels":
        _part("kernel_library.build").load()
        return "emulated, kernels built by the host compiler"
    tree = _part("cupy_tree")
    tree.load()
    return f"emulated, {tree.label()}"


def _is_emulated() -> bool:
    return bool(_part("loader").load() == "emulated")


def _part(name: str) -> Any:
    """A module of the emulated device."""
    if _NAME not in sys.modules:
        home = folder()
        spec = importlib.util.spec_from_file_location(
            _NAME, home / "__init__.py", submodule_search_locations=[str(home)]
        )
        assert spec is not None, "the file is there"
        assert spec.loader is not None, "as for every file"
        package = importlib.util.module_from_spec(spec)
        sys.modules[_NAME] = package
        spec.loader.exec_module(package)
    return importlib.import_module(f"{_NAME}.{name}")
