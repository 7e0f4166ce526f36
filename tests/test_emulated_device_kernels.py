"""Kernels from host shared objects: images, parameters, launch shapes, barriers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cuda.bindings import driver as cu

from tests.emulated_device import control, harness, loader
from tests.emulated_device.harness import Board, code, ok

NO_BINARY = int(cu.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU)
NOT_FOUND = int(cu.CUresult.CUDA_ERROR_NOT_FOUND)
INVALID_VALUE = int(cu.CUresult.CUDA_ERROR_INVALID_VALUE)

emulated_only = pytest.mark.skipif(not harness.emulated(), reason="a real device has images of another kind")


@pytest.fixture
def board() -> Iterator[Board]:
    with harness.board() as made:
        yield made


def elf(machine: int, kind: int = 3) -> bytes:
    """The head of an ELF file for a machine."""
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    return ident + struct.pack("<HHIQQQIHHHHHH", kind, machine, 1, 0, 64, 0, 0, 64, 56, 0, 64, 0, 0) + bytes(4096)


@emulated_only
@pytest.mark.parametrize(
    "image",
    [
        b".version 8.0\n.target sm_90\n.address_size 64\n" + bytes(64),
        b"\x50\xed\x55\xba\x01\x00\x10\x00" + bytes(64),  # a fatbin
        elf(190),  # a cubin: EM_CUDA
        elf(190, 2),
        elf(40),  # another processor
        b"BC\xc0\xde" + bytes(64),  # LLVM
        bytes(128),
    ],
    ids=["PTX", "fatbin", "cubin", "cubin executable", "another processor", "bitcode", "zeros"],
)
def test_other_images_are_refused(board: Board, image: bytes) -> None:
    assert code(cu.cuModuleLoadData(image)) == NO_BINARY
    assert code(cu.cuLibraryLoadData(image, [], [], 0, [], [], 0)) == NO_BINARY


@emulated_only
def test_a_shared_object_without_a_table_is_refused(board: Board, tmp_path: Path) -> None:
    source = tmp_path / "plain.c"
    source.write_text("int answer(void) { return 42; }\n")
    image = loader.build_kernels(source).read_bytes()
    assert code(cu.cuModuleLoadData(image)) == NO_BINARY


def test_modules_and_libraries(board: Board, tmp_path: Path) -> None:
    image = harness.kernel_image()
    module = ok(cu.cuModuleLoadData(image))
    function = ok(cu.cuModuleGetFunction(module, b"axpy"))
    assert ok(cu.cuFuncGetName(function)) == b"axpy"
    assert code(cu.cuModuleGetFunction(module, b"nothing")) == int(cu.CUresult.CUDA_ERROR_NOT_FOUND)
    file = tmp_path / "image.bin"
    file.write_bytes(image)
    other = ok(cu.cuModuleLoad(str(file).encode()))
    ok(cu.cuModuleGetFunction(other, b"axpy"))
    library = ok(cu.cuLibraryLoadData(image, [], [], 0, [], [], 0))
    kernel = ok(cu.cuLibraryGetKernel(library, b"axpy"))
    assert ok(cu.cuKernelGetName(kernel)) == b"axpy"
    assert [ok(cu.cuKernelGetParamInfo(kernel, i)) for i in range(4)] == [(0, 4), (4, 4), (8, 8), (16, 8)]
    assert code(cu.cuKernelGetParamInfo(kernel, 4)) == INVALID_VALUE
    assert ok(cu.cuFuncGetName(ok(cu.cuKernelGetFunction(kernel)))) == b"axpy"
    ok(cu.cuLibraryUnload(library))
    for one in (module, other):
        ok(cu.cuModuleUnload(one))


def test_two_copies_of_an_image_do_not_share_state(board: Board) -> None:
    """Block-shared arrays are static in the image; each load is an object of its own."""
    n = 256
    data = np.arange(n, dtype=np.int32)
    for _ in range(2):
        module = ok(cu.cuModuleLoadData(harness.kernel_image()))
        function = ok(cu.cuModuleGetFunction(module, b"block_reverse"))
        cells = board.upload(data)
        board.launch(function, board.stream(), np.uint64(cells), block=n, shared=4 * n)
        np.testing.assert_array_equal(board.read(cells, np.int32, n), data[::-1])
        ok(cu.cuModuleUnload(module))


@pytest.mark.parametrize(
    "shape", [((1,), (1,)), ((5,), (7,)), ((2, 3), (4, 5)), ((2, 3, 4), (2, 2, 3)), ((1,), (1024,))]
)
def test_every_thread_runs_once_with_its_own_indices(
    board: Board, shape: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    grid, block = shape
    blocks, threads = int(np.prod(grid)), int(np.prod(block))
    cells = board.buffer(4 * blocks * threads, 0xFF)
    board.launch(board.kernel("where"), board.stream(), np.uint64(cells), grid=grid, block=block)
    expected = (1000 * np.arange(blocks)[:, None] + np.arange(threads)).ravel()
    np.testing.assert_array_equal(board.read(cells, np.int32, blocks * threads), expected)


@pytest.mark.parametrize("n", [1, 255, 256, 257, 5000])
def test_axpy_against_numpy(board: Board, n: int) -> None:
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((2, n)).astype(np.float32)
    dx, dy = board.upload(x), board.upload(y)
    arguments = (np.int32(n), np.float32(1.5), np.uint64(dx), np.uint64(dy))
    board.launch(board.kernel("axpy"), board.stream(), *arguments, grid=-(-n // 128), block=128)
    np.testing.assert_allclose(board.read(dy, np.float32, n), np.float32(1.5) * x + y, rtol=1e-6, atol=1e-6)


def test_block_sums_under_many_orders(board: Board) -> None:
    values = np.arange(1024, dtype=np.float32)
    source, target = board.upload(values), board.buffer(16)
    for seed in range(10):
        if harness.emulated():
            control.seed(seed)
        arguments = (np.uint64(target), np.uint64(source), np.int32(1024))
        board.launch(board.kernel("block_sum"), board.stream(), *arguments, grid=4, block=256)
        np.testing.assert_array_equal(board.read(target, np.float32, 4), values.reshape(4, 256).sum(axis=1))


@pytest.mark.parametrize(
    ("grid", "block", "shared"),
    [(0, 1, 0), (1, 0, 0), (1, 1025, 0), ((1, 1, 65536), 1, 0), (1, (1, 1, 65), 0), (1, 1, 1 << 20)],
)
def test_impossible_launches_are_refused(board: Board, grid: object, block: object, shared: int) -> None:
    result = board.try_launch(board.kernel("empty"), board.stream(), grid=grid, block=block, shared=shared)
    assert code(result) == INVALID_VALUE


def test_parameters_are_taken_at_the_call(board: Board) -> None:
    """As a packed buffer too; changing what they were read from changes nothing any more."""
    stream, cell = board.stream(), board.buffer(4)
    packed = np.frombuffer(struct.pack("<Qi", cell, 5), np.uint8).copy()
    size = np.array([packed.nbytes], np.uint64)
    extra = np.array([1, packed.ctypes.data, 2, size.ctypes.data, 0], np.uint64)
    ok(cu.cuLaunchKernel(board.kernel("count_up"), 1, 1, 1, 1, 1, 1, 0, stream, 0, extra.ctypes.data))
    packed[:] = 0
    assert board.read(cell, np.int32, 1)[0] == 5


def test_missing_parameters_are_refused(board: Board) -> None:
    stream, function = board.stream(), board.kernel("count_up")
    assert code(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)) == INVALID_VALUE


def test_attributes_and_occupancy(board: Board) -> None:
    function = board.kernel("block_reverse")
    names = cu.CUfunction_attribute
    assert ok(cu.cuFuncGetAttribute(names.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function)) == 1024
    dynamic = names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    ok(cu.cuFuncSetAttribute(function, dynamic, 60000))
    assert ok(cu.cuFuncGetAttribute(dynamic, function)) == 60000
    assert ok(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, 256, 0)) >= 1


@emulated_only
def test_kernels_are_found_by_the_compilers_names_too(board: Board, tmp_path: Path) -> None:
    source = tmp_path / "named.c"
    source.write_text(
        '#include "graphcap_kernel.h"\n#include <stdio.h>\n'
        "__attribute__((used)) static void use_a_library(void) { fflush(stdout); }\n"
        'template <class T> __attribute__((visibility("default"))) void twice(T *out) { *out = *out + *out; }\n'
        '__attribute__((visibility("default"))) int exp_of = 1;\n'
        'static graphcap_detail::entry<void (*)(float *)>::of<&twice<float>> one("twice<float>");\n'
        'static graphcap_detail::entry<void (*)(int *)>::of<&twice<int>> two("twice<int>", 64, 512);\n'
    )
    module = ok(cu.cuModuleLoadData(loader.build_kernels(source).read_bytes()))
    library = ok(cu.cuLibraryLoadData(loader.build_kernels(source).read_bytes(), [], [], 0, [], [], 0))
    cell = board.upload(np.array([1.5], np.float32))
    for name in (b"twice<float>", b"_Z5twiceIfEvPT_"):
        board.launch(ok(cu.cuModuleGetFunction(module, name)), board.stream(), np.uint64(cell))
        board.launch(ok(cu.cuLibraryGetKernel(library, name)), board.stream(), np.uint64(cell))
    assert board.read(cell, np.float32, 1)[0] == 1.5 * 16
    for name in (b"_Z5twiceIdEvPT_", b"exp", b"exp_of", b"graphcap_image"):  # not there, libm's, a variable, a table
        assert code(cu.cuModuleGetFunction(module, name)) == NOT_FOUND
    assert code(cu.cuModuleGetGlobal(module, b"stdout")) == NOT_FOUND  # a library's, not the image's own
    # The second one has launch bounds and block-shared memory of its own.
    bounded, names = ok(cu.cuModuleGetFunction(module, b"twice<int>")), cu.CUfunction_attribute
    assert ok(cu.cuFuncGetAttribute(names.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, bounded)) == 64
    assert ok(cu.cuFuncGetAttribute(names.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, bounded)) == 512
    assert code(board.try_launch(bounded, board.stream(), np.uint64(cell), block=65)) == int(
        cu.CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    )
    for block, possible in ((64, True), (65, False)):
        assert bool(ok(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(bounded, block, 0))) is possible
    ok(cu.cuModuleUnload(module))
    ok(cu.cuLibraryUnload(library))


def test_variables_of_an_image(board: Board) -> None:
    """Device memory like any other, except that it cannot be freed; each load has its own."""
    image, stream = harness.kernel_image("threads"), board.stream()
    modules = [ok(cu.cuModuleLoadData(image)) for _ in range(2)]
    library = ok(cu.cuLibraryLoadData(image, [], [], 0, [], [], 0))
    out = board.buffer(16)
    cells = [ok(cu.cuModuleGetGlobal(module, b"tally")) for module in modules]
    cells.append(ok(cu.cuLibraryGetGlobal(library, b"tally")))
    assert [size for _, size in cells] == [16] * 3
    assert len({int(cell) for cell, _ in cells}) == 3
    assert int(ok(cu.cuModuleGetGlobal(modules[0], b"tally"))[0]) == int(cells[0][0])
    cell = int(cells[0][0])
    assert board.read(cell, np.int32, 4).tolist() == [1, 2, 3, 4]
    ok(cu.cuMemcpyHtoD(cell + 4, np.array([20, 30], np.int32).ctypes.data, 8))
    factors, size = ok(cu.cuModuleGetGlobal(modules[0], b"factors"))
    assert size == 12
    ok(cu.cuMemcpyHtoDAsync(int(factors), np.array([5, 6, 7], np.float32).ctypes.data, 12, stream))
    board.launch(ok(cu.cuModuleGetFunction(modules[0], b"add_tally")), stream, np.uint64(out), np.int32(100))
    assert board.read(out, np.int32, 4).tolist() == [111, 132, 144, 114]
    assert board.read(cell, np.int32, 4).tolist() == [101, 120, 130, 104]
    assert board.read(int(cells[1][0]), np.int32, 4).tolist() == [1, 2, 3, 4]
    kinds = cu.CUpointer_attribute
    assert int(ok(cu.cuPointerGetAttribute(kinds.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, cell + 8))) == 2
    base, nbytes = ok(cu.cuMemGetAddressRange(cell + 8))
    assert (int(base), nbytes) == (cell, 16)
    assert code(cu.cuMemFree(cell)) == INVALID_VALUE
    for name in (b"nothing", b"exp", b"add_tally"):
        assert code(cu.cuModuleGetGlobal(modules[0], name)) == NOT_FOUND
    assert code(cu.cuLibraryGetGlobal(library, b"nothing")) == NOT_FOUND
    for module in modules:
        ok(cu.cuModuleUnload(module))
    ok(cu.cuLibraryUnload(library))
    if harness.emulated():
        assert code(cu.cuMemcpyDtoH(np.empty(16, np.uint8).ctypes.data, cell, 16)) == INVALID_VALUE  # gone


def test_work_past_the_end_of_a_variable(board: Board) -> None:
    module, stream = board.module("threads"), board.stream()
    cell, _ = ok(cu.cuModuleGetGlobal(module, b"tally"))
    ok(cu.cuMemsetD8Async(int(cell), 0, 16, stream))
    ok(cu.cuStreamSynchronize(stream))
    if harness.emulated():
        ok(cu.cuMemsetD8Async(int(cell), 0, 17, stream))
        assert code(cu.cuStreamSynchronize(stream)) == int(cu.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)
        control.reset_faults()


@emulated_only
def test_divisions_that_have_no_result_do_not_stop_a_kernel(board: Board) -> None:
    """As on a GPU: by zero the quotient is all ones and the remainder the dividend; the least number by -1 is itself."""
    least, least64 = -(2**31), -(2**63)
    pairs = [(7, 2), (-7, 2), (7, 0), (-7, 0), (0, 0), (least, -1), (least64, -1), (least64, 0), (255, 0), (256, -1)]
    x, y = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    out = board.buffer(80 * len(pairs))
    function = board.kernel("divide", "threads")
    arguments = [np.uint64(pointer) for pointer in (out, board.upload(x), board.upload(y))]
    board.launch(function, board.stream(), *arguments, np.int32(len(pairs)), block=len(pairs))
    got = board.read(out, np.int64, 10 * len(pairs)).reshape(-1, 10).tolist()
    for (p, q), row in zip(pairs, got, strict=True):
        expected: list[int] = []
        for bits, signed in ((32, True), (64, True), (32, False), (64, False), (8, False)):
            expected += [
                _wrap(one, bits, bits == 64 or signed)
                for one in _divide(_wrap(p, bits, signed), _wrap(q, bits, signed))
            ]
        assert row == expected, (p, q)


# How the address of a zero gets into registers, and the operand that then names it.
DIVISORS = [
    ("xorl %ecx, %ecx", "%ecx", "%rcx"),
    ("xorl %r9d, %r9d", "%r9d", "%r9"),
    ("leaq nought(%rip), %r12", "(%r12)", "(%r12)"),
    ("leaq nought-8(%rip), %r13", "8(%r13)", "8(%r13)"),
    ("leaq nought-40(%rip), %rcx; movq $10, %r9", "(%rcx,%r9,4)", "(%rcx,%r9,4)"),
    ("leaq nought(%rip), %r12; movq $1, %rcx", "-8(%r12,%rcx,8)", "-8(%r12,%rcx,8)"),
    ("leaq nought-0x12345(%rip), %rcx", "0x12345(%rcx)", "0x12345(%rcx)"),
    ("leaq nought-5(%rip), %r13; movq $5, %r12", "(%r13,%r12)", "(%r13,%r12)"),
    ("leaq nought-0x100(%rip), %rcx; shrq $1, %rcx", "0x100(,%rcx,2)", "0x100(,%rcx,2)"),
    ("", "nought(%rip)", "nought(%rip)"),
]


@emulated_only
def test_divisions_in_every_form_of_the_instruction(board: Board, tmp_path: Path) -> None:
    """Registers of both halves, and memory by base, index, displacement and instruction pointer; x86-64 alone has them."""
    lines = [
        '#include "graphcap_kernel.h"',
        'extern "C" { __attribute__((visibility("hidden"))) long long nought[2] = {0, 0}; }',
        "GRAPHCAP_KERNEL void forms(long long *out, long long dividend) {",
        "#if defined(__x86_64__)",
        "    long long q, r;",
    ]
    for prepare, *operands in DIVISORS:
        for kind, suffix, operand in zip(("int", "long long"), "lq", operands, strict=True):
            statement = f"{prepare}; idiv{suffix} {operand}".replace("%", "%%")
            used = '"rcx", "r9", "r12", "r13", "memory", "cc"'
            lines.append(
                f'    __asm__ volatile("{statement}" : "=a"(q), "=d"(r) : "a"(dividend), "d"(dividend >> 63) : {used});'
            )
            lines.append(f"    *out++ = ({kind})q; *out++ = ({kind})r;")
    lines.append(
        f"#else\n    for (int i = 0; i < {2 * len(DIVISORS)}; ++i) {{ *out++ = -1; *out++ = dividend; }}\n#endif"
    )
    lines.append("}\nGRAPHCAP_EXPORT(forms)\n")
    source = tmp_path / "forms.c"
    source.write_text("\n".join(lines))
    module = ok(cu.cuModuleLoadData(loader.build_kernels(source).read_bytes()))
    out = board.buffer(32 * len(DIVISORS))
    board.launch(ok(cu.cuModuleGetFunction(module, b"forms")), board.stream(), np.uint64(out), np.int64(-77))
    assert board.read(out, np.int64, 4 * len(DIVISORS)).reshape(-1, 2).tolist() == [[-1, -77]] * (2 * len(DIVISORS))
    ok(cu.cuModuleUnload(module))


def _wrap(value: int, bits: int, signed: bool) -> int:
    value %= 1 << bits
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def _divide(x: int, y: int) -> tuple[int, int]:
    """Quotient towards zero and remainder, of exact integers."""
    if y == 0:
        return -1, x
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return quotient, x - quotient * y
