"""Set-up for all tests: the emulated CUDA driver is loaded before anything imports ``cuda.*``.

A driver that does not build stops nothing here: the header says so, and the tests that need it fail on its absence.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.emulated_device import loader

settings.register_profile("graphcap", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("graphcap")

_driver = pytest.StashKey[str]()


HERE = Path(__file__).resolve().parent
_WITHOUT_DRIVER = {"callables", "cpu_array", "cpu_native", "dot", "examples", "inspection", "memory", "topology", "xpu"}
"""Folders whose tests never touch CUDA: run alone, they need not wait for the driver to be built."""


def _folder(arg: str) -> str | None:
    """The folder of ``tests/`` that an argument of pytest names, if it names one."""
    path = Path(arg.split("::")[0]).resolve()
    return path.parts[len(HERE.parts)] if HERE in path.parents else None


def pytest_configure(config: pytest.Config) -> None:
    if all(_folder(arg) in _WITHOUT_DRIVER for arg in config.args):
        config.stash[_driver] = "not loaded: these tests do not use it"
        return
    os.environ.setdefault("GRAPHCAP_EMULATED_PROTECTION", "1")  # the host may not touch device memory
    try:
        config.stash[_driver] = loader.load()
    except loader.BuildError as error:
        config.stash[_driver] = f"NOT BUILT: {error}"


def pytest_report_header(config: pytest.Config) -> str:
    return f"CUDA driver: {config.stash[_driver]}"
