"""Lists where two drivers answer the probes differently.

``python -m tests.driver_rules.probes.compare HARDWARE.json [OTHER.json]``: without the second file, the driver of this
machine (the emulated one, where there is no other) is asked now. Exit status 1 when anything differs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tests.driver_rules.child import ROOT

Record = dict[str, Any]


class Difference(NamedTuple):
    """One row that two drivers answer differently; None where a driver was not asked it."""

    question: int
    row: str
    first: Any
    second: Any


def told(record: Record | None) -> Any:
    """What counts of a record: its answer, or else how it ended."""
    if record is None:
        return None
    return record["answer"] if record["outcome"] == "answered" else record["outcome"]


def keyed(found: dict[str, Any]) -> dict[tuple[int, str], Record]:
    """The records of a file by question and row."""
    return {(record["question"], record["row"]): record for record in found["rows"]}


def differences(first: dict[str, Any], second: dict[str, Any]) -> list[Difference]:
    """Where two files of answers differ, in the order of the questions."""
    a, b = keyed(first), keyed(second)
    return [
        Difference(*key, told(a.get(key)), told(b.get(key)))
        for key in sorted({**a, **b})
        if told(a.get(key)) != told(b.get(key))
    ]


def ask_here() -> dict[str, Any]:
    """The answers of this machine's driver."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "answers.json"
        command = [sys.executable, "-m", "tests.driver_rules.probes", "--quiet", "--out", str(out)]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.driver_rules.probes.compare", description=__doc__)
    parser.add_argument("first", type=Path, help="answers of one driver, as the probes wrote them")
    parser.add_argument("second", type=Path, nargs="?", help="answers of another; left out, this machine is asked")
    given = parser.parse_args()
    first = json.loads(given.first.read_text(encoding="utf-8"))
    second = json.loads(given.second.read_text(encoding="utf-8")) if given.second else ask_here()
    found = differences(first, second)
    for difference in found:
        print(f"{difference.question:2d}  {difference.row}\n      {difference.first}\n      {difference.second}")
    print(f"{len(found)} of {len(keyed(first) | keyed(second))} rows differ: {first['driver']} / {second['driver']}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
