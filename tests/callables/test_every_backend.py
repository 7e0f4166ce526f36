"""``make_graphed_callable``, ``bind`` and ``replay(inputs=...)`` on every backend and kind of array, by the same tests."""

from __future__ import annotations

import gc
import linecache
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import graphcap
from tests.callables.arrays import Arrays, arrays, arrays_of

__all__ = ["arrays"]

Pair = namedtuple("Pair", "left right")


def data(size: int, start: float = 1.0) -> Any:
    return np.arange(start, start + size, dtype=np.float32)


def test_alternating_shapes(arrays: Arrays) -> None:
    """Equal to the function, one capture per kind of input, new results each time."""

    def chain(x: Any, y: Any) -> Any:
        for _ in range(3):
            x = arrays.axpy(2.0, x, y)
        return x

    graphed = graphcap.make_graphed_callable(chain, device=arrays.device)
    kept = []
    for turn in range(3):
        for size in (4, 7, 300):
            x, y = arrays.make(data(size, turn)), arrays.make(data(size, 2))
            found = graphed(x, y)
            kept.append((found, 8 * data(size, turn) + 7 * data(size, 2), x, y))
    assert graphed.captures == 3
    for found, wanted, *_ in kept:
        np.testing.assert_array_equal(arrays.read(found), wanted)


def test_nests_keywords_and_numbers(arrays: Arrays) -> None:
    """Structure, keywords and numbers are part of the kind; results keep their structure; arguments are not written."""

    def function(pair: Any, *, scale: float, more: Any) -> Any:
        first = arrays.axpy(scale, pair[0], pair[1])
        return {"first": first, "pair": Pair(arrays.axpy(1.0, first, more["y"][0]), [first]), "scale": scale}

    graphed = graphcap.make_graphed_callable(function, device=arrays.device)
    x, y = arrays.make(data(5)), arrays.make(data(5, 3))
    for scale in (2.0, 3.0, 2.0):
        for pair in ((x, y), [x, y], Pair(x, y)):
            found = graphed(pair, scale=scale, more={"y": (y,)})
            first = scale * data(5) + data(5, 3)
            assert type(found["pair"]) is Pair
            assert found["scale"] == scale
            np.testing.assert_array_equal(arrays.read(found["first"]), first)
            np.testing.assert_array_equal(arrays.read(found["pair"].left), first + data(5, 3))
            np.testing.assert_array_equal(arrays.read(found["pair"].right[0]), first)
    assert graphed.captures == 6
    np.testing.assert_array_equal(arrays.read(x), data(5))


def test_decorator_samples_and_static_results(arrays: Arrays) -> None:
    """As a decorator captured at the first call; with samples at once; static results are overwritten."""

    @graphcap.make_graphed_callable(device=arrays.device, outputs="static")
    def double(x: Any) -> Any:
        """Twice and itself."""
        return arrays.axpy(1.0, x, x)

    assert (double.captures, double.__name__, double.__doc__) == (0, "double", "Twice and itself.")
    first, second = double(arrays.make(data(3))), double(arrays.make(data(3, 5)))
    assert first is second
    np.testing.assert_array_equal(arrays.read(first), 2 * data(3, 5))
    sampled = graphcap.make_graphed_callable(double.__wrapped__, [arrays.make(data(3))], device=arrays.device)
    assert sampled.captures == 1
    np.testing.assert_array_equal(arrays.read(sampled(arrays.make(data(3)))), 2 * data(3))
    assert sampled.captures == 1


