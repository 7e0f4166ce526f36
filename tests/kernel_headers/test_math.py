"""Device functions against long arithmetic and the error bounds of the CUDA C++ programming guide, section "Mathematical Functions".

The bounds are those of the guide's tables for standard functions ("maximum ulp error"); the emulated device computes most of
them with the host's C library and is far better; the two that miss a bound of theirs say so below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest
import scipy.special as sp

from tests.emulated_device.harness import Board
from tests.kernel_headers.programs import Array, Program, elementwise


class Function(NamedTuple):
    """A function of one variable, where to try it, and how far off it may be in float and in double."""

    reference: Callable[[Array], Any]
    low: float
    high: float
    float_ulps: float
    double_ulps: float


def extended(function: Callable[[Array], Any]) -> Callable[[Array], Any]:
    """A NumPy function in extended precision."""
    return lambda x: function(np.asarray(x, np.longdouble))


def exact(function: Callable[[Any], Any]) -> Callable[[Array], Any]:
    """A function of mpmath, which computes with 60 digits here."""

    def apply(x: Array) -> Array:
        with mpmath.workdps(60):
            return np.array([np.longdouble(mpmath.nstr(function(mpmath.mpf(float(v))), 30)) for v in x])

    return apply


PI = 4 * np.arctan(np.longdouble(1))
FUNCTIONS = {
    "rsqrt": Function(extended(lambda x: 1 / np.sqrt(x)), 1e-30, 1e30, 2, 1),
    "rcbrt": Function(extended(lambda x: 1 / np.cbrt(x)), -1e9, 1e9, 1, 1),
    "sinpi": Function(extended(lambda x: np.sin(np.remainder(x, 2) * PI)), -3.9, 3.9, 1, 2),
    "cospi": Function(extended(lambda x: np.cos(np.remainder(x, 2) * PI)), -3.9, 3.9, 1, 2),
    "exp10": Function(extended(lambda x: np.longdouble(10) ** x), -30, 30, 2, 2),  # 1 on a GPU
    "erfinv": Function(exact(mpmath.erfinv), -0.999999, 0.999999, 2, 5),
    "erfcinv": Function(exact(lambda y: mpmath.erfinv(1 - y)), 1e-20, 1.999, 4, 6),
    "erfcx": Function(exact(lambda x: mpmath.exp(x * x) * mpmath.erfc(x)), -5, 60, 4, 4),
    "normcdf": Function(exact(mpmath.ncdf), -12, 8, 5, 5),
    "normcdfinv": Function(exact(lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)), 1e-20, 0.999999, 5, 8),
    "cyl_bessel_i0": Function(exact(lambda x: mpmath.besseli(0, x)), -60, 60, 6, 6),
    "cyl_bessel_i1": Function(exact(lambda x: mpmath.besseli(1, x)), -60, 60, 6, 6),
    "exp": Function(extended(np.exp), -80, 80, 2, 1),
    "log": Function(extended(np.log), 1e-30, 1e30, 1, 1),
    "log1p": Function(extended(np.log1p), -0.9, 1e6, 1, 1),
    "tanh": Function(extended(np.tanh), -9, 9, 2, 2),
    "erf": Function(exact(mpmath.erf), -5, 5, 2, 2),
    "erfc": Function(exact(mpmath.erfc), -5, 8, 4, 5),
    "cbrt": Function(extended(np.cbrt), -1e9, 1e9, 1, 4),  # 1 on a GPU
}
FAST = {
    "__expf": np.exp,
    "__logf": np.log,
    "__sinf": np.sin,
    "__cosf": np.cos,
    "__log2f": np.log2,
    "__log10f": np.log10,
}
PROGRAM = Program(
    *(elementwise(f"d_{name}", "double", "double", f"{name}(a)") for name in FUNCTIONS),
    *(elementwise(f"f_{name}", "float", "float", f"{name}f(a)") for name in FUNCTIONS),
    # The overload for float is one: its result is a float.
    *(elementwise(f"o_{name}", "float", "float", f"sizeof({name}(a)) == 4 ? {name}(a) : 1e30f") for name in FUNCTIONS),
    *(elementwise(f"fast_{name}", "float", "float", f"{name}(a)") for name in FAST),
    elementwise("divide", "float", "float, float", "__fdividef(a, b)"),
    elementwise("saturated", "float", "float", "__saturatef(a)"),
    elementwise("power", "float", "float, float", "__powf(a, b)"),
    elementwise("lengths", "double", "double, double, double", "norm3d(a, b, c) + rnorm3d(a, b, c) + rhypot(a, b)"),
    elementwise("lengthsf", "float", "float, float, float", "norm3df(a, b, c)"),
    elementwise("fmin_fmax", "float", "float, float", "min(a, b) + 3 * max(a, b)"),
    elementwise("dmin_dmax", "double", "double, float", "min(a, b) + 3 * max(b, a)"),
    elementwise("classes", "int", "double", "isnan(a) + 2 * isinf(a) + 4 * isfinite(a) + 8 * !!signbit(a)"),
    elementwise("classes_f", "int", "float", "isnan(a) + 2 * isinf(a) + 4 * isfinite(a) + 8 * !!signbit(a)"),
    elementwise("bessel_j", "double", "double", "j0(a) + j1(a) * 2 + jn(3, a) * 4"),
    elementwise("bessel_y", "double", "double", "y0(a) + y1(a) * 2 + yn(3, a) * 4"),
    """
    extern "C" __global__ void together(double *out, float *outf, const double *in) {
        int i = threadIdx.x;
        sincospi(in[i], &out[2 * i], &out[2 * i + 1]);
        float s, c;
        sincos((float)in[i], &s, &c);
        outf[4 * i] = s; outf[4 * i + 1] = c;
        __sincosf((float)in[i], &s, &c);
        outf[4 * i + 2] = s; outf[4 * i + 3] = c;
    }
    extern "C" __global__ void lengths_n(double *out, float *outf, const double *in, const float *inf, int n) {
        out[0] = norm(n, in); out[1] = rnorm(n, in);
        outf[0] = normf(n, inf); outf[1] = rnormf(n, inf);
    }
    """,
)


def ulps(out: Array, wanted: Array) -> float:
    """The greatest distance, in units of the last place of the type that came out."""
    wanted = np.asarray(wanted, np.longdouble)
    unit = np.spacing(np.abs(wanted).astype(out.dtype)).astype(np.longdouble)
    return float(np.max(np.abs(out.astype(np.longdouble) - wanted) / unit))


def arguments(function: Function) -> Array:
    """Evenly spread, and spread over the powers of ten where the range is wide."""
    draw = np.random.default_rng(1)
    count = 1500 if function.reference.__qualname__.startswith("extended") else 80
    values = [draw.uniform(function.low, function.high, count)]
    least = function.low if function.low > 0 else 1e-12
    values.append(10 ** draw.uniform(np.log10(least), np.log10(function.high), count))
    return np.concatenate(values)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_double(board: Board, name: str) -> None:
    function = FUNCTIONS[name]
    x = arguments(function)
    out = PROGRAM.map(board, f"d_{name}", np.float64, x)
    assert ulps(out, function.reference(x)) <= function.double_ulps


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float(board: Board, name: str) -> None:
    function = FUNCTIONS[name]
    x = arguments(function).astype(np.float32)
    x = x[(x >= function.low) & (x <= function.high)]
    out = PROGRAM.map(board, f"f_{name}", np.float32, x)
    wanted = function.reference(x)
    normal = np.abs(wanted) > np.finfo(np.float32).tiny
    assert ulps(out[normal], wanted[normal]) <= function.float_ulps + 0.5
    np.testing.assert_array_equal(PROGRAM.map(board, f"o_{name}", np.float32, x), out)


INF, NAN = np.inf, np.nan
SPECIAL = {
    "rsqrt": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-1.0, NAN)],
    "rcbrt": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, -0.0), (-8.0, -0.5)],
    "sinpi": [(0.0, 0.0), (-0.0, -0.0), (1.0, 0.0), (-1.0, -0.0), (0.5, 1.0), (1.5, -1.0), (INF, NAN), (1e300, 0.0)],
    "cospi": [(0.0, 1.0), (0.5, 0.0), (1.0, -1.0), (1.5, 0.0), (2.0, 1.0), (-INF, NAN), (1e300, 1.0)],
    "erfinv": [(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (2.0, NAN), (NAN, NAN)],
    "erfcinv": [(0.0, INF), (2.0, -INF), (1.0, 0.0), (-1.0, NAN), (3.0, NAN)],
    "erfcx": [(-INF, INF), (INF, 0.0), (0.0, 1.0), (NAN, NAN)],
    "normcdf": [(INF, 1.0), (-INF, 0.0), (0.0, 0.5), (NAN, NAN)],
    "normcdfinv": [(0.0, -INF), (1.0, INF), (0.5, 0.0), (-1.0, NAN), (2.0, NAN)],
    "cyl_bessel_i0": [(0.0, 1.0), (INF, INF), (-INF, INF), (NAN, NAN)],
    "cyl_bessel_i1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(board: Board, name: str) -> None:
    """As the documentation of each function lists them."""
    x, wanted = np.array(SPECIAL[name]).T.copy()
    out = PROGRAM.map(board, f"d_{name}", np.float64, x)
    np.testing.assert_array_equal(out, wanted)
    if name not in ("cospi", "erfcinv", "normcdfinv"):
        assert (np.signbit(out) == np.signbit(wanted))[wanted == 0].all()


@pytest.mark.parametrize("name", FAST)
def test_fast_functions(board: Board, name: str) -> None:
    """Within the guide's absolute and relative bounds for them, far from where those grow."""
    x = np.random.default_rng(2).uniform(0.6, 3.0, 1000).astype(np.float32)
    wanted = FAST[name](x.astype(np.float64))
    np.testing.assert_allclose(PROGRAM.map(board, f"fast_{name}", np.float32, x), wanted, rtol=1e-5, atol=2.0**-21)


