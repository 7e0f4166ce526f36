"""The log: errors where the user's text has them, in the form in which NVRTC writes them; warnings too."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.emulated_device.harness import Board
from tests.kernel_library.kit import Module, Result, attempt, compiled, emulated_only

ERRORS = [
    ("__global__ void k(int *x) {\n  x[0] = missing;\n}", 2, 'identifier "missing" is undefined'),
    ("\n\n#error \"precision not supported\"\n", 3, "precision not supported"),
    ('#include "not_there.h"\n', 1, 'cannot open source file "not_there.h"'),
    ("__global__ void k(int *x) {\n  x[0] = 1\n}", 2, 'expected a ";"'),
    # Behind what the rewriter moves and replaces:
    (
        "#define T float\n__global__\nvoid k(T *x, int n = 3)\n{\n  extern __shared__\n    T a[];\n  __shared__ T b[3];\n"
        "  a[0] = b[0];\n  x[0] = undefined_thing;\n}\n",
        9,
        'identifier "undefined_thing" is undefined',
    ),
    ("template <class T> __global__ void k(T *x) {}\n__global__ void q(int *x)\n{\n nowhere(x); }", 4, 'identifier "nowhere" is undefined'),
]  # fmt: skip


@pytest.mark.parametrize(("source", "line", "message"), ERRORS)
def test_errors_name_the_file_and_the_users_line(source: str, line: int, message: str) -> None:
    out = attempt(source, name="some/where/mine.cu")
    assert out.code == Result.NVRTC_ERROR_COMPILATION
    pattern = rf"^some/where/mine\.cu\({line}\): (catastrophic )?error: .*{re.escape(message)}"
    assert re.search(pattern, out.log, re.MULTILINE), out.log
    assert re.search(
        r"^1 (catastrophic )?error detected in the compilation of \"some/where/mine.cu\"", out.log, re.MULTILINE
    )


def test_errors_in_headers_that_came_along() -> None:
    out = attempt(
        '#include "inner/helper.h"\n__global__ void k(int *x) { helper(x); }',
        headers={"inner/helper.h": "\n__device__ void helper(int *x) { x[0] = unknown_name; }\n"},
    )
    assert out.code == Result.NVRTC_ERROR_COMPILATION
    assert re.search(r'inner/helper\.h\(2\): error: identifier "unknown_name" is undefined', out.log), out.log


@emulated_only
def test_the_line_is_quoted_with_a_mark_under_the_name() -> None:
    out = attempt("__global__ void k(int *x) {\n    x[0] = missing;\n}")
    lines = out.log.splitlines()
    at = next(i for i, line in enumerate(lines) if "is undefined" in line)
    assert lines[at + 1].strip() == "x[0] = missing;"
    assert lines[at + 2].index("^") == lines[at + 1].index("missing")


def test_an_instantiation_says_from_where() -> None:
    out = attempt(
        "template <class T> __device__ T f(T x)\n{ return x.size(); }\n__global__ void k(int *x)\n{ x[0] = f(*x); }"
    )
    assert out.code == Result.NVRTC_ERROR_COMPILATION
    assert re.search(r"program\.cu\(2\): error", out.log), out.log


def test_a_declared_function_that_nobody_defines() -> None:
    out = attempt("__device__ void later(int *);\n__global__ void k(int *x) { later(x); }")
    assert out.code != Result.NVRTC_SUCCESS
    assert "_Z5laterPi" in out.log


@emulated_only
@pytest.mark.parametrize("text", ['asm("mov.u32 %0, %laneid;" : "=r"(*x));', "child<<<1, 1>>>(x);"])
def test_what_stays_out_is_an_error_not_a_wrong_result(text: str) -> None:
    out = attempt(f"__global__ void child(int *x) {{}}\n__global__ void k(int *x) {{ {text} }}")
    assert out.code == Result.NVRTC_ERROR_COMPILATION
    assert "program.cu(2): error" in out.log


def test_warnings_are_in_the_log_of_a_success(board: Board) -> None:
    source = 'extern "C" __global__ void k(int *x) {\n  int unused;\n  x[0] = 3;\n}'
    out = compiled(source)
    assert re.search(r'program\.cu\(2\): warning.*variable "unused" was declared but never referenced', out.log), (
        out.log
    )
    assert Module(board, out).run("k", np.zeros(1, np.int32))[0][0] == 3
    assert compiled(source, "-w").log.strip("\0\n ") == ""


def test_a_clean_program_has_an_empty_log() -> None:
    source = """
    #include <cuda_fp16.h>
    extern "C" __global__ void k(float *x) {
        extern __shared__ float kept[];
        kept[threadIdx.x] = __half2float(__float2half(sinf(x[0])));
        __syncthreads();
        x[threadIdx.x] = kept[threadIdx.x];
    }
    """
    assert compiled(source).log.strip("\0\n ") == ""


def test_warnings_as_errors() -> None:
    out = attempt("__global__ void k(int *x) {\n  int unused;\n  x[0] = 3;\n}", "--Werror=all-warnings")
    assert out.code == Result.NVRTC_ERROR_COMPILATION


def test_file_and_line_in_the_program(board: Board) -> None:
    source = (
        "__device__ const char file[] = __FILE__;\n"
        'extern "C" __global__ void k(int *x) { x[0] = __LINE__; x[1] = sizeof file; }\n'
    )
    assert Module(board, compiled(source, name="a/b.cu")).run("k", np.zeros(2, np.int32))[0].tolist() == [2, 7]


@emulated_only
@pytest.mark.parametrize("text", ["ret;", "nop", "bar.sync 0;", "trap;", "{ .reg .b32 t; mov.u32 t, 1; }"])
def test_inline_ptx_is_refused_where_it_is_used(text: str) -> None:
    """Some PTX is good assembly text for the host too."""
    used = attempt(f'__global__ void k(int *x) {{\n  x[0] = 1;\n  __asm__ volatile("{text}" ::: "memory");\n}}')
    assert used.code == Result.NVRTC_ERROR_COMPILATION
    assert "program.cu(3): error: inline PTX is not available on the emulated device" in used.log
    unused = f'template <class T> __device__ void never(T *x) {{ asm("{text}"); }}\nextern "C" __global__ void k() {{}}'
    assert attempt(unused).code == Result.NVRTC_SUCCESS


def test_an_empty_inline_assembly_is_a_barrier_for_the_compiler(board: Board) -> None:
    source = 'extern "C" __global__ void k(int *x) { x[0] = 1; asm volatile("" ::: "memory"); x[0] += 1; }'
    assert Module(board, source).run("k", np.zeros(1, np.int32))[0][0] == 2


def test_an_unclosed_brace_is_noticed_at_the_end_of_the_program() -> None:
    out = attempt("__global__ void k(int *x) {\n  if (x[0]) {\n  x[0] = 1;\n}\n")
    assert out.code == Result.NVRTC_ERROR_COMPILATION
    assert re.search(r"^program\.cu\([45]\): error", out.log, re.MULTILINE), out.log


@emulated_only
def test_kernels_have_their_own_names_in_messages() -> None:
    out = attempt('extern "C" __global__ void mine(int *x) { x[0] = x; }')
    assert "graphcap" not in out.log
