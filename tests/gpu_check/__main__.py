"""``make gpu-check``: everything that needs a real NVIDIA driver, in under four minutes, without network.

Takes the Python packages that it finds (cuda-bindings, cuda-core, cupy, numba-cuda, rmm, torch, jax, pytest). What is small and may be missing
(cffi, hypothesis, sortedcontainers) is taken from wheels carried along: ``python -m tests.gpu_check --fetch`` on a
machine with network puts them into ``out/gpu-wheels``.

Steps, each with a time limit of its own, none stopping the next: the conformance suite, the CuPy and CUDA tests, those of the other
frameworks, the rules of the emulated driver put to the real one, the replay benchmark beside CuPy and PyTorch. What was found is written to
``docs/hardware/<gpu>.md`` and ``.json``. Exit code 0 only if nothing failed and no rule with evidence was contradicted.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / "out" / "gpu-wheels"
CARRIED = ("cffi", "hypothesis", "sortedcontainers")
PACKAGES = (
    "cuda-bindings",
    "cuda-core",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "numba",
    "numba-cuda",
    "rmm-cu12",
    "rmm-cu13",
    "torch",
    "jax",
    "numpy",
    "pytest",
    "cffi",
)
LIMIT_SECONDS = 230.0


def fetch(python: str, folder: Path) -> int:
    """Download the wheels to carry, for another machine's Python."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--only-binary=:all:", "--python-version", python]
    return subprocess.run([*command, "-d", str(folder), *CARRIED], check=False).returncode


def carried_packages(folder: Path, scratch: Path) -> list[str]:
    """Unpack the carried wheels of what this Python lacks; give the folders to put on the path."""
    if all(importlib.util.find_spec(name) is not None for name in CARRIED):
        return []
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(scratch)
    return [str(scratch)]


class Check:
    """The steps and what they found."""

    def __init__(self, scratch: Path, path: list[str], driver: str) -> None:
        self.scratch = scratch
        self.begin = time.monotonic()
        self.steps: list[dict[str, Any]] = []
        self.environment = {
            **os.environ,
            "GRAPHCAP_TEST_DRIVER": driver,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *path, *filter(None, [os.environ.get("PYTHONPATH")])]),
        }

    def run(self, name: str, limit: float, *arguments: str) -> dict[str, Any]:
        """Run Python with `arguments`; a step that runs past its limit has failed."""
        left = LIMIT_SECONDS - (time.monotonic() - self.begin)
        start = time.monotonic()
        step: dict[str, Any] = {"step": name, "result": "left out: no time", "seconds": 0.0, "tail": []}
        if left > 5:
            try:
                done = subprocess.run(
                    [sys.executable, *arguments],
                    cwd=ROOT,
                    env=self.environment,
                    capture_output=True,
                    text=True,
                    timeout=min(limit, left),
                    check=False,
                )
                output, step["result"] = done.stdout + done.stderr, "passed" if done.returncode == 0 else "failed"
            except subprocess.TimeoutExpired as error:
                raw = error.stdout or b""
                output = raw.decode(errors="replace") if isinstance(raw, bytes) else raw
                step["result"] = f"stopped after {min(limit, left):.0f} s"
            step["seconds"] = round(time.monotonic() - start, 1)
            lines = [line for line in output.splitlines() if line.strip()]
            step["failed"] = [line[:300] for line in lines if line.startswith(("FAILED", "ERROR"))][:100]
            step["tail"] = lines[-3:] if step["result"] == "passed" else lines[-40:]
        self.steps.append(step)
        print(f"{name}: {step['result']} in {step['seconds']} s", flush=True)
        return step

    def pytest(self, name: str, limit: float, *arguments: str) -> dict[str, Any]:
        """Run a part of the tests on the real driver."""
        return self.run(name, limit, "-m", "pytest", "-q", "-m", "not slow", "-W", "default", *arguments)


