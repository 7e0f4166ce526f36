"""Captures in segments of array programs; refusals of frameworks; how the pieces are kept."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphcap
from graphcap import dot
from graphcap.backends import base
from graphcap.topology import NodeKind

xp = graphcap.array_namespace("cpu")


def kinds(graph: graphcap.SegmentedGraph) -> list[str]:
    return [segment.kind for segment in graph.segments]


def test_a_whole_program() -> None:
    """A relaxation that looks at its residual: the same bits as the plain loop, step by step."""

    def sweep(u: Any) -> None:
        u[1:-1] = 0.5 * (u[:-2] + u[2:])

    def residual(u: Any) -> Any:
        return np.abs(u[1:-1] - 0.5 * (u[:-2] + u[2:]))

    def norm(r: Any) -> tuple[float, int]:
        return float(r.max()), int(r.argmax())

    def damp(u: Any, size: Any, place: Any) -> Any:
        u *= 1 - size / 100
        return place * 2

    start = np.random.default_rng(0).random(50)
    u, plain = xp.asarray(start, copy=True), start.copy()
    with graphcap.capture("cpu", on_forbidden="split", preserve=[u]) as graph:
        graph.step(sweep, u)
        r = graph.step(residual, u)
        size, place = graph.step(norm, r)
        twice = graph.step(damp, u, size, place)
    assert kinds(graph) == ["graph", "eager", "graph"]
    assert graph.segments[0].steps[0].endswith("sweep")
    assert np.array_equal(np.asarray(u), start)
    for _ in range(5):
        graph.replay()
        sweep(plain)
        wanted = norm(residual(plain))
        damp(plain, *wanted)
        assert np.asarray(u).tobytes() == plain.tobytes()
        assert (float(size), int(place), int(twice)) == (*wanted, 2 * wanted[1])


def test_plain_arrays_as_arguments() -> None:
    """A step's arguments are arrays whose work is seen, over the caller's memory."""
    x = np.arange(4.0)
    seen: list[type] = []

    def double(values: Any, more: Any) -> Any:
        seen.append(type(values))
        return values * 2 + more["list"][0]

    with graphcap.capture("cpu", on_forbidden="split") as graph:
        y = graph.step(double, x, more={"list": [x]})
    assert set(seen) == {xp.ndarray}
    x[:] = 5
    graph.replay()
    assert (np.asarray(y) == 15).all()


def test_plain_arrays_as_results() -> None:
    """What an eager step makes with NumPy itself is an array to the steps after it."""
    x = xp.arange(4.0)

    def ranks(values: Any) -> Any:
        return np.argsort(np.asarray(values)[::-1]).astype(float)

    with graphcap.capture("cpu", on_forbidden="split") as graph:
        order = graph.step(ranks, x)
        y = graph.step(lambda values: values * 10, order)
    assert kinds(graph) == ["eager", "graph"]
    for values in ([3.0, 1.0, 2.0, 0.0], [0.0, 9.0, 4.0, 5.0]):
        x[:] = np.array(values)
        graph.replay()
        assert np.array_equal(np.asarray(y), 10 * ranks(np.array(values)))


def test_views_stay_views() -> None:
    """A step that gives a part of its argument gives that part, not a copy."""
    x = xp.zeros(6)

    def bump(part: Any) -> None:
        part += 1

    with graphcap.capture("cpu", on_forbidden="split", preserve=[x]) as graph:
        tail = graph.step(lambda values: values[3:], x)
        graph.step(bump, tail)
    graph.replay()
    graph.replay()
    assert np.array_equal(np.asarray(x), [0, 0, 0, 2, 2, 2])
    assert graph.topology().counts()[NodeKind.MEMCPY] == 0


def test_arithmetic_with_numbers_of_steps_that_needs_values_is_eager() -> None:
    """``if`` and ``math`` on an earlier step's number: that step is called anew each time, by itself."""
    x = xp.arange(3.0)

    def choose(values: Any, limit: Any) -> Any:
        return values * 2 if limit > 2 else values * 3

    with graphcap.capture("cpu", on_forbidden="split") as graph:
        top = graph.step(lambda values: float(values.max()), x)
        y = graph.step(choose, x, top)
    assert kinds(graph) == ["eager", "eager"]
    for scale in (1, 5):
        x[:] = scale * np.arange(3.0)
        graph.replay()
        assert np.array_equal(np.asarray(y), choose(np.asarray(x), 2.0 * scale))


