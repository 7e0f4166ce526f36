"""Carries out a function in a process of its own, for calls that may take the process down on some driver.

``in_child("tests.driver_rules.cases:destroyed_graph")`` starts a fresh interpreter, calls the function with a bench, and
gives what it returned; a crash or a hang of the child becomes an answer, not the end of the run.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class ChildAnswer(NamedTuple):
    """How a child ended: its exit status (negative: killed by that signal), what it returned, what it printed."""

    exit_status: int
    value: Any
    output: str


def in_child(target: str, *, timeout: float = 60.0) -> ChildAnswer:
    """Calls ``"module:function"`` with a bench in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, target],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    last = done.stdout.splitlines()[-1:] or ["null"]
    value = json.loads(last[0]) if done.returncode == 0 else None
    return ChildAnswer(done.returncode, value, done.stdout + done.stderr)


def main(target: str) -> None:
    """The child's side."""
    from tests.emulated_device import loader

    loader.load()
    from cuda.bindings import driver as cu

    from tests.driver_rules.bench import Bench
    from tests.driver_rules.driving import ok

    ok(cu.cuInit(0))
    device = ok(cu.cuDeviceGet(0))
    context = ok(cu.cuDevicePrimaryCtxRetain(device))
    ok(cu.cuCtxSetCurrent(context))
    module, function = target.split(":")
    value = getattr(importlib.import_module(module), function)(Bench(context, device))
    print(json.dumps(value), flush=True)
    os._exit(0)  # what the function left behind may be broken on purpose; no clean-up is attempted


if __name__ == "__main__":
    main(sys.argv[1])
