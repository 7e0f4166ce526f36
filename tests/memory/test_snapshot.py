"""Statistics, snapshots, history, and the file for PyTorch's memory visualiser."""

from __future__ import annotations

import json
import pickle
import pickletools
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphcap.errors import OutOfMemoryError
from graphcap.memory import Block, CachingAllocator, MemPool, dump_visualizer_snapshot, use_mem_pool
from tests.memory.strict_source import StrictSource

MIB = 1 << 20
WHAT = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes", "segments", "blocks")
HOW = ("current", "peak", "allocated", "freed")
# The opcodes that the visualiser's own unpickler implements (torch/utils/viz/MemoryViz.js, function `unpickle`).
READABLE = {
    "APPENDS", "BINGET", "BININT", "BININT1", "BININT2", "EMPTY_DICT", "EMPTY_LIST", "FRAME", "LONG1", "LONG_BINGET",
    "MARK", "MEMOIZE", "PROTO", "SETITEMS", "SHORT_BINUNICODE", "STOP", "TUPLE2", "APPEND", "NEWFALSE", "BINPUT",
    "BINUNICODE", "EMPTY_TUPLE", "NEWTRUE", "NONE", "BINFLOAT", "TUPLE", "TUPLE1", "TUPLE3", "LONG_BINPUT", "LIST",
    "DICT", "SETITEM",
}  # fmt: skip


@pytest.fixture
def a() -> CachingAllocator:
    return CachingAllocator(StrictSource("fake:1", capacity=400 * MIB))


def test_the_keys_are_those_promised(a: CachingAllocator) -> None:
    stats = a.stats()
    expected = {f"{what}.{how}" for what in WHAT for how in HOW}
    assert expected == {key for key in stats if "." in key}
    assert stats["pools"].keys() == {(0, 0)}
    assert stats["pools"][(0, 0)].keys() == expected


def test_figures_by_hand(a: CachingAllocator) -> None:
    x = a.allocate(1000, 0)  # 1024 bytes of a 2 MiB segment
    y = a.allocate(3 * MIB, 0)  # of a 20 MiB segment
    a.free(x)
    a.allocate(100, 0)  # 512 bytes
    a.free(y)
    stats = a.stats()
    figure = {what: [stats[f"{what}.{how}"] for how in HOW] for what in WHAT}
    assert figure == {
        "allocated_bytes": [512, 3 * MIB + 1024, 3 * MIB + 1536, 3 * MIB + 1024],
        "requested_bytes": [100, 3 * MIB + 1000, 3 * MIB + 1100, 3 * MIB + 1000],
        "active_bytes": [512, 3 * MIB + 1024, 3 * MIB + 1536, 3 * MIB + 1024],
        "reserved_bytes": [22 * MIB, 22 * MIB, 22 * MIB, 0],
        "segments": [2, 2, 2, 0],
        "blocks": [1, 2, 3, 2],
    }
    a.empty_cache()
    a.reset_peak_stats()
    stats = a.stats()
    assert [stats[f"{what}.peak"] for what in WHAT] == [512, 2 * MIB, 512, 100, 1, 1]
    assert stats["pools"][(0, 0)]["blocks.peak"] == 1


def test_the_active_peak_counts_what_waits(a: CachingAllocator) -> None:
    x = a.allocate(1024, 0)
    a.record_stream(x, 1)
    a._store.source.submit(1)  # type: ignore[attr-defined]  # the strict source
    a.free(x)
    a.allocate(512, 0)
    stats = a.stats()
    assert (stats["allocated_bytes.peak"], stats["active_bytes.peak"]) == (1024, 1536)


