"""Several devices, and drivers of other versions."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.backends.cuda import cuda_backend
from tests.cuda import kit

two_devices = pytest.mark.skipif(
    not kit.is_emulated() and cuda_backend().device_count() < 2, reason="needs two devices"
)


@two_devices
def test_work_goes_to_the_device_that_is_named() -> None:
    make: Any = graphcap.Stream
    stream = make("cuda:1")
    memory = stream.allocate(16)
    graph = graphcap.Graph("cuda:1")
    with stream, graph:
        assert cuda_backend().current_device() == 1
        stream.fill(memory, 4)
    assert cuda_backend().current_device() == 0
    graph.replay(stream)
    graph.replay()
    with stream:
        graph.replay()
        graph.replay()
    found = np.zeros(16, np.uint8)
    stream.copy(found, memory)
    stream.synchronize()
    assert found.tolist() == [4] * 16
    assert (memory.device, graph.device) == ("cuda:1", "cuda:1")


@two_devices
def test_pytorch_87794_a_stream_of_another_device_is_refused() -> None:
    make: Any = graphcap.Stream
    first, second = make("cuda:0"), make("cuda:1")
    graph = graphcap.Graph("cuda:1")
    with pytest.raises(graphcap.CaptureStateError, match="another device"), first, graph:
        pass
    memory = second.allocate(4)
    with second, graph:
        second.fill(memory, 1)
    with pytest.raises(ValueError, match="cuda:0"):
        graph.replay(first)
    with pytest.raises(ValueError, match="2 devices"):
        make("cuda:2")


_OLD = """
from tests.emulated_device import loader
loader.load()
import graphcap
s = graphcap.Stream("cuda")
assert not graphcap.backend_status()["CUDA"].capabilities.conditional_nodes
with s, graphcap.Graph("cuda"):
    m = s.allocate(1)
    s.fill(m, 1)
    try:
        s.condition()
    except graphcap.UnsupportedError as error:
        print(error)
"""


@pytest.mark.skipif(not kit.is_emulated(), reason="chooses the emulated driver's version")
def test_an_older_driver_lacks_conditional_nodes_and_the_message_names_the_version() -> None:
    environment = {**os.environ, "GRAPHCAP_EMULATED_DRIVER_VERSION": "12030"}
    done = subprocess.run(
        [sys.executable, "-c", _OLD], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "CUDA 12.4" in done.stdout
