"""For each backend: a live graph and the DOT that its `debug_dump` wrote agree in all that the format carries."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.inspection import assert_topology, diff, summarize
from tests.cuda import kit
from tests.emulated_device import loader
from tests.xpu.child import run_child

from . import live


def double(memory: Any) -> None:
    """A kernel of the CPU backend."""
    view = np.asarray(memory)
    view *= 2


def test_cpu(tmp_path: Path) -> None:
    graph, faults = live.check("cpu", tmp_path, lambda stream, memory: stream.launch(double, memory))
    assert faults == []
    topology = graph.topology()
    assert (topology.depth, topology.width) == (4, 2)
    assert_topology(graph).has("double", kernels=1, memsets=2, memcpys=2).lacks("host", "mem_alloc").only(
        "kernel", "memset", "memcpy"
    ).ordered("double", 3).parallel(0, 1)


def test_two_captures_of_the_same_work_do_not_differ() -> None:
    first, second = live.captured("cpu"), live.captured("cpu")
    assert diff(first, second).same
    assert summarize(first.topology()).line() == summarize(second.topology()).line()


def _no_driver() -> str | None:
    try:
        loader.load()
    except loader.BuildError as error:
        return f"CUDA: the emulated driver cannot be built here: {error}"
    return None


@pytest.mark.parametrize("host_call", [False, True])
def test_cuda(tmp_path: Path, host_call: bool) -> None:
    reason = _no_driver()
    if reason is not None:
        pytest.skip(reason)

    def launch(stream: Any, memory: Any) -> None:
        stream.launch(kit.kernel("empty"), 3, (32, 2), shared=64)
        if host_call:
            stream.host_call(str)

    graph, faults = live.check("cuda", tmp_path, launch)
    assert faults == []
    (kernel,) = graph.topology().find(kind="kernel")
    assert kernel.name == "empty"
    assert_topology(tmp_path / "cuda.dot").has("empty", kernels=1, memsets=2, memcpys=2, hosts=int(host_call))
    (read,) = (node for node in graphcap.dot.read(tmp_path / "cuda.dot") if node.kind.value == "kernel")
    assert (read.params["grid"], read.params["block"], read.params["shared_bytes"]) == ((3, 1, 1), (32, 2, 1), 64)


def test_xpu(tmp_path: Path) -> None:
    from graphcap.backends.xpu.discovery import dpctl_missing, opencl_runtime_library

    missing = dpctl_missing()
    if missing is not None:
        pytest.skip(f"XPU: {missing.reason} ({platform.machine()}); {missing.cure}")
    if opencl_runtime_library() is None:
        pytest.skip("XPU: the OpenCL CPU device is not installed (pip install intel-opencl-rt)")
    done = run_child(
        f"from pathlib import Path\nfrom tests.inspection import live\n"
        f"print('\\n'.join(live.on_xpu(Path({str(tmp_path)!r}))) or 'agree')"
    )
    assert done.stdout.strip() == "agree", done.stdout + done.stderr
