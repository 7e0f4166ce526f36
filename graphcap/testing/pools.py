"""Rules 15 and 16: which pool memory comes from, how pools are shared, when they live and when they go."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.interface import CaptureStatus
from graphcap.testing.case import NBYTES, ConformanceCase, in_thread, reserved, vector
from graphcap.testing.fixtures import BackendFixtures

__all__ = ["Pools"]

MIB = 1 << 20


class Pools(ConformanceCase):
    """Private pools: routing, sharing, reuse, and their end."""

    @staticmethod
    def keep(fx: BackendFixtures, stream: graphcap.Stream | None = None, **options: Any) -> tuple[graphcap.Graph, Any]:
        """A captured graph, and a buffer that was allocated in its capture. Free blocks are reused by stream."""
        graph = graphcap.Graph(fx.device, **options)
        with stream or fx.make_stream() as stream, graph:
            buffer = fx.allocate(NBYTES)
            stream.fill(buffer, 0)
        return graph, buffer

    # -- where memory comes from ---------------------------------------------------------------------------------

    def test_capture_has_its_own_pool(self, fx: BackendFixtures) -> None:
        """Rule 15: ``(n, 0)``, new for each capture; buffers say which pool they came from."""
        first, one = self.keep(fx)
        second, two = self.keep(fx)
        assert first.pool() != second.pool()
        assert (one.pool_id, two.pool_id) == (first.pool(), second.pool())
        assert fx.allocate(NBYTES).pool_id == (0, 0)

    def test_outside_streams_use_the_default_pool(self, fx: BackendFixtures) -> None:
        """S-B13: during a capture, memory for a stream that takes no part comes from the default pool."""
        stream, outside = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            inside = stream.allocate(NBYTES)
            apart = outside.allocate(NBYTES)
            with outside:
                current = fx.allocate(NBYTES)
            stream.fill(inside, 0)
        assert inside.pool_id == graph.pool()
        assert apart.pool_id == current.pool_id == (0, 0)

    def test_forks_use_the_pool_of_the_capture(self, fx: BackendFixtures) -> None:
        """S-B13: … for a forked stream, and for any thread that works on a captured stream, from the graph's."""
        origin, fork = fx.make_stream(), fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with origin, graph:
            fork.wait(origin.record())
            forked = fork.allocate(NBYTES)
            fork.fill(forked, 0)
            threaded = in_thread(lambda: origin.allocate(NBYTES))
            origin.fill(threaded, 0)
            origin.wait(fork.record())
        assert forked.pool_id == threaded.pool_id == graph.pool()
        assert fork.allocate(NBYTES).pool_id == (0, 0)

    @pytest.mark.parametrize("kind", ["handle", "MemPool", "graph", "pair"])
    def test_pool_can_be_given(self, fx: BackendFixtures, kind: str) -> None:
        """Design 3: ``pool=`` takes an id, a MemPool, a captured Graph, or a plain pair."""
        keep: list[Any] = []
        pool: Any = graphcap.graph_pool_handle()
        expected = pool
        if kind == "MemPool":
            pool = graphcap.MemPool(fx.device)
            expected = pool.id
        elif kind == "graph":
            pool, buffer = self.keep(fx)
            keep.append(buffer)
            expected = pool.pool()
        elif kind == "pair":
            pool = tuple(pool)
        graph, buffer = self.keep(fx, pool=pool)
        assert graph.pool() == expected
        assert buffer.pool_id == expected

    def test_capture_function_takes_a_pool(self, fx: BackendFixtures) -> None:
        """Design 3: so does ``capture()``."""
        handle = graphcap.graph_pool_handle()
        with graphcap.capture(fx.device, pool=handle) as graph:
            buffer = fx.allocate(NBYTES)
            graphcap.current_stream(fx.device).fill(buffer, 0)
        assert graph.pool() == buffer.pool_id == handle

    # -- rule 16 -------------------------------------------------------------------------------------------------

    def test_one_open_capture_for_each_pool(self, fx: BackendFixtures) -> None:
        """Rule 16: a second capture into a pool that is open is refused; the first goes on; then the id is free."""
        handle = graphcap.graph_pool_handle()
        x = fx.upload(vector(1))
        one, two = fx.make_stream(), fx.make_stream()
        first, second = graphcap.Graph(fx.device, pool=handle), graphcap.Graph(fx.device, pool=handle)
        with one, first:
            with two, pytest.raises(graphcap.PoolStateError) as caught:
                second.capture_begin()
            assert str(tuple(handle)) in str(caught.value)
            assert two.capture_status is CaptureStatus.NONE
            one.fill(x, 0)
        with two, second:
            two.fill(x, 1)
        assert first.pool() == second.pool() == handle
        first.replay(one)
        assert not fx.download(x).any()

    def test_finished_graphs_share_a_pool(self, fx: BackendFixtures) -> None:
        """Rules 15 and 16: replayed in the order of capture, graphs of one pool compute right; one reset leaves the
        others whole."""
        handle = graphcap.graph_pool_handle()
        x = fx.upload(vector(1))
        stream = fx.make_stream()
        graphs = []
        for factor in (2, 3, 1):
            graph = graphcap.Graph(fx.device, pool=handle)
            with stream, graph:
                inner = fx.allocate(NBYTES)
                fx.launch_axpy(stream, inner, factor, x, x)
                stream.copy(x, inner)
                del inner
            graphs.append(graph)
        for graph in graphs:
            graph.replay(stream)
        np.testing.assert_array_equal(fx.download(x), 3 * 4 * 2 * vector(1))
        graphs.pop(0).reset()
        gc.collect()
        graphcap.empty_cache(fx.device)
        for graph in graphs:
            graph.replay(stream)
        np.testing.assert_array_equal(fx.download(x), 3 * 4 * 2 * 4 * 2 * vector(1))

    def test_sharing_saves_a_segment(self, fx: BackendFixtures) -> None:
        """S-E test_graph_two_successive: two small graphs that share a pool save exactly one segment of 2 MiB."""
        stream = fx.make_stream()

        def capture_two(pool: Any) -> int:
            graphcap.empty_cache(fx.device)
            before = reserved(fx.device)
            graphs = []
            for _ in range(2):
                graph = graphcap.Graph(fx.device, pool=pool)
                with stream, graph:
                    stream.fill(fx.allocate(NBYTES), 0)
                graphs.append(graph)
            return reserved(fx.device) - before

        apart, together = capture_two(None), capture_two(graphcap.graph_pool_handle())
        assert (apart, together) == (4 * MIB, 2 * MIB)

    def test_freed_memory_serves_the_next_graph_of_the_pool(self, fx: BackendFixtures) -> None:
        """Rules 14 and 16: what one capture freed, the next one on the same stream gets."""
        handle = graphcap.graph_pool_handle()
        x = fx.upload(vector(1))
        stream = fx.make_stream()
        addresses = []
        graphs = []
        for _ in range(2):
            graph = graphcap.Graph(fx.device, pool=handle)
            with stream, graph:
                buffer = stream.allocate(NBYTES)
                addresses.append(buffer.ptr)
                del buffer
                stream.fill(x, 0)
            graphs.append(graph)
        assert addresses[0] == addresses[1]

    # -- rule 15 -------------------------------------------------------------------------------------------------

    def test_pool_without_users_is_freeable(self, fx: BackendFixtures) -> None:
        """Rule 15: after the last user it keeps its segments until the next ``empty_cache``."""
        graph, buffer = self.keep(fx)
        pool = graph.pool()
        del buffer
        graphcap.empty_cache(fx.device)
        assert reserved(fx.device, pool) == 2 * MIB, "a pool in use was emptied"
        graph.reset()
        assert reserved(fx.device, pool) == 2 * MIB
        assert graphcap.empty_cache(fx.device) >= 2 * MIB
        assert reserved(fx.device, pool) == 0

    def test_block_holds_its_pool(self, fx: BackendFixtures) -> None:
        """Rule 15: so does a live block: its memory stays until it dies."""
        graph, buffer = self.keep(fx)
        pool = graph.pool()
        graph.reset()
        graphcap.empty_cache(fx.device)
        assert reserved(fx.device, pool) == 2 * MIB
        stream = fx.make_stream()
        stream.copy(buffer, vector(3))
        np.testing.assert_array_equal(fx.download(buffer), vector(3))
        del buffer
        graphcap.empty_cache(fx.device)
        assert reserved(fx.device, pool) == 0

    def test_user_id_is_good_for_ever(self, fx: BackendFixtures) -> None:
        """Rule 15: ``(0, n)`` revives a freeable pool, and makes a pool that is gone anew."""
        handle = graphcap.graph_pool_handle()
        stream = fx.make_stream()
        for emptied in (False, True, False):
            graph, buffer = self.keep(fx, stream, pool=handle)
            assert buffer.pool_id == handle
            assert reserved(fx.device, handle) == 2 * MIB
            del buffer
            graph.reset()
            if emptied:
                graphcap.empty_cache(fx.device)
                assert reserved(fx.device, handle) == 0

    def test_id_of_a_capture_that_is_gone(self, fx: BackendFixtures) -> None:
        """Rule 15: ``(n, 0)`` whose pool is gone is refused by name; nothing captures then."""
        graph, buffer = self.keep(fx)
        pool = graph.pool()
        del buffer
        graph.reset()
        graphcap.empty_cache(fx.device)
        stream = fx.make_stream()
        with pytest.raises(graphcap.PoolStateError) as caught, stream:
            graphcap.Graph(fx.device, pool=pool).capture_begin()
        assert str(tuple(pool)) in str(caught.value)
        assert caught.value.cure
        assert gc.isenabled()
        self.assert_can_capture(fx, stream, graph)

    def test_id_of_a_capture_that_lives(self, fx: BackendFixtures) -> None:
        """Rule 16: ``(n, 0)`` may be shared while a graph holds it; the pool outlives its first graph then."""
        stream = fx.make_stream()
        first, one = self.keep(fx, stream)
        second, two = self.keep(fx, stream, pool=first.pool())
        pool = first.pool()
        first.reset()
        del one
        graphcap.empty_cache(fx.device)
        assert reserved(fx.device, pool) == 2 * MIB
        assert second.pool() == pool
        second.replay()
        assert not fx.download(two, np.uint8).any()

    # -- MemPool and use_mem_pool --------------------------------------------------------------------------------

    def test_mem_pool_holds_its_memory(self, fx: BackendFixtures) -> None:
        """Rule 15, S-C44: a MemPool has an id ``(0, n)`` and keeps its segments as long as it lives."""
        pool = graphcap.MemPool(fx.device)
        identity = pool.id
        assert identity.first == 0
        assert identity.second > 0
        with graphcap.use_mem_pool(pool):
            assert fx.allocate(NBYTES).pool_id == identity
        assert fx.allocate(NBYTES).pool_id == (0, 0)
        graphcap.empty_cache(fx.device)
        assert reserved(fx.device, identity) == 2 * MIB
        del pool
        graphcap.empty_cache(fx.device)
        assert reserved(fx.device, identity) == 0

    def test_use_mem_pool_nests_and_is_of_one_thread(self, fx: BackendFixtures) -> None:
        """S-C48: the innermost scope counts; other threads are not routed; an exception leaves the scope."""
        outer, inner = graphcap.MemPool(fx.device), graphcap.MemPool(fx.device)
        with graphcap.use_mem_pool(outer):
            with pytest.raises(ZeroDivisionError), graphcap.use_mem_pool(inner):
                assert fx.allocate(NBYTES).pool_id == inner.id
                assert in_thread(lambda: fx.allocate(NBYTES).pool_id) == (0, 0)
                raise ZeroDivisionError
            assert fx.allocate(NBYTES).pool_id == outer.id
        assert fx.allocate(NBYTES).pool_id == (0, 0)

    def test_mem_pool_as_the_pool_of_a_graph(self, fx: BackendFixtures) -> None:
        """S-C11, S-E test_graph_mem_pool_arg: the graph holds it once more, until its reset, and longer than it."""
        pool = graphcap.MemPool(fx.device)
        graph, buffer = self.keep(fx, pool=pool)
        identity = pool.id
        assert pool.use_count() == 2
        del pool, buffer
        graphcap.empty_cache(fx.device)
        assert reserved(fx.device, identity) == 2 * MIB
        graph.replay()
        graph.reset()
        graphcap.synchronize(fx.device)
        graphcap.empty_cache(fx.device)
        assert reserved(fx.device, identity) == 0

    def test_use_mem_pool_inside_a_capture(self, fx: BackendFixtures) -> None:
        """S-C48, S-E test_graph_mem_pool_arg_and_nested_use_mem_pool: the graph holds the nested pool until reset."""
        pool = graphcap.MemPool(fx.device)
        graph = graphcap.Graph(fx.device)
        with fx.make_stream() as stream, graph, graphcap.use_mem_pool(pool):
            buffer = fx.allocate(NBYTES)
            stream.fill(buffer, 0)
        assert buffer.pool_id == pool.id
        assert pool.use_count() == 2
        graph.replay(stream)
        stream.synchronize()
        graph.reset()
        assert pool.use_count() == 1

    @pytest.mark.parametrize("failure", ["body", "broken"])
    def test_use_mem_pool_inside_a_failed_capture(self, fx: BackendFixtures, failure: str) -> None:
        """Rule 5: a capture that comes to nothing gives back every use of a pool."""
        pool = graphcap.MemPool(fx.device)
        graph = graphcap.Graph(fx.device, pool=graphcap.MemPool(fx.device))
        stream = fx.make_stream()
        with pytest.raises((ZeroDivisionError, graphcap.CaptureError)), stream, graph, graphcap.use_mem_pool(pool):
            stream.fill(fx.allocate(NBYTES), 0)
            if failure == "body":
                raise ZeroDivisionError
            stream.synchronize()
        assert pool.use_count() == 1

    def test_mem_pool_cannot_be_copied(self, fx: BackendFixtures) -> None:
        """Design 1: like a graph, it owns device memory."""
        pool = graphcap.MemPool(fx.device)
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError):
                duplicate(pool)

    def test_unissued_ids_are_of_no_use(self, fx: BackendFixtures) -> None:
        """Design 1: ids are issued one by one, and an id never issued is refused until it is."""
        handle = graphcap.graph_pool_handle()
        following = (0, handle.second + 1)
        with pytest.raises(graphcap.PoolStateError):
            graphcap.Graph(fx.device, pool=following)
        assert graphcap.graph_pool_handle() == following
        assert graphcap.Graph(fx.device, pool=following).graph_pool == following