def test_inputs_are_static_and_copied_only_from_elsewhere(arrays: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    """The samples may die or change; where the caller gives the static memory itself nothing is copied."""
    x = arrays.make(data(4))
    seen: list[Any] = []

    def keep(given: Any) -> Any:
        seen.append(given)
        return arrays.axpy(1.0, given, given)

    graphed = graphcap.make_graphed_callable(keep, [x], device=arrays.device)
    del x
    gc.collect()
    static = seen[-1]
    copies: list[Any] = []
    stream_type: Any = type(graphcap.current_stream(arrays.device))
    real = stream_type.copy
    np.testing.assert_array_equal(arrays.read(graphed(arrays.make(data(4, 7)))), 2 * data(4, 7))
    other = arrays.make(data(4, 9))

    def counted(self: Any, dst: Any, src: Any) -> None:
        if dst is static:
            copies.append((self, src))
        real(self, dst, src)

    with monkeypatch.context() as patch, arrays.fx.make_stream() as stream:
        patch.setattr(stream_type, "copy", counted)
        np.testing.assert_array_equal(arrays.read(graphed(other)), 2 * data(4, 9))
        if arrays.fx.capabilities.asynchronous:
            assert copies[0][0] is stream, "the copy ran on another stream than the replay"
        np.testing.assert_array_equal(arrays.read(graphed(static)), 2 * data(4, 9))


def test_calls_on_several_streams(arrays: Arrays) -> None:
    """Static inputs and shared memory are used by one call after the other, whichever stream it is on."""

    def work(x: Any) -> Any:
        for _ in range(5):
            x = arrays.axpy(2.0, x, x)
        return x

    graphed = graphcap.make_graphed_callable(work, device=arrays.device)
    streams = [arrays.fx.make_stream() for _ in range(3)]
    inputs = [(arrays.make(data(size, start)), data(size, start)) for start in range(4) for size in (3000, 50)]
    results = []
    for turn, (x, plain) in enumerate(inputs * 2):
        with streams[turn % 3]:
            results.append((graphed(x), 243 * plain))
    for found, wanted in results:
        np.testing.assert_array_equal(arrays.read(found), wanted)


def test_parameters_need_no_capture(arrays: Arrays) -> None:
    """A parameter as an argument, or from around: another value is no other kind of input."""
    a = graphcap.parameter(np.float32(2), name="a")
    graphed = graphcap.make_graphed_callable(lambda x, factor: arrays.axpy(factor, x, x), device=arrays.device)
    x = arrays.make(data(4))
    for value in (2, 3, 4):
        a.value = value
        np.testing.assert_array_equal(arrays.read(graphed(x, a)), (value + 1) * data(4))
    assert graphed.captures == 1


def test_says_why_and_warns(arrays: Arrays) -> None:
    """Which argument changed how; and a warning when nearly every call captures."""
    graphed = graphcap.make_graphed_callable(lambda x, n: arrays.axpy(1.0, x, x), device=arrays.device, warmup=0)
    x = arrays.make(data(4))
    graphed(x, 1)
    assert graphed.last_capture == "first call"
    graphed(x, 1)
    graphed(arrays.make(data(5)), 1)
    assert graphed.last_capture.startswith("argument 0: ")
    graphed(x, 2)
    assert "argument 1: 1 -> 2" in graphed.last_capture
    with pytest.warns(graphcap.GraphcapWarning, match=r"captured 10 times in 11 calls \(argument 1: 8 -> 9\)"):
        for number in range(3, 10):
            graphed(x, number)


def test_buffers_may_die_after_the_call(arrays: Arrays) -> None:
    """A graphcap buffer that was made on another stream is not handed out again before it was copied in."""
    if not isinstance(arrays.make(data(1)), graphcap.Buffer):
        return  # the memory of other arrays is their library's to keep
    graphed = graphcap.make_graphed_callable(lambda x: arrays.axpy(1.0, x, x), device=arrays.device)
    kept = [(graphed(arrays.make(data(300, start))), 2 * data(300, start)) for start in range(20)]
    for found, wanted in kept:
        np.testing.assert_array_equal(arrays.read(found), wanted)


def test_the_cache_is_bounded(arrays: Arrays) -> None:
    """The least recently used graph goes; one pool for all."""
    graphed = graphcap.make_graphed_callable(lambda x: arrays.axpy(1.0, x, x), device=arrays.device, max_graphs=2)
    for size in (3, 4, 5):
        np.testing.assert_array_equal(arrays.read(graphed(arrays.make(data(size)))), 2 * data(size))
    assert len(graphed.graphs) == 2
    assert len({graph.pool() for graph in graphed.graphs}) == 1
    with pytest.warns(graphcap.GraphcapWarning, match="captured again"):
        graphed(arrays.make(data(3)))


def test_a_value_read_names_the_users_line(arrays: Arrays) -> None:
    """The forbidden call, and the line in the function; other inputs work afterwards."""

    def peeks(x: Any, look: bool) -> Any:
        if look and arrays.look(x) > 0:  # HERE
            return x
        return arrays.axpy(1.0, x, x)

    graphed = graphcap.make_graphed_callable(peeks, device=arrays.device)
    x = arrays.make(data(4))
    with pytest.raises(graphcap.CaptureError) as caught:
        graphed(x, True)
    error = caught.value
    assert isinstance(error, graphcap.CaptureForbiddenError)
    told = str(error) + " ".join(getattr(error, "__notes__", ()))
    line = next(n for n, text in enumerate(linecache.getlines(__file__), 1) if "# HERE" in text)
    assert f"test_every_backend.py:{line}" in told
    assert "peeks" in told
    assert "synchronize" in told or "float" in told
    np.testing.assert_array_equal(arrays.read(graphed(x, False)), 2 * data(4))


def test_a_chain_with_a_step_that_reads(arrays: Arrays) -> None:
    """``on_forbidden="split"``: the reading function is called between two graphs, its number goes on as a parameter."""

    def double(x: Any) -> Any:
        return arrays.axpy(1.0, x, x)

    def first(x: Any) -> Any:
        return {"x": x, "first": np.float32(arrays.look(x))}

    def scaled(found: Any) -> Any:
        return arrays.axpy(found["first"], found["x"], found["x"]), found["first"]

    graphed = graphcap.make_graphed_callable([double, first, scaled], device=arrays.device, on_forbidden="split")
    assert graphed.__name__ == "double -> first -> scaled"
    for start in (1.0, 4.0, 2.0):
        found, number = graphed(arrays.make(data(4, start)))
        wanted = 2 * data(4, start)
        np.testing.assert_array_equal(arrays.read(found), (wanted[0] + 1) * wanted)
        assert type(number) is np.float32
        assert number == wanted[0]
    (graph,) = graphed.graphs
    assert isinstance(graph, graphcap.SegmentedGraph)
    assert [segment.kind for segment in graph.segments] == ["graph", "eager", "graph"]
    assert graphed.captures == 1


def test_memory_does_not_grow(arrays: Arrays) -> None:
    """Alternating kinds, many calls; all given back with the callable."""
    graphed = graphcap.make_graphed_callable(lambda x: arrays.axpy(1.0, x, x), device=arrays.device)
    inputs = [arrays.make(data(size)) for size in (3, 4, 500)]

    def held() -> tuple[int, int]:
        graphcap.synchronize(arrays.device)
        gc.collect()
        graphcap.synchronize(arrays.device)
        stats = graphcap.memory_stats(arrays.device)
        return stats["reserved_bytes.current"], stats["blocks.current"]

    gc.collect()
    at_first = held()[1]
    for x in inputs * 3:
        graphed(x)
    before = held()
    for x in inputs * 20:
        graphed(x)
    assert held() == before
    assert graphed.captures == 3
    del graphed
    assert held()[1] <= at_first


def test_bind_and_inputs(arrays: Arrays) -> None:
    """New contents by name, on the replay's own stream; what does not fit is refused, and nothing was copied."""
    x = arrays.make(data(4))
    with graphcap.capture(arrays.device) as graph:
        y = arrays.axpy(2.0, x, x)
    graph.bind(x=x)
    graph.replay(arrays.fx.make_stream(), inputs={"x": arrays.make(data(4, 5))})
    np.testing.assert_array_equal(arrays.read(y), 3 * data(4, 5))
    bad: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"z": x}, ValueError),
        ({"x": arrays.make(data(5))}, ValueError),
        ({"x": [1.0]}, TypeError),
        ({"x": arrays.make(data(4, 9)), "z": x}, ValueError),
    ]
    for inputs, error in bad:
        with pytest.raises(error, match=r"replay\(inputs=...\)"):
            graph.replay(inputs=inputs)
    np.testing.assert_array_equal(arrays.read(x), data(4, 5))
    with pytest.raises(TypeError, match="no array of"):
        graph.bind(x=[1.0])


