"""What graphcap relies on in RMM. A release that changes one of these fails here, by name."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.cuda import kit as cuda_kit

rmm: Any = pytest.importorskip("rmm", reason="rmm is not installed")
Stream: Any = importlib.import_module("rmm.pylibrmm.stream").Stream


def test_the_callbacks_get_bytes_and_a_stream_with_the_protocol() -> None:
    calls: list[tuple[Any, ...]] = []
    own = cuda_kit.make_stream()

    def allocate(nbytes: int, stream: Any) -> int:
        calls.append((type(nbytes), nbytes, stream.__cuda_stream__()))
        return 4096

    def deallocate(address: int, nbytes: int, stream: Any) -> None:
        calls.append((type(address), address, nbytes, stream.__cuda_stream__()))

    resource = rmm.mr.CallbackMemoryResource(allocate, deallocate)
    assert resource.allocate(100, Stream(own)) == 4096
    resource.deallocate(4096, 100, Stream(own))
    assert calls == [(int, 100, (0, own.handle)), (int, 4096, 100, (0, own.handle))]


def test_the_default_stream_comes_as_0_or_1() -> None:
    seen: list[int] = []

    def allocate(nbytes: int, stream: Any) -> int:
        seen.append(stream.__cuda_stream__()[1])
        return 4096

    resource = rmm.mr.CallbackMemoryResource(allocate, lambda address, nbytes, stream: None)
    resource.allocate(1)
    assert seen[0] in (0, 1)


def test_a_memory_error_stays_one_and_another_error_keeps_its_words() -> None:
    def refuse(nbytes: int, stream: Any) -> int:
        raise MemoryError("no room") if nbytes == 1 else RuntimeError("own words")

    resource = rmm.mr.CallbackMemoryResource(refuse, lambda address, nbytes, stream: None)
    with pytest.raises(MemoryError, match="no room"):
        resource.allocate(1)
    with pytest.raises(RuntimeError, match="own words"):
        resource.allocate(2)


def test_a_resource_can_be_subclassed_in_python() -> None:
    class Own(rmm.mr.CallbackMemoryResource):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(lambda nbytes, stream: 4096, lambda address, nbytes, stream: None)
            self.attribute = 1

    assert Own().allocate(1) == 4096


@pytest.mark.skipif(not cuda_kit.is_emulated(), reason="with a real driver they work")
def test_device_buffers_need_nvidias_runtime() -> None:
    """Why they are in the GPU check: should this pass one day, they can be tested here."""
    with pytest.raises(Exception, match="cudaError"):
        rmm.DeviceBuffer(size=16)
