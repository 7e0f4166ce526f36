"""The random number stand-in: its generator against published values, its distributions against SciPy, its state and order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as cu
from scipy import stats

from tests.emulated_device import control
from tests.emulated_device.harness import Board, ok
from tests.standins.interface import interface, library

Array = np.ndarray[Any, Any]

DEFAULT, XORWOW, MRG, MTGP, MT, PHILOX, SOBOL, SCRAMBLED_64 = 100, 101, 121, 141, 142, 161, 201, 204
NOT_INITIALIZED, TYPE_ERROR, OUT_OF_RANGE, LENGTH_NOT_MULTIPLE, LAUNCH_FAILURE = 101, 103, 104, 105, 201
N = 40_000


class Generator:
    """A generator on a stream of its own."""

    def __init__(self, board: Board, kind: int = PHILOX, seed: int | None = 1) -> None:
        self.board, self.lib = board, library("curand")
        out = interface().new("void **")
        assert self.lib.curandCreateGenerator(out, kind) == 0
        self.handle = out[0]
        board.later(lambda: self.lib.curandDestroyGenerator(self.handle))
        self.stream = board.stream()
        assert self.lib.curandSetStream(self.handle, int(self.stream)) == 0
        if seed is not None:
            self.seed(seed)

    def seed(self, seed: int, offset: int | None = None) -> None:
        assert self.lib.curandSetPseudoRandomGeneratorSeed(self.handle, seed) == 0
        if offset is not None:
            assert self.lib.curandSetGeneratorOffset(self.handle, offset) == 0

    def submit(self, name: str, pointer: int, n: int, *arguments: float) -> int:
        return int(getattr(self.lib, f"curand{name}")(self.handle, pointer, n, *arguments))

    def draw(self, name: str, dtype: Any, n: int, *arguments: float) -> Array:
        pointer = self.board.buffer(n * np.dtype(dtype).itemsize)
        assert self.submit(name, pointer, n, *arguments) == 0
        return self.board.read(pointer, dtype, n)


@pytest.mark.parametrize(
    ("seed", "offset", "expected"),
    [
        (0, 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        (0x299F31D0_A4093822, None, None),
    ],
)
def test_the_generator_is_philox(board: Board, seed: int, offset: int | None, expected: list[int] | None) -> None:
    """The first row is a known answer of the authors' test file; the rest is computed here from the paper."""
    generator = Generator(board)
    generator.seed(seed, offset)
    got = generator.draw("Generate", np.uint32, 12)
    if expected is not None:
        assert got[:4].tolist() == expected
    assert got.tolist() == [word for block in range(3) for word in philox(block, seed)]


