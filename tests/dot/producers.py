"""Text as the producers print it, made from the facts in reference/dot-formats (never from graphcap's own code).

A graph is a list of `K` (what a node is) and edges by position. Each function prints it as one producer would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Edges = Sequence[tuple[int, int]]


@dataclass
class K:
    """One node: the type word, and what the producer knows of it."""

    word: str
    name: str = ""
    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (1,)
    shared: int = 0
    nbytes: int = 4096
    direction: str = "DtoD"
    value: int = 0
    graphs: tuple[str, ...] = ()
    condition: str = ""
    extra: dict[str, int] = field(default_factory=dict)


def _cuda_dim(dims: tuple[int, ...]) -> str:
    kept = list(dims)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return str(kept[0]) if len(kept) == 1 else "\\{" + ",".join(map(str, kept)) + "\\}"


_MEMORY = {"HtoD": "HOST PINNED to DEVICE", "DtoD": "DEVICE to DEVICE", "DtoH": "DEVICE to HOST PINNED"}


def _memcpy_rows(k: K, header_end: str) -> str:
    return (
        f"| {{{{srcPtr | dstPtr}} | {{pitch | ptr | xsize | ysize | pitch | ptr | xsize | {header_end}}} | "
        "{0 | 0x0000797B36600000 | 0 | 0 | 0 | 0x0000797B36800000 | 0 | 0}}\n"
        "| {{srcPos | {{x | 0} | {y | 0} | {z | 0}}} | {dstPos | {{x | 0} | {y | 0} | {z | 0}}} | "
        f"{{Extent | {{{{Width | {k.nbytes}}} | {{Height | 1}} | {{Depth | 1}}}}}}}}\n"
    )


def cuda_verbose_node(graph: int, i: int, topo: int, k: K, *, driver: int = 595) -> str:
    """One node in the verbose form; ``driver`` 595 and later print three cluster rows."""
    head = f'"graph_{graph}_node_{i}"'
    handle = f"0x{0x60E99D741E80 + i * 2048:016X}"
    if k.word == "KERNEL":
        launch = f"\\<\\<\\<{_cuda_dim(k.grid)},{_cuda_dim(k.block)},{k.shared}\\>\\>\\>"
        cluster = (
            "| {cluster dim | (0,0,0)}\n| {preferred cluster dim | (0,0,0)}\n"
            "| {cluster scheduling policy preference | 1}\n"
            if driver >= 595
            else ""
        )
        return (
            f'{head}[style="bold" shape="record" label="{{KERNEL\n| {{ID | {i} (topoId: {topo}) | {k.name}{launch}}}\n'
            f"| {{{{node handle | func handle}} | {{{handle} | 0x000060E993080AB0}}}}\n"
            "| {accessPolicyWindow | {base_ptr | num_bytes | hitRatio | hitProp | missProp} | "
            "{0x0000000000000000 | 0 | 0.000000 | N | N}}\n"
            f'| {{cooperative | {k.extra.get("cooperative", 0)}}}\n| {{priority | 0}}\n{cluster}}}"];\n\n'
        )
    if k.word == "MEMCPY":
        return (
            f'{head}[style="solid" shape="record" label="{{\nMEMCPY\n| {{{{ID | node handle}} | {{{i} (topoId: {topo}) '
            f'| {handle}}}}}\n| {{kind | {k.direction} ({_MEMORY[k.direction]})}}\n{_memcpy_rows(k, "ysize")}}}"];\n\n'
        )
    if k.word == "MEMSET":
        return (
            f'{head}[style="solid" style="solid" shape="record" label="{{MEMSET\n| {{{{ID | node handle | dptr | pitch |'
            f" value | elementSize | width | height}} | {{{i} (topoId: {topo}) | {handle} | 0x00007FC45DC00000 | 0 | "
            f'{k.value} | 1 | {k.nbytes} | 1}}}}}}"];\n\n'
        )
    if k.word == "MEM_ALLOC":
        return (
            f'{head}[style="solid" shape="record" label="{{\nMEM_ALLOC\n| {{{{ID | node handle}} | {{{i} (topoId: {topo})'
            f" | {handle}}}}}\n| {{{{{{poolProps | {{allocType | handleTypes | {{location | {{type | id}}}}}} | {{PINNED |"
            f' NONE | DEVICE | 0}}}}}}}}\n| {{{{bytesize | dptr}} | {{{k.nbytes} | 0x0000000302000000}}}}\n}}"];\n\n'
        )
    if k.word == "MEM_FREE":
        return (
            f'{head}[style="solid" shape="record" label="{{\nMEM_FREE\n| {{{{ID | node handle}} | {{{i} (topoId: {topo})'
            f' | {handle}}}}}\n| {{{{dptr}} | {{0x0000000302000000}}}}\n}}"];\n\n'
        )
    if k.word == "CONDITIONAL":  # the newer, record form
        words = ("True", "False") if k.condition == "IF" else tuple(str(n) for n in range(len(k.graphs)))
        bodies = "".join(f"| {{{word}|{name}}}\n" for word, name in zip(words, k.graphs, strict=False))
        return (
            f'{head}[style="bold" shape="record" label="{{\nCONDITIONAL\n| {{ID | {i}}}\n| {{Conditional Type| '
            f'{k.condition}}}\n{bodies}}}\n"];\n\n'
        )
    word = k.graphs[0] if k.graphs else k.word
    return f'{head}[style="solid" shape="rectangle" label="{i} (topoId: {topo})\n{word}\n"];\n\n'


def cuda_plain_node(graph: int, i: int, k: K) -> str:
    """One node as flags 0 print it; the copies and memsets of this form follow HIP's copy of it."""
    head = f'"graph_{graph}_node_{i}"'
    if k.word == "KERNEL":
        return f'{head}[style="bold" shape="octagon" label="{i}\n{k.name}\n"];\n\n'
    if k.word == "MEMCPY":
        return f'{head}[style="solid" shape="trapezium" label="{i}\nMEMCPY\n({k.direction},{k.nbytes})\n"];\n\n'
    if k.word == "MEMSET":
        return f'{head}[style="solid" shape="invtrapezium" label="{i}\nMEMSET\n({k.value},{k.nbytes})\n"];\n\n'
    if k.word == "CONDITIONAL":  # 12.3 to 12.x
        bodies = "".join(f"{name}\n" for name in k.graphs)
        return (
            f'{head}[style="solid" shape="rectangle" label="{i} (topoId: 1)\nnode handle: 0x00005562AD991C50\nHandle: 1\n'
            f'Type: {k.condition}\n{bodies}"];\n\n'
        )
    word = k.graphs[0] if k.graphs else k.word
    return f'{head}[style="solid" shape="rectangle" label="{i}\n{word}\n"];\n\n'


