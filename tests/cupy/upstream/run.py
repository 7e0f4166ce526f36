"""Runs CuPy's own tests from the sdist on the emulated device, and says what passed, what failed as expected and what did not.

``python -m tests.cupy.upstream.run [--short] [--limit SECONDS] [--jobs N] [FILE ...]``
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.emulated_device.cupy_tree import archives, pins

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[2]


class Result(NamedTuple):
    """How one file of tests ended."""

    file: str
    passed: list[str]
    expected: dict[str, list[str]]  #: failures by cause
    unexpected: dict[str, str]  #: other failures, with what was said
    skipped: int
    selected: int  #: tests that the file has, without those that are left out
    seconds: float

    @property
    def run(self) -> int:
        """How many tests were run: fewer than are selected where the limit cut the file short."""
        return len(self.passed) + sum(map(len, self.expected.values())) + len(self.unexpected) + self.skipped


def plan() -> dict[str, Any]:
    """The fixed list: files with the passes that each has at least (0: not counted yet), those whose slow tests are run too, a
    short selection, patterns of what is left out, and the failures that are expected, by cause."""
    loaded: dict[str, Any] = json.loads((HERE / "tests.json").read_text())
    return loaded


def run_file(file: str, limit: float, plan: dict[str, Any]) -> Result:
    """Run one file of CuPy's tests in a process of its own.

    Parameters
    ----------
    file
        Its path under ``tests/cupy_tests`` of the sdist.
    limit
        Seconds after which no further test is begun.
    plan
        See :func:`plan`.

    Raises
    ------
    RuntimeError
        pytest could not run the file at all.
    """
    with archives.one_at_a_time():
        sdist = archives.sdist()
    path = sdist / "tests" / "cupy_tests" / file
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out"
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "GRAPHCAP_TEST_DRIVER": "emulated",
            "GRAPHCAP_UPSTREAM_OUT": str(out),
            "GRAPHCAP_UPSTREAM_LEFT_OUT": json.dumps([entry["tests"] for entry in plan["left_out"]]),
            "GRAPHCAP_UPSTREAM_LIMIT": str(limit),
        }
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "--no-header"]
        if file not in plan["with_slow"]:
            command += ["-m", "not slow"]  # what CuPy marks so needs gigabytes in most files
        command += ["-p", "no:cacheprovider", "-p", "no:randomly", "-p", "tests.cupy.upstream.plugin"]
        command += ["-c", str(sdist / "pyproject.toml"), "--rootdir", str(sdist)]
        command.append(str(path))
        done = subprocess.run(
            command, cwd=scratch, env=environment, capture_output=True, text=True, timeout=limit + 600, check=False
        )
        lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    if not lines or not any("test" in line for line in lines):
        raise RuntimeError(
            f"{file}: no test was run (pytest answered {done.returncode})\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
    if done.returncode < 0:
        lines.append(
            {"test": f"{file}::(the process)", "outcome": "failed", "reason": f"ended by signal {-done.returncode}"}
        )
    return _sort(file, lines, plan, time.monotonic() - begun)


def _sort(file: str, lines: list[dict[str, Any]], plan: dict[str, Any], seconds: float) -> Result:
    ends = {line["test"].split("cupy_tests/")[-1]: line for line in lines if "test" in line}
    causes = [(entry["cause"], re.compile(entry["tests"])) for entry in plan["expected"]]
    expected: dict[str, list[str]] = collections.defaultdict(list)
    unexpected: dict[str, str] = {}
    for test, line in ends.items():
        if line["outcome"] == "failed":
            cause = next((cause for cause, pattern in causes if pattern.search(test)), None)
            if cause is None:
                unexpected[test] = line["reason"]
            else:
                expected[cause].append(test)
    passed = [test for test, line in ends.items() if line["outcome"] == "passed"]
    skipped = sum(line["outcome"] in ("skipped", "xfailed") for line in ends.values())
    selected = sum(line.get("selected", 0) for line in lines)
    return Result(file, passed, dict(expected), unexpected, skipped, selected, seconds)


def main() -> int:
    """Run the list, or the files that are named, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "files", nargs="*", help="files under tests/cupy_tests of the sdist; all of the list if none is named"
    )
    parser.add_argument("--short", action="store_true", help="the short selection")
    parser.add_argument(
        "--limit", type=float, default=900, help="seconds for one file, after which no further test of it is begun"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="files at a time")
    parser.add_argument("--out", help="a JSON file for every test that failed, with its reason")
    arguments = parser.parse_args()
    fixed = plan()
    files = fixed["short"] if arguments.short else arguments.files or list(fixed["files"])
    results = []
    print(f"{pins.LABEL}: CuPy's own tests", flush=True)
    try:
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for result in pool.map(lambda file: run_file(file, arguments.limit, fixed), files):
                results.append(result)
                _tell(result)
    except archives.Unavailable as error:
        print(f"no CuPy for the tests: {error}")
        return 0
    return _report(results, arguments.out)


def _tell(result: Result) -> None:
    short = f", cut short after {result.run} of {result.selected}" if result.run < result.selected else ""
    failed = sum(map(len, result.expected.values()))
    print(
        f"{result.file}: {len(result.passed)} passed, {failed} failed as expected, {len(result.unexpected)} unexpectedly, "
        f"{result.skipped} skipped{short} ({result.seconds:.0f} s)",
        flush=True,
    )
    for test, reason in list(result.unexpected.items())[:20]:
        print(f"    {test}: {reason.splitlines()[0] if reason else ''}", flush=True)


def _report(results: list[Result], out: str | None) -> int:
    causes: collections.Counter[str] = collections.Counter()
    for result in results:
        causes.update({cause: len(tests) for cause, tests in result.expected.items()})
    unexpected = {test: reason for result in results for test, reason in result.unexpected.items()}
    print(f"\n{sum(len(result.passed) for result in results)} passed in {len(results)} files")
    for cause, count in causes.most_common():
        print(f"{count:6d} failed: {cause}")
    print(f"{len(unexpected):6d} failed for other reasons")
    least = plan()["files"]
    whole = [result for result in results if result.run >= result.selected]
    fewer = [result for result in whole if len(result.passed) < least.get(result.file, 0)]
    for result in fewer:
        print(f"{result.file}: {len(result.passed)} passed, fewer than the {least[result.file]} of the list")
    if out:
        Path(out).write_text(json.dumps(unexpected, indent=1))
    return 1 if unexpected or fewer else 0


if __name__ == "__main__":
    sys.exit(main())
