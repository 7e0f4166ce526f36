"""Set-up for all tests: the emulated CUDA driver is loaded before anything imports ``cuda.*``."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("graphcap", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("graphcap")


def pytest_configure(config: pytest.Config) -> None:
    if (Path(__file__).parent / "emulated_device" / "loader.py").exists():
        from tests.emulated_device import loader

        loader.load()
