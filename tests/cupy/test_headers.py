"""CuPy's texts that lean on headers of others: its special functions of complex numbers, and CUB's reductions of a block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.special


def points() -> Any:
    draw = np.random.default_rng(3)
    return draw.uniform(0.2, 4, 60) + 1j * draw.uniform(-4, 4, 60)


@pytest.mark.parametrize("name", ["lambertw", "digamma"])
def test_special_functions_of_complex_numbers(cp: Any, name: str) -> None:
    import cupyx.scipy.special

    z = points()
    out = getattr(cupyx.scipy.special, name)(cp.asarray(z))
    np.testing.assert_allclose(cp.asnumpy(out), getattr(scipy.special, name)(z), rtol=1e-13)


@pytest.mark.parametrize("name", ["sici", "shichi"])
def test_special_functions_with_two_complex_results(cp: Any, name: str) -> None:
    import cupyx.scipy.special

    z = points()
    results = getattr(cupyx.scipy.special, name)(cp.asarray(z))
    for out, wanted in zip(results, getattr(scipy.special, name)(z), strict=True):
        np.testing.assert_allclose(cp.asnumpy(out), wanted, rtol=1e-12)


@pytest.fixture
def block_reductions(cp: Any) -> Iterator[None]:
    """CuPy's reductions by CUB's block-wide algorithms, which its own settings for these tests turn off."""
    core = cp._core
    routines, reductions = core.get_routine_accelerators(), core.get_reduction_accelerators()
    core.set_routine_accelerators([])
    core.set_reduction_accelerators(["cub"])
    yield
    core.set_routine_accelerators(routines)
    core.set_reduction_accelerators(reductions)


@pytest.mark.usefixtures("block_reductions")
@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.int64])
def test_reductions_by_block(cp: Any, dtype: Any) -> None:
    draw = np.random.default_rng(4)
    given = (draw.standard_normal((7, 3000)) * 50).astype(dtype)
    if np.dtype(dtype).kind == "c":
        given = given * (1 + 0.5j)
    array = cp.asarray(given)
    rtol = 1e-4 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(cp.asnumpy(array.sum(axis=1)), given.sum(axis=1), rtol=rtol)
    np.testing.assert_allclose(cp.asnumpy(array.sum()), given.sum(), rtol=rtol)
    np.testing.assert_array_equal(cp.asnumpy(array.max(axis=1)), given.max(axis=1))
    np.testing.assert_array_equal(cp.asnumpy(array.argmin(axis=1)), given.argmin(axis=1))


@pytest.mark.filterwarnings("ignore:cupyx.jit.rawkernel is experimental")  # cupyx.signal uses it as it is imported
@pytest.mark.parametrize(("taps", "dtype"), [(7, np.float64), (14, np.complex128), (27, np.complex64)])
def test_polyphase_channelizer(cp: Any, taps: int, dtype: Any) -> None:
    """A kernel for each size of its tiles; they reduce over cooperative groups."""
    import cupyx.signal

    draw = np.random.default_rng(5)
    channels, points_each = 12, 40
    x = draw.standard_normal(channels * points_each).astype(dtype)
    h = draw.standard_normal(channels * taps).astype(dtype)
    if np.dtype(dtype).kind == "c":
        x, h = x * (1 + 0.3j), h * (0.5 - 1j)
    out = cp.asnumpy(cupyx.signal.channelize_poly(cp.asarray(x), cp.asarray(h), channels))
    # Each channel is filtered on its own, the last one first, and a Fourier transform goes over the channels.
    signal, filters = x.reshape(points_each, channels)[:, ::-1], h.reshape(taps, channels)
    filtered = [np.convolve(np.conj(signal[:, c]), np.conj(filters[:, c]))[:points_each] for c in range(channels)]
    wanted = np.conj(np.fft.fft(np.array(filtered), axis=0))
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4 if dtype is np.complex64 else 1e-11)
