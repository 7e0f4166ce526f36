"""Sizes at which the native replay changes its ways. Measured on two x86-64 cores (``benchmarks/cpu_programs.py``).

Read at every plan, so that tests can send small arrays down the paths of large ones.
"""

from __future__ import annotations

__all__ = ["QUANTUM", "SERIAL_BYTES", "SIDE_BY_SIDE_BYTES", "SKEW", "STRIP_BYTES"]

SERIAL_BYTES = 16_384
"""Work whose largest result is at most this large is walked call after call: it is in cache anyway."""
STRIP_BYTES = 65_536
"""All operands of one strip together should stay within the cache next to the core."""
QUANTUM = 64
"""Strips are multiples of this many elements, so that vector loops meet the same elements as in one long call."""
SKEW = 32
"""Elements between intermediates, so that a load does not wait for a store to another one at the same offset in its page."""
SIDE_BY_SIDE_BYTES = 262_144
"""Runs that write at least this much memory may share the threads with their independent neighbours."""
