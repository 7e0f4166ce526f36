"""Device memory is closed to the host, and a kernel's stray access becomes an error of the device."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cuda.bindings import driver as cu

from tests.emulated_device import control, harness
from tests.emulated_device.harness import Board, code, ok

pytestmark = pytest.mark.skipif(not harness.emulated(), reason="a real device protects its memory itself")

ROOT = Path(__file__).resolve().parents[1]
ILLEGAL_ADDRESS = int(cu.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)


@pytest.fixture
def board() -> Iterator[Board]:
    before = control.protection(True)
    with harness.board() as made:
        yield made
    control.protection(before)


def child(body: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program on the emulated device with protection on."""
    import os

    program = (
        "import faulthandler; faulthandler.enable()\n"
        "from tests.emulated_device import loader, control; loader.load()\n"
        "import cffi, numpy as np\n"
        "from cuda.bindings import driver as cu\n"
        "from tests.emulated_device.harness import Board, ok\n"
        "control.protection(True)\n"
        "board = Board(); pointer = board.buffer(4096, 7); ffi = cffi.FFI()\n"
        f"{body}\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


KEYS = pytest.mark.parametrize("keys", [{}, {"GRAPHCAP_EMULATED_NO_KEYS": "1"}], ids=["keys", "pages"])


@KEYS
@pytest.mark.parametrize("access", ["read", "write"])
def test_the_host_cannot_touch_device_memory(keys: dict[str, str], access: str) -> None:
    what = {"read": "print(ffi.cast('char *', pointer)[0])", "write": "ffi.cast('char *', pointer)[0] = b'x'"}[access]
    done = child(what, **keys)
    assert done.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in done.stderr  # faulthandler, which came first, says where


@KEYS
def test_copies_reach_it_all_the_same(keys: dict[str, str]) -> None:
    done = child("print(board.read(pointer, np.uint8, 4).tolist())", **keys)
    assert done.stdout == "[7, 7, 7, 7]\n", done.stderr


def test_pinned_and_managed_memory_stay_open(board: Board) -> None:
    import cffi

    ffi = cffi.FFI()
    pinned = int(ok(cu.cuMemAllocHost(64)))
    managed = int(ok(cu.cuMemAllocManaged(64, 1)))
    for pointer in (pinned, managed):
        ok(cu.cuMemsetD8(pointer, 3, 64))
        assert ffi.buffer(ffi.cast("char *", pointer), 64)[:] == b"\x03" * 64
    ok(cu.cuMemFreeHost(pinned))
    ok(cu.cuMemFree(managed))


@pytest.mark.parametrize("past", [0, 4096], ids=["just past the end", "a page past it"])
def test_a_stray_access_of_a_kernel_sticks(board: Board, past: int) -> None:
    stream, cell = board.stream(), board.buffer(1024)
    board.launch(board.kernel("poke"), stream, np.uint64(cell + 1024 + past), np.int32(1))
    assert code(cu.cuStreamSynchronize(stream)) == ILLEGAL_ADDRESS
    assert code(cu.cuMemsetD8Async(cell, 0, 16, stream)) == ILLEGAL_ADDRESS  # and stays
    assert code(cu.cuMemAlloc(16)) == ILLEGAL_ADDRESS
    assert any("KERNEL poke" in note for note in control.notes())
    control.reset_faults()
    ok(cu.cuMemsetD8(cell, 0, 16))


def test_the_note_names_the_node(board: Board) -> None:
    stream, cell, poke = board.stream(), board.buffer(1024), board.kernel("poke")

    def body() -> None:
        ok(cu.cuMemsetD8Async(cell, 0, 16, stream))
        board.launch(poke, stream, np.uint64(cell + 1024), np.int32(1))

    executable = board.instantiate(board.capture(stream, body))
    control.clear_calls()
    ok(cu.cuGraphLaunch(executable, stream))  # the fault shows at the later synchronisation (E-38)
    assert code(cu.cuStreamSynchronize(stream)) == ILLEGAL_ADDRESS
    (note,) = control.notes()
    assert note.startswith("node 1 of a graph launch: KERNEL poke failed with 700: ")
    assert note.endswith(
        f"write to {cell + 1024:#x}, 0 bytes behind the end of the allocation of 1024 bytes at {cell:#x}"
    )


def test_use_after_a_stream_ordered_free(board: Board) -> None:
    stream, poke = board.stream(), board.kernel("poke")
    pointer = int(ok(cu.cuMemAllocAsync(1024, stream)))
    ok(cu.cuMemFreeAsync(pointer, stream))
    board.launch(poke, stream, np.uint64(pointer), np.int32(1))
    assert code(cu.cuStreamSynchronize(stream)) == ILLEGAL_ADDRESS


def test_a_fault_does_not_stop_the_process_or_other_devices(board: Board) -> None:
    board.launch(board.kernel("poke"), board.stream(), np.uint64(64), np.int32(1))
    assert code(cu.cuCtxSynchronize()) == ILLEGAL_ADDRESS
    with harness.board(1) as other:
        assert other.read(other.buffer(4, 9), np.uint8, 4).tolist() == [9] * 4
    ok(cu.cuCtxSetCurrent(board.context))
