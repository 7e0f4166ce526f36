"""The registry: names, factories, entry points, and what is said when a backend cannot be had."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterator
from typing import Any

import pytest

import graphcap
from graphcap import registry
from graphcap.backends.cpu import CPUGraphImpl, cpu_backend
from graphcap.interface import GraphImplArgs, GraphImplInterface


@contextlib.contextmanager
def registered(key: str, factory: Any, **options: Any) -> Iterator[None]:
    graphcap.register_graph_impl(key, factory, **options)
    try:
        yield
    finally:
        graphcap.unregister_graph_impl(key)


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pretend that distributions with these entry points are installed."""

    def pretend(**targets: str) -> None:
        group = registry.ENTRY_POINT_GROUP
        points = [importlib.metadata.EntryPoint(name, target, group) for name, target in targets.items()]
        monkeypatch.setattr(registry, "_entry_points", {str(point.name).upper(): point for point in points})

    return pretend


def test_built_ins_are_known_in_order() -> None:
    """Design 3: CUDA, XPU, CPU is the order in which a default device is chosen."""
    assert graphcap.known_backends()[:3] == ["CUDA", "XPU", "CPU"]


def test_register_and_create() -> None:
    """Design 1: a registered factory is called with the arguments, under its name in any case."""
    seen: list[GraphImplArgs] = []

    def factory(args: GraphImplArgs) -> GraphImplInterface:
        seen.append(args)
        return CPUGraphImpl(args)

    with registered("My_Npu", factory):
        assert graphcap.has_graph_impl("MY_NPU")
        assert graphcap.has_graph_impl("my_npu")
        assert "MY_NPU" in graphcap.known_backends()
        args = GraphImplArgs(keep_graph=True)
        assert isinstance(graphcap.create_graph_impl("my_NPU", args), CPUGraphImpl)
        graphcap.create_graph_impl("my_npu")
    assert seen == [args, GraphImplArgs()]
    assert not graphcap.has_graph_impl("my_npu")
    assert graphcap.create_graph_impl("my_npu") is None


def test_register_as_a_decorator() -> None:
    """Design 1: also a decorator; it gives the class back."""

    @graphcap.register_graph_impl("decorated")
    class Decorated(CPUGraphImpl):
        pass

    try:
        assert isinstance(graphcap.create_graph_impl("decorated"), Decorated)
    finally:
        graphcap.unregister_graph_impl("decorated")


def test_taken_names_need_replace() -> None:
    """Design 1: a taken name is refused without ``replace``; nothing changes then."""
    other: Any = lambda args: pytest.fail("the refused factory was called")  # noqa: E731  # one line is all there is
    with registered("taken", CPUGraphImpl):
        with pytest.raises(ValueError, match="replace=True"):
            graphcap.register_graph_impl("TAKEN", other)
        assert isinstance(graphcap.create_graph_impl("taken"), CPUGraphImpl)

        class Second(CPUGraphImpl):
            pass

        graphcap.register_graph_impl("Taken", Second, replace=True)
        assert isinstance(graphcap.create_graph_impl("taken"), Second)


def test_built_in_can_be_replaced_taken_away_and_brought_back() -> None:
    """Design 1: ``replace`` and ``unregister`` work on built-ins too."""

    class Mine(CPUGraphImpl):
        pass

    graphcap.register_graph_impl("cpu", Mine, replace=True)
    try:
        assert isinstance(graphcap.create_graph_impl("cpu"), Mine)
        graphcap.unregister_graph_impl("cpu")
        assert not graphcap.has_graph_impl("cpu")
        assert graphcap.create_graph_impl("cpu") is None
        assert "CPU" not in graphcap.known_backends()
        with pytest.raises(graphcap.BackendNotFoundError, match="CUDA"):
            graphcap.Graph("cpu")
    finally:
        graphcap.register_graph_impl("cpu", CPUGraphImpl, replace=True)
    assert type(graphcap.create_graph_impl("cpu")) is CPUGraphImpl


def test_unregister_of_an_unknown_name() -> None:
    """Design 5: lists the known ones, and is a LookupError."""
    with pytest.raises(LookupError, match="CPU"):
        graphcap.unregister_graph_impl("nowhere")


@pytest.mark.parametrize("key", ["cuda:0", "", "1x", "a b"])
def test_keys_that_are_none(key: str) -> None:
    """Design 1: a device index in a key is refused, wherever a key is taken."""
    for call in (graphcap.has_graph_impl, graphcap.create_graph_impl, graphcap.unregister_graph_impl):
        with pytest.raises(ValueError):
            call(key)
    with pytest.raises(ValueError):
        graphcap.register_graph_impl(key, CPUGraphImpl)


def test_factory_that_cannot_be_called() -> None:
    """register_graph_impl: a TypeError where it is given."""
    factory: Any = "graphcap.backends.cpu:CPUGraphImpl"
    with pytest.raises(TypeError, match="callable"):
        graphcap.register_graph_impl("strange", factory)
    assert not graphcap.has_graph_impl("strange")


