"""graphcap: capture work on a device stream into a graph and replay it, through one backend-neutral contract.

Reading order for a newcomer: ``interface`` (the contract) -> ``_graph`` (the user's object) -> ``backends/base`` (what a
backend offers) -> ``backends/cpu`` (the smallest backend, and the executable description of the rules).

Importing this package loads no device library and takes no device context.
"""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from graphcap import interop as interop
from graphcap._callables import GraphedCallable, make_graphed_callable
from graphcap._capture import capture
from graphcap._device import current_stream, synchronize
from graphcap._graph import Graph
from graphcap._memory_api import (
    MemPool,
    allocate,
    array_namespace,
    empty_cache,
    graph_pool_handle,
    memory_snapshot,
    memory_stats,
    set_memory_limit,
    use_mem_pool,
)
from graphcap._pool_order import PoolConflict, PoolOrder, check_pool_order
from graphcap._segments import Segment, SegmentedGraph
from graphcap.backends.base import BackendStatus, Capabilities
from graphcap.backends.buffer import Buffer
from graphcap.backends.parameters import Parameter, parameter
from graphcap.backends.streams import Event, Stream
from graphcap.errors import *  # noqa: F403  # the error tree is public, and errors.__all__ lists it
from graphcap.errors import __all__ as _error_names
from graphcap.interface import (
    CaptureStatus,
    DeviceType,
    GraphCaptureMode,
    GraphImplArgs,
    GraphImplInterface,
    MempoolId,
    MempoolId_t,
    device_type_name,
)
from graphcap.registry import (
    available_backends,
    backend_status,
    create_graph_impl,
    has_graph_impl,
    known_backends,
    register_graph_impl,
    unregister_graph_impl,
)

if TYPE_CHECKING:
    from graphcap import dot, inspection, topology
    from graphcap import testing as testing

__version__ = "0.1.0"

_ON_FIRST_USE = ("dot", "inspection", "testing", "topology")


def __getattr__(name: str) -> ModuleType:
    """Sub-packages that most programs do not need are imported when they are first named."""
    if name in _ON_FIRST_USE:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_FIRST_USE})


__all__ = [
    "BackendStatus",
    "Buffer",
    "Capabilities",
    "CaptureStatus",
    "DeviceType",
    "Event",
    "Graph",
    "GraphCaptureMode",
    "GraphImplArgs",
    "GraphImplInterface",
    "GraphedCallable",
    "MemPool",
    "MempoolId",
    "MempoolId_t",
    "Parameter",
    "PoolConflict",
    "PoolOrder",
    "Segment",
    "SegmentedGraph",
    "Stream",
    "allocate",
    "array_namespace",
    "available_backends",
    "backend_status",
    "capture",
    "check_pool_order",
    "create_graph_impl",
    "current_stream",
    "device_type_name",
    "dot",
    "empty_cache",
    "graph_pool_handle",
    "has_graph_impl",
    "inspection",
    "known_backends",
    "make_graphed_callable",
    "memory_snapshot",
    "memory_stats",
    "parameter",
    "register_graph_impl",
    "set_memory_limit",
    "synchronize",
    "topology",
    "unregister_graph_impl",
    "use_mem_pool",
]
__all__ += [name for name in _error_names if name != "add_note"]
