"""Parameters in array programs of the CPU: every use gives what NumPy gives with the plain number, bit by bit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphcap
from graphcap.backends.cpu.native import thresholds, walker

xp = graphcap.array_namespace("cpu")
DTYPES = ("f4", "f8", "i1", "i4", "u2", "c8", "f2")


@pytest.fixture(params=["python", "native"], autouse=True)
def replay(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test on both replays."""
    if request.param == "python":
        monkeypatch.setenv("GRAPHCAP_CPU_REPLAY", "python")
    elif walker() is None:
        pytest.skip("the native replay's extension was not built")


def ways(u: Any, a: Any, n: Any, ns: Any) -> list[tuple[str, Callable[[], Any]]]:
    """Uses of a float parameter and an integer one, by name; `ns` is the namespace."""

    def assigned() -> Any:
        out = ns.zeros(4, "f4")
        out[:2] = a
        out[np.array([3])] = n
        return out

    def cut() -> Any:
        out = ns.zeros(3, "i4")
        out[...] = a * 100
        return out

    def in_place() -> Any:
        out = u * 1
        out += n
        return out

    def masked() -> Any:
        out = u * 1
        out[u > 1] = n
        return out

    return [
        ("add", lambda: u + a),
        ("reflected", lambda: a * u),
        ("subtract from", lambda: n - u),
        ("integer", lambda: u * n),
        ("power", lambda: u**n),
        ("compare", lambda: u > a),
        ("compare reflected", lambda: a > u),
        ("minus", lambda: -a + u),
        ("expression", lambda: u * (a * 2 + n)),
        ("function of it", lambda: np.sqrt(abs(a)) * u),
        ("own type", lambda: np.float32(2) * a + u),
        ("divide", lambda: u / n),
        ("where", lambda: ns.where(u > 2, a, u)),
        ("where of numbers", lambda: ns.where(u > 2, n, a)),
        ("clip", lambda: ns.clip(u, 0, n)),
        ("full", lambda: ns.full(3, a)),
        ("full of a type", lambda: ns.full((2, 2), n, dtype="f4")),
        ("dtype=", lambda: np.add(u, a, dtype=np.result_type(u.dtype, "c16"))),
        ("where=", lambda: np.add(u, n, where=u > 1, out=ns.zeros(u.shape, np.result_type(u.dtype, "f8")))),
        ("out=", lambda: np.multiply(u, a, out=ns.zeros(u.shape, np.result_type(u.dtype, "c16")))),
        ("outer", lambda: np.add.outer(u, a)),
        ("assigned", assigned),
        ("cut", cut),
        ("in place", in_place),
        ("masked", masked),
        ("interp", lambda: np.interp(ns.ones(3), [0, 2], [0, 1]) * a),
        ("chain", lambda: ((u + a) * n - a) * a),
    ]


NAMES = [name for name, _ in ways(np.ones(1), 1.0, 1, np)]


def captured(name: str, dtype: str, a: Any, n: Any) -> tuple[Any, Any]:
    """The graph and the result of one way, or the exception in both places."""
    u = xp.asarray(np.arange(5).astype(dtype))
    with graphcap.capture("cpu") as graph:
        result = dict(ways(u, a, n, xp))[name]()
    return graph, result


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_way_and_type(name: str, dtype: str) -> None:
    """Type and bits as with the plain number, for several numbers in turn; or NumPy's own error."""
    a, n = graphcap.parameter(0.5, name="a"), graphcap.parameter(2, name="n")
    plain = np.arange(5).astype(dtype)
    try:
        dict(ways(plain, 0.5, 2, np))[name]()
    except (TypeError, ValueError, OverflowError) as error:
        with pytest.raises(type(error)):
            captured(name, dtype, a, n)
        return
    graph, result = captured(name, dtype, a, n)
    for av, nv in ((0.5, 2), (1.25, 3), (-2.0, 1)):
        if plain.dtype.kind == "u" and av < 0:
            continue
        with np.errstate(all="ignore"):
            a.value, n.value = av, nv
            graph.replay()
            wanted = dict(ways(plain, av, nv, np))[name]()
            eager = dict(ways(xp.asarray(plain), a, n, xp))[name]()
        for found in (np.asarray(result), np.asarray(eager)):
            assert found.dtype == wanted.dtype
            assert np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(wanted).tobytes()


