"""Diffusion on a grid that is cut into slabs, one MPI rank each: every rank captures its time step, halo exchange included.

    mpiexec -n 4 python examples/halo.py [--device cpu] [--steps 200] [--rows 96] [--columns 128] [--exchange segments]

A time step has three parts: the edge rows go to host memory; the neighbours swap them by MPI; the slab takes what it was sent and
diffuses. MPI cannot be captured. With ``--exchange segments`` (the default) graphcap finds that out by itself: the step is captured with
``on_forbidden="split"`` and becomes a graph, an eager call and a graph. With ``--exchange host`` the swap is a host node, and the whole
step is one graph. The diffusion number changes from step to step; it is a ``graphcap.parameter``.

Rank 0 compares the whole grid with eager NumPy on one rank, bit by bit.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import graphcap

Grid = np.ndarray[Any, np.dtype[np.float32]]


class UserError(Exception):
    """Something the user can mend; told in one line."""


def diffuse(z: Any, k: Any) -> None:
    """One explicit step of dz/dt = d2z/dx2 + d2z/dy2, in place; the rim stays as it is."""
    centre = z[1:-1, 1:-1]
    across = z[1:-1, :-2] - 2.0 * centre + z[1:-1, 2:]
    along = z[:-2, 1:-1] - 2.0 * centre + z[2:, 1:-1]
    z[1:-1, 1:-1] = centre + k * across + k * along


def start_grid(rows: int, columns: int) -> Grid:
    """Two warm hills on a cold plate."""
    y, x = np.mgrid[0:rows, 0:columns]
    hills = 80 * np.exp(-(((x / columns - 0.3) / 0.1) ** 2) - ((y / rows - 0.25) / 0.12) ** 2)
    hills += 50 * np.exp(-(((x / columns - 0.7) / 0.15) ** 2) - ((y / rows - 0.7) / 0.1) ** 2)
    return (20 + hills).astype(np.float32)


def number(step: int, steps: int) -> np.float32:
    """The diffusion number of a time step: it swings, and stays below the limit of 1/4."""
    return np.float32(0.15 + 0.08 * math.sin(2 * math.pi * step / steps))


def numpy_result(grid: Grid, steps: int) -> Grid:
    """The check: the same steps on the whole grid, in eager NumPy."""
    z = grid.copy()
    for step in range(steps):
        diffuse(z, number(step, steps))
    return z


class Slab:
    """A rank's rows with one more row on each side: a neighbour's edge, or the rim of the grid. Arrays of the CPU backend.

    Attributes
    ----------
    sent, received
        The edges in host memory, upper and lower: what MPI sends and what it received.
    """

    def __init__(self, device: str, rows: Grid) -> None:
        self.device = device
        self.shape = rows.shape
        self.k = graphcap.parameter(np.float32(0), name="k")
        xp = graphcap.array_namespace(device)
        self.z = xp.asarray(rows, copy=True)
        self.edges = xp.asarray(
            rows[[0, -1, 0, -1]], copy=True
        )  # sent above, sent below, received from above, from below
        self.sent, self.received = np.asarray(self.edges)[:2], np.asarray(self.edges)[2:]

    def give(self) -> None:
        """Put the edge rows where MPI finds them."""
        self.edges[0], self.edges[1] = self.z[1], self.z[-2]

    def take(self) -> None:
        """Take the neighbours' edge rows, then diffuse."""
        self.z[0], self.z[-1] = self.edges[2], self.edges[3]
        diffuse(self.z, self.k)

    def fetch(self) -> Grid:
        """The rank's own rows."""
        return np.asarray(self.z)[1:-1].copy()

    def state(self) -> list[Any]:
        """What a time step changes."""
        return [self.z, self.edges]


