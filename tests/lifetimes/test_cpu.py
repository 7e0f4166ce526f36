"""CPU: a node's views keep what they were made from. What is left is memory of nobody, and owners that let go of it."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
from collections.abc import Callable
from multiprocessing import shared_memory
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.testing.case import NBYTES, N, vector

xp = graphcap.array_namespace("cpu")


@pytest.fixture(params=["native", "python"], autouse=True)
def replay(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both replays."""
    if request.param == "python":
        monkeypatch.setenv("GRAPHCAP_CPU_REPLAY", "python")


def _stream() -> Any:
    make: Any = graphcap.Stream
    return make("cpu")


def _graph_of(source: Any, out: Any, *, debug: bool = False, lifetimes: str = "warn") -> graphcap.Graph:
    """A graph that copies `source` to `out`."""
    graph = graphcap.Graph("cpu", lifetimes=lifetimes)
    if debug:
        graph.enable_debug_mode()
    stream = _stream()
    with stream, graph:
        stream.copy(out, source)
    return graph


def test_everything_is_kept() -> None:
    """Arrays, views of them, and memory by the buffer protocol: nothing to tell, and nothing can go."""
    out = np.zeros(N, np.float32)
    for make in (
        lambda: vector(3),
        lambda: np.arange(2 * N, dtype=np.float32)[N:],
        lambda: np.frombuffer(bytearray(vector(3).tobytes()), np.float32),
        lambda: np.ctypeslib.as_array((ctypes.c_float * N)(*vector(3))),
        lambda: np.from_dlpack(vector(3)),
    ):
        source = make()
        expected = source.copy()
        graph = _graph_of(source, out, debug=True, lifetimes="strict")
        del source
        gc.collect()
        _ = [np.full(N, -1, np.float32) for _ in range(64)]
        graph.replay()
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("way", ["from_address", "pointer"])
def test_memory_of_nobody_is_told_of(way: str) -> None:
    """Scenario 2 on the CPU: a view of a bare address keeps nothing."""
    memory = (ctypes.c_float * N)(*vector(3))
    address, out = ctypes.addressof(memory), np.zeros(N, np.float32)
    if way == "from_address":
        view: Any = (ctypes.c_float * N).from_address(address)
        source = np.frombuffer(view, np.float32)
    else:
        move = ctypes.CDLL(None).memmove  # C code that returns a pointer: the one that it is given
        move.restype, move.argtypes = (
            ctypes.POINTER(ctypes.c_float),
            (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t),
        )
        source = np.ctypeslib.as_array(move(address, address, 0), (N,))
    with pytest.warns(
        graphcap.UnownedPointerWarning, match=f"node 0 .memcpy 'memcpy'.: read 0 = {address:#x}"
    ) as caught:
        graph = _graph_of(source, out)
    assert caught[0].filename == __file__
    graph.replay()
    np.testing.assert_array_equal(out, vector(3))
    with pytest.raises(graphcap.UnownedPointerError, match="read 0"):
        _graph_of(source, out, lifetimes="strict")
    _graph_of(source, out, lifetimes="off")
    graph = graphcap.Graph("cpu", lifetimes="strict")
    stream = _stream()
    with stream, graph:
        graph.retain(memory, address=address, nbytes=NBYTES)
        stream.copy(out, source)


def _resized() -> tuple[Any, Callable[[], object]]:
    array = vector(3)
    return array[:], lambda: array.resize(1 << 20, refcheck=False)


def _resized_itself() -> tuple[Any, Callable[[], object]]:
    array = vector(3)
    return array, lambda: array.resize(1 << 20, refcheck=False)


def _grown_bytes() -> tuple[Any, Callable[[], object]]:
    array = bytearray(vector(3).tobytes())
    return np.ndarray((N,), np.float32, buffer=array), lambda: array.extend(bytes(1 << 20))


def _closed_shared_memory() -> tuple[Any, Callable[[], object]]:
    memory = shared_memory.SharedMemory(create=True, size=NBYTES)
    array: Any = np.ndarray((N,), np.float32, buffer=memory.buf)
    array[:] = vector(3)

    def close() -> None:
        memory.unlink()
        memory.close()

    return array, close


def _closed_map() -> tuple[Any, Callable[[], object]]:
    memory = mmap.mmap(-1, NBYTES)
    array: Any = np.ndarray((N,), np.float32, buffer=memory)
    array[:] = vector(3)
    return array, memory.close


@pytest.mark.parametrize("make", [_resized, _resized_itself, _grown_bytes, _closed_shared_memory, _closed_map])
def test_flashinfer_4553_owners_that_let_go_of_their_memory(
    make: Callable[[], tuple[Any, Callable[[], object]]],
) -> None:
    """https://github.com/flashinfer-ai/flashinfer/pull/4553: debug mode refuses the replay and names node and address."""
    source, let_go = make()
    out = np.zeros(N, np.float32)
    address = int(source.__array_interface__["data"][0])
    graph = _graph_of(source, out, debug=True)
    for _ in range(3):
        graph.replay()
    np.testing.assert_array_equal(out, vector(3))
    let_go()
    with pytest.raises(graphcap.StalePointerError, match=r"resized|closed") as refused:
        graph.replay()
    assert (refused.value.node, refused.value.argument) == ("node 0 (memcpy 'memcpy')", "read 0")
    assert refused.value.address == address


def test_numpy_itself_refuses_to_resize_what_a_graph_uses() -> None:
    """Outside of debug mode it takes ``refcheck=False`` to come to that: NumPy sees the graph's reference."""
    array, out = vector(3), np.zeros(N, np.float32)
    graph = _graph_of(array, out)
    with pytest.raises(ValueError, match="cannot resize"):
        array.resize(1 << 20)
    graph.replay()
    np.testing.assert_array_equal(out, vector(3))


def test_a_graph_that_is_not_looked_at_replays_by_its_executable_alone() -> None:
    """Debug mode costs nothing where it is off."""
    plain = _graph_of(vector(1), np.zeros(N, np.float32))
    looked_at = _graph_of(vector(1), np.zeros(N, np.float32), debug=True)
    assert "replay" in vars(plain.impl)
    assert "replay" not in vars(looked_at.impl)


def test_aiter_5393_a_cache_first_built_in_the_capture() -> None:
    """https://github.com/ROCm/aiter/pull/5393: it lies where an earlier temporary was, and no node writes it."""
    x = xp.asarray(vector(1))
    stream, graph = _stream(), graphcap.Graph("cpu")
    with pytest.warns(graphcap.ReusedMemoryWarning, match="overwrites it by node 0") as caught, stream, graph:
        temporary = x + x
        total = temporary * x
        del temporary
        workspace = xp.empty(N, np.float32)
    assert caught[0].filename == __file__
    workspace[:] = 50.0
    graph.replay()
    assert total is not None
    # The native replay may keep the temporary elsewhere; the next one, or the next release, may not.
    assert os.environ.get("GRAPHCAP_CPU_REPLAY") != "python" or not (np.asarray(workspace) == 50).all()


def test_an_output_in_reused_memory_is_no_trouble() -> None:
    x = xp.asarray(vector(1))
    stream, graph = _stream(), graphcap.Graph("cpu", keep_graph=True)
    with stream, graph:
        temporary = x + x
        total = temporary * x
        del temporary
        output = total + x
    graph.replay()
    np.testing.assert_array_equal(np.asarray(output), 2 * vector(1) ** 2 + vector(1))
