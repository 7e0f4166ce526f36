"""A pytest plugin that turns the outcomes of the rule tests into a report: rule by rule, confirmed or contradicted.

``pytest -p tests.driver_rules.report --driver-rule-report FILE tests/driver_rules`` writes a JSON object::

    {"driver": {...}, "rules": [{"rule": "S-D15", "evidence": ["H1"], "outcome": "confirmed", "detail": [...]}]}

Outcomes of a rule: ``contradicted`` (a test of it failed), ``error`` (a test of it could not be carried out),
``confirmed`` (every test of it passed), ``observed`` (its evidence is "unknown": what the driver did is in the detail,
nothing was asserted), ``not tested`` (skipped; the detail says why). Each entry of ``detail`` has the test's id, its
evidence, its outcome, what it observed, and the first lines of a failure.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

MARK = "driver_rule"
OPTION = "--driver-rule-report"
WORST_FIRST = ("contradicted", "error", "confirmed", "observed", "not tested")


def spelled(rule: str) -> str:
    """The full name of a rule: ``D15`` of the semantics page is S-D15; E-3 and error-905 stay as they are."""
    return f"S-{rule}" if rule[:1] == "D" else rule


def rules_of(item: pytest.Item) -> list[tuple[str, str]]:
    """The (rule, evidence) pairs that a test's markers give."""
    found = []
    for mark in item.iter_markers(MARK):
        if len(mark.args) != 1 or set(mark.kwargs) != {"evidence"}:
            raise pytest.UsageError(f'{item.nodeid}: write @pytest.mark.{MARK}("D15", evidence="H1")')
        found.append((spelled(str(mark.args[0])), str(mark.kwargs["evidence"])))
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        OPTION, metavar="FILE", default=None, help="write what the rule tests found, rule by rule, as JSON"
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    report = (yield).get_result()
    rules = rules_of(item)
    if rules:  # travels with the report, also from a worker process to the controller
        report.user_properties.append(("driver_rules", rules))


class Report:
    """Collects outcomes, writes the file at the end of the session."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.by_rule: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties = dict(report.user_properties)
        if "driver_rules" not in properties or (report.when != "call" and report.passed):
            return
        for rule, evidence in properties["driver_rules"]:  # type: ignore[attr-defined]  # typed object, is a list
            entry: dict[str, Any] = {"test": report.nodeid, "evidence": evidence}
            entry["outcome"] = outcome_of(report, evidence)
            entry["observed"] = [value for name, value in report.user_properties if name == "observed"]
            if report.failed:
                entry["failure"] = str(report.longreprtext)[-2000:]
            elif report.skipped and isinstance(report.longrepr, tuple):
                entry["reason"] = report.longrepr[2]
            self.by_rule[rule].append(entry)

    def pytest_sessionfinish(self) -> None:
        rules = [
            {
                "rule": rule,
                "evidence": sorted({entry["evidence"] for entry in entries}),
                "outcome": min((entry["outcome"] for entry in entries), key=WORST_FIRST.index),
                "detail": entries,
            }
            for rule, entries in sorted(self.by_rule.items(), key=lambda pair: in_order(pair[0]))
        ]
        whole = {"driver": driver_facts(), "rules": rules}
        self.path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        counts = dict.fromkeys(WORST_FIRST, 0)
        for entries in self.by_rule.values():
            counts[min((entry["outcome"] for entry in entries), key=WORST_FIRST.index)] += 1
        said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        terminalreporter.write_line(f"driver rules: {said}; written to {self.path}")


def outcome_of(report: pytest.TestReport, evidence: str) -> str:
    """What one phase of one test says about its rules."""
    if report.skipped:
        return "not tested"
    if report.failed:
        return "contradicted" if report.when == "call" else "error"
    return "observed" if evidence == "unknown" else "confirmed"


def in_order(rule: str) -> tuple[str, int]:
    """Sorts S-D9 before S-D10."""
    letters = rule.rstrip("0123456789")
    return letters, int(rule[len(letters) :] or 0)


def driver_facts() -> dict[str, Any]:
    """Which driver answered: its version, its first device's name, how it was chosen."""
    facts: dict[str, Any] = {"chosen_by": os.environ.get("GRAPHCAP_TEST_DRIVER", "auto")}
    try:
        from cuda.bindings import driver as cu  # after the tests' own set-up has chosen the driver

        from tests.driver_rules import emulator

        cu.cuInit(0)
        facts["emulated"] = emulator.is_emulated()
        facts["version"] = cu.cuDriverGetVersion()[1]
        code, name = cu.cuDeviceGetName(128, 0)
        facts["device"] = name.split(b"\0")[0].decode() if int(code) == 0 else None
    except Exception as why:  # without a driver there may still be a report: of what could not be tested
        facts["error"] = str(why)
    return facts


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption(OPTION, default=None)
    if path and not hasattr(config, "workerinput"):  # with several processes the controller alone writes
        config.pluginmanager.register(Report(Path(path)), "driver-rule-report")
