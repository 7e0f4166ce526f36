"""Guests on an XPU: host arrays of other libraries, and USM memory of dpctl; on the CPU device of OpenCL."""

from __future__ import annotations

import gc
import importlib
from typing import Any

import numpy as np
import pytest

import graphcap


class Foreign:
    """A library that has DLPack and nothing else."""

    def __init__(self, values: Any) -> None:
        self.inner = np.array(values)

    def __dlpack__(self, **options: Any) -> Any:
        return self.inner.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def _jax(values: Any) -> Any:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    return jax.numpy.asarray(np.array(values))


def _torch(values: Any) -> Any:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    return torch.from_numpy(np.array(values))


@pytest.mark.parametrize("make", [Foreign, _torch, _jax])
def test_host_guests_are_uploaded_at_each_replay_and_kept(device: str, stream: Any, make: Any) -> None:
    buffer = stream.allocate(400)
    guest = make(np.arange(100, dtype=np.float32))
    graph = graphcap.Graph(device)
    with stream, graph:
        stream.copy(buffer, guest)
    del guest
    gc.collect()
    graph.replay(stream)
    found = np.zeros(100, np.float32)
    stream.copy(found, buffer)
    stream.synchronize()
    assert found.tolist() == list(range(100))


def test_a_host_guest_is_a_destination_where_it_may_be_written(stream: Any) -> None:
    buffer = stream.allocate(16)
    stream.fill(buffer, 7)
    guest = Foreign(np.zeros(16, np.uint8))
    stream.copy(guest, buffer)
    stream.synchronize()
    assert guest.inner.tolist() == [7] * 16
    with pytest.raises(ValueError, match="read-only"):
        stream.copy(_jax(np.zeros(4, np.float32)), buffer)


def test_dpctls_usm_memory_is_a_guest(device: str, stream: Any) -> None:
    memory: Any = importlib.import_module("dpctl.memory")
    usm = memory.MemoryUSMShared(64)
    graph = graphcap.Graph(device)
    with stream, graph:
        stream.fill(usm, 5)
    graph.replay(stream)
    stream.synchronize()
    assert bytes(usm.copy_to_host()) == bytes([5] * 64)


def test_usm_memory_by_dlpack_alone_is_refused_in_words(stream: Any) -> None:
    """DLPack's kind for USM names no queue and no context; USM arrays come by ``__sycl_usm_array_interface__``."""

    class OneAPI(Foreign):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (14, 0)

    with pytest.raises(TypeError, match="USM array"):
        stream.copy(stream.allocate(4), OneAPI([1]))