def test_a_step_that_hides_the_refusal() -> None:
    """It catches the error of a call that broke the capture: the break is found all the same."""
    x = xp.ones(3)

    def hides(values: Any) -> Any:
        try:
            graphcap.synchronize("cpu")
        except graphcap.CaptureError:
            pass
        return values + 1

    with graphcap.capture("cpu", on_forbidden="split") as graph:
        y = graph.step(hides, graph.step(lambda values: values * 2, x))
    assert kinds(graph) == ["graph", "eager"]
    x[:] = 4
    graph.replay()
    assert (np.asarray(y) == 9).all()


def test_a_step_that_hides_the_refusal_and_gives_nothing() -> None:
    """Then nothing comes after the break that could tell: it is asked for."""
    x = xp.ones(3)

    def hides(values: Any) -> None:
        values += 1
        try:
            graphcap.synchronize("cpu")
        except graphcap.CaptureError:
            pass

    with graphcap.capture("cpu", on_forbidden="split", preserve=[x]) as graph:
        graph.step(lambda values: values * 2, x)
        graph.step(hides, x)
    assert kinds(graph) == ["graph", "eager"]
    graph.replay()
    assert (np.asarray(x) == 2).all()


def test_a_frameworks_own_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that the framework's hook explains as a forbidden call splits; another one passes (cupy#6290)."""

    class Hook:
        def stream_entered(self, stream: Any) -> None:
            return None

        def current_stream(self, backend: Any, device: int) -> None:
            return None

        def capture_begun(self, stream: Any, pool: Any, retain: Any) -> None:
            return None

        def explain(self, error: BaseException) -> BaseException | None:
            if isinstance(error, NotImplementedError):
                return graphcap.CaptureForbiddenError("matmul", "the library refuses cuBLAS in a capture", "Step out.")
            return None

    entry = base._HookEntry("sys", "tests:hook", hook=Hook())
    monkeypatch.setitem(base._hooks, "CPU", [*base._hooks.get("CPU", []), entry])

    def multiply(values: Any) -> Any:
        if graphcap.current_stream("cpu").is_capturing:
            raise NotImplementedError("cublas")
        return values @ values

    x = xp.asarray(np.arange(4.0).reshape(2, 2))
    with graphcap.capture("cpu", on_forbidden="split") as graph:
        first = graph.step(lambda values: values + 1, x)
        second = graph.step(multiply, first)
        third = graph.step(lambda values: values - 1, second)
    assert kinds(graph) == ["graph", "eager", "graph"]
    assert "refuses cuBLAS" in str(graph.segments[1].reason)
    graph.replay()
    assert np.array_equal(
        np.asarray(third), (np.arange(4.0).reshape(2, 2) + 1) @ (np.arange(4.0).reshape(2, 2) + 1) - 1
    )


def test_users_parameters_go_through() -> None:
    """A parameter of the user's own is one of the whole, in graphs and in eager steps."""
    dt = graphcap.parameter(0.5, name="dt")
    x = xp.ones(3)

    def eager(values: Any, step: Any) -> Any:
        return np.asarray(values) * float(step)

    with graphcap.capture("cpu", on_forbidden="split") as graph:
        y = graph.step(lambda values, step: values * step, x, dt)
        z = graph.step(eager, y, dt)
        w = graph.step(lambda values, step: values + step, z, dt * 2)
    assert dict(graph.parameters) == {"dt": dt}
    for value in (0.5, 3.0):
        graph.replay(inputs={"dt": value})
        assert (np.asarray(w) == value * value + 2 * value).all()


def test_dump_and_inspection(tmp_path: Any) -> None:
    """The segments as a graph: written, read, drawn, explained."""
    x = xp.ones(3)
    with graphcap.capture("cpu", on_forbidden="split") as graph:
        y = graph.step(lambda values: values * 2, x)
        graph.step(lambda values: float(values[0]), y)
        graph.step(lambda values: values * 3, y)
    graph.debug_dump(tmp_path / "segments.dot")
    found = dot.read(tmp_path / "segments.dot")
    assert found == graph.topology()
    assert [node.kind for node in found.topological_order()] == ["child_graph", "host", "child_graph"]
    assert found.critical_path().length == 3
    assert graph.segments[0].graph is not None
    graph.segments[0].graph.debug_dump(tmp_path / "one.dot")
    assert len(dot.read(tmp_path / "one.dot").nodes) == 2  # the product, and its way to its place


