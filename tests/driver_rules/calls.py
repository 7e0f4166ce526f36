"""Calls that capture may forbid, as a table: how to prepare one before a capture begins, and how to make it.

The rule tests assert what is known of some of them (S-D12 and the table of the evidence page); probe 7 asks about all.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any, NamedTuple

from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench
from tests.driver_rules.driving import NON_BLOCKING, Code, address_of, code, get_capture_info, ok
from tests.driver_rules.kernels import UnavailableError, module_image

Made = Callable[[], int]


class Call(NamedTuple):
    """``prepare(bench, capturing)`` before the capture begins on ``capturing``; what it returns makes the call."""

    name: str
    prepare: Callable[[Bench, Any], Made]


CALLS: dict[str, Call] = {}


def call(fn: Callable[[Bench, Any], Made]) -> Callable[[Bench, Any], Made]:
    """Enters a preparation in the table under its own name."""
    CALLS[fn.__name__] = Call(fn.__name__, fn)
    return fn


def made(bench: Bench, answer: Any, undo: Callable[[Any], Any]) -> int:
    """The code of a call that creates something, which ``undo`` takes away afterwards."""
    if code(answer) == Code.SUCCESS:
        bench.later(lambda: undo(answer[1]))
    return code(answer)


def undone(bench: Bench, thing: Any, undo: Callable[[Any], Any]) -> Made:
    """A call that takes ``thing`` away; where it is refused, the bench does it afterwards."""

    def make() -> int:
        answer = code(undo(thing))
        if answer != Code.SUCCESS:
            bench.later(lambda: undo(thing))
        return answer

    return make


# -- memory --------------------------------------------------------------------------------------------------------


@call
def mem_alloc(bench: Bench, _: Any) -> Made:
    return lambda: made(bench, cu.cuMemAlloc(256), cu.cuMemFree)


@call
def mem_alloc_pitch(bench: Bench, _: Any) -> Made:
    return lambda: made(bench, cu.cuMemAllocPitch(256, 4, 4), cu.cuMemFree)


@call
def mem_alloc_managed(bench: Bench, _: Any) -> Made:
    return lambda: made(bench, cu.cuMemAllocManaged(256, 1), cu.cuMemFree)


@call
def mem_free(bench: Bench, _: Any) -> Made:
    return undone(bench, ok(cu.cuMemAlloc(256)), cu.cuMemFree)


@call
def mem_host_alloc(bench: Bench, _: Any) -> Made:
    return lambda: made(bench, cu.cuMemHostAlloc(256, 0), cu.cuMemFreeHost)


@call
def mem_alloc_host(bench: Bench, _: Any) -> Made:
    return lambda: made(bench, cu.cuMemAllocHost(256), cu.cuMemFreeHost)


@call
def mem_free_host(bench: Bench, _: Any) -> Made:
    return undone(bench, ok(cu.cuMemAllocHost(256)), cu.cuMemFreeHost)


def page(bench: Bench) -> int:
    """A page of host memory that lives as long as the bench."""
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    bench.host.keep(memory)
    return address_of(memory)


@call
def mem_host_register(bench: Bench, _: Any) -> Made:
    address = page(bench)

    def make() -> int:
        answer = code(cu.cuMemHostRegister(address, mmap.PAGESIZE, 0))
        if answer == Code.SUCCESS:
            bench.later(lambda: cu.cuMemHostUnregister(address))
        return answer

    return make


@call
def mem_host_unregister(bench: Bench, _: Any) -> Made:
    address = page(bench)
    ok(cu.cuMemHostRegister(address, mmap.PAGESIZE, 0))
    return undone(bench, address, cu.cuMemHostUnregister)


@call
def mem_get_info(_bench: Bench, _: Any) -> Made:
    return lambda: code(cu.cuMemGetInfo())


@call
def pointer_get_attribute(bench: Bench, _: Any) -> Made:
    kind = cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    return lambda: code(cu.cuPointerGetAttribute(kind, bench.scratch))


# -- pools ---------------------------------------------------------------------------------------------------------


def pool_properties(bench: Bench, *, exportable: bool = False) -> Any:
    """Properties of a pool on the bench's device."""
    props = cu.CUmemPoolProps()
    props.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    props.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    props.location.id = int(bench.device)
    handle_types = cu.CUmemAllocationHandleType
    props.handleTypes = (
        handle_types.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR if exportable else handle_types.CU_MEM_HANDLE_TYPE_NONE
    )
    return props


