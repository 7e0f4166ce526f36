"""Programs of CuPy, captured and replayed with other inputs: equal to NumPy, with all temporaries in the graph's own pool."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphcap
from tests.emulated_device import control, loader

_REPLAYS = 100
_SIZE = 257  # no multiple of a warp


def _twenty_operations(xp: Any, x: Any, y: Any) -> list[Any]:
    """Twenty calls with temporaries between them: element by element, reductions, indexing, shapes, casts."""
    a = x * 2 + y  # 1, 2
    b = xp.sqrt(xp.abs(a))  # 3, 4
    c = xp.where(a > 0, b, -b)  # 5, 6
    d = c - c.mean()  # 7, 8
    e = xp.concatenate([d[::-1], y[:3]])  # 9
    f = e.reshape(2, -1).sum(axis=0)  # 10
    g = xp.clip(f, -5, 5)  # 11
    h = xp.exp(-g * g)  # 12, 13, 14
    i = h.astype(xp.float32)  # 15
    j = xp.maximum(i, xp.float32(0.25))  # 16
    k = xp.cumsum(j)  # 17
    m = k[xp.arange(0, k.size, 3)]  # 18, 19
    return [d, h, k, m, m.max()]  # 20


def _bound(dtype: Any, n: int) -> float:
    """Of a sum of n terms, each rounded: relative to the largest value."""
    return 4 * n * float(np.finfo(dtype).eps)


def _equal(got: Any, wanted: Any, n: int) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    scale = float(np.abs(wanted).max()) or 1.0
    np.testing.assert_allclose(got, wanted, rtol=0, atol=_bound(wanted.dtype, math.ceil(math.sqrt(n))) * scale)


@pytest.mark.parametrize("seed", range(30))
def test_twenty_operations_with_changing_inputs(cp: Any, seed: int) -> None:
    if loader.load() == "emulated":
        control.seed(seed)
    random = np.random.default_rng(seed)
    x, y = cp.zeros(_SIZE), cp.zeros(_SIZE)
    _twenty_operations(cp, x, y)  # compiles, and fills CuPy's own pool
    graphcap.synchronize("cuda")  # whatever earlier graphs kept is given back
    pool = cp.get_default_memory_pool()
    used, total = pool.used_bytes(), pool.total_bytes()
    with graphcap.capture("cuda") as graph:
        results = _twenty_operations(cp, x, y)
    assert (pool.used_bytes(), pool.total_bytes()) == (used, total)
    assert graph.topology().counts()["kernel"] >= 20
    _lie_in_the_pool(graph, [array.data.mem for array in results])
    _temporaries_lie_in_the_pool(graph, [x, y])
    checked = range(_REPLAYS) if seed == 0 else {0, 1, _REPLAYS - 1}
    for step in range(_REPLAYS):
        inputs = random.standard_normal((2, _SIZE))
        x.set(inputs[0])
        y.set(inputs[1])
        graph.replay()
        if step in checked:
            for got, wanted in zip(results, _twenty_operations(np, *inputs), strict=True):
                _equal(cp.asnumpy(got), wanted, _SIZE)
    assert (pool.used_bytes(), pool.total_bytes()) == (used, total)


def _segments(graph: graphcap.Graph) -> list[tuple[int, int]]:
    rows = graphcap.memory_snapshot("cuda")["segments"]
    return [
        (row["address"], row["address"] + row["total_size"]) for row in rows if tuple(row["pool_id"]) == graph.pool()
    ]


def _lie_in_the_pool(graph: graphcap.Graph, memory: list[Any]) -> None:
    ranges = _segments(graph)
    for one in memory:
        assert any(low <= one.ptr and one.ptr + one.size <= high for low, high in ranges)


def _temporaries_lie_in_the_pool(graph: graphcap.Graph, inputs: list[Any]) -> None:
    """Whatever address a node of the graph has, it is an input's or the pool's: asked of the graph's own nodes."""
    ranges = [*_segments(graph), *((a.data.mem.ptr, a.data.mem.ptr + a.data.mem.size) for a in inputs)]
    impl: Any = graph._impl
    found = [use for use in impl._pointers() if use.certain or _is_device_memory(use.address)]
    assert len(found) >= 40  # at least one read and one written for each of twenty operations
    outside = [use for use in found if not any(low <= use.address < high for low, high in ranges)]
    assert not outside


def _is_device_memory(address: int) -> bool:
    from cuda.bindings import driver

    kind = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    return bool(driver.cuPointerGetAttribute(kind, address)[0] == driver.CUresult.CUDA_SUCCESS)


def _jacobi(xp: Any, u: Any, f: Any) -> None:
    u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - f[1:-1, 1:-1])


def _complex(xp: Any, u: Any, f: Any) -> None:
    z = u + 1j * f
    u[...] = (z * z.conj()).real ** 0.5
    f[...] = xp.angle(z) / xp.pi


def _mixed(xp: Any, u: Any, f: Any) -> None:
    mask = u > u.mean(axis=1, keepdims=True)
    u[...] = xp.where(mask, f, u * 0.5)
    f[...] = f * 0.5 + (u.astype(xp.float16) * xp.float16(0.5)).astype(f.dtype)


@pytest.mark.parametrize("step", [_jacobi, _complex, _mixed])
@pytest.mark.parametrize("seed", range(3))
def test_a_step_in_place_replayed(cp: Any, step: Callable[[Any, Any, Any], None], seed: int) -> None:
    if loader.load() == "emulated":
        control.seed(seed)
    random = np.random.default_rng(seed)
    start = random.standard_normal((2, 24, 31))
    u, f = cp.asarray(start[0]), cp.asarray(start[1])
    with graphcap.capture("cuda", warmup=lambda: step(cp, u, f), preserve=[u, f]) as graph:
        step(cp, u, f)
    wanted_u, wanted_f = start[0].copy(), start[1].copy()
    for _ in range(10):
        graph.replay()
        step(np, wanted_u, wanted_f)
    np.testing.assert_allclose(cp.asnumpy(u), wanted_u, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(cp.asnumpy(f), wanted_f, rtol=1e-9, atol=1e-9)
