"""``cupy.fft`` on the Fourier transform stand-in, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.standins.interface import letters, reseed

Array = np.ndarray[Any, Any]


def values(shape: Any, dtype: str, seed: int = 1) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return np.asarray(x + 1j * rng.standard_normal(shape) if dtype in "FD" else x).astype(dtype)


def close(cp: Any, got: Any, expected: Array) -> None:
    got = cp.asnumpy(got)
    assert got.shape == expected.shape
    eps = float(np.finfo(got.dtype).eps)
    np.testing.assert_allclose(got, expected, rtol=0, atol=30 * eps * max(1.0, float(np.abs(expected).max())))


@pytest.mark.parametrize("dtype", letters("fdFD", "fD"))
@pytest.mark.parametrize("n", [1, 16, 17, 30])
def test_one_axis(cp: Any, dtype: str, n: int) -> None:
    x = values((3, n), dtype)
    d = cp.asarray(x)
    for name in ("fft", "ifft"):
        for options in ({}, {"axis": 0}, {"n": n + 3}, {"norm": "ortho"}, {"norm": "forward"}):
            close(cp, getattr(cp.fft, name)(d, **options), getattr(np.fft, name)(x, **options))
    if dtype in "fd":
        close(cp, cp.fft.rfft(d), np.fft.rfft(x))
        close(cp, cp.fft.ihfft(d), np.fft.ihfft(x))
    if n > 1:
        close(cp, cp.fft.irfft(d), np.fft.irfft(x))
        close(cp, cp.fft.hfft(d), np.fft.hfft(x))


@pytest.mark.parametrize("dtype", letters("fdFD", "fD"))
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((6, 8), None), ((5, 6, 7), None), ((5, 6, 7), (0, 1)), ((5, 6, 7), (2, 0)), ((2, 3, 4, 5), (1, 2, 3))],
)
@pytest.mark.parametrize("order", letters("CF", "C"))
def test_several_axes(cp: Any, dtype: str, shape: tuple[int, ...], axes: Any, order: str) -> None:
    x = values(shape, dtype)
    d = cp.asarray(x, order=order)
    for name in ("fftn", "ifftn", *(("rfftn",) if dtype in "fd" else ()), "irfftn"):
        close(cp, getattr(cp.fft, name)(d, axes=axes), getattr(np.fft, name)(x, axes=axes))


def test_there_and_back_by_scipys_interface(cp: Any) -> None:
    from cupyx.scipy import fft

    x = values((4, 50), "d")
    close(cp, fft.irfft(fft.rfft(cp.asarray(x)), n=50), x)
    close(cp, cp.fft.fftshift(cp.fft.fft(cp.asarray(x))), np.fft.fftshift(np.fft.fft(x)))


def test_a_captured_transform_replays(cp: Any, seeds: range) -> None:
    """Its plan, which holds the work area, is made before the capture and kept by CuPy."""
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        x = cp.zeros(60, "D")
        cp.fft.ifft(cp.fft.fft(x))
        stream.begin_capture()
        y = cp.fft.ifft(x * cp.fft.fft(x))
        graph = stream.end_capture()
        for seed in seeds:
            reseed(seed)
            values_ = values(60, "D", seed)
            x.set(values_)
            graph.launch(stream)
            close(cp, y, np.fft.ifft(values_ * np.fft.fft(values_)))


def test_transforms_go_by_the_order_of_the_current_stream(cp: Any, seeds: range) -> None:
    for seed in seeds:
        reseed(seed)
        stream, x = cp.cuda.Stream(non_blocking=True), values(64, "D", seed)
        with stream:
            d = cp.asarray(x)
            e = cp.fft.fft(d)
            d *= 3
            f = cp.fft.fft(d) - e
        np.testing.assert_allclose(cp.asnumpy(f, stream=stream), 2 * np.fft.fft(x), rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("emulated")
def test_half_precision_refuses(cp: Any) -> None:
    with pytest.raises(Exception, match=r"NOT_IMPLEMENTED|NOT_SUPPORTED"):
        cp.cuda.cufft.XtPlanNd((8,), (8,), 1, 8, "E", (8,), 1, 8, "E", 1, "E", order="C", last_axis=-1, last_size=None)
