"""Name expressions and the names of kernels and variables."""

from __future__ import annotations

import numpy as np
import pytest
from cuda.bindings import driver as cu

from tests.emulated_device.harness import Board, ok
from tests.kernel_library.kit import Module, Result, attempt, compiled

SOURCE = """
template <class T> struct Pair { T a, b; };
template <class T, int n = 2> __global__ void add(T *x) { x[threadIdx.x] += n; }
template <> __global__ void add<short, 7>(short *x) { x[threadIdx.x] += 70; }
template <class T> __global__ void add_pair(T *x) { x[threadIdx.x].a += x[threadIdx.x].b; }
template <class T> __global__ void instantiated(T *x) { x[threadIdx.x] *= 3; }
template __global__ void instantiated<float>(float *x);
namespace one { namespace two {
__global__ void inside(int *x) { x[threadIdx.x] += 12; }
__device__ int variable = 41;
__constant__ float table[3] = {1, 2, 3};
} }
__global__ void overloaded(int *x) { x[threadIdx.x] += 1; }
__global__ void overloaded(float *x, float by) { x[threadIdx.x] += by; }
namespace { __global__ void hidden(int *x) { x[threadIdx.x] += 20; } }
static __global__ void internal(int *x) { x[threadIdx.x] += 30; }
extern "C" __global__ void plain(int *x) { x[threadIdx.x] += 40; }
__device__ double at_the_top;
"""
EXPRESSIONS = (
    "add<int>",
    "add<double, (3 > 1) ? 5 : 6>",
    "add<short, 7>",
    "  add_pair< Pair<long long> > ",
    "instantiated<float>",
    "one::two::inside",
    "&one::two::variable",
    "one::two::table",
    "hidden",
    "internal",
    "plain",
    "at_the_top",
    "static_cast<void (*)(float *, float)>(&overloaded)",
)


@pytest.fixture
def module(board: Board) -> Module:
    return Module(board, compiled(SOURCE, expressions=EXPRESSIONS[:-1]))


def test_templates(module: Module) -> None:
    x = np.arange(8)
    cases: list[tuple[str, type[np.generic], int]] = [
        ("add<int>", np.int32, 2),
        ("add<double, (3 > 1) ? 5 : 6>", np.float64, 5),
        ("add<short, 7>", np.int16, 70),
    ]
    for expression, dtype, by in cases:
        np.testing.assert_array_equal(module.run(expression, x.astype(dtype), block=8)[0], x + by)
    pairs = np.array([(1, 10), (2, 20)], [("a", "i8"), ("b", "i8")])
    assert module.run(EXPRESSIONS[3], pairs, block=2)[0]["a"].tolist() == [11, 22]
    np.testing.assert_array_equal(module.run("instantiated<float>", x.astype(np.float32), block=8)[0], 3 * x)


def test_kernels_that_are_not_templates(module: Module) -> None:
    x = np.arange(8, dtype=np.int32)
    for expression, by in [("one::two::inside", 12), ("hidden", 20), ("internal", 30), ("plain", 40)]:
        np.testing.assert_array_equal(module.run(expression, x, block=8)[0], x + by)


def test_names_are_mangled_as_the_abi_says(module: Module) -> None:
    """The Itanium C++ ABI, which both compilers follow."""
    lowered = module.program.lowered
    assert lowered["add<int>"] == b"_Z3addIiLi2EEvPT_"
    assert lowered["one::two::inside"] == b"_ZN3one3two6insideEPi"
    assert lowered["&one::two::variable"] == b"_ZN3one3two8variableE"
    assert lowered["one::two::table"] == b"_ZN3one3two5tableE"
    assert lowered["at_the_top"] == b"at_the_top"
    assert lowered["plain"] == b"plain"
    assert module.has("_ZN3one3two6insideEPi")
    assert not module.has("inside")


def test_kernels_are_there_without_a_name_expression(board: Board) -> None:
    """Instantiated templates, overloads, namespaces: by their mangled names."""
    module = Module(board, compiled(SOURCE))
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(module.run("_Z12instantiatedIfEvPT_", x, block=8)[0], 3 * x)
    np.testing.assert_array_equal(module.run("_Z10overloadedPff", x, np.float32(0.5), block=8)[0], x + 0.5)
    ints = np.arange(8, dtype=np.int32)
    np.testing.assert_array_equal(module.run("_Z10overloadedPi", ints, block=8)[0], ints + 1)
    assert not module.has("_Z3addIiLi2EEvPT_")  # nobody asked for it


def test_a_kernel_named_twice_is_one_kernel(board: Board) -> None:
    program = compiled("__global__ void once(int *x) { x[0] = 1; }", expressions=("once", "&once", " once"))
    library = ok(cu.cuLibraryLoadData(program.image, [], [], 0, [], [], 0))
    assert ok(cu.cuLibraryGetKernelCount(library)) == 1
    ok(cu.cuLibraryUnload(library))
    assert set(program.lowered.values()) == {b"_Z4oncePi"}


def test_variables_by_their_lowered_names(board: Board, module: Module) -> None:
    address, size = ok(cu.cuModuleGetGlobal(module.handle, module.program.lowered["&one::two::variable"]))
    assert (size, board.read(address, np.int32, 1)[0]) == (4, 41)
    address, size = ok(cu.cuModuleGetGlobal(module.handle, module.program.lowered["one::two::table"]))
    assert (size, board.read(address, np.float32, 3).tolist()) == (12, [1, 2, 3])


@pytest.mark.parametrize("expression", ["nothing", "add<no_such_type>", "one::inside", "Pair<int>"])
def test_what_names_nothing_is_a_compile_error(expression: str) -> None:
    out = attempt(SOURCE, expressions=(expression,))
    assert out.code == Result.NVRTC_ERROR_COMPILATION
    assert "Error in parsing name expression" in out.log
    assert expression in out.log