def test_dropped_whole() -> None:
    """No cycle keeps steps, arrays and graphs once the last reference is gone."""
    x = xp.ones(3)

    class Step:
        def __call__(self, values: Any) -> Any:
            return values * 2

    step = Step()
    with graphcap.capture("cpu", on_forbidden="split") as graph:
        graph.step(step, x)
        graph.step(lambda values: float(values[0]), x)
    notes = getattr(graph.segments[1].reason, "__notes__", [])
    assert any("test_cpu.py:" in note and "float(values[0])" in note for note in notes)
    alive = weakref.ref(step)
    graph.replay()
    del step
    assert alive() is not None
    gc.disable()
    try:
        del graph
        assert alive() is None
    finally:
        gc.enable()


def test_warm_up_and_options() -> None:
    """A warm-up runs before the body; the stream and the pool are the caller's; a strict capture splits too."""
    calls: list[str] = []
    x = xp.ones(3)
    pool = graphcap.MemPool("cpu")
    stream: Any = graphcap.Stream("cpu")
    with graphcap.capture(
        "cpu", on_forbidden="split", warmup=lambda: calls.append("warm"), warmup_count=2, pool=pool, stream=stream
    ) as graph:
        calls.append("body")
        graph.step(lambda values: values * 2, x)
        assert graphcap.current_stream("cpu") is stream
    assert calls == ["warm", "warm", "body"]
    assert graph.pool() == pool.id
    assert graphcap.Graph("cpu", pool=graph).graph_pool == pool.id
    with graphcap.capture("cpu", on_forbidden="split", strict=True) as graph:
        graph.step(lambda values: values * 2, x)
        graph.step(lambda values: float(values[0]), x)
    assert kinds(graph) == ["graph", "eager"]
    with pytest.raises(ValueError, match="keep_inputs"):
        graphcap.capture("cpu", on_forbidden="split", keep_inputs=False)


