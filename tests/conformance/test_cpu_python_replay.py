"""The CPU backend with its plain Python replay, which serves where the native one was not built."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from graphcap.testing import conformance_classes
from tests.conformance.cpu_fixtures import CPUFixtures


@pytest.fixture(autouse=True)
def python_replay(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Choose the plain replay."""
    monkeypatch.setenv("GRAPHCAP_CPU_REPLAY", "python")
    yield


globals().update(conformance_classes(CPUFixtures))
