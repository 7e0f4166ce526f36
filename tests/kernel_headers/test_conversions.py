"""Conversions between numbers and between numbers and bits, in all four roundings, against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.emulated_device.harness import Board
from tests.kernel_headers import exact
from tests.kernel_headers.programs import Array, Program, elementwise

INTEGERS: dict[str, tuple[str, type[np.integer[Any]]]] = {
    "int": ("int", np.int32),
    "uint": ("unsigned", np.uint32),
    "ll": ("long long", np.int64),
    "ull": ("unsigned long long", np.uint64),
}
FLOATS: dict[str, type[np.floating[Any]]] = {"float": np.float32, "double": np.float64}
PARTS = []
for mode in exact.MODES:
    for word, (kind, _) in INTEGERS.items():
        for real in FLOATS:
            PARTS.append(elementwise(f"{real}2{word}_{mode}", kind, real, f"__{real}2{word}_{mode}(a)"))
            if real == "float" or word in ("ll", "ull"):
                PARTS.append(elementwise(f"{word}2{real}_{mode}", real, kind, f"__{word}2{real}_{mode}(a)"))
    PARTS.append(elementwise(f"double2float_{mode}", "float", "double", f"__double2float_{mode}(a)"))
PARTS += [
    elementwise("float_bits", "unsigned", "float", "__float_as_uint(a)"),
    elementwise("float_from_bits", "float", "int", "__int_as_float(a)"),
    elementwise("double_bits", "long long", "double", "__double_as_longlong(a)"),
    elementwise("double_high", "int", "double", "__double2hiint(a)"),
    elementwise("double_low", "int", "double", "__double2loint(a)"),
    elementwise("double_joined", "double", "int, int", "__hiloint2double(a, b)"),
    elementwise("cast_int", "int", "float", "(int)a"),
    elementwise("cast_ll", "long long", "double", "(long long)a"),
]
PROGRAM = Program(*PARTS)


def reals(dtype: type[np.floating[Any]]) -> Array:
    """Numbers about everything at which a conversion changes its mind."""
    around = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 3.5, 1e10, 1e20, 1e38, 1e-5, 1e-40]
    for bits in (7, 8, 15, 16, 23, 24, 31, 32, 52, 53, 62, 63, 64):
        around += [2.0**bits, 2.0**bits - 1, 2.0**bits - 0.5, 2.0**bits + 0.5]
    values = np.array([*around, math.inf], dtype)
    values = np.concatenate([values, np.nextafter(values, dtype(np.inf)), np.nextafter(values, dtype(0))])
    draw = np.random.default_rng(1)
    random = (draw.standard_normal(300) * 2.0 ** draw.integers(-3, 66, 300)).astype(dtype)
    return np.concatenate([values, -values, random, np.array([math.nan], dtype)])


@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize("word", INTEGERS)
@pytest.mark.parametrize("real", FLOATS)
def test_to_integers_saturates(board: Board, real: str, word: str, mode: exact.Mode) -> None:
    dtype = INTEGERS[word][1]
    values = reals(FLOATS[real])
    out = PROGRAM.map(board, f"{real}2{word}_{mode}", dtype, values)
    info = np.iinfo(dtype)
    size = FLOATS[real]().nbytes * 8
    expected = [exact.to_integer(float(x), mode, info.bits, info.min < 0, size) for x in values]
    wrong = [(x, int(o), e) for x, o, e in zip(values, out, expected, strict=True) if int(o) != e]
    assert not wrong, wrong[:5]


@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize(
    ("word", "real"), [*((word, "float") for word in INTEGERS), ("ll", "double"), ("ull", "double")]
)
def test_from_integers(board: Board, word: str, real: str, mode: exact.Mode) -> None:
    dtype = INTEGERS[word][1]
    info = np.iinfo(dtype)
    near = [0, 1, 2, (1 << 24) - 1, (1 << 24) + 1, (1 << 24) + 3, (1 << 25) + 2, (1 << 25) + 6]
    near += [
        (1 << b) + d for b in (30, 31, 32, 52, 53, 54, 55, 62, 63) for d in (-1, 0, 1, 2, 3, 1 << 8, 1 << 10, 1 << 38)
    ]
    near += [info.max - d for d in (0, 1, 127, 128, 129, 1023, 1024)] + [info.min + d for d in (0, 1, 127, 128)]
    near += [-x for x in near]
    near += [int(x) for x in np.random.default_rng(2).integers(info.min, info.max, 200, dtype, endpoint=True)]
    values = np.array([x for x in near if info.min <= x <= info.max], dtype)
    form = exact.SINGLE if real == "float" else exact.DOUBLE
    out = PROGRAM.map(board, f"{word}2{real}_{mode}", FLOATS[real], values)
    wrong = [
        (int(x), float(o)) for x, o in zip(values, out, strict=True) if float(o) != form.round(Fraction(int(x)), mode)
    ]
    assert not wrong, wrong[:5]


@pytest.mark.parametrize("mode", exact.MODES)
def test_double_to_float(board: Board, mode: exact.Mode) -> None:
    draw = np.random.default_rng(3)
    spread = draw.standard_normal(400) * 2.0 ** draw.integers(-160, 135, 400)
    edges = np.array([0.0, 1.0, 3.4028235677973366e38, 3.5e38, 1e-45, 7e-46, 1e-46, 1e300, np.inf])
    values = np.concatenate([spread, edges, -edges, reals(np.float64)])
    out = PROGRAM.map(board, f"double2float_{mode}", np.float32, values)
    expected = np.array([exact.SINGLE.round(exact.exact(x), mode) for x in values])
    np.testing.assert_array_equal(out.astype(np.float64), expected)
    assert (np.signbit(out) == np.signbit(values))[~np.isnan(values)].all()


def test_bits(board: Board) -> None:
    draw = np.random.default_rng(4)
    words = draw.integers(0, 1 << 32, 500, np.uint32)
    keep = ~np.isnan(words.view(np.float32))
    words = words[keep]
    longs = draw.integers(0, 1 << 64, 500, np.uint64)
    assert (PROGRAM.map(board, "float_bits", np.uint32, words.view(np.float32)) == words).all()
    assert (PROGRAM.map(board, "float_from_bits", np.float32, words.view(np.int32)).view(np.uint32) == words).all()
    assert (PROGRAM.map(board, "double_bits", np.uint64, longs.view(np.float64)) == longs).all()
    high, low = (longs >> np.uint64(32)).astype(np.uint32), longs.astype(np.uint32)
    assert (PROGRAM.map(board, "double_high", np.uint32, longs.view(np.float64)) == high).all()
    assert (PROGRAM.map(board, "double_low", np.uint32, longs.view(np.float64)) == low).all()
    joined = PROGRAM.map(board, "double_joined", np.float64, high.view(np.int32), low.view(np.int32))
    assert (joined.view(np.uint64) == longs).all()


@pytest.mark.parametrize(
    ("kernel", "source", "target"), [("cast_int", np.float32, np.int32), ("cast_ll", np.float64, np.int64)]
)
def test_plain_casts_saturate_too(
    board: Board, kernel: str, source: type[np.floating[Any]], target: type[np.integer[Any]]
) -> None:
    """To signed integers of 32 and 64 bits. A cast to another type passes through one of these on the emulated device."""
    values = reals(source)
    values = values[~np.isnan(values)]
    out = PROGRAM.map(board, kernel, target, values)
    info = np.iinfo(target)
    expected = [exact.to_integer(float(x), "rz", info.bits, info.min < 0, values.itemsize * 8) for x in values]
    assert [int(x) for x in out] == expected
