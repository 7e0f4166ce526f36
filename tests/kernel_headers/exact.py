"""Rounding of exact numbers to floating point formats, by the definition: the oracle for conversions and arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, Literal

Mode = Literal["rn", "rz", "ru", "rd"]
MODES: Final[tuple[Mode, ...]] = ("rn", "rz", "ru", "rd")
Number = Fraction | float  # a float stands for an infinity or a NaN alone


class Format:
    """A binary format: digits of the significand (with the leading one), and the least and greatest exponents."""

    def __init__(self, digits: int, least: int, greatest: int) -> None:
        self.digits, self.least, self.greatest = digits, least, greatest
        self.top = Fraction(2) ** greatest * (2 - Fraction(2) ** (1 - digits))

    def round(self, exact: Number, mode: Mode) -> float:
        """The format's number for an exact one; zeros come out positive."""
        if isinstance(exact, float):
            return exact
        sign = -1 if exact < 0 else 1
        size = abs(exact)
        if size == 0:
            return 0.0
        exponent = max(self._exponent(size), self.least)
        unit = Fraction(2) ** (exponent - self.digits + 1)
        below = size // unit
        rest = size - below * unit
        away = {"rz": False, "ru": rest > 0 and sign > 0, "rd": rest > 0 and sign < 0}.get(mode)
        if away is None:
            away = 2 * rest > unit or (2 * rest == unit and below % 2 == 1)
        result = (below + away) * unit
        if result > self.top:
            inward = mode == "rz" or (mode == "ru" and sign < 0) or (mode == "rd" and sign > 0)
            return sign * (float(self.top) if inward else math.inf)
        return sign * float(result)

    @staticmethod
    def _exponent(size: Fraction) -> int:
        guess = size.numerator.bit_length() - size.denominator.bit_length()
        return guess if Fraction(2) ** guess <= size else guess - 1


HALF: Final = Format(11, -14, 15)
BFLOAT: Final = Format(8, -126, 127)
SINGLE: Final = Format(24, -126, 127)
DOUBLE: Final = Format(53, -1022, 1023)


def exact(x: float) -> Number:
    """A finite number as a fraction; infinities and NaN as they are."""
    x = float(x)
    return Fraction(x) if math.isfinite(x) else x


def to_integer(x: float, mode: Mode, bits: int, is_signed: bool, source_bits: int) -> int:
    """A floating point number as an integer, by PTX's rules for ``cvt``: saturating; NaN is 0, or the top bit alone."""
    if math.isnan(x):
        pattern = 1 << (bits - 1) if source_bits == 64 or bits == 64 else 0
        return pattern - (1 << bits) if is_signed and pattern else pattern
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    if math.isinf(x):
        return high if x > 0 else low
    value = Fraction(x)
    floor = math.floor(value)
    rounded = {"rd": floor, "ru": math.ceil(value), "rz": math.trunc(value), "rn": round(value)}[mode]
    return min(max(rounded, low), high)
