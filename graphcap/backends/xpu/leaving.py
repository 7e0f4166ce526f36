"""The end of the interpreter: device work and host calls finish first, within a limit.

A host task that took the GIL of an interpreter that is gone, or a lane's thread that outlived it, would end the process with
a crash instead of its exit status.
"""

from __future__ import annotations

import atexit
import time
from typing import TYPE_CHECKING, Any

from graphcap.backends.xpu.lane import close_all

if TYPE_CHECKING:
    from graphcap.backends.xpu.backend import XPUBackend

__all__ = ["register"]

GRACE_S = 5.0
"""How long work in flight may still take. Host calls that have not begun by then never run."""
_POLL_S = 0.002


def register(backend: XPUBackend) -> None:
    """Let the work of `backend` finish when the interpreter ends."""
    atexit.register(_leave, backend)


def _leave(backend: XPUBackend) -> None:
    end = time.monotonic() + GRACE_S
    close_all(end)
    waiting: list[Any] = backend.live_streams()
    while waiting and time.monotonic() < end:
        waiting = [stream for stream in waiting if not stream.is_idle()]
        if waiting:
            time.sleep(_POLL_S)
    if backend.extension is not None:
        backend.extension.close_host_tasks()
        # What runs already must come back, as with any thread that is no daemon: the SYCL runtime waits for it at exit.
        while backend.extension.host_tasks_running():
            time.sleep(_POLL_S)
