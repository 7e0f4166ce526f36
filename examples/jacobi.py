"""Solve Poisson's equation by Jacobi's method: capture ten sweeps and their change, replay until the change is small.

    python examples/jacobi.py [--device cpu] [--cells 128] [--tolerance 1e-6] [--quiet]

-laplace(u) = f on the unit square, u = 0 on its rim, with f chosen so that u = sin(pi x) sin(pi y) is the solution. The sweeps are
plain NumPy code: on the CPU they run on graphcap's arrays, on CUDA on CuPy's. All temporaries lie in the graph's own pool, the
host only reads one number between replays. The same loop in eager NumPy is the check, bit by bit: each operation is
a kernel of its own, so nothing is rounded differently.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np

import graphcap

SWEEPS = 10  # in one graph: enough that launching costs little beside them
MOST_REPLAYS = 100_000


class UserError(Exception):
    """Something the user can mend; told in one line."""


def problem(cells: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The source term times the square of the cell size, and the exact solution, on (cells + 1) x (cells + 1) points."""
    x = np.linspace(0.0, 1.0, cells + 1)
    exact = np.sin(np.pi * x)[:, None] * np.sin(np.pi * x)[None, :]
    return 2 * np.pi**2 * exact / cells**2, exact


def sweeps(xp: Any, u: Any, f: Any, change: Any) -> None:
    """Ten sweeps in place; `change` (shape ()) gets the largest change of a value by the last one."""
    inner = u[1:-1, 1:-1]
    for sweep in range(SWEEPS):
        new = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] + f[1:-1, 1:-1])
        if sweep == SWEEPS - 1:
            change[...] = xp.abs(new - inner).max()
        inner[...] = new


def captured(device: str, f_host: np.ndarray[Any, Any], tolerance: float) -> tuple[Any, int, float, graphcap.Graph]:
    """Solve by replays. Gives the solution on the host, the replays, the seconds per replay and the graph."""
    xp = graphcap.array_namespace(device)
    f, u, change = xp.asarray(f_host), xp.zeros(f_host.shape), xp.zeros(())

    def work() -> None:
        sweeps(xp, u, f, change)

    with graphcap.capture(device, warmup=work, preserve=[u]) as graph:
        work()
    began = time.perf_counter()
    replays = 0
    while replays == 0 or float(change) >= tolerance:  # reading it waits for the replay
        if replays == MOST_REPLAYS:
            raise UserError(f"--tolerance {tolerance}: not reached by {MOST_REPLAYS * SWEEPS:,} sweeps.")
        graph.replay()
        replays += 1
    spent = time.perf_counter() - began
    return xp.asnumpy(u) if hasattr(xp, "asnumpy") else np.asarray(u), replays, spent / replays, graph


def eager(f: np.ndarray[Any, Any], replays: int) -> tuple[np.ndarray[Any, Any], float]:
    """The check: as many sweeps by NumPy. Gives the solution and the seconds per ten sweeps."""
    u, change = np.zeros(f.shape), np.zeros(())
    began = time.perf_counter()
    for _ in range(replays):
        sweeps(np, u, f, change)
    return u, (time.perf_counter() - began) / replays


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="cpu", help="cpu or cuda, with an index if wanted (default: cpu)")
    parser.add_argument("--cells", type=int, default=128, help="cells along each side (default: 128)")
    parser.add_argument(
        "--tolerance", type=float, default=1e-6, help="largest change that ends the loop (default: 1e-6)"
    )
    parser.add_argument("--quiet", action="store_true", help="no table")
    options = parser.parse_args(arguments)
    if options.cells < 3:
        raise UserError(f"--cells {options.cells}: at least 3 are needed.")
    if not 0 < options.tolerance < 1:
        raise UserError(f"--tolerance {options.tolerance}: give a number between 0 and 1.")
    return options


def show(rows: list[tuple[str, str]]) -> None:
    """The result as one table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, title="jacobi")
    for name, value in rows:
        table.add_row(name, value)
    Console().print(table)


def run(options: argparse.Namespace) -> int:
    """Do what the command line asks."""
    f, exact = problem(options.cells)
    u, replays, per_replay, graph = captured(options.device, f, options.tolerance)
    expected, per_eager = eager(f, replays)
    difference = float(np.abs(u - expected).max())
    if not options.quiet:
        counts = ", ".join(f"{n} {kind}" for kind, n in sorted(graph.topology().counts().items()))
        pool = graphcap.memory_stats(options.device)["pools"][graph.pool()]["reserved_bytes.current"]
        show(
            [
                ("device", options.device),
                ("points", f"{u.shape[0]} x {u.shape[1]}"),
                ("sweeps", f"{replays * SWEEPS:,} in {replays:,} replays"),
                ("nodes", counts),
                ("pool bytes", f"{pool:,}"),
                ("eager NumPy", f"{per_eager * 1e6 / SWEEPS:,.1f} us per sweep"),
                ("replayed", f"{per_replay * 1e6 / SWEEPS:,.1f} us per sweep"),
                ("ratio", f"{per_eager / per_replay:.2f}"),
                ("against the solution", f"{float(np.abs(u - exact).max()):.2g} apart at most"),
            ]
        )
    print(f"largest difference {difference:g}")
    return 0 if difference == 0 else 1


def main(arguments: list[str] | None = None) -> int:
    """Run; tell what the user can mend in one line on stderr, with exit code 2."""
    try:
        return run(parse(arguments))
    except (UserError, graphcap.BackendError, ValueError) as error:
        print(f"jacobi: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
