"""Every rule of the evidence page has a test here, or a reason beside its number why none can be written."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.driver_rules.child import ROOT
from tests.driver_rules.report import spelled

HERE = Path(__file__).parent
EVIDENCE = {"H1", "H2", "H3", "H4", "DOC", "K", "unknown"}
# Said of things that a client of the driver cannot see.
UNTESTABLE = {
    "S-D48": "about the numbers of the runtime's enum",
    "S-D53": "about what an old framework passed",
}
EXPECTED = (
    {f"S-D{number}" for number in range(1, 53)}
    | {f"E-{number}" for number in range(1, 40)}
    | {f"error-{number}" for number in range(900, 911)}
) - set(UNTESTABLE)


def marks() -> dict[str, set[str]]:
    """The rules that the tests of this folder cite, with the evidence they give, read from the source text."""
    found: dict[str, set[str]] = {}
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "rule":
                continue
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            evidence = given.get("evidence")
            if not node.args or not isinstance(node.args[0], ast.Constant) or not isinstance(evidence, ast.Constant):
                continue  # a table: its rows are seen by the report
            found.setdefault(spelled(str(node.args[0].value)), set()).add(str(evidence.value))
    return found


# Cited in tables, whose rows give rule and evidence.
TABLES = {"S-D8", "S-D9", "S-D10", "S-D11", "S-D12"} | {f"error-{number}" for number in range(900, 911)}


def test_every_rule_is_cited() -> None:
    cited = set(marks()) | TABLES
    assert EXPECTED - cited == set()
    assert cited - EXPECTED == set()


def test_where_the_evidence_is_silent_tests_observe() -> None:
    """And assert nothing of the rule; the others do not observe."""
    for path in sorted(HERE.glob("test_*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            said = [ast.unparse(each) for each in function.decorator_list]
            rules = [each for each in said if each.startswith("rule(")]
            unknown = ["unknown" in each for each in rules]
            observes = any(argument.arg == "observe" for argument in function.args.args)
            assert all(unknown) == observes or not rules, f"{path.name}: {function.name}"
            assert any(unknown) == observes, f"{path.name}: {function.name}"


def test_evidence_is_one_of_the_marks() -> None:
    assert set().union(*marks().values()) <= EVIDENCE


PLAYED = """
import pytest

@pytest.mark.driver_rule("D9", evidence="H1")
def test_holds():
    pass

@pytest.mark.driver_rule("D10", evidence="H3")
@pytest.mark.driver_rule("E-2", evidence="H1")
@pytest.mark.parametrize("n", [1, 2])
def test_broken(n):
    assert n == 1

@pytest.mark.driver_rule("D10", evidence="H3")
def test_also_holds():
    pass

@pytest.mark.driver_rule("D7", evidence="unknown")
def test_observed(record_property):
    record_property("observed", {"code": 900})

@pytest.mark.driver_rule("E-20", evidence="H4")
def test_skipped():
    pytest.skip("needs two devices")

@pytest.fixture
def cannot():
    raise RuntimeError("no bench")

@pytest.mark.driver_rule("D3", evidence="H3")
def test_not_carried_out(cannot):
    pass
"""


@pytest.mark.parametrize("processes", [0, 2])
def test_the_report(tmp_path: Path, processes: int) -> None:
    """Outcomes become verdicts on rules, in one process and in several."""
    (tmp_path / "test_played.py").write_text(PLAYED)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    driver_rule: a rule\n")
    out = tmp_path / "report.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.driver_rules.report", "-p", "no:cacheprovider"]
    command += ["--rootdir", str(tmp_path), "-c", str(tmp_path / "pytest.ini"), "--driver-rule-report", str(out)]
    command += ["-n", str(processes)] if processes else []
    done = subprocess.run([*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert "2 contradicted, 1 error, 1 confirmed, 1 observed, 1 not tested" in done.stdout, done.stdout + done.stderr
    rules = {entry["rule"]: entry for entry in json.loads(out.read_text())["rules"]}
    assert list(rules) == ["E-2", "E-20", "S-D3", "S-D7", "S-D9", "S-D10"]
    assert {rule: entry["outcome"] for rule, entry in rules.items()} == {
        "E-2": "contradicted",
        "E-20": "not tested",
        "S-D3": "error",
        "S-D7": "observed",
        "S-D9": "confirmed",
        "S-D10": "contradicted",
    }
    assert rules["S-D7"]["detail"][0]["observed"] == [{"code": 900}]
    assert "needs two devices" in rules["E-20"]["detail"][0]["reason"]
    assert rules["S-D10"]["evidence"] == ["H3"]
    assert any("assert 2 == 1" in entry.get("failure", "") for entry in rules["S-D10"]["detail"])
