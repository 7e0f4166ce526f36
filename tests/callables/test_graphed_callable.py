"""``make_graphed_callable`` against the function itself, called eagerly by NumPy."""

from __future__ import annotations

import gc
import warnings
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphcap
from graphcap import _callables

Pair = namedtuple("Pair", "left right")
xp = graphcap.array_namespace("cpu")


def chain(x: Any, y: Any) -> Any:
    """Twenty nodes."""
    for _ in range(10):
        x = x * 1.01
        x = x + y
    return x


def test_equals_the_function_with_alternating_shapes() -> None:
    """Bit by bit, without a new capture for a kind of input seen before."""
    rng = np.random.default_rng(0)
    graphed = graphcap.make_graphed_callable(chain, device="cpu")
    for _ in range(3):
        for shape in ((100,), (3, 5), (), (1, 1), (0,)):
            x, y = rng.random(shape), rng.random(shape)
            assert np.array_equal(graphed(x, y), chain(x, y))
    assert graphed.captures == 5


def test_nests_of_as_many_arrays_as_arguments() -> None:
    """Two arrays in one argument and a number in the other are not two array arguments; each number is another kind."""
    graphed = graphcap.make_graphed_callable(lambda pair, factor: pair[0] * factor + pair[1], device="cpu")
    for left, right, factor in ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0), (7.0, 8.0, 3.0), (9.0, 1.0, 6.0)):
        pair = (np.full(4, left), np.full(4, right))
        assert np.array_equal(graphed(pair, factor), pair[0] * factor + pair[1])
    assert graphed.captures == 2


@pytest.mark.parametrize("warmup", [0, 1, 3])
def test_warmup_runs_as_often_as_asked(warmup: int) -> None:
    """None at all too; the capture itself calls the function once more."""
    calls: list[int] = []

    def body(x: Any) -> Any:
        calls.append(1)
        return x + 1

    graphed = graphcap.make_graphed_callable(body, device="cpu", warmup=warmup)
    for _ in range(3):
        assert (graphed(np.ones(2)) == 2.0).all()
    assert len(calls) == warmup + 1


