"""Debug mode: both places of a wrong free, poison, red zones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphcap.errors import PoolStateError
from graphcap.memory import Block, CachingAllocator, new_graph_pool_id
from tests.memory.inspect_allocator import check_figures, check_structure
from tests.memory.strict_source import StrictMemory, StrictSource

MIB = 1 << 20


def here() -> int:
    """The line number of the caller."""
    import sys

    return sys._getframe(1).f_lineno


@pytest.fixture
def source() -> StrictMemory:
    return StrictMemory()


@pytest.fixture
def a(source: StrictMemory) -> CachingAllocator:
    return CachingAllocator(source, debug=True)


def test_a_double_free_names_all_places(a: CachingAllocator) -> None:
    block, allocated = a.allocate(1000, 0), here()
    first = here() + 1
    a.free(block)
    again = a.allocate(1000, 0)
    assert again.ptr == block.ptr, "the memory is handed out again, and still the stale object is recognised"
    second = here() + 2
    with pytest.raises(PoolStateError) as caught:
        a.free(block)
    text = str(caught.value)
    assert "(1000 bytes)" in text
    assert "freed already" in text
    for line in (allocated, first, second):
        assert f"test_debug_mode.py:{line} in test_a_double_free_names_all_places" in text
    a.free(again)


def test_a_foreign_free_names_the_other_allocator_and_both_places(a: CachingAllocator) -> None:
    other = CachingAllocator(StrictMemory("fake:1"), debug=True)
    block, allocated = other.allocate(64, 0), here()
    second = here() + 2
    with pytest.raises(PoolStateError) as caught:
        a.free(block)
    text = str(caught.value)
    assert "another allocator (fake:1)" in text
    assert f":{allocated} in" in text
    assert f":{second} in" in text
    other.free(block)


def test_without_debug_mode_they_are_told_too_as_far_as_known() -> None:
    a, other = CachingAllocator(StrictSource()), CachingAllocator(StrictSource("fake:1"))
    block = a.allocate(64, 0)
    with pytest.raises(PoolStateError, match=r"another allocator \(fake:0\).*Debug mode"):
        other.free(block)
    a.free(block)
    with pytest.raises(PoolStateError, match=r"freed already.*Debug mode"):
        a.free(block)
    a.empty_cache()
    with pytest.raises(PoolStateError, match="freed already"):
        a.free(block)
    with pytest.raises(TypeError, match="a Block that this allocator returned"):
        a.free(block.ptr)  # type: ignore[arg-type]  # what a user may do
    assert (a.stats()["blocks.current"], other.stats()["blocks.current"]) == (0, 0)


def test_freed_memory_is_poisoned(a: CachingAllocator, source: StrictMemory) -> None:
    block = a.allocate(1000, 0)
    source.write(block.ptr, b"\x01" * 1000)
    ptr = block.ptr
    a.free(block)
    assert source.read(ptr, 1000, 0) == b"\xdb" * 1000


def test_a_write_after_free_is_found_at_the_next_use(a: CachingAllocator, source: StrictMemory) -> None:
    block, allocated = a.allocate(1000, 0), here()
    ptr = block.ptr
    freed = here() + 1
    a.free(block)
    source.write(ptr + 77, b"\x00")
    with pytest.raises(PoolStateError) as caught:
        a.allocate(1000, 0)
    assert f"0x{ptr + 77:x} was written to after the memory was freed: byte 77 of a block" in str(caught.value)
    assert f"allocated at {__file__}:{allocated} in" in str(caught.value)
    assert f"freed at {__file__}:{freed} in" in str(caught.value)
    check_structure(a, source)
    a.free(a.allocate(1000, 0))


@pytest.mark.parametrize("offset", [0, 1, 255])
def test_a_write_past_the_end_is_found_at_free(a: CachingAllocator, source: StrictMemory, offset: int) -> None:
    block = a.allocate(1000, 0)
    source.write(block.ptr + 1000 + offset, b"\x00")
    with pytest.raises(PoolStateError, match="past its end") as caught:
        a.free(block)
    assert f"0x{block.ptr + 1000 + offset:x}" in str(caught.value)
    assert a.stats()["blocks.current"] == 1
    a.free(block)  # told once; then the block can go


def test_a_write_in_front_is_found_at_free(a: CachingAllocator, source: StrictMemory) -> None:
    a.allocate(1000, 0)
    block = a.allocate(1000, 0)
    source.write(block.ptr - 1, b"\x00")
    with pytest.raises(PoolStateError, match="in front of its start"):
        a.free(block)


def test_the_request_itself_may_be_written(a: CachingAllocator, source: StrictMemory) -> None:
    for nbytes in (0, 1, 255, 256, 257, 512, 4096, MIB):
        block = a.allocate(nbytes, 0)
        source.write(block.ptr, b"\x00" * nbytes)
        a.free(block)


def test_memory_of_captures_is_left_alone(a: CachingAllocator, source: StrictMemory) -> None:
    """The strict source refuses fill and read in a capture; replays write to freed blocks of the pool afterwards."""
    pool = new_graph_pool_id()
    before = a.allocate(512, 1)
    a.begin_allocate_to_pool(pool, lambda stream: stream == 7)
    a.capture_began()
    source.open_captures = 1
    temporary, kept = a.allocate(1000, 7), a.allocate(1000, 7)
    a.free(temporary)
    a.free(before)
    source.open_captures = 0
    a.capture_ended()
    a.end_allocate_to_pool(pool)
    source.write(temporary.ptr, b"\x00" * 1256)  # a replay
    a.begin_allocate_to_pool(pool, lambda stream: stream == 7)
    assert a.allocate(1000, 7).ptr == temporary.ptr
    a.free(kept)
    assert source.read(kept.ptr, 4, 0) == b"\x00" * 4


def test_a_source_without_access_gets_the_rest() -> None:
    a = CachingAllocator(StrictSource(), debug=True)
    block = a.allocate(512, 0)
    assert block.size == 512, "no red zone without access"
    a.free(block)
    with pytest.raises(PoolStateError, match=r"freed already; allocated at .*freed at .*now at"):
        a.free(block)


@given(
    steps=st.lists(
        st.tuples(st.booleans(), st.integers(min_value=0, max_value=200_000), st.integers(min_value=0, max_value=2)),
        max_size=25,
    )
)
def test_correct_programs_are_never_blamed(steps: list[tuple[bool, int, int]]) -> None:
    source = StrictMemory()
    a = CachingAllocator(source, debug=True)
    live: list[Block] = []
    for allocate, number, stream in steps:
        if allocate or not live:
            block = a.allocate(number, stream)
            source.write(block.ptr, b"\x55" * min(number, 64))
            live.append(block)
        else:
            a.free(live.pop(number % len(live)))
        check_structure(a, source)
        check_figures(a, source)


def test_the_environment_turns_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a whole program, where nobody builds the allocator by hand."""
    for value, on in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv("GRAPHCAP_MEMORY_DEBUG", value)
        assert (CachingAllocator(StrictMemory())._guard is not None) is on
