"""Set-up for all tests: the emulated CUDA driver is loaded before anything imports ``cuda.*``.

A driver that does not build stops nothing here: the header says so, and the tests that need it fail on its absence.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import skips
from tests.emulated_device import loader
from tests.emulated_device.cupy_tree import pins

settings.register_profile("graphcap", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("graphcap")

_driver = pytest.StashKey[str]()


HERE = Path(__file__).resolve().parent
_WITHOUT_DRIVER = {"cpu_array", "cpu_native", "dot", "examples", "inspection", "memory", "topology", "xpu"}
"""Folders whose tests never touch CUDA: run alone, they need not wait for the driver to be built."""


def _folder(arg: str) -> str | None:
    """The folder of ``tests/`` that an argument of pytest names, if it names one."""
    path = Path(arg.split("::")[0]).resolve()
    return path.parts[len(HERE.parts)] if HERE in path.parents else None


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_SkipGuard(), "graphcap-skips")
    if all(_folder(arg) in _WITHOUT_DRIVER for arg in config.args):
        config.stash[_driver] = "not loaded: these tests do not use it"
        return
    os.environ.setdefault("GRAPHCAP_EMULATED_PROTECTION", "1")  # the host may not touch device memory
    try:
        config.stash[_driver] = loader.load()
    except loader.BuildError as error:
        config.stash[_driver] = f"NOT BUILT: {error}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """CuPy's tests run when they are named, in a run of their own.

    An imported CuPy takes part in what graphcap does from then on, which tests of failures in every driver call do not expect.
    """
    named = any(_folder(arg) == "cupy" for arg in config.args)
    return True if collection_path == HERE / "cupy" and not named else None


def pytest_report_header(config: pytest.Config) -> list[str]:
    lines = [f"CUDA driver: {config.stash[_driver]}"]
    if config.stash[_driver] == "emulated":
        named = any(_folder(arg) == "cupy" for arg in config.args)
        lines.append(pins.LABEL if named else "CuPy: its tests are a run of their own, pytest tests/cupy")
    return lines


class _SkipGuard:
    """Fails a run in which a test skips for a reason that nobody expects (``tests/skips.py``)."""

    def __init__(self) -> None:
        self.unexpected: list[tuple[str, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
            reason = str(report.longrepr[2]).removeprefix("Skipped: ")
            if not skips.is_allowed(reason):
                self.unexpected.append((report.nodeid, reason))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unexpected and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for nodeid, reason in self.unexpected:
            terminalreporter.write_line(f"unexpected skip: {nodeid}: {reason}", red=True)
