"""How fast and in how much memory graph dumps are read.

Run ``python benchmarks/dot.py`` (1 MB: under 0.5 s) or ``python benchmarks/dot.py --large`` (to 100 MB: linear time,
peak memory at most 12 times the file). The text is made here, in the driver's verbose format.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

LIMIT_SECONDS_1MB = 0.5
LIMIT_MEMORY_FACTOR = 12.0

_NAME = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13AUnaryFunctorIfffNS0_15binary_internal10MulFunctor" \
    "IfEEEESt5arrayIPcLm2EEEEviT0_T1_"  # fmt: skip


def driver_dot(nodes: int) -> bytes:
    """Return a verbose driver dump: a chain of kernels, each fourth one also waiting for the node two before it."""
    lines = ['digraph dot {\nsubgraph cluster_1 {\nlabel="graph_1" graph[style="dashed"];\n']
    for i in range(nodes):
        handle, function = 0x5F80931F5880 + i * 2048, 0x5F80907BA240 + i % 37
        lines.append(
            f'"graph_1_node_{i}"[style="bold" shape="record" label="{{KERNEL\n'
            f"| {{ID | {i} (topoId: {nodes - i}) | {_NAME}{i % 37}\\<\\<\\<{i % 999 + 1},128,0\\>\\>\\>}}\n"
            f"| {{{{node handle | func handle}} | {{0x{handle:016X} | 0x{function:016X}}}}}\n"
            "| {accessPolicyWindow | {base_ptr | num_bytes | hitRatio | hitProp | missProp} | "
            "{0x0000000000000000 | 0 | 0.000000 | N | N}}\n| {cooperative | 0}\n| {priority | 0}\n"
            '}"];\n\n'
        )
    for i in range(1, nodes):
        lines.append(f'"graph_1_node_{i - 1}" -> "graph_1_node_{i}" [headlabel=0];\n')
        if i % 4 == 0:
            lines.append(f'"graph_1_node_{i - 2}" -> "graph_1_node_{i}" [headlabel=1];\n')
    lines.append("}\n}\n")
    return "".join(lines).encode()


def _memory(field: str) -> int:
    """Bytes of resident memory: ``VmRSS`` now, ``VmHWM`` at most. (ru_maxrss would count the parent's peak too.)"""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status tells no {field}")


def _child(path: Path) -> None:
    """Read one file and print both times, nodes, and the peak memory in bytes over what the imports take."""
    import graphcap.dot

    graphcap.dot.read(b'digraph dot {\n"graph_1_node_0"[style="bold" shape="octagon" label="0\nk\n"];\n}\n')
    before = _memory("VmRSS")
    wall, processor = time.perf_counter(), time.process_time()
    topology = graphcap.dot.read(path)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(wall, processor, len(topology), _memory("VmHWM") - before)


def measure(path: Path) -> tuple[float, float, int, float]:
    """Read a file in a fresh interpreter.

    Returns
    -------
    tuple
        Seconds, seconds of processor time (what a busy machine does not change), nodes, and the peak memory as a multiple
        of the file's size.
    """
    done = subprocess.run(
        [sys.executable, __file__, "--child", str(path)], capture_output=True, text=True, check=True, timeout=1200
    )
    wall, processor, nodes, peak = done.stdout.split()
    return float(wall), float(processor), int(nodes), int(peak) / path.stat().st_size


def main() -> int:
    """Measure and print; exit code 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also 10 MB and 100 MB")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        _child(arguments.child)
        return 0
    missed = False
    per_byte: list[float] = []
    with TemporaryDirectory() as folder:
        for nodes in (2_000, 20_000, 200_000) if arguments.large else (2_000,):
            path = Path(folder) / f"{nodes}.dot"
            path.write_bytes(driver_dot(nodes))
            size = path.stat().st_size / 1e6
            wall, processor, read, factor = measure(path)
            per_byte.append(processor / size)
            print(
                f"{size:8.1f} MB  {read:7d} nodes  {wall:7.2f} s, {processor:7.2f} s of processor time "
                f"({processor / size:6.3f} s/MB)  memory x {factor:.1f}"
            )
            missed |= read != nodes or factor > LIMIT_MEMORY_FACTOR
            missed |= nodes == 2_000 and processor > LIMIT_SECONDS_1MB
            path.unlink()
    missed |= max(per_byte) > 2.5 * min(per_byte)  # linear: the same time for each megabyte
    print("limits missed" if missed else "within the limits")
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