def test_inside_another_capture(arrays: Arrays) -> None:
    """It is part of that capture."""
    graphed = graphcap.make_graphed_callable(lambda x: arrays.axpy(1.0, x, x), device=arrays.device)
    x = arrays.make(data(4))
    with graphcap.capture(arrays.device) as graph:
        y = graphed(x)
    assert len(graph.topology().nodes) >= 1
    assert graphed.captures == 0
    graph.replay()
    np.testing.assert_array_equal(arrays.read(y), 2 * data(4))


def test_bound_arrays_change_places(arrays: Arrays) -> None:
    """New contents are taken as if all at once: a value that lies in an array which is loaded before it is the old one."""
    x, y, z = (arrays.make(data(300, start)) for start in (1, 1000, 5000))
    with graphcap.capture(arrays.device) as graph:
        difference = arrays.axpy(-1.0, x, y)
        total = arrays.axpy(1.0, difference, z)
    graph.bind(x=x, y=y, z=z)
    stream = arrays.fx.make_stream()
    graph.replay(stream, inputs={"x": y, "y": z, "z": x})
    np.testing.assert_array_equal(arrays.read(difference), data(300, 5000) - data(300, 1000))
    np.testing.assert_array_equal(arrays.read(total), data(300, 5000) - data(300, 1000) + data(300, 1))
    for array, start in ((x, 1000), (y, 5000), (z, 1)):
        np.testing.assert_array_equal(arrays.read(array), data(300, start))


