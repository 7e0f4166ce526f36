"""Rounding, classes, segment sizes, splitting: the figures of S-C12, S-C13, S-C14 and S-C17."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphcap.memory import AllocatorOptions, CachingAllocator
from graphcap.memory.sizes import may_split, round_size, segment_size
from tests.memory.strict_source import StrictSource

KIB, MIB = 1 << 10, 1 << 20
PLAIN = AllocatorOptions()


@pytest.mark.parametrize(
    ("nbytes", "rounded"),
    [(0, 512), (1, 512), (511, 512), (512, 512), (513, 1024), (1000, 1024), (MIB, MIB), (MIB + 1, MIB + 512)],
)
def test_sizes_round_to_512(nbytes: int, rounded: int) -> None:
    assert round_size(nbytes, PLAIN) == rounded
    assert CachingAllocator(StrictSource()).allocate(nbytes, 0).size == rounded


@pytest.mark.parametrize(
    ("rounded", "segment"),
    [
        (512, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 512, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 512, 12 * MIB),
        (12 * MIB, 12 * MIB),
        (19 * MIB + 512, 20 * MIB),
        (1024 * MIB, 1024 * MIB),
    ],
)
def test_new_segments_have_the_sizes_of_c14(rounded: int, segment: int) -> None:
    source = StrictSource()
    assert segment_size(rounded, PLAIN) == segment
    CachingAllocator(source).allocate(rounded, 0)
    assert list(source.segments.values()) == [segment]


@pytest.mark.parametrize(
    ("rounded", "remainder", "split"),
    [
        (512, 512, True),
        (MIB, 0, False),
        (MIB, 512, True),
        (MIB + 512, MIB, False),
        (MIB + 512, MIB + 512, True),
        (19 * MIB, MIB, False),
    ],
)
def test_blocks_split_as_c17_says(rounded: int, remainder: int, split: bool) -> None:
    assert may_split(rounded, remainder, PLAIN) is split


def test_a_large_block_keeps_a_rest_of_one_mib_and_gives_up_a_larger_one() -> None:
    a = CachingAllocator(StrictSource())
    kept = a.allocate(9 * MIB, 0)
    assert kept.size == 9 * MIB
    rest = a.allocate(10 * MIB + 512, 0)  # 11 MiB are left of the 20 MiB segment; (1 MiB - 512) of rest stays with it
    assert rest.ptr == kept.ptr + 9 * MIB
    assert rest.size == 11 * MIB


def test_a_block_of_max_split_size_is_not_given_to_a_smaller_request_nor_split() -> None:
    source = StrictSource()
    a = CachingAllocator(source, options=AllocatorOptions(max_split_size=32 * MIB))
    a.free(a.allocate(64 * MIB, 0))
    assert a.allocate(16 * MIB, 0).size == 16 * MIB
    assert sorted(source.segments.values()) == [16 * MIB, 64 * MIB]
    assert a.allocate(40 * MIB, 0).size == 40 * MIB  # 24 MiB less: too much to waste (S-C16)
    near = a.allocate(45 * MIB + 512, 0)  # less than 20 MiB smaller: takes it whole
    assert near.size == 64 * MIB
    assert len(source.segments) == 3


@given(nbytes=st.integers(min_value=0, max_value=1 << 40), exponent=st.integers(min_value=0, max_value=5))
def test_rounding_never_loses_a_byte_and_wastes_at_most_one_step(nbytes: int, exponent: int) -> None:
    divisions = 1 << exponent
    rounded = round_size(nbytes, AllocatorOptions(roundup_power2_divisions=divisions))
    assert rounded >= max(nbytes, 512)
    assert rounded % 512 == 0
    if divisions == 1 or nbytes <= 512 * divisions:
        assert rounded - nbytes < 512 or nbytes < 512
        return
    power = 1
    while power * 2 <= nbytes:
        power *= 2
    assert rounded - nbytes < power // divisions
    assert (rounded - power) % (power // divisions) == 0


def test_power_of_two_divisions_give_the_documented_steps() -> None:
    options = AllocatorOptions(roundup_power2_divisions=4)
    assert round_size(1200 * KIB, options) == 1280 * KIB  # PyTorch's example: 1200 between 1024 and 2048 in 4 steps


@pytest.mark.parametrize(
    "bad",
    [
        {"roundup_power2_divisions": 3},
        {"roundup_power2_divisions": 0},
        {"max_split_size": 1 * MIB},
        {"max_non_split_rounding": -1},
        {"large_segment_size": 9 * MIB},
        {"large_segment_size": 21 * MIB},
    ],
)
def test_senseless_options_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        AllocatorOptions(**bad)


@pytest.mark.parametrize("bad", [-1, -512])
def test_negative_sizes_are_refused(bad: int) -> None:
    with pytest.raises(ValueError, match="zero or more"):
        CachingAllocator(StrictSource()).allocate(bad, 0)


@pytest.mark.parametrize("bad", [1.5, "12", None])
def test_sizes_that_are_no_integers_are_refused(bad: object) -> None:
    with pytest.raises(TypeError, match="integer"):
        CachingAllocator(StrictSource()).allocate(bad, 0)  # type: ignore[arg-type]  # what a user may do


def test_integers_of_numpy_are_taken_and_become_plain() -> None:
    numpy = pytest.importorskip("numpy")
    assert type(CachingAllocator(StrictSource()).allocate(numpy.int64(1000), 0).requested) is int
