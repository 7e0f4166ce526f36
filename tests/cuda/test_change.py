"""Changing an executable: update, nodes by id and name, switching off, instantiate flags, upload, raw handles."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.backends.cuda import CUDAGraphImpl
from tests.cuda import kit
from tests.cuda.kit import device, host, make_stream


def _scale(stream: Any, out: Any, source: Any, factor: float) -> None:
    count = out.nbytes // 4
    stream.launch(kit.kernel("scale"), -(-count // 128), 128, out, source, np.float32(factor), np.int32(count))


def _impl(graph: graphcap.Graph) -> CUDAGraphImpl:
    assert isinstance(graph.impl, CUDAGraphImpl)
    return graph.impl


def _scaling(factor: float, x: Any, y: Any) -> graphcap.Graph:
    stream = make_stream()
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        _scale(stream, y, x, factor)
    graph.instantiate()
    return graph


def test_update_takes_over_the_other_graphs_parameters_and_what_they_use() -> None:
    x, y = device([1, 2, 3]), device([0, 0, 0])
    graph = _scaling(2, x, y)
    other = _scaling(5, device([10, 20, 30]), y)
    graph.update(other)
    other.reset()
    del other
    gc.collect()
    graph.replay()
    assert host(y).tolist() == [50, 100, 150]


def test_a_refused_update_names_reason_and_node_and_the_graph_replays_as_before() -> None:
    x, y = device([1, 2, 3]), device([0, 0, 0])
    graph = _scaling(2, x, y)
    stream = make_stream()
    other = graphcap.Graph("cuda", keep_graph=True)
    with stream, other:
        stream.fill(y, 0.0)
    with pytest.raises(graphcap.GraphUpdateError, match=r"node type changed.*node 0 \(memset\)") as caught:
        graph.update(other)
    assert isinstance(caught.value.__cause__, graphcap.DriverError)
    assert caught.value.__cause__.code == 910
    graph.replay()
    assert host(y).tolist() == [2, 4, 6]


def test_update_needs_an_executable_and_a_live_template() -> None:
    x, y = device([1.0]), device([0.0])
    graph = _scaling(2, x, y)
    stream = make_stream()
    bare = graphcap.Graph("cuda")
    with stream, bare:
        _scale(stream, y, x, 3)
    with pytest.raises(graphcap.GraphStateError, match="template is gone"):
        graph.update(bare)
    with pytest.raises(graphcap.GraphStateError, match="nothing was captured"):
        graphcap.Graph("cuda").update(graph)
    with pytest.raises(TypeError, match="CUDA graph"):
        graph.update(graphcap.Graph("cpu"))


def test_a_kernel_node_is_found_by_name_and_takes_new_arguments_and_dimensions() -> None:
    x, y = device(np.arange(300)), device(np.zeros(300))
    graph = _scaling(2, x, y)
    node = graph.node("scale")
    node.set_args(y, device(np.ones(300)), np.float32(7), np.int32(200), grid=2, block=128)
    gc.collect()
    graph.replay()
    assert host(y).tolist() == [7] * 200 + [0] * 100
    assert graph.node(0).described.params["grid"] == (3, 1, 1)  # the template is as captured


def test_copy_fill_and_host_nodes_take_new_arguments() -> None:
    x, y = device([1, 2, 3, 4]), device([0, 0, 0, 0])
    memory = device(np.zeros(16, np.uint8), np.uint8)
    hits: list[str] = []
    with graphcap.capture("cuda") as graph:
        stream = graphcap.current_stream("cuda")
        stream.copy(y, x)
        stream.fill(memory, 1)
        stream.host_call(hits.append, "old")
    graph.node(0).set_args(y, device([5, 6, 7, 8]))
    graph.node(1).set_args(memory, 9)
    graph.node(2).set_args(hits.append, "new")
    gc.collect()
    graph.replay()
    assert host(y).tolist() == [5, 6, 7, 8]
    assert host(memory, np.uint8).tolist() == [9] * 16
    assert hits == ["new"]


def test_a_disabled_node_is_skipped_until_it_is_enabled_again() -> None:
    x, y = device([1, 2]), device([0, 0])
    graph = _scaling(2, x, y)
    node = graph.node(0)
    enabled = [node.enabled]
    node.disable()
    enabled.append(node.enabled)
    assert enabled == [True, False]
    graph.replay()
    assert host(y).tolist() == [0, 0]
    node.enable()
    graph.replay()
    assert host(y).tolist() == [2, 4]


def test_what_a_node_cannot_do_is_said() -> None:
    x, y = device([1.0, 2]), device([0.0, 0])
    with graphcap.capture("cuda") as graph:
        stream = graphcap.current_stream("cuda")
        _scale(stream, y, x, 2)
        _scale(stream, x, y, 2)
        stream.host_call(int)
    with pytest.raises(KeyError, match=r"2 nodes: use one of the ids \[0, 1\]"):
        graph.node("scale")
    with pytest.raises(KeyError, match="no node of that name"):
        graph.node("nothing")
    with pytest.raises(KeyError, match="0 to 2"):
        graph.node(3)
    with pytest.raises(graphcap.UnsupportedError, match="host node"):
        graph.node(2).disable()
    with pytest.raises(TypeError, match="4 arguments, 1 were given"):
        graph.node(0).set_args(y)
    with pytest.raises(TypeError, match="belong to a kernel"):
        graph.node(2).set_args(int, grid=2)
    node = graph.node(0)
    graph.instantiate()
    with pytest.raises(graphcap.GraphStateError, match="instantiated again"):
        node.set_args(y, x, np.float32(1), np.int32(2))


def test_instantiate_flags_by_name() -> None:
    x, y = device([1.0]), device([0.0])
    graph = _scaling(2, x, y)
    impl = _impl(graph)
    for flags in (["upload"], ["use_node_priority"], ["auto_free_on_launch", "upload"], []):
        impl.instantiate(flags)
        graph.replay()
    assert host(y).tolist() == [2]
    with pytest.raises(ValueError, match="auto_free_on_launch"):
        impl.instantiate(["no_such_flag"])


def test_upload_and_raw_handles() -> None:
    x, y = device([1.0]), device([0.0])
    graph = _scaling(2, x, y)
    graph.upload()
    assert isinstance(_impl(graph).raw_graph(), int)
    assert isinstance(_impl(graph).raw_graph_exec(), int)
    graph.reset()
    for call in (_impl(graph).raw_graph, _impl(graph).raw_graph_exec):
        with pytest.raises(graphcap.GraphStateError):
            call()


def test_the_topology_tells_what_is_inside() -> None:
    x, y = device([1, 2, 3, 4]), device([0, 0, 0, 0])
    with graphcap.capture("cuda") as graph:
        stream = graphcap.current_stream("cuda")
        _scale(stream, y, x, 1.5)
        stream.copy(x, y)
        stream.fill(y, 2.0)
        stream.copy(np.zeros(4, np.float32), x)
        stream.host_call(gc.isenabled)
    kernel, copy, fill, back, call = graph.topology().nodes
    assert kernel.name == "scale"
    assert kernel.params["grid"] == (1, 1, 1)
    assert kernel.params["block"] == (128, 1, 1)
    assert kernel.params["arguments"] == (
        f"u64:0x{y.buffer.ptr:016x}", f"u64:0x{x.buffer.ptr:016x}", "u32:0x3fc00000", "u32:0x00000004"
    )  # fmt: skip
    assert (copy.params["bytes"], copy.params["src"], copy.params["dst"]) == (16, y.buffer.ptr, x.buffer.ptr)
    assert copy.params["direction"] == "DtoD"
    assert (fill.params["value"], fill.params["element_bytes"], fill.params["width"]) == (0x40000000, 4, 4)
    assert back.params["direction"] == "DtoH"
    assert call.name == "isenabled"


def test_instantiation_of_a_cycle_is_a_structure_error() -> None:
    from graphcap.backends.cuda import _driver as driver
    from graphcap.backends.cuda import _graph_calls as graph_calls

    stream = make_stream()
    memory = stream.allocate(64)
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        stream.fill(memory, 1)
        stream.fill(memory, 2)
    template = _impl(graph).raw_graph()
    first, second = (driver.struct("CUgraphNode", node) for node in graph_calls.nodes(template))
    driver.call(driver.edge_name("cuGraphAddDependencies"), template, [second], [first], None, 1)
    with pytest.raises((graphcap.GraphStructureError, graphcap.DriverError)) as caught:
        graph.instantiate()
    assert "instantiate" in str(caught.value).lower()


def test_dump_writes_the_drivers_text_whole_or_not_at_all(tmp_path: Any) -> None:
    graph = _scaling(2, device([1.0]), device([0.0]))
    graph.debug_dump(tmp_path / "a.anything")
    assert "digraph" in (tmp_path / "a.anything").read_text()
    with pytest.raises(OSError, match="nowhere"):
        graph.debug_dump(tmp_path / "nowhere" / "a.dot")
    assert [path.name for path in tmp_path.iterdir()] == ["a.anything"]


def test_graphcap_dump_writes_every_graph(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHCAP_DUMP", str(tmp_path / "dumps"))
    stream = make_stream()
    memory = stream.allocate(64)
    for _ in range(2):
        graph = graphcap.Graph("cuda")
        with stream, graph:
            stream.fill(memory, 1)
    assert len(list((tmp_path / "dumps").iterdir())) == 2
