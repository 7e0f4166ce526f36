"""A pytest plug-in for runs of CuPy's own tests: gives them the tree, a time limit, and writes down how each test ended.

Settings come by the environment, as the run is another process: ``GRAPHCAP_UPSTREAM_OUT`` is the file to write to (a line for
each test), ``GRAPHCAP_UPSTREAM_LEFT_OUT`` patterns of tests that are not run, ``GRAPHCAP_UPSTREAM_LIMIT`` seconds after which no
further test is begun.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from tests.emulated_device import cupy_tree

_OUT = Path(os.environ["GRAPHCAP_UPSTREAM_OUT"])
_LEFT_OUT = [re.compile(pattern) for pattern in json.loads(os.environ["GRAPHCAP_UPSTREAM_LEFT_OUT"])]
_LIMIT = float(os.environ["GRAPHCAP_UPSTREAM_LIMIT"])
_begun = time.monotonic()

cupy_tree.load()  # before CuPy's own conftest and tests import it


@pytest.hookimpl(trylast=True)  # after those that are left out by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if any(pattern.search(item.nodeid) for pattern in _LEFT_OUT)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
    with _OUT.open("a") as out:
        out.write(json.dumps({"selected": len(items)}) + "\n")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        reason = "" if outcome == "passed" else _reason(report)
        with _OUT.open("a") as out:
            out.write(json.dumps({"test": report.nodeid, "outcome": outcome, "reason": reason}) + "\n")


def _reason(report: pytest.TestReport) -> str:
    """The line that says most."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr)[:500]


def pytest_runtest_logfinish(nodeid: str, location: tuple[str, int | None, str]) -> None:
    global _session
    if _session is not None and time.monotonic() - _begun > _LIMIT:
        _session.shouldstop = f"the limit of {_LIMIT:.0f} s"


_session: pytest.Session | None = None


def pytest_sessionstart(session: pytest.Session) -> None:
    global _session
    _session = session
