"""What the threads of a kernel cost on the emulated device: plain ones, barriers and shuffles, beside NumPy.

Run ``python benchmarks/emulated_threads.py``. Nanoseconds per thread, and per thread and operation where threads wait; the
best of several runs, in the natural order of threads (seed 0) and in a shuffled one. Values are compared with NumPy's.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["main", "measure"]


class Case(NamedTuple):
    """A kernel with its grid, how often each thread waits, what NumPy does instead, and where the result lies."""

    kernel: Any
    arguments: tuple[np.generic, ...]
    grid: int
    block: int
    waits: float
    numpy: Callable[[], Any] | None
    result: int


def _cases(board: Any) -> dict[str, Case]:
    rng = np.random.default_rng(0)
    n = 1 << 20
    x, out = rng.standard_normal(n).astype(np.float32), np.empty(n, np.float32)
    rows, numbers = rng.integers(-9, 9, (1000, 1000)).astype(np.float64), rng.integers(-9, 9, n)
    scale, sums, scans = board.buffer(x.nbytes), board.buffer(8000), board.buffer(numbers.nbytes)
    factor = np.float32(3)

    def pointers(*addresses: int) -> tuple[np.generic, ...]:
        return tuple(np.uint64(address) for address in addresses)

    def threads(name: str) -> Any:
        return board.kernel(name, "threads")

    return {
        "scale, 2^20 threads": Case(
            board.kernel("scale"), (*pointers(scale, board.upload(x)), factor, np.int32(n)), n // 256, 256, 0,
            lambda: np.multiply(x, factor, out=out), scale,
        ),
        "1000 barriers, 4 x 256 threads": Case(threads("barriers"), (np.int32(1000),), 4, 256, 1000, None, 0),
        "row sums, 1000 x 1000, 256 threads a row": Case(
            threads("row_sums"), (*pointers(sums, board.upload(rows)), np.int32(1000)), 1000, 256, 9,
            lambda: rows.sum(axis=1), sums,
        ),
        "scans of 2^20 numbers, 256 a block": Case(
            threads("block_scans"), pointers(scans, board.upload(numbers)), n // 256, 256, 5 + 5 / 8 + 2,
            lambda: numbers.reshape(-1, 256).cumsum(axis=1), scans,
        ),
    }  # fmt: skip


def _best(call: Callable[[], object], rounds: int) -> float:
    found = float("inf")  # of processor time: other processes may share the machine
    for _ in range(rounds):
        began = time.process_time()
        call()
        found = min(found, time.process_time() - began)
    return found


def measure(rounds: int = 5) -> dict[str, dict[str, float]]:
    """Name -> milliseconds in natural and shuffled order and with NumPy, nanoseconds per thread and per wait.

    Raises
    ------
    AssertionError
        A kernel's values are not NumPy's.
    """
    control: Any = importlib.import_module("tests.emulated_device.control")
    harness: Any = importlib.import_module("tests.emulated_device.harness")
    cu: Any = importlib.import_module("cuda.bindings.driver")
    control.logging(False)
    control.protection(False)
    found: dict[str, dict[str, float]] = {}
    with harness.board() as board:
        stream = board.stream()
        for name, case in _cases(board).items():

            def run(case: Case = case) -> None:
                board.launch(case.kernel, stream, *case.arguments, grid=case.grid, block=case.block)
                harness.ok(cu.cuStreamSynchronize(stream))

            row: dict[str, float] = {}
            for order, seed in (("natural", 0), ("shuffled", 1)):
                control.seed(seed)
                row[order] = _best(run, rounds) * 1e3
                if case.numpy is not None:
                    expected = np.asarray(case.numpy())
                    np.testing.assert_array_equal(
                        board.read(case.result, expected.dtype, expected.size), expected.ravel(), err_msg=name
                    )
            row["ns per thread"] = row["natural"] * 1e6 / (case.grid * case.block)
            if case.waits:
                row["ns per wait"] = row["ns per thread"] / case.waits
            if case.numpy is not None:
                row["NumPy"] = _best(case.numpy, rounds) * 1e3
            found[name] = row
    control.seed(0)
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    loader: Any = importlib.import_module("tests.emulated_device.loader")
    loader.load()
    found = measure()
    columns = ("natural", "shuffled", "NumPy", "ns per thread", "ns per wait")
    print(f"{'milliseconds':42s}" + "".join(f"{column:>15s}" for column in columns))
    for name, row in found.items():
        print(f"{name:42s}" + "".join(f"{row[c]:15.2f}" if c in row else f"{'':15s}" for c in columns))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
