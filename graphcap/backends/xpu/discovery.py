"""What of XPU is there: dpctl, a device, the OpenCL runtime's registration; and what to do about what is missing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from typing import Any, Final

__all__ = [
    "MINIMUM_DPCTL",
    "Missing",
    "choose_devices",
    "dpctl_missing",
    "no_device",
    "opencl_runtime_library",
    "register_opencl_cpu",
]

MINIMUM_DPCTL: Final = (0, 22)
_INSTALL: Final = "Install it: pip install dpctl."


class Missing(Exception):
    """Why XPU is not usable here, and what to do about it; one line each."""

    def __init__(self, reason: str, cure: str, *, installed: bool) -> None:
        super().__init__(f"{reason}. {cure}")
        self.reason = reason
        self.cure = cure
        self.installed = installed


def dpctl_missing() -> Missing | None:
    """Whether dpctl is absent, or too old; imports nothing."""
    try:
        version = importlib.metadata.version("dpctl")
    except importlib.metadata.PackageNotFoundError:
        machine = platform.machine().lower()
        if machine not in ("x86_64", "amd64") or sys.platform not in ("linux", "win32"):
            return Missing(
                "dpctl is not installed",
                f"There are no dpctl wheels for {sys.platform} on {machine}, only for Linux and Windows on x86-64: build "
                "dpctl from source with an oneAPI compiler, or use another backend.",
                installed=False,
            )
        return Missing("dpctl is not installed", _INSTALL, installed=False)
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < MINIMUM_DPCTL:
        wanted = ".".join(map(str, MINIMUM_DPCTL))
        return Missing(f"dpctl {version} is too old", f"Upgrade it: pip install 'dpctl>={wanted}'.", installed=True)
    return None


def choose_devices(all_devices: dict[tuple[str, str], list[Any]]) -> list[Any]:
    """The devices to offer: GPUs on Level Zero, else GPUs on OpenCL, else CPUs on OpenCL.

    One device often shows up once per SYCL backend, so exactly one backend is used.

    Parameters
    ----------
    all_devices
        ``(backend, device type)`` -> devices in dpctl's order.
    """
    for key in (("level_zero", "gpu"), ("opencl", "gpu"), ("opencl", "cpu")):
        if all_devices.get(key):
            return all_devices[key]
    return []


def no_device() -> Missing:
    """Why dpctl sees no device."""
    library = opencl_runtime_library()
    registered = os.environ.get("OCL_ICD_FILENAMES", "")
    selector = os.environ.get("ONEAPI_DEVICE_SELECTOR", "")
    if library is not None and library not in registered.split(os.pathsep):
        return Missing(
            "dpctl sees no device: the OpenCL CPU runtime of the wheel intel-opencl-rt is installed but not registered "
            "(pip runs no post-install step)",
            f"Before Python starts: export OCL_ICD_FILENAMES={library} ONEAPI_DEVICE_SELECTOR='*:cpu'; or call "
            "graphcap.backends.xpu.register_opencl_cpu() before the first device query.",
            installed=True,
        )
    if selector:
        return Missing(
            f"dpctl sees no device with ONEAPI_DEVICE_SELECTOR={selector!r}",
            "Unset it; for the OpenCL CPU device use '*:cpu' ('opencl:cpu' does not load).",
            installed=True,
        )
    return Missing(
        "dpctl sees no device",
        "For an Intel GPU install its compute runtime (Ubuntu: apt install libze1 libze-intel-gpu1) and join the group "
        "'render'; to work without a GPU: pip install intel-opencl-rt.",
        installed=True,
    )


def opencl_runtime_library() -> str | None:
    """The OpenCL CPU runtime that the wheel ``intel-opencl-rt`` brought, if it is installed."""
    try:
        files = importlib.metadata.distribution("intel-opencl-rt").files or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name in ("libintelocl.so", "intelocl64.dll"):
            path = os.path.realpath(str(file.locate()))
            if os.path.exists(path):
                return path
    return None


def register_opencl_cpu() -> bool:
    """Make the OpenCL CPU device of the wheel ``intel-opencl-rt`` known to this process.

    Sets ``OCL_ICD_FILENAMES`` and ``ONEAPI_DEVICE_SELECTOR`` unless they are set already. Counts only before the first
    device query of the process: the SYCL runtime caches the list.

    Returns
    -------
    bool
        Whether the wheel is there.
    """
    library = opencl_runtime_library()
    if library is None:
        return False
    os.environ.setdefault("OCL_ICD_FILENAMES", library)
    os.environ.setdefault("ONEAPI_DEVICE_SELECTOR", "*:cpu")
    return True
