"""Asks the fifteen questions and writes the answers: ``python -m tests.driver_rules.probes --out FILE``."""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from pathlib import Path


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.driver_rules.probes", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the file of answers, JSON")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1), help="rows asked at a time")
    parser.add_argument("--limit", type=float, default=220.0, help="seconds after which no further row is begun")
    parser.add_argument("--question", type=int, action="append", help="this question only; may be given again")
    parser.add_argument("--quiet", action="store_true", help="print the summary only")
    given = parser.parse_args()

    from tests.emulated_device import loader

    loader.load()  # before anything asks for a driver
    from tests.driver_rules.probes.questions import all_rows
    from tests.driver_rules.probes.runner import ask_all

    rows = [row for row in all_rows() if not given.question or row.question in given.question]
    found = ask_all(rows, jobs=given.jobs, limit=given.limit)
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for record in found["rows"]:
        if not given.quiet or record["outcome"] not in ("answered",):
            told = record.get("answer") or record.get("error", "")
            print(f"{record['question']:2d}  {record['row']}  [{record['outcome']}]  {told}")
    counts = Counter(record["outcome"] for record in found["rows"])
    print(f"{found['driver']}: {len(found['rows'])} rows, {dict(counts)}")


if __name__ == "__main__":
    main()
