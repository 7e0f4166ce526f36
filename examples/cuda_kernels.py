"""Own CUDA kernels, compiled and loaded by cuda.core, captured into a graph and replayed: a damped wave on a grid.

    python examples/cuda_kernels.py [--steps 400] [--size 128] [--image FILE]

Two steps are captured (the three states of the wave change places, so an even number is needed), with a fork: the energy of the last
step is summed on a second stream while the first goes on. The check is the same loop in NumPy.

The kernels are compiled by NVRTC. Where that is not to be had, ``--image`` takes them compiled: whatever the driver loads.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import graphcap

SOURCE = Path(__file__).with_name("cuda_kernels.cu")
NAMES = ("wave_step", "add_energy")
SPEED, DAMPING = np.float32(0.2), np.float32(0.999)


def load_kernels(image: Path | None) -> dict[str, Any]:
    """The kernels by name, as ``cuda.core.Kernel`` objects."""
    from cuda.core import Device, ObjectCode, Program, ProgramOptions

    device = Device()
    device.set_current()
    if image is not None:
        code = ObjectCode.from_cubin(image.read_bytes())
    else:
        options = ProgramOptions(arch=f"sm_{device.arch}", fma=False)  # like NumPy: no fused multiply-add
        code = Program(SOURCE.read_text(), "c++", options).compile("cubin", name_expressions=NAMES)
    return {name: code.get_kernel(name) for name in NAMES}


def drop(size: int) -> np.ndarray[Any, Any]:
    """A smooth hill off the middle."""
    y, x = np.mgrid[0:size, 0:size].astype(np.float32) / size
    hill: np.ndarray[Any, Any] = np.exp(-150 * ((x - 0.4) ** 2 + (y - 0.3) ** 2)).astype(np.float32)
    hill[[0, -1], :] = hill[:, [0, -1]] = 0
    return hill


def numpy_steps(start: np.ndarray[Any, Any], steps: int) -> np.ndarray[Any, Any]:
    """The same steps on the host."""
    before: np.ndarray[Any, Any] = start.copy()
    now: np.ndarray[Any, Any] = start.copy()
    for _ in range(steps):
        centre = now[1:-1, 1:-1]
        bend = now[1:-1, :-2] + now[1:-1, 2:] + now[:-2, 1:-1] + now[2:, 1:-1] - np.float32(4) * centre
        following = np.zeros_like(now)
        following[1:-1, 1:-1] = centre + DAMPING * (centre - before[1:-1, 1:-1]) + SPEED * bend
        before, now = now, following
    return now


def run(steps: int, size: int, image: Path | None) -> int:
    """Capture, replay, check, tell."""
    kernels = load_kernels(image)
    start = drop(size)
    stream: Any = graphcap.Stream("cuda")
    side: Any = graphcap.Stream("cuda")
    first, second, third = (stream.allocate(start.nbytes) for _ in range(3))
    energy = stream.allocate(4)
    for state in (first, second):
        stream.copy(state, start)
    grid, block = (-(-size // 16), -(-size // 16)), (16, 16)
    extent = np.int32(size), np.int32(size)

    def step(following: Any, now: Any, before: Any) -> None:
        stream.launch(kernels["wave_step"], grid, block, following, now, before, SPEED, DAMPING, *extent)

    graph = graphcap.Graph("cuda", keep_graph=True)
    with stream, graph:
        step(third, second, first)
        step(first, third, second)
        side.wait(stream)  # a fork: the side stream takes part in the capture from here on
        side.launch(kernels["add_energy"], 1, 32, energy, first, third, np.int32(size * size))
        stream.copy(second, first)  # back to where the first step reads it
        stream.copy(first, third)
        stream.wait(side)
    begin = time.perf_counter()
    with stream:
        for _ in range(steps // 2):
            graph.replay()
        result, total = np.empty_like(start), np.empty(1, np.float32)
        stream.copy(result, second)
        stream.copy(total, energy)
        stream.synchronize()
    seconds = time.perf_counter() - begin
    difference = float(np.abs(result - numpy_steps(start, steps)).max())
    topology = graph.topology()
    print(f"{steps} steps of {size} x {size} in {seconds:.3f} s, {len(topology.nodes)} nodes, energy {total[0]:.6g}")
    print(f"largest difference {difference:g}")
    return int(difference > 1e-4)


def main(arguments: list[str] | None = None) -> int:
    """Run; tell what the user can mend in one line on stderr, with exit code 2."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="an even number (default: 400)")
    parser.add_argument("--size", type=int, default=128, help="cells in each direction (default: 128)")
    parser.add_argument("--image", type=Path, help="the kernels, compiled for the device")
    options = parser.parse_args(arguments)
    try:
        if options.steps < 2 or options.steps % 2 or options.size < 4:
            raise ValueError("--steps needs an even number from 2 up, --size a number from 4 up.")
        return run(options.steps, options.size, options.image)
    except (graphcap.BackendError, ImportError, OSError, ValueError) as error:
        print(f"cuda_kernels: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
