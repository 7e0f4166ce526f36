"""One CuPy program as a graph: graphcap's replay beside CuPy's own ``Graph.launch`` and beside eager CuPy, in one run.

Run ``python -m benchmarks.cupy_replay``. Twenty elementwise kernels on 1,000 numbers. *call* is what the host pays to submit,
*done* the time until the result is there. On the emulated device the kernels run on the host and *done* says little; on a GPU
both count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import graphcap
from tests.emulated_device import control, cupy_tree

_ROUNDS = 40
_CALLS = 50


def _program(x: Any) -> Any:
    y = x
    for n in range(10):
        y = y * 0.5 + n
    return y


def _prepare() -> tuple[dict[str, Callable[[], object]], Callable[[], object]]:
    cupy: Any = sys.modules["cupy"]
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.use()
    x = cupy.arange(1000.0)
    wanted = cupy.asnumpy(_program(x))
    peers: dict[str, Callable[[], object]] = {"eager CuPy": lambda: _program(x)}
    with graphcap.capture("cuda", stream=stream, warmup=lambda: _program(x)) as graph:
        ours = _program(x)
    graph.replay(), stream.synchronize()
    assert (cupy.asnumpy(ours) == wanted).all()
    peers["graphcap.Graph.replay"] = graph.replay
    temporaries = cupy.cuda.MemoryPool()  # CuPy keeps none of a graph's arrays: the pool keeps them here
    with cupy.cuda.using_allocator(temporaries.malloc):
        kept = _program(x)
        held = [cupy.empty(1000) for _ in range(20)]
        del held
        stream.begin_capture()
        theirs = _program(x)
        own = stream.end_capture()
    own.launch(stream), stream.synchronize()
    assert (cupy.asnumpy(theirs) == wanted).all()
    del kept
    peers["CuPy Graph.launch"] = lambda: own.launch(stream)
    return peers, stream.synchronize


def measure() -> dict[str, dict[str, tuple[float, float, float]]]:
    """Per peer: microseconds of *call* and *done*, each median, lowest and highest tenth of the rounds, which take turns."""
    peers, finish = _prepare()
    found: dict[str, dict[str, list[float]]] = {name: {"call": [], "done": []} for name in peers}
    for _ in range(_ROUNDS):
        for name, call in peers.items():
            finish()
            start = time.perf_counter()
            for _ in range(_CALLS):
                call()
            submitted = time.perf_counter()
            finish()
            found[name]["call"].append((submitted - start) / _CALLS * 1e6)
            found[name]["done"].append((time.perf_counter() - start) / _CALLS * 1e6)
    return {name: {what: _spread(values) for what, values in rows.items()} for name, rows in found.items()}


def _spread(values: list[float]) -> tuple[float, float, float]:
    tenths = statistics.quantiles(values[3:], n=10)
    return statistics.median(values[3:]), tenths[0], tenths[-1]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    if cupy_tree.load() == "emulated":
        control.logging(False)
    print(cupy_tree.label())
    found = measure()
    base = found["CuPy Graph.launch"]["call"][0]
    for name, rows in found.items():
        (call, low, high), (done, _, _) = rows["call"], rows["done"]
        print(f"{name:24s} call {call:8.2f} us ({low:.2f} to {high:.2f})  {call / base:5.2f} x   done {done:8.1f} us")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
