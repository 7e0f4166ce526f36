"""The fuzzer runs for a moment, what it found before is read again, and it does find faults that are there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import graphcap.dot
from graphcap.topology import GraphTopology

from . import fuzz


def test_what_was_found_stays_mended() -> None:
    for path in sorted(fuzz.SEEDS.glob("*.dot")):
        assert fuzz.fault(path.read_bytes()) is None, path.name


def test_a_short_run_finds_nothing() -> None:
    assert fuzz.run(3.0, seed=20261201) == []


@pytest.mark.slow
def test_a_long_run_finds_nothing() -> None:
    assert fuzz.run(120.0, seed=6) == []


def test_the_fuzzer_sees_a_planted_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[[bytes], GraphTopology] = graphcap.dot.read

    def planted(data: bytes) -> GraphTopology:
        if b"KERNEL\n| {ID | 0 (topoId: 7)" in data and data.count(b"subgraph") > 2:
            raise IndexError("planted")
        return real(data)

    monkeypatch.setattr(graphcap.dot, "read", planted)
    found = fuzz.run(20.0, seed=1, first=True)
    assert any("planted" in wrong for _, wrong in found)