def test_dropped_kinds_are_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that sees ever new values does not keep them all; a recent one is still told of."""
    monkeypatch.setattr(_callables, "_REMEMBERED", 3)
    graphed = graphcap.make_graphed_callable(lambda x, key: x + 1, device="cpu", max_graphs=1, warmup=0)
    x = np.ones(2)
    with pytest.warns(
        graphcap.GraphcapWarning, match=r"captured 10 times in 10 calls \(argument 1: 8 -> 9\).*parameter"
    ):
        for key in range(20):
            graphed(x, key)
    assert len(graphed._dropped) == 3
    with pytest.warns(graphcap.GraphcapWarning, match="captured again"):
        graphed(x, 18)


def test_does_not_grow() -> None:
    """Bytes handed out stay the same over many calls of alternating kinds."""
    graphed = graphcap.make_graphed_callable(chain, device="cpu")
    inputs = [(np.ones(n), np.ones(n)) for n in (10, 20, 3000)]
    for given_inputs in inputs * 3:
        graphed(*given_inputs)
    before = graphcap.memory_stats("cpu")["reserved_bytes.current"], graphcap.memory_stats("cpu")["blocks.current"]
    for given_inputs in inputs * 200:
        graphed(*given_inputs)
    after = graphcap.memory_stats("cpu")["reserved_bytes.current"], graphcap.memory_stats("cpu")["blocks.current"]
    assert before == after
    assert graphed.captures == 3


@given(
    shape=st.sampled_from([(3,), (2, 2), ()]),
    dtype=st.sampled_from(["f4", "f8", "i4", "c8"]),
    scale=st.sampled_from([1, 2.5, -0.0]),
    flag=st.booleans(),
    nest=st.sampled_from(["tuple", "list", "dict", "pair"]),
)
def test_nests_keywords_and_scalars(shape: Any, dtype: str, scale: float, flag: bool, nest: str) -> None:
    """Structure, dtype, scalars and keywords are part of the kind; the result keeps its structure."""

    def function(pair: Any, *, scale: float, flag: bool = False) -> Any:
        left, right = pair.values() if isinstance(pair, dict) else pair
        result = {"sum": left + right * scale, "flag": flag, "pair": Pair(left - right, [right])}
        return result if flag else result["sum"]

    left, right = np.full(shape, 3, dtype), np.full(shape, 2, dtype)
    pair: Any = {
        "tuple": (left, right),
        "list": [left, right],
        "dict": {"a": left, "b": right},
        "pair": Pair(left, right),
    }[nest]
    found, wanted = _graphed(function)(pair, scale=scale, flag=flag), function(pair, scale=scale, flag=flag)
    if not flag:
        found, wanted = {"sum": found}, {"sum": wanted}
    assert found.keys() == wanted.keys()
    assert np.asarray(found["sum"]).dtype == np.asarray(wanted["sum"]).dtype
    assert np.array_equal(found["sum"], wanted["sum"])
    if flag:
        assert type(found["pair"]) is Pair
        assert np.array_equal(found["pair"].right[0], right)


def _graphed(function: Any) -> Any:
    return graphcap.make_graphed_callable(function, device="cpu")


def test_numpy_scalars_are_told_apart_by_their_bits() -> None:
    """Minus zero is another kind than zero, and a NaN is found again."""
    graphed = _graphed(lambda x, s: np.copysign(x, s))
    zero, minus, nan = np.float64(0.0), np.float64(-0.0), np.float64("nan")
    for scalar, wanted in ((zero, 1.0), (minus, -1.0), (zero, 1.0)):
        assert (graphed(np.ones(2), scalar) == wanted).all()
    for _ in range(3):
        graphed(np.ones(2), nan)
    assert graphed.captures == 3


def test_copies_and_static_outputs() -> None:
    """By default results are the caller's own; static ones are overwritten by the next call."""
    one, two = np.ones(4), np.full(4, 2.0)
    copying, static = _graphed(chain), graphcap.make_graphed_callable(chain, device="cpu", outputs="static")
    first = copying(one, one)
    copying(two, two)
    assert np.array_equal(first, chain(one, one))
    first = static(one, one)
    second = static(two, two)
    assert first is second
    assert np.array_equal(np.asarray(first), chain(two, two))


def test_arrays_in_arrays_out() -> None:
    """Arrays of the namespace give arrays of the namespace; plain arrays give plain arrays."""
    graphed = _graphed(chain)
    assert type(graphed(np.ones(3), np.ones(3))) is np.ndarray
    assert isinstance(graphed(xp.ones(3), xp.ones(3)), xp.ndarray)
    assert graphed.captures == 1


def test_arguments_are_not_written() -> None:
    """Static inputs are copies: the caller's arrays stay as they were, also through warm-up and capture."""
    x, y = np.arange(3.0), np.ones(3)
    graphed = _graphed(chain)
    graphed(x, y)
    graphed(x, y)
    assert np.array_equal(x, [0.0, 1.0, 2.0])


def test_preserve_keeps_state_through_the_warm_up() -> None:
    """State that the function advances is advanced once a call."""
    state = xp.zeros(3)

    def step(x: Any) -> Any:
        state[:] = state + x
        return state * 1.0

    graphed = graphcap.make_graphed_callable(step, device="cpu", preserve=[state], warmup=3)
    results = [graphed(np.ones(3)).copy() for _ in range(3)]
    assert [float(result[0]) for result in results] == [1.0, 2.0, 3.0]


def test_decorator_and_samples() -> None:
    """With sample arguments the capture happens at once; as a decorator at the first call."""

    @graphcap.make_graphed_callable(device="cpu")
    def double(x: Any) -> Any:
        """Twice."""
        return x * 2

    assert (double.captures, double.__name__, double.__doc__) == (0, "double", "Twice.")
    assert np.array_equal(double(np.ones(2)), [2.0, 2.0])
    sampled = graphcap.make_graphed_callable(chain, [np.ones(3), np.ones(3)], device="cpu")
    assert sampled.captures == 1
    named = graphcap.make_graphed_callable(chain, sample_kwargs={"x": np.ones(3), "y": np.ones(3)}, device="cpu")
    named(x=np.ones(3), y=np.ones(3))
    assert named.captures == 1


