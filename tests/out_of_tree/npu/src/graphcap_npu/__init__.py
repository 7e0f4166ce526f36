"""A pretend accelerator as a backend outside graphcap's tree: ``graphcap.Graph("npu")`` works once this is installed.

Each stream of the device is a worker thread, so unlike on the CPU backend work is asynchronous; there is no default
stream with implicit order, no capture mode but its own, and no timing. Reading order: ``device`` (streams, events, the
rules of capture), ``graph``, ``backend``.
"""

from graphcap_npu.backend import NPUBackend, npu_backend
from graphcap_npu.graph import NPUGraphImpl

__all__ = ["NPUBackend", "NPUGraphImpl", "npu_backend"]