def test_fast_division(board: Board) -> None:
    """Divisors between 2**126 and 2**128 give 0; infinity by one of these NaN."""
    x = np.array([1, 6, -1, 1, np.inf, 1, 0], np.float32)
    y = np.array([4, -3, 2.0**126, 2.0**127, 2.0**127, np.inf, 2.0**127], np.float32)
    out = PROGRAM.map(board, "divide", np.float32, x, y)
    np.testing.assert_allclose(out, [0.25, -2, -(2.0**-126), 0, np.nan, 0, 0], rtol=3e-7)
    np.testing.assert_array_equal(
        PROGRAM.map(board, "saturated", np.float32, np.array([-1, 0.25, 7, NAN, INF], np.float32)), [0, 0.25, 1, 0, 1]
    )
    p = np.random.default_rng(3).uniform(0.5, 2, 100).astype(np.float32)
    np.testing.assert_allclose(PROGRAM.map(board, "power", np.float32, p, p), p**p, rtol=1e-5)


def test_lengths(board: Board) -> None:
    draw = np.random.default_rng(4)
    x, y, z = (draw.standard_normal(500) * 10.0 ** draw.integers(-100, 100, 500) for _ in range(3))
    length = np.hypot(np.hypot(x, y), z)
    np.testing.assert_allclose(
        PROGRAM.map(board, "lengths", np.float64, x, y, z), length + 1 / length + 1 / np.hypot(x, y), rtol=1e-15
    )
    huge = np.full(3, 1e38, np.float32)
    out = PROGRAM.map(board, "lengthsf", np.float32, huge, huge, huge)
    np.testing.assert_allclose(out, np.sqrt(3) * 1e38, rtol=3e-7)
    many = draw.standard_normal(7)
    outs, outsf, *_ = PROGRAM.run(
        board, "lengths_n", np.zeros(2), np.zeros(2, np.float32), many, many.astype(np.float32), np.int32(7), block=1
    )
    norm = np.linalg.norm(many)
    np.testing.assert_allclose(outs, [norm, 1 / norm], rtol=1e-15)
    np.testing.assert_allclose(outsf, [norm, 1 / norm], rtol=2e-6)


