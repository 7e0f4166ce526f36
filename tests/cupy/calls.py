"""Calls that CuPy and NumPy both have, as text: each is evaluated once with either as ``xp``, on equal inputs.

The list was written before anything of it ran. Left out are what a GPU's CuPy takes from libraries: sorting, linear algebra,
Fourier transforms, random numbers.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_ELEMENTWISE = """
a + b|a * b - 2|a / b|a // b|a % b|i // j|i % j|k // j|a ** 2|-a|abs(a)|i << 2|i >> 1|i & j|i | j|i ^ j|~i|~t
a > b|i == j|xp.where(t1, a, b)|xp.maximum(a, b)|xp.minimum(i, j)|xp.clip(a, -1, 1)|xp.sqrt(abs(a))|xp.exp(a)|xp.log(abs(a) + 1)
xp.sin(a)|xp.cos(m)|xp.tan(a)|xp.arcsin(a / 4)|xp.arctan2(a, b)|xp.sinh(a)|xp.tanh(m)|xp.exp2(a)|xp.log2(abs(a) + 1)|xp.log10(abs(a) + 1)
xp.log1p(abs(a))|xp.expm1(a)|xp.hypot(a, b)|xp.floor(a)|xp.ceil(a)|xp.trunc(a)|xp.rint(a)|xp.sign(a)|xp.copysign(a, b)|xp.fmod(a, b)
xp.divmod(i, j)[0]|xp.divmod(a, b)[1]|xp.reciprocal(b)|xp.square(i)|xp.cbrt(a)|xp.deg2rad(a)|xp.isnan(n)|xp.isfinite(n)
xp.logical_and(a > 0, b > 0)|xp.logical_xor(a > 0, b > 0)|xp.signbit(a)|xp.ldexp(a, i)|xp.frexp(a)[0]|xp.nextafter(a, b)|xp.gcd(i, j)
xp.lcm(i, j)|xp.heaviside(a, 0.5)|xp.around(m, 2)|xp.nan_to_num(n)|xp.sinc(a)|a + 1.5|u + 1|a + m[0, :8].sum()|i.astype("f8") / 3
u.astype("i8") * -3|a.astype("i4")|(a > 0).astype("u1")|xp.power(abs(a), 1.5)|xp.logaddexp(a, b)|m + m[0]|m[:, :1] * m[:1]
"""

_HALF = "h + h|h * 3|xp.sqrt(abs(h))|h.astype('f4')|a.astype('f2')|h.sum()|h.max()|h > 0|xp.where(h > 0, h, -h)|h + a"

_COMPLEX = """
z * w|z / w|z + a|abs(z)|z.conj()|xp.exp(z)|z.real + z.imag|xp.angle(z)|xp.sqrt(z)|(z * w).sum()|z ** 2|xp.sin(z)|z == w|z.astype("c16") * 2
z.prod()|xp.log(z)|z.mean()
"""

_REDUCTIONS = """
a.sum()|m.sum(axis=0)|m.sum(axis=1)|m.sum(axis=(0, 1), keepdims=True)|m.sum(axis=1, keepdims=True)|b.prod()|m.mean()|m.mean(axis=0)
m.var()|m.std(axis=1)|m.min()|m.max(axis=0)|m.argmin()|m.argmax(axis=1)|t.any()|t.all(axis=0)|xp.count_nonzero(t)|xp.ptp(m)
xp.nansum(n)|xp.nanmax(n)|xp.nanmean(n)|a.cumsum()|m.cumsum(axis=1)|b.cumprod()|t.sum()|u.sum()|big.sum()|big.max()|big.cumsum()
xp.average(m, axis=0)|xp.trace(m)|cube.sum(axis=(0, 2))|cube.max(axis=1)|xp.linalg.norm(a)
"""

_INDEXING = """
m[::2, 1:5]|m[:, None].shape|m[p]|m[p, q]|m[t]|m[..., -1]|m[::-1]|xp.take(m, p, axis=1)|xp.nonzero(t)[0]|xp.flatnonzero(t)
xp.argwhere(t)|xp.compress(t1, a)|xp.diagonal(m)|xp.diag(a)|xp.tril(m)|xp.triu(m, 1)|xp.searchsorted(s, a)|xp.choose(p, xp.stack([a[:4], b[:4], a[4:8]]))
put(m, (slice(1, 3), slice(None)), 7)|put(m, t, 0)|put(m, p, m[0])|put(a, slice(None, None, 2), b[::2])|xp.take_along_axis(m, m.argmax(axis=1)[:, None], 1)
xp.extract(t, m)|xp.unravel_index(p, (2, 4))[1]|xp.select([a > 1, a > 0], [a, b])
"""

_MANIPULATION = """
m.T.copy()|m.reshape(12, 36)|m.ravel(order="F")|xp.concatenate([a, b])|xp.stack([a, b], axis=1)|xp.hstack([m, m])|xp.vstack([a, b])|xp.split(m, 3)[1]
xp.repeat(a, 3)|xp.tile(a, 2)|xp.roll(m, 2, axis=1)|xp.flip(m, 0)|xp.rot90(m)|xp.squeeze(m[:1])|xp.broadcast_to(a, (3, 8)).copy()
xp.moveaxis(cube, 0, 2).copy()|xp.swapaxes(cube, 0, 1).copy()|xp.pad(m, 2, mode="edge")|xp.pad(a, 1)|a.view("i4")|xp.packbits(u > 4)
"""

_MAKING = """
xp.arange(3, 20, 4)|xp.linspace(0, 1, 9)|xp.eye(4, dtype="f4")|xp.full((2, 3), 2.5)|xp.ones_like(u)|xp.meshgrid(a, b)[1]|xp.tri(4)
xp.logspace(0, 2, 5)|xp.indices((2, 3))|xp.zeros((2, 2), dtype="c8")|xp.identity(3)
"""

_OTHER = """
xp.bincount(k)|xp.histogram(a, bins=5, range=(-3, 3))[0]|xp.digitize(a, s)|xp.interp(a, s, s * 2)|xp.diff(m, axis=0)|xp.gradient(a)
xp.outer(a, b)|xp.kron(a[:2], b[:2])|xp.cross(a[:3], b[:3])|xp.unwrap(a * 3)|xp.polyval(b[:3], a)|xp.ediff1d(a)|xp.allclose(a, a + 1e-9)
xp.array_equal(a, b)|xp.convolve(i[:4], j[:3])|xp.i0(a)|xp.bitwise_xor.reduce(i) if xp is np else xp.asarray(np.bitwise_xor.reduce(xp.asnumpy(i)))
"""


def _texts(block: str) -> list[str]:
    return [text.strip() for line in block.strip().splitlines() for text in _split(line)]


def _split(line: str) -> list[str]:
    """At single bars: a bar between blanks is the operator."""
    return line.replace(" | ", "\0").replace("|", "\1").replace("\0", " | ").split("\1")


CALLS: Final = [
    text
    for block in (_ELEMENTWISE, _HALF, _COMPLEX, _REDUCTIONS, _INDEXING, _MANIPULATION, _MAKING, _OTHER)
    for text in _texts(block)
]
"""The texts, each of which is a test of its own."""


def inputs() -> dict[str, Any]:
    """The arrays that the texts name, as NumPy's: equal at every call."""
    random = np.random.default_rng(20)
    a, b = random.normal(size=8).astype("f4"), random.normal(size=8).astype("f4") + 2
    return {
        "a": a,
        "b": b,
        "m": random.normal(size=(18, 24)),
        "cube": random.normal(size=(3, 4, 5)),
        "big": random.integers(0, 100, 5000),
        "i": np.array([7, -7, 12, 0, 5, 100, -3, 8], dtype="i4"),
        "j": np.array([3, 3, -5, 4, 5, 7, 2, -8], dtype="i4"),
        "k": np.array([1, 0, 3, 3, 5, 1, 0, 1], dtype="i4"),
        "u": np.array([0, 1, 2, 9, 250, 255, 7, 8], dtype="u1"),
        "t": random.normal(size=(18, 24)) > 0.5,
        "t1": np.array([1, 0, 0, 1, 1, 0, 1, 0], dtype=bool),
        "n": np.array([1, np.nan, -2, 0, np.nan, 5, 6, 7], dtype="f8"),
        "h": random.normal(size=8).astype("f2"),
        "z": (a + 1j * b).astype("c8"),
        "w": (b - 2j * a).astype("c8"),
        "p": np.array([2, 0, 1, 2]),
        "q": np.array([5, 0, 3, 23]),
        "s": np.array([-2.0, -1.0, 0.0, 1.0, 2.0]),
    }


def put(array: Any, where: Any, value: Any) -> Any:
    """A copy of an array, with a part of it set."""
    array = array.copy()
    array[where] = value
    return array


def evaluate(text: str, xp: Any) -> Any:
    """What a text gives with a module in the place of ``xp``."""
    names = {name: xp.asarray(array) for name, array in inputs().items()}
    return eval(text, {"xp": xp, "np": np, "put": put}, names)
