"""CPU replay beside its peers: a chain of 30 small operations, a diffusion step, a wave equation, at sizes from 10 to 10^6.

Peers are taken where they are installed: NumPy eager (always), numexpr on one thread, numba (fused loops), JAX, Warp. Each
peer's result is compared with NumPy's before it is timed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import graphcap
from benchmarks.timing import Timing, race

Array = Any
SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)


# -- the programs, in plain NumPy -------------------------------------------------------------------------------------


def chain(x: Array, a: Array) -> Array:
    """Thirty nodes: ten times multiply by a scalar, add an array, subtract a scalar."""
    for _ in range(10):
        x = x * 1.0001
        x = x + a
        x = x - 0.5
    return x


def diffuse(z: Array, kx: float = 0.1, ky: float = 0.12) -> None:
    """The time step of ``examples/terrain.py``."""
    centre = z[1:-1, 1:-1]
    across = z[1:-1, :-2] - 2.0 * centre + z[1:-1, 2:]
    along = z[:-2, 1:-1] - 2.0 * centre + z[2:, 1:-1]
    z[1:-1, 1:-1] = centre + kx * across + ky * along


def wave(u: Array, before: Array, c: float = 0.2) -> None:
    """One leap-frog step of the two-dimensional wave equation, in place."""
    inner = u[1:-1, 1:-1]
    laplacian = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * inner
    after = 2.0 * inner - before[1:-1, 1:-1] + c * laplacian
    before[...] = u
    u[1:-1, 1:-1] = after


def square(size: int) -> tuple[int, int]:
    """A grid of about `size` cells, at least 3 x 3."""
    side = max(3, math.isqrt(size))
    return side, max(3, round(size / side))


# -- graphcap ---------------------------------------------------------------------------------------------------------


def captured(body: Callable[[], Any], threads: int | None, *, python: bool = False) -> graphcap.Graph:
    """A graph of `body`, for one kind of replay."""
    names = {
        "GRAPHCAP_CPU_THREADS": None if threads is None else str(threads),
        "GRAPHCAP_CPU_REPLAY": "python" if python else None,
    }
    before = {name: os.environ.get(name) for name in names}
    try:
        for name, value in names.items():
            _set(name, value)
        with graphcap.capture("cpu") as graph:
            graph.retain(body())
        graph.instantiate()
        return graph
    finally:
        for name, value in before.items():
            _set(name, value)


def _set(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def graph_peers(arrays: list[np.ndarray[Any, Any]], body: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    """Replays of the same program: native on one and on two threads, and in Python."""
    xp = graphcap.array_namespace("cpu")
    peers: dict[str, Callable[[], Any]] = {}
    for name, threads, python in (
        ("graphcap 1 thread", 1, False),
        ("graphcap 2 threads", 2, False),
        ("graphcap Python", 1, True),
    ):
        own = [xp.asarray(array, copy=True) for array in arrays]
        graph = captured(lambda own=own: (own, body(*own)), threads, python=python)  # type: ignore[misc]  # bound now
        peers[name] = graph.replay
    return peers


# -- other peers, where they are installed ----------------------------------------------------------------------------


def found(module: str) -> Any:
    """The module, or ``None``."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def chain_peers(x: np.ndarray[Any, Any], a: np.ndarray[Any, Any]) -> dict[str, Callable[[], Any]]:
    """The chain by peers that compile expressions."""
    peers: dict[str, Callable[[], Any]] = {}
    numexpr, numba, jax = found("numexpr"), found("numba"), found("jax")
    if numexpr is not None:
        numexpr.set_num_threads(1)
        text = "x"
        for _ in range(10):
            text = f"({text} * 1.0001 + a - 0.5)"
        names = {"x": x, "a": a}
        peers["numexpr"] = lambda: numexpr.evaluate(text, local_dict=names)
    if numba is not None:

        @numba.njit  # type: ignore[untyped-decorator]  # numba carries no types
        def fused(x: Any, a: Any, out: Any) -> None:
            for i in range(x.size):
                value = x[i]
                for _ in range(10):
                    value = value * 1.0001
                    value = value + a[i]
                    value = value - 0.5
                out[i] = value

        out = np.empty_like(x)
        peers["numba"] = lambda: fused(x, a, out)
    if jax is not None:
        jax.config.update("jax_enable_x64", True)
        compiled, device_x, device_a = jax.jit(chain), jax.numpy.asarray(x), jax.numpy.asarray(a)
        peers["JAX"] = lambda: compiled(device_x, device_a).block_until_ready()
    if found("warp") is not None:
        from benchmarks import warp_chain

        peers["Warp CPU graph"] = warp_chain.replay_of(x, a, chain(x, a))
    return peers


