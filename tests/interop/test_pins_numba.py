"""What graphcap relies on in numba-cuda. A release that changes one of these fails here, by name."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
import pytest

import graphcap
from tests.interop.kit import child

cuda: Any = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
driver: Any = importlib.import_module("numba.cuda.cudadrv.driver")
dispatch: Any = importlib.import_module("numba.cuda.dispatcher")
devicearray: Any = importlib.import_module("numba.cuda.cudadrv.devicearray")


def test_the_plug_in_interface_is_version_1_and_asks_for_these_methods() -> None:
    assert driver._SUPPORTED_EMM_INTERFACE_VERSION == 1
    assert cuda.HostOnlyCUDAMemoryManager.__abstractmethods__ == {
        "memalloc",
        "initialize",
        "get_ipc_handle",
        "get_memory_info",
        "interface_version",
    }
    assert "get_ipc_handle" in vars(cuda.GetIpcHandleMixin)
    assert callable(cuda.set_memory_manager)


def test_a_pointer_is_freed_with_its_last_user_once() -> None:
    freed: list[int] = []
    context = cuda.current_context()
    memory = driver.AutoFreePointer(context, driver.binding.CUdeviceptr(4096), 16, finalizer=lambda: freed.append(1))
    owned = memory.own()
    view = owned.view(4, 8)
    assert int(view.owner.handle) == 4096
    del owned
    assert freed == []
    del view
    assert freed == [1]
    del memory
    assert freed == [1]


def test_the_functions_that_the_guard_replaces_are_looked_up_at_each_call() -> None:
    guard: Any = importlib.import_module("graphcap.interop._numba_guard")
    for point in guard.POINTS:
        assert callable(getattr(importlib.import_module(point.module), point.name)), point
    names = [list(inspect.signature(getattr(driver, name)).parameters) for name in _TRANSFERS]
    assert names == [["dst", "src", "size", "stream"]] * 3 + [["dst", "val", "size", "stream"]]
    assert devicearray._driver is driver
    assert dispatch.driver is driver
    source = inspect.getsource(dispatch._Kernel.launch)
    assert "launch(stream, config, kernel, *kernelargs)" in source
    assert "_driver.host_to_device(" in inspect.getsource(devicearray.DeviceNDArrayBase.copy_to_device)
    assert "_driver.device_to_host(" in inspect.getsource(devicearray.DeviceNDArrayBase.copy_to_host)


_TRANSFERS = ("host_to_device", "device_to_host", "device_to_device", "device_memset")


def test_the_arguments_of_the_launch_under_way_can_be_asked_for() -> None:
    assert dispatch._dispatcher.get_current_launch_args() in (None, ())
    before = dispatch._dispatcher.swap_current_launch_args((1, 2))
    try:
        assert dispatch._dispatcher.get_current_launch_args() == (1, 2)
    finally:
        dispatch._dispatcher.swap_current_launch_args(before)
    assert "_push_args(args)" in inspect.getsource(dispatch.CUDADispatcher.call)


def test_without_a_stream_numba_works_on_the_legacy_default_stream() -> None:
    """Why graphcap refuses such work inside a capture, and why no ``with stream:`` can help."""
    assert int(driver._to_core_stream(0).handle) in (0, 1)
    assert driver._stream_handle(0) == 0
    assert inspect.signature(dispatch.CUDADispatcher.configure).parameters["stream"].default == 0


def test_a_stream_of_another_library_has_to_be_wrapped() -> None:
    """Why ``graphcap.interop.numba.external_stream`` exists: should this pass one day, streams can be given as they are."""
    with pytest.raises(TypeError, match="Expected a Stream object"):
        driver._to_core_stream(graphcap.Stream("cuda"))
    with pytest.raises(TypeError, match="Expected a Stream object"):
        driver._stream_handle(graphcap.Stream("cuda"))


def test_streams_have_the_protocol_and_are_blocking() -> None:
    stream = cuda.stream()
    assert stream.__cuda_stream__() == (0, int(stream.handle))
    external = cuda.external_stream(int(stream.handle))
    external.graphcap_owner = stream  # takes attributes
    assert external.__cuda_stream__() == stream.__cuda_stream__()
    core_stream = importlib.import_module("cuda.core").Stream.from_handle(int(stream.handle))
    assert not core_stream.is_nonblocking, "one event of the legacy stream stands for Numba's own streams"


def test_arrays_say_their_address_and_their_stream() -> None:
    a = cuda.to_device(np.ones((2, 3), np.float32))
    interface = a.__cuda_array_interface__
    assert (interface["version"], interface["stream"], interface["strides"]) == (3, None, None)
    stream = cuda.stream()
    assert a.bind(stream).__cuda_array_interface__["stream"] == int(stream.handle)
    assert not hasattr(a, "copy"), "clones are made by graphcap's hook"


def test_errors_carry_the_drivers_number() -> None:
    error = driver.CudaAPIError(driver.binding.CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "Call to cuX results in …")
    assert int(error.code) == 906


def test_clean_up_can_be_put_off() -> None:
    context = cuda.current_context()
    with context.defer_cleanup():
        assert context.deallocations.is_disabled
        assert context.memory_manager.deallocations.is_disabled
    assert not context.deallocations.is_disabled
    assert context in [device.primary_context for device in driver.driver.list_devices()]


def test_a_manager_set_after_the_first_use_has_no_effect() -> None:
    """Why ``use_graphcap_memory`` refuses then."""
    printed = child(
        """
        from numba import cuda
        cuda.device_array(3)
        class Mine(cuda.HostOnlyCUDAMemoryManager):
            initialize = memalloc = get_ipc_handle = get_memory_info = None
            interface_version = 1
        cuda.set_memory_manager(Mine)
        cuda.device_array(3)
        print(type(cuda.current_context().memory_manager).__name__)
        """
    )
    assert printed == "NumbaCUDAMemoryManager"