class DeviceSlab(Slab):
    """The same in device memory, with a kernel."""

    def __init__(self, device: str, rows: Grid, image: Path | None) -> None:
        self.device = device
        self.shape = rows.shape
        self.k = graphcap.parameter(np.float32(0), name="k")
        self.stream: Any = graphcap.Stream(device)
        self.z = self.stream.allocate(rows.nbytes)
        self.after = self.stream.allocate(rows.nbytes)
        self.stream.copy(self.z, rows)
        cuda = device.startswith("cuda")
        self.interface = "__cuda_array_interface__" if cuda else "__sycl_usm_array_interface__"
        nbytes = 4 * rows[0].nbytes
        self.host = self.stream.allocate_pinned(nbytes) if cuda else self.stream.allocate(nbytes, kind="host")
        edges = np.asarray(self.host).view(np.float32).reshape(4, -1)
        edges[...] = rows[[0, -1, 0, -1]]
        self.sent, self.received = edges[:2], edges[2:]
        self.launch = self._cuda(image) if cuda else self._xpu()
        self.stream.synchronize()

    def _cuda(self, image: Path | None) -> Any:
        from cuda.core import Device, ObjectCode, Program, ProgramOptions

        found = Device(int(self.stream.device_index))
        found.set_current()
        if image is not None:
            code = ObjectCode.from_cubin(image.read_bytes())
        else:
            source = Path(__file__).with_name("halo.cu").read_text()
            code = Program(source, "c++", ProgramOptions(arch=f"sm_{found.arch}", fma=False)).compile("cubin")
        kernel = code.get_kernel("diffuse")
        rows, columns = self.shape
        blocks = (-(-columns // 32), -(-rows // 8))
        return lambda stream: stream.launch(
            kernel, blocks, (32, 8), self.after, self.z, self.k, np.int32(rows), np.int32(columns)
        )

    def _xpu(self) -> Any:
        from graphcap.backends.xpu import kernels

        kernel = kernels.load(self.stream, "terrain", "diffuse_f32")
        sizes = [np.uint64(extent) for extent in self.shape]
        return lambda stream: stream.launch(kernel, [self.after, self.z, self.k, self.k, *sizes], self.shape)

    def row(self, which: int) -> Any:
        """A row of the slab, as an array that copies take."""
        nbytes = 4 * self.shape[1]
        described = dict(getattr(self.z, self.interface))
        described["data"] = (self.z.ptr + (which % self.shape[0]) * nbytes, False)
        described["shape"] = (nbytes,)
        return type("Row", (), {self.interface: described, "owner": self.z})()

    def give(self) -> None:
        stream = graphcap.current_stream(self.device)
        stream.copy(self.sent[0], self.row(1))
        stream.copy(self.sent[1], self.row(-2))

    def take(self) -> None:
        stream = graphcap.current_stream(self.device)
        stream.copy(self.row(0), self.received[0])
        stream.copy(self.row(-1), self.received[1])
        self.launch(stream)
        stream.copy(self.z, self.after)

    def fetch(self) -> Grid:
        result = np.empty(self.shape, np.float32)
        self.stream.copy(result, self.z)
        self.stream.synchronize()
        return result[1:-1]

    def state(self) -> list[Any]:
        return [self.z]


class Exchange:
    """The swap of edge rows with the ranks above and below, on host memory."""

    def __init__(self, world: Any, slab: Slab) -> None:
        from mpi4py import MPI

        self._world = world
        self._slab = slab
        self._above = world.rank - 1 if world.rank else MPI.PROC_NULL
        self._below = world.rank + 1 if world.rank + 1 < world.size else MPI.PROC_NULL
        self.seconds = 0.0

    def swap(self) -> None:
        """Send both edges, receive both. At the rim nothing comes, and the rim's own rows stay where they are."""
        began = time.perf_counter()
        sent, received = self._slab.sent, self._slab.received
        self._world.Sendrecv(sent[0], self._above, recvbuf=received[1], source=self._below)
        self._world.Sendrecv(sent[1], self._below, recvbuf=received[0], source=self._above)
        self.seconds += time.perf_counter() - began

    def when_ready(self) -> None:
        """Wait for the edges, which no capture allows; then swap."""
        graphcap.current_stream(self._slab.device).synchronize()
        self.swap()


def capture_step(slab: Slab, exchange: Exchange, how: str) -> Any:
    """The time step as one graph with a host node, or as graph, eager call, graph."""
    if how == "host":
        with graphcap.capture(slab.device) as graph:
            slab.give()
            graphcap.current_stream(slab.device).host_call(exchange.swap)
            slab.take()
        return graph
    with graphcap.capture(slab.device, on_forbidden="split", preserve=slab.state()) as split:
        split.step(slab.give)
        split.step(exchange.when_ready)
        split.step(slab.take)
    return split


def my_rows(rows: int, rank: int, size: int) -> tuple[int, int]:
    """The first of a rank's rows and the one past the last; the rim is nobody's."""
    inner = rows - 2
    return 1 + rank * inner // size, 1 + (rank + 1) * inner // size


def run(options: argparse.Namespace, world: Any) -> int:
    """Do what the command line asks, on one rank."""
    if options.rows - 2 < world.size:
        raise UserError(f"--rows {options.rows}: {world.size} ranks need at least {world.size + 2} rows.")
    device = my_device(options.device, world.rank)
    grid = start_grid(options.rows, options.columns)
    first, last = my_rows(options.rows, world.rank, world.size)
    mine = np.ascontiguousarray(grid[first - 1 : last + 1])
    kind = device.partition(":")[0]
    slab = Slab(device, mine) if kind == "cpu" else DeviceSlab(device, mine, options.image)
    exchange = Exchange(world, slab)
    graph = capture_step(slab, exchange, options.exchange)

    exchange.seconds = 0.0
    world.Barrier()
    began = time.perf_counter()
    with graphcap.Stream(device):
        for step in range(options.steps):
            graph.replay(inputs={"k": number(step, options.steps)})
        graphcap.synchronize(device)
    world.Barrier()
    seconds = time.perf_counter() - began

    slabs = world.gather(slab.fetch())
    swaps = world.gather(exchange.seconds)
    if world.rank:
        return int(world.bcast(None))
    result = grid.copy()
    result[1:-1] = np.concatenate(slabs)
    began = time.perf_counter()
    expected = numpy_result(grid, options.steps)
    eager = time.perf_counter() - began
    difference = float(np.abs(result - expected).max())
    if options.out is not None:
        np.save(options.out, result)
    if not options.quiet:
        show(options, graph, device, world, seconds, max(swaps), eager)
    print(f"largest difference {difference:g}", flush=True)
    return int(world.bcast(int(difference != 0)))


def my_device(asked: str, rank: int) -> str:
    """The rank's device: without an index, the devices in turn."""
    try:
        stream = graphcap.current_stream(asked)
        count = stream.backend.device_count()
    except (graphcap.BackendError, ValueError) as error:
        raise UserError(f"--device {asked}: {error}") from None
    return asked if ":" in asked or count == 1 else f"{asked}:{rank % count}"


def show(
    options: argparse.Namespace, graph: Any, device: str, world: Any, seconds: float, swap: float, eager: float
) -> None:
    """The result as one table."""
    from rich.console import Console
    from rich.table import Table

    topology = graph.topology()
    counts = ", ".join(f"{count} {kind}" for kind, count in topology.counts().items())
    parts = (
        " -> ".join(f"{part.kind} ({', '.join(name.split('.')[-1] for name in part.steps)})" for part in graph.segments)
        if (options.exchange == "segments")
        else "one graph"
    )
    table = Table(show_header=False, title="halo exchange")
    for name, value in (
        ("ranks", f"{world.size} on {device.partition(':')[0]}"),
        ("grid", f"{options.rows} x {options.columns}, about {(options.rows - 2) // world.size} rows each"),
        ("time step", parts),
        ("nodes", counts),
        ("steps", f"{options.steps:,}"),
        ("per step", f"{seconds / options.steps * 1e6:,.1f} us, of which MPI {swap / options.steps * 1e6:,.1f} us"),
        ("eager NumPy", f"{eager / options.steps * 1e6:,.1f} us per step on one rank"),
    ):
        table.add_row(name, value)
    Console().print(table)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("--device", default="cpu", help="cpu, cuda or xpu; without an index ranks take devices in turn")
    parser.add_argument("--steps", type=int, default=200, help="time steps (default: 200)")
    parser.add_argument("--rows", type=int, default=96, help="rows of the whole grid (default: 96)")
    parser.add_argument("--columns", type=int, default=128, help="columns (default: 128)")
    parser.add_argument("--exchange", choices=["segments", "host"], default="segments", help="how the swap takes part")
    parser.add_argument("--image", type=Path, help="CUDA: the kernel, compiled for the device")
    parser.add_argument("--out", type=Path, help="write the last state of the grid to this .npy file")
    parser.add_argument("--quiet", action="store_true", help="no table")
    options = parser.parse_args(arguments)
    if options.steps < 1 or options.rows < 3 or options.columns < 3:
        raise UserError("at least one step, and three rows and columns, are needed.")
    if options.out is not None and not options.out.parent.is_dir():
        raise UserError(f"--out {options.out}: there is no such folder.")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run on this rank; what the user can mend is told by rank 0 in one line on stderr, with exit code 2."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        text = " ".join(str(error).split())
        print(f"halo: mpi4py and an MPI library are needed (pip install mpi4py mpich): {text}", file=sys.stderr)
        return 2
    world = MPI.COMM_WORLD
    try:
        return run(parse(arguments), world)
    except UserError as error:  # the same on every rank
        if world.rank == 0:
            print(f"halo: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except Exception:
        # The other ranks would wait for this one for ever.
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        world.Abort(1)
        return 1


if __name__ == "__main__":
    sys.exit(main())