@given(
    values=st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=5),
    steps=st.lists(st.sampled_from(["add", "sub", "mul", "max", "new"]), min_size=1, max_size=20),
    size=st.sampled_from([1, 7, 300, 20_000]),
)
@settings(max_examples=25)
def test_chains(values: list[float], steps: list[str], size: int) -> None:
    """Long and short chains, with two parameters, in strips and call by call."""

    def program(x: Any, p: Any, q: Any) -> Any:
        for step in steps:
            if step == "add":
                x = x + p
            elif step == "sub":
                x = q - x
            elif step == "mul":
                x = x * (p - q)
            elif step == "max":
                x = np.maximum(x, q)
            else:
                x = x * x + p
        return x

    p, q = graphcap.parameter(1.0), graphcap.parameter(np.float32(0.5))
    start = np.linspace(0, 1, size, dtype="f4")
    with np.errstate(all="ignore"):
        with graphcap.capture("cpu") as graph:
            result = program(xp.asarray(start), p, q)
        for value in values:
            p.value, q.value = value, value / 2
            graph.replay()
            assert np.asarray(result).tobytes() == program(start, value, np.float32(value / 2)).tobytes()


def test_kernels_get_numbers() -> None:
    """A Python callable sees a plain number of the right type at each replay, by position and by name."""
    seen: list[Any] = []
    a = graphcap.parameter(1.5, name="a")
    n = graphcap.parameter(np.int16(3), name="n")
    graph = graphcap.Graph("cpu", keep_graph=True)
    stream: Any = graphcap.Stream("cpu")
    with stream, graph:
        stream.launch(lambda x, y, *, z: seen.append((x, y, z)), a, [1, (n + np.int16(1),)], z=a * 2)
    graph.replay()
    graph.replay(inputs={"a": 2, "n": 4})
    assert seen == [(1.5, [1, (4,)], 3.0), (2.0, [1, (5,)], 4.0)]
    assert [type(x) for x in seen[0]] == [float, list, float]
    assert type(seen[0][1][1][0]) is np.int16
    assert graph.topology().nodes[0].params["parameters"] == ("a", "(a * 2)")


def test_only_the_cell_changes() -> None:
    """Nodes of one capture share a cell for one type: twenty nodes, one place, and native replay stays native."""
    a = graphcap.parameter(0.5, name="a")
    with graphcap.capture("cpu") as graph:
        x = xp.ones(100)
        for _ in range(20):
            x = x * a
    impl: Any = graph.impl
    assert len(impl.parameters.uses) == 1
    graph.replay(inputs={"a": 1.0})
    assert (np.asarray(x) == 1.0).all()


