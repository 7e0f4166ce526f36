"""The private memory-pool manager: arithmetic over a segment source that it is given. See ``docs/memory.md``.

Reading order: ``source`` (what a device must offer) -> ``sizes`` -> ``blocks`` -> ``pool`` -> ``store`` ->
``allocator``; then ``stream_uses``, ``routing``, ``mem_pool``, ``checkpoint``, ``snapshot``, ``history``,
``debug``, ``report``.
"""

from graphcap.memory.allocator import CachingAllocator
from graphcap.memory.blocks import Block
from graphcap.memory.checkpoint import PoolCheckpoint, RestoreResult
from graphcap.memory.ids import new_graph_pool_id, new_user_pool_id, validate_pool_id
from graphcap.memory.mem_pool import MemPool, use_mem_pool
from graphcap.memory.sizes import AllocatorOptions
from graphcap.memory.snapshot import dump_visualizer_snapshot
from graphcap.memory.source import MemoryAccess, SegmentSource

__all__ = [
    "AllocatorOptions",
    "Block",
    "CachingAllocator",
    "MemPool",
    "MemoryAccess",
    "PoolCheckpoint",
    "RestoreResult",
    "SegmentSource",
    "dump_visualizer_snapshot",
    "new_graph_pool_id",
    "new_user_pool_id",
    "use_mem_pool",
    "validate_pool_id",
]
