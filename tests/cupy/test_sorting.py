"""CuPy's sorting, and what builds on it, on the stand-in for Thrust; reductions and scans on the stand-in for CUB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.emulated_device import control
from tests.standins.interface import letters, reseed

Array = np.ndarray[Any, Any]

DTYPES = "?bHlefdFD"  # the C interface is tested with all of them


def arrays(dtypes: str = DTYPES, min_dims: int = 1, max_dims: int = 3, max_side: int = 30, nan: bool = True) -> Any:
    """Arrays with repeated values, nans and infinities."""

    def of(letter: str) -> Any:
        dtype = np.dtype(letter)
        special = [0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, *([np.nan] if nan else [])]
        if dtype.kind == "f":
            elements = st.sampled_from(special) | hnp.from_dtype(dtype, allow_nan=nan)
        elif dtype.kind == "c":
            part = st.sampled_from(special)
            elements = st.builds(complex, part, part)
        else:
            elements = hnp.from_dtype(dtype)
        return hnp.arrays(
            dtype, hnp.array_shapes(min_dims=min_dims, max_dims=max_dims, max_side=max_side), elements=elements
        )

    return st.sampled_from(dtypes).flatmap(of)


def same(cp: Any, got: Any, expected: Any) -> None:
    np.testing.assert_array_equal(cp.asnumpy(got), expected)


@settings(max_examples=50)
@given(x=arrays(), data=st.data())
def test_sort_and_argsort(cp: Any, x: Array, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    reseed(data.draw(st.integers(0, 50)))
    d = cp.asarray(x)
    same(cp, cp.sort(d, axis=axis), np.sort(x, axis=axis))
    same(cp, cp.argsort(d, axis=axis), np.argsort(x, axis=axis, kind="stable"))
    same(cp, d, x)
    d.sort(axis=axis)
    same(cp, d, np.sort(x, axis=axis))
    reseed(0)


@settings(max_examples=30)
@given(x=arrays("bHlefD", min_dims=2, max_dims=2, max_side=12))
def test_lexsort(cp: Any, x: Array) -> None:
    same(cp, cp.lexsort(cp.asarray(x)), np.lexsort(x))


@settings(max_examples=40)
@given(x=arrays("ld", nan=False, max_dims=1, max_side=60))
def test_unique(cp: Any, x: Array) -> None:
    for got, expected in zip(
        cp.unique(cp.asarray(x), return_index=True, return_inverse=True, return_counts=True),
        np.unique(x, return_index=True, return_inverse=True, return_counts=True),
        strict=True,
    ):
        same(cp, got, expected)


@pytest.mark.parametrize("dtype", letters("efd", "d"))
@pytest.mark.parametrize("shape", [(1,), (10,), (3, 4, 5)])
def test_medians_and_quantiles(cp: Any, dtype: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    d, eps = cp.asarray(x), 4 * float(np.finfo(dtype).eps)
    for axis in (None, *range(x.ndim)):
        np.testing.assert_allclose(cp.asnumpy(cp.median(d, axis=axis)), np.median(x, axis=axis), rtol=eps, atol=eps)
        if dtype != "e":
            for q in (0, 10, 50, 87.5, 100):
                got = cp.asnumpy(cp.percentile(d, q, axis=axis))
                np.testing.assert_allclose(got, np.percentile(x, q, axis=axis), rtol=1e-5, atol=1e-6)
    x.flat[-1] = np.nan
    assert np.isnan(cp.asnumpy(cp.median(cp.asarray(x))))
    np.testing.assert_allclose(
        cp.asnumpy(cp.nanmedian(cp.asarray(x))), np.nanmedian(x) if x.size > 1 else np.nan, rtol=eps
    )


@pytest.mark.parametrize("dtype", letters("bHilefdFD", "lfD"))
@pytest.mark.parametrize(("n", "kth"), [(1, 0), (20, 7), (500, 3), (5000, 40), (5000, 4999)])
def test_partition(cp: Any, dtype: str, n: int, kth: int) -> None:
    x = (np.random.default_rng(2).standard_normal(n) * 50).astype(dtype)
    part = cp.asnumpy(cp.partition(cp.asarray(x), kth))
    ordered = np.sort(x)
    assert part[kth] == ordered[kth]
    np.testing.assert_array_equal(np.sort(part[:kth]), ordered[:kth])
    np.testing.assert_array_equal(np.sort(part), ordered)
    index = cp.asnumpy(cp.argpartition(cp.asarray(x), kth))
    np.testing.assert_array_equal(np.sort(x[index[:kth]]), ordered[:kth])


def test_what_goes_with_sorting(cp: Any) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 30, 200), rng.integers(0, 30, 50)
    dx, dy = cp.asarray(x), cp.asarray(y)
    for name in ("intersect1d", "setdiff1d", "union1d", "setxor1d", "isin"):
        same(cp, getattr(cp, name)(dx, dy), getattr(np, name)(x, y))
    same(cp, cp.searchsorted(cp.sort(dx), dy), np.searchsorted(np.sort(x), y))
    same(cp, cp.digitize(dx, cp.arange(0, 30, 7)), np.digitize(x, np.arange(0, 30, 7)))
    same(cp, cp.histogram(dx, 10)[0], np.histogram(x, 10)[0])
    same(cp, cp.bincount(dx), np.bincount(x))
    same(cp, cp.sort_complex(dx), np.sort_complex(x))
    same(cp, cp.argwhere(dx > 20), np.argwhere(x > 20))


def test_rows_beyond_a_launch(cp: Any) -> None:
    x = np.random.default_rng(4).integers(0, 99, (3000, 5)).astype(np.int16)
    same(cp, cp.sort(cp.asarray(x)), np.sort(x))
    same(cp, cp.argsort(cp.asarray(x)), np.argsort(x, kind="stable"))


def test_sorting_goes_by_the_order_of_the_current_stream(cp: Any, seeds: range) -> None:
    for seed in seeds:
        reseed(seed)
        x, stream = np.random.default_rng(seed).standard_normal(500), cp.cuda.Stream(non_blocking=True)
        with stream:
            d = cp.asarray(x)
            d *= -1
            e = cp.sort(d)
            d += 1
            f = cp.sort(d) - e
        np.testing.assert_allclose(cp.asnumpy(f, stream=stream), np.ones(500), rtol=1e-12)


def test_a_captured_sort_sorts_what_is_there_at_the_replay(cp: Any, seeds: range) -> None:
    """By CuPy's own graphs; the scratch memory comes from CuPy's pool, for that stream."""
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        x = cp.zeros((3, 40), np.float32)
        warm = cp.sort(x), cp.argsort(x, axis=0)
        del warm
        stream.synchronize()
        stream.begin_capture()
        y = cp.sort(x * 2)
        z = cp.argsort(x, axis=0)
        graph = stream.end_capture()
        for seed in seeds:
            reseed(seed)
            values = np.random.default_rng(seed).standard_normal((3, 40)).astype(np.float32)
            x.set(values)
            graph.launch(stream)
            stream.synchronize()
            same(cp, y, np.sort(values * 2))
            same(cp, z, np.argsort(values, axis=0, kind="stable"))


def test_a_sort_in_a_capture_of_graphcap(cp: Any, seeds: range) -> None:
    """The scratch memory of the sort lies in the graph's pool, and CuPy's pool is as it was."""
    import graphcap

    x = cp.zeros(300, np.float64)
    cp.sort(x)
    before = cp.get_default_memory_pool().total_bytes()
    with graphcap.capture("cuda") as graph:
        y = cp.sort(x) + cp.sort(-x)
    assert cp.get_default_memory_pool().total_bytes() == before
    for seed in seeds:
        reseed(seed)
        values = np.random.default_rng(seed).standard_normal(300)
        x.set(values)
        graph.replay()
        graphcap.synchronize("cuda")
        np.testing.assert_allclose(cp.asnumpy(y), np.sort(values) + np.sort(-values), rtol=1e-12, atol=1e-12)


# --- CUB, which CuPy uses when told to --------------------------------------------------------------------------------------


@pytest.fixture
def cub(cp: Any) -> Iterator[Any]:
    """CuPy with the accelerator "cub" for whole routines."""
    before = cp._core.get_routine_accelerators()
    cp._core.set_routine_accelerators(["cub"])
    yield cp
    cp._core.set_routine_accelerators(before)


@pytest.mark.parametrize("dtype", letters("bBhHiIlLefdFD", "lD"))
@pytest.mark.parametrize("shape", [(1000,), (4, 5, 6)])
def test_reductions_by_cub(cub: Any, dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    x = (rng.standard_normal(shape) * (3 if dtype in "bBhHiIlL" else 1)).astype(dtype)
    if dtype in "FD":
        x = x + (1j * rng.standard_normal(shape)).astype(dtype)
    x, wide = x.astype(dtype), x.astype({"c": "D", "f": "d"}.get(np.dtype(dtype).kind, dtype))
    for order in "C" if x.ndim == 1 else "CF":
        d = cub.asarray(x, order=order)
        for axis in (None, 0, -1):
            for name in ("sum", "max", "min", "prod"):
                if name == "prod" and (x.size > 100 or dtype in "bBhH"):
                    continue
                got, expected = getattr(cub, name)(d, axis=axis), getattr(np, name)(wide, axis=axis)
                eps = 40 * float(np.finfo(dtype).eps) if dtype in "efdFD" else 1e-12
                np.testing.assert_allclose(cub.asnumpy(got), expected, rtol=eps, atol=eps * max(1, np.abs(wide).sum()))
        assert int(d.argmax()) == x.argmax()
        assert int(d.argmin()) == x.argmin()
        eps = 100 * float(np.finfo(dtype).eps) if dtype in "efdFD" else 0
        np.testing.assert_allclose(cub.asnumpy(cub.cumsum(d)), np.cumsum(wide), rtol=eps, atol=eps * 10)


def test_products_that_overflow_by_cub(cub: Any) -> None:
    """Kept in their own type, so an infinity on the way becomes nan in a complex product, as in NumPy's."""
    rng = np.random.default_rng(7)
    for dtype in ("f", "F"):
        x = (rng.random((3, 200)) * 10 + 1).astype(dtype)
        if dtype == "F":
            x = x + (1j * rng.random(x.shape) * 10).astype(dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            expected = x.prod(axis=1)
        assert not np.isfinite(expected).any()
        np.testing.assert_array_equal(cub.asnumpy(cub.asarray(x).prod(axis=1)), expected)


def test_histograms_by_cub(cub: Any) -> None:
    x = np.random.default_rng(6).integers(0, 40, 500)
    same(cub, cub.bincount(cub.asarray(x)), np.bincount(x))
    for kind in ("i", "f", "d"):
        same(cub, cub.histogram(cub.asarray(x.astype(kind)), 8)[0], np.histogram(x.astype(kind), 8)[0])


@pytest.mark.usefixtures("emulated")
def test_cub_is_what_did_it(cub: Any) -> None:
    """One launch of ours, and no kernel of CuPy's own."""
    x = cub.ones(1000)
    cub.cuda.runtime.deviceSynchronize()
    control.clear_calls()
    x.sum()
    names = [call.name for call in control.calls()]
    assert names.count("cuLaunchKernel") == 1
    assert "cuModuleLoadData" not in names


def test_cubs_blocks_as_kernel_text(cp: Any) -> None:
    """CuPy's own kernels that use a part of CUB, which the kernel library has."""
    x = np.random.default_rng(7).standard_normal((40, 30))
    before = cp._core.get_reduction_accelerators()
    cp._core.set_reduction_accelerators(["cub"])
    try:
        d = cp.asarray(x)
        for axis in (None, 1):
            np.testing.assert_allclose(cp.asnumpy(d.sum(axis=axis)), x.sum(axis=axis), rtol=1e-12)
            np.testing.assert_array_equal(cp.asnumpy(d.max(axis=axis)), x.max(axis=axis))
    finally:
        cp._core.set_reduction_accelerators(before)