class Box:
    """An object of the user's."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Pair(NamedTuple):
    left: Any
    right: Any


def _boxed(x: Any) -> Any:
    return Box(float(x.sum()))


def _text(x: Any) -> Any:
    return str(float(x.sum()))


def _bytes(x: Any) -> Any:
    return str(float(x.sum())).encode()


def _in_a_dict(x: Any) -> Any:
    return {"deep": [Pair(Box(float(x.sum())), None)]}


def _sometimes_none(x: Any) -> Any:
    return Box(6.0) if float(x.sum()) == 6 else None


TAKERS: dict[Any, Any] = {
    _boxed: lambda box: box.value,
    _text: float,
    _bytes: float,
    _in_a_dict: lambda found: found["deep"][0].left.value,
    _sometimes_none: lambda box: 40.0 if box is None else box.value,
}


@pytest.mark.parametrize("give", TAKERS, ids=lambda give: give.__name__)
def test_objects_are_those_of_the_same_replay(give: Any) -> None:
    """What an eager step gives is taken anew at each replay, whatever it is, also through a step that hands it on."""
    x = xp.arange(4.0)

    def scale(found: Any, x: Any) -> Any:
        return x * TAKERS[give](found)

    def hand_on(found: Any) -> Any:
        return found

    with graphcap.capture("cpu", on_forbidden="split") as graph:
        found = graph.step(give, x)
        y = graph.step(scale, found, x)
        z = graph.step(scale, graph.step(hand_on, found), x)
    for value in (10, 1, 3):
        x[:] = value
        graph.replay()
        wanted = np.full(4, value * 4.0 * value if give is not _sometimes_none else value * 40.0)
        np.testing.assert_array_equal(np.asarray(y), wanted)
        np.testing.assert_array_equal(np.asarray(z), wanted)


def test_objects_around_captured_arrays() -> None:
    """An object that a captured step gives holds the arrays of the capture; so does what later steps take, captured or eager."""
    x, seen = xp.arange(3.0), []

    def box(x: Any) -> Any:
        return Box(x * 2)

    def more(found: Any) -> Any:
        return found.value + 1

    def look(found: Any) -> None:
        seen.append(float(found.value[0]))

    with graphcap.capture("cpu", on_forbidden="split") as graph:
        found = graph.step(box, x)
        near = graph.step(more, found)
        graph.step(look, found)
        far = graph.step(more, found)
    assert kinds(graph) == ["graph", "eager", "graph"]
    for value in (5, 7):
        x[:] = value
        graph.replay()
        assert seen[-1] == value * 2
        assert (np.asarray(near) == value * 2 + 1).all()
        assert (np.asarray(far) == value * 2 + 1).all()


def test_named_tuples_as_arguments() -> None:
    """Arrays and numbers in a named tuple are seen as in any other."""
    x = np.arange(3.0)

    def norm(pair: Any) -> Any:
        return Pair(float(pair.left.sum()), type(pair.right))

    def scale(pair: Any, x: Any) -> Any:
        assert type(pair) is Pair
        return x * pair.left

    with graphcap.capture("cpu", on_forbidden="split") as graph:
        y = graph.step(scale, graph.step(norm, Pair(x, 1)), x)
    x[:] = 2
    graph.replay()
    assert (np.asarray(y) == 12).all()


def test_the_same_object_from_two_steps() -> None:
    """Two steps first give one object, then two: which is meant cannot be told, so it is not guessed."""
    x = xp.arange(2.0)

    def level(x: Any) -> str:
        return "low" if float(x.sum()) < 5 else "high"

    def always(x: Any) -> str:
        return "low" if float(x.sum()) < 100 else ""

    with graphcap.capture("cpu", on_forbidden="split") as graph:
        graph.step(level, x)
        graph.step(always, x)
    graph.replay()
    x[:] = 9
    with pytest.raises(graphcap.GraphStructureError, match="was the very str that the step 'level' gave"):
        graph.replay()


@pytest.mark.parametrize(
    ("first", "then", "told"),
    [
        (lambda x: None, lambda x: 1.0, "NoneType when it first ran, and is of type float"),
        (lambda x: 1.0, lambda x: None, "of type NoneType now"),
        (lambda x: None, lambda x: x, "and is an array of"),
        (lambda x: x * 1, lambda x: None, "of type NoneType now"),
        (
            lambda x: [x],
            lambda x: [x, x],
            r"gave 1 values when it first ran, and gives 2 now \(result\[1\] was not there",
        ),
        (lambda x: [], lambda x: [x], r"result\[0\] was not there"),
        (lambda x: {"a": 1, "b": 2}, lambda x: {"a": 1}, r"result\['b'\] was there"),
        (lambda x: (x, 1), lambda x: {"x": x}, "gave 2 values"),
    ],
)
@pytest.mark.parametrize("captured", [False, True], ids=["eager", "captured"])
def test_results_of_another_structure(captured: bool, first: Any, then: Any, told: str) -> None:
    """A step that gives more, less, or something where nothing was: said, never dropped."""
    x, calls = xp.arange(2.0), []

    def step(x: Any) -> Any:
        if not captured:
            float(x[0])
        calls.append(1)
        return (first if len(calls) == 1 else then)(x)

    with contextlib.ExitStack() as stack:
        if captured:
            stack.enter_context(pytest.raises(graphcap.GraphStructureError, match=told))
        with graphcap.capture("cpu", on_forbidden="split") as graph:
            graph.step(step, x)
            graph.step(np.negative, x)
    if not captured:
        with pytest.raises(graphcap.GraphStructureError, match=told):
            graph.replay()


def test_states() -> None:
    """No steps are told at the user's line, and replayed as nothing (rule 7); what is open or given up is neither."""
    with (
        pytest.warns(graphcap.EmptyGraphWarning, match="no steps") as told,
        graphcap.capture("cpu", on_forbidden="split") as graph,
    ):
        open_ones: list[Any] = [graph.replay, graph.topology]
        for ask in open_ones:
            with pytest.raises(graphcap.GraphStateError, match="still open"):
                ask()
    assert told[0].filename == __file__
    graph.replay()
    assert not graph.topology().nodes
    assert not graphcap.check_pool_order([graph])
    graph.reset()
    asked: list[Any] = [graph.replay, graph.topology, lambda: graphcap.check_pool_order([graph])]
    for ask in asked:
        with pytest.raises(graphcap.GraphStateError, match="nothing is captured"):
            ask()
