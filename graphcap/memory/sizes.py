"""Sizes: how a request is rounded, which size class it falls in, how large a new segment is (S-C12 to S-C17)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = [
    "LARGE_SEGMENT",
    "MIN_ROUNDED_SEGMENT",
    "QUANTUM",
    "SEGMENT_MULTIPLE",
    "SMALL_LIMIT",
    "SMALL_SEGMENT",
    "AllocatorOptions",
    "may_split",
    "round_size",
    "segment_size",
]

QUANTUM: Final = 512
"""Every block's size is a multiple of this many bytes (S-C12)."""
SMALL_LIMIT: Final = 1 << 20
"""Rounded sizes up to here are served from small segments (S-C13)."""
SMALL_SEGMENT: Final = 2 << 20
"""Size of a small segment (S-C14)."""
LARGE_SEGMENT: Final = 20 << 20
"""Size of a segment for requests above :data:`SMALL_LIMIT` and below :data:`MIN_ROUNDED_SEGMENT` (S-C14)."""
MIN_ROUNDED_SEGMENT: Final = 10 << 20
"""Requests from here on get a segment of their own size, rounded up to :data:`SEGMENT_MULTIPLE` (S-C14)."""
SEGMENT_MULTIPLE: Final = 2 << 20


@dataclass(frozen=True, kw_only=True)
class AllocatorOptions:
    """Knobs of one allocator, with PyTorch's meanings and defaults.

    Attributes
    ----------
    roundup_power2_divisions
        With ``d > 1``, sizes above ``512 * d`` round up to the next of ``d`` equal steps between powers of two
        (S-C12): fewer distinct sizes, more reuse, more waste.
    max_split_size
        Bytes. Blocks of at least this size are *oversize*: never split, and never given to a smaller request
        (S-C16). ``None``: no such limit.
    max_non_split_rounding
        Bytes by which an oversize block may exceed an oversize request that takes it (S-C16).
    large_segment_size
        Bytes; replaces :data:`LARGE_SEGMENT`.

    Raises
    ------
    ValueError
        A value that makes no sense: divisions not a power of two, a split size not above :data:`LARGE_SEGMENT`, a
        segment size that is not a multiple of 2 MiB or is below 10 MiB.
    """

    roundup_power2_divisions: int = 1
    max_split_size: int | None = None
    max_non_split_rounding: int = LARGE_SEGMENT
    large_segment_size: int = LARGE_SEGMENT

    def __post_init__(self) -> None:
        d = self.roundup_power2_divisions
        if d < 1 or d & (d - 1):
            raise ValueError(f"roundup_power2_divisions={d}: use a power of two, or 1 for none.")
        if self.max_split_size is not None and self.max_split_size < self.large_segment_size:
            raise ValueError(
                f"max_split_size={self.max_split_size}: use at least large_segment_size ({self.large_segment_size} bytes)."
            )
        if self.max_non_split_rounding < 0:
            raise ValueError(f"max_non_split_rounding={self.max_non_split_rounding}: use zero or more bytes.")
        if self.large_segment_size < MIN_ROUNDED_SEGMENT or self.large_segment_size % SEGMENT_MULTIPLE:
            raise ValueError(
                f"large_segment_size={self.large_segment_size}: use a multiple of 2 MiB that is at least 10 MiB."
            )


def round_size(nbytes: int, options: AllocatorOptions) -> int:
    """Return `nbytes` (zero or more) rounded up to the size of the block that serves it; at least 512 (S-C12)."""
    divisions = options.roundup_power2_divisions
    if divisions > 1 and nbytes > QUANTUM * divisions:
        floor = 1 << (nbytes.bit_length() - 1)
        step = floor // divisions
        return -(-nbytes // step) * step
    return max(QUANTUM, -(-nbytes // QUANTUM) * QUANTUM)


def segment_size(rounded: int, options: AllocatorOptions) -> int:
    """Return the size of the segment to ask for when no free block serves `rounded` bytes (S-C14)."""
    if rounded <= SMALL_LIMIT:
        return SMALL_SEGMENT
    if rounded < MIN_ROUNDED_SEGMENT:
        return options.large_segment_size
    return -(-rounded // SEGMENT_MULTIPLE) * SEGMENT_MULTIPLE


def may_split(rounded: int, remainder: int, options: AllocatorOptions) -> bool:
    """Say whether a block is split when `remainder` bytes of it would be left over (S-C17)."""
    if rounded <= SMALL_LIMIT:
        return remainder >= QUANTUM
    return remainder > SMALL_LIMIT and (options.max_split_size is None or rounded < options.max_split_size)