def philox(counter: int, key: int) -> list[int]:
    """Philox4x32-10 in plain integers."""
    mask, c = 2**32 - 1, [counter >> 32 * i & 2**32 - 1 for i in range(4)]
    k = [key & mask, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & mask, (a >> 32) ^ c[3] ^ k[1], a & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


def test_an_offset_skips_that_many_numbers(board: Board) -> None:
    generator = Generator(board)
    whole = generator.draw("Generate", np.uint32, 100)
    for offset in (0, 1, 3, 4, 50):
        generator.seed(1, offset)
        np.testing.assert_array_equal(generator.draw("Generate", np.uint32, 50), whole[offset : offset + 50])
    parts = Generator(board)
    np.testing.assert_array_equal(np.concatenate([parts.draw("Generate", np.uint32, n) for n in (1, 2, 30, 67)]), whole)


def test_kinds_and_seeds_differ_and_repeat(board: Board) -> None:
    drawn = [
        Generator(board, kind, 5).draw("Generate", np.uint32, 64) for kind in (DEFAULT, XORWOW, MRG, MTGP, MT, PHILOX)
    ]
    drawn += [Generator(board, PHILOX, seed).draw("Generate", np.uint32, 64) for seed in (6, 2**63)]
    assert len({one.tobytes() for one in drawn}) == len(drawn)
    np.testing.assert_array_equal(Generator(board, MT, 5).draw("Generate", np.uint32, 64), drawn[4])
    unseeded = [Generator(board, XORWOW, None).draw("Generate", np.uint32, 8) for _ in range(2)]
    np.testing.assert_array_equal(unseeded[0], unseeded[1])


DISTRIBUTIONS: list[tuple[str, Any, tuple[float, ...], Callable[..., Any]]] = [
    ("GenerateUniform", np.float32, (), stats.uniform()),
    ("GenerateUniformDouble", np.float64, (), stats.uniform()),
    ("GenerateNormal", np.float32, (2.0, 3.0), stats.norm(2, 3)),
    ("GenerateNormalDouble", np.float64, (-1.0, 0.5), stats.norm(-1, 0.5)),
    ("GenerateLogNormal", np.float32, (0.5, 0.75), stats.lognorm(0.75, scale=np.exp(0.5))),
    ("GenerateLogNormalDouble", np.float64, (0.5, 0.75), stats.lognorm(0.75, scale=np.exp(0.5))),
]


@pytest.mark.parametrize(("name", "dtype", "arguments", "law"), DISTRIBUTIONS)
@pytest.mark.parametrize("kind", [DEFAULT, PHILOX])
def test_distributions(board: Board, name: str, dtype: Any, arguments: tuple[float, ...], law: Any, kind: int) -> None:
    x = Generator(board, kind, 42).draw(name, dtype, N, *arguments).astype(float)
    assert stats.kstest(x, law.cdf).pvalue > 1e-3
    assert abs(x.mean() - law.mean()) < 5 * law.std() / N**0.5
    assert abs(x.std() / law.std() - 1) < 0.06
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.03
    if "Uniform" in name:
        assert x.min() > 0
        assert x.max() <= 1


def test_pairs_of_normal_numbers_are_not_related(board: Board) -> None:
    x = Generator(board).draw("GenerateNormal", np.float32, N, 0.0, 1.0)
    assert abs(np.corrcoef(x[::2], x[1::2])[0, 1]) < 0.03
    assert abs(np.corrcoef(x[::2] ** 2, x[1::2] ** 2)[0, 1]) < 0.03


def test_bits_are_even(board: Board) -> None:
    x = Generator(board).draw("Generate", np.uint32, N)
    for bit in range(32):
        assert abs((x >> bit & 1).mean() - 0.5) < 0.015
    counts = np.bincount(x >> 24, minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("rate", [0.1, 1.0, 9.9, 10.0, 37.5, 1000.0, 300_000.0])
def test_poisson(board: Board, rate: float) -> None:
    x = Generator(board, seed=3).draw("GeneratePoisson", np.uint32, N, rate).astype(float)
    assert abs(x.mean() - rate) < 5 * (rate / N) ** 0.5
    assert abs(x.var() / rate - 1) < 0.1
    law = stats.poisson(rate)
    edges = np.unique(law.ppf(np.linspace(0.02, 0.98, 25)))
    observed = np.histogram(x, np.concatenate([[-1], edges, [np.inf]]) + 0.5)[0]
    expected = np.diff(np.concatenate([[0], law.cdf(edges), [1]])) * N
    wanted = expected > 5
    assert (
        stats.chisquare(observed[wanted], expected[wanted] * observed[wanted].sum() / expected[wanted].sum()).pvalue
        > 1e-4
    )


def test_draws_go_by_the_order_of_the_stream(board: Board) -> None:
    """The numbers, and which draw got which, are the same under every order of work."""
    expected: list[bytes] | None = None
    for seed in range(20):
        control.seed(seed)
        generator = Generator(board)
        pointers = [board.buffer(400) for _ in range(4)]
        for pointer in pointers:
            assert generator.submit("GenerateUniform", pointer, 100) == 0
        drawn = [board.read(pointer, np.float32, 100).tobytes() for pointer in pointers]
        assert expected is None or drawn == expected
        expected = drawn
    assert len(set(expected or ())) == 4


def test_every_replay_of_a_captured_draw_goes_on_in_the_sequence(board: Board) -> None:
    generator = Generator(board)
    whole = generator.draw("Generate", np.uint32, 40)
    generator.seed(1)
    start = generator.draw("Generate", np.uint32, 10)
    out = board.buffer(40)
    executable = board.instantiate(board.capture(generator.stream, lambda: generator.submit("Generate", out, 10)))
    parts = [start]
    for _ in range(2):
        ok(cu.cuGraphLaunch(executable, generator.stream))
        parts.append(board.read(out, np.uint32, 10))
    parts.append(generator.draw("Generate", np.uint32, 10))
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_what_is_refused(board: Board) -> None:
    lib, out = library("curand"), interface().new("void **")
    for kind in (SOBOL, SCRAMBLED_64, 0):
        assert lib.curandCreateGenerator(out, kind) == TYPE_ERROR
    generator = Generator(board)
    pointer = board.buffer(64)
    assert generator.submit("GenerateNormal", pointer, 3, 0.0, 1.0) == LENGTH_NOT_MULTIPLE
    assert generator.submit("GenerateLogNormalDouble", pointer, 3, 0.0, 1.0) == LENGTH_NOT_MULTIPLE
    assert generator.submit("GenerateLongLong", pointer, 2) == TYPE_ERROR
    assert generator.submit("GeneratePoisson", pointer, 2, 0.0) == OUT_OF_RANGE
    assert generator.submit("GeneratePoisson", pointer, 2, 1e6) == OUT_OF_RANGE
    assert lib.curandSetGeneratorOrdering(generator.handle, 99) == OUT_OF_RANGE
    assert lib.curandSetGeneratorOrdering(generator.handle, 101) == 0
    assert lib.curandGenerate(interface().NULL, pointer, 2) == NOT_INITIALIZED
    control.fail("cuLaunchKernel", 1, 999)
    assert generator.submit("Generate", pointer, 2) == LAUNCH_FAILURE
    control.reset_faults()
    np.testing.assert_array_equal(
        generator.draw("Generate", np.uint32, 4), philox(0, 1)
    )  # the failed seeding is done again
