"""What a test can see of the emulated driver, and make it do."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from cuda.bindings import driver as cu

from tests.emulated_device import control, harness
from tests.emulated_device.harness import Board, code, ok

pytestmark = pytest.mark.skipif(not harness.emulated(), reason="a real driver cannot be told to fail")

OUT_OF_MEMORY = int(cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY)


@pytest.fixture
def board() -> Iterator[Board]:
    with harness.board() as made:
        yield made


def test_the_nth_call_fails_and_does_nothing(board: Board) -> None:
    control.fail("cuMemAlloc", 2, OUT_OF_MEMORY)
    before = control.counts()["device_allocation"]
    results = [cu.cuMemAlloc(64) for _ in range(3)]
    assert [code(one) for one in results] == [0, OUT_OF_MEMORY, 0]
    assert control.counts()["device_allocation"] == before + 2
    for one in (results[0], results[2]):
        ok(cu.cuMemFree(one[1]))


def test_a_fault_may_be_armed_before_the_first_call(board: Board) -> None:
    """Functions are known to the fault table by name, called before or not."""
    control.fail("cuCtxGetApiVersion", 1, 999)
    assert code(cu.cuCtxGetApiVersion(board.context)) == 999
    assert code(cu.cuCtxGetApiVersion(board.context)) == 0


def test_resetting_disarms(board: Board) -> None:
    control.fail("cuMemAlloc", 1, OUT_OF_MEMORY)
    control.reset_faults()
    ok(cu.cuMemFree(ok(cu.cuMemAlloc(64))))


def test_latency(board: Board) -> None:
    control.latency("cuStreamQuery", 30_000)
    began = time.monotonic()
    ok(cu.cuStreamQuery(board.stream()))
    assert time.monotonic() - began >= 0.03
    control.reset_faults()


def test_the_log_names_thread_stream_and_result(board: Board) -> None:
    stream = board.stream()
    control.clear_calls()
    ok(cu.cuStreamQuery(stream))
    other = threading.Thread(target=lambda: (cu.cuCtxSetCurrent(board.context), cu.cuStreamSynchronize(stream)))
    other.start()
    other.join()
    assert code(cu.cuMemFree(12345)) == 1
    calls = control.calls()
    assert [(call.name, call.result) for call in calls] == [
        ("cuStreamQuery", 0),
        ("cuCtxSetCurrent", 0),
        ("cuStreamSynchronize", 0),
        ("cuMemFree", 1),
    ]
    assert [call.stream for call in calls] == [int(stream), 0, int(stream), 0]
    assert calls[0].thread == threading.get_native_id() != calls[1].thread


def test_counts_follow_what_is_alive(board: Board) -> None:
    before = control.counts()
    stream, graph = ok(cu.cuStreamCreate(1)), ok(cu.cuGraphCreate(0))
    ok(cu.cuGraphAddEmptyNode(graph, None, 0))
    after = control.counts()
    assert {kind: after[kind] - before[kind] for kind in after if after[kind] != before[kind]} == {
        "stream": 1,
        "graph": 1,
        "graph_node": 1,
    }
    ok(cu.cuGraphDestroy(graph))
    ok(cu.cuStreamDestroy(stream))
    assert control.counts() == before


def test_frees_in_flight_come_back_before_a_refusal(board: Board) -> None:
    """Memory whose free was submitted and has not run yet is waited for; memory that is in use is not."""
    stream = board.stream()
    control.memory_limit(_used() + (3 << 20))
    try:
        for _ in range(50):
            pointer = ok(cu.cuMemAllocAsync(1 << 20, stream))
            ok(cu.cuMemFreeAsync(pointer, stream))
        held = [ok(cu.cuMemAllocAsync(1 << 20, stream)) for _ in range(3)]
        assert code(cu.cuMemAllocAsync(1 << 20, stream)) == int(cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY)
        for pointer in held:
            ok(cu.cuMemFreeAsync(pointer, stream))
        ok(cu.cuStreamSynchronize(stream))
    finally:
        control.memory_limit(0)


def _used() -> int:
    free, total = ok(cu.cuMemGetInfo())
    return int(total) - int(free)


def test_the_memory_limit(board: Board) -> None:
    free, total = ok(cu.cuMemGetInfo())
    used = total - free
    control.memory_limit(used + 4096)
    try:
        assert ok(cu.cuMemGetInfo()) == (4096, used + 4096)
        assert code(cu.cuMemAlloc(8192)) == OUT_OF_MEMORY
        assert code(cu.cuMemAllocAsync(8192, board.stream())) == OUT_OF_MEMORY
        first = ok(cu.cuMemAlloc(4096))
        assert code(cu.cuMemAlloc(1)) == OUT_OF_MEMORY
        ok(cu.cuMemFree(first))
    finally:
        control.memory_limit(0)
    assert ok(cu.cuMemGetInfo()) == (free, total)
    with pytest.raises(ValueError, match="no emulated device 99"):
        control.memory_limit(1, 99)


def test_a_copy_past_the_end_sticks_and_names_itself(board: Board) -> None:
    cell, stream = board.buffer(64), board.stream()
    control.clear_calls()
    ok(cu.cuMemsetD8Async(cell, 1, 65, stream))  # accepted when submitted, as with work of a device
    assert code(cu.cuStreamSynchronize(stream)) == int(cu.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)
    assert code(cu.cuMemAlloc(8)) == int(cu.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)
    assert control.notes() == ["work in a stream: MEMSET failed with 700"]


@pytest.mark.parametrize("shift", [0, 1])
def test_ranges_are_checked_to_the_byte(board: Board, shift: int) -> None:
    cell, stream = board.buffer(100), board.stream()
    ok(cu.cuMemsetD8Async(cell + 60, 1, 40 + shift, stream))
    expected = int(cu.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS) if shift else 0
    assert code(cu.cuStreamSynchronize(stream)) == expected


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("past", [0, 1])
def test_copies_are_checked_to_the_byte_on_both_sides(board: Board, side: str, past: int) -> None:
    """Within one page, where no page protection would notice."""
    short, long, stream = board.buffer(100), board.buffer(200), board.stream()
    to, source = (short, long) if side == "target" else (long, short)
    ok(cu.cuMemcpyDtoDAsync(to + 50, source + 50, 50 + past, stream))
    expected = int(cu.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS) if past else 0
    assert code(cu.cuStreamSynchronize(stream)) == expected


@pytest.mark.parametrize("past", [0, 1])
def test_the_last_row_counts_without_its_pitch(board: Board, past: int) -> None:
    cell, other, stream = board.buffer(3 * 32 + 8), board.buffer(256), board.stream()
    copy = cu.CUDA_MEMCPY2D()
    copy.srcMemoryType = copy.dstMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
    copy.srcDevice, copy.srcPitch, copy.dstDevice, copy.dstPitch = other, 64, cell, 32
    copy.WidthInBytes, copy.Height = 8 + past, 4
    ok(cu.cuMemcpy2DAsync(copy, stream))
    expected = int(cu.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS) if past else 0
    assert code(cu.cuStreamSynchronize(stream)) == expected


def test_callbacks_may_not_call_the_driver(board: Board) -> None:
    import cffi

    ffi = cffi.FFI()
    results: list[int] = []

    @ffi.callback("void(void *)")  # type: ignore[untyped-decorator]  # cffi has no types
    def called(_: object) -> None:
        cu.cuCtxSetCurrent(board.context)
        results.append(code(cu.cuMemAlloc(64)))
        results.append(code(cu.cuStreamSynchronize(stream)))

    stream = board.stream()
    params = cu.CUDA_HOST_NODE_PARAMS()
    params.fn = cu.CUhostFn(int(ffi.cast("uintptr_t", called)))
    graph = board.graph()
    ok(cu.cuGraphAddHostNode(graph, None, 0, params))
    ok(cu.cuGraphLaunch(board.instantiate(graph), stream))
    ok(cu.cuStreamSynchronize(stream))
    assert results == [int(cu.CUresult.CUDA_ERROR_NOT_PERMITTED)] * 2


def test_pageable_memory_is_read_at_the_call(board: Board) -> None:
    """The driver stages pageable sources before it returns; what the program does to them then, does not matter."""
    source = np.full(64, 3, np.uint8)
    cell, stream = board.buffer(64), board.stream()
    ok(cu.cuMemcpyHtoDAsync(cell, source.ctypes.data, 64, stream))
    source[:] = 9
    assert board.read(cell, np.uint8, 64).tolist() == [3] * 64


def test_pinned_memory_is_read_when_the_work_runs(board: Board) -> None:
    import cffi

    ffi = cffi.FFI()
    pinned = int(ok(cu.cuMemAllocHost(64)))
    view = ffi.buffer(ffi.cast("char *", pinned), 64)
    view[:] = b"\x03" * 64
    cell, stream = board.buffer(64), board.stream()
    ok(cu.cuMemcpyHtoDAsync(cell, pinned, 64, stream))
    view[:] = b"\x09" * 64
    assert board.read(cell, np.uint8, 64).tolist() == [9] * 64
    ok(cu.cuMemFreeHost(pinned))


def test_two_dimensional_copies(board: Board) -> None:
    """Against NumPy's slicing, host to device and back, with pitches and offsets."""
    rows, columns, pitch = 5, 12, 32
    source = np.arange(8 * 20, dtype=np.uint8).reshape(8, 20)
    cell = board.buffer(rows * pitch + 64)
    to = cu.CUDA_MEMCPY2D()
    to.srcMemoryType, to.dstMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_HOST, cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
    to.srcHost, to.srcPitch, to.srcXInBytes, to.srcY = source.ctypes.data, 20, 3, 2
    to.dstDevice, to.dstPitch, to.dstXInBytes = cell, pitch, 4
    to.WidthInBytes, to.Height = columns, rows
    ok(cu.cuMemcpy2D(to))
    expected = np.zeros((rows, pitch), np.uint8)
    expected[:, 4 : 4 + columns] = source[2 : 2 + rows, 3 : 3 + columns]
    np.testing.assert_array_equal(board.read(cell, np.uint8, rows * pitch).reshape(rows, pitch), expected)
    ok(cu.cuMemsetD2D16(cell, pitch, 0x0201, 6, rows))
    expected[:, :12] = np.tile([1, 2], 6)
    np.testing.assert_array_equal(board.read(cell, np.uint8, rows * pitch).reshape(rows, pitch), expected)


def test_pointer_attributes(board: Board) -> None:
    names = cu.CUpointer_attribute
    cell = board.buffer(1000)
    base, size = ok(cu.cuMemGetAddressRange(cell + 500))
    assert (int(base), size) == (cell, 1000)
    assert ok(cu.cuPointerGetAttribute(names.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, cell)) == 0
    assert int(ok(cu.cuPointerGetAttribute(names.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, cell))) == 2
    assert code(cu.cuPointerGetAttribute(names.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 12345)) == 1


def test_peer_access_is_a_setting_of_the_context(board: Board) -> None:
    with harness.board(1) as other:
        ok(cu.cuCtxSetCurrent(board.context))
        assert ok(cu.cuDeviceCanAccessPeer(0, 1)) == 1
        ok(cu.cuCtxEnablePeerAccess(other.context, 0))
        assert code(cu.cuCtxEnablePeerAccess(other.context, 0)) == int(
            cu.CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
        )
        ok(cu.cuCtxDisablePeerAccess(other.context))
        assert code(cu.cuCtxDisablePeerAccess(other.context)) == int(cu.CUresult.CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)
    ok(cu.cuCtxSetCurrent(board.context))
