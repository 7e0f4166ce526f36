"""Options: those that change the program, and all that CuPy and cuda.core pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.emulated_device.harness import Board
from tests.kernel_library.kit import Module, Program, Result, attempt, compiled, emulated_only

ARCH_VALUE = 'extern "C" __global__ void k(int *x) { x[0] = %s; }'


def value_of(board: Board, expression: str, *options: str, before: str = "", **more: Any) -> int:
    source = before + ARCH_VALUE % expression
    return int(Module(board, compiled(source, *options, **more)).run("k", np.zeros(1, np.int32))[0][0])


@pytest.mark.parametrize(
    "options",
    [
        ("-DVALUE=7",),
        ("-D", "VALUE=7"),
        ("--define-macro=VALUE=7",),
        ("--define-macro", "VALUE=7"),
        ("-DVALUE=1", "-UVALUE", "-DVALUE=7"),
        ("-DVALUE=(3+4)",),
    ],
)
def test_macros(board: Board, options: tuple[str, ...]) -> None:
    assert value_of(board, "VALUE", *options) == 7


def test_a_macro_without_a_value_is_one(board: Board) -> None:
    assert value_of(board, "VALUE", "-DVALUE") == 1
    assert attempt(ARCH_VALUE % "VALUE", "-DVALUE", "-UVALUE").code == Result.NVRTC_ERROR_COMPILATION


@pytest.mark.parametrize("name", ["A", "N", "T", "I", "y", "kernel", "index", "value"])
def test_macros_do_not_reach_into_the_librarys_headers(board: Board, name: str) -> None:
    assert value_of(board, f"{name} + (int)blockIdx.x", f"-D{name}=8") == 8


def test_ndebug_turns_assertions_off(board: Board) -> None:
    assert value_of(board, "3; assert(x[0] == 4)", "-DNDEBUG") == 3


def test_a_macro_with_arguments(board: Board) -> None:
    assert value_of(board, "TWICE(4)", "-DTWICE(a)=(2 * (a))") == 8


def test_include_folders(board: Board, tmp_path: Path) -> None:
    for number, folder in enumerate(["first", "second folder"], 1):
        (tmp_path / folder / "deep").mkdir(parents=True)
        (tmp_path / folder / "deep" / "which.h").write_text(f"#define WHICH {number}\n")
    first, second = (str(tmp_path / folder) for folder in ("first", "second folder"))
    include = "#include <deep/which.h>\n"
    assert value_of(board, "WHICH", f"-I{first}", f"-I{second}", before=include) == 1
    assert value_of(board, "WHICH", "-I", second, f"--include-path={first}", before=include) == 2


def test_headers_given_in_memory_win(board: Board, tmp_path: Path) -> None:
    (tmp_path / "which.h").write_text("#define WHICH 1\n")
    headers = {"which.h": '#include "sub/other.h"\n', "sub/other.h": "#define WHICH 20\n"}
    for include in ('#include "which.h"\n', "#include <which.h>\n"):
        assert value_of(board, "WHICH", f"-I{tmp_path}", before=include, headers=headers) == 20


def test_a_header_before_the_program(board: Board, tmp_path: Path) -> None:
    (tmp_path / "before.h").write_text("#define WHICH 5\n")
    assert value_of(board, "WHICH", f"--pre-include={tmp_path / 'before.h'}") == 5


def test_a_header_beside_the_program(board: Board, tmp_path: Path) -> None:
    (tmp_path / "beside.h").write_text("#define WHICH 6\n")
    name = str(tmp_path / "program.cu")
    assert value_of(board, "WHICH", before='#include "beside.h"\n', name=name) == 6
    refused = attempt('#include "beside.h"\n' + ARCH_VALUE % "WHICH", "--no-source-include", name=name)
    assert refused.code == Result.NVRTC_ERROR_COMPILATION


def test_the_architecture_is_a_macro(board: Board) -> None:
    from tests.kernel_library.kit import arch

    assert value_of(board, "__CUDA_ARCH__") == 10 * int(arch().removeprefix("-arch=sm_"))


def test_the_standard(board: Board) -> None:
    assert value_of(board, "(__cplusplus > 201703L)", "-std=c++20") == 1
    assert value_of(board, "(__cplusplus == 201703L)", "--std=c++17") == 1


def test_macros_that_programs_ask_for(board: Board) -> None:
    """``__CUDACC__`` is not defined here: headers for many compilers then take the host's way."""
    assert value_of(board, "__CUDACC_VER_MAJOR__ >= 12") == 1
    assert value_of(board, "__USE_FAST_MATH__", "--use_fast_math") == 1
    assert value_of(board, "__CUDACC_DEBUG__", "-G") == 1


@emulated_only
@pytest.mark.parametrize(
    "options",
    [  # CuPy 14
        ("--std=c++17", "-ftz=true", "--device-as-default-execution-space", "--pch"),
        ("-rdc=true",),
        ("--generate-line-info", "-lineinfo", "--maxrregcount=32", "-maxrregcount", "32", "-Xptxas", "-v"),
        ("-default-device", "--extra-device-vectorization", "-restrict", "-no-cache", "--minimal", "-split-compile=2"),
        ("-arch=sm_90a", "--ptxas-options=-O3"),
    ],
)
def test_options_that_change_nothing_are_taken(options: tuple[str, ...]) -> None:
    program = Program("")
    words = ["-arch=compute_90", *options]
    words = [word.replace("sm_", "compute_") for word in words]
    assert program.call("nvrtcCompileProgram", len(words), [word.encode() for word in words])[0] == Result.NVRTC_SUCCESS


@emulated_only
def test_everything_that_cuda_core_can_pass_is_known() -> None:
    """Its options as it spells them, each alone: taken, or refused as out of reach, but known."""
    import dataclasses

    from cuda.core import ProgramOptions

    values: dict[str, Any] = {
        "ptxas_options": "-v",
        "max_register_count": 32,
        "define_macro": "A=1",
        "undefine_macro": "A",
        "include_path": "/tmp",
        "pre_include": "/dev/null",
        "std": "c++17",
        "optimization_info": "inline",
        "diag_error": 1,
        "diag_suppress": 1,
        "diag_warn": 1,
        "time": "out",
        "split_compile": 2,
        "fdevice_time_trace": "out",
        "frandom_seed": "1",
        "ofast_compile": "min",
        "create_pch": "x",
        "use_pch": "x",
        "pch_dir": "/tmp",
    }
    not_options = {"name", "arch", "extra_sources", "use_libdevice", "numba_debug", "use_bundled_headers"}
    for field in dataclasses.fields(ProgramOptions):
        if field.name in not_options:
            continue
        words = ProgramOptions(arch="compute_90", **{field.name: values.get(field.name, True)}).as_bytes("nvrtc")
        assert len(words) >= 2, field.name
        program = Program("")
        (code,) = program.call("nvrtcCompileProgram", len(words), words)
        log = program.text("ProgramLog").decode()
        assert code == Result.NVRTC_SUCCESS or "not available on the emulated device" in log, (field.name, words, log)
