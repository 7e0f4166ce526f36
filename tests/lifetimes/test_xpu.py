"""XPU: everything that comes through graphcap is kept; what was submitted to a queue past it is told of."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.testing.case import NBYTES, N, vector
from tests.backends import fixtures_of
from tests.lifetimes.kit import raw_axpy


@pytest.fixture(params=["xpu", "xpu_software"])
def fx(request: pytest.FixtureRequest) -> Any:
    """Both tiers."""
    found = fixtures_of(request.param)
    found.start(0)
    return found


def test_usm_of_another_library_as_a_bare_address(fx: Any) -> None:
    """SYCL knows the address: it is told of; retained, it is owned."""
    dpctl_memory: Any = importlib.import_module("dpctl.memory")
    stream, out = fx.make_stream(), fx.upload(vector(0))
    foreign = dpctl_memory.MemoryUSMDevice(NBYTES, queue=stream.queue)
    address = int(foreign._pointer)
    with (
        pytest.warns(graphcap.UnownedPointerWarning, match=rf"argument 2 = {address:#x}.*USM device memory of another"),
        stream,
        graphcap.Graph(fx.device, keep_graph=True),
    ):
        raw_axpy(fx, stream, out, 1, address, address)
    graph = graphcap.Graph(fx.device, keep_graph=True, lifetimes="strict")
    with stream, graph:
        graph.retain(foreign, address=address, nbytes=NBYTES)
        raw_axpy(fx, stream, out, 1, address, address)


def test_numbers_are_not_taken_for_addresses(fx: Any) -> None:
    """A kernel's large numbers are no pointers where no memory is."""
    stream, x, out = fx.make_stream(), fx.upload(vector(1)), fx.upload(vector(0))
    from graphcap.backends.xpu import kernels

    kernel = kernels.load(stream, "fill", "fill_u64")
    wide = fx.upload(np.zeros(N, np.uint64))
    graph = graphcap.Graph(fx.device, lifetimes="strict")
    with stream, graph:
        fx.launch_axpy(stream, out, 2, x, x)
        stream.launch(kernel, [wide, np.uint64(1 << 40), np.uint64(N)], N)
    graph.replay(stream)
    assert (fx.download(wide, np.uint64) == 1 << 40).all()


def test_work_past_graphcap_is_told_of() -> None:
    """SYCL tells nothing but the kind of a node that was submitted to the queue directly."""
    fx: Any = fixtures_of("xpu")
    stream, x = fx.make_stream(), fx.upload(np.zeros(N, np.uint8))
    queue = stream.queue
    told = pytest.warns(graphcap.UnownedPointerWarning, match=r"node 1 .*: submitted to the queue past graphcap")
    with told, stream, graphcap.Graph("xpu", keep_graph=True):
        stream.fill(x, 1)
        queue.memcpy_async(x.memory, np.full(N, 2, np.uint8), N)
    strict = graphcap.Graph("xpu", lifetimes="strict")
    with pytest.raises(graphcap.UnownedPointerError, match="past graphcap"), stream, strict:
        stream.fill(x, 1)
        queue.memcpy_async(x.memory, np.full(N, 2, np.uint8), N)


def test_debug_mode_looks_at_every_operand(fx: Any) -> None:
    stream, x, out = fx.make_stream(), fx.upload(vector(1)), fx.upload(vector(0))
    graph = graphcap.Graph(fx.device)
    graph.enable_debug_mode()
    with stream, graph:
        fx.launch_axpy(stream, out, 2, x, x)
        stream.copy(x, vector(5))
    impl: Any = graph.impl
    uses = {(use.node.partition(" (")[0], use.argument) for use, _ in impl._checks.owned}
    assert {("node 0", "argument 0"), ("node 0", "argument 2"), ("node 1", "source")} <= uses
    for _ in range(2):
        graph.replay(stream)
    np.testing.assert_array_equal(fx.download(out), 3 * vector(5))
    x.ptr += 1 << 20  # as if the buffer had been moved
    with pytest.raises(graphcap.StalePointerError, match="moved or resized"):
        graph.replay(stream)
    x.ptr -= 1 << 20
