"""The XPU backend: Intel GPUs through Level Zero, and any machine through the OpenCL CPU device; on dpctl.

Two tiers behind one interface. The native one records SYCL's own ``command_graph`` through a small C++ extension; the
software one keeps the calls made through graphcap's streams and submits them again.

Reading order: ``backend`` (devices, tiers) -> ``captures`` (the rules) -> ``recording`` (the two tiers) -> ``streams`` ->
``graph``. Importing this package imports no dpctl; taking `XPUGraphImpl` from it does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from graphcap.backends.xpu.discovery import dpctl_missing, register_opencl_cpu
from graphcap.errors import BackendUnavailableError

if TYPE_CHECKING:
    from graphcap.backends.xpu.backend import XPUBackend, xpu_backend
    from graphcap.backends.xpu.graph import XPUGraphImpl

__all__ = ["XPUBackend", "XPUGraphImpl", "register_opencl_cpu", "xpu_backend"]

_NEED_DPCTL: Final = {"XPUBackend": "backend", "XPUGraphImpl": "graph", "xpu_backend": "backend"}


def __getattr__(name: str) -> Any:
    """Import what needs dpctl when it is asked for.

    Raises
    ------
    BackendUnavailableError
        dpctl is missing, too old, or does not load.
    """
    module = _NEED_DPCTL.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    missing = dpctl_missing()
    if missing is not None:
        cause = None if missing.installed else ImportError(missing.reason)
        raise BackendUnavailableError("XPU", missing.reason, missing.cure) from cause
    try:
        return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    except ImportError as error:
        raise BackendUnavailableError(
            "XPU", f"dpctl does not load: {error}", "Reinstall it: pip install --force-reinstall dpctl intel-sycl-rt."
        ) from error
