"""The driver's functions on devices, contexts, streams, events and memory, with types: ints in, ints out."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from graphcap.backends.cuda import _driver as driver
from graphcap.interface import CaptureStatus

__all__ = ["CaptureInfo", "Mode"]

NOT_READY: Final = 600
EVENT_WITHOUT_TIMING: Final = 2
STREAM_NON_BLOCKING: Final = 1
EXTERNAL: Final = 1
SET_DEPENDENCIES: Final = 1


class Mode(enum.IntEnum):
    """The driver's capture modes, and those of a thread (S-D8 to S-D11)."""

    GLOBAL = 0
    THREAD_LOCAL = 1
    RELAXED = 2


# -- devices and contexts ------------------------------------------------------------------------------------------


def driver_version() -> int:
    """As ``1000*major + 10*minor`` of the newest CUDA that the driver serves."""
    return int(driver.call("cuDriverGetVersion"))


def device_count() -> int:
    return int(driver.call("cuDeviceGetCount"))


def device_name(index: int) -> str:
    raw = driver.call("cuDeviceGetName", 256, driver.call("cuDeviceGet", index))
    return bytes(raw).split(b"\0")[0].decode(errors="replace")


def compute_capability(index: int) -> tuple[int, int]:
    device = driver.call("cuDeviceGet", index)
    attribute = driver.struct("CUdevice_attribute")
    return (
        int(driver.call("cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)),
        int(driver.call("cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)),
    )


def retain_primary_context(index: int) -> int:
    return int(driver.call("cuDevicePrimaryCtxRetain", driver.call("cuDeviceGet", index)))


def current_context() -> int:
    return int(driver.call("cuCtxGetCurrent"))


def set_current_context(context: int) -> None:
    driver.call("cuCtxSetCurrent", context)


def device_of_current_context() -> int:
    return int(driver.call("cuCtxGetDevice"))


def synchronize_context(asked: str) -> None:
    driver.call("cuCtxSynchronize", asked=asked)


def stream_priorities() -> tuple[int, int]:
    """Least and greatest priority; greater means a smaller number."""
    least, greatest = driver.call("cuCtxGetStreamPriorityRange")
    return int(least), int(greatest)


# -- streams ---------------------------------------------------------------------------------------------------------


def create_stream(*, blocking: bool, priority: int) -> int:
    return int(driver.call("cuStreamCreateWithPriority", 0 if blocking else STREAM_NON_BLOCKING, priority))


def stream_is_done(stream: int, asked: str | None = None) -> bool:
    code, _ = driver.answer("cuStreamQuery", stream)
    if code not in (0, NOT_READY):
        raise driver.mapped("cuStreamQuery", code, asked)
    return code == 0


def capture_status(stream: int) -> CaptureStatus:
    return CaptureStatus(int(driver.call("cuStreamIsCapturing", stream, asked="a status query of a stream")))


def stream_device(stream: int) -> int | None:
    """The device of a stream; ``None`` while it captures, which forbids the question, and where the driver cannot tell."""
    code, status = driver.answer("cuStreamIsCapturing", stream)
    if code or CaptureStatus(int(status)) is not CaptureStatus.NONE:
        return None
    if not hasattr(driver.bindings(), "cuStreamGetDevice"):
        return None
    code, device = driver.answer("cuStreamGetDevice", stream)
    return None if code else int(device)


class CaptureInfo(NamedTuple):
    """What the driver tells of a stream that captures. `id` and the rest mean something only while it is active."""

    status: CaptureStatus
    id: int
    graph: int
    frontier: tuple[int, ...]
    """The nodes that the stream's next node will depend on."""


def capture_info(stream: int) -> CaptureInfo:
    """Status, id, graph and frontier; asked with edge data, because some edges cannot be told without (S-D28)."""
    status, identity, graph, nodes, _edges, count = driver.call(
        driver.edge_name("cuStreamGetCaptureInfo"), stream, asked="a status query of a stream"
    )
    found = CaptureStatus(int(status))
    if found is not CaptureStatus.ACTIVE:
        return CaptureInfo(found, 0, 0, ())
    return CaptureInfo(found, int(identity), int(graph), tuple(int(node) for node in (nodes or ())[: int(count)]))


def begin_capture(stream: int, mode: Mode) -> None:
    driver.call(
        "cuStreamBeginCapture", stream, driver.struct("CUstreamCaptureMode", int(mode)), asked="capture_begin()"
    )


def begin_capture_to_graph(stream: int, graph: int, mode: Mode) -> None:
    """Begin to capture into a graph that exists, from its beginning on (S-D6)."""
    mode_value = driver.struct("CUstreamCaptureMode", int(mode))
    driver.call("cuStreamBeginCaptureToGraph", stream, graph, None, None, 0, mode_value, asked="a conditional body")


def end_capture(stream: int, asked: str = "capture_end()") -> int:
    """End the capture of a stream; give the graph."""
    return int(driver.call("cuStreamEndCapture", stream, asked=asked))


def set_frontier(stream: int, node: int) -> None:
    """Make `node` what the stream's next node depends on (S-D29)."""
    nodes = [driver.struct("CUgraphNode", node)]
    driver.call(driver.edge_name("cuStreamUpdateCaptureDependencies"), stream, nodes, None, 1, SET_DEPENDENCIES)


def exchange_thread_mode(mode: Mode) -> Mode:
    """Set the calling thread's capture mode; give the one it had."""
    old = driver.call("cuThreadExchangeStreamCaptureMode", driver.struct("CUstreamCaptureMode", int(mode)))
    return Mode(int(old))


# -- events ----------------------------------------------------------------------------------------------------------


def create_event(*, timing: bool) -> int:
    return int(driver.call("cuEventCreate", 0 if timing else EVENT_WITHOUT_TIMING))


def event_is_done(event: int, asked: str | None = None) -> bool:
    code, _ = driver.answer("cuEventQuery", event)
    if code not in (0, NOT_READY):
        raise driver.mapped("cuEventQuery", code, asked)
    return code == 0


# -- memory ----------------------------------------------------------------------------------------------------------


def allocate(nbytes: int) -> int:
    return int(driver.call("cuMemAlloc", nbytes, asked=f"a segment of {nbytes} bytes"))


def free(address: int) -> None:
    driver.call("cuMemFree", address)


def allocate_host(nbytes: int) -> int:
    """Page-locked host memory that every context may use."""
    portable = 1
    return int(driver.call("cuMemHostAlloc", nbytes, portable, asked=f"a pinned segment of {nbytes} bytes"))


def free_host(address: int) -> None:
    driver.call("cuMemFreeHost", address)


def memory_info() -> tuple[int, int]:
    """Free and total bytes of the current device."""
    free_bytes, total = driver.call("cuMemGetInfo")
    return int(free_bytes), int(total)
