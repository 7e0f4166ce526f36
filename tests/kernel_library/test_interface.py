"""The calls themselves: what each returns in which state."""

from __future__ import annotations

import struct

import pytest
from cuda.bindings import nvrtc

from tests.kernel_library.kit import Program, Result, arch, emulated_only

SOURCE = "template <class T> __global__ void k(T *x) { x[0] = 1; }"


def compiled_program(*options: str, source: str = SOURCE, expressions: tuple[str, ...] = ()) -> Program:
    program = Program(source)
    for expression in expressions:
        program.call("nvrtcAddNameExpression", expression.encode())
    words = [word.encode() for word in options]
    assert program.call("nvrtcCompileProgram", len(words), words)[0] == Result.NVRTC_SUCCESS
    return program


@emulated_only
def test_version_and_architectures() -> None:
    assert nvrtc.nvrtcVersion() == (Result.NVRTC_SUCCESS, 13, 0)
    code, archs = nvrtc.nvrtcGetSupportedArchs()
    assert code == Result.NVRTC_SUCCESS
    assert archs == sorted(archs)
    assert {75, 80, 90, 100, 120} <= set(archs)
    assert nvrtc.nvrtcGetNumSupportedArchs() == (Result.NVRTC_SUCCESS, len(archs))
    assert int(arch().removeprefix("-arch=sm_")) in archs


def test_error_strings_are_the_codes_names() -> None:
    for code in (one for one in Result if one.value >= 0 and one.name != "NVRTC_ERROR_BUSY"):
        assert nvrtc.nvrtcGetErrorString(code)[1].decode() == code.name


def test_results_before_compilation() -> None:
    program = Program(SOURCE)
    assert program.call("nvrtcGetLoweredName", b"k<int>")[0] == Result.NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION
    for what in ("PTX", "CUBIN"):
        assert program.call(f"nvrtcGet{what}Size")[0] == Result.NVRTC_ERROR_INVALID_PROGRAM
        assert program.call(f"nvrtcGet{what}", bytes(8))[0] == Result.NVRTC_ERROR_INVALID_PROGRAM


def test_results_after_compilation() -> None:
    program = compiled_program(arch(), expressions=("k<int>",))
    assert program.call("nvrtcGetLoweredName", b"k<int>") == (Result.NVRTC_SUCCESS, b"_Z1kIiEvPT_")
    assert program.call("nvrtcGetLoweredName", b"k<float>")[0] == Result.NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID
    assert (
        program.call("nvrtcAddNameExpression", b"k<float>")[0]
        == Result.NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION
    )
    assert program.text("CUBIN")


def test_a_virtual_architecture_gives_no_machine_code() -> None:
    program = compiled_program(arch().replace("sm_", "compute_"))
    assert program.call("nvrtcGetCUBINSize") == (Result.NVRTC_SUCCESS, 0)
    assert program.call("nvrtcGetCUBIN", bytes(8))[0] == Result.NVRTC_ERROR_INVALID_PROGRAM
    assert program.text("PTX").endswith(b"\0")


def test_errors_are_found_for_a_virtual_architecture_too() -> None:
    program = Program("__global__ void k() { nothing; }")
    option = arch().replace("sm_", "compute_").encode()
    assert program.call("nvrtcCompileProgram", 1, [option])[0] == Result.NVRTC_ERROR_COMPILATION
    assert program.call("nvrtcGetPTXSize")[0] == Result.NVRTC_ERROR_INVALID_PROGRAM


def test_a_destroyed_program_is_invalid() -> None:
    handle = nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"p.cu", 0, [], [])[1]
    stale = nvrtc.nvrtcProgram(int(handle))
    assert nvrtc.nvrtcDestroyProgram(handle)[0] == Result.NVRTC_SUCCESS
    assert nvrtc.nvrtcGetProgramLogSize(nvrtc.nvrtcProgram(0))[0] == Result.NVRTC_ERROR_INVALID_PROGRAM
    del stale  # asking for it is undefined on a real library


@emulated_only
def test_other_kinds_of_code_are_never_there() -> None:
    program = compiled_program(arch())
    for what in ("LTOIR", "OptiXIR"):
        assert program.call(f"nvrtcGet{what}", bytes(8))[0] == Result.NVRTC_ERROR_INVALID_PROGRAM
    assert program.call("nvrtcGetPCHCreateStatus")[0] == Result.NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED
    assert nvrtc.nvrtcSetPCHHeapSize(1 << 20)[0] == Result.NVRTC_SUCCESS
    assert nvrtc.nvrtcGetPCHHeapSize() == (Result.NVRTC_SUCCESS, 1 << 20)


@emulated_only
def test_ptx_is_a_description_and_nothing_else() -> None:
    """CuPy makes the lines of an empty program's "PTX" part of its cache key."""
    text = compiled_program(arch().replace("sm_", "compute_"), source="").text("PTX").rstrip(b"\0").decode()
    assert all(line.startswith("// ") for line in text.splitlines())
    for part in ("kernel library", "g++", "headers ", "flags -std", "processor "):
        assert part in text
    assert text == compiled_program(arch()).text("PTX").rstrip(b"\0").decode()


@emulated_only
def test_the_image_ends_with_a_byte_to_spare() -> None:
    """CuPy drops the last byte of machine code."""
    from cuda.bindings import driver as cu

    from tests.emulated_device import harness
    from tests.emulated_device.harness import ok

    image = compiled_program(arch(), expressions=("k<int>",)).text("CUBIN")
    assert image.startswith(b"\x7fELF")
    sections, size, count = struct.unpack_from("<40xQ10xHH", image)  # where an ELF file's last table is
    assert len(image) == sections + size * count + 1
    with harness.board():
        module = ok(cu.cuModuleLoadData(image[:-1]))
        ok(cu.cuModuleGetFunction(module, b"_Z1kIiEvPT_"))
        ok(cu.cuModuleUnload(module))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--no-such-option"], "no-such-option"),
        (["-fno-such"], "-fno-such"),
        (["-arch=sm_1"], "architecture"),
        (["-arch=gfx90a"], "architecture"),
        (["--std=c++98"], "std"),
        (["--fmad=perhaps"], "fmad"),
    ],
)
def test_unknown_options_are_refused(options: list[str], complaint: str) -> None:
    program = Program(SOURCE)
    words = [word.encode() for word in options]
    assert program.call("nvrtcCompileProgram", len(words), words)[0] == Result.NVRTC_ERROR_INVALID_OPTION
    assert complaint in program.text("ProgramLog").decode()


@emulated_only
@pytest.mark.parametrize("option", ["-dlto", "--optix-ir", "--gen-opt-lto", "--create-pch=x", "--use-pch=x"])
def test_options_for_what_stays_out_are_refused(option: str) -> None:
    program = Program(SOURCE)
    assert program.call("nvrtcCompileProgram", 1, [option.encode()])[0] == Result.NVRTC_ERROR_INVALID_OPTION
    assert "not available on the emulated device" in program.text("ProgramLog").decode()
