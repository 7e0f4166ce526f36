"""What goes wrong inside a kernel becomes an error of the device, told with kernel, block and thread; the process lives."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cuda.bindings import driver as cu

from tests.emulated_device import control, harness, loader
from tests.emulated_device.harness import Board, code, ok

pytestmark = pytest.mark.skipif(not harness.emulated(), reason="a real device reports its faults in its own words")

ROOT = Path(__file__).resolve().parents[1]
ILLEGAL_ADDRESS = int(cu.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)
ASSERT = int(cu.CUresult.CUDA_ERROR_ASSERT)
STACK = int(cu.CUresult.CUDA_ERROR_HARDWARE_STACK_ERROR)
LAUNCH_FAILED = int(cu.CUresult.CUDA_ERROR_LAUNCH_FAILED)
INVALID_VALUE = int(cu.CUresult.CUDA_ERROR_INVALID_VALUE)


@pytest.fixture
def board() -> Iterator[Board]:
    before = control.protection(True)
    with harness.board() as made:
        yield made
    control.seed(0)
    control.protection(before)


def works(board: Board) -> None:
    """The device does barriers and warp operations as if nothing had happened."""
    values = np.arange(64, dtype=np.int32)
    sums, scans, source = board.buffer(8 * 64), board.buffer(4 * 64), board.upload(values)
    arguments = (np.uint64(sums), np.uint64(scans), np.uint64(source), np.int32(1))
    board.launch(board.kernel("warp_scan", "threads"), board.stream(), *arguments, block=64)
    assert board.read(scans, np.int32, 64).tolist() == values.reshape(2, 32).cumsum(1).ravel().tolist()
    cells = board.upload(values)
    board.launch(board.kernel("block_reverse"), board.stream(), np.uint64(cells), block=64, shared=256)
    assert board.read(cells, np.int32, 64).tolist() == values[::-1].tolist()


def fails(
    board: Board,
    kernel: str,
    error: int,
    *arguments: np.generic,
    block: int = 1,
    file: str = "threads",
    function: object = None,
) -> str:
    """The note about a kernel that must fail with this error, which sticks until the context is reset."""
    control.clear_calls()
    board.launch(function or board.kernel(kernel, file), board.stream(), *arguments, block=block)
    assert code(cu.cuCtxSynchronize()) == error
    assert code(cu.cuMemAlloc(16)) == error
    start = f"work in a stream: KERNEL {kernel} failed with {error}: kernel {kernel}, block (0, 0, 0), thread "
    (note,) = control.notes()
    assert note.startswith(start)
    control.reset_faults()
    works(board)
    return note.removeprefix(start)


@pytest.mark.parametrize("sync", [0, 1], ids=["before any barrier", "behind a barrier"])
@pytest.mark.parametrize("block", [1, 40])
def test_a_stack_overflow_by_recursion(board: Board, sync: int, block: int) -> None:
    out = np.uint64(board.buffer(64))
    board.launch(board.kernel("recurse", "threads"), board.stream(), out, np.int32(100), np.int32(sync), block=block)
    ok(cu.cuCtxSynchronize())
    note = fails(board, "recurse", STACK, out, np.int32(10_000_000), np.int32(sync), block=block)
    assert note.endswith("stack overflow (524288 bytes, see GRAPHCAP_EMULATED_STACK)")


def test_a_local_array_that_is_larger_than_the_stack(board: Board) -> None:
    note = fails(board, "big_local", STACK, np.uint64(board.buffer(64)), np.int32(12345), block=3)
    assert "stack overflow" in note


def test_a_stack_overflow_in_another_thread_of_the_program(board: Board) -> None:
    notes: list[str] = []

    def body() -> None:
        ok(cu.cuCtxSetCurrent(board.context))
        notes.append(fails(board, "big_local", STACK, np.uint64(board.buffer(64)), np.int32(0)))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(60)
    assert "stack overflow" in notes[0]


def test_the_size_of_stacks_is_a_setting() -> None:
    program = (
        "from tests.emulated_device import loader; loader.load()\n"
        "from tests.emulated_device.harness import Board, code, ok\n"
        "from tests.emulated_device import control\n"
        "import numpy as np\n"
        "from cuda.bindings import driver as cu\n"
        "board = Board(); out = board.buffer(64)\n"
        "board.launch(board.kernel('big_local', 'threads'), board.stream(), np.uint64(out), np.int32(99), block=3)\n"
        "print(code(cu.cuCtxSynchronize()), control.notes())\n"
    )
    for bytes_, expected in (("2000000", "0 []"), ("65536", "714 "), ("nonsense", "714 ")):
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "GRAPHCAP_EMULATED_STACK": bytes_},
        )  # fmt: skip
        assert done.stdout.startswith(expected), (bytes_, done.stdout, done.stderr)
        if bytes_ == "65536":
            assert "stack overflow (65536 bytes" in done.stdout


def test_a_kernel_that_spins_is_ended() -> None:
    """Thread 0 comes first and waits for what thread 1 would write; a barrier before it makes the last thread go on first."""
    program = (
        "from tests.emulated_device import loader; loader.load()\n"
        "from tests.emulated_device.harness import Board, code, ok\n"
        "from tests.emulated_device import control\n"
        "import numpy as np\n"
        "from cuda.bindings import driver as cu\n"
        "board = Board()\n"
        "for sync in (0, 1, 0):\n"
        "    flag = board.buffer(4, 0)\n"
        "    board.launch(board.kernel('spin', 'threads'), board.stream(), np.uint64(flag), np.int32(sync), block=2)\n"
        "    print(code(cu.cuCtxSynchronize()))\n"
        "    control.reset_faults()\n"
        "print(control.notes()[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
        env={**os.environ, "GRAPHCAP_EMULATED_TIMEOUT": "0.3"},
    )  # fmt: skip
    *codes, note = done.stdout.splitlines()
    assert codes == ["702", "0", "702"], done.stderr
    assert "kernel spin, block (0, 0, 0), thread (0, 0, 0): it does not end" in note


@pytest.mark.parametrize("seed", [0, 3])
def test_a_trap(board: Board, seed: int) -> None:
    control.seed(seed)
    assert fails(board, "trap", LAUNCH_FAILED, np.int32(7), block=64) == "(7, 0, 0): a trap"


def test_an_assertion(board: Board) -> None:
    note = fails(board, "check", ASSERT, np.uint64(board.buffer(4 * 64)), np.int32(40), block=64)
    assert 40 <= int(note.partition(",")[0][1:]) < 64  # the last to come to the barrier goes on first
    assert note.endswith("threads.c: assertion failed: (int)GRAPHCAP_THREAD_X < below")


def test_a_stray_access_between_barriers(board: Board) -> None:
    cell = board.buffer(1000)
    freed = int(ok(cu.cuMemAlloc(1 << 20)))
    ok(cu.cuMemFree(freed))
    poke = np.int32(1)
    note = fails(board, "poke_late", ILLEGAL_ADDRESS, np.uint64(cell + 1024), poke, block=64)
    where = f"24 bytes behind the end of the allocation of 1000 bytes at {cell:#x}"
    assert note == f"(5, 0, 0): write to {cell + 1024:#x}, {where}"
    note = fails(board, "poke_late", ILLEGAL_ADDRESS, np.uint64(freed + (1 << 19)), poke, block=64)
    assert f"inside an allocation that was freed, of 1048576 bytes at {freed:#x}" in note
    note = fails(board, "poke_late", ILLEGAL_ADDRESS, np.uint64(64), poke, block=64)
    assert note == "(5, 0, 0): write to 0x40, near address 0"


@pytest.mark.parametrize("what", ['std::runtime_error("no luck")', "42"])
def test_an_exception_that_leaves_a_kernel(board: Board, tmp_path: Path, what: str) -> None:
    source = tmp_path / "throws.c"
    source.write_text(
        '#include "graphcap_kernel.h"\n#include <stdexcept>\n'
        "GRAPHCAP_KERNEL void throws(int *out, int thread) {\n"
        "    try { if ((int)GRAPHCAP_THREAD_X == thread + 1) throw 1; } catch (int) { *out = 1; }\n"
        "    GRAPHCAP_BARRIER();\n"
        f"    if ((int)GRAPHCAP_THREAD_X == thread) throw {what};\n"
        "}\nGRAPHCAP_EXPORT(throws)\n"
    )
    module = ok(cu.cuModuleLoadData(loader.build_kernels(source).read_bytes()))
    function = ok(cu.cuModuleGetFunction(module, b"throws"))
    out = board.buffer(4)
    note = fails(board, "throws", LAUNCH_FAILED, np.uint64(out), np.int32(3), block=40, function=function)
    assert note == "(3, 0, 0): an exception left it" + (": no luck" if "luck" in what else "")
    assert board.read(out, np.int32, 1)[0] == 1  # one that it catches itself is its own affair
    ok(cu.cuModuleUnload(module))


def test_faults_of_all_kinds_one_after_another(board: Board) -> None:
    """Stacks, meetings and signal handling are in order again after each; several hundred times."""
    out = np.uint64(board.buffer(4 * 64))
    for seed in range(60):
        control.seed(seed)
        fails(board, "trap", LAUNCH_FAILED, np.int32(seed % 32), block=32)
        fails(board, "big_local", STACK, out, np.int32(0))
        fails(board, "check", ASSERT, out, np.int32(seed % 60), block=64)
        fails(board, "poke_late", ILLEGAL_ADDRESS, np.uint64(8), np.int32(1), block=32)


def test_a_fault_in_a_graph_names_its_node(board: Board) -> None:
    stream, out = board.stream(), np.uint64(board.buffer(4 * 64))

    def body() -> None:
        board.launch(board.kernel("tell", "threads"), stream, out, np.int32(1), np.int32(1), block=32)
        board.launch(board.kernel("trap", "threads"), stream, np.int32(0))

    executable = board.instantiate(board.capture(stream, body))
    control.clear_calls()
    ok(cu.cuGraphLaunch(executable, stream))
    assert code(cu.cuStreamSynchronize(stream)) == LAUNCH_FAILED
    assert control.notes() == [
        "node 1 of a graph launch: KERNEL trap failed with 719: kernel trap, block (0, 0, 0), thread (0, 0, 0): a trap"
    ]


@pytest.mark.parametrize("bytes_", [1, 100, 128, 5000, 48 * 1024])
def test_dynamic_shared_memory(board: Board, bytes_: int) -> None:
    """Aligned, at hand to the last byte, and closed behind that (to the next multiple of 128)."""
    out = board.buffer(16)
    look = board.kernel("look_at_shared", "threads")
    for at in (0, bytes_ - 1):
        arguments = (np.uint64(out), np.int32(bytes_), np.int32(at))
        board.launch(look, board.stream(), *arguments, shared=bytes_)
        expected = 1 if at == bytes_ - 1 else (bytes_ - 1) % 256
        assert board.read(out, np.uint64, 2).tolist() == [0, expected]
    past = (bytes_ + 127) // 128 * 128
    board.launch(look, board.stream(), np.uint64(out), np.int32(bytes_), np.int32(past), shared=bytes_)
    assert code(cu.cuCtxSynchronize()) == ILLEGAL_ADDRESS
    assert "behind the dynamic shared memory of the block" in control.notes()[-1]
    control.reset_faults()
    works(board)


def test_more_dynamic_shared_memory_has_to_be_asked_for(board: Board) -> None:
    look, name = (
        board.kernel("look_at_shared", "threads"),
        cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
    )
    out, bytes_ = board.buffer(16), 200 * 1024
    arguments = (np.uint64(out), np.int32(bytes_), np.int32(0))
    assert code(board.try_launch(look, board.stream(), *arguments, shared=bytes_)) == INVALID_VALUE
    assert code(cu.cuFuncSetAttribute(look, name, 228 * 1024)) == INVALID_VALUE
    ok(cu.cuFuncSetAttribute(look, name, bytes_))
    board.launch(look, board.stream(), *arguments, shared=bytes_)
    assert board.read(out, np.uint64, 2)[1] == (bytes_ - 1) % 256
    assert code(board.try_launch(look, board.stream(), *arguments, shared=bytes_ + 1)) == INVALID_VALUE