def test_large_arrays_on_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strips on two threads read the value of their own replay."""
    monkeypatch.setenv("GRAPHCAP_CPU_THREADS", "2")
    a = graphcap.parameter(0.0, name="a")
    size = 4 * thresholds.STRIP_BYTES
    with graphcap.capture("cpu") as graph:
        y = (xp.ones(size) + a) * a
    for value in range(5):
        graph.replay(inputs={"a": value})
        assert (np.asarray(y) == (1.0 + value) * value).all()


def test_replays_on_two_threads_never_mix() -> None:
    """Whatever value a replay has, all of its nodes have it."""
    a = graphcap.parameter(0.0, name="a")
    bad: list[Any] = []

    def look(x: Any, y: Any) -> None:
        if len({float(x[0]), float(y[-1]), float(x[-1])}) != 1:
            bad.append((x[0], y[-1]))

    graph = graphcap.Graph("cpu")
    stream: Any = graphcap.Stream("cpu")
    with stream, graph:
        x = xp.zeros(200_000) + a
        y = xp.zeros(200_000) + a
        stream.launch(look, x, y)

    def work(start: int) -> None:
        for value in range(start, start + 50):
            graph.replay(inputs={"a": value})

    threads = [threading.Thread(target=work, args=(1000 * i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not bad


def test_plain_arrays_are_a_value_read_in_a_capture() -> None:
    """``ndarray * parameter`` would compute now; so would CuPy-like arithmetic. Outside it does."""
    a = graphcap.parameter(2.0, name="a")
    assert (np.ones(3) * a == 2.0).all()
    assert (a * np.ones(3) == 2.0).all()
    with graphcap.Stream("cpu"), graphcap.Graph("cpu") as graph:
        with pytest.raises(graphcap.CaptureForbiddenError, match="multiply"):
            np.ones(3) * a
        with pytest.raises(graphcap.CaptureForbiddenError, match="asarray"):
            np.asarray(a)
        xp.ones(3) * a
    graph.reset()


@pytest.mark.parametrize(
    "use",
    [
        lambda x, a, n: xp.linspace(0, a, 3),
        lambda x, a, n: xp.arange(0, 3, a),
        lambda x, a, n: xp.asarray([a, a]),
        lambda x, a, n: xp.zeros(n),
        lambda x, a, n: x.reshape(n, 1),
        lambda x, a, n: x[n],
        lambda x, a, n: x[n:],
        lambda x, a, n: x.sum(axis=n),
        lambda x, a, n: np.add.reduce(x, initial=a),
        lambda x, a, n: graphcap.allocate(n, device="cpu"),
        lambda x, a, n: x.item(n),
    ],
)
def test_no_use_bakes_the_number_unseen(use: Any) -> None:
    """What cannot be changed later is refused by name; outside a capture it is the number."""
    a, n = graphcap.parameter(1.5, name="a"), graphcap.parameter(1, name="n")
    x = xp.arange(1.0)
    graph = graphcap.Graph("cpu")
    with graphcap.Stream("cpu"), graph:
        with pytest.raises((graphcap.CaptureForbiddenError, TypeError)):
            use(x, a, n)
        x * a
    graph.reset()


def test_the_first_replay_sees_a_change_made_since_the_capture() -> None:
    """Without any replay in between."""
    a = graphcap.parameter(2.0)
    with graphcap.capture("cpu") as graph:
        y = xp.ones(2) * a
    a.value = 3.0
    graph.replay()
    assert (np.asarray(y) == 3.0).all()


@pytest.mark.parametrize(
    ("value", "dtype", "bad", "error"),
    [
        (1, None, 2.5, TypeError),
        (True, None, 1, TypeError),
        (1.0, None, 10**400, OverflowError),
        (1.0, None, 1j, TypeError),
        (np.int8(1), None, 128, OverflowError),
        (1, "u1", -1, OverflowError),
        (1.0, "f2", 1e6, OverflowError),
        ("1", None, 1, TypeError),
        (np.ones(1), None, 1, TypeError),
        (1, "O", 1, TypeError),
        (300, "i1", 1, OverflowError),
        (1.5, "i4", 1, TypeError),
    ],
)
def test_kinds(value: Any, dtype: Any, bad: Any, error: type[Exception]) -> None:
    """What is no number, or no number of the kind, is refused, at the making or at the setting."""
    with pytest.raises(error):
        graphcap.parameter(value, dtype=dtype).value = bad


def test_accepted_values() -> None:
    """An integer for a float, NumPy scalars, what has an ``__index__``; infinities and NaN are numbers."""
    a = graphcap.parameter(1.0)
    for value in (2, np.float32(0.5), np.int64(3), float("inf"), float("nan")):
        a.value = value
        assert type(a.value) is float
    b = graphcap.parameter(1, dtype="f4")
    b.value = 0.1
    assert b.value == np.float32(0.1)
    assert graphcap.parameter(1 + 2j).value == 1 + 2j
    with pytest.raises(TypeError, match="a string is needed"):
        graphcap.parameter(1.0, name=3)  # type: ignore[arg-type]  # on purpose


def test_expressions_that_fail() -> None:
    """Division by zero, a change of type: told with the values, and the parameter keeps its own."""
    a = graphcap.parameter(2, name="a")
    with graphcap.capture("cpu") as graph:
        y = xp.ones(2) * (1 / a)
        z = xp.ones(2, "i8") * 2**a
    with pytest.raises(ZeroDivisionError) as caught:
        a.value = 0
    assert "(1 / a) was worked out for a = 0" in " ".join(getattr(caught.value, "__notes__", ()))
    with pytest.raises(TypeError, match="it would be of type float"):
        graph.replay(inputs={"a": -1})
    assert a.value == 2
    graph.replay()
    assert (np.asarray(y) == 0.5).all()
    assert (np.asarray(z) == 4).all()


def test_comparisons_and_conversions_outside() -> None:
    """Outside a capture it is as good as its number."""
    a = graphcap.parameter(2.5, name="a")
    assert a == 2.5
    assert a != 2
    assert 2 < a <= 3
    assert (int(a), round(a), f"{a:.2f}", f"{a}", abs(-a) == a, a // 1 == 2, divmod(int(a), 2)) == (
        2, 2, "2.50", "a", True, True, (1, 0)
    )  # fmt: skip
    assert [10, 20, 30][graphcap.parameter(1)] == 20
    assert {a: 1}[a] == 1


def test_not_copied() -> None:
    """A copy would be another object, at which no graph looks."""
    import copy
    import pickle

    a = graphcap.parameter(2.5, name="a")
    for refuse in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be"):
            refuse(a)


def test_two_of_one_name() -> None:
    """Neither is reached by the name; bound by other names both are."""
    one, two = graphcap.parameter(1.0, name="k"), graphcap.parameter(2.0, name="k")
    with graphcap.capture("cpu") as graph:
        y = xp.ones(2) * one + two
    assert not graph.parameters
    with pytest.raises(ValueError, match="2 parameters of the graph have the name 'k'"):
        graph.replay(inputs={"k": 1})
    graph.bind(one=one, two=two)
    graph.replay(inputs={"one": 5, "two": 6})
    assert (np.asarray(y) == 11.0).all()
