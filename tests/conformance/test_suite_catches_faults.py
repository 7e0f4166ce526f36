"""The suite itself: it passes on the CPU backend as it is, and notices each way in which that is broken on purpose."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.mutants import MUTANTS


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Any]]:
    """What the suite says of each mutant."""
    found = subprocess.run(
        [sys.executable, "-m", "tests.conformance.mutants"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    lines = [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]
    return {line["name"]: line for line in lines}


def test_healthy_backend_passes(outcomes: dict[str, dict[str, Any]]) -> None:
    """The control: run the same way, the backend as it is passes."""
    healthy = outcomes["healthy"]
    assert (healthy["code"], healthy["failed"]) == (0, "")
    assert healthy["passed"] > 100


@pytest.mark.parametrize("name", [name for name in MUTANTS if name != "healthy"])
def test_fault_is_noticed(outcomes: dict[str, dict[str, Any]], name: str) -> None:
    """A test of the class that is meant to notice the fault fails (exit code 1: tests ran, and some failed)."""
    outcome = outcomes[name]
    assert outcome["code"] == 1
    assert MUTANTS[name].noticed_by in outcome["failed"]
