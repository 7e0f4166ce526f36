"""A mutation fuzzer over `graphcap.dot.read`: no exception but `DotSyntaxError`, no slow text.

``python -m tests.dot.fuzz --seconds 600`` runs it for as long as wanted; what it finds is written to `tests/dot/seeds`,
which the tests read again for ever. The tests themselves run it for a moment.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import time
from pathlib import Path

import graphcap.dot
from graphcap.errors import DotSyntaxError
from graphcap.topology import GraphTopology

from .producers import Edges, K, cuda, hip, sycl

SEEDS = Path(__file__).parent / "seeds"
SLOW = 5.0  # seconds of processor time for a text of at most 30 kilobytes

_WORDS = [
    b'"', b"\\", b"\n", b"{", b"}", b"[", b"]", b"|", b";", b"->", b"<", b">", b"\\<\\<\\<", b"\\>\\>\\>", b"label=", b'"];',
    b"graph_1", b"graph_1_node_0", b'"graph_1_node_0"[', b'"graph_1_node_0" -> ', b"subgraph cluster_1 {", b"KERNEL", b"ID",
    b"MEMCPY", b"CONDITIONAL", b"Type: IF", b"\x00", b"\xff", b"\xef\xbb\xbf", b"0x", b"(nil)", b"(topoId: 1)", b"\r\n",
    b"headlabel=1", b"params=", b"ID = ", b"TYPE = ", b"Pattern: ", b"graphs=", b"9" * 50, b"-", b"digraph dot {\n", b"/*", b"//",
    b'comment="graphcap.topology 1"', b'kind="kernel"', b"\\u", b"NaN", b"null", b"1e999", b"<<", b"--", b":", b"=",
]  # fmt: skip


def corpus() -> list[bytes]:
    """Whole files of every producer, and what was found before."""
    nodes = [
        K("KERNEL", "_Z3fooPf", (4, 2), (32,), 16), K("MEMCPY"), K("MEMSET"), K("MEM_ALLOC"), K("MEM_FREE"),
        K("CHILD", graphs=("graph_4",)), K("CONDITIONAL", graphs=("graph_4",), condition="IF"), K("EVENT_WAIT"),
    ]  # fmt: skip
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)]
    child: tuple[list[K], Edges] = ([K("KERNEL", "_Z1cv")], [])
    graphs = {1: (nodes, edges), 4: child}
    texts = [cuda(graphs), cuda(graphs, verbose=False), cuda(graphs, driver=470)]
    texts += [hip({1: (nodes[:6], edges[:5]), 4: child}, mode=mode) for mode in ("default", "verbose", "params")]
    types = [
        ("CGExecKernel", "_ZTS1k", "ARGS = \\n0) Type: Accessor Ptr: 0x1\\n"),
        ("CGFillUSM", "", "Dst: 0x1 Pattern: x\\n"),
    ]
    texts.append(sycl(types, [(0, 1)]))
    own = graphcap.dot.read(texts[0].encode())
    texts += [
        graphcap.dot.write(own),
        "digraph g { a:p -> b [label=<x<i>y</i>>]; subgraph cluster_x { c } {d e} -> f }",
    ]
    return [text.encode() for text in texts] + [path.read_bytes() for path in sorted(SEEDS.glob("*.dot"))]


def mutate(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Cut, repeat, overwrite, insert words, splice with another file."""
    text = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.choice((1, 2, 5, 20, 100, 1000)))
        match rng.randrange(7):
            case 0:
                del text[at:end]
            case 1:
                text[at:at] = text[at:end] * rng.randint(1, 4)
            case 2 if at < len(text):
                text[at] = rng.randrange(256)
            case 3 | 4:
                text[at:at] = rng.choice(_WORDS)
            case 5:
                other = rng.choice(others)
                start = rng.randrange(len(other) + 1)
                text[at:end] = other[start : start + rng.choice((10, 100, 1000))]
            case _:
                del text[at:]
    return bytes(text[:30_000])


def fault(data: bytes) -> str | None:
    """Read a text; say what is wrong with how that went, or nothing."""
    start = time.process_time()
    try:
        graph = graphcap.dot.read(data)
        again = graphcap.dot.read(graphcap.dot.write(graph).encode())
        if again != graph:
            return "written and read again, the graph differs"
        if GraphTopology.from_json(graph.to_json()) != graph:
            return "as JSON, the graph differs"
    except DotSyntaxError:
        pass
    except Exception as error:  # the fuzzer's finding, whatever it is
        return f"{type(error).__name__}: {error}"
    seconds = time.process_time() - start
    return f"took {seconds:.1f} s" if seconds > SLOW else None


def run(seconds: float, seed: int, *, keep: bool = False, first: bool = False) -> list[tuple[bytes, str]]:
    """Fuzz for a time; return what was found, and write it to the seeds where wanted."""
    graphcap.dot.read(b"digraph { a }")  # loads what the first plain graph loads, which is slow and no fault
    rng = random.Random(seed)
    texts = corpus()
    found: dict[str, bytes] = {}
    end = time.monotonic() + seconds
    tried = 0
    while time.monotonic() < end and not (first and found):
        data = mutate(rng.choice(texts), texts, rng)
        tried += 1
        wrong = fault(data)
        if wrong is not None and wrong[:40] not in found:
            found[wrong[:40]] = data
            print(f"found after {tried}: {wrong}", file=sys.stderr)
            if keep:
                SEEDS.mkdir(exist_ok=True)
                (SEEDS / f"{hashlib.sha256(data).hexdigest()[:12]}.dot").write_bytes(data)
    print(f"{tried} texts in {seconds:.0f} s, {len(found)} faults", file=sys.stderr)
    return [(data, wrong) for wrong, data in found.items()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    chosen = arguments.seed if arguments.seed is not None else random.randrange(2**32)
    print(f"seed {chosen}", file=sys.stderr)
    raise SystemExit(bool(run(arguments.seconds, chosen, keep=True)))
