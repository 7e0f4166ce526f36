"""Evolve a real elevation model by hillslope diffusion: capture one time step, replay it, check it, draw it.

    python examples/terrain.py [--device cpu] [--steps 2000] [--input FILE] [--out FOLDER] [--quiet]

The time step is plain NumPy code. On the CPU it runs on graphcap's arrays, on CUDA on CuPy's, on XPU as one SPIR-V kernel in
single precision (``terrain_xpu.py``). The same loop in eager NumPy is the check: bit by bit on the CPU, and on XPU against
NumPy in single precision; there the distance to double precision is told too.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import graphcap

DIFFUSIVITY = 0.02  # m^2 per year
YEARS_PER_STEP = 1_000.0
METRES_PER_DEGREE = 111_200.0


class UserError(Exception):
    """Something the user can mend; told in one line."""


def diffuse(z: Any, kx: float, ky: float) -> None:
    """One explicit step of dz/dt = D (d2z/dx2 + d2z/dy2), in place; the rim stays as it is."""
    centre = z[1:-1, 1:-1]
    across = z[1:-1, :-2] - 2.0 * centre + z[1:-1, 2:]
    along = z[:-2, 1:-1] - 2.0 * centre + z[2:, 1:-1]
    z[1:-1, 1:-1] = centre + kx * across + ky * along


def load(path: Path | None) -> tuple[np.ndarray[Any, Any], float, float]:
    """Elevation in metres, and the size of a cell in metres (across, along)."""
    if path is None:
        import matplotlib.cbook

        with np.load(str(matplotlib.cbook.get_sample_data("jacksboro_fault_dem.npz", asfileobj=False))) as data:
            z = np.asarray(data["elevation"], np.float64)
            latitude = np.radians((data["ymin"] + data["ymax"]) / 2)
            return z, float(data["dx"] * METRES_PER_DEGREE * np.cos(latitude)), float(data["dy"] * METRES_PER_DEGREE)
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.lib.npyio.NpzFile):
            with found:
                if not found.files:
                    raise UserError(f"{path}: the archive holds no array.")
                found = found["elevation" if "elevation" in found.files else found.files[0]]
        z = np.asarray(found, np.float64)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file.") from None
    except (OSError, ValueError, TypeError, EOFError) as error:
        raise UserError(f"{path}: not a .npy or .npz file of numbers: {error}") from None
    if z.ndim != 2 or min(z.shape) < 3:
        raise UserError(f"{path}: expected a 2-D array of at least 3 x 3 cells, found shape {z.shape}.")
    if not np.isfinite(z).all():
        raise UserError(
            f"{path}: {int(np.count_nonzero(~np.isfinite(z)))} cells are not finite numbers (NaN or infinity)."
        )
    return z, 90.0, 90.0


def numpy_loop(start: np.ndarray[Any, Any], kx: float, ky: float, steps: int) -> tuple[np.ndarray[Any, Any], float]:
    """The check: the same loop in eager NumPy. Gives the result and the seconds per step."""
    z = start.copy()
    began = time.perf_counter()
    for _ in range(steps):
        diffuse(z, kx, ky)
    return z, (time.perf_counter() - began) / max(steps, 1)


def capture_arrays(
    device: str, start: np.ndarray[Any, Any], kx: float, ky: float
) -> tuple[graphcap.Graph, Callable[[], Any]]:
    """Capture the step on the device's NumPy-shaped arrays. Gives the graph and a function that fetches the result."""
    xp = graphcap.array_namespace(device)
    z = xp.asarray(start, copy=True)
    with graphcap.capture(device, warmup=lambda: diffuse(z, kx, ky), preserve=[z]) as graph:
        diffuse(z, kx, ky)
    graph.retain(z)
    return graph, lambda: xp.asnumpy(z) if hasattr(xp, "asnumpy") else np.asarray(z)


