"""Replay of 30 small ufunc nodes (n = 10) beside the same work in eager NumPy: what capture saves when calls dominate.

Both replays are timed in turns with NumPy in one run: the one in C where it was built, and the one in Python. ``--json FILE``
writes the figures. The exit code is 1 if neither replay is 1.5 times as fast as NumPy.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

import graphcap
from benchmarks.timing import race

WANTED = 1.5


def chain(x: Any, a: Any) -> Any:
    """Thirty ufunc calls: ten times multiply by a scalar, add an array, subtract a scalar."""
    for _ in range(10):
        x = x * 1.0001
        x = x + a
        x = x - 0.5
    return x


def capture(x: Any, a: Any, replay: str) -> tuple[graphcap.Graph, Any]:
    """The chain as a graph whose executable is the replay of that name."""
    xp = graphcap.array_namespace("cpu")
    os.environ["GRAPHCAP_CPU_REPLAY"] = replay
    try:
        with graphcap.capture("cpu") as graph:
            out = chain(xp.asarray(x), xp.asarray(a))
        graph.instantiate()
    finally:
        del os.environ["GRAPHCAP_CPU_REPLAY"]
    return graph, out


def main() -> int:
    """Time, print, write; 1 if the replay is too slow."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--items", type=int, default=10)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    x, a = rng.normal(size=options.items), rng.normal(size=options.items)
    peers: dict[str, Any] = {"NumPy, eager": lambda: chain(x, a)}
    kept = []
    for replay in ("python", "native"):
        graph, out = capture(x, a, replay)
        graph.replay()
        assert np.asarray(out).tobytes() == chain(x, a).tobytes(), f"the {replay} replay has other bits than NumPy"
        kept.append(graph)
        peers[f"replay, {replay}"] = graph.replay
    timings = race(peers)
    eager = timings["NumPy, eager"].median
    figures = {
        name: {
            "median_us": timing.median * 1e6,
            "low_us": timing.low * 1e6,
            "high_us": timing.high * 1e6,
            "times_as_fast_as_eager": eager / timing.median,
        }
        for name, timing in timings.items()
    }
    print(f"30 nodes, {options.items} items, NumPy {np.__version__}, {platform.machine()}")
    for name, figure in figures.items():
        ratio = figure["times_as_fast_as_eager"]
        print(f"{name:<18} {timings[name].text:>28} us   {ratio:6.2f} x eager")
    if options.json:
        options.json.write_text(
            json.dumps({"items": options.items, "numpy": np.__version__, "peers": figures}, indent=1)
        )
    best = max(figure["times_as_fast_as_eager"] for name, figure in figures.items() if name.startswith("replay"))
    slow = best < WANTED
    if slow:
        print(f"the replay is less than {WANTED} times as fast as NumPy", file=sys.stderr)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
