"""Rules 14, 17 and 18: sizes and reuse of blocks, running out of memory, frees from anywhere; the statistics."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.testing.case import NBYTES, ConformanceCase, N, allocated, in_thread, reserved, vector
from graphcap.testing.fixtures import BackendFixtures

__all__ = ["Allocation"]

MIB = 1 << 20

# bytes asked for -> (bytes handed out, bytes of the segment that a first request takes from the driver)
_FIGURES = [
    (1, 512, 2 * MIB),
    (512, 512, 2 * MIB),
    (513, 1024, 2 * MIB),
    (MIB, MIB, 2 * MIB),
    (MIB + 1, MIB + 512, 20 * MIB),
    (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
    (10 * MIB, 10 * MIB, 10 * MIB),
    (11 * MIB - 5, 12 * MIB, 12 * MIB),  # a rest of 1 MiB or less is not split off (S-C17)
]


class Allocation(ConformanceCase):
    """The memory manager as a user of the device sees it."""

    # -- rule 14 -------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(("asked", "handed_out", "segment"), _FIGURES)
    def test_figures(self, fx: BackendFixtures, asked: int, handed_out: int, segment: int) -> None:
        """Rule 14, S-C12 to S-C14: rounding to 512; segments of 2 MiB, 20 MiB and multiples of 2 MiB."""
        graph = graphcap.Graph(fx.device)
        with fx.make_stream() as stream, graph:
            buffer = fx.allocate(asked)
            stream.fill(buffer, 0)
        assert buffer.nbytes == asked
        stats = graphcap.memory_stats(fx.device)["pools"][graph.pool()]
        assert stats["requested_bytes.current"] == asked
        assert stats["allocated_bytes.current"] == handed_out
        assert stats["reserved_bytes.current"] == segment

    def test_blocks_do_not_overlap(self, fx: BackendFixtures) -> None:
        """Rule 14: each buffer keeps its own contents, and starts at a multiple of 512 bytes."""
        stream = fx.make_stream()
        sizes = [4, 512, 516, 2048, 100, MIB, 3 * MIB]
        buffers = [stream.allocate(size) for size in sizes]
        for number, buffer in enumerate(buffers):
            stream.fill(buffer, number + 1)
        for number, buffer in enumerate(buffers):
            assert buffer.ptr % 512 == 0
            assert (fx.download(buffer, np.uint8) == number + 1).all()

    def test_freed_memory_is_reused_on_its_stream(self, fx: BackendFixtures) -> None:
        """S-C25: a block is free for its own stream at once, in and out of captures."""
        x = fx.upload(vector(1))
        stream = fx.make_stream()
        first = stream.allocate(NBYTES)
        address = first.ptr
        del first
        assert stream.allocate(NBYTES).ptr == address
        with stream, graphcap.Graph(fx.device):
            inside = stream.allocate(NBYTES)
            address = inside.ptr
            del inside
            assert stream.allocate(NBYTES).ptr == address
            stream.fill(x, 0)

    def test_freed_memory_is_not_given_to_another_stream(self, fx: BackendFixtures) -> None:
        """S-C15: free blocks are kept by stream."""
        one, two = fx.make_stream(), fx.make_stream()
        first = one.allocate(NBYTES)
        address = first.ptr
        del first
        taken = [two.allocate(NBYTES) for _ in range(16)]
        assert all(buffer.ptr != address for buffer in taken)

    def test_block_used_by_another_stream_in_a_capture(self, fx: BackendFixtures) -> None:
        """S-C27, S-C29: a block with a use on another stream is not handed out again while the capture is open."""
        x = fx.upload(vector(1))
        origin, fork = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with origin, graph:
            shared = origin.allocate(NBYTES)
            fork.wait(origin.record())
            shared.record_stream(fork)
            address = shared.ptr
            del shared
            taken = [origin.allocate(NBYTES) for _ in range(8)]
            fork.fill(x, 0)
            origin.wait(fork.record())
        assert all(buffer.ptr != address for buffer in taken)
        pool = graph.pool()
        taken.clear()
        graph.reset()
        graphcap.synchronize(fx.device)
        graphcap.empty_cache(fx.device)
        assert reserved(fx.device, pool) == 0, "the deferred free was never settled"

    def test_many_temporaries_need_little_memory(self, fx: BackendFixtures) -> None:
        """S-C25: a thousand buffers, one after the other, in one capture, fit in one segment."""
        x = fx.upload(vector(1))
        graph = graphcap.Graph(fx.device)
        with fx.make_stream() as stream, graph:
            for _ in range(1000):
                pool = stream.allocate(64 << 10).pool_id
            assert reserved(fx.device, pool) == 2 * MIB
            stream.fill(x, 0)
        assert graph.pool() == pool

    @pytest.mark.parametrize("nbytes", [-1, -512])
    def test_negative_size(self, fx: BackendFixtures, nbytes: int) -> None:
        """graphcap.allocate: a negative size is a ValueError."""
        with pytest.raises(ValueError):
            fx.allocate(nbytes)
        with pytest.raises(ValueError):
            fx.make_stream().allocate(nbytes)

    def test_empty_buffer(self, fx: BackendFixtures) -> None:
        """Buffer: no bytes, no address, and no memory."""
        before = allocated(fx.device)
        buffer = fx.allocate(0)
        assert (buffer.nbytes, buffer.ptr, len(buffer)) == (0, 0, 0)
        assert allocated(fx.device) == before

    # -- rule 17 -------------------------------------------------------------------------------------------------

    @pytest.fixture
    def limit(self, fx: BackendFixtures) -> Iterator[int]:
        """A limit 4 MiB above what is reserved, taken away afterwards."""
        graphcap.empty_cache(fx.device)
        limit = reserved(fx.device) + 4 * MIB
        graphcap.set_memory_limit(limit, fx.device)
        yield limit
        graphcap.set_memory_limit(None, fx.device)

    def test_out_of_memory(self, fx: BackendFixtures, limit: int) -> None:
        """Rule 17: bytes requested, reserved, allocated, limit, a line for each pool; small requests work after it."""
        graph = graphcap.Graph(fx.device)
        with fx.make_stream() as stream, graph:
            kept = fx.allocate(NBYTES)
            stream.fill(kept, 0)
        with pytest.raises(graphcap.OutOfMemoryError) as caught:
            fx.allocate(64 * MIB)
        error = caught.value
        assert isinstance(error, MemoryError)
        assert (error.requested, error.limit) == (64 * MIB, limit)
        assert error.reserved == reserved(fx.device)
        assert error.allocated == allocated(fx.device)
        assert str(tuple(graph.pool())) in str(error)
        assert "default" in str(error)
        assert error.cure
        assert fx.allocate(NBYTES).ptr

    def test_out_of_memory_in_a_capture(self, fx: BackendFixtures, limit: int) -> None:
        """Rule 17, S-C24: the capture is not broken by it; what was recorded replays."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        graph = graphcap.Graph(fx.device)
        with fx.make_stream() as stream, graph:
            with pytest.raises(graphcap.OutOfMemoryError):
                fx.allocate(64 * MIB)
            assert stream.is_capturing
            fx.launch_axpy(stream, out, 2, x, y)
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    def test_out_of_memory_ends_the_body(self, fx: BackendFixtures, limit: int) -> None:
        """Rules 5 and 17: if it leaves the body, it passes unchanged and the graph can capture again."""
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with pytest.raises(graphcap.OutOfMemoryError), stream, graph:
            fx.allocate(64 * MIB)
        self.assert_can_capture(fx, stream, graph)

    def test_cached_memory_makes_room(self, fx: BackendFixtures, limit: int) -> None:
        """Rule 15: what is cached goes back when memory runs short."""
        # Each on a stream of its own, so that no cached block fits; all live, since a driver may give a handle out again.
        streams = [fx.make_stream() for _ in range(6)]
        for turn in range(3):
            held = [stream.allocate(NBYTES) for stream in streams[2 * turn : 2 * turn + 2]]
            assert reserved(fx.device) == limit
            held.clear()

    # -- rule 18 -------------------------------------------------------------------------------------------------

    def test_free_on_another_thread(self, fx: BackendFixtures) -> None:
        """Rule 18: the last reference may die on any thread, also while this one captures."""
        before = allocated(fx.device)
        stream = fx.make_stream()
        held = [[stream.allocate(NBYTES) for _ in range(50)] for _ in range(2)]
        in_thread(held.pop)
        x = fx.upload(vector(1))
        graph = graphcap.Graph(fx.device)
        with fx.make_stream() as capturing, graph:
            capturing.fill(x, 0)
            in_thread(held.pop)
        del x
        graph.reset()
        graphcap.synchronize(fx.device)
        assert allocated(fx.device) == before

    def test_free_inside_a_collection_inside_allocate(self, fx: BackendFixtures) -> None:
        """Rule 18: the collector may run inside ``allocate`` and free buffers there."""
        before = allocated(fx.device)
        stream = fx.make_stream()
        thresholds = gc.get_threshold()
        gc.set_threshold(1, 1, 1)
        try:
            for _ in range(300):
                cycle: list[Any] = [stream.allocate(NBYTES)]
                cycle.append(cycle)
        finally:
            gc.set_threshold(*thresholds)
        del cycle
        gc.collect()
        assert allocated(fx.device) == before

    def test_threads_allocate_while_another_captures(self, fx: BackendFixtures) -> None:
        """Rule 18, S-B13: four threads allocate and free; their buffers are whole and none is from the capture's pool."""
        x = fx.upload(vector(1))
        turns = threading.Barrier(5)
        failures: list[Any] = []

        def work(stream: graphcap.Stream, value: int) -> None:
            turns.wait()
            for turn in range(50):
                buffer = stream.allocate(512 * (1 + (turn + value) % 5))
                if buffer.pool_id != (0, 0):
                    failures.append(buffer.pool_id)
                stream.fill(buffer, value)

        streams = [fx.make_stream() for _ in range(4)]
        threads = [threading.Thread(target=work, args=(stream, i)) for i, stream in enumerate(streams)]
        for thread in threads:
            thread.start()
        graph = graphcap.Graph(fx.device)
        with fx.make_stream() as stream, graph:
            turns.wait()
            for _ in range(50):
                buffer = stream.allocate(NBYTES)
                if buffer.pool_id == (0, 0):
                    failures.append("a captured stream got memory from the default pool")
            stream.fill(x, 0)
            for thread in threads:
                thread.join()
        assert failures == []
        assert buffer.pool_id == graph.pool()
        del buffer
        graph.replay(stream)
        assert not fx.download(x).any()

    # -- looking at it -------------------------------------------------------------------------------------------

    def test_statistics_add_up(self, fx: BackendFixtures) -> None:
        """Design 3: allocated <= active <= reserved, current <= peak, and the pools add up to the whole."""
        graph = graphcap.Graph(fx.device)
        with fx.make_stream() as stream, graph:
            inside = fx.allocate(3 * MIB)
            stream.fill(inside, 0)
        outside = fx.allocate(NBYTES)
        stats = graphcap.memory_stats(fx.device)
        whats = ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes")
        for table in (stats, *stats["pools"].values()):
            current = [table[f"{what}.current"] for what in whats]
            assert current == sorted(current)
            for what in (*whats, "segments", "blocks"):
                assert 0 <= table[f"{what}.current"] <= table[f"{what}.peak"]
                assert table[f"{what}.current"] == table[f"{what}.allocated"] - table[f"{what}.freed"]
        for what in (*whats, "segments", "blocks"):
            parts = sum(table[f"{what}.current"] for table in stats["pools"].values())
            assert stats[f"{what}.current"] == parts
        assert outside.nbytes == NBYTES

    def test_snapshot(self, fx: BackendFixtures, tmp_path: Any) -> None:
        """Design 3: plain data, JSON-ready; the blocks of a segment tile it; a live buffer is found in its pool."""
        graph = graphcap.Graph(fx.device)
        with fx.make_stream() as stream, graph:
            buffer = fx.allocate(NBYTES)
            stream.fill(buffer, 0)
        path = tmp_path / "memory.json"
        snapshot = graphcap.memory_snapshot(fx.device, path=path)
        assert json.loads(path.read_text()) == json.loads(json.dumps(snapshot))
        owners = []
        for segment in snapshot["segments"]:
            assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
            owners += [segment["pool_id"] for block in segment["blocks"] if block["address"] == buffer.ptr]
        assert [tuple(owner) for owner in owners] == [graph.pool()]
        with pytest.raises(ValueError):
            graphcap.memory_snapshot(fx.device, layout="unknown")
