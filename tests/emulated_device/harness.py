"""What the tests of the emulated device share. Everything here works on a real driver too."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

from . import control, loader

#: Kinds of :func:`control.counts` that a test must leave as it found them. Kernels and libraries belong to the session.
LEAKABLE = (
    "context", "stream", "event", "graph", "graph_exec", "graph_node", "mem_pool", "user_object", "device_allocation",
    "host_allocation", "managed_allocation", "capture", "unfinished_work",
)  # fmt: skip


class DriverCallError(AssertionError):
    """A driver call that had to succeed did not."""

    def __init__(self, code: Any) -> None:
        super().__init__(f"the driver returned {code!r}")
        self.code = code


def ok(result: tuple[Any, ...]) -> Any:
    """What a driver call gave, after checking that it succeeded: nothing, one value, or a tuple."""
    code, *values = result
    if code != cu.CUresult.CUDA_SUCCESS:
        raise DriverCallError(code)
    return values[0] if len(values) == 1 else tuple(values) or None


def code(result: Any) -> int:
    """The result code alone, as a number."""
    return int(result[0] if isinstance(result, tuple) else result)


def emulated() -> bool:
    """Whether the process uses the emulated driver."""
    return loader.load() == "emulated"


@functools.cache
def kernel_image(name: str = "basic") -> bytes:
    """The image of a kernel file in ``kernels/``: a host shared object, or on a GPU what NVRTC makes of the same text."""
    source = loader.KERNELS / f"{name}.c"
    if emulated():
        return loader.build_kernels(source).read_bytes()
    from cuda.core import Device, Program, ProgramOptions

    device = Device()
    device.set_current()
    options = ProgramOptions(
        std="c++17", arch=f"sm_{device.arch}", include_path=[str(loader.KERNELS), str(loader.include_folder())]
    )
    return bytes(Program(source.read_text(), "c++", options).compile("cubin").code)


class Board:
    """A current primary context, with what a test allocates in it; all of it goes back at the end."""

    def __init__(self, ordinal: int = 0) -> None:
        ok(cu.cuInit(0))
        self.device = ok(cu.cuDeviceGet(ordinal))
        self.context = ok(cu.cuDevicePrimaryCtxRetain(self.device))
        ok(cu.cuCtxSetCurrent(self.context))
        self._later: list[Callable[[], object]] = []
        self._modules: dict[str, Any] = {}

    def later(self, action: Callable[[], object]) -> None:
        """Do this at the end, in reverse order."""
        self._later.append(action)

    def close(self) -> None:
        ok(cu.cuCtxSetCurrent(self.context))
        for action in reversed(self._later):
            action()
        self._later.clear()
        ok(cu.cuCtxSetCurrent(cu.CUcontext(0)))
        ok(cu.cuDevicePrimaryCtxRelease(self.device))

    def stream(self, flags: int = 1) -> Any:
        """A stream, non-blocking unless said otherwise."""
        made = ok(cu.cuStreamCreate(flags))
        self.later(lambda: cu.cuStreamDestroy(made))
        return made

    def event(self, flags: int = 2) -> Any:
        """An event, without timing unless said otherwise."""
        made = ok(cu.cuEventCreate(flags))
        self.later(lambda: cu.cuEventDestroy(made))
        return made

    def buffer(self, nbytes: int, fill: int | None = 0) -> int:
        """Device memory."""
        pointer = int(ok(cu.cuMemAlloc(nbytes)))
        self.later(lambda: cu.cuMemFree(pointer))
        if fill is not None:
            ok(cu.cuMemsetD8(pointer, fill, nbytes))
        return pointer

    def upload(self, values: np.ndarray[Any, Any]) -> int:
        """Device memory that holds these values."""
        values = np.ascontiguousarray(values)
        pointer = self.buffer(values.nbytes, None)
        ok(cu.cuMemcpyHtoD(pointer, values.ctypes.data, values.nbytes))
        return pointer

    def read(self, pointer: int, dtype: Any, count: int) -> np.ndarray[Any, Any]:
        """What device memory holds, after everything submitted so far."""
        out = np.empty(count, dtype)
        ok(cu.cuCtxSynchronize())
        ok(cu.cuMemcpyDtoH(out.ctypes.data, pointer, out.nbytes))
        return out

    def module(self, file: str = "basic") -> Any:
        """The module of a file in ``kernels/``."""
        if file not in self._modules:
            self._modules[file] = module = ok(cu.cuModuleLoadData(kernel_image(file)))
            self.later(lambda: cu.cuModuleUnload(module))
        return self._modules[file]

    def kernel(self, name: str, file: str = "basic") -> Any:
        """A function of a file in ``kernels/``."""
        return ok(cu.cuModuleGetFunction(self.module(file), name.encode()))

    def launch(
        self, function: Any, stream: Any, *arguments: np.generic, grid: Any = 1, block: Any = 1, shared: int = 0
    ) -> None:
        """Launch; every argument is a NumPy scalar of the parameter's type."""
        ok(self.try_launch(function, stream, *arguments, grid=grid, block=block, shared=shared))

    @staticmethod
    def try_launch(
        function: Any, stream: Any, *arguments: np.generic, grid: Any = 1, block: Any = 1, shared: int = 0
    ) -> Any:
        """As :meth:`launch`, returning what the driver said."""
        held = [np.array(argument) for argument in arguments]
        pointers = np.array([one.ctypes.data for one in held], np.uint64)
        sizes = [int(x) for shape in (grid, block) for x in [*np.atleast_1d(shape), 1, 1][:3]]
        return cu.cuLaunchKernel(function, *sizes, shared, stream, pointers.ctypes.data if len(held) else 0, 0)

    def graph(self) -> Any:
        """An empty graph."""
        made = ok(cu.cuGraphCreate(0))
        self.later(lambda: cu.cuGraphDestroy(made))
        return made

    def instantiate(self, graph: Any, flags: int = 0) -> Any:
        """An executable graph."""
        made = ok(cu.cuGraphInstantiate(graph, flags))
        self.later(lambda: cu.cuGraphExecDestroy(made))
        return made

    def capture(self, stream: Any, work: Callable[[], object], mode: int = 1) -> Any:
        """The graph of what ``work`` submits to ``stream``."""
        ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode(mode)))
        work()
        made = ok(cu.cuStreamEndCapture(stream))
        self.later(lambda: cu.cuGraphDestroy(made))
        return made


@contextlib.contextmanager
def board(ordinal: int = 0) -> Iterator[Board]:
    """A :class:`Board`; at the end everything that was made must be gone."""
    before = control.counts() if emulated() else {}
    made = Board(ordinal)
    try:
        yield made
    finally:
        if emulated():
            control.reset_faults()
        made.close()
    if emulated():
        after = control.counts()
        leaked = {kind: (before[kind], after[kind]) for kind in LEAKABLE if after[kind] != before[kind]}
        assert not leaked, f"left behind (before, after): {leaked}"
