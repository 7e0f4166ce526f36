"""Ordinary programs are never told of, refused or found stale: random ones, in strict captures and in debug mode, on every backend."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.testing import BackendFixtures
from graphcap.testing.case import NBYTES, N, vector


def _random(fx: BackendFixtures, stream: Any, seed: int, x: Any, out: Any) -> Any:
    """Capture a random chain over arrays that are made and dropped on the way; give what it computes, as a function of x."""
    random = np.random.default_rng(seed)
    held: list[tuple[Any, int, int]] = [(x, 1, 0)]  # buffer, factor, offset: every array is factor * x + offset
    zero = fx.allocate(NBYTES)
    stream.fill(zero, 0)
    for _ in range(12):
        source, factor, offset = held[int(random.integers(len(held)))]
        made = fx.allocate(NBYTES)
        if random.integers(2):
            stream.copy(made, source)
            held.append((made, factor, offset))
        else:
            fx.launch_axpy(stream, made, 2, source, zero)
            held.append((made, 2 * factor, 2 * offset))
        del made, source
        if len(held) > 3:
            held.pop(1 + int(random.integers(len(held) - 2)))
    last, factor, offset = held[-1]
    stream.copy(out, last)
    return lambda values: factor * values + offset


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(fx: BackendFixtures, seed: int) -> None:
    """Warnings are errors in these tests, so a false alarm fails."""
    stream, x, out = fx.make_stream(), fx.upload(vector(1)), fx.upload(np.zeros(N, np.float32))
    graph = graphcap.Graph(fx.device, lifetimes="strict")
    graph.enable_debug_mode()
    with stream, graph:
        expected = _random(fx, stream, seed, x, out)
    gc.collect()
    taken = fx.poison(NBYTES, stream)
    for turn in range(3):
        fx.helper.copy(x, vector(turn))
        fx.helper.synchronize()
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(out), expected(vector(turn)))
    for buffer in taken:
        assert (fx.download(buffer, np.uint8) == 0xAB).all()
    assert not graphcap.check_pool_order([graph])
