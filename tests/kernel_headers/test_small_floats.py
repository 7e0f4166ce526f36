"""half and bfloat16: all 65,536 numbers through every conversion; arithmetic with one rounding; comparisons with NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.emulated_device.harness import Board
from tests.kernel_headers import exact
from tests.kernel_headers.programs import Array, Program, elementwise


class Kind(NamedTuple):
    """One of the two formats, and the words that CUDA has for it."""

    type: str
    word: str
    header: str
    form: exact.Format
    fraction: int

    def values(self, words: Array) -> Array:
        """What the words mean, in double precision."""
        with np.errstate(invalid="ignore"):  # signalling NaNs
            if self.fraction == 10:
                return np.asarray(words, np.uint16).view(np.float16).astype(np.float64)
            return np.left_shift(words, 16, dtype=np.uint32).view(np.float32).astype(np.float64)

    def words(self, values: Any) -> Array:
        """The words of numbers that the format has; NaN is the canonical one."""
        values = np.asarray(values, np.float64)
        if self.fraction == 10:
            out = values.astype(np.float16).view(np.uint16)
        else:
            out = (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        return np.array(np.where(np.isnan(values), np.uint16(0x7FFF), out))


KINDS = {
    "half": Kind("__half", "half", "cuda_fp16.h", exact.HALF, 10),
    "bfloat16": Kind("__nv_bfloat16", "bfloat16", "cuda_bf16.h", exact.BFLOAT, 7),
}
INTEGERS: dict[str, tuple[str, type[np.integer[Any]]]] = {
    "int": ("int", np.int32),
    "uint": ("unsigned", np.uint32),
    "short": ("short", np.int16),
    "ushort": ("unsigned short", np.uint16),
    "ll": ("long long", np.int64),
    "ull": ("unsigned long long", np.uint64),
}
ARITHMETIC = ("__hadd", "__hsub", "__hmul", "__hdiv")
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcp": lambda x: 1 / x,
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: 10.0**x,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sin": np.sin,
    "cos": np.cos,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
}
S = "unsigned short"


def text(kind: Kind) -> str:
    """Kernels on words: how a number is made of one is the first thing that they test."""
    name = kind.word
    make, word = f"__{S.split()[0][0]}short_as_{name}", f"__{name}_as_ushort"
    a, b, c = (f"{make}({x})" for x in "abc")
    parts = [f"#include <{kind.header}>"]
    parts.append(elementwise("to_float", "float", S, f"__{name}2float({a})"))
    parts.append(elementwise("from_double", S, "double", f"{word}(__double2{name}(a))"))
    parts.append(elementwise("construct_float", S, "float", f"{word}({kind.type}(a))"))
    parts.append(elementwise("construct_ll", S, "long long", f"{word}({kind.type}(a))"))
    for mode in exact.MODES:
        parts.append(elementwise(f"from_float_{mode}", S, "float", f"{word}(__float2{name}_{mode}(a))"))
        for integer, (kind_name, _) in INTEGERS.items():
            parts.append(elementwise(f"to_{integer}_{mode}", kind_name, S, f"__{name}2{integer}_{mode}({a})"))
            parts.append(elementwise(f"from_{integer}_{mode}", S, kind_name, f"{word}(__{integer}2{name}_{mode}(a))"))
    for f in ARITHMETIC:
        parts.append(elementwise(f, S, f"{S}, {S}", f"{word}({f}({a}, {b}))"))
    for f, sign in (("plus", "+"), ("minus", "-"), ("times", "*"), ("over", "/")):
        parts.append(elementwise(f, S, f"{S}, {S}", f"{word}({a} {sign} {b})"))
    parts.append(elementwise("add_sat", S, f"{S}, {S}", f"{word}(__hadd_sat({a}, {b}))"))
    parts.append(elementwise("fma", S, f"{S}, {S}, {S}", f"{word}(__hfma({a}, {b}, {c}))"))
    parts.append(elementwise("fma_relu", S, f"{S}, {S}, {S}", f"{word}(__hfma_relu({a}, {b}, {c}))"))
    for f in COMPARISONS:
        parts.append(elementwise(f"c_{f}", "int", f"{S}, {S}", f"__h{f}({a}, {b}) + 2 * __h{f}u({a}, {b})"))
        sign = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}[f]
        parts.append(elementwise(f"o_{f}", "int", f"{S}, {S}", f"{a} {sign} {b}"))
    for f in ("max", "min"):
        parts.append(elementwise(f, S, f"{S}, {S}", f"{word}(__h{f}({a}, {b}))"))
        parts.append(elementwise(f"{f}_nan", S, f"{S}, {S}", f"{word}(__h{f}_nan({a}, {b}))"))
    parts.append(elementwise("classes", "int", S, f"__hisnan({a}) + 2 * __hisinf({a}) + 8 * (bool){a}"))
    parts.append(elementwise("negated", S, S, f"{word}(-{a})"))
    parts.append(elementwise("absolute", S, S, f"{word}(__habs({a}))"))
    for f in FUNCTIONS:
        parts.append(elementwise(f"h{f}", S, S, f"{word}(h{f}({a}))"))
    pair = f"{kind.type}2"
    parts.append(f"""
    extern "C" __global__ void pairs({kind.type} *out, const float *in) {{
        {pair} p = __floats2{name}2_rn(in[0], in[1]), q = __float2{name}2_rn(in[2]);
        {pair} results[] = {{p + q, p - q, p * q, p / q, __hfma2(p, q, p), __hmax2(p, q), __lowhigh2highlow(p),
            __low2{name}2(p), __high2{name}2(p), __halves2{name}2(__high2{name}(p), __low2{name}(q)), -p, h2sqrt(q),
            __lows2{name}2(p, q), __highs2{name}2(p, q), make_{name}2(p.y, p.x), __hgt2(p, q)}};
        for (int i = 0; i < 16; ++i) {{ out[2 * i] = results[i].x; out[2 * i + 1] = results[i].y; }}
        out[32] = __hbeq2(p, p) ? {kind.type}(1.0f) : {kind.type}(0.0f);
        float2 f = __{name}22float2(p);
        out[33] = f.x; out[34] = f.y; out[35] = __low2float(p); out[36] = __high2float(p);
        {kind.type} h = p.x;
        ++h; h += h; h--;
        out[37] = h;
    }}
    extern "C" __global__ void adds({kind.type} *sum, {pair} *sums, {kind.type} *before) {{
        before[threadIdx.x] = atomicAdd(sum, {kind.type}(1.0f));
        atomicAdd(sums, __floats2{name}2_rn(1.0f, 2.0f));
    }}
    """)
    return "\n".join(parts)


PROGRAMS = {name: Program(text(kind)) for name, kind in KINDS.items()}
EVERY = np.arange(65536, dtype=np.uint16)

both = pytest.mark.parametrize("name", KINDS)
all_modes = pytest.mark.parametrize("mode", exact.MODES)


def some(kind: Kind, seed: int, count: int = 3000) -> Array:
    """Random words, and the special ones."""
    draw = np.random.default_rng(seed)
    infinity = 0x7FFF >> kind.fraction << kind.fraction
    one = int(kind.words(1.0))
    special = [0, 0x8000, 1, 0x8001, infinity, infinity | 0x8000, infinity + 1, 0x7FFF, 0xFFFF, infinity - 1, one]
    special += [infinity - 1 | 0x8000, one | 0x8000, one + 1, one - 1, 1 << kind.fraction, (1 << kind.fraction) - 1]
    words = np.concatenate([draw.integers(0, 65536, count), np.repeat(special, 12)])
    return draw.permutation(words).astype(np.uint16)


def same(kind: Kind, out: Array, expected: Array) -> None:
    """Equal words; any NaN for a NaN."""
    got, wanted = kind.values(out), kind.values(expected)
    nan = np.isnan(wanted)
    wrong = np.flatnonzero(np.where(nan, ~np.isnan(got), out != expected))
    assert wrong.size == 0, [(hex(out[i]), hex(expected[i]), got[i], wanted[i]) for i in wrong[:5]]


def rounded(kind: Kind, values: list[exact.Number], negative: Array, mode: exact.Mode = "rn") -> Array:
    """Words of exact numbers; ``negative`` says which zeros are."""
    results = np.array([kind.form.round(v, mode) for v in values])
    return kind.words(np.where((results == 0) & negative, -0.0, results))


@both
def test_every_number_to_float(board: Board, name: str) -> None:
    out = PROGRAMS[name].map(board, "to_float", np.float32, EVERY)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(KINDS[name].values(EVERY)))
    out = np.where(np.isnan(out), np.float32(np.nan), out)
    np.testing.assert_array_equal(out.astype(np.float64), KINDS[name].values(EVERY))
    assert (np.signbit(out) == (EVERY >= 0x8000))[~np.isnan(out)].all()


@both
@all_modes
def test_float_to_every_number_and_between(board: Board, name: str, mode: exact.Mode) -> None:
    """Each number itself, the middle between neighbours, and just beside the middle."""
    kind = KINDS[name]
    infinity = 0x7FFF >> kind.fraction << kind.fraction
    numpy_knows = kind.fraction == 10 and mode == "rn"
    words = np.arange(infinity - 1, dtype=np.uint16)[:: 1 if numpy_knows else 17]
    values = kind.values(words)
    middle = ((values + kind.values(words + np.uint16(1))) / 2).astype(np.float32)
    floats = np.concatenate([values.astype(np.float32), middle])
    floats = np.concatenate([floats, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(np.inf))])
    extremes = np.array([65504, 65519.996, 65520, 65536, 3.4e38, 3.39e38, 1e-45, 2.9e-8, 2.98e-8, 3e-8, np.inf])
    floats = np.concatenate([floats, extremes.astype(np.float32)])
    floats = np.concatenate([floats, -floats])
    out = PROGRAMS[name].map(board, f"from_float_{mode}", np.uint16, floats)
    if numpy_knows:
        with np.errstate(over="ignore"):
            expected = floats.astype(np.float16).view(np.uint16)
    else:
        expected = rounded(kind, [exact.exact(x) for x in floats], np.signbit(floats), mode)
    same(kind, out, expected)
    assert (PROGRAMS[name].map(board, f"from_float_{mode}", np.uint16, np.array([np.nan], np.float32)) == 0x7FFF).all()


@both
def test_double_is_rounded_once(board: Board, name: str) -> None:
    """A double just beside a middle, so near that it would be lost on the way through float."""
    kind = KINDS[name]
    one = 1 + Fraction(1, 2 ** (kind.fraction + 1))
    doubles = np.array([float(one), float(one) + 2.0**-50, float(one) - 2.0**-50, 1e-300, 1e300, np.inf, 0.1])
    doubles = np.concatenate([doubles, -doubles, [np.nan]])
    expected = rounded(kind, [exact.exact(x) for x in doubles], np.signbit(doubles))
    same(kind, PROGRAMS[name].map(board, "from_double", np.uint16, doubles), expected)


@both
@all_modes
@pytest.mark.parametrize("integer", INTEGERS)
def test_integers(board: Board, name: str, mode: exact.Mode, integer: str) -> None:
    kind, (_, dtype) = KINDS[name], INTEGERS[integer]
    info = np.iinfo(dtype)
    out = PROGRAMS[name].map(board, f"to_{integer}_{mode}", dtype, EVERY[::5])
    expected = [exact.to_integer(x, mode, info.bits, info.min < 0, 16) for x in kind.values(EVERY[::5])]
    assert [int(x) for x in out] == expected
    near = [(1 << b) + d for b in range(info.bits) for d in (-3, -1, 0, 1, 2, (1 << b) >> 8, ((1 << b) >> 8) + 1)]
    near += [(1 << b) + ((1 << b) >> 11) + d for b in range(info.bits) for d in (-1, 0, 1)]
    numbers = np.array([x for y in near for x in (y, -y) if info.min <= x <= info.max], dtype)
    back = PROGRAMS[name].map(board, f"from_{integer}_{mode}", np.uint16, numbers)
    same(kind, back, rounded(kind, [Fraction(int(x)) for x in numbers], np.zeros(numbers.size, bool), mode))


@both
def test_construction(board: Board, name: str) -> None:
    kind = KINDS[name]
    floats = np.random.default_rng(5).standard_normal(1000).astype(np.float32)
    out = PROGRAMS[name].map(board, "construct_float", np.uint16, floats)
    same(kind, out, rounded(kind, [exact.exact(x) for x in floats], np.signbit(floats)))
    longs = np.array([0, 1, -1, 65504, 65520, (1 << 62) + (1 << 53) + 1, (1 << 62) - (1 << 54) - 1], np.int64)
    out = PROGRAMS[name].map(board, "construct_ll", np.uint16, longs)
    same(kind, out, rounded(kind, [Fraction(int(x)) for x in longs], np.zeros(longs.size, bool)))


def arithmetic(f: str, x: Array, y: Array) -> tuple[list[exact.Number], Array]:
    """Exact results, and the sign of each as IEEE arithmetic has it."""
    with np.errstate(all="ignore"):
        special = {"__hadd": x + y, "__hsub": x - y, "__hmul": x * y, "__hdiv": x / y}[f]
    results: list[exact.Number] = []
    for a, b, s in zip(x.tolist(), y.tolist(), special.tolist(), strict=True):
        if not (math.isfinite(a) and math.isfinite(b)) or (f == "__hdiv" and b == 0):
            results.append(s)
        elif f == "__hdiv":
            results.append(Fraction(a) / Fraction(b))
        else:
            p, q = Fraction(a), Fraction(b)
            results.append(p + q if f == "__hadd" else p - q if f == "__hsub" else p * q)
    return results, np.signbit(special)


@both
@pytest.mark.parametrize(
    ("f", "operator"), list(zip(ARITHMETIC, ("plus", "minus", "times", "over"), strict=True)), ids=ARITHMETIC
)
def test_arithmetic_is_rounded_once(board: Board, name: str, f: str, operator: str) -> None:
    kind = KINDS[name]
    x, y = some(kind, 1), some(kind, 2)
    y[::2] = (x[::2].astype(np.int64) + np.random.default_rng(3).integers(-2100, 2100, x[::2].size)) & 0xFFFF
    expected = rounded(kind, *arithmetic(f, kind.values(x), kind.values(y)))
    same(kind, PROGRAMS[name].map(board, f, np.uint16, x, y), expected)
    same(kind, PROGRAMS[name].map(board, operator, np.uint16, x, y), expected)


@both
def test_saturation(board: Board, name: str) -> None:
    kind = KINDS[name]
    x, y = some(kind, 1), some(kind, 2)
    plain = kind.values(PROGRAMS[name].map(board, "__hadd", np.uint16, x, y))
    out = kind.values(PROGRAMS[name].map(board, "add_sat", np.uint16, x, y))
    np.testing.assert_array_equal(out, np.where(np.isnan(plain), 0, np.clip(plain, 0, 1)))


@both
def test_multiply_add_is_rounded_once(board: Board, name: str) -> None:
    kind = KINDS[name]
    x, y, z = some(kind, 4), some(kind, 5), some(kind, 6)
    small = np.random.default_rng(7).integers(0, 65536, x.size) & 0x80FF  # far below the product
    z[::3] = small[::3]
    one = int(kind.words(1.0))
    x[::6] = one + 1  # (1 + e)(1 + e/2 ...) lies beside a middle
    y[::6] = one - 1
    a, b, c = kind.values(x), kind.values(y), kind.values(z)
    with np.errstate(all="ignore"):
        special = a * b + c
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    results: list[exact.Number] = [
        Fraction(p) * Fraction(q) + Fraction(r) if ok else s
        for p, q, r, s, ok in zip(a.tolist(), b.tolist(), c.tolist(), special.tolist(), finite.tolist(), strict=True)
    ]
    expected = rounded(kind, results, np.signbit(special))
    same(kind, PROGRAMS[name].map(board, "fma", np.uint16, x, y, z), expected)
    relu = PROGRAMS[name].map(board, "fma_relu", np.uint16, x, y, z)
    positive = np.where(kind.values(expected) < 0, np.uint16(0), expected)
    np.testing.assert_array_equal(kind.values(relu), kind.values(positive))


@both
@pytest.mark.parametrize("f", COMPARISONS)
def test_comparisons(board: Board, name: str, f: str) -> None:
    """Ordered ones are false with a NaN, unordered ones true; operators are ordered but for ``!=``."""
    kind = KINDS[name]
    x, y = some(kind, 8), some(kind, 9)
    y[::4] = x[::4]
    a, b = kind.values(x), kind.values(y)
    nan = np.isnan(a) | np.isnan(b)
    plain = COMPARISONS[f](a, b)
    expected = (plain & ~nan) + 2 * (plain | nan)
    np.testing.assert_array_equal(PROGRAMS[name].map(board, f"c_{f}", np.int32, x, y), expected)
    np.testing.assert_array_equal(PROGRAMS[name].map(board, f"o_{f}", np.int32, x, y), plain)


@both
def test_extremes(board: Board, name: str) -> None:
    kind = KINDS[name]
    x, y = some(kind, 10), some(kind, 11)
    a, b = kind.values(x), kind.values(y)
    for f, plain, strict in (("max", np.fmax, np.maximum), ("min", np.fmin, np.minimum)):
        np.testing.assert_array_equal(kind.values(PROGRAMS[name].map(board, f, np.uint16, x, y)), plain(a, b))
        np.testing.assert_array_equal(kind.values(PROGRAMS[name].map(board, f + "_nan", np.uint16, x, y)), strict(a, b))
    zeros = np.array([0, 0x8000], np.uint16)
    assert PROGRAMS[name].map(board, "max", np.uint16, zeros, zeros[::-1].copy()).tolist() == [0, 0]
    assert PROGRAMS[name].map(board, "min", np.uint16, zeros, zeros[::-1].copy()).tolist() == [0x8000, 0x8000]


@both
def test_classes_and_signs(board: Board, name: str) -> None:
    kind = KINDS[name]
    values = kind.values(EVERY)
    infinite = np.isinf(values) * np.where(values < 0, -1, 1)
    expected = np.isnan(values) + 2 * infinite + 8 * ((EVERY & 0x7FFF) != 0)
    np.testing.assert_array_equal(PROGRAMS[name].map(board, "classes", np.int32, EVERY), expected)
    numbers = EVERY[~np.isnan(values)]
    assert (PROGRAMS[name].map(board, "negated", np.uint16, numbers) == numbers ^ 0x8000).all()
    assert (PROGRAMS[name].map(board, "absolute", np.uint16, numbers) == numbers & 0x7FFF).all()


@both
@pytest.mark.parametrize("f", FUNCTIONS)
def test_functions(board: Board, name: str, f: str) -> None:
    """All numbers; within a unit in the last place of the format."""
    kind = KINDS[name]
    with np.errstate(all="ignore"):
        exact_values = FUNCTIONS[f](kind.values(EVERY))
        expected = kind.words(np.array([kind.form.round(exact.exact(v), "rn") for v in exact_values[::9]]))
    out = PROGRAMS[name].map(board, f"h{f}", np.uint16, EVERY[::9])
    got, wanted = kind.values(out), kind.values(expected)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    apart = np.abs((out & 0x7FFF).astype(int) - (expected & 0x7FFF).astype(int))[~np.isnan(wanted)]
    assert apart.max() <= 1, f"{apart.max()} units apart"
    assert (apart == 0).mean() > 0.98


@both
def test_pairs(board: Board, name: str) -> None:
    kind = KINDS[name]
    out, _ = PROGRAMS[name].run(
        board, "pairs", np.zeros(38, np.uint16), np.array([1.5, -3.0, 2.25], np.float32), block=1
    )
    x, y, q = 1.5, -3.0, 2.25
    root = kind.form.round(Fraction(1.5), "rn")
    expected = [
        x + q, y + q, x - q, y - q, x * q, y * q, x / q, y / q, x * q + x, y * q + y, q, q, y, x, x, x, y, y, y, q,
        -x, -y, root, root, x, q, y, q, y, x, 0.0, 0.0, 1.0, x, y, x, y, 4.0,
    ]  # fmt: skip
    same(kind, out, kind.words([kind.form.round(Fraction(v), "rn") for v in expected]))


@both
def test_atomic_sums(board: Board, name: str) -> None:
    kind = KINDS[name]
    total, totals, before = PROGRAMS[name].run(
        board, "adds", np.zeros(1, np.uint16), np.zeros(2, np.uint16), np.zeros(64, np.uint16), block=64
    )
    assert kind.values(total).tolist() == [64]
    assert kind.values(totals).tolist() == [64, 128]
    assert sorted(kind.values(before).tolist()) == list(range(64))
