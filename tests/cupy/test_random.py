"""``cupy.random`` on the random number stand-in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.standins.interface import reseed

N = 20_000

LAWS: list[tuple[str, dict[str, Any], Any]] = [
    ("random_sample", {}, stats.uniform()),
    ("uniform", {"low": -2, "high": 3}, stats.uniform(-2, 5)),
    ("standard_normal", {}, stats.norm()),
    ("normal", {"loc": 3, "scale": 0.5}, stats.norm(3, 0.5)),
    ("lognormal", {"mean": 0.2, "sigma": 0.6}, stats.lognorm(0.6, scale=np.exp(0.2))),
    ("exponential", {"scale": 2}, stats.expon(scale=2)),
    ("gumbel", {"loc": 1, "scale": 2}, stats.gumbel_r(1, 2)),
    ("laplace", {}, stats.laplace()),
    ("logistic", {}, stats.logistic()),
    ("gamma", {"shape": 2.5}, stats.gamma(2.5)),
    ("beta", {"a": 2, "b": 3}, stats.beta(2, 3)),
]


@pytest.fixture
def state(cp: Any) -> Any:
    return cp.random.RandomState(11)


@pytest.mark.parametrize(("name", "arguments", "law"), LAWS, ids=[name for name, _, _ in LAWS])
def test_distributions(cp: Any, state: Any, name: str, arguments: dict[str, Any], law: Any) -> None:
    x = cp.asnumpy(getattr(state, name)(size=N, **arguments)).astype(float)
    assert stats.kstest(x, law.cdf).pvalue > 1e-3
    assert abs(x.mean() - law.mean()) < 5 * law.std() / N**0.5
    assert abs(x.var() / law.var() - 1) < 0.15


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["random_sample", "standard_normal"])
def test_both_precisions_and_odd_sizes(cp: Any, state: Any, name: str, dtype: Any) -> None:
    size = None if name == "" else (7, 11)
    x = getattr(state, name)(size=size, dtype=dtype)
    assert (x.shape, x.dtype) == ((7, 11), dtype)
    assert len(np.unique(cp.asnumpy(x))) == 77
    if name == "random_sample":
        assert 0 <= float(x.min()) <= float(x.max()) < 1


def test_integers(cp: Any, state: Any) -> None:
    x = cp.asnumpy(state.randint(-3, 9, N))
    assert stats.chisquare(np.bincount(x + 3, minlength=12)).pvalue > 1e-3
    wide = cp.asnumpy(state.randint(0, 2**40, 1000, dtype=np.int64))
    assert wide.max() > 2**38
    poisson = cp.asnumpy(state.poisson(4.0, N))
    assert abs(poisson.mean() - 4) < 5 * (4 / N) ** 0.5


def test_permutations_and_choices(cp: Any, state: Any) -> None:
    order = cp.asnumpy(state.permutation(500))
    np.testing.assert_array_equal(np.sort(order), np.arange(500))
    assert (order != np.arange(500)).sum() > 450
    x = cp.arange(100)
    state.shuffle(x)
    np.testing.assert_array_equal(np.sort(cp.asnumpy(x)), np.arange(100))
    picked = cp.asnumpy(state.choice(50, 50, replace=False))
    np.testing.assert_array_equal(np.sort(picked), np.arange(50))


def test_a_seed_repeats_and_another_does_not(cp: Any) -> None:
    def draw(seed: int) -> list[Any]:
        cp.random.seed(seed)
        return [
            cp.asnumpy(x)
            for x in (cp.random.rand(5), cp.random.randn(6), cp.random.randint(0, 1000, 7), cp.random.rand(3))
        ]

    for one, two, other in zip(draw(5), draw(5), draw(6), strict=True):
        np.testing.assert_array_equal(one, two)
        assert (one != other).any()


def test_draws_go_by_the_order_of_the_current_stream(cp: Any, seeds: range) -> None:
    """A draw between two kernels of a stream lies between them, under every order of work."""
    expected = None
    for seed in seeds:
        reseed(seed)
        state, stream = cp.random.RandomState(3), cp.cuda.Stream(non_blocking=True)
        with stream:
            x = state.random_sample(1000, dtype=np.float32)
            y = x * 2
            x[...] = state.random_sample(1000, dtype=np.float32)
            z = x + y
        got = cp.asnumpy(z, stream=stream)
        assert expected is None or (got == expected).all()
        expected = got


def test_cupy_itself_refuses_to_draw_in_a_capture(cp: Any) -> None:
    stream = cp.cuda.Stream(non_blocking=True)
    cp.random.rand(3)
    with stream:
        stream.begin_capture()
        with pytest.raises(NotImplementedError, match="cuRAND API during stream capture"):
            cp.random.rand(3)
        stream.end_capture()


@pytest.mark.usefixtures("emulated")
def test_the_bit_generators_refuse(cp: Any) -> None:
    """They carry NVIDIA's device-side generators, for which there is no stand-in."""
    with pytest.raises((NotImplementedError, RuntimeError)):
        cp.random.default_rng(1).random(3)