def replay(graph: graphcap.Graph, device: str, steps: int, quiet: bool) -> float:
    """Replay `steps` times under a progress bar; give the seconds per step."""
    chunk = max(1, steps // 100)
    spent = 0.0
    with ProgressBar(steps, quiet) as advance:
        done = 0
        while done < steps:
            count = min(chunk, steps - done)
            began = time.perf_counter()
            for _ in range(count):
                graph.replay()
            graphcap.synchronize(device)
            spent += time.perf_counter() - began
            done += count
            advance(count)
    return spent / max(steps, 1)


class ProgressBar:
    """A progress bar on stderr; nothing when quiet."""

    def __init__(self, total: int, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("replaying"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=quiet,
        )
        self._task = self._bar.add_task("replay", total=total)

    def __enter__(self) -> Callable[[int], None]:
        self._bar.start()
        return lambda count: self._bar.update(self._task, advance=count)

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()


def draw(
    path: Path, before: np.ndarray[Any, Any], after: np.ndarray[Any, Any], cell: tuple[float, float], years: float
) -> None:
    """A shaded relief before and after, and what was moved."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.colors import LightSource

    light = LightSource(azdeg=315, altdeg=45)
    figure, axes = plt.subplots(1, 3, figsize=(15, 5), layout="constrained")
    for axis, z, title in ((axes[0], before, "before"), (axes[1], after, f"after {years:,.0f} years")):
        shaded = light.shade(z, plt.get_cmap("gist_earth"), vert_exag=5, dx=cell[0], dy=cell[1], blend_mode="overlay")
        axis.imshow(shaded)
        axis.set_title(title)
    change = after - before
    limit = float(np.abs(change).max()) or 1.0
    image = axes[2].imshow(change, cmap="RdBu_r", vmin=-limit, vmax=limit)
    axes[2].set_title("change of elevation")
    figure.colorbar(image, ax=axes[2], label="m", shrink=0.8)
    for axis in axes:
        axis.set_xticks([])
        axis.set_yticks([])
    figure.savefig(path, dpi=110)
    plt.close(figure)


def render_svg(dot: Path, svg: Path) -> bool:
    """Let Graphviz draw the graph, where it is installed."""
    program = shutil.which("dot")
    if program is None:
        return False
    subprocess.run([program, "-Tsvg", str(dot), "-o", str(svg)], check=True)
    return True


def check_folder(out: Path) -> None:
    """Refuse a folder that cannot be written to before any work is done."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise UserError(f"{out}: the output folder cannot be written to: {error.strerror or error}") from None


def show_table(rows: list[tuple[str, str]]) -> None:
    """The result as one table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, title="terrain")
    for name, value in rows:
        table.add_row(name, value)
    Console().print(table)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="cpu", help="cpu, cuda or xpu, with an index if wanted (default: cpu)")
    parser.add_argument("--steps", type=int, default=2000, help="time steps (default: 2000)")
    parser.add_argument("--input", type=Path, help="a .npy or .npz file with a 2-D elevation model in metres")
    parser.add_argument("--out", type=Path, default=Path("out/terrain"), help="output folder (default: out/terrain)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar, no table")
    options = parser.parse_args(arguments)
    if options.steps < 1:
        raise UserError(f"--steps {options.steps}: at least one step is needed.")
    return options


def check_device(device: str) -> None:
    """Refuse a device that is not one, or is not usable here, before any work is done."""
    try:
        graphcap.current_stream(device)
    except (graphcap.BackendError, ValueError) as error:
        raise UserError(f"--device {device}: {error}") from None


def run(options: argparse.Namespace) -> int:
    """Do what the command line asks."""
    check_device(options.device)
    start, dx, dy = load(options.input)
    check_folder(options.out)
    # The explicit scheme is stable while kx + ky <= 1/2; a finer model takes shorter steps.
    step_years = min(YEARS_PER_STEP, 0.4 / (DIFFUSIVITY * (1 / dx**2 + 1 / dy**2)))
    kx, ky = DIFFUSIVITY * step_years / dx**2, DIFFUSIVITY * step_years / dy**2

    kind = options.device.partition(":")[0].lower()
    if kind == "xpu" and not graphcap.registry.get_backend(kind).capabilities.array_namespace:
        import terrain_xpu

        number: Any = np.float32
        graph, fetch = terrain_xpu.capture_kernel(options.device, start, kx, ky)
    else:  # where the array library is missing, asking for it says so
        number = np.float64
        graph, fetch = capture_arrays(options.device, start, kx, ky)
    per_replay = replay(graph, options.device, options.steps, options.quiet)
    result = fetch()
    expected, per_eager = numpy_loop(start.astype(number), number(kx), number(ky), options.steps)
    difference = float(np.abs(result - expected).max())
    remarks = []
    if number is np.float32:
        exact, _ = numpy_loop(start, kx, ky, options.steps)
        apart, bound = float(np.abs(result - exact).max()), terrain_xpu.rounding_bound(start, options.steps)
        remarks.append(("against float64", f"{apart:.3g} m apart; rounding of float32 allows {bound:.3g} m"))
        difference = difference if apart <= bound else max(difference, apart)

    topology = graph.topology()
    stats = graphcap.memory_stats(options.device)["pools"]
    pool_bytes = stats[graph.pool()]["reserved_bytes.current"]
    with tempfile.TemporaryDirectory(dir=options.out) as scratch:
        draft = Path(scratch)
        draw(draft / "terrain.png", start, result, (dx, dy), step_years * options.steps)
        graph.debug_dump(draft / "terrain.dot")
        names = ["terrain.png", "terrain.dot"]
        if render_svg(draft / "terrain.dot", draft / "terrain.svg"):
            names.append("terrain.svg")
        for name in names:
            (draft / name).replace(options.out / name)

    if not options.quiet:
        show_table(
            [
                ("device", options.device),
                ("cells", f"{start.shape[0]} x {start.shape[1]}"),
                ("steps", f"{options.steps:,} of {step_years:,.0f} years"),
                ("nodes", str(len(topology.nodes))),
                ("edges", str(len(topology.edges))),
                ("pool bytes", f"{pool_bytes:,}"),
                ("eager NumPy", f"{per_eager * 1e6:,.1f} us per step"),
                ("replayed", f"{per_replay * 1e6:,.1f} us per step"),
                ("ratio", f"{per_eager / per_replay:.2f}"),
                *remarks,
                ("written", ", ".join(str(options.out / name) for name in names)),
            ]
        )
    print(f"largest difference {difference:g}")
    return 0 if difference == 0 else 1


def main(arguments: list[str] | None = None) -> int:
    """Run; tell what the user can mend in one line on stderr, with exit code 2."""
    try:
        return run(parse(arguments))
    except (UserError, graphcap.BackendError) as error:
        print(f"terrain: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
