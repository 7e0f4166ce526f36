"""The topology of graphs with everything in them: nested graphs, memory nodes, events, mangled names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.backends.cuda import CUDAGraphImpl
from graphcap.backends.cuda import _calls as calls
from graphcap.backends.cuda import _driver as driver
from graphcap.topology import GraphTopology
from tests.cuda import kit
from tests.cuda.kit import device, host, make_stream

_MANGLED = "_ZN2my7doubledIfEEvPfi"


def _inner(memory: Any, value: int) -> graphcap.Graph:
    stream = make_stream()
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        stream.fill(memory, value)
        stream.fill(memory, value + 1)
    return graph


def test_child_graphs_are_nested_topologies() -> None:
    memory = device(np.zeros(4, np.uint8), np.uint8)
    inner = _inner(memory, 5)
    stream = make_stream()
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        stream.fill(memory, 1)
        info = calls.capture_info(stream.handle)
        before = [driver.struct("CUgraphNode", node) for node in info.frontier]
        assert isinstance(inner.impl, CUDAGraphImpl)
        child = driver.call("cuGraphAddChildGraphNode", info.graph, before, len(before), inner.impl.raw_graph())
        calls.set_frontier(stream.handle, int(child))
    topology = graph.topology()
    fill, node = topology.nodes
    assert (str(fill.kind), str(node.kind)) == ("memset", "child_graph")
    (name,) = node.graphs
    assert [n.params["value"] for n in topology.graphs[name].nodes] == [5, 6]
    assert topology.counts()["memset"] == 3
    assert GraphTopology.from_json(topology.to_json()).counts() == topology.counts()
    graph.replay()
    assert host(memory, np.uint8).tolist() == [6] * 4


def test_memory_nodes_and_events_are_told() -> None:
    stream, other = make_stream(), make_stream()
    event: Any = other.record(timing=True)
    other.synchronize()
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        address = int(driver.call("cuMemAllocAsync", 512, stream.handle))
        stream.wait(event, external=True)
        stream.record(event, external=True)
        driver.call("cuMemFreeAsync", address, stream.handle)
    alloc, wait, record, free = graph.topology().nodes
    assert [str(n.kind) for n in (alloc, wait, record, free)] == ["mem_alloc", "event_wait", "event_record", "mem_free"]
    assert (alloc.params["address"], alloc.params["bytes"]) == (address, 512)
    assert free.params["address"] == address
    assert wait.params["address"] == record.params["address"] == event.handle
    for _ in range(3):
        graph.replay()
    graphcap.synchronize("cuda")


def test_kernel_names_are_demangled_and_found_either_way() -> None:
    pytest.importorskip("pydemumble")
    x = device([1, 2, 3])
    stream = make_stream()
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        stream.launch(kit.kernel(_MANGLED), 1, 32, x, np.int32(3))
    (node,) = graph.topology().nodes
    assert node.name == "void my::doubled<float>(float*, int)"
    assert node.params["mangled_name"] == _MANGLED
    for name in (_MANGLED, node.name):
        graph.node(name).set_args(x, np.int32(2))
    graph.replay()
    assert host(x).tolist() == [2, 4, 3]


def test_two_dimensional_fills_tell_rows_and_pitch() -> None:
    x = device(np.zeros(5), "f8")
    stream = make_stream()
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        stream.fill(x, 1.1)
    nodes = graph.topology().nodes
    assert [(n.params["height"], n.params["dst_pitch_bytes"], n.params["bytes"]) for n in nodes] == [(5, 8, 20)] * 2
    assert [n.params["dst"] - x.buffer.ptr for n in nodes] == [0, 4]
