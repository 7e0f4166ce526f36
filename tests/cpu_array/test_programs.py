"""Random NumPy programs: captured once, replayed with other inputs, equal to eager NumPy bit for bit."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphcap
from tests.cpu_native.tuning import as_if_large

from .harness import make_stream, same, xp

Plain = np.ndarray[Any, Any]
Values = list[Any]
Step = Callable[[Values, random.Random], Any]

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
SHAPES = [(), (1,), (4,), (3, 4), (3, 1), (1, 4), (2, 3, 4), (2, 1, 1), (0, 4), (3, 0), (17,), (130,)]
SCALARS: list[Any] = [0, 1, 2, -1, 3, 0.5, -1.25, 2.0, 1.5 + 0.5j, True, np.float32(1.5), np.int8(3), np.float64(0.25)]

UNARY = [
    "negative",
    "absolute",
    "square",
    "sqrt",
    "sin",
    "cos",
    "exp",
    "log1p",
    "tanh",
    "floor",
    "ceil",
    "rint",
    "sign",
    "isnan",
    "isfinite",
    "logical_not",
    "conjugate",
    "reciprocal",
    "positive",
    "cbrt",
    "log2",
    "invert",
    "signbit",
    "bitwise_count",
]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "true_divide",
    "floor_divide",
    "remainder",
    "maximum",
    "minimum",
    "fmax",
    "hypot",
    "arctan2",
    "greater",
    "less_equal",
    "equal",
    "not_equal",
    "logical_and",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "left_shift",
    "copysign",
    "nextafter",
    "logaddexp",
    "float_power",
]
OPERATORS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a / b,
    lambda a, b: a // b,
    lambda a, b: a % b,
    lambda a, b: a > b,
    lambda a, b: a == b,
    lambda a, b: b - a,
    lambda a, b: divmod(a, b),
    lambda a, b: a & b,
]
KEYS: list[Any] = [
    (Ellipsis,),
    (slice(1, None),),
    (slice(None, None, -1),),
    (slice(None, None, 2),),
    (0,),
    (-1,),
    (Ellipsis, 0),
    (Ellipsis, None),
    (slice(None), slice(1, -1)),
    (None, slice(None)),
    (Ellipsis, slice(1, 3)),
    (1, 2),
    ([0, -1],),
    (Ellipsis, [0, 0]),
]


def one(values: Values, rng: random.Random) -> Any:
    return values[rng.randrange(len(values))]


def two(values: Values, rng: random.Random) -> tuple[Any, Any]:
    return one(values, rng), one(values, rng)


def axis_of(a: Any, rng: random.Random) -> int | None:
    return None if a.ndim == 0 or rng.random() < 0.3 else rng.randrange(-a.ndim, a.ndim)


def unary(values: Values, rng: random.Random) -> Any:
    return getattr(np, rng.choice(UNARY))(one(values, rng))


def binary(values: Values, rng: random.Random) -> Any:
    return getattr(np, rng.choice(BINARY))(*two(values, rng))


def with_scalar(values: Values, rng: random.Random) -> Any:
    operator: Any = rng.choice(OPERATORS)
    return operator(one(values, rng), rng.choice(SCALARS))


def with_array(values: Values, rng: random.Random) -> Any:
    operator: Any = rng.choice(OPERATORS)
    return operator(*two(values, rng))


def power(values: Values, rng: random.Random) -> Any:
    return one(values, rng) ** rng.choice([2, 0, 1, 3, 0.5, 2.0])


def ufunc_options(values: Values, rng: random.Random) -> Any:
    a, b = two(values, rng)
    ufunc = getattr(np, rng.choice(["add", "multiply", "subtract", "maximum"]))
    out = np.zeros_like(np.add(a, b))
    kind = rng.randrange(4)
    if kind == 0:
        return ufunc(a, b, dtype=rng.choice(["f4", "f8", "c16", "i8"]), casting="unsafe")
    if kind == 1:
        return ufunc(a, b, out=out, casting="unsafe")
    if kind == 2:
        return ufunc(a, b, out=out, where=np.greater(b, a), casting="unsafe")
    return ufunc.outer(a, b)


def key(values: Values, rng: random.Random) -> Any:
    return one(values, rng)[rng.choice(KEYS)]


def assign(values: Values, rng: random.Random) -> Any:
    a, b = two(values, rng)
    a[rng.choice(KEYS)] = b if rng.random() < 0.5 else rng.choice(SCALARS)
    return a


def assign_mask(values: Values, rng: random.Random) -> Any:
    a, b = two(values, rng)
    a[np.less(a, b)] = rng.choice(SCALARS)
    return a


def in_place(values: Values, rng: random.Random) -> Any:
    a, b = two(values, rng)
    b = rng.choice([b, rng.choice(SCALARS)])
    kind = rng.randrange(5)
    if kind == 0:
        a += b
    elif kind == 1:
        a *= b
    elif kind == 2:
        a -= b
    elif kind == 3:
        a **= 2
    else:
        # Not a single item: NumPy makes a scalar of it, which has no in-place rules, and this namespace a 0-d array.
        a[rng.choice(KEYS[:4] + KEYS[6:11])] += b
    return a


def overlapping(values: Values, rng: random.Random) -> Any:
    a = one(values, rng)
    a[1:] += a[:-1]
    return a


def reduction(values: Values, rng: random.Random) -> Any:
    a = one(values, rng)
    name = rng.choice(["sum", "prod", "max", "min", "any", "all", "mean", "std", "var", "argmax", "cumsum", "cumprod"])
    axis = axis_of(a, rng)
    if name.startswith("cum"):
        return getattr(np, name)(a, axis=axis)
    return getattr(np, name)(a, axis=axis, keepdims=rng.random() < 0.3)


def reduction_options(values: Values, rng: random.Random) -> Any:
    a = one(values, rng)
    if rng.random() < 0.5:
        return np.sum(a, axis=axis_of(a, rng), where=np.greater(a, 0), initial=2)
    return np.add.reduce(a, axis=axis_of(a, rng), dtype=rng.choice(["f4", "f8", "c16"]))


def moved(values: Values, rng: random.Random) -> Any:
    a = one(values, rng)
    kind = rng.randrange(7)
    if kind == 0:
        return np.transpose(a)
    if kind == 1:
        return a.reshape(-1)
    if kind == 2:
        return np.roll(a, rng.randrange(-3, 4), axis=axis_of(a, rng))
    if kind == 3:
        return np.flip(a, axis_of(a, rng))
    if kind == 4:
        return a.ravel(order=rng.choice("CFAK"))
    if kind == 5:
        return np.broadcast_to(a, (2, *a.shape))
    return np.swapaxes(a, 0, -1)


def joined(values: Values, rng: random.Random) -> Any:
    a, b = two(values, rng)
    join: Any = rng.choice([np.concatenate, np.stack, np.hstack, np.vstack])
    return join([a, b, a])


def chosen(values: Values, rng: random.Random) -> Any:
    a, b = two(values, rng)
    kind = rng.randrange(6)
    if kind == 0:
        return np.where(np.greater(a, b), a, b)
    if kind == 1:
        return np.where(a, rng.choice(SCALARS), b)
    if kind == 2:
        return np.clip(a, rng.choice([0, -1.0, None]), rng.choice([2, 1.5]))
    if kind == 3:
        return np.take(a, [0, -1, 0], axis=0)
    if kind == 4:
        return np.sort(a, axis=-1)
    return a.clip(b, 3)


def product(values: Values, rng: random.Random) -> Any:
    a, b = two(values, rng)
    kind = rng.randrange(5)
    if kind == 0:
        return a @ b
    if kind == 1:
        return np.dot(a, np.transpose(b))
    if kind == 2:
        return np.inner(a, b)
    if kind == 3:
        return np.einsum("...i,...i->...", a, b)
    return np.tensordot(a, b, axes=([-1], [-1]))


def converted(values: Values, rng: random.Random) -> Any:
    a = one(values, rng)
    return a.astype(rng.choice(DTYPES), order=rng.choice("CFK")) if rng.random() < 0.7 else np.copy(a, order="K")


def made(values: Values, rng: random.Random) -> Any:
    a = one(values, rng)
    return rng.choice([np.zeros_like(a), np.ones_like(a, dtype="f4"), np.full_like(a, 2), np.pad(a, 1)])


def picked(values: Values, rng: random.Random) -> Any:
    a = one(values, rng)
    return a.real if rng.random() < 0.5 else a.imag


def transformed(values: Values, rng: random.Random) -> Any:
    a = one(values, rng)
    transform: Any = rng.choice([np.fft.fft, np.fft.ifft, np.fft.fftshift, np.diff])
    return np.cumsum(a) if a.ndim == 0 else transform(a)


STEPS: dict[str, Step] = {
    step.__name__: step
    for step in (
        unary,
        binary,
        with_scalar,
        with_array,
        power,
        ufunc_options,
        key,
        assign,
        assign_mask,
        in_place,
        overlapping,
        reduction,
        reduction_options,
        moved,
        joined,
        chosen,
        product,
        converted,
        made,
        picked,
        transformed,
    )
}


def run(steps: list[tuple[str, int]], inputs: list[Any], plain: bool) -> tuple[Values, list[str]]:
    """All values of a program, and the errors of the steps that NumPy refuses."""
    values = list(inputs)
    errors = []
    for name, seed in steps:
        try:
            result = STEPS[name](values, random.Random(seed))
        except (TypeError, ValueError, IndexError, OverflowError, np.exceptions.AxisError) as error:
            # Where two things are wrong at once, which one is told first is nobody's business.
            errors.append(name if name.startswith("assign") else f"{name}: {_kind(error)}")
            continue
        for item in result if isinstance(result, tuple) else (result,):
            # NumPy gives scalars where this namespace gives 0-d arrays.
            values.append(np.asarray(item) if plain else item)
    return values, errors


def _kind(error: Exception) -> str:
    return "TypeError" if isinstance(error, TypeError) else "ValueError" if isinstance(error, ValueError) else "Error"


def contents(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Plain:
    values: Plain = rng.normal(scale=3, size=shape)
    if np.dtype(dtype).kind == "c":
        return np.asarray((values + 1j * rng.normal(size=shape)).astype(dtype))
    if np.dtype(dtype).kind == "u":
        return np.asarray(np.abs(values).astype(dtype))
    if dtype == "?":
        return np.asarray(values > 0)
    converted: Plain = np.asarray(values.astype(dtype))
    return converted


def laid_out(data: Plain, layout: str) -> Plain:
    """The same values in another memory layout."""
    if layout == "F":
        return np.array(data, order="F")
    if layout == "gaps" and data.ndim:
        wide: Plain = np.zeros((*data.shape[:-1], 2 * data.shape[-1]), data.dtype)
        wide[..., ::2] = data
        found: Plain = wide[..., ::2]
        return found
    if layout == "reversed" and data.ndim:
        backwards: Plain = data[::-1].copy()[::-1]
        return backwards
    same_layout: Plain = data.copy()
    return same_layout


programs = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 10**6)), min_size=1, max_size=14)
operand = st.tuples(st.sampled_from(DTYPES), st.sampled_from(SHAPES), st.sampled_from(["C", "F", "gaps", "reversed"]))


kinds_of_operands = st.lists(operand, min_size=2, max_size=4)


@pytest.mark.parametrize(
    ("replay", "tuned", "threads"),
    [
        ("python", contextlib.nullcontext, 1),
        ("native", contextlib.nullcontext, 1),
        ("native", as_if_large, 1),
        ("native", as_if_large, 2),
        ("native", as_if_large, 4),
    ],
)
@settings(max_examples=80)
@given(steps=programs, kinds=kinds_of_operands, seed=st.integers(0, 10**6))
def test_replay_equals_eager_numpy(
    replay: str, tuned: Any, threads: int, steps: list[tuple[str, int]], kinds: list[tuple[str, Any, str]], seed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, tuned():
        patch.setenv("GRAPHCAP_CPU_THREADS", str(threads))
        check_program(steps, kinds, seed, replay)


@pytest.mark.slow
@pytest.mark.parametrize("replay", ["python", "native"])
@settings(max_examples=5000)
@given(steps=programs, kinds=kinds_of_operands, seed=st.integers(0, 10**6))
def test_replay_equals_eager_numpy_at_length(
    replay: str, steps: list[tuple[str, int]], kinds: list[tuple[str, Any, str]], seed: int
) -> None:
    check_program(steps, kinds, seed, replay)


def check_program(steps: list[tuple[str, int]], kinds: list[tuple[str, Any, str]], seed: int, replay: str) -> None:
    """Capture a program, replay it by the replay of that name, and compare with NumPy."""
    rng = np.random.default_rng(seed)
    memory = [laid_out(contents(rng, shape, dtype), layout) for dtype, shape, layout in kinds]
    graph = graphcap.Graph("cpu", keep_graph=True)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with make_stream("cpu"), graph:
            found, errors = run(steps, [xp.asarray(data) for data in memory], plain=False)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GRAPHCAP_CPU_REPLAY", replay)
            graph.instantiate()
        for _ in range(3):
            inputs = []
            for data, (dtype, shape, layout) in zip(memory, kinds, strict=True):
                fresh = contents(rng, shape, dtype)
                data[...] = fresh
                inputs.append(laid_out(fresh, layout))
            expected, refusals = run(steps, inputs, plain=True)
            assert errors == refusals
            graph.replay()
            same(found, expected)
