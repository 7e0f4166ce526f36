"""Devices and memory through CuPy: the runtime calls below it, its pools, its copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def test_versions_and_properties(cp: Any) -> None:
    """What CuPy reads of a device is all there and makes sense."""
    runtime = cp.cuda.runtime
    assert runtime.runtimeGetVersion() >= 12000
    assert runtime.driverGetVersion() >= runtime.runtimeGetVersion() // 1000 * 1000
    properties = runtime.getDeviceProperties(0)
    assert properties["warpSize"] == 32
    assert properties["maxThreadsPerBlock"] >= 512
    assert properties["totalGlobalMem"] == cp.cuda.Device(0).mem_info[1]
    assert cp.cuda.Device(0).compute_capability == f"{properties['major']}{properties['minor']}"
    assert runtime.deviceGetAttribute(runtime.cudaDevAttrMultiProcessorCount, 0) == properties["multiProcessorCount"]
    assert runtime.deviceGetByPCIBusId(runtime.deviceGetPCIBusId(0)) == 0


def test_a_device_that_is_not_there(cp: Any) -> None:
    """Error 101, by name."""
    count = cp.cuda.runtime.getDeviceCount()
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="cudaErrorInvalidDevice: invalid device ordinal"):
        cp.cuda.Device(count).use()


def test_the_device_of_a_thread(cp: Any) -> None:
    """``with Device(1)`` and back; arrays know where they are; copies between devices keep their values."""
    if cp.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two GPUs")
    x = cp.arange(10)
    x.device.synchronize()  # the streams of two devices are not ordered, and CuPy does not order them
    with cp.cuda.Device(1):
        assert cp.cuda.runtime.getDevice() == 1
        y = cp.asarray(x)
        y *= 2
    assert (x.device.id, y.device.id, cp.cuda.runtime.getDevice()) == (0, 1, 0)
    np.testing.assert_array_equal(cp.asnumpy(y), np.arange(10) * 2)


@pytest.mark.parametrize("bytes_", [1, 511, 512, 513, 1 << 20])
def test_the_pool_hands_out_again_what_was_given_back(cp: Any, bytes_: int) -> None:
    """By CuPy's units of 512 bytes."""
    pool = cp.cuda.MemoryPool()
    first = pool.malloc(bytes_)
    address, held = first.ptr, pool.total_bytes()
    assert held == -(-bytes_ // 512) * 512 == pool.used_bytes()
    del first
    assert (pool.used_bytes(), pool.total_bytes()) == (0, held)
    assert pool.malloc(bytes_).ptr == address
    pool.free_all_blocks()
    assert pool.total_bytes() == 0


def test_memory_that_is_not_there(cp: Any) -> None:
    """CuPy's own exception, with what was asked for; the next allocation works."""
    with pytest.raises(cp.cuda.memory.OutOfMemoryError, match="Out of memory allocating"):
        cp.cuda.alloc(1 << 50)
    assert float(cp.ones(4).sum()) == 4


def test_copies_of_all_kinds(cp: Any) -> None:
    """Host to device, device to device, device to host, with a stream and without, from pinned memory and from pageable."""
    x = np.random.default_rng(1).normal(size=1000)
    pinned = np.frombuffer(cp.cuda.alloc_pinned_memory(x.nbytes), dtype="f8", count=1000)
    pinned[...] = x
    stream = cp.cuda.Stream(non_blocking=True)
    a, b, back = cp.empty(1000), cp.empty(1000), np.empty(1000)
    with stream:
        a.set(pinned, stream=stream)
        b.data.copy_from_device_async(a.data, a.nbytes, stream)
        b.get(stream=stream, out=back)
        stream.synchronize()
    np.testing.assert_array_equal(back, x)
    a.set(x + 1)
    b.data.copy_from(a.data, a.nbytes)
    np.testing.assert_array_equal(b.get(), x + 1)


def test_copies_of_planes_and_volumes(cp: Any) -> None:
    """With pitches on both sides; a width past the pitch is refused."""
    runtime = cp.cuda.runtime
    a, b = cp.arange(80, dtype="u1").reshape(8, 10), cp.zeros((8, 16), dtype="u1")
    runtime.memcpy2D(b.data.ptr, 16, a.data.ptr, 10, 7, 8, runtime.memcpyDeviceToDevice)
    expected = np.zeros((8, 16), dtype="u1")
    expected[:, :7] = np.arange(80, dtype="u1").reshape(8, 10)[:, :7]
    np.testing.assert_array_equal(b.get(), expected)
    with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorInvalidPitchValue"):
        runtime.memcpy2D(b.data.ptr, 16, a.data.ptr, 10, 11, 8, runtime.memcpyDeviceToDevice)


def test_sets(cp: Any) -> None:
    """Of bytes, with a stream and without."""
    x = cp.empty(100, dtype="u1")
    x.data.memset(7, 100)
    stream = cp.cuda.Stream(non_blocking=True)
    x.data.memset_async(9, 50, stream)
    stream.synchronize()
    assert x.get().tolist() == [9] * 50 + [7] * 50


def test_what_a_pointer_is(cp: Any) -> None:
    """Device, pinned, managed and plain host memory are told apart."""
    runtime = cp.cuda.runtime
    device, pinned = cp.cuda.alloc(64), cp.cuda.alloc_pinned_memory(64)
    managed, plain = cp.cuda.malloc_managed(64), np.zeros(8)
    assert runtime.pointerGetAttributes(device.ptr).type == runtime.memoryTypeDevice
    assert runtime.pointerGetAttributes(pinned.ptr).type == runtime.memoryTypeHost
    assert runtime.pointerGetAttributes(managed.ptr).type == runtime.memoryTypeManaged
    assert runtime.pointerGetAttributes(plain.ctypes.data).type == runtime.memoryTypeUnregistered
    assert runtime.pointerGetAttributes(device.ptr).device == 0
    assert runtime.pointerGetAttributes(device.ptr).devicePointer == device.ptr


def test_the_streams_own_pool(cp: Any) -> None:
    """``cudaMallocAsync`` through CuPy's asynchronous pool."""
    pool = cp.cuda.MemoryAsyncPool()
    with cp.cuda.using_allocator(pool.malloc):
        x = cp.arange(1000)
        assert int(x.sum()) == 499500
        assert pool.used_bytes() >= x.nbytes
        del x
    cp.cuda.Device().synchronize()


def test_managed_memory(cp: Any) -> None:
    """An allocator of managed memory, and values in it."""
    with cp.cuda.using_allocator(cp.cuda.malloc_managed):
        x = cp.arange(10) * 3
    assert x.get().tolist() == list(range(0, 30, 3))


def test_registered_memory(cp: Any) -> None:
    """Memory of the host's that is registered, once."""
    runtime = cp.cuda.runtime
    x = np.ones(4096)
    runtime.hostRegister(x.ctypes.data, x.nbytes, 0)
    assert runtime.pointerGetAttributes(x.ctypes.data).type == runtime.memoryTypeHost
    with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorHostMemoryAlreadyRegistered"):
        runtime.hostRegister(x.ctypes.data, x.nbytes, 0)
    runtime.hostUnregister(x.ctypes.data)
    with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorHostMemoryNotRegistered"):
        runtime.hostUnregister(x.ctypes.data)


def test_interfaces_to_other_libraries(cp: Any) -> None:
    """DLPack and the array interface lead back to the same memory."""
    x = cp.arange(12, dtype="f4").reshape(3, 4)
    assert cp.from_dlpack(x).data.ptr == x.data.ptr
    assert cp.asarray(_View(x.__cuda_array_interface__)).data.ptr == x.data.ptr


class _View:
    def __init__(self, interface: Any) -> None:
        self.__cuda_array_interface__ = interface
