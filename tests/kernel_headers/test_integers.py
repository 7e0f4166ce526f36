"""Integer intrinsics, against Python's unbounded integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.emulated_device.harness import Board
from tests.kernel_headers.programs import Array, Program, elementwise

EDGES = [0, 1, 2, 3, 7, 8, 31, 32, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFF, 0x800000, 0xFFFFFF, 0x12345678]


def words(bits: int, seed: int) -> list[int]:
    """Edge values and random ones, as unsigned numbers."""
    top = 1 << bits
    draw = np.random.default_rng(seed)
    some = [int(x) for x in draw.integers(0, top, 200, np.uint64 if bits == 64 else np.uint32, endpoint=False)]
    values = [*EDGES, top // 2 - 1, top // 2, top // 2 + 1, top - 1, top - 2, *some]
    return [values[i] for i in draw.permutation(len(values))]


def signed(x: int, bits: int = 32) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def reversed_bits(x: int, bits: int) -> int:
    return int(format(x, f"0{bits}b")[::-1], 2)


def byte_perm(x: int, y: int, selector: int) -> int:
    pool = [*x.to_bytes(4, "little"), *y.to_bytes(4, "little")]
    out = []
    for i in range(4):
        nibble = selector >> 4 * i & 15
        byte = pool[nibble & 7]
        out.append((0xFF if byte & 0x80 else 0) if nibble & 8 else byte)
    return int.from_bytes(bytes(out), "little")


def fns(mask: int, base: int, offset: int) -> int:
    """The documented search: the offset-th set bit from the base on, upwards or downwards."""
    base &= 31
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    places = range(base, 32) if offset > 0 else range(base, -1, -1)
    found = [i for i in places if mask >> i & 1]
    return found[abs(offset) - 1] if len(found) >= abs(offset) else 0xFFFFFFFF


def parts(x: int, bits: int, is_signed: bool) -> list[int]:
    pieces = [x >> shift & ((1 << bits) - 1) for shift in range(0, 32, bits)]
    return [signed(p, bits) for p in pieces] if is_signed else pieces


def by_parts(bits: int, is_signed: bool, f: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def apply(x: int, y: int) -> int:
        out = 0
        for i, (a, b) in enumerate(zip(parts(x, bits, is_signed), parts(y, bits, is_signed), strict=True)):
            out |= (f(a, b) & ((1 << bits) - 1)) << bits * i
        return out

    return apply


def clamp(low: int, high: int) -> Callable[[int], int]:
    return lambda x: min(max(x, low), high)


M32, M64 = (1 << 32) - 1, (1 << 64) - 1
UNARY32: dict[str, Callable[[int], int]] = {
    "__clz": lambda x: 32 - x.bit_length(),
    "__ffs": lambda x: (x & -x).bit_length(),
    "__popc": lambda x: x.bit_count(),
    "__brev": lambda x: reversed_bits(x, 32),
    "__vabs4": lambda x: by_parts(8, True, lambda a, _: abs(a))(x, 0),
    "__vabs2": lambda x: by_parts(16, True, lambda a, _: abs(a))(x, 0),
    "__vneg4": lambda x: by_parts(8, True, lambda a, _: -a)(x, 0),
    "__vabsss4": lambda x: by_parts(8, True, lambda a, _: min(abs(a), 127))(x, 0),
    "__vabsss2": lambda x: by_parts(16, True, lambda a, _: min(abs(a), 32767))(x, 0),
    "__vnegss4": lambda x: by_parts(8, True, lambda a, _: min(-a, 127))(x, 0),
    "__vnegss2": lambda x: by_parts(16, True, lambda a, _: min(-a, 32767))(x, 0),
}
UNARY64: dict[str, Callable[[int], int]] = {
    "__clzll": lambda x: 64 - x.bit_length(),
    "__ffsll": lambda x: (x & -x).bit_length(),
    "__popcll": lambda x: x.bit_count(),
    "__brevll": lambda x: reversed_bits(x, 64),
}
BINARY32: dict[str, Callable[[int, int], int]] = {
    "__mulhi": lambda x, y: signed(x) * signed(y) >> 32,
    "__umulhi": lambda x, y: x * y >> 32,
    "__mul24": lambda x, y: signed(x, 24) * signed(y, 24),
    "__umul24": lambda x, y: (x & 0xFFFFFF) * (y & 0xFFFFFF),
    "__rhadd": lambda x, y: (signed(x) + signed(y) + 1) >> 1,
    "__uhadd": lambda x, y: (x + y) >> 1,
    "__urhadd": lambda x, y: (x + y + 1) >> 1,
    "__vadd4": by_parts(8, False, lambda a, b: a + b),
    "__vadd2": by_parts(16, False, lambda a, b: a + b),
    "__vsub4": by_parts(8, False, lambda a, b: a - b),
    "__vaddus4": by_parts(8, False, lambda a, b: min(a + b, 255)),
    "__vaddus2": by_parts(16, False, lambda a, b: min(a + b, 65535)),
    "__vaddss4": by_parts(8, True, lambda a, b: clamp(-128, 127)(a + b)),
    "__vaddss2": by_parts(16, True, lambda a, b: clamp(-32768, 32767)(a + b)),
    "__vsubus4": by_parts(8, False, lambda a, b: max(a - b, 0)),
    "__vsubss2": by_parts(16, True, lambda a, b: clamp(-32768, 32767)(a - b)),
    "__vmaxs4": by_parts(8, True, max),
    "__vmaxu2": by_parts(16, False, max),
    "__vminu4": by_parts(8, False, min),
    "__vmins2": by_parts(16, True, min),
    "__vcmpeq4": by_parts(8, False, lambda a, b: -(a == b)),
    "__vcmpgts2": by_parts(16, True, lambda a, b: -(a > b)),
    "__vsetltu4": by_parts(8, False, lambda a, b: int(a < b)),
    "__vsetges4": by_parts(8, True, lambda a, b: int(a >= b)),
    "__vabsdiffu4": by_parts(8, False, lambda a, b: abs(a - b)),
    "__vabsdiffs2": by_parts(16, True, lambda a, b: abs(a - b)),
    "__vavgu4": by_parts(8, False, lambda a, b: (a + b + 1) >> 1),
    "__vhaddu2": by_parts(16, False, lambda a, b: (a + b) >> 1),
    "__vsadu4": lambda x, y: sum(abs(a - b) for a, b in zip(parts(x, 8, False), parts(y, 8, False), strict=True)),
    "__vsads4": lambda x, y: sum(abs(a - b) for a, b in zip(parts(x, 8, True), parts(y, 8, True), strict=True)),
}
BINARY64: dict[str, Callable[[int, int], int]] = {
    "__mul64hi": lambda x, y: signed(x, 64) * signed(y, 64) >> 64,
    "__umul64hi": lambda x, y: x * y >> 64,
}
TERNARY32: dict[str, Callable[[int, int, int], int]] = {
    "__byte_perm": byte_perm,
    "__funnelshift_l": lambda low, high, s: ((high << 32 | low) << (s & 31)) >> 32,
    "__funnelshift_r": lambda low, high, s: (high << 32 | low) >> (s & 31),
    "__funnelshift_lc": lambda low, high, s: ((high << 32 | low) << min(s, 32)) >> 32,
    "__funnelshift_rc": lambda low, high, s: (high << 32 | low) >> min(s, 32),
    "__sad": lambda x, y, z: abs(signed(x) - signed(y)) + z,
    "__usad": lambda x, y, z: abs(x - y) + z,
    "__dp4a": lambda x, y, z: sum(a * b for a, b in zip(parts(x, 8, False), parts(y, 8, False), strict=True)) + z,
    "__dp2a_lo": lambda x, y, z: sum(a * b for a, b in zip(parts(x, 16, False), parts(y, 8, False)[:2], strict=True)) + z,
    "__dp2a_hi": lambda x, y, z: sum(a * b for a, b in zip(parts(x, 16, False), parts(y, 8, False)[2:], strict=True)) + z,
}  # fmt: skip

U, L = "unsigned", "unsigned long long"
PROGRAM = Program(
    *(elementwise("k" + name, U, U, f"{name}(a)") for name in UNARY32),
    *(elementwise("k" + name, L, L, f"{name}(a)") for name in UNARY64),
    *(elementwise("k" + name, U, f"{U}, {U}", f"{name}(a, b)") for name in BINARY32),
    *(elementwise("k" + name, L, f"{L}, {L}", f"{name}(a, b)") for name in BINARY64),
    *(elementwise("k" + name, U, f"{U}, {U}, {U}", f"{name}(a, b, c)") for name in TERNARY32),
    elementwise("k__hadd", "int", "int, int", "__hadd(a, b)"),
    elementwise("k__dp4a_s", "int", "int, int, int", "__dp4a(a, b, c)"),
    elementwise("k__dp2a_lo_s", "int", "int, int, int", "__dp2a_lo(a, b, c)"),
    elementwise("k__fns", U, f"{U}, {U}, int", "__fns(a, b, c)"),
    elementwise("kmin_mixed", U, f"int, {U}", "min(a, b)"),
    elementwise("kmax_mixed", U, f"{U}, int", "max(a, b)"),
    elementwise("kmin_short", "int", "short, short", "min(a, b)"),
    elementwise("kmax_ll", "long long", "long long, long long", "max(a, b)"),
    elementwise("kmax_ull", L, f"long long, {L}", "max(a, b)"),
)


def check(board: Board, kernel: str, bits: int, f: Callable[..., int], count: int) -> None:
    dtype = np.uint64 if bits == 64 else np.uint32
    columns = [words(bits, seed) for seed in range(count)]
    out = PROGRAM.map(board, "k" + kernel, dtype, *(np.array(c, dtype) for c in columns))
    mask = (1 << bits) - 1
    expected = [f(*row) & mask for row in zip(*columns, strict=True)]
    wrong = [(row, int(o), e) for row, o, e in zip(zip(*columns, strict=True), out, expected, strict=True) if o != e]
    assert not wrong, f"{kernel}: {len(wrong)} wrong, first {wrong[0]}"


@pytest.mark.parametrize("name", UNARY32)
def test_one_word(board: Board, name: str) -> None:
    check(board, name, 32, UNARY32[name], 1)


@pytest.mark.parametrize("name", UNARY64)
def test_one_long_word(board: Board, name: str) -> None:
    check(board, name, 64, UNARY64[name], 1)


@pytest.mark.parametrize("name", BINARY32)
def test_two_words(board: Board, name: str) -> None:
    check(board, name, 32, BINARY32[name], 2)


@pytest.mark.parametrize("name", BINARY64)
def test_two_long_words(board: Board, name: str) -> None:
    check(board, name, 64, BINARY64[name], 2)


@pytest.mark.parametrize("name", TERNARY32)
def test_three_words(board: Board, name: str) -> None:
    check(board, name, 32, TERNARY32[name], 3)


def test_signed_overloads(board: Board) -> None:
    x, y, z = (np.array(words(32, seed), np.uint32) for seed in (3, 4, 5))
    check(board, "__hadd", 32, lambda a, b: (signed(a) + signed(b)) >> 1, 2)

    def dot(a: int, b: int, c: int) -> int:
        return sum(p * q for p, q in zip(parts(a, 8, True), parts(b, 8, True), strict=True)) + c

    check(board, "__dp4a_s", 32, dot, 3)
    out = PROGRAM.map(board, "k__dp2a_lo_s", np.int32, x, y, z)
    halves = [
        sum(p * q for p, q in zip(parts(int(a), 16, True), parts(int(b), 8, True)[:2], strict=True)) + int(c)
        for a, b, c in zip(x, y, z, strict=True)
    ]
    assert [int(v) for v in out] == [signed(v) for v in halves]


def test_nth_set_bit(board: Board) -> None:
    rows = [(m, b, o) for m in words(32, 9)[:40] for b in (0, 1, 5, 16, 31) for o in (-33, -3, -1, 0, 1, 2, 7, 32)]
    mask, base, offset = (np.array(c) for c in zip(*rows, strict=True))
    out = PROGRAM.map(
        board, "k__fns", np.uint32, mask.astype(np.uint32), base.astype(np.uint32), offset.astype(np.int32)
    )
    assert [int(x) for x in out] == [fns(*row) for row in rows]


def test_min_and_max_of_mixed_types(board: Board) -> None:
    """A signed and an unsigned number are compared as unsigned ones."""
    x, y = np.array(words(32, 1), np.uint32), np.array(words(32, 2), np.uint32)
    assert (PROGRAM.map(board, "kmin_mixed", np.uint32, x, y) == np.minimum(x, y)).all()
    assert (PROGRAM.map(board, "kmax_mixed", np.uint32, x, y) == np.maximum(x, y)).all()
    a, b = x.astype(np.int16), y.astype(np.int16)
    assert (PROGRAM.map(board, "kmin_short", np.int32, a, b) == np.minimum(a, b)).all()
    p: Array = np.array(words(64, 1), np.uint64)
    q: Array = np.array(words(64, 2), np.uint64)
    assert (PROGRAM.map(board, "kmax_ll", np.int64, p, q) == np.maximum(p.view(np.int64), q.view(np.int64))).all()
    assert (PROGRAM.map(board, "kmax_ull", np.uint64, p, q) == np.maximum(p, q)).all()
