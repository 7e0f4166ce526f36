"""The private memory-pool manager: arithmetic over a segment source that it is given. See ``docs/memory.md``.

Reading order: ``source`` (what a device must offer) -> ``blocks`` -> ``pool`` -> ``allocator`` -> the rest.
"""

from graphcap.memory.ids import new_graph_pool_id, new_user_pool_id, validate_pool_id
from graphcap.memory.source import MemoryAccess, SegmentSource

__all__ = [
    "MemoryAccess",
    "SegmentSource",
    "new_graph_pool_id",
    "new_user_pool_id",
    "validate_pool_id",
]
