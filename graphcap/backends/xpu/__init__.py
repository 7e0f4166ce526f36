"""The XPU backend: Intel GPUs through Level Zero, and any machine through the OpenCL CPU device; on dpctl.

Two tiers behind one interface. The native one records SYCL's own ``command_graph`` through a small C++ extension; the
software one keeps the calls made through graphcap's streams and submits them again.

Reading order: ``backend`` (devices, tiers) -> ``captures`` (the rules) -> ``recording`` (the two tiers) -> ``streams`` ->
``graph``. Importing this package imports no dpctl.
"""

from graphcap.backends.xpu.backend import XPUBackend, xpu_backend
from graphcap.backends.xpu.discovery import register_opencl_cpu
from graphcap.backends.xpu.graph import XPUGraphImpl

__all__ = ["XPUBackend", "XPUGraphImpl", "register_opencl_cpu", "xpu_backend"]