def device() -> dict[str, Any]:
    """What answers, asked of the driver itself."""
    cu: Any = importlib.import_module("cuda.bindings.driver")
    if int(cu.cuInit(0)[0]):
        raise SystemExit("gpu-check: no NVIDIA driver answers on this machine. Nothing was checked.")
    _, handle = cu.cuDeviceGet(0)
    _, name = cu.cuDeviceGetName(256, handle)
    _, version = cu.cuDriverGetVersion()
    return {
        "gpu": bytes(name).split(b"\0")[0].decode(),
        "driver": f"{version // 1000}.{version % 1000 // 10}",
        "python": sys.version.split()[0],
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES if _installed(name)},
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
    }


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def check(scratch: Path, path: list[str], driver: str) -> dict[str, Any]:
    """Run all steps; give what was found as plain data."""
    found = device()
    steps = Check(scratch, path, driver)
    rules, figures = scratch / "rules.json", scratch / "replay.json"
    steps.pytest("conformance suite", 90, "tests/cuda/test_conformance.py")
    ignored = [f"--ignore=tests/cuda/{name}" for name in ("test_conformance.py",)]
    steps.pytest("CUDA tests", 60, "tests/cuda", *ignored)
    steps.pytest("kernels from source text", 60, "tests/kernel_library", "tests/kernel_headers")
    steps.pytest("CuPy tests", 300, "tests/cupy")
    steps.pytest("parameters and callables", 60, "tests/parameters/test_cuda.py", "tests/callables", "-k", "cuda")
    steps.pytest("lifetimes", 60, "tests/lifetimes", "-k", "cuda")
    steps.pytest("frameworks", 60, "tests/gpu_check/test_frameworks.py", "tests/interop")
    steps.pytest("driver rules", 90, "tests/driver_rules", "--driver-rule-report", str(rules))
    emulated = ["--emulated"] if driver == "emulated" else []
    steps.run("replay benchmark", 30, "benchmarks/cuda_replay.py", "--json", str(figures), *emulated)
    found["steps"] = steps.steps
    found["rules"] = json.loads(rules.read_text()) if rules.exists() else None
    found["replay_us"] = json.loads(figures.read_text()) if figures.exists() else None
    found["seconds"] = round(time.monotonic() - steps.begin, 1)
    return found


def page(found: dict[str, Any]) -> str:
    """The findings as a page."""
    lines = [f"# {found['gpu']}", "", f"Driver CUDA {found['driver']}, Python {found['python']}, {found['date']}.", ""]
    lines += [", ".join(f"{name} {version}" for name, version in found["packages"].items()) + ".", ""]
    lines += ["| step | result | seconds |", "| --- | --- | --- |"]
    lines += [f"| {step['step']} | {step['result']} | {step['seconds']} |" for step in found["steps"]]
    for step in found["steps"]:
        if step.get("failed"):
            lines += ["", f"Failed in {step['step']}:", "", *(f"- `{line}`" for line in step["failed"])]
    if found["replay_us"]:
        bare = found["replay_us"]["driver.cuGraphLaunch"]
        lines += ["", "| one launch of a graph with one node | microseconds | ratio |", "| --- | --- | --- |"]
        lines += [f"| {name} | {us:.2f} | {us / bare:.2f} |" for name, us in found["replay_us"].items()]
    if found["rules"]:
        lines += ["", "| rule of the driver | evidence before | on this GPU |", "| --- | --- | --- |"]
        for rule in found["rules"]["rules"]:
            lines.append(f"| {rule['rule']} | {', '.join(rule['evidence'])} | {rule['outcome']} |")
    return "\n".join(lines) + "\n"


def write(found: dict[str, Any], folder: Path) -> Path:
    """Write page and data, named after the GPU."""
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^a-z0-9]+", "-", found["gpu"].lower()).strip("-")
    (folder / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    target = folder / f"{name}.md"
    target.write_text(page(found))
    return target


def contradicted(found: dict[str, Any]) -> list[str]:
    """The rules that this GPU contradicts."""
    rules = found["rules"]["rules"] if found["rules"] else []
    return [str(rule["rule"]) for rule in rules if rule["outcome"] == "contradicted"]


def main(arguments: list[str] | None = None) -> int:
    """Check, write, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fetch", action="store_true", help="only download the wheels to carry")
    parser.add_argument("--python", default="3.12", help="the other machine's Python, for --fetch")
    parser.add_argument("--wheels", type=Path, default=WHEELS)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "hardware")
    parser.add_argument("--emulated", action="store_true", help="try the check itself out on the emulated driver")
    options = parser.parse_args(arguments)
    if options.fetch:
        return fetch(options.python, options.wheels)
    driver = "emulated" if options.emulated else "real"
    try:
        if options.emulated:
            importlib.import_module("tests.emulated_device.loader").load()
        importlib.import_module("cuda.bindings.driver")
    except ImportError:
        print("gpu-check: cuda-bindings is not installed. Nothing was checked.", file=sys.stderr)
        return 2
    scratch = ROOT / "out" / "gpu-check"
    scratch.mkdir(parents=True, exist_ok=True)
    try:
        found = check(scratch, carried_packages(options.wheels, scratch / "packages"), driver)
    except Exception as error:  # the bindings say "no driver" each in their own class
        print(f"gpu-check: no NVIDIA driver answers on this machine ({error}). Nothing was checked.", file=sys.stderr)
        return 2
    written = write(found, options.out)
    against = contradicted(found)
    print(f"written: {written} and .json, {found['seconds']} s")
    if against:
        print(f"contradicted: {', '.join(against)}")
    return int(bool(against) or any(step["result"] != "passed" for step in found["steps"]))


if __name__ == "__main__":
    raise SystemExit(main())
