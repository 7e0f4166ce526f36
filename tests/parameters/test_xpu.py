"""Parameters on XPU: types that kernels need, and graphs that are recorded again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphcap
from tests.backends import fixtures_of


@pytest.fixture(params=["xpu", "xpu_software"])
def fx(request: pytest.FixtureRequest) -> Any:
    return fixtures_of(request.param)


def test_a_python_number_has_no_size(fx: Any) -> None:
    """Told with the cure; with a type it works."""
    out, x = fx.upload(np.zeros(4, "f4")), fx.upload(np.ones(4, "f4"))
    with fx.make_stream() as stream, graphcap.Graph(fx.device) as graph:
        with pytest.raises(TypeError, match=r"graphcap\.parameter\(value, dtype=numpy\.float32\)"):
            fx.launch_axpy(stream, out, graphcap.parameter(1.0, name="a"), x, x)
        fx.launch_axpy(stream, out, graphcap.parameter(2.0, name="b", dtype="f4") * 2, x, x)
    graph.replay(inputs={"b": 3})
    assert (fx.download(out) == 7).all()


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16"])
def test_fills_of_every_width(fx: Any, dtype: str) -> None:
    """One, two, four, eight and sixteen bytes; a pattern of equal bytes is no other kind of node then."""

    class Items:
        def __init__(self, buffer: Any) -> None:
            self.buffer, self.nbytes = buffer, buffer.nbytes

        @property
        def __sycl_usm_array_interface__(self) -> dict[str, Any]:
            count = self.nbytes // np.dtype(dtype).itemsize
            return {
                "shape": (count,),
                "typestr": np.dtype(dtype).str,
                "data": (self.buffer.ptr, False),
                "version": 1,
                "syclobj": self.buffer.memory.sycl_queue,
            }

    buffer = fx.upload(np.zeros(96, "u1"))
    value = graphcap.parameter(0, name="v")
    graph = graphcap.Graph(fx.device, keep_graph=True)
    with fx.make_stream() as stream, graph:
        stream.fill(Items(buffer), value)
    for number in (0, 1, 77):
        graph.replay(inputs={"v": number})
        assert (fx.download(buffer, dtype) == number).all()
    assert graph.topology().nodes[0].kind == "memset"


def test_recorded_again_it_has_the_same_edges(fx: Any) -> None:
    """SYCL's graph after a change orders what the capture ordered, and nothing else is in it."""
    if not fx.capabilities.native_graph:
        pytest.skip(f"backend {fx.backend.name} lacks the capability 'native_graph'")
    from graphcap.backends.xpu.recording import record_again

    x, y = fx.upload(np.ones(4, "f4")), fx.upload(np.ones(4, "f4"))
    left, right = fx.upload(np.zeros(4, "f4")), fx.upload(np.zeros(4, "f4"))
    a = graphcap.parameter(np.float32(2), name="a")
    graph = graphcap.Graph(fx.device, keep_graph=True)
    stream, side = fx.make_stream(), fx.make_stream()
    with stream, graph:
        side.wait(stream)
        fx.launch_axpy(stream, left, a, x, y)
        fx.launch_axpy(side, right, a, x, y)
        side.fill(y, 0)
        stream.wait(side)
        fx.launch_axpy(stream, x, a, left, right)
    impl: Any = graph.impl
    template = impl._template
    again = record_again(fx.backend.extension, fx.backend.service_queue(0), template)
    nodes, _ = fx.backend.extension.nodes(again.native.graph, [])  # type: ignore[union-attr]  # recorded on the native tier
    assert [sorted(before) for _, before in nodes] == [sorted(before) for before in template.dependencies]


def test_work_past_graphcap_is_refused_beside_a_parameter(fx: Any) -> None:
    """It could not be recorded again. The software tier never sees it."""
    if not fx.capabilities.native_graph:
        pytest.skip(f"backend {fx.backend.name} lacks the capability 'native_graph'")
    x = fx.upload(np.ones(4, "f4"))
    graph = graphcap.Graph(fx.device)
    stream = fx.make_stream()
    with pytest.raises(graphcap.UnsupportedError, match="submitted to the queue directly"), stream, graph:
        fx.launch_axpy(stream, x, graphcap.parameter(np.float32(2)), x, x)
        stream.queue.memcpy_async(x.memory, np.zeros(16, np.uint8), 16)


def test_many_values_in_flight(fx: Any) -> None:
    """A hundred replays, a hundred values, no wait: the executables of replays in flight live until they are done."""
    x, y = fx.upload(np.ones(1000, "f4")), fx.upload(np.zeros(1000, "f4"))
    a = graphcap.parameter(np.float32(0), name="a")
    graph = graphcap.Graph(fx.device)
    with fx.make_stream() as stream, graph:
        fx.launch_axpy(stream, y, a, x, y)
    with stream:
        for value in range(100):
            graph.replay(inputs={"a": value})
    assert (fx.download(y) == sum(range(100))).all()