def new_pool(bench: Bench, *, exportable: bool = False) -> Any:
    """A pool that the bench destroys."""
    pool = ok(cu.cuMemPoolCreate(pool_properties(bench, exportable=exportable)))
    bench.later(lambda: cu.cuMemPoolDestroy(pool))
    return pool


@call
def pool_create(bench: Bench, _: Any) -> Made:
    return lambda: made(bench, cu.cuMemPoolCreate(pool_properties(bench)), cu.cuMemPoolDestroy)


@call
def pool_destroy(bench: Bench, _: Any) -> Made:
    return undone(bench, ok(cu.cuMemPoolCreate(pool_properties(bench))), cu.cuMemPoolDestroy)


@call
def pool_trim(bench: Bench, _: Any) -> Made:
    pool = new_pool(bench)
    return lambda: code(cu.cuMemPoolTrimTo(pool, 0))


@call
def pool_get_access(bench: Bench, _: Any) -> Made:
    pool = new_pool(bench)
    location = pool_properties(bench).location
    return lambda: code(cu.cuMemPoolGetAccess(pool, location))


@call
def pool_set_attribute(bench: Bench, _: Any) -> Made:
    pool = new_pool(bench)
    threshold = cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    return lambda: code(cu.cuMemPoolSetAttribute(pool, threshold, cu.cuuint64_t(0)))


@call
def pool_export_pointer(bench: Bench, _: Any) -> Made:
    if code(cu.cuMemPoolCreate(pool_properties(bench, exportable=True))) == Code.NOT_SUPPORTED:
        raise UnavailableError("this driver has no pools that can be exported")
    pool, stream = new_pool(bench, exportable=True), bench.stream()
    pointer = ok(cu.cuMemAllocFromPoolAsync(256, pool, stream))
    ok(cu.cuStreamSynchronize(stream))
    bench.later(lambda: cu.cuMemFree(pointer))
    return lambda: code(cu.cuMemPoolExportPointer(pointer))


@call
def mem_alloc_async_on_an_idle_stream(bench: Bench, _: Any) -> Made:
    stream = bench.stream()
    return lambda: made(bench, cu.cuMemAllocAsync(256, stream), cu.cuMemFree)


@call
def device_graph_mem_trim(bench: Bench, _: Any) -> Made:
    return lambda: code(cu.cuDeviceGraphMemTrim(bench.device))


# -- streams and events --------------------------------------------------------------------------------------------


@call
def stream_create(bench: Bench, _: Any) -> Made:
    return lambda: made(bench, cu.cuStreamCreate(NON_BLOCKING), cu.cuStreamDestroy)


@call
def stream_destroy(bench: Bench, _: Any) -> Made:
    return undone(bench, ok(cu.cuStreamCreate(NON_BLOCKING)), cu.cuStreamDestroy)


@call
def stream_sync_of_an_idle_stream(bench: Bench, _: Any) -> Made:
    stream = bench.stream()
    return lambda: code(cu.cuStreamSynchronize(stream))


@call
def stream_query_of_an_idle_stream(bench: Bench, _: Any) -> Made:
    stream = bench.stream()
    return lambda: code(cu.cuStreamQuery(stream))


@call
def event_create(bench: Bench, _: Any) -> Made:
    return lambda: made(bench, cu.cuEventCreate(2), cu.cuEventDestroy)


@call
def event_destroy(bench: Bench, _: Any) -> Made:
    return undone(bench, ok(cu.cuEventCreate(2)), cu.cuEventDestroy)


@call
def event_query(bench: Bench, _: Any) -> Made:
    event = bench.recorded_event()
    return lambda: code(cu.cuEventQuery(event))


@call
def event_sync(bench: Bench, _: Any) -> Made:
    event = bench.recorded_event()
    return lambda: code(cu.cuEventSynchronize(event))


@call
def event_query_never_recorded(bench: Bench, _: Any) -> Made:
    event = bench.event()
    return lambda: code(cu.cuEventQuery(event))


@call
def event_sync_never_recorded(bench: Bench, _: Any) -> Made:
    event = bench.event()
    return lambda: code(cu.cuEventSynchronize(event))


@call
def stream_is_capturing(_bench: Bench, capturing: Any) -> Made:
    return lambda: code(cu.cuStreamIsCapturing(capturing))


