"""Compiling through ``cuda.bindings.nvrtc``, and running what came of it."""

from __future__ import annotations

import functools
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from cuda.bindings import driver as cu
from cuda.bindings import nvrtc

from tests.emulated_device import harness
from tests.emulated_device.harness import Board, ok

ROOT = Path(__file__).resolve().parents[2]
Result = nvrtc.nvrtcResult

emulated_only = pytest.mark.skipif(
    not harness.emulated(), reason="about the kernel library, which a real driver does not use"
)


@functools.cache
def arch() -> str:
    """The device's architecture as an option."""
    ok(cu.cuInit(0))
    device = ok(cu.cuDeviceGet(0))
    attribute = cu.CUdevice_attribute
    major = ok(cu.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = ok(cu.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    return f"-arch=sm_{major}{minor}"


class Program:
    """A program handle that goes away with the object."""

    def __init__(self, source: str, name: str = "program.cu", headers: dict[str, str] | None = None) -> None:
        headers = headers or {}
        texts, names = [text.encode() for text in headers.values()], [name.encode() for name in headers]
        self.handle = ok(nvrtc_call("nvrtcCreateProgram", source.encode(), name.encode(), len(texts), texts, names))

    def __del__(self) -> None:
        nvrtc.nvrtcDestroyProgram(self.handle)

    def call(self, function: str, *arguments: Any) -> Any:
        """What a function of the interface returns for this program."""
        return getattr(nvrtc, function)(self.handle, *arguments)

    def text(self, what: str) -> bytes:
        """A text that is got in two calls: its size, then itself."""
        code, size = self.call(f"nvrtcGet{what}Size")
        assert code == Result.NVRTC_SUCCESS
        out = bytes(size)
        assert self.call(f"nvrtcGet{what}", out)[0] == Result.NVRTC_SUCCESS
        return out


def nvrtc_call(function: str, *arguments: Any) -> tuple[Any, ...]:
    """A call whose success reads like the driver's."""
    code, *values = getattr(nvrtc, function)(*arguments)
    success = cu.CUresult.CUDA_SUCCESS if code == Result.NVRTC_SUCCESS else code
    return (success, *values)


class Compiled(NamedTuple):
    code: Any
    log: str
    image: bytes
    lowered: dict[str, bytes]


def attempt(
    source: str,
    *options: str,
    expressions: tuple[str, ...] = (),
    name: str = "program.cu",
    headers: dict[str, str] | None = None,
) -> Compiled:
    """Compile, whatever comes of it."""
    program = Program(source, name, headers)
    for expression in expressions:
        assert program.call("nvrtcAddNameExpression", expression.encode())[0] == Result.NVRTC_SUCCESS
    words = [word.encode() for word in (arch(), *options)]
    (code,) = program.call("nvrtcCompileProgram", len(words), words)
    log = program.text("ProgramLog").rstrip(b"\0").decode()
    if code != Result.NVRTC_SUCCESS:
        return Compiled(code, log, b"", {})
    lowered = {one: program.call("nvrtcGetLoweredName", one.encode())[1] for one in expressions}
    return Compiled(code, log, program.text("CUBIN"), lowered)


def compiled(source: str, *options: str, **more: Any) -> Compiled:
    """Compile; it has to succeed."""
    out = attempt(source, *options, **more)
    assert out.code == Result.NVRTC_SUCCESS, out.log
    return out


class Module:
    """A loaded program; unloaded with the board."""

    def __init__(self, board: Board, program: Compiled | str) -> None:
        self.board = board
        self.program = compiled(program) if isinstance(program, str) else program
        self.handle = handle = ok(cu.cuModuleLoadData(self.program.image))
        board.later(lambda: cu.cuModuleUnload(handle))

    def function(self, name: str) -> Any:
        """A kernel by its name, or by the name expression that it was compiled with."""
        lowered = self.program.lowered.get(name, name.encode())
        return ok(cu.cuModuleGetFunction(self.handle, lowered))

    def has(self, name: str) -> bool:
        """Whether the module has a kernel of this name."""
        return bool(cu.cuModuleGetFunction(self.handle, name.encode())[0] == cu.CUresult.CUDA_SUCCESS)

    def run(self, name: str, *arguments: Any, grid: Any = 1, block: Any = 1, shared: int = 0) -> list[Any]:
        """Run a kernel. Arrays are passed as device memory and come back as the kernel left them; scalars are passed as they are."""
        held = [self.board.upload(one) if isinstance(one, np.ndarray) else None for one in arguments]
        passed = [one if where is None else np.uint64(where) for one, where in zip(arguments, held, strict=True)]
        self.board.launch(self.function(name), self.board.stream(), *passed, grid=grid, block=block, shared=shared)
        return [
            self.board.read(where, one.dtype, one.size).reshape(one.shape)
            for one, where in zip(arguments, held, strict=True)
            if where is not None
        ]


def in_a_child(program: str, **environment: str) -> str:
    """What a program prints in an interpreter of its own."""
    import os

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
