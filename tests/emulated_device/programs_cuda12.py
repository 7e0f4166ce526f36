"""Run by the interpreter of the second environment: capture, edges and replay through ``cuda.bindings`` 12.9.

The functions that carry edge data have names of their own there (``…_v2``, ``…_v3``); both the old forms and the new are used.
Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from typing import Any

import numpy as np
from cuda.bindings import driver as cu


def ok(result: tuple[Any, ...]) -> Any:
    code, *values = result
    if int(code):
        raise SystemExit(f"the driver returned {code!r}")
    return values[0] if len(values) == 1 else tuple(values) or None


def main() -> None:
    ok(cu.cuInit(0))
    context = ok(cu.cuDevicePrimaryCtxRetain(0))
    ok(cu.cuCtxSetCurrent(context))
    a, b = int(ok(cu.cuMemAlloc(256))), int(ok(cu.cuMemAlloc(256)))
    streams = [ok(cu.cuStreamCreate(1)) for _ in range(2)]
    event = ok(cu.cuEventCreate(2))
    out = np.zeros(256, np.uint8)
    ok(cu.cuStreamBeginCapture(streams[0], cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    ok(cu.cuMemsetD8Async(a, 7, 256, streams[0]))
    ok(cu.cuEventRecord(event, streams[0]))
    ok(cu.cuStreamWaitEvent(streams[1], event, 0))
    ok(cu.cuMemcpyAsync(b, a, 128, streams[1]))
    ok(cu.cuMemsetD8Async(b + 128, 9, 128, streams[0]))
    ok(cu.cuEventRecord(event, streams[1]))
    ok(cu.cuStreamWaitEvent(streams[0], event, 0))
    old = ok(cu.cuStreamGetCaptureInfo(streams[0]))
    new = ok(cu.cuStreamGetCaptureInfo_v3(streams[0]))
    ok(cu.cuMemcpyDtoHAsync(out.ctypes.data, b, 256, streams[0]))
    graph = ok(cu.cuStreamEndCapture(streams[0]))
    nodes = ok(cu.cuGraphGetNodes(graph, 8))[0]
    *_, edges = ok(cu.cuGraphGetEdges(graph, 8))
    _, _, data, edges_v2 = ok(cu.cuGraphGetEdges_v2(graph, 8))
    before = int(out.sum())
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    for _ in range(2):
        ok(cu.cuGraphLaunch(executable, streams[0]))
    ok(cu.cuStreamSynchronize(streams[0]))
    info = {
        "bindings": version("cuda-bindings"),
        "status": int(new[0]),
        "same_id": int(old[1]) == int(new[1]),
        "frontier": [len(old[3]), len(new[3]), len(new[4])],
        "nodes": sum(int(node) != 0 for node in nodes),
        "edges": [edges, edges_v2, len(data)],
        "before": before,
        "after": [int(out[0]), int(out[127]), int(out[128]), int(out[255])],
    }
    ok(cu.cuGraphExecDestroy(executable))
    ok(cu.cuGraphDestroy(graph))
    json.dump(info, sys.stdout)


main()
