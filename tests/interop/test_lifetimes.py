"""The end of a capture finds an owner for all that the frameworks' work uses: a strict capture would refuse it otherwise.

What the graph holds is not handed out again, whoever frees it (user problems A).
"""

from __future__ import annotations

import gc
import importlib
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.interop import arrays
from tests.cuda import kit as cuda_kit
from tests.cuda.kit import host, make_stream
from tests.interop import kit
from tests.interop.test_guests_cuda import ByDlpack, typed

core: Any = pytest.importorskip("cuda.core", reason="cuda-core is not installed")


def strict() -> Any:
    """A capture that refuses what nobody owns."""
    return graphcap.capture("cuda", lifetimes="strict")


def test_numba() -> None:
    cuda: Any = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
    adapter: Any = importlib.import_module("graphcap.interop.numba")
    x = cuda.to_device(np.arange(100, dtype=np.float32))
    y, z = cuda.device_array(100, np.float32), cuda.device_array(100, np.float32)
    with strict() as graph:
        s = adapter.external_stream()
        t = cuda.device_array(100, np.float32)
        t.copy_to_device(x, stream=s)
        y.copy_to_device(t, stream=s)
        y.copy_to_host(np.zeros(100, np.float32), stream=s)
        del t
        z.copy_to_device(np.arange(100, dtype=np.float32), stream=s)
    del x
    gc.collect()
    junk = [cuda.to_device(np.full(100, 7, np.float32)) for _ in range(50)]
    graph.replay()
    graphcap.synchronize("cuda")
    assert y.copy_to_host().tolist() == z.copy_to_host().tolist() == list(range(100))
    assert all((array.copy_to_host() == 7).all() for array in junk)


def test_numba_with_its_own_memory() -> None:
    pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
    printed = kit.child(
        """
        from numba import cuda
        import graphcap.interop.numba as adapter
        x = cuda.to_device(np.arange(100, dtype=np.float32))
        y = cuda.device_array(100, np.float32)
        with graphcap.capture("cuda", lifetimes="strict") as graph:
            y[10:20].copy_to_device(x[50:60], stream=adapter.external_stream())
        del x
        gc.collect()
        junk = [cuda.to_device(np.full(100, 7, np.float32)) for _ in range(50)]
        graph.replay()
        graphcap.synchronize("cuda")
        print(y.copy_to_host()[10:20].tolist() == list(range(50, 60)))
        """
    )
    assert printed == "True"


def test_cuda_core_with_graphcaps_memory() -> None:
    module: Any = importlib.import_module("graphcap.interop.cuda_core")
    resource = module.PoolMemoryResource()
    stream = core.Device(0).create_stream(make_stream())
    source, target = resource.allocate(64, stream=stream), resource.allocate(64, stream=stream)
    source.fill(np.uint8(6), stream=stream)
    stream.sync()
    with graphcap.capture("cuda", lifetimes="strict", stream=stream) as graph:
        source.copy_to(target, stream=stream)  # cuda.core's own call: graphcap sees the node only
    source.close()
    junk = [resource.allocate(64, stream=stream) for _ in range(30)]
    for buffer in junk:
        buffer.fill(np.uint8(9), stream=stream)
    graph.replay(stream)
    stream.sync()
    found = arrays.from_dlpack(target)
    assert host(found, np.uint8).tolist() == [6] * 64


def test_rmms_callables() -> None:
    callbacks = importlib.import_module("graphcap.interop.rmm").Callbacks()
    stream = make_stream()
    source, target = callbacks.allocate(64, stream), stream.allocate(64)
    handle = core.Device(0).create_stream(stream)
    view = core.Buffer.from_handle(source, 64)
    view.fill(np.uint8(6), stream=handle)
    stream.synchronize()
    with graphcap.capture("cuda", lifetimes="strict", stream=stream) as graph:
        view.copy_to(core.Buffer.from_handle(target.ptr, 64), stream=handle)
    callbacks.deallocate(source, 64, stream)
    for _ in range(30):
        core.Buffer.from_handle(callbacks.allocate(64, stream), 64).fill(np.uint8(9), stream=handle)
    graph.replay(stream)
    stream.synchronize()
    assert host(target, np.uint8).tolist() == [6] * 64


def test_guests_by_dlpack_alone() -> None:
    x, y = typed(np.arange(10)), typed(np.zeros(10))
    with strict() as graph:
        stream: Any = graphcap.current_stream("cuda")
        stream.launch(cuda_kit.kernel("scale"), 1, 32, ByDlpack(y), ByDlpack(x), np.float32(3), np.int32(10))
        stream.copy(ByDlpack(x), ByDlpack(y))
    graph.replay()
    assert host(x).tolist() == (3.0 * np.arange(10)).tolist()


def test_what_nobody_owns_is_still_refused() -> None:
    """The negative control: cuda.core's own memory, in cuda.core's own call, with nothing handed to ``retain``."""
    device = core.Device(0)
    device.set_current()
    stream = device.create_stream()
    source = core.Device(0).memory_resource.allocate(64, stream=stream)
    target = core.Device(0).memory_resource.allocate(64, stream=stream)
    stream.sync()
    with pytest.raises(graphcap.UnownedPointerError), graphcap.capture("cuda", lifetimes="strict", stream=stream):
        source.copy_to(target, stream=stream)
    with graphcap.capture("cuda", lifetimes="strict", stream=stream) as graph:
        source.copy_to(target, stream=stream)
        graph.retain((source, target))
    graph.replay(stream)
    stream.sync()
