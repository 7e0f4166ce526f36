"""The CPU backend with its plain Python replay, which serves where the native one was not built.

Only the classes of behaviours that a replay takes part in.
"""

from __future__ import annotations

import pytest

from graphcap.testing import conformance_classes
from tests.conformance.cpu_fixtures import CPUFixtures


@pytest.fixture(autouse=True)
def python_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose the plain replay."""
    monkeypatch.setenv("GRAPHCAP_CPU_REPLAY", "python")


_BY_REPLAY = ("TestRecording", "TestForks", "TestLifetimes", "TestGraphs")
_classes = conformance_classes(CPUFixtures)
globals().update({name: _classes[name] for name in _BY_REPLAY})