def test_a_snapshot_is_json_and_says_what_is_where(a: CachingAllocator) -> None:
    pool = MemPool(a)
    with use_mem_pool(pool):
        x = a.allocate(1000, 3)
    y = a.allocate(512, 0)
    snapshot = json.loads(json.dumps(a.snapshot()))
    assert snapshot["device"] == "fake:1"
    by_pool = {tuple(s["pool_id"]): s for s in snapshot["segments"]}
    mine = by_pool[tuple(pool.id)]
    assert (mine["stream"], mine["segment_type"], mine["total_size"]) == (3, "small", 2 * MIB)
    assert [(b["address"], b["size"], b["requested_size"], b["state"]) for b in mine["blocks"]] == [
        (x.ptr, 1024, 1000, "active_allocated"),
        (x.ptr + 1024, 2 * MIB - 1024, 0, "inactive"),
    ]
    assert (mine["allocated_size"], mine["active_size"], mine["requested_size"]) == (1024, 1024, 1000)
    assert by_pool[(0, 0)]["blocks"][0]["address"] == y.ptr
    assert {tuple(p["pool_id"]): p["use_count"] for p in snapshot["pools"]} == {(0, 0): 0, tuple(pool.id): 1}


def test_a_snapshot_of_one_pool(a: CachingAllocator) -> None:
    """S-C49: only that pool's segments; an unknown id gives none."""
    pool, empty = MemPool(a), MemPool(a)
    with use_mem_pool(pool):
        a.allocate(512, 0)
    a.allocate(512, 0)
    assert [s["pool_id"] for s in pool.snapshot()] == [list(pool.id)]
    assert empty.snapshot() == []


def test_free_neighbours_appear_merged(a: CachingAllocator) -> None:
    blocks = [a.allocate(512, 0) for _ in range(4)]
    for block in blocks[:3]:
        a.free(block)
    (segment,) = a.snapshot()["segments"]
    assert [(b["size"], b["state"]) for b in segment["blocks"]] == [
        (1536, "inactive"),
        (512, "active_allocated"),
        (2 * MIB - 2048, "inactive"),
    ]


def test_history_has_the_callers_file_and_line(a: CachingAllocator) -> None:
    a.record_history(depth=2)
    line = sys._getframe().f_lineno + 1
    block = a.allocate(1000, 3)
    a.free(block)
    events = a.snapshot()["history"]
    assert [e["action"] for e in events] == ["segment_alloc", "alloc", "free_requested", "free_completed"]
    for event, where in zip(events, [line, line, line + 1], strict=False):
        assert event["frames"][0] == {
            "filename": __file__,
            "line": where,
            "name": "test_history_has_the_callers_file_and_line",
        }
        assert len(event["frames"]) == 2
    assert [e["size"] for e in events] == [2 * MIB, 1000, 1000, 1000]
    a.record_history(False)
    assert a.snapshot()["history"] == []


def test_history_is_bounded_and_can_do_without_frames(a: CachingAllocator) -> None:
    a.record_history(max_entries=3, depth=0)
    for _ in range(10):
        a.free(a.allocate(512, 0))
    events = a.snapshot()["history"]
    assert len(events) == 3
    assert all(e["frames"] == [] for e in events)
    for entries, depth in ((0, 1), (1, -1)):
        with pytest.raises(ValueError, match="history of"):
            a.record_history(max_entries=entries, depth=depth)


def test_out_of_memory_is_in_the_history(a: CachingAllocator) -> None:
    a.record_history()
    with pytest.raises(OutOfMemoryError):
        a.allocate(500 * MIB, 0)
    event = a.visualizer_snapshot()["device_traces"][1][-2]
    assert (event["action"], event["size"], event["device_free"]) == ("oom", 500 * MIB, 400 * MIB)


def test_a_restore_is_in_the_history(a: CachingAllocator) -> None:
    a.record_history()
    pool = MemPool(a)
    with use_mem_pool(pool):
        old = a.allocate(512, 0)
        saved = a.checkpoint(pool.id)
        a.free(old)
        new = a.allocate(4096, 0)
        a.restore(saved)
    check_visualizer(a.visualizer_snapshot())
    actions = [(e["action"], e["size"]) for e in a.snapshot()["history"]][-3:]
    assert actions == [("free_requested", 4096), ("free_completed", 4096), ("alloc", 512)]
    a.free(new)


