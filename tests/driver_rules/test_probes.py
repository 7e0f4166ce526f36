"""The probes themselves: every row is asked and recorded, a crash or a hang costs one row, and the comparison compares."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.driver_rules.child import ROOT
from tests.driver_rules.probes.compare import differences
from tests.driver_rules.probes.questions import QUESTIONS, all_rows

KNOWN = ("answered", "hung", "killed by", "exit")  # and not "failed": a row that cannot be put is a mistake of the row


def asked(out: Path, *arguments: str) -> tuple[str, dict[str, Any]]:
    """Runs the probes as a user does; what they print, and the file."""
    command = [sys.executable, "-m", "tests.driver_rules.probes", "--out", str(out), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout, json.loads(out.read_text())


def test_every_question_has_rows_and_every_row_its_own_name() -> None:
    rows = all_rows()
    assert {row.question for row in rows} == set(QUESTIONS)
    assert len({(row.question, row.name) for row in rows}) == len(rows)
    event_matrix = [row for row in rows if row.question == 4]
    assert len(event_matrix) == 72
    assert len({row.name for row in rows if row.question == 7 and row.name.endswith("mode global")}) >= 45


def test_every_row_is_asked_and_recorded(tmp_path: Path) -> None:
    printed, found = asked(tmp_path / "answers.json")
    rows = all_rows()
    assert [(r["question"], r["row"]) for r in found["rows"]] == [(row.question, row.name) for row in rows]
    strange = [record for record in found["rows"] if not record["outcome"].startswith(KNOWN)]
    assert strange == []
    assert found["driver"]["version"] > 0
    for record in found["rows"]:
        assert record["row"] in printed
    # The rows that the rule tests insist on as well, read back from the data.
    by_row = {record["row"]: record["answer"] for record in found["rows"] if record["outcome"] == "answered"}
    by_other_thread = by_row["ended_by_another_thread: mode global, blocking False"]
    assert by_other_thread["code"] == 908
    launched = by_row["graph_during_a_capture: call launch, where the capturing stream, mode relaxed"]
    assert (launched["code"], launched["status"], launched["end"], launched["nodes"]) == (900, 2, 901, None)


def crash(_: Any) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def hang(_: Any) -> dict[str, Any]:
    time.sleep(60)
    return {}


def fail(_: Any) -> dict[str, Any]:
    raise AssertionError("not so")


@pytest.mark.parametrize(
    ("ask", "outcome"), [(crash, "killed by SIGKILL"), (hang, "hung"), (fail, "failed")], ids=["crash", "hang", "fail"]
)
def test_a_row_that_goes_wrong_costs_itself_alone(ask: Callable[[Any], dict[str, Any]], outcome: str) -> None:
    """In an interpreter of its own, for the asking process forks."""
    script = (
        "from tests.emulated_device import loader; loader.load()\n"
        "import json\n"
        "from tests.driver_rules.probes import runner\n"
        "from tests.driver_rules.probes.rows import Row\n"
        "from tests.driver_rules import test_probes\n"
        "runner.ROW_LIMIT = 1.0\n"
        f"rows = [Row(1, 'bad', test_probes.{ask.__name__}), Row(2, 'good', lambda bench: {{'code': 7}})]\n"
        "print(json.dumps(runner.ask_all(rows, jobs=2, limit=30)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    bad, good = json.loads(done.stdout.splitlines()[-1])["rows"]
    assert bad["outcome"] == outcome
    assert (good["outcome"], good["answer"]) == ("answered", {"code": 7})


def test_rows_past_the_limit_are_recorded_as_not_asked(tmp_path: Path) -> None:
    _, found = asked(tmp_path / "answers.json", "--limit", "0", "--question", "12")
    assert {record["outcome"] for record in found["rows"]} == {"not asked"}


def test_a_comparison_lists_what_differs(tmp_path: Path) -> None:
    def record(question: int, row: str, **more: Any) -> dict[str, Any]:
        return {"question": question, "row": row, "seconds": 0.1, "outcome": "answered", **more}

    hardware = {
        "driver": {"device": "a GPU"},
        "rows": [
            record(1, "same", answer={"code": 908, "status": 2}),
            record(1, "other code", answer={"code": 908, "status": 2}),
            record(2, "crashes there", outcome="killed by SIGSEGV"),
            record(3, "asked there alone", answer={"code": 0}),
        ],
    }
    other = copy.deepcopy(hardware)
    other["rows"][0]["seconds"] = 9.9  # type: ignore[index]  # a list of records
    other["rows"][1]["answer"]["status"] = 1  # type: ignore[index]
    other["rows"][2] = record(2, "crashes there", answer={"code": 1})  # type: ignore[index]
    del other["rows"][3]  # type: ignore[attr-defined]
    assert differences(hardware, hardware) == []
    assert [tuple(each) for each in differences(hardware, other)] == [
        (1, "other code", {"code": 908, "status": 2}, {"code": 908, "status": 1}),
        (2, "crashes there", "killed by SIGSEGV", {"code": 1}),
        (3, "asked there alone", {"code": 0}, None),
    ]
    for name, found in (("a.json", hardware), ("b.json", other)):
        (tmp_path / name).write_text(json.dumps(found))
    command = [sys.executable, "-m", "tests.driver_rules.probes.compare", "a.json", "b.json"]
    done = subprocess.run(
        [*command[:3], str(tmp_path / "a.json"), str(tmp_path / "b.json")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "3 of 4 rows differ" in done.stdout
