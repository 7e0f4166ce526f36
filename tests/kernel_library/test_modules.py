"""What must stay apart: modules of one text, templates of one name, symbols of the process. Each went wrong silently once."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from cuda.bindings import driver as cu

from tests.emulated_device.harness import Board, ok
from tests.kernel_library.kit import Module, compiled, emulated_only

COUNTER = """
__device__ int counter = %d;
template <class T, int n> __device__ T *kept() { __shared__ T cells[n]; return cells; }
template <int n> __device__ int &calls() { static int value = 0; return value; }
template <int n> __global__ void step(int *x) {
    kept<int, n>()[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    counter += 1;
    calls<n>() += 10;
    x[threadIdx.x] = kept<int, n>()[n - 1 - threadIdx.x] + 1000 * counter + calls<n>();
}
"""


def test_two_loads_of_one_image_have_variables_of_their_own(board: Board) -> None:
    program = compiled(COUNTER % 0, expressions=("step<1>",))
    first, second = Module(board, program), Module(board, program)
    for _ in range(3):
        first_value = first.run("step<1>", np.zeros(1, np.int32))[0][0]
    assert first_value == 3030
    assert second.run("step<1>", np.zeros(1, np.int32))[0][0] == 1010


def test_templates_of_the_same_name_in_two_modules_share_nothing(board: Board) -> None:
    """Their static variables have one mangled name; as unique symbols they would be one object in the process."""
    small = Module(board, compiled(COUNTER % 0, expressions=("step<1>",)))
    other = Module(board, compiled(COUNTER % 50, expressions=("step<1>",)))
    assert small.run("step<1>", np.zeros(1, np.int32))[0][0] == 1010
    assert other.run("step<1>", np.zeros(1, np.int32))[0][0] == 51010
    assert small.run("step<1>", np.zeros(1, np.int32))[0][0] == 2020


@emulated_only
def test_images_have_no_symbols_that_are_unique_in_the_process() -> None:
    """A module with one could not be unloaded, and would share it were it not bound inside the module too."""
    image = compiled(COUNTER % 0, expressions=("step<1>",)).image
    assert not [name for name, binding in symbols(image) if binding == 10]  # STB_GNU_UNIQUE


def symbols(image: bytes) -> list[tuple[str, int]]:
    """Name and binding of the dynamic symbols of an ELF file."""
    start, size, count = struct.unpack_from("<40xQ10xHH", image)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, start + size * i) for i in range(count)]
    (table,) = [section for section in sections if section[1] == 11]  # SHT_DYNSYM
    names = sections[table[6]][4]
    out = []
    for at in range(table[4], table[4] + table[5], 24):
        name, info = struct.unpack_from("<IB", image, at)
        out.append((image[names + name : image.index(b"\0", names + name)].decode(), info >> 4))
    assert any(name == "graphcap_image" for name, _ in out)
    return out


SIZES = """
template <class T> struct Table { static const int n = %d; __device__ static T *cells() { __shared__ T all[%d]; return all; } };
template <class T> __global__ void fill(T *x) {
    for (int i = threadIdx.x; i < Table<T>::n; i += blockDim.x) Table<T>::cells()[i] = i;
    __syncthreads();
    T sum = 0;
    for (int i = 0; i < Table<T>::n; ++i) sum += Table<T>::cells()[i];
    x[threadIdx.x] = sum;
}
"""


def test_shared_arrays_of_one_name_and_two_sizes(board: Board) -> None:
    modules = {n: Module(board, compiled(SIZES % (n, n), expressions=("fill<int>",))) for n in (4, 4000)}
    for n, module in [*modules.items(), *modules.items()]:
        assert module.run("fill<int>", np.zeros(32, np.int32), block=32)[0].tolist() == [n * (n - 1) // 2] * 32


def test_many_modules_one_after_the_other_are_each_the_one_that_was_loaded(board: Board) -> None:
    """The system's loader takes a file of a name, or a place, that it has seen for the one it has seen."""
    source = 'extern "C" __global__ void k(int *x) { x[0] = VALUE; }'
    programs = [compiled(source, f"-DVALUE={value}") for value in range(4)]
    where = board.buffer(4)
    for turn in range(40):
        module = ok(cu.cuModuleLoadData(programs[turn % 4].image))
        board.launch(ok(cu.cuModuleGetFunction(module, b"k")), board.stream(), np.uint64(where))
        assert board.read(where, np.int32, 1)[0] == turn % 4
        ok(cu.cuModuleUnload(module))


@emulated_only
def test_unloaded_modules_leave_the_process(board: Board) -> None:
    program = compiled(COUNTER % 0, expressions=("step<1>",))

    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count("graphcap-image")

    before = mapped()
    modules = [ok(cu.cuModuleLoadData(program.image)) for _ in range(5)]
    assert mapped() > before
    for module in modules:
        ok(cu.cuModuleUnload(module))
    assert mapped() == before


def test_functions_of_a_module_are_called_and_not_the_processes(board: Board) -> None:
    """Symbols bind inside the module, even where the process has one of the name."""
    module = Module(
        board,
        """
        extern "C" __device__ __noinline__ int PyLong_FromLong(int x) { return x + 1; }
        extern "C" __device__ __noinline__ int cuInit(int x) { return x + 10; }
        __device__ int environ_size = 7;
        extern "C" { __device__ int optind_ = 3; }
        extern "C" __global__ void k(int *x) { x[0] = cuInit(PyLong_FromLong(x[0])) + environ_size + optind_; }
        """,
    )
    assert module.run("k", np.array([100], np.int32))[0][0] == 121
    assert ok(cu.cuInit(0)) is None


def test_two_kernels_of_the_same_text_are_two(board: Board) -> None:
    program = compiled(
        """
        __global__ void one(int *x) { x[threadIdx.x] += 3; }
        __global__ void two(int *x) { x[threadIdx.x] += 3; }
        """,
        expressions=("one", "two"),
    )
    assert program.lowered == {"one": b"_Z3onePi", "two": b"_Z3twoPi"}
    module = Module(board, program)
    assert int(module.function("one")) != int(module.function("two"))
    assert ok(cu.cuFuncGetName(module.function("two"))) == b"_Z3twoPi"


def test_a_module_stays_loaded_while_its_kernel_is_in_a_graph(board: Board) -> None:
    module = Module(board, 'extern "C" __global__ void k(int *x, int by) { x[0] += by; }')
    where, stream = board.buffer(4), board.stream()
    graph = board.capture(stream, lambda: board.launch(module.function("k"), stream, np.uint64(where), np.int32(5)))
    executable = board.instantiate(graph)
    for _ in range(3):
        ok(cu.cuGraphLaunch(executable, stream))
    assert board.read(where, np.int32, 1)[0] == 15


@emulated_only
@pytest.mark.parametrize("statement", ["*(volatile int *)16 = 1;", "__trap();", "assert(x[0] == 99);"])
def test_a_fault_is_the_devices_error_and_the_process_lives(board: Board, statement: str) -> None:
    module = Module(board, 'extern "C" __global__ void k(int *x) { %s }' % statement)  # noqa: UP031
    where = board.buffer(4)
    board.launch(module.function("k"), board.stream(), np.uint64(where))
    expected = {"__trap();": 719, "assert(x[0] == 99);": 710}.get(statement, 700)
    assert int(cu.cuCtxSynchronize()[0]) == expected
