"""Fixtures of the rule tests: a context, a bench, a place for observations.

Nothing here imports ``cuda`` before a fixture runs: this file is read before the tests' set-up has chosen the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.driver_rules import report

if TYPE_CHECKING:
    from tests.driver_rules.bench import Bench, OtherThread


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Brings the reporter along where this folder is named on the command line; elsewhere it is loaded by ``-p``."""
    if not pluginmanager.is_registered(report):
        pluginmanager.register(report, report.__name__)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "driver_rule(rule, evidence): the rule a test is about, and how well it is known"
    )


@pytest.fixture(scope="session")
def device() -> Any:
    """The first device."""
    from cuda.bindings import driver as cu

    from tests.driver_rules.driving import ok

    ok(cu.cuInit(0))
    return ok(cu.cuDeviceGet(0))


@pytest.fixture(scope="session")
def session_context(device: Any) -> Iterator[Any]:
    """The first device's primary context."""
    from cuda.bindings import driver as cu

    from tests.driver_rules.driving import ok

    yield ok(cu.cuDevicePrimaryCtxRetain(device))
    ok(cu.cuDevicePrimaryCtxRelease(device))


@pytest.fixture
def bench(session_context: Any, device: Any) -> Iterator[Bench]:
    """A fresh bench. After the test no stream of it may be left capturing."""
    from cuda.bindings import driver as cu

    from tests.driver_rules.bench import Bench
    from tests.driver_rules.driving import ok

    ok(cu.cuCtxSetCurrent(session_context))
    made = Bench(session_context, device)
    yield made
    left = made.close()
    assert not left, f"the test left something behind: {left}"


@pytest.fixture
def other(bench: Bench) -> OtherThread:
    """A second thread."""
    return bench.other_thread()


@pytest.fixture
def observe(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Notes what the driver did where the evidence is silent: ``observe(code=900, status=2)``; asserts nothing."""

    def note(**values: Any) -> None:
        record_property("observed", {name: int(v) if isinstance(v, int) else str(v) for name, v in values.items()})

    return note


@pytest.fixture
def two_devices() -> Iterator[tuple[Any, Any]]:
    """The primary contexts of two devices; skips where there is one alone."""
    from cuda.bindings import driver as cu

    from tests.driver_rules.driving import ok

    ok(cu.cuInit(0))
    if ok(cu.cuDeviceGetCount()) < 2:
        pytest.skip("needs two devices")
    devices = [ok(cu.cuDeviceGet(number)) for number in (0, 1)]
    first, second = (ok(cu.cuDevicePrimaryCtxRetain(each)) for each in devices)
    yield first, second
    ok(cu.cuCtxSetCurrent(first))
    for each in devices:
        ok(cu.cuDevicePrimaryCtxRelease(each))
