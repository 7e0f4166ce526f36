"""Runs a program in a child interpreter with the OpenCL CPU device registered."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

__all__ = ["run_child"]

_ROOT = Path(__file__).parents[2]
_HEAD = """
import faulthandler; faulthandler.enable()
from graphcap.backends.xpu.discovery import register_opencl_cpu
register_opencl_cpu()
"""


def run_child(
    program: str, *, environment: Mapping[str, str | None] | None = None, timeout: float = 120, head: str = _HEAD
) -> subprocess.CompletedProcess[str]:
    """Run `program`; give back what became of it.

    Parameters
    ----------
    environment
        Variables to set, or to take away (``None``).
    """
    variables = dict(os.environ)
    for name, value in (environment or {}).items():
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value
    return subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=variables,
        cwd=_ROOT,
        check=False,
    )
