"""What graphcap relies on in DLPack as NumPy, PyTorch and JAX have it, and in CuPy. A change fails here, by name."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
import pytest

from tests.cuda import kit as cuda_kit


def test_numpy_imports_host_memory_without_a_copy_and_keeps_the_exporter() -> None:
    import gc
    import weakref

    class Exporter:
        def __init__(self) -> None:
            self.inner = np.arange(3.0)

        def __dlpack__(self, **options: Any) -> Any:
            return self.inner.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    exporter = Exporter()
    alive = weakref.ref(exporter.inner)
    view = np.from_dlpack(exporter)
    assert view.ctypes.data == exporter.inner.ctypes.data
    assert view.flags.writeable
    del exporter
    gc.collect()
    assert alive() is not None
    del view
    gc.collect()
    assert alive() is None


def test_numpy_scalars_export_nothing() -> None:
    assert not hasattr(np.float64, "__dlpack__")


def test_pytorchs_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensor = torch.arange(6.0).reshape(2, 3)
    assert tuple(map(int, tensor.__dlpack_device__())) == (1, 0)
    view = np.from_dlpack(tensor)
    assert (view.ctypes.data, view.flags.writeable) == (tensor.data_ptr(), True)
    assert not hasattr(tensor, "__array_interface__"), "DLPack is the way in"
    assert not hasattr(tensor, "__cuda_array_interface__"), "it is there on CUDA tensors only"
    with pytest.raises(BufferError, match="detach"):
        tensor.requires_grad_().__dlpack__()
    with pytest.raises((RuntimeError, BufferError), match="dtype"):
        np.from_dlpack(torch.ones(2, dtype=torch.bfloat16))


def test_jaxs_arrays() -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    array = jax.numpy.arange(6.0)
    assert int(array.__dlpack_device__()[0]) == 1
    view = np.from_dlpack(array)
    assert view.ctypes.data == array.unsafe_buffer_pointer()
    assert not view.flags.writeable, "its arrays never change"
    assert not hasattr(array, "__cuda_array_interface__")


@pytest.mark.gpu
@pytest.mark.skipif(
    importlib.util.find_spec("cupy") is None or cuda_kit.is_emulated(), reason="the CuPy wheel needs a real driver"
)
def test_cupys_allocator_and_streams() -> None:
    """What the hook of CuPy rests on (user problems 1.1)."""
    cupy: Any = importlib.import_module("cupy")
    calls: list[tuple[str, int]] = []
    before = cupy.cuda.get_allocator()
    pool = cupy.cuda.MemoryPool()

    def allocate(size: int) -> Any:
        calls.append(("malloc", size))
        return pool.malloc(size)

    with cupy.cuda.using_allocator(allocate):
        assert cupy.cuda.get_allocator() is allocate
        with pytest.raises(ValueError, match="allocator"):
            cupy.cuda.set_allocator(None)
        cupy.empty(10)
        assert calls == [("malloc", 80)]
    assert cupy.cuda.get_allocator() == before
    stream = cupy.cuda.Stream(non_blocking=True)
    assert stream.__cuda_stream__() == (0, stream.ptr)
    current = cupy.cuda.get_current_stream()
    external = cupy.cuda.ExternalStream(stream.ptr, 0)
    with external:
        assert cupy.cuda.get_current_stream().ptr == stream.ptr
        assert external.device_id == 0
    assert cupy.cuda.get_current_stream() == current
    assert hasattr(stream, "_graph_host_funcargs"), "what launch_host_func keeps its functions in during a capture"
