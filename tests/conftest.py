"""Set-up for all tests: the emulated CUDA driver is loaded before anything imports ``cuda.*``.

A driver that does not build stops nothing here: the header says so, and the tests that need it fail on its absence.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.emulated_device import loader

settings.register_profile("graphcap", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("graphcap")

_driver = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    try:
        config.stash[_driver] = loader.load()
    except loader.BuildError as error:
        config.stash[_driver] = f"NOT BUILT: {error}"


def pytest_report_header(config: pytest.Config) -> str:
    return f"CUDA driver: {config.stash[_driver]}"