def _head_labels(edges: Edges) -> list[int]:
    seen: dict[int, int] = {}
    places = []
    for _, target in edges:
        places.append(seen.get(target, 0))
        seen[target] = seen.get(target, 0) + 1
    return places


def cuda(graphs: dict[int, tuple[list[K], Edges]], *, verbose: bool = True, driver: int = 595) -> str:
    """A whole file of the CUDA driver; graph number -> nodes and edges, in the order of the clusters."""
    out = ["digraph dot {\n"]
    for number, (nodes, edges) in graphs.items():
        out.append(f'subgraph cluster_{number} {{\nlabel="graph_{number}" graph[style="dashed"];\n')
        for i, k in enumerate(nodes):
            if verbose:
                out.append(cuda_verbose_node(number, i, len(nodes) - 1 - i, k, driver=driver))
            else:
                out.append(cuda_plain_node(number, i, k))
        for (a, b), place in zip(edges, _head_labels(edges), strict=True):
            out.append(f'"graph_{number}_node_{a}" -> "graph_{number}_node_{b}" [headlabel={place}];\n')
        out.append("}\n")
    out.append("}\n")
    return "".join(out)


def hip(graphs: dict[int, tuple[list[K], Edges]], *, mode: str = "default") -> str:
    """A whole file of HIP: ``default``, ``verbose``, or ``params`` (the form whose style is never closed)."""
    out = ["digraph dot {\n"]
    for number, (nodes, edges) in graphs.items():
        out.append(f'subgraph cluster_{number} {{\nlabel="graph_{number}"graph[style="dashed"];\n\n')
        for i, k in enumerate(nodes):
            head = f'"graph_{number}_node_{i}"'
            grid, block = (",".join(map(str, (*dims, 1, 1)[:3])) for dims in (k.grid, k.block))
            if k.word == "KERNEL" and mode == "verbose":
                out.append(
                    f'{head}[style="bold"shape="record"label="{{\nKERNEL\n| {{ID | {i} | {k.name}\\<\\<\\<({grid}),({block}),'
                    f"{k.shared}\\>\\>\\>}}\n| {{{{node handle | func handle}} | {{0x559f20 | 0x55f920}}}}\n"
                    "| {accessPolicyWindow | {base_ptr | num_bytes | hitRatio | hitProp | missProp} | "
                    '{(nil) | 0 | 0.000000 | 0 | 0}}\n| {cooperative | 0}\n| {priority | 0}\n}"];\n\n'
                )
            elif k.word == "KERNEL" and mode == "params":
                out.append(
                    f'{head}[style="bold\nshape="record"label="{i}\n{k.name}\n'
                    f'\\<\\<\\<({grid}),({block}),{k.shared}\\>\\>\\>"];\n\n'
                )
            elif k.word == "KERNEL":
                out.append(f'{head}[style="bold"shape="octagon"label="{i}\n{k.name}\n"];\n\n')
            elif k.word == "MEMCPY" and mode == "verbose":
                out.append(
                    f'{head}[style="solid"shape="record"label="{{\nMEMCPY\n| {{{{ID | node handle}} | {{{i} | 0x559aa0}}}}\n'
                    f'| {{kind | {k.direction}}}\n{_memcpy_rows(k, "size")}}}"];\n\n'
                )
            elif k.word == "MEMCPY":
                out.append(
                    f'{head}[style="solid"shape="trapezium"label="{i}\nMEMCPY\n({k.direction},{k.nbytes})"];\n\n'
                )
            elif k.word == "MEMSET":
                out.append(f'{head}[style="solid"shape="invtrapezium"label="{i}\nMEMSET\n({k.value},{k.nbytes})"];\n\n')
            else:
                word = k.graphs[0] if k.graphs else k.word
                out.append(f'{head}[style="solid"shape="rectangle"label="{i}\n{word}"];\n\n')
        for a, b in edges:
            out.append(f'"graph_{number}_node_{a}" -> "graph_{number}_node_{b}"\n')
        out.append("}\n")
    out.append("}\n")
    return "".join(out)


def sycl(nodes: list[tuple[str, str, str]], edges: Edges) -> str:
    r"""SYCL's text: nodes are (TYPE, NAME or empty, verbose lines with ``\n`` as two characters), depth first."""
    address = [f"0x55d0c1a0{0xA2B0 + 0x2B0 * i:x}" for i in range(len(nodes))]
    out = ["digraph dot {\n"]
    for i, (type_, name, more) in enumerate(nodes):
        named = f"NAME = {name}\\n" if name else ""
        out.append(f'"{address[i]}" [style=bold, label="ID = {address[i]}\\nTYPE = {type_} \\n{named}{more}"];\n')
        out.extend(f'  "{address[a]}" -> "{address[b]}"\n' for a, b in edges if b == i)
    out.append("}\n")
    return "".join(out)
