"""Arithmetic with the rounding in its name, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.emulated_device.harness import Board
from tests.kernel_headers import exact
from tests.kernel_headers.programs import Array, Program, elementwise

KINDS: dict[str, tuple[str, type[np.floating[Any]], exact.Format]] = {
    "f": ("float", np.float32, exact.SINGLE),
    "d": ("double", np.float64, exact.DOUBLE),
}
PARTS = []
for letter, (kind, *_) in KINDS.items():
    for mode in exact.MODES:
        for name in ("add", "sub", "mul", "div"):
            PARTS.append(
                elementwise(f"{letter}{name}_{mode}", kind, f"{kind}, {kind}", f"__{letter}{name}_{mode}(a, b)")
            )
        for name in ("rcp", "sqrt"):
            PARTS.append(elementwise(f"{letter}{name}_{mode}", kind, kind, f"__{letter}{name}_{mode}(a)"))
        fma = "__fmaf" if letter == "f" else "__fma"
        PARTS.append(elementwise(f"{letter}fma_{mode}", kind, f"{kind}, {kind}, {kind}", f"{fma}_{mode}(a, b, c)"))
PARTS += [
    # Products and sums by name are never joined; by operator they may be.
    elementwise("apart", "float", "float, float, float", "__fadd_rn(__fmul_rn(a, b), c)"),
    elementwise("dapart", "double", "double, double, double", "__dmul_rn(a, b) - __dmul_rn(c, c)"),
    elementwise("frsqrt", "float", "float", "__frsqrt_rn(a)"),
]
PROGRAM = Program(*PARTS)


def numbers(dtype: type[np.floating[Any]], seed: int) -> Array:
    draw = np.random.default_rng(seed)
    info = np.finfo(dtype)
    plain = draw.standard_normal(150)
    wide = draw.standard_normal(100) * 2.0 ** draw.integers(info.minexp, info.maxexp - 1, 100)
    edges = [0.0, 1.0, -1.0, 3.0, float(info.max), float(info.tiny), float(info.smallest_subnormal), math.inf, math.nan]
    values = np.concatenate([plain, wide, edges, [-x for x in edges]]).astype(dtype)
    return draw.permutation(values)


def check(out: Array, wanted: list[float]) -> None:
    """Equal, NaN for NaN; the sign of zero is another test's affair."""
    np.testing.assert_array_equal(out.astype(np.float64), np.array(wanted))


def operate(name: str, x: float, y: float) -> exact.Number:
    """The exact result, or for what has none the one of IEEE arithmetic."""
    with np.errstate(all="ignore"):
        a, b = np.float64(x), np.float64(y)
        special = {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b}[name]
    if not (math.isfinite(x) and math.isfinite(y)) or (name == "div" and y == 0):
        return float(special)
    p, q = Fraction(x), Fraction(y)
    return {"add": lambda: p + q, "sub": lambda: p - q, "mul": lambda: p * q, "div": lambda: p / q}[name]()


@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize("letter", KINDS)
def test_two_operands(board: Board, letter: str, mode: exact.Mode) -> None:
    _, dtype, form = KINDS[letter]
    x, y = numbers(dtype, 1), numbers(dtype, 2)
    for name in ("add", "sub", "mul", "div"):
        out = PROGRAM.map(board, f"{letter}{name}_{mode}", dtype, x, y)
        check(out, [form.round(operate(name, float(a), float(b)), mode) for a, b in zip(x, y, strict=True)])


@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize("letter", KINDS)
def test_reciprocals(board: Board, letter: str, mode: exact.Mode) -> None:
    _, dtype, form = KINDS[letter]
    x = numbers(dtype, 3)
    out = PROGRAM.map(board, f"{letter}rcp_{mode}", dtype, x)
    check(out, [form.round(operate("div", 1.0, float(a)), mode) for a in x])


def root(x: float, form: exact.Format, mode: exact.Mode) -> float:
    """A root with more digits than any format has, and with a last bit that tells an inexact one from an exact one."""
    if math.isnan(x) or x < 0:
        return math.nan
    if math.isinf(x) or x == 0:
        return x
    value = Fraction(x)
    scale = 4**200 * 4 ** (600 if value < 1 else 0)
    scaled = value * scale
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    inexact = whole * whole != scaled
    return form.round(Fraction(2 * whole + inexact, 2 * math.isqrt(scale)), mode)


@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize("letter", KINDS)
def test_roots(board: Board, letter: str, mode: exact.Mode) -> None:
    _, dtype, form = KINDS[letter]
    x = numbers(dtype, 4)
    check(PROGRAM.map(board, f"{letter}sqrt_{mode}", dtype, x), [root(float(a), form, mode) for a in x])


@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize("letter", KINDS)
def test_multiply_add(board: Board, letter: str, mode: exact.Mode) -> None:
    _, dtype, form = KINDS[letter]
    x, y, z = (numbers(dtype, seed) for seed in (5, 6, 7))
    with np.errstate(all="ignore"):
        z[::3] = -(x * y)[::3]  # cancellation leaves what one rounding of the product would lose
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    x, y, z = x[finite], y[finite], z[finite]
    out = PROGRAM.map(board, f"{letter}fma_{mode}", dtype, x, y, z)
    rows = zip(x, y, z, strict=True)
    check(out, [form.round(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)), mode) for a, b, c in rows])


def test_named_operations_are_not_joined(board: Board) -> None:
    draw = np.random.default_rng(8)
    x, y, z = (draw.standard_normal(1000).astype(np.float32) for _ in range(3))
    np.testing.assert_array_equal(PROGRAM.map(board, "apart", np.float32, x, y, z), x * y + z)
    p, q, r = (draw.standard_normal(1000) for _ in range(3))
    np.testing.assert_array_equal(PROGRAM.map(board, "dapart", np.float64, p, q, r), p * q - r * r)


def test_reciprocal_root(board: Board) -> None:
    x = np.abs(numbers(np.float32, 9))
    x = x[(x > 0) & np.isfinite(x)]
    expected = [exact.SINGLE.round(1 / Fraction(root(float(a), exact.DOUBLE, "rn")), "rn") for a in x]
    check(PROGRAM.map(board, "frsqrt", np.float32, x), expected)
