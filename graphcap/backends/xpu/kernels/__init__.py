"""Kernels that come with the backend: OpenCL C beside the SPIR-V made from it (``build.sh``, or ``make spirv``).

SPIR-V, because OpenCL C source loads on OpenCL devices only, while Intel GPUs are used through Level Zero.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphcap.backends.xpu import _dpctl
from graphcap.errors import BackendError, DriverError

__all__ = ["FOLDER", "load", "load_spirv", "module_names", "spirv"]

FOLDER = Path(__file__).parent

_lock = threading.Lock()
_programs: dict[tuple[int, str], tuple[Any, Any]] = {}  # (hash of the context, module) -> (context, program)


def module_names() -> Sequence[str]:
    """The modules there are: ``"arithmetic"``, ``"fill"``, …"""
    return sorted(path.stem for path in FOLDER.glob("*.spv"))


def spirv(module: str) -> bytes:
    """The SPIR-V of a module of this folder.

    Raises
    ------
    ValueError
        There is no such module.
    """
    if module not in module_names():
        raise ValueError(f"no kernel module {module!r}. There are: {', '.join(module_names())}.")
    return (FOLDER / f"{module}.spv").read_bytes()


def load(stream: Any, module: str, name: str) -> Any:
    """A ``dpctl.program.SyclKernel`` of this folder, built once per context.

    Parameters
    ----------
    stream
        A graphcap stream or a ``dpctl.SyclQueue`` of the context.
    module, name
        ``"arithmetic"``, ``"axpy_f32"``.

    Raises
    ------
    ValueError
        There is no such module or kernel.
    DriverError
        The device cannot build it.
    """
    queue = _queue_of(stream)
    context = queue.sycl_context
    key = (hash(context), module)
    with _lock:
        found = _programs.get(key)
        if found is None or found[0] != context:
            found = (context, _build(queue, spirv(module), f"kernel module {module!r}"))
            _programs[key] = found
    return _kernel(found[1], name, f"kernel module {module!r}")


def load_spirv(stream: Any, binary: bytes, name: str) -> Any:
    """A ``dpctl.program.SyclKernel`` from SPIR-V bytes of your own.

    Raises
    ------
    ValueError
        The module has no kernel of that name.
    DriverError
        The device cannot build it.
    """
    return _kernel(_build(_queue_of(stream), binary, "a SPIR-V module"), name, "the SPIR-V module")


def _queue_of(stream: Any) -> Any:
    if _dpctl.is_queue(stream):
        return stream
    target = getattr(stream, "target", None)  # not `stream.queue`: that counts as handing the queue out
    if target is None:
        raise TypeError(f"expected an XPU stream or a dpctl.SyclQueue, not {type(stream).__name__}.")
    return target.queue


def _build(queue: Any, binary: bytes, what: str) -> Any:
    # The runtime trusts the words of a module; one that is not SPIR-V at all is refused here.
    if len(binary) % 4 or binary[:4] not in (b"\x03\x02\x23\x07", b"\x07\x23\x02\x03"):
        raise DriverError(
            "create_program_from_spirv", 0, "NOT_SPIRV", f"{what} of {len(binary)} bytes", "Compile it to SPIR-V."
        )
    try:
        return _dpctl.create_program(queue, binary)
    except Exception as error:
        if isinstance(error, BackendError):
            raise
        # dpctl's message is empty for a failed compilation
        text = str(error) or "the device gave no reason; does it support what the kernel uses (64-bit floats)?"
        raise DriverError("create_program_from_spirv", 0, type(error).__name__, f"{what}: {text}") from error


def _kernel(program: Any, name: str, what: str) -> Any:
    if not program.has_sycl_kernel(name):
        raise ValueError(f"{what} has no kernel {name!r}.")
    return program.get_sycl_kernel(name)