def stencil_peers(body: Callable[..., Any], arrays: list[np.ndarray[Any, Any]]) -> dict[str, Callable[[], Any]]:
    """A grid program by numba, which compiles the slices as they stand."""
    numba = found("numba")
    if numba is None:
        return {}
    compiled = numba.njit(body)
    own = [array.copy() for array in arrays]
    return {"numba": lambda: compiled(*own)}


# -- measuring --------------------------------------------------------------------------------------------------------


def measure(program: str, size: int) -> dict[str, Timing]:
    """All peers of one program at one size."""
    rng = np.random.default_rng(0)
    if program == "chain":
        x, a = rng.random(size), rng.random(size)
        peers: dict[str, Callable[[], Any]] = {"NumPy": lambda: chain(x, a), **graph_peers([x, a], chain)}
        peers |= chain_peers(x, a)
    else:
        body = diffuse if program == "terrain" else wave
        shape = (344, 403) if size == 0 else square(size)
        arrays = [rng.random(shape) for _ in range(1 if program == "terrain" else 2)]
        own = [array.copy() for array in arrays]
        peers = {"NumPy": lambda: body(*own), **graph_peers(arrays, body), **stencil_peers(body, arrays)}
    return race(peers)


def check() -> None:
    """Replayed programs equal eager NumPy, bit by bit, before any of them is timed."""
    xp = graphcap.array_namespace("cpu")
    rng = np.random.default_rng(1)
    for body, count in ((chain, 2), (diffuse, 1), (wave, 2)):
        for shape in ((40, 50), (400, 500)):
            plain = [rng.random(shape) for _ in range(count)]
            own = [xp.asarray(array, copy=True) for array in plain]
            with graphcap.capture("cpu") as graph:
                result = body(*own)
            graph.replay()
            wanted = body(*plain)
            if result is not None and not np.array_equal(np.asarray(result), wanted):
                raise SystemExit(f"{body.__name__}: the replay differs from NumPy")
            for mine, theirs in zip(own, plain, strict=True):
                if not np.array_equal(np.asarray(mine), theirs):
                    raise SystemExit(f"{body.__name__}: the replay differs from NumPy")


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; with ``--json`` also write the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="three sizes only")
    options = parser.parse_args(arguments)
    check()
    rows = []
    cases = [(program, size) for program in ("chain", "wave") for size in (SIZES[::2] if options.quick else SIZES)]
    cases += [("terrain", size) for size in ((0,) if options.quick else (*SIZES, 0))]
    for program, size in cases:
        timings = measure(program, size)
        eager = timings["NumPy"].median
        print(
            f"\n{program}, {size or '344 x 403 (the real model)'} elements: microseconds per call, median (quartiles)"
        )
        for name, timing in timings.items():
            print(f"  {name:20} {timing.text:>36}   {eager / timing.median:6.2f} x NumPy")
            rows.append(
                {"program": program, "size": size, "peer": name, **timing._asdict(), "ratio": eager / timing.median}
            )
    if options.json:
        options.json.write_text(json.dumps({"numpy": np.__version__, "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