def test_sines_with_cosines(board: Board) -> None:
    x = np.random.default_rng(5).uniform(-1, 1, 32)
    out, outf, _ = PROGRAM.run(board, "together", np.zeros((32, 2)), np.zeros((32, 4), np.float32), x)
    np.testing.assert_allclose(out, np.stack([np.sin(np.pi * x), np.cos(np.pi * x)], 1), rtol=1e-14, atol=1e-15)
    pair = np.stack([np.sin(x), np.cos(x)], 1)
    np.testing.assert_allclose(outf, np.concatenate([pair, pair], 1), rtol=1e-5, atol=1e-6)


def test_extremes_and_nan(board: Board) -> None:
    """Of a number and a NaN, min and max give the number."""
    x = np.array([1, NAN, 3, NAN, -0.5], np.float32)
    y = np.array([2, 2, NAN, NAN, -0.25], np.float32)
    wanted = np.fmin(x, y) + 3 * np.fmax(x, y)
    np.testing.assert_array_equal(PROGRAM.map(board, "fmin_fmax", np.float32, x, y), wanted)
    np.testing.assert_array_equal(PROGRAM.map(board, "dmin_dmax", np.float64, x.astype(np.float64), y), wanted)


def test_classes(board: Board) -> None:
    x = np.array([0.0, -0.0, 1.5, -2.0, INF, -INF, NAN, 5e-324])
    wanted = np.isnan(x) + 2 * np.isinf(x) + 4 * np.isfinite(x) + 8 * np.signbit(x)
    np.testing.assert_array_equal(PROGRAM.map(board, "classes", np.int32, x), wanted)
    np.testing.assert_array_equal(PROGRAM.map(board, "classes_f", np.int32, x.astype(np.float32)), wanted)


def test_bessel(board: Board) -> None:
    x = np.random.default_rng(6).uniform(0.1, 8, 500)
    wanted = sp.j0(x) + sp.j1(x) * 2 + sp.jn(3, x) * 4
    np.testing.assert_allclose(PROGRAM.map(board, "bessel_j", np.float64, x), wanted, rtol=1e-12, atol=1e-14)
    wanted = sp.y0(x) + sp.y1(x) * 2 + sp.yn(3, x) * 4
    np.testing.assert_allclose(PROGRAM.map(board, "bessel_y", np.float64, x), wanted, rtol=1e-12, atol=1e-12)
