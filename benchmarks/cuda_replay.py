"""What a replay costs the host on CUDA, beside a bare ``driver.cuGraphLaunch`` call and ``cuda.core``'s ``Graph.launch``.

Run ``python benchmarks/cuda_replay.py``. It takes the driver that is there; with ``--emulated`` the emulated one of the
tests, whose launch costs what a queue costs. Medians over rounds that take turns, in one run. On a GPU also CuPy's and
PyTorch's own graphs, where they are installed.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMIT = 1.2
_ROUNDS, _LAUNCHES = 60, 200


def _time(launch: Callable[[], object], finish: Callable[[], object]) -> float:
    """Seconds of one call, without what the device does afterwards."""
    start = time.perf_counter()
    for _ in range(_LAUNCHES):
        launch()
    seconds = time.perf_counter() - start
    finish()
    return seconds / _LAUNCHES


def _peers(nodes: int) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Name -> (launch, finish) for whatever can be measured here. Each launches a graph of `nodes` fills."""
    import graphcap

    make: Any = graphcap.Stream
    stream = make("cuda")
    memory = stream.allocate(4096)
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        for _ in range(nodes):
            stream.fill(memory, 1)
    graph.instantiate()
    executable: Any = graph.impl
    found: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {}

    cu: Any = importlib.import_module("cuda.bindings.driver")
    handle, queue = cu.CUgraphExec(executable.raw_graph_exec()), cu.CUstream(stream.handle)
    found["driver.cuGraphLaunch"] = (functools.partial(cu.cuGraphLaunch, handle, queue), stream.synchronize)
    stream.__enter__()  # the current stream, as in a program that replays in a loop
    found["graphcap.Graph.replay"] = (graph.replay, stream.synchronize)

    core: Any = importlib.import_module("cuda.core")
    device = core.Device(0)
    device.set_current()
    core_stream = device.create_stream()
    builder = core_stream.create_graph_builder().begin_building()
    view = core.Buffer.from_handle(memory.ptr, 4096, owner=memory)
    for _ in range(nodes):
        view.fill(1, stream=builder)
    core_graph = builder.end_building().complete()
    found["cuda.core Graph.launch"] = (functools.partial(core_graph.launch, core_stream), core_stream.sync)
    found.update(_frameworks(nodes))
    return found


def _frameworks(nodes: int) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    found: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {}
    try:
        cupy: Any = importlib.import_module("cupy")
        own = cupy.cuda.Stream(non_blocking=True)
        array = cupy.zeros(1024, cupy.float32)
        with own:
            own.begin_capture()
            for _ in range(nodes):
                array.fill(1)
            cupy_graph = own.end_capture()
        found["CuPy Graph.launch"] = (lambda: cupy_graph.launch(own), own.synchronize)
    except Exception as error:  # a peer that does not work here is left out, and the output says so
        print(f"CuPy is left out: {type(error).__name__}", file=sys.stderr)
    try:
        torch: Any = importlib.import_module("torch")
        tensor = torch.zeros(1024, device="cuda")
        torch_graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(torch_graph):
            for _ in range(nodes):
                tensor.fill_(1)
        found["torch CUDAGraph.replay"] = (torch_graph.replay, torch.cuda.synchronize)
    except Exception as error:
        print(f"PyTorch is left out: {type(error).__name__}", file=sys.stderr)
    return found


def measure(nodes: int = 1) -> dict[str, float]:
    """Microseconds per launch, the median of the rounds, by name."""
    peers = _peers(nodes)
    times: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(_ROUNDS):
        for name, (launch, finish) in peers.items():
            times[name].append(_time(launch, finish) * 1e6)
    return {name: statistics.median(values[5:]) for name, values in times.items()}


def main() -> int:
    """Measure and print; exit code 1 where the limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--emulated", action="store_true", help="use the emulated driver of the tests")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    if arguments.emulated:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        loader: Any = importlib.import_module("tests.emulated_device.loader")
        loader.load()
        importlib.import_module("tests.emulated_device.control").logging(False)
    found = measure(arguments.nodes)
    bare = found["driver.cuGraphLaunch"]
    for name, microseconds in found.items():
        print(f"{name:28s} {microseconds:8.2f} us  {microseconds / bare:5.2f} x")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    ratio = found["graphcap.Graph.replay"] / bare
    print(f"replay costs {ratio:.2f} times a bare launch (limit {LIMIT})")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
