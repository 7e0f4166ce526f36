"""Every recorded function and method, captured and replayed, against NumPy."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.backends.cpu.array._dispatch import RECORDED_NAMES, find

from .harness import check, make_stream, same, xp
from .samples import FUNCTIONS, METHODS, operands

pytestmark = pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")

INPUTS = [operands(seed) for seed in (1, 2, 3)]


def calls(text: str) -> list[str]:
    return [part.strip() for part in text.split(";")]


def in_namespace(name: str) -> Any:
    found = xp
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


CASES = [(name, call) for name, text in FUNCTIONS.items() if find(name) is not None for call in calls(text)]
METHOD_CASES = [(name, call) for name, text in METHODS.items() if hasattr(np.ndarray, name) for call in calls(text)]


@pytest.mark.filterwarnings("ignore::graphcap.EmptyGraphWarning")
@pytest.mark.parametrize(("name", "call"), CASES)
def test_function_is_recorded_with_numpy_s_bits(name: str, call: str) -> None:
    function = find(name)

    def program(module: Any, arrays: dict[str, Any]) -> Any:
        return eval(call, {"f": function, "np": np}, arrays)

    check(program, INPUTS)


@pytest.mark.filterwarnings("ignore::graphcap.EmptyGraphWarning")
@pytest.mark.parametrize(("name", "call"), [case for case in CASES if not case[0].startswith("lib.")])
def test_function_of_the_namespace(name: str, call: str) -> None:
    own = in_namespace(name)

    def program(module: Any, arrays: dict[str, Any]) -> Any:
        return eval(call, {"f": find(name) if module is np else own, "np": np}, arrays)

    check(program, INPUTS[:2], xp)


@pytest.mark.filterwarnings("ignore::graphcap.EmptyGraphWarning")
@pytest.mark.parametrize(("name", "call"), METHOD_CASES)
def test_method_is_recorded_with_numpy_s_bits(name: str, call: str) -> None:
    def program(module: Any, arrays: dict[str, Any]) -> Any:
        return eval(call, {"np": np}, arrays)

    check(program, INPUTS)


@pytest.mark.parametrize(("name", "call"), CASES + METHOD_CASES)
def test_eager_call_gives_what_numpy_gives(name: str, call: str) -> None:
    plain = operands(7)
    arrays: dict[str, Any] = {key: xp.asarray(data.copy("K")) for key, data in plain.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = eval(call, {"f": find(name), "np": np}, arrays)
        same(found, eval(call, {"f": find(name), "np": np}, plain))


def test_samples_cover_what_is_recorded() -> None:
    assert set(RECORDED_NAMES) == set(FUNCTIONS)


def test_an_operand_may_be_a_keyword_argument() -> None:
    def program(module: Any, arrays: dict[str, Any]) -> Any:
        a = arrays["a"]
        return np.sum(a=a), np.transpose(a=a), np.stack(arrays=[a, a]), np.median(a=a)

    check(program, INPUTS)


def test_nothing_is_computed_at_capture() -> None:
    a = xp.asarray(np.arange(4.0))
    with graphcap.capture("cpu") as graph:
        b = a + 1
        a *= 3
    assert np.asarray(a).tolist() == [0, 1, 2, 3]
    graph.replay()
    assert np.asarray(b).tolist() == [1, 2, 3, 4]
    assert np.asarray(a).tolist() == [0, 3, 6, 9]


def test_plain_operands_and_outputs_by_reference() -> None:
    plain, total = np.arange(3.0), np.zeros(3)
    a = xp.asarray(np.ones(3))
    with graphcap.capture("cpu") as graph:
        total += a
        out = np.multiply(plain, a * 2, out=total)
        assert out is total
        left = plain + a
        scaled = np.float64(3) * a
    plain[...] = [5, 6, 7]
    graph.replay()
    assert total.tolist() == [10, 12, 14]
    assert np.asarray(left).tolist() == [6, 7, 8]
    assert np.asarray(scaled).tolist() == [3, 3, 3]


def test_setting_the_shape_of_an_array() -> None:
    a = xp.asarray(np.arange(6.0))
    with graphcap.capture("cpu") as graph:
        b = a + 1
        b.shape = (2, -1)
        c = b.sum(axis=0)
        with pytest.raises(AttributeError):
            b.T.shape = (6,)
    graph.replay()
    assert np.asarray(c).tolist() == [5, 7, 9]


def test_rules_for_bins_are_refused() -> None:
    a = xp.asarray(np.arange(6.0))
    with graphcap.capture("cpu") as graph:
        with pytest.raises(graphcap.CaptureForbiddenError, match="bins"):
            np.histogram(a, bins="auto")
        counts, _ = np.histogram(a, bins=3)
    graph.replay()
    assert np.asarray(counts).tolist() == [2, 2, 2]


def test_two_threads_capture_at_once() -> None:
    def work(seed: int) -> list[float]:
        data = np.random.default_rng(seed).normal(size=50)
        a = xp.asarray(data)
        graph = graphcap.Graph("cpu")
        with make_stream("cpu"), graph:
            out = a
            for _ in range(50):
                out = np.sin(out) + a
        graph.replay()
        found: list[float] = np.asarray(out).tolist()
        want = data
        for _ in range(50):
            want = np.sin(want) + data
        assert found == want.tolist()
        return found

    with ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(work, range(8)))) == 8
