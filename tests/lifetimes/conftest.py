"""Each test that takes ``fx`` runs on every device; XPU is skipped by name where it cannot be had."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from graphcap.testing import BackendFixtures
from tests.backends import DEVICES, fixtures_of


@pytest.fixture(params=DEVICES)
def fx(request: pytest.FixtureRequest) -> Iterator[BackendFixtures]:
    """A backend under test."""
    yield from _started(request.param)


@pytest.fixture(params=[device for device in DEVICES if device != "cpu"])
def with_addresses(request: pytest.FixtureRequest) -> Iterator[BackendFixtures]:
    """A backend whose kernels can be given bare addresses."""
    yield from _started(request.param)


def _started(name: str) -> Iterator[BackendFixtures]:
    found = fixtures_of(name)
    found.start(found.seeds[0])
    try:
        yield found
    finally:
        found.let_go()
        found.finish()