def check_visualizer(snapshot: dict[str, Any]) -> None:
    """Play the trace backwards over the segments, as the visualiser does to draw an earlier moment (MemoryViz.js,
    `simulate_memory`): every event must find what it undoes, and with a whole history nothing is left at the start."""
    device = len(snapshot["device_traces"]) - 1
    segments = {s["address"]: s["total_size"] for s in snapshot["segments"] if s["device"] == device}
    blocks = {}
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == address
            address += block["size"]
            assert block["frames"] is not None
            if block["state"] in ("active_allocated", "active_pending_free"):
                blocks[block["address"]] = block["requested_size"]
        assert address == segment["address"] + segment["total_size"]
    for event in reversed(snapshot["device_traces"][device]):
        assert {"action", "size", "stream", "time_us", "frames"} <= event.keys()
        action = event["action"]
        if action == "free_completed":
            assert event["addr"] not in blocks
            blocks[event["addr"]] = event["size"]
        elif action == "free_requested":
            assert event["addr"] in blocks
        elif action == "alloc":
            assert blocks.pop(event["addr"]) == event["size"]
        elif action == "segment_free":
            assert event["addr"] not in segments
            segments[event["addr"]] = event["size"]
        elif action == "segment_alloc":
            assert segments.pop(event["addr"]) == event["size"]
        else:
            assert action in ("oom", "snapshot")
    assert (segments, blocks) == ({}, {})


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["allocate", "allocate", "free", "record", "finish", "empty"]),
            st.integers(min_value=0, max_value=4 * MIB),
            st.integers(min_value=0, max_value=2),
        ),
        max_size=30,
    )
)
def test_the_visualizer_can_replay_any_history(steps: list[tuple[str, int, int]]) -> None:
    source = StrictSource("fake:0")
    a = CachingAllocator(source)
    a.record_history(depth=1)
    live: list[Block] = []
    for what, number, stream in steps:
        if what == "allocate":
            live.append(a.allocate(number, stream))
        elif what == "free" and live:
            a.free(live.pop(number % len(live)))
        elif what == "record" and live:
            a.record_stream(live[number % len(live)], stream)
            source.submit(stream)
        elif what == "finish":
            source.finish(stream)
        elif what == "empty":
            a.empty_cache()
    check_visualizer(a.visualizer_snapshot())


def test_the_file_uses_only_what_the_visualizers_reader_knows(a: CachingAllocator, tmp_path: Path) -> None:
    a.record_history()
    pool = MemPool(a)
    with use_mem_pool(pool):
        kept = [a.allocate(512 * i, 2**63 + i % 2) for i in range(300)]  # streams are handles: large integers
    for block in kept[::2]:
        a.free(block)
    path = tmp_path / "snapshot.pickle"
    dump_visualizer_snapshot(a, path)
    data = path.read_bytes()
    opcodes = {opcode.name for opcode, _, _ in pickletools.genops(data)}
    assert opcodes <= READABLE
    loaded = pickle.loads(data)
    assert loaded.keys() >= {"segments", "device_traces", "allocator_settings"}
    assert len(loaded["device_traces"]) == 2, "device 1 is the second"
    assert {s["device"] for s in loaded["segments"]} == {1}
    assert {s["segment_pool_id"] for s in loaded["segments"]} == {tuple(pool.id)}
    check_visualizer(loaded)


def test_a_file_that_cannot_be_written_leaves_the_old_one(a: CachingAllocator, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        dump_visualizer_snapshot(a, tmp_path / "nowhere" / "x.pickle")
    assert list(tmp_path.iterdir()) == []


def test_the_cached_path_keeps_off_the_sorted_list(a: CachingAllocator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Allocate and free of sizes seen before touch no sorted list and ask the source for nothing."""
    sizes = [100, 1000, MIB, 3 * MIB, 19 * MIB + 512 * 1024]
    blocks = [a.allocate(size, 0) for size in sizes]
    for block in blocks:
        a.free(block)
    for lists in a._store.default.lists.values():
        for name in ("add", "remove", "irange", "discard", "pop"):
            monkeypatch.setattr(lists.tree, name, None)
    calls = a._store.source.calls.copy()  # type: ignore[attr-defined]  # the strict source
    for _ in range(3):
        blocks = [a.allocate(size, 0) for size in sizes]
        for block in reversed(blocks):
            a.free(block)
    assert a._store.source.calls == calls  # type: ignore[attr-defined]  # as above
