"""Compiles CUDA C++ text and runs its kernels on NumPy arrays."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from cuda.bindings import driver as cu
from cuda.bindings import nvrtc
from numpy.typing import NDArray

from tests.emulated_device import harness, loader
from tests.emulated_device.harness import Board, ok
from tests.emulated_device.kernel_library import build as kernel_library

Array = NDArray[Any]


class CompileError(AssertionError):
    """The kernel library refused a program; the message holds its log."""


@functools.cache
def _image(source: str, options: tuple[str, ...]) -> bytes:
    if harness.emulated():
        kernel_library.load()
        where = ["--gpu-architecture=sm_90"]
    else:
        device = ok(cu.cuDeviceGet(0))
        attributes = cu.CUdevice_attribute
        major = ok(cu.cuDeviceGetAttribute(attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
        minor = ok(cu.cuDeviceGetAttribute(attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
        where = [f"--gpu-architecture=sm_{major}{minor}", f"-I{loader.include_folder()}"]
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"program.cu", 0, [], [])
    words = [word.encode() for word in (*where, *options)]
    (result,) = nvrtc.nvrtcCompileProgram(program, len(words), words)
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        raise CompileError(log.decode(errors="replace"))
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    image: bytes = b" " * size
    nvrtc.nvrtcGetCUBIN(program, image)
    nvrtc.nvrtcDestroyProgram(program)
    return image


class Program:
    """A text with ``extern "C"`` kernels, compiled when the first of them runs.

    Parameters
    ----------
    *parts
        Pieces of the text, put together line by line.
    options
        What else the compiler is told.
    """

    def __init__(self, *parts: str, options: Sequence[str] = ("--std=c++17",)) -> None:
        self.source = "\n".join(parts) + "\n"
        self.options = tuple(options)

    def function(self, kernel: str, board: Board | None = None) -> Any:
        """A kernel's handle, good until the board is closed; without a board, to the end of the process."""
        module = ok(cu.cuModuleLoadData(_image(self.source, self.options)))
        if board is not None:
            board.later(lambda: cu.cuModuleUnload(module))
        return ok(cu.cuModuleGetFunction(module, kernel.encode()))

    def run(
        self, board: Board, kernel: str, *arguments: Array | np.generic, grid: Any = 1, block: Any = 32, shared: int = 0
    ) -> list[Array]:
        """Launch a kernel and wait for it.

        Parameters
        ----------
        board
            Where to run.
        kernel
            Its name.
        *arguments
            Arrays are copied to the device and passed as pointers; NumPy scalars are passed as they are.
        grid, block, shared
            The launch's shape; ``shared`` in bytes.

        Returns
        -------
        list
            What the arrays hold afterwards, in order.

        Raises
        ------
        CompileError
            The text was refused.
        harness.DriverCallError
            The launch, or the kernel, failed.
        """
        function = self.function(kernel, board)
        passed: list[np.generic] = []
        held: list[tuple[int, Array]] = []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                held.append((board.upload(argument), argument))
                passed.append(np.uint64(held[-1][0]))
            else:
                passed.append(argument)
        board.launch(function, 0, *passed, grid=grid, block=block, shared=shared)
        return [board.read(pointer, array.dtype, array.size).reshape(array.shape) for pointer, array in held]

    def map(self, board: Board, kernel: str, dtype: Any, *inputs: Array) -> Array:
        """Run a kernel made by :func:`elementwise` on arrays of one length; gives its output."""
        size = inputs[0].size
        out = np.zeros(size, dtype)
        blocks = (size + 255) // 256
        return self.run(board, kernel, out, *inputs, np.int32(size), grid=blocks, block=256)[0]


def elementwise(name: str, out: str, inputs: str, expression: str) -> str:
    """The text of a kernel that computes an expression for each element.

    Parameters
    ----------
    name, out
        The kernel's name, and the type of its output in C++.
    inputs
        The inputs' types, separated by commas; the expression knows them as ``a``, ``b``, ``c``.
    expression
        What is stored.
    """
    types = [word.strip() for word in inputs.split(",")]
    letters = "abc"[: len(types)]
    parameters = "".join(f", const {kind} *{letter}_" for kind, letter in zip(types, letters, strict=True))
    loads = "".join(f" const {kind} {letter} = {letter}_[i_];" for kind, letter in zip(types, letters, strict=True))
    return (
        f'extern "C" __global__ void {name}({out} *out_{parameters}, int n_) {{ '
        f"int i_ = blockIdx.x * blockDim.x + threadIdx.x; if (i_ >= n_) return;{loads} out_[i_] = {expression}; }}"
    )
