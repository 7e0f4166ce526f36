"""What graphcap relies on in cuda.core. A release that changes one of these fails here, by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphcap
from tests.cuda.kit import make_stream

core: Any = pytest.importorskip("cuda.core", reason="cuda-core is not installed")
utils: Any = pytest.importorskip("cuda.core.utils", reason="cuda-core is not installed")


class Noting(core.MemoryResource):  # type: ignore[misc]
    """Notes what cuda.core asks of a resource."""

    is_device_accessible, is_host_accessible, is_managed, device_id = True, False, False, 0

    def __init__(self) -> None:
        self.kept: dict[int, Any] = {}
        self.calls: list[tuple[Any, ...]] = []

    def allocate(self, size: int, *, stream: Any) -> Any:
        memory = graphcap.allocate(size, "cuda:0")
        self.kept[memory.ptr] = memory
        self.calls.append(("allocate", size, type(stream)))
        return core.Buffer.from_handle(memory.ptr, size, mr=self, stream=stream)

    def deallocate(self, ptr: Any, size: int, *, stream: Any) -> None:
        self.calls.append(("deallocate", type(ptr), ptr, size, int(stream.handle)))
        del self.kept[int(ptr)]
        if size == 13:
            raise ValueError("refused")


@pytest.fixture
def device() -> Any:
    """The first device, current."""
    found = core.Device(0)
    found.set_current()
    return found


def test_a_buffer_calls_its_resource_with_an_int_its_size_and_the_stream_of_its_allocation(device: Any) -> None:
    resource, stream, other = Noting(), device.create_stream(), device.create_stream()
    buffer = resource.allocate(100, stream=stream)
    place = int(buffer.handle)
    del buffer
    assert resource.calls[-1] == ("deallocate", int, place, 100, int(stream.handle))
    buffer = resource.allocate(100, stream=stream)
    buffer.close(other)
    assert resource.calls[-1][-1] == int(other.handle)
    buffer = resource.allocate(100, stream=stream)
    buffer.set_deallocation_stream(other)
    del buffer
    assert resource.calls[-1][-1] == int(other.handle)
    assert not resource.kept


def test_what_deallocate_raises_is_printed_and_goes_no_further(device: Any, capfd: pytest.CaptureFixture[str]) -> None:
    resource = Noting()
    resource.allocate(13, stream=device.create_stream()).close()
    written = capfd.readouterr()
    assert "refused" in written.out + written.err


def test_a_device_hands_the_stream_on_as_it_is_given_and_a_buffer_wants_cuda_cores_own(device: Any) -> None:
    """Why ``PoolMemoryResource`` wraps streams of other libraries."""
    before = device.memory_resource
    resource = Noting()
    device.memory_resource = resource
    try:
        with pytest.raises(TypeError, match="Stream or GraphBuilder expected"):
            device.allocate(16, stream=make_stream())
        assert resource.calls[-1][2] is type(make_stream())
    finally:
        device.memory_resource = before


def test_the_stream_protocol_both_ways_keeps_the_object(device: Any) -> None:
    own = make_stream()
    stream = device.create_stream(own)
    assert stream.__cuda_stream__() == (0, own.handle)
    handle = own.handle
    del own
    assert int(stream.handle) == handle
    stream.sync()


def test_a_strided_memory_view_tells_address_shape_strides_in_items_type_and_rights() -> None:
    memory = graphcap.allocate(48, "cuda")
    view = utils.StridedMemoryView.from_dlpack(memory, stream_ptr=-1)
    assert (view.ptr, view.shape, view.readonly) == (memory.ptr, (48,), False)
    assert view.strides in (None, (1,))
    whole = core.Buffer.from_handle(memory.ptr, 48, owner=memory)
    typed = utils.StridedMemoryView.from_buffer(whole, shape=(3, 4), dtype=np.dtype(np.int32), is_readonly=True)
    again = utils.StridedMemoryView.from_dlpack(typed, stream_ptr=-1)
    assert (again.ptr, again.shape, again.dtype, again.readonly) == (memory.ptr, (3, 4), np.dtype(np.int32), True)


def test_a_view_by_dlpack_keeps_the_exporter_alive() -> None:
    import gc
    import weakref

    memory = graphcap.allocate(48, "cuda")
    alive = weakref.ref(memory)
    view = utils.StridedMemoryView.from_dlpack(memory, stream_ptr=-1)
    del memory
    gc.collect()
    assert alive() is not None
    del view
    gc.collect()
    assert alive() is None


def test_errors_carry_the_drivers_name(device: Any) -> None:
    stream = device.create_stream()
    memory = graphcap.allocate(16, "cuda")
    wrapped = graphcap.Stream.wrap(stream, "cuda")
    wrapped.__enter__()
    graph = graphcap.Graph("cuda")
    graph.capture_begin()
    try:
        wrapped.fill(memory, 1)
        with pytest.raises(Exception, match="CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED") as caught:
            stream.sync()
        assert type(caught.value).__module__.startswith("cuda.core")
    finally:
        graph.reset()
        wrapped.__exit__(None, None, None)
