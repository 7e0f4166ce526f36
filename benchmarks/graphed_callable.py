"""A function of 20 small NumPy calls, wrapped by ``make_graphed_callable``, beside the function itself: inputs of alternating shapes.

Each call copies two arrays in, replays, and gives a new array. The exit code is 1 if the wrapped function is not 1.5 times as fast as
the function, gives other bits, or needs more memory with every call. ``--json FILE`` writes the figures.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import graphcap
from benchmarks.timing import race

WANTED = 1.5
CALLS = 10_000
SHAPES = ((100,), (4, 25), (10, 10), (99,))


def chain(x: Any, y: Any) -> Any:
    """Twenty ufunc calls."""
    for _ in range(10):
        x = x * 1.01
        x = x + y
    return x


def main() -> int:
    """Time, print, write; 1 if something is not as it should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    inputs = [(rng.random(shape), rng.random(shape)) for shape in SHAPES]
    graphed = graphcap.make_graphed_callable(chain, device="cpu")
    for given in inputs:
        assert graphed(*given).tobytes() == chain(*given).tobytes(), "other bits than NumPy"

    def through(function: Any) -> Any:
        def call() -> None:
            for x, y in inputs:
                function(x, y)

        return call

    timings = race({"the function": through(chain), "graphed": through(graphed)})
    eager, replayed = timings["the function"].median / len(inputs), timings["graphed"].median / len(inputs)
    stats = [graphcap.memory_stats("cpu")[name] for name in ("reserved_bytes.current", "blocks.current")]
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    for turn in range(CALLS):
        found = graphed(*inputs[turn % len(inputs)])
    per_call = (time.perf_counter() - began) / CALLS
    same = found.tobytes() == chain(*inputs[(CALLS - 1) % len(inputs)]).tobytes()
    after = [graphcap.memory_stats("cpu")[name] for name in ("reserved_bytes.current", "blocks.current")]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident
    ratio = eager / replayed
    print(f"20 nodes, 100 items, {len(SHAPES)} shapes in turn, NumPy {np.__version__}, {platform.machine()}")
    print(f"the function {eager * 1e6:8.2f} us per call")
    print(f"graphed      {replayed * 1e6:8.2f} us per call   {ratio:5.2f} x eager   ({graphed.captures} captures)")
    print(f"{CALLS:,} calls: {per_call * 1e6:.2f} us each, pool {stats} -> {after}, resident memory +{grown} KiB")
    if options.json:
        figures = {"eager_us": eager * 1e6, "graphed_us": replayed * 1e6, "ratio": ratio, "resident_growth_kib": grown}
        options.json.write_text(json.dumps(figures, indent=1))
    problems = [
        text
        for text, bad in (
            (f"less than {WANTED} times as fast as the function", ratio < WANTED),
            ("other bits than NumPy", not same),
            ("the pool grew", stats != after),
            ("resident memory grew", grown > 1024),
            ("captured more than once per shape", graphed.captures != len(SHAPES)),
        )
        if bad
    ]
    for text in problems:
        print(text, file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
