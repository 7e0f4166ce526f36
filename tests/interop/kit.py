"""What the interop tests share."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
from typing import Any

import graphcap

__all__ = ["allocated", "child", "pool_of", "settled"]


def settled() -> None:
    """Let everything that waits for the device, or for a garbage collection, be over."""
    gc.collect()
    graphcap.synchronize("cuda")
    gc.collect()


def allocated(device: str = "cuda") -> int:
    """Bytes that are handed out on a device."""
    settled()
    return int(graphcap.memory_stats(device)["allocated_bytes.current"])


def pool_of(address: int) -> tuple[int, int] | None:
    """The pool in whose segments an address lies."""
    for segment in graphcap.memory_snapshot("cuda")["segments"]:
        if segment["address"] <= address < segment["address"] + segment["total_size"]:
            first, second = segment["pool_id"]
            return first, second
    return None


_SETUP = """
from tests.emulated_device import loader
loader.load()
import numpy as np, gc, warnings
import graphcap
"""


def child(code: str, **environment: str) -> str:
    """Run a program in an interpreter of its own, with warnings as errors; gives what it printed.

    Not so the deprecations that the frameworks meet in each other (numba-cuda in NumPy 2.5).
    """
    import os

    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", _SETUP + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr
    return done.stdout.strip()


def address(array: Any) -> int:
    """The address of a device array."""
    return int(array.__cuda_array_interface__["data"][0])
