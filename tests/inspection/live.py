"""A small graph captured on any backend, dumped, and both compared; run by the tests, in a child process for the XPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import graphcap
import graphcap.dot
from graphcap.inspection import disagreements, load

Launch = Callable[[Any, Any], None]


def captured(device: str, launch: Launch | None = None) -> graphcap.Graph:
    """Memsets on two streams, a join, a kernel where there is one, a host call where there may be one, two copies."""
    make: Any = graphcap.Stream  # a class that makes its backend's streams
    first, second = make(device), make(device)
    a, b = (graphcap.allocate(4096, device=device) for _ in range(2))
    graph = graphcap.Graph(device, keep_graph=True)
    graph.retain((a, b))
    with first, graph:
        second.wait(first.record())
        first.fill(a, 7)
        second.fill(b, 0)
        first.wait(second.record())
        if launch is not None:
            launch(first, a)
        first.copy(b, a)
        first.copy(a, b)
    return graph


def check(device: str, folder: Path, launch: Launch | None = None) -> tuple[graphcap.Graph, list[str]]:
    """Return the graph, and what it and its dump disagree in; the dump must also be read without a word."""
    graph = captured(device, launch)
    path = folder / f"{device}.dot"
    graph.debug_dump(path)
    read = graphcap.dot.read(path)
    return graph, [*disagreements(graph, load(path)), *read.warnings]


def on_xpu(folder: Path) -> list[str]:
    """Both tiers of the XPU, with a kernel."""
    from graphcap.backends.xpu import kernels
    from tests.xpu.tiers import TIERS, register_software_tier

    def launch(stream: Any, memory: Any) -> None:
        kernel = kernels.load(stream, "arithmetic", "add_scalar_i32")
        stream.launch(kernel, [memory, np.int32(1), np.uint64(1024)], 1024)

    register_software_tier()
    found: list[str] = []
    for device in TIERS:
        graph, faults = check(device, folder, launch)
        kinds = graph.topology().counts()
        if (kinds["kernel"], kinds["memset"], kinds["memcpy"]) != (1, 2, 2):
            faults.append(f"captured something else: {kinds}")
        found += [f"{device}: {fault}" for fault in faults]
    return found


if __name__ == "__main__":
    told = on_xpu(Path(sys.argv[1]))
    print("\n".join(told) or "agree")
    raise SystemExit(bool(told))
