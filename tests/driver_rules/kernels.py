"""The test kernels, loaded into whichever driver answers; what needs one asks here and is skipped where there is none."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench
from tests.driver_rules.driving import code, ffi, ok
from tests.driver_rules.emulator import is_emulated

# The parameters of the kernels that are used here (tests/emulated_device/kernels/basic.c).
SIGNATURES = {
    "empty": (),
    "affine": ("void *", "int", "int"),
    "count_up": ("void *", "int"),
    "poke": ("unsigned long long", "int"),
    "set_condition": ("unsigned long long", "unsigned int"),
    "loop_while_positive": ("unsigned long long", "void *"),
}


class UnavailableError(RuntimeError):
    """What a test or a probe needs cannot be had from the driver that answers."""


@functools.cache
def module_image() -> bytes:
    """An image of the test kernels that the driver loads: a host shared object, or what NVRTC makes for the first device."""
    from tests.emulated_device import loader

    source = loader.KERNELS / "basic.c"
    if is_emulated():
        return loader.build_kernels(source).read_bytes()
    try:
        return compiled_by_nvrtc(source)
    except Exception as why:
        raise UnavailableError(f"NVRTC cannot build the test kernels: {why}") from why


def compiled_by_nvrtc(source: Path) -> bytes:
    """The cubin of a kernel file for the first device."""
    from cuda.bindings import nvrtc

    attributes = cu.CUdevice_attribute
    major, minor = (
        ok(cu.cuDeviceGetAttribute(getattr(attributes, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}"), 0))
        for part in ("MAJOR", "MINOR")
    )
    program = ok(nvrtc.nvrtcCreateProgram(source.read_bytes(), source.name.encode(), 0, [], []))
    options = [f"--gpu-architecture=sm_{major}{minor}".encode(), f"-I{source.parent}".encode()]
    answer = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if code(answer):
        log = bytearray(ok(nvrtc.nvrtcGetProgramLogSize(program)))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise UnavailableError(log.decode(errors="replace"))
    image = bytearray(ok(nvrtc.nvrtcGetCUBINSize(program)))
    ok(nvrtc.nvrtcGetCUBIN(program, image))
    return bytes(image)


class Arguments:
    """The arguments of one launch, as the driver takes them: an array of pointers to them. Keeps them alive."""

    def __init__(self, kernel: str, values: tuple[Any, ...]) -> None:
        types = SIGNATURES[kernel]
        self.values = [
            ffi.new(f"{kind} *", ffi.cast(kind, int(value))) for kind, value in zip(types, values, strict=True)
        ]
        self.array = ffi.new("void *[]", [ffi.cast("void *", value) for value in self.values] or [ffi.NULL])

    @property
    def address(self) -> int:
        """Of the array."""
        return int(ffi.cast("uintptr_t", self.array))


class Kernels:
    """The test kernels, loaded; made before a capture begins."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.module = ok(cu.cuModuleLoadData(module_image()))
        bench.later(lambda: cu.cuModuleUnload(self.module))
        self.functions = {name: ok(cu.cuModuleGetFunction(self.module, name.encode())) for name in SIGNATURES}

    def launch(
        self,
        stream: Any,
        name: str = "empty",
        *values: Any,
        grid: int = 1,
        block: int = 1,
        attributes: tuple[Any, ...] = (),
    ) -> int:
        """Launches a kernel; the code."""
        config = cu.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = block, 1, 1
        config.hStream = stream
        if attributes:
            config.attrs = list(attributes)
            config.numAttrs = len(attributes)
        arguments = Arguments(name, values)
        return code(cu.cuLaunchKernelEx(config, self.functions[name], arguments.address, 0))

    def params(self, name: str, *values: Any) -> Any:
        """Parameters of a kernel node."""
        arguments = Arguments(name, values)
        self.bench.host.keep(arguments)
        made = cu.CUDA_KERNEL_NODE_PARAMS()
        made.func = self.functions[name]
        made.gridDimX = made.gridDimY = made.gridDimZ = 1
        made.blockDimX = made.blockDimY = made.blockDimZ = 1
        made.kernelParams = arguments.address
        return made

    def add(self, graph: Any, name: str, *values: Any, after: list[Any] | None = None) -> Any:
        """A kernel node."""
        after = after or []
        return ok(cu.cuGraphAddKernelNode(graph, after, len(after), self.params(name, *values)))


def attribute(which: str, value: int) -> Any:
    """A launch attribute with a whole-number value."""
    made = cu.CUlaunchAttribute()
    made.id = getattr(cu.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{which}")
    field = {
        "COOPERATIVE": "cooperative",
        "PROGRAMMATIC_STREAM_SERIALIZATION": "programmaticStreamSerializationAllowed",
        "PRIORITY": "priority",
    }[which]
    setattr(made.value, field, value)
    return made
