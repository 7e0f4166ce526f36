"""The one file that imports dpctl. Everything else in this package takes its names from here.

Importing it needs dpctl and loads the SYCL runtime, but asks for no device: the list of devices is cached by the
runtime at the first question, so settings such as ``OCL_ICD_FILENAMES`` still count until then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import dpctl
import dpctl.memory
import dpctl.program
import dpctl.utils
from dpctl._sycl_queue import (
    LocalAccessor,
    RawKernelArg,
    SyclKernelInvalidRangeError,
    SyclKernelSubmitError,
    WorkGroupMemory,
)

__all__ = [
    "KERNEL_ARGUMENTS",
    "VERSION",
    "AllocationError",
    "LocalAccessor",
    "RawKernelArg",
    "SubmitErrors",
    "SyclContext",
    "SyclDevice",
    "SyclEvent",
    "SyclQueue",
    "WorkGroupMemory",
    "as_memory",
    "create_program",
    "devices",
    "event_capsule",
    "is_complete",
    "is_kernel",
    "is_memory",
    "is_queue",
    "make_event",
    "make_queue",
    "make_unordered_queue",
    "memory_at",
    "memory_info",
    "queue_capsule",
    "usm_memory",
    "wait_event",
]

VERSION: str = dpctl.__version__

# What dpctl hands out; `Any` because it ships no types.
SyclDevice: TypeAlias = Any
SyclContext: TypeAlias = Any
SyclQueue: TypeAlias = Any
SyclEvent: TypeAlias = Any
SyclMemory: TypeAlias = Any

KERNEL_ARGUMENTS = (RawKernelArg, LocalAccessor, WorkGroupMemory)
SubmitErrors = (SyclKernelSubmitError, SyclKernelInvalidRangeError)
AllocationError: type[Exception] = dpctl.memory.USMAllocationError

_USM_CLASSES = {
    "device": dpctl.memory.MemoryUSMDevice,
    "shared": dpctl.memory.MemoryUSMShared,
    "host": dpctl.memory.MemoryUSMHost,
}


def devices(backend: str, device_type: str) -> list[SyclDevice]:
    """The devices of a backend and a type, in dpctl's order."""
    return list(dpctl.get_devices(backend=backend, device_type=device_type))


def make_queue(context: SyclContext | None, device: SyclDevice) -> SyclQueue:
    """A new in-order queue; `context` is the platform's default one if not given."""
    if context is None:
        return dpctl.SyclQueue(device, property="in_order")
    return dpctl.SyclQueue(context, device, property="in_order")


def make_unordered_queue(context: SyclContext, device: SyclDevice) -> SyclQueue:
    """A new queue whose only order is the one that each submission names; to record graphs with."""
    return dpctl.SyclQueue(context, device)


def queue_capsule(queue: SyclQueue) -> Any:
    """A capsule that the native extension reads. It holds a copy of the queue's reference, so it never dangles."""
    return queue._get_capsule()


def make_event(capsule: Any) -> SyclEvent:
    """The event in a capsule from the native extension."""
    return dpctl.SyclEvent(capsule)


def event_capsule(event: SyclEvent) -> Any:
    """A capsule of an event that the native extension reads."""
    return event._get_capsule()


def is_complete(event: SyclEvent) -> bool:
    """Whether the work of an event is done. Meaningless for an event that was recorded into a graph."""
    return bool(event.execution_status == dpctl.event_status_type.complete)


wait_for_event: Callable[[Any], None] | None = None
"""How the native tier waits for an event's capsule, once it is in use: see rule 3 of ``native/_sycl_graph.cpp``."""


def wait_event(event: SyclEvent) -> None:
    """Wait on the host for the work of an event."""
    if wait_for_event is None:
        event.wait()
    else:
        wait_for_event(event_capsule(event))


def is_queue(obj: object) -> bool:
    return isinstance(obj, dpctl.SyclQueue)


def is_kernel(obj: object) -> bool:
    return isinstance(obj, dpctl.program.SyclKernel)


def is_memory(obj: object) -> bool:
    return isinstance(obj, tuple(_USM_CLASSES.values()))


def as_memory(obj: object) -> SyclMemory:
    """A dpctl memory object over the memory of anything with ``__sycl_usm_array_interface__``; it keeps `obj` alive."""
    return dpctl.memory.as_usm_memory(obj)


class _Bytes:
    """A range of USM bytes as dpctl understands it."""

    def __init__(self, pointer: int, nbytes: int, queue: SyclQueue, owner: object) -> None:
        self.owner = owner
        self.__sycl_usm_array_interface__ = {
            "data": (pointer, False),
            "shape": (nbytes,),
            "strides": None,
            "typestr": "|u1",
            "version": 1,
            "syclobj": queue,
        }


def memory_at(pointer: int, nbytes: int, queue: SyclQueue, owner: object) -> SyclMemory:
    """A dpctl memory object over a range of USM memory; it keeps `owner` alive."""
    return dpctl.memory.as_usm_memory(_Bytes(pointer, nbytes, queue, owner))


def usm_memory(kind: str, nbytes: int, queue: SyclQueue, alignment: int) -> SyclMemory:
    """New USM memory: ``"device"``, ``"shared"`` or ``"host"``.

    Raises
    ------
    AllocationError, ValueError, OverflowError
        It cannot be had.
    """
    return _USM_CLASSES[kind](nbytes, alignment=alignment, queue=queue)


def create_program(queue: SyclQueue, spirv: bytes, options: str = "") -> Any:
    """A program from SPIR-V, for the queue's context."""
    return dpctl.program.create_program_from_spirv(queue, spirv, options)


def memory_info(device: SyclDevice) -> tuple[int, int] | None:
    """Free and total bytes of a device, where its driver tells."""
    free = dpctl.utils.intel_device_info(device).get("free_memory")
    return None if free is None else (int(free), int(device.global_mem_size))
