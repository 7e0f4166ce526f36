"""The OpenCL CPU device is made known before anything asks dpctl for devices; without dpctl everything here is skipped.

On a machine with an Intel GPU, ``ONEAPI_DEVICE_SELECTOR=level_zero:gpu`` in the environment runs the same tests there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.backends import xpu_missing

_NEED_NO_DPCTL = ("test_discovery.py", "test_docs.py")


def pytest_configure(config: pytest.Config) -> None:
    """The mark of tests that need neither dpctl nor a device."""
    config.addinivalue_line("markers", "needs_no_dpctl: an XPU test that runs without dpctl")


class _SkippedModule(pytest.Module):
    """A test module that is not even imported, since that needs dpctl; the summary shows the reason."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        pytest.skip(xpu_missing() or "", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Leave out modules that cannot be imported here."""
    if xpu_missing() is None or module_path.name in _NEED_NO_DPCTL or module_path.parent != Path(__file__).parent:
        return None
    made: pytest.Module = _SkippedModule.from_parent(parent, path=module_path)
    return made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip by name where dpctl or the OpenCL CPU device cannot be had; tests of the discovery itself still run."""
    reason = xpu_missing()
    if reason is None:
        return
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("needs_no_dpctl") is None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(params=["xpu", "xpu_software"])
def device(request: pytest.FixtureRequest) -> str:
    """Each test runs on both tiers."""
    from tests.xpu.tiers import register_software_tier

    register_software_tier()
    return str(request.param)


@pytest.fixture
def stream(device: str) -> Any:
    """A new stream."""
    import graphcap

    make: Any = graphcap.Stream  # to type checkers it is an abstract class; calling it builds the backend's own
    return make(device)
