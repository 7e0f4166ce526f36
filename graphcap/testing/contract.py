"""The contract itself: the registry, the eight methods, their arguments, copying and pickling."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.interface import CaptureStatus, GraphCaptureMode, GraphImplArgs, GraphImplInterface, MempoolId
from graphcap.testing.case import NBYTES, ConformanceCase, N, vector
from graphcap.testing.fixtures import BackendFixtures

__all__ = ["Contract"]


@dataclass(frozen=True, kw_only=True)
class _LaterArgs(GraphImplArgs):
    """What a later release might add."""

    something_new: int = 3


class Contract(ConformanceCase):
    """What design section 1 says of :class:`GraphImplInterface` and the registry."""

    @staticmethod
    def make(fx: BackendFixtures, **args: Any) -> GraphImplInterface:
        impl = graphcap.create_graph_impl(fx.device_type, GraphImplArgs(**args))
        assert impl is not None
        return impl

    def test_registered_in_any_case(self, fx: BackendFixtures) -> None:
        """Design 1: the name is registered, and its case does not matter."""
        for name in (fx.device_type, fx.device_type.upper(), fx.device_type.title()):
            assert graphcap.has_graph_impl(name)
            assert isinstance(graphcap.create_graph_impl(name), GraphImplInterface)
        assert fx.device_type.upper() in graphcap.known_backends()
        assert fx.device_type.upper() in graphcap.available_backends()

    def test_status(self, fx: BackendFixtures) -> None:
        """Design 3: the status of a usable backend is ok, and carries its capabilities."""
        status = graphcap.backend_status()[fx.device_type.upper()]
        assert status.ok
        assert status.capabilities == fx.capabilities
        assert fx.capabilities.dump_format in ("cuda-dot", "sycl-dot", "graphcap-dot")

    def test_order_of_calls(self, fx: BackendFixtures) -> None:
        """Design 1: begin, end, replay, reset on the bare implementation; no method but ``pool`` returns anything."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        impl: Any = self.make(fx)
        results = []
        with fx.make_stream() as stream:
            results.append(impl.capture_begin())
            fx.launch_axpy(stream, out, 2, x, y)
            results += [impl.capture_end(), impl.instantiate(), impl.replay()]
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))
        pool = impl.pool()
        assert isinstance(pool, MempoolId)
        assert pool.first > 0
        assert pool.second == 0
        results += [impl.enable_debug_mode(), impl.reset(), impl.reset()]
        assert results == [None] * 7

    def test_kept_graph(self, fx: BackendFixtures, tmp_path: Path) -> None:
        """Design 1: with ``keep_graph`` the template stays: instantiate, instantiate again, dump."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        impl: Any = self.make(fx, keep_graph=True)
        with fx.make_stream() as stream:
            impl.capture_begin()
            fx.launch_axpy(stream, out, 2, x, y)
            impl.capture_end()
            impl.instantiate()
            impl.instantiate()
            impl.replay()
        assert impl.debug_dump(tmp_path / "kept.dot") is None
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    def test_arguments_of_capture_begin(self, fx: BackendFixtures) -> None:
        """Design 1: ``capture_begin(pool=MempoolId(0, 0), capture_mode=DEFAULT)``, by position or by name."""
        x = fx.upload(vector(1))
        parameters = inspect.signature(type(self.make(fx)).capture_begin).parameters
        assert parameters["pool"].default == MempoolId(0, 0)
        assert parameters["capture_mode"].default == GraphCaptureMode.DEFAULT
        handle = graphcap.graph_pool_handle()
        ways: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
            ((), {}),
            ((handle, GraphCaptureMode.DEFAULT), {}),
            ((), {"pool": handle, "capture_mode": GraphCaptureMode.DEFAULT}),
        ]
        for args, options in ways:
            impl = self.make(fx)
            with fx.make_stream() as stream:
                impl.capture_begin(*args, **options)
                stream.fill(x, 0)
                impl.capture_end()
            assert (impl.pool() == handle) == bool(args or options)

    def test_args_may_grow(self, fx: BackendFixtures) -> None:
        """Design 1: a backend must take arguments of a later release."""
        impl = graphcap.create_graph_impl(fx.device_type, _LaterArgs(keep_graph=True, something_new=7))
        assert isinstance(impl, GraphImplInterface)

    def test_implementation_of_graph(self, fx: BackendFixtures) -> None:
        """Design 2: a Graph is a layer over one implementation of the contract, and is built without a device context
        of its own: also while another graph captures."""
        x = fx.upload(vector(1))
        stream = fx.make_stream()
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            other = graphcap.Graph(fx.device)
            assert isinstance(other.impl, GraphImplInterface)
            del other
            stream.fill(x, 0)
        graph.replay(stream)
        assert not fx.download(x).any()

    @pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
    @pytest.mark.parametrize("captured", [False, True])
    def test_no_copies(self, fx: BackendFixtures, duplicate: Callable[[Any], Any], captured: bool) -> None:
        """Design 1: neither the implementation nor the Graph can be copied or pickled."""
        graph = graphcap.Graph(fx.device)
        if captured:
            graph = self.captured(fx, *(fx.upload(vector(1)), 2, fx.upload(vector(2)), fx.upload(vector(3))))
        for thing in (graph, graph.impl):
            with pytest.raises(TypeError):
                duplicate(thing)

    @pytest.mark.parametrize("mode", ["unknown", "GLOBAL", "", 4, -1])
    def test_unknown_mode(self, fx: BackendFixtures, mode: Any) -> None:
        """Design 1: an unknown mode is refused where it is given."""
        with pytest.raises(ValueError, match="thread_local"):
            graphcap.Graph(fx.device, capture_mode=mode)
        graph = graphcap.Graph(fx.device)
        with pytest.raises(ValueError, match="thread_local"):
            graph.capture_mode = mode
        assert graph.capture_mode is GraphCaptureMode.DEFAULT

    @pytest.mark.parametrize("mode", [None, 1.0, True, b"global", ["global"]])
    def test_mode_of_another_type(self, fx: BackendFixtures, mode: Any) -> None:
        """Design 1: what is no mode at all is a TypeError, where it is given."""
        with pytest.raises(TypeError):
            graphcap.Graph(fx.device, capture_mode=mode)

    @pytest.mark.parametrize("mode", list(GraphCaptureMode))
    def test_mode_by_name_and_number(self, fx: BackendFixtures, mode: GraphCaptureMode) -> None:
        """Design 1: wherever a mode is taken, its lower-case name and its number are too; every mode captures."""
        x, y, out = fx.upload(vector(1)), fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
        assert graphcap.Graph(fx.device, capture_mode=mode.name.lower()).capture_mode is mode
        assert graphcap.Graph(fx.device, capture_mode=int(mode)).capture_mode is mode
        with warnings.catch_warnings():
            if mode not in (*fx.capabilities.capture_modes, GraphCaptureMode.DEFAULT):
                warnings.simplefilter("ignore", graphcap.GraphcapWarning)  # rule 3: it has no such mode and says so
            graph = self.captured(fx, out, 2, x, y, capture_mode=mode)
        graph.replay()
        np.testing.assert_array_equal(fx.download(out), 2 * vector(1) + vector(2))

    @pytest.mark.parametrize("pool", [(0, 10**9), (10**9, 0), (1, 1), (0, -1), (-1, 0)])
    def test_pool_ids_that_cannot_be(self, fx: BackendFixtures, pool: Any) -> None:
        """Design 1: never issued, both halves nonzero, or negative: refused where the id is used."""
        with pytest.raises(graphcap.PoolStateError):
            graphcap.Graph(fx.device, pool=pool)
        graph = graphcap.Graph(fx.device)
        with pytest.raises(graphcap.PoolStateError):
            graph.graph_pool = pool
        assert graph.graph_pool is None
        impl = self.make(fx)
        stream = fx.make_stream()
        with stream, pytest.raises(graphcap.PoolStateError):
            impl.capture_begin(MempoolId(*pool))
        self.assert_can_capture(fx, stream, graph)

    @pytest.mark.parametrize("pool", [3, "pool", (1,), (1, 2, 3), (0.0, 1.0), object()])
    def test_pools_that_are_none(self, fx: BackendFixtures, pool: Any) -> None:
        """Design 1: what is no pool at all is a TypeError."""
        with pytest.raises(TypeError):
            graphcap.Graph(fx.device, pool=pool)

    def test_device_that_cannot_be(self, fx: BackendFixtures) -> None:
        """Design 3: an index past the last device, or no index at all, is a ValueError."""
        for device in (f"{fx.device_type}:{fx.backend.device_count()}", f"{fx.device_type}:x", f"{fx.device_type}:"):
            with pytest.raises(ValueError, match="device"):
                graphcap.Graph(device)

    def test_device_with_an_index(self, fx: BackendFixtures) -> None:
        """Design 3: ``"<type>:0"`` captures, allocates and replays on that device."""
        device = f"{fx.device_type}:0"
        x = fx.upload(vector(1))
        graph = graphcap.Graph(device)
        assert graph.device == device
        make: Any = graphcap.Stream
        stream: graphcap.Stream = make(device)
        assert stream.device == device
        with stream, graph:
            assert graphcap.current_stream(device) == stream
            inside = graphcap.allocate(NBYTES, device)
            stream.fill(inside, 0)
            stream.copy(x, inside)
        graph.replay(stream)
        graphcap.synchronize(device)
        assert not fx.download(x).any()

    def test_with_gives_the_graph(self, fx: BackendFixtures) -> None:
        """Design 3: ``with graph as g`` gives the graph itself."""
        x = fx.upload(vector(1))
        graph = graphcap.Graph(fx.device)
        with fx.make_stream() as stream, graph as given:
            stream.fill(x, 0)
        assert given is graph

    def test_settings_between_captures(self, fx: BackendFixtures) -> None:
        """S-A10: pool and mode may be changed between captures."""
        x = fx.upload(vector(1))
        graph = graphcap.Graph(fx.device)
        stream = fx.make_stream()
        handle = graphcap.graph_pool_handle()
        for pool in (None, handle, None):
            graph.graph_pool = pool
            with stream, graph:
                stream.fill(x, 0)
            assert (graph.pool() == handle) == (pool is handle)
            graph.reset()

    @pytest.mark.parametrize("bare", [False, True], ids=["graph", "implementation"])
    def test_dropped_with_its_capture_open(self, fx: BackendFixtures, bare: bool) -> None:
        """F4: a graph that dies while it captures ends the capture; its stream is free at once."""
        x = fx.upload(vector(1))
        stream = fx.make_stream()
        graph: Any = self.make(fx) if bare else graphcap.Graph(fx.device)
        with stream:
            graph.capture_begin()
            stream.fill(x, 0)
            del graph
            gc.collect()
        assert stream.capture_status is CaptureStatus.NONE
        np.testing.assert_array_equal(fx.download(x), vector(1))
        self.assert_can_capture(fx, stream, graphcap.Graph(fx.device))