def test_says_why_it_captured_again() -> None:
    """Which argument changed how."""
    graphed = _graphed(chain)
    graphed(np.ones(3), np.ones(3))
    assert graphed.last_capture == "first call"
    graphed(np.ones(3), np.ones(3, "f4"))
    assert graphed.last_capture == "argument 1: (3,) float64 -> (3,) float32"

    def scaled(x: Any, factor: float) -> Any:
        return x * factor

    graphed = _graphed(scaled)
    graphed(np.ones(3), 1)
    graphed(np.ones(3), 1.0)
    assert graphed.last_capture == "argument 1: 1 -> 1.0"


def test_the_cache_is_bounded_and_warns_when_it_thrashes() -> None:
    """More kinds than room: the least recently used graph goes, and a warning says what to do."""
    graphed = graphcap.make_graphed_callable(chain, device="cpu", max_graphs=2)
    inputs = [(np.ones(n), np.ones(n)) for n in (1, 2, 3)]
    for given_inputs in inputs:
        graphed(*given_inputs)
    assert len(graphed.graphs) == 2
    with pytest.warns(graphcap.GraphcapWarning, match="chain is captured again .* Raise max_graphs"):
        graphed(*inputs[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for given_inputs in inputs * 3:
            assert np.array_equal(graphed(*given_inputs), chain(*given_inputs))


def test_a_value_read_names_the_users_line() -> None:
    """The forbidden call, and where it is in the function; the callable works for other inputs afterwards."""

    def peeks(x: Any, look: bool) -> Any:
        if look and x.sum() > 0:  # the line
            return x
        return x * 2

    graphed = _graphed(peeks)
    with pytest.raises(graphcap.CaptureForbiddenError, match="bool") as caught:
        graphed(np.ones(3), True)
    notes = " ".join(getattr(caught.value, "__notes__", ()))
    assert "peeks" in notes
    assert "if look and x.sum() > 0:  # the line" in notes
    assert np.array_equal(graphed(np.ones(3), False), [2.0, 2.0, 2.0])


def test_inside_a_capture_it_is_part_of_it() -> None:
    """A graphed callable called while the current stream captures records its work there."""
    graphed = _graphed(chain)
    x, y = xp.ones(3), xp.ones(3)
    with graphcap.capture("cpu") as graph:
        result = graphed(x, y)
    assert len(graph.topology().nodes) == 20
    graph.replay()
    assert np.array_equal(np.asarray(result), chain(np.ones(3), np.ones(3)))


@pytest.mark.parametrize("bad", [{"outputs": "moved"}, {"max_graphs": 0}, {"warmup": -1}])
def test_bad_options(bad: dict[str, Any]) -> None:
    """Refused where they are given."""
    with pytest.raises(ValueError, match="make_graphed_callable"):
        graphcap.make_graphed_callable(chain, device="cpu", **bad)


def test_bad_arguments() -> None:
    """Neither array nor hashable: named by its place."""
    with pytest.raises(TypeError, match=r"\[1\]\['a'\].*set.*neither an array of CPU nor hashable"):
        _graphed(chain)(np.ones(3), {"a": {1, 2}})
    with pytest.raises(TypeError, match="expected a function"):
        graphcap.make_graphed_callable(3, device="cpu")  # type: ignore[call-overload]  # on purpose


def test_dropping_it_gives_everything_back() -> None:
    """Graphs, static inputs and pool go with the callable."""
    gc.collect()
    graphcap.empty_cache("cpu")
    before = graphcap.memory_stats("cpu")["blocks.current"]
    graphed = _graphed(chain)
    graphed(np.ones(300_000), np.ones(300_000))
    assert graphcap.memory_stats("cpu")["blocks.current"] > before
    del graphed
    gc.collect()
    assert graphcap.memory_stats("cpu")["blocks.current"] == before
