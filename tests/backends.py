"""All backends for tests that are the same on each: ``@pytest.mark.parametrize("device", DEVICES)`` or the fixture :func:`fx`.

The CUDA backend runs on whichever driver answers (the emulated one where there is no GPU), XPU on both tiers over the OpenCL CPU device.
"""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Iterator
from typing import Any, Final

import pytest

from graphcap.backends.xpu.discovery import dpctl_missing, opencl_runtime_library, register_opencl_cpu
from graphcap.testing import BackendFixtures

register_opencl_cpu()

__all__ = ["DEVICES", "every_backend", "fixtures_of", "xpu_missing"]

_FIXTURES: Final = {
    "cpu": "tests.conformance.cpu_fixtures:CPUFixtures",
    "cuda": "tests.cuda.fixtures:CUDAFixtures",
    "xpu": "tests.xpu.tiers:NativeFixtures",
    "xpu_software": "tests.xpu.tiers:SoftwareFixtures",
}
DEVICES: Final = tuple(_FIXTURES)


def xpu_missing() -> str | None:
    """Why XPU tests cannot run here; ``None`` if they can."""
    missing = dpctl_missing()
    if missing is not None:
        return f"XPU: {missing.reason} ({platform.machine()}); {missing.cure}"
    if opencl_runtime_library() is None and "ONEAPI_DEVICE_SELECTOR" not in os.environ:
        return "XPU: the OpenCL CPU device is not installed (pip install intel-opencl-rt)"
    return None


def fixtures_of(device: str) -> BackendFixtures:
    """A backend's part in the conformance suite; skips the test where the backend cannot be had."""
    if device.startswith("xpu"):
        missing = xpu_missing()
        if missing is not None:
            pytest.skip(missing)
    module, _, name = _FIXTURES[device].partition(":")
    made: BackendFixtures = getattr(importlib.import_module(module), name)()
    return made


@pytest.fixture(params=DEVICES)
def every_backend(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The fixtures of each backend in turn."""
    fx = fixtures_of(request.param)
    fx.start(fx.seeds[0])
    try:
        yield fx
    finally:
        fx.let_go()
