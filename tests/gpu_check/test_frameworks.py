"""What only a GPU can show of the frameworks around a capture: kernels that Numba compiles, RMM's device buffers, PyTorch, JAX.

Run by ``make gpu-check``. Everything else of them is tested on the emulated driver and the CPU, in ``tests/interop``.
"""

from __future__ import annotations

import gc
import importlib
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.interop import arrays
from tests.cuda import kit
from tests.cuda.kit import host, make_stream

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(kit.is_emulated(), reason="needs a real GPU: run `make gpu-check`")]


def _needed(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except Exception as error:  # each fails in its own way where a library of its own is missing
        pytest.skip(f"{package} is not installed, or does not load here: {error}")


# -- Numba -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def numba_cuda() -> Any:
    """Numba, with graphcap's memory."""
    cuda = _needed("numba.cuda", "numba-cuda")
    importlib.import_module("graphcap.interop.numba").use_graphcap_memory()
    return cuda


@pytest.fixture
def scale(numba_cuda: Any) -> Any:
    """A compiled kernel: y = a x."""
    cuda = numba_cuda

    @cuda.jit  # type: ignore[untyped-decorator]
    def kernel(y: Any, x: Any, a: Any) -> None:
        i = cuda.grid(1)
        if i < x.size:
            y[i] = a * x[i]

    x = cuda.to_device(np.ones(1, np.float32))
    kernel[1, 32](x, x, np.float32(1))  # Numba compiles at the first launch, which must not be in a capture
    cuda.synchronize()
    return kernel


def test_numba_kernels_are_captured_and_replayed(numba_cuda: Any, scale: Any) -> None:
    adapter = importlib.import_module("graphcap.interop.numba")
    x = numba_cuda.to_device(np.arange(1000, dtype=np.float32))
    y = numba_cuda.device_array(1000, np.float32)
    stream = make_stream()
    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        s = adapter.external_stream()
        t = numba_cuda.device_array(1000, np.float32)
        scale[8, 128, s](t, x, np.float32(2))
        scale[8, 128, s](y, t, np.float32(5))
        del t
    assert len(graph.topology().nodes) == 2
    canaries = [numba_cuda.to_device(np.full(1000, 7, np.float32)) for _ in range(50)]
    for start in (0, 10, 20):
        x.copy_to_device(np.arange(start, start + 1000, dtype=np.float32))
        graph.replay()
        graphcap.synchronize("cuda")
        assert y.copy_to_host().tolist() == (10.0 * np.arange(start, start + 1000)).tolist()
    assert all((canary.copy_to_host() == 7).all() for canary in canaries)


def test_a_captured_numba_launch_keeps_its_arrays(numba_cuda: Any, scale: Any) -> None:
    adapter = importlib.import_module("graphcap.interop.numba")
    x = numba_cuda.to_device(np.arange(100, dtype=np.float32))
    y = numba_cuda.device_array(100, np.float32)
    stream = make_stream()
    graph = graphcap.Graph("cuda")
    with stream, graph:
        scale[1, 128, adapter.external_stream()](y, x, np.float32(3))
    del x
    gc.collect()
    junk = [numba_cuda.to_device(np.full(100, -1, np.float32)) for _ in range(100)]
    graph.replay()
    graphcap.synchronize("cuda")
    assert y.copy_to_host().tolist() == (3.0 * np.arange(100)).tolist()
    assert len(junk) == 100


def test_a_numba_launch_on_the_default_stream_is_refused_inside_a_capture(numba_cuda: Any, scale: Any) -> None:
    x = numba_cuda.to_device(np.ones(10, np.float32))
    stream = make_stream()
    with pytest.raises(graphcap.CaptureForbiddenError, match="kernel launch"), stream, graphcap.Graph("cuda"):
        stream.fill(x, 5)
        scale[1, 32](x, x, np.float32(2))
    assert x.copy_to_host().tolist() == [1] * 10


def test_a_graphed_callable_of_numba_kernels(numba_cuda: Any, scale: Any) -> None:
    adapter = importlib.import_module("graphcap.interop.numba")

    def double(a: Any) -> Any:
        out = numba_cuda.device_array_like(a)
        scale[4, 64, adapter.external_stream()](out, a, np.float32(2))
        return out

    f = graphcap.make_graphed_callable(double, device="cuda")
    for start in (0, 3):
        found = f(numba_cuda.to_device(np.arange(start, start + 200, dtype=np.float32)))
        graphcap.synchronize("cuda")
        assert found.copy_to_host().tolist() == (2.0 * np.arange(start, start + 200)).tolist()


def test_numbas_memory_can_be_shared_between_processes(numba_cuda: Any) -> None:
    assert numba_cuda.to_device(np.ones(10)).get_ipc_handle() is not None


# -- RMM ---------------------------------------------------------------------------------------------------------------


def test_rmms_device_buffers_come_from_the_pool_also_in_a_capture() -> None:
    rmm = _needed("rmm", "rmm")
    adapter = importlib.import_module("graphcap.interop.rmm")
    streams = importlib.import_module("rmm.pylibrmm.stream")
    before = rmm.mr.get_current_device_resource()
    pool = graphcap.MemPool("cuda")
    resource = adapter.memory_resource(pool)
    rmm.mr.set_current_device_resource(resource)
    try:
        own = make_stream()
        stream = streams.Stream(own)
        eager = rmm.DeviceBuffer.to_device(bytes(range(64)), stream=stream)
        own.synchronize()
        out = own.allocate(64)
        graph = graphcap.Graph("cuda")
        with own, graph:
            inside = rmm.DeviceBuffer(size=64, stream=stream)
            own.copy(inside, eager)
            own.copy(out, inside)
            del inside
        graph.replay()
        assert host(out, np.uint8).tolist() == list(range(64))
        graph.reset()
        del eager
        graphcap.synchronize("cuda")
        assert resource.callbacks.blocks_out == 0
    finally:
        rmm.mr.set_current_device_resource(before)


# -- PyTorch and JAX as guests -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_pytorchs_tensors_are_guests(dtype: str) -> None:
    torch = _needed("torch", "torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no GPU")
    x = torch.arange(64, device="cuda").to(getattr(torch, dtype))
    x = x if dtype == "float32" else x.view(torch.uint16)
    y = torch.zeros_like(x)
    torch.cuda.synchronize()
    stream = make_stream()
    graph = graphcap.Graph("cuda")
    with stream, graph:
        stream.copy(y, x)
    graph.bind(x=x)
    graph.replay(stream, inputs={"x": x + 1 if dtype == "float32" else x.clone()})
    stream.synchronize()
    assert torch.equal(y, x)


def test_pytorch_takes_graphcaps_memory_in_order() -> None:
    torch = _needed("torch", "torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no GPU")
    stream = make_stream()
    for value in range(20):
        array = arrays.as_array(stream.allocate(1 << 22), (1 << 20,), np.float32)
        stream.fill(array, float(value))
        assert bool((torch.from_dlpack(array) == value).all())
    produced = torch.full((1 << 20,), 3.0, device="cuda") * 2
    stream.copy(array, produced)
    stream.synchronize()
    assert (host(array) == 6).all()


def test_jaxs_arrays_are_guests() -> None:
    jax = _needed("jax", "jax")
    gpus = [device for device in jax.devices() if device.platform == "gpu"]
    if not gpus:
        pytest.skip("this jax has no GPU")
    x = jax.device_put(np.arange(100, dtype=np.float32), gpus[0])
    stream = make_stream()
    y = arrays.as_array(stream.allocate(400), (100,), np.float32)
    graph = graphcap.Graph("cuda")
    with stream, graph:
        stream.copy(y, x)
    del x
    gc.collect()
    graph.replay(stream)
    stream.synchronize()
    assert jax.numpy.from_dlpack(y).tolist() == list(range(100))
