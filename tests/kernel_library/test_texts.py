"""Program texts of unusual shape."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulated_device.harness import Board
from tests.kernel_library.kit import Module, Result, attempt, compiled

PLAIN = 'extern "C" __global__ void k(int *x)\n{\n    __shared__ int kept[1];\n    kept[0] = x[0] + 1;\n    x[0] = kept[0];\n}'


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", " "),
        PLAIN + "\n// no newline at the end",
        "// Überschrift — «größer»\n__device__ const char name[] = \"naïve ∑\";\n" + PLAIN,
        PLAIN.replace("int kept[1]", "\\\n int \\\n kept[1]"),
        "#pragma once\n#pragma unroll\n" + PLAIN.replace("kept[0] =", "_Pragma(\"unroll 4\") for (int i = 0; i < 1; ++i) kept[i] ="),
        "#line 400 \"elsewhere.cu\"\n" + PLAIN,
        PLAIN.replace("__shared__ int", "/* __shared__ */ __shared__ /* \" */ int // '\n"),
        PLAIN.replace("int *x", "int *x /* ) { */"),
        "struct S { int a; S() : a(0) {} int f() const { return a; } };\nenum E { one, two = 3 };\nusing I = int;\n" + PLAIN,
        "extern \"C\" { typedef __global__ void (*pointer)(int *); }\n" + PLAIN,
        "template <class T, class = decltype(T{} + 1)> struct U {};\n" + PLAIN,
        "extern \"C\" int printf(const char *, ...);\n" + PLAIN.replace("kept[0] =", "if (x[0] < 0) printf(\"%d\\n\", x[0]); kept[0] ="),
        "".join(f"__device__ int filler_{n}(int x) {{ return x + {n}; }}\n" for n in range(400)) + PLAIN,
    ],
    ids=["CRLF", "one line", "no newline", "UTF-8", "continued lines", "pragmas", "line directive", "comments", "comment in parameters", "types before", "pointer to a kernel",
         "template before", "declarations of the C library", "long"],
)  # fmt: skip
def test_it_runs_all_the_same(board: Board, text: str) -> None:
    assert Module(board, text).run("k", np.array([41], np.int32))[0][0] == 42


@pytest.mark.parametrize(
    "text", ["", "\n", "   \n\n", "// nothing\n", "#include <math.h>\n", "__device__ int f() { return 1; }"]
)
def test_a_program_without_kernels_is_a_program(board: Board, text: str) -> None:
    module = Module(board, compiled(text))
    assert not module.has("k")


@pytest.mark.parametrize(
    "text",
    ["}", "{", "__global__ int", "__global__ void", "__shared__", "extern __shared__ int", "__launch_bounds__(", '"', "'", 'R"x(', "/*", "#if 1", "(" * 5000,
     "template <class T __global__ void k(", "namespace {", '__asm__("'],
)  # fmt: skip
def test_broken_text_is_an_error_and_nothing_worse(text: str) -> None:
    out = attempt(text)
    assert out.code == Result.NVRTC_ERROR_COMPILATION
    assert "error" in out.log


@pytest.mark.parametrize("standard", ["c++03", "c++11", "c++14", "c++17", "c++20"])
def test_every_standard(board: Board, standard: str) -> None:
    module = Module(board, compiled(PLAIN, f"--std={standard}"))
    assert module.run("k", np.array([1], np.int32))[0][0] == 2