def test_unknown_device_names_the_known_ones() -> None:
    """Design 5: BackendNotFoundError lists them."""
    for ask in (graphcap.Graph, graphcap.current_stream, graphcap.Stream, graphcap.synchronize, graphcap.memory_stats):
        call: Any = ask
        with pytest.raises(graphcap.BackendNotFoundError) as caught:
            call("nowhere")
        assert {"CPU", "CUDA", "XPU"} <= set(str(caught.value).replace(",", " ").replace(")", " ").split())


def test_entry_point(entry_points: Any) -> None:
    """Issue 2, item 2: entry points of the group join, and are imported only when they are asked for."""
    entry_points(far="graphcap.backends.cpu:CPUGraphImpl")
    assert graphcap.has_graph_impl("FAR")
    assert "FAR" in graphcap.known_backends()
    assert isinstance(graphcap.create_graph_impl("far"), CPUGraphImpl)
    assert registry.get_backend("far") is cpu_backend()


def test_broken_entry_points(entry_points: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Design 1: a registered name whose library is missing raises with reason and cure; the status tells the same."""
    entry_points(gone="graphcap_not_installed:Impl", empty="graphcap.backends.cpu:Nothing", flat="graphcap:__version__")
    for name, word in (("gone", "graphcap_not_installed"), ("empty", "Nothing"), ("flat", "callable")):
        assert graphcap.has_graph_impl(name), "asking for a name must import nothing"
        with pytest.raises(graphcap.BackendUnavailableError, match=word) as caught:
            graphcap.create_graph_impl(name)
        assert caught.value.cure
        status = graphcap.backend_status()[name.upper()]
        assert not status.ok
        assert word in status.reason
        assert status.cure
        assert name.upper() not in graphcap.available_backends()


def test_entry_point_whose_name_is_no_device_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """One distribution's mistake is told, and takes no other backend away."""
    points = [
        importlib.metadata.EntryPoint(name, "graphcap.backends.cpu:CPUGraphImpl", registry.ENTRY_POINT_GROUP)
        for name in ("my-npu", "far")
    ]
    monkeypatch.setattr(registry, "_entry_points", {})
    before = graphcap.known_backends()  # other tests may have registered some
    monkeypatch.setattr(registry, "_entry_points", None)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    with pytest.warns(graphcap.GraphcapWarning, match="'my-npu'"):
        assert sorted(graphcap.known_backends()) == sorted([*before, "FAR"])
    assert graphcap.has_graph_impl("far")


def test_registration_comes_before_entry_points(entry_points: Any) -> None:
    """registry: explicit registrations first; a name of an entry point is taken."""
    entry_points(both="graphcap_not_installed:Impl")
    with pytest.raises(ValueError, match="replace"):
        graphcap.register_graph_impl("both", CPUGraphImpl)
    graphcap.register_graph_impl("both", CPUGraphImpl, replace=True)
    assert isinstance(graphcap.create_graph_impl("both"), CPUGraphImpl)
    graphcap.unregister_graph_impl("both")
    assert not graphcap.has_graph_impl("both")
    registry._registered.pop("BOTH")


def test_backend_that_raises_is_a_status_not_a_crash() -> None:
    """Design 3: ``backend_status`` never raises for a broken backend."""

    def factory(args: GraphImplArgs) -> GraphImplInterface:
        raise AssertionError("not asked for")

    def backend() -> Any:
        raise OSError("the device caught fire")

    factory.backend = backend  # type: ignore[attr-defined]  # functions take attributes
    with registered("burning", factory):
        status = graphcap.backend_status()["BURNING"]
    assert not status.ok
    assert "OSError: the device caught fire" in status.reason
    assert status.cure


def test_bare_implementation_has_no_streams() -> None:
    """backends/base: a factory without ``backend`` serves the contract; what needs a stream is unsupported."""

    def factory(args: GraphImplArgs) -> GraphImplInterface:
        return CPUGraphImpl(args)

    with registered("bare", factory):
        assert isinstance(graphcap.Graph("bare"), graphcap.Graph)
        assert graphcap.backend_status()["BARE"].ok
        with pytest.raises(graphcap.UnsupportedError) as caught:
            graphcap.current_stream("bare")
        assert caught.value.backend == "BARE"
        assert caught.value.capability == "backend"


def test_graph_function_that_an_implementation_lacks() -> None:
    """Design 3: what goes beyond the contract and is missing is an UnsupportedError with the operation."""

    class Contract(GraphImplInterface):
        def __init__(self, args: GraphImplArgs) -> None: ...
        def capture_begin(self, pool: Any = None, capture_mode: Any = None) -> None: ...
        def capture_end(self) -> None: ...
        def instantiate(self) -> None: ...
        def replay(self) -> None: ...
        def reset(self) -> None: ...
        def pool(self) -> graphcap.MempoolId:
            return graphcap.MempoolId(1, 0)

        def enable_debug_mode(self) -> None: ...
        def debug_dump(self, path: Any) -> None: ...

    with registered("contract", Contract):
        graph = graphcap.Graph("contract")
        with graph:
            pass
        graph.replay()
        for ask in (graph.topology, lambda: graph.retain(1), lambda: graph.update(graph), graph.upload):
            with pytest.raises(graphcap.UnsupportedError) as caught:
                ask()
            assert caught.value.backend == "CONTRACT"
            assert caught.value.operation.startswith("Graph.")