@call
def stream_get_capture_info(_bench: Bench, capturing: Any) -> Made:
    return lambda: code(get_capture_info(capturing))


@call
def stream_get_id(_bench: Bench, capturing: Any) -> Made:
    return lambda: code(cu.cuStreamGetId(capturing))


@call
def stream_get_id_of_an_idle_stream(bench: Bench, _: Any) -> Made:
    stream = bench.stream()
    return lambda: code(cu.cuStreamGetId(stream))


@call
def stream_get_flags(_bench: Bench, capturing: Any) -> Made:
    return lambda: code(cu.cuStreamGetFlags(capturing))


@call
def stream_get_priority(_bench: Bench, capturing: Any) -> Made:
    return lambda: code(cu.cuStreamGetPriority(capturing))


@call
def stream_get_device(_bench: Bench, capturing: Any) -> Made:
    return lambda: code(cu.cuStreamGetDevice(capturing))


@call
def stream_get_context(_bench: Bench, capturing: Any) -> Made:
    return lambda: code(cu.cuStreamGetCtx(capturing))


@call
def stream_get_attribute(_bench: Bench, capturing: Any) -> Made:
    priority = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PRIORITY
    return lambda: code(cu.cuStreamGetAttribute(capturing, priority))


# -- context and modules -------------------------------------------------------------------------------------------


@call
def context_sync(_bench: Bench, _: Any) -> Made:
    return lambda: code(cu.cuCtxSynchronize())


@call
def context_set_current(bench: Bench, _: Any) -> Made:
    return lambda: code(cu.cuCtxSetCurrent(bench.context))


@call
def context_set_limit(_bench: Bench, _: Any) -> Made:
    limit = cu.CUlimit.CU_LIMIT_PRINTF_FIFO_SIZE
    size = ok(cu.cuCtxGetLimit(limit))
    return lambda: code(cu.cuCtxSetLimit(limit, size))


@call
def module_load(bench: Bench, _: Any) -> Made:
    image = module_image()
    return lambda: made(bench, cu.cuModuleLoadData(image), cu.cuModuleUnload)


@call
def module_unload(bench: Bench, _: Any) -> Made:
    return undone(bench, ok(cu.cuModuleLoadData(module_image())), cu.cuModuleUnload)


# -- graphs --------------------------------------------------------------------------------------------------------


@call
def graph_create(bench: Bench, _: Any) -> Made:
    return lambda: made(bench, cu.cuGraphCreate(0), cu.cuGraphDestroy)


@call
def graph_destroy(bench: Bench, _: Any) -> Made:
    graph = ok(cu.cuGraphCreate(0))
    bench.add_memset(graph)
    return undone(bench, graph, cu.cuGraphDestroy)


@call
def graph_clone(bench: Bench, _: Any) -> Made:
    graph = bench.graph()
    bench.add_memset(graph)
    return lambda: made(bench, cu.cuGraphClone(graph), cu.cuGraphDestroy)


@call
def graph_instantiate(bench: Bench, _: Any) -> Made:
    graph = bench.graph()
    bench.add_memset(graph)
    return lambda: made(bench, cu.cuGraphInstantiate(graph, 0), cu.cuGraphExecDestroy)


@call
def graph_exec_update(bench: Bench, _: Any) -> Made:
    graph = bench.graph()
    bench.add_memset(graph)
    executable = bench.instantiate(graph)
    return lambda: code(cu.cuGraphExecUpdate(executable, graph))


@call
def graph_upload_to_an_idle_stream(bench: Bench, _: Any) -> Made:
    graph, stream = bench.graph(), bench.stream()
    bench.add_memset(graph)
    executable = bench.instantiate(graph)
    return lambda: code(cu.cuGraphUpload(executable, stream))


@call
def graph_launch_on_an_idle_stream(bench: Bench, _: Any) -> Made:
    graph, stream = bench.graph(), bench.stream()
    bench.add_memset(graph)
    executable = bench.instantiate(graph)
    return lambda: code(cu.cuGraphLaunch(executable, stream))


@call
def graph_exec_destroy(bench: Bench, _: Any) -> Made:
    graph = bench.graph()
    bench.add_memset(graph)
    return undone(bench, ok(cu.cuGraphInstantiate(graph, 0)), cu.cuGraphExecDestroy)