def test_static_results_change_places(arrays: Arrays) -> None:
    """A function may give back its inputs, which are the graph's own then."""
    graphed = graphcap.make_graphed_callable(
        lambda x, y: (x, y, arrays.axpy(-1.0, x, y)), device=arrays.device, outputs="static"
    )
    first, second, _ = graphed(arrays.make(data(300)), arrays.make(data(300, 1000)))
    first, second, difference = graphed(second, first)
    np.testing.assert_array_equal(arrays.read(first), data(300, 1000))
    np.testing.assert_array_equal(arrays.read(second), data(300))
    np.testing.assert_array_equal(arrays.read(difference), data(300) - data(300, 1000))


def test_methods_and_callable_objects(arrays: Arrays) -> None:
    """An instance is part of the kind of input. What an object has as attributes is no business of the wrapper's."""

    class Model:
        def __init__(self, factor: float) -> None:
            self._fn = self._steps = self._device = self.reset = self._lock = None
            self.factor = factor

        def __call__(self, x: Any) -> Any:
            return arrays.axpy(self.factor, x, x)

        @graphcap.make_graphed_callable(device=arrays.device)
        def step(self, x: Any) -> Any:
            return arrays.axpy(self.factor, x, x)

    x = arrays.make(data(4))
    one, other = Model(1.0), Model(4.0)
    for _ in range(2):
        np.testing.assert_array_equal(arrays.read(one.step(x)), 2 * data(4))
        np.testing.assert_array_equal(arrays.read(other.step(x)), 5 * data(4))
    assert Model.step.captures == 2
    graphed = graphcap.make_graphed_callable(other, device=arrays.device)
    np.testing.assert_array_equal(arrays.read(graphed(x)), 5 * data(4))
    assert graphed.__wrapped__ is other
    graphed.reset()


def test_a_call_that_fails_half_way_is_waited_for(arrays: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it submitted before the error uses the static inputs: the next call, on another stream, comes after it."""
    graphed = graphcap.make_graphed_callable(lambda x: arrays.axpy(1.0, x, x), device=arrays.device)
    x = arrays.make(data(300))
    graphed(x)
    streams = [arrays.fx.make_stream() for _ in range(2)]

    def full(*_: Any) -> Any:
        raise MemoryError("no room for a copy")

    with monkeypatch.context() as patched, streams[0], pytest.raises(MemoryError):
        patched.setattr(graphed._backend, "result_array", full)
        graphed(arrays.make(data(300, 7)))
    if graphed._asynchronous:
        assert graphed._last is not None
        assert graphed._last[0] == streams[0]
    with streams[1]:
        np.testing.assert_array_equal(arrays.read(graphed(arrays.make(data(300, 9)))), 2 * data(300, 9))


def test_samples_are_a_tuple(arrays: Arrays) -> None:
    x = arrays.make(data(4))
    samples: list[Any] = [x, 1.0, "x", {"x": x}]
    for wrong in samples:
        with pytest.raises(TypeError, match=r"a tuple of arguments is needed"):
            graphcap.make_graphed_callable(lambda x: x, wrong, device=arrays.device)


class Part:
    """Some items of a device array, as far as the interface goes."""

    def __init__(self, whole: Any, start: int, count: int) -> None:
        self.nbytes = 4 * count
        for name in ("__cuda_array_interface__", "__sycl_usm_array_interface__"):
            described = getattr(whole, name, None)
            if described is not None:
                address = described["data"][0] + 4 * start
                setattr(self, name, {**described, "data": (address, False), "shape": (count,), "owner": whole})


@pytest.mark.parametrize("kind", ["cpu", "cuda-interface", "xpu-interface", "xpu_software-interface"])
def test_a_bound_view_takes_what_overlaps_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies on a device do not bear that the two overlap, so there is one in between; only then."""
    arrays = arrays_of(kind)
    whole = arrays.make(data(300))
    x, later = (whole[:200], whole[100:]) if kind == "cpu" else (Part(whole, 0, 200), Part(whole, 100, 200))
    out = arrays.make(data(200))
    with graphcap.capture(arrays.device, inputs=[whole]) as graph:
        graphcap.current_stream(arrays.device).copy(out, x)
    graph.bind(x=x)
    backend: Any = graphcap.current_stream(arrays.device).backend
    clone, copies = backend.clone_array, []

    def cloned(*given: Any) -> Any:
        copies.append(clone(*given))
        return copies[-1]

    monkeypatch.setattr(backend, "clone_array", cloned)
    graph.replay(inputs={"x": later})
    assert len(copies) == 1
    np.testing.assert_array_equal(arrays.read(out), data(200, 101))
    graph.replay(inputs={"x": x})
    graph.replay(inputs={"x": arrays.make(data(200, 7))})
    np.testing.assert_array_equal(arrays.read(out), data(200, 7))
    assert len(copies) == 1
