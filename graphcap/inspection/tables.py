"""What the command line prints: tables and trees on a terminal. Imports rich, so only the command line loads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape as _escape
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from graphcap.backends.base import BackendStatus
from graphcap.dot.describe import dimensions, size
from graphcap.dot.names import demangle, short_name
from graphcap.inspection.compare import GraphDiff, level_lines
from graphcap.inspection.explanations import Explanation
from graphcap.inspection.summary import Summary
from graphcap.topology import Node, is_address

__all__ = [
    "clean",
    "console",
    "show_backends",
    "show_diff",
    "show_explanations",
    "show_nodes",
    "show_path",
    "show_summary",
]

_STYLES = {"+": "green", "-": "red", "~": "yellow", "^": "cyan"}
_MOST_KERNELS = 40
# Names come from files of strangers: no control character of theirs reaches the terminal.
_CONTROLS = {i: "\ufffd" for i in (*range(32), *range(127, 160)) if i not in (9, 10)}


def clean(text: str) -> str:
    """Return the text with replacement characters for what would steer a terminal."""
    return text.translate(_CONTROLS)


def escape(text: str) -> str:
    """Return the text so that rich prints it as it is."""
    return _escape(clean(text))


def console(*, stderr: bool = False, **options: Any) -> Console:
    """Return a console that prints text as it is: no emoji for ``:x:``, no guessed colours."""
    return Console(stderr=stderr, emoji=False, highlight=False, **options)


def _table(*headers: str, title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for header in headers:
        right = header in ("count", "bytes")
        table.add_column(header, justify="right" if right else "left", overflow="fold", no_wrap=right)
    return table


def show_summary(console: Console, summary: Summary) -> None:
    """Print one graph on one screen."""
    name = summary.file or summary.name or "graph"
    console.print(Text(clean(f"{name}: {summary.line()}"), style="bold"))
    graphs = f", {summary.graphs} graphs (clusters)" if summary.graphs else ""
    console.print(f"from {summary.origin or 'graphcap'}{graphs}")
    kinds = _table("kind", "count", "bytes")
    moved = {what.split(" ")[0]: 0 for what in summary.bytes_moved}
    for what, nbytes in summary.bytes_moved.items():
        moved[what.split(" ")[0]] += nbytes
    for kind, count in summary.kinds.items():
        kinds.add_row(kind, str(count), size(moved[kind]) if moved.get(kind) else "")
    console.print(kinds)
    directions = {what: nbytes for what, nbytes in summary.bytes_moved.items() if " " in what}
    if directions:
        console.print(", ".join(f"{what}: {size(nbytes)}" for what, nbytes in directions.items()))
    if summary.kernels:
        kernels = _table("count", "kernel")
        for kernel, count in list(summary.kernels.items())[:_MOST_KERNELS]:
            kernels.add_row(str(count), escape(kernel))
        console.print(kernels)
        if len(summary.kernels) > _MOST_KERNELS:
            console.print(f"… and {len(summary.kernels) - _MOST_KERNELS} more kernels")
    if summary.roots:
        shown = "; ".join(summary.roots[:8]) + (" …" if len(summary.roots) > 8 else "")
        console.print(f"roots ({len(summary.roots)}): {escape(shown)}")
    if summary.undeclared:
        console.print(f"{summary.undeclared} nodes are named by edges and not declared")
    for warning in summary.warnings:
        console.print(Text(clean(f"warning: {warning}"), style="yellow"))
    for note in summary.notes:
        console.print(Text(clean(f"note: {note}"), style="dim"))


def parameters(node: Node) -> str:
    """Return a node's parameters as one line, addresses last and in hexadecimal."""
    parts = []
    for key, value in sorted(node.params.items(), key=lambda item: is_address(item[0])):
        if is_address(key) and isinstance(value, int):
            parts.append(f"{key}={value:#x}")
        else:
            parts.append(f"{key}={dimensions(value) if key in ('grid', 'block', 'cluster') else value}")
    return " ".join(parts)


def show_nodes(console: Console, rows: Iterable[tuple[str, Node]], *, full: bool) -> None:
    """Print nodes, one line each; ``full`` shows whole names."""
    table = _table("graph", "id", "kind", "name", "parameters")
    for graph, node in rows:
        name = demangle(node.name) if full else short_name(node.name) if node.name else ""
        table.add_row(escape(graph), escape(str(node.id)), str(node.kind), escape(name), escape(parameters(node)))
    console.print(table)


def show_path(console: Console, nodes: Iterable[Node]) -> None:
    """Print a path, one node a line."""
    for i, node in enumerate(nodes):
        arrow = "-> " if i else "   "
        console.print(f"{arrow}{node.id}: {escape(demangle(node.name) or str(node.kind))}")


def show_diff(console: Console, result: GraphDiff) -> None:
    """Print a difference as a coloured tree under its summary line."""
    tree = Tree(Text(clean(result.summary()), style="bold"))
    for level in result.levels:
        branch = tree.add(escape(f"graph {level.name or '(no name)'}"))
        for mark, words in level_lines(level):
            branch.add(Text(clean(f"{mark} {words}"), style=_STYLES[mark]))
    for name in result.graphs_removed:
        tree.add(Text(clean(f"- graph {name}"), style="red"))
    for name in result.graphs_added:
        tree.add(Text(clean(f"+ graph {name}"), style="green"))
    for note in result.notes:
        tree.add(Text(clean(f"note: {note}"), style="dim"))
    console.print(tree)


def show_explanations(console: Console, found: Iterable[Explanation]) -> None:
    """Print what errors mean, their usual causes, and what helps."""
    for i, item in enumerate(found):
        if i:
            console.print()
        head = f"{item.code} {item.name}" if item.code else item.name
        console.print(Text(head, style="bold"), Text(clean(f"(graphcap: {item.error})"), style="dim"))
        if item.code:
            console.print(Text(", ".join(item.spellings), style="dim"))
        console.print(escape(item.meaning))
        for title, lines in (("Usual causes", item.causes), ("What helps", item.cures)):
            console.print(Text(title + ":", style="bold"))
            for line in lines:
                console.print(f"  - {escape(line)}")
        console.print(Text(clean(f"Sources: {item.sources}"), style="dim"))


def show_backends(console: Console, status: Mapping[str, BackendStatus]) -> None:
    """Print which backends are usable here, and what to do about the others."""
    for name, one in status.items():
        style = "green" if one.ok else "red"
        console.print(
            Text(clean(f"{name}: "), style="bold"), Text("usable" if one.ok else "not usable", style=style), sep=""
        )
        for title, text in (("why", one.reason), ("cure", one.cure), ("can", ", ".join(capabilities(one)))):
            if text:
                console.print(Text(clean(f"  {title}: {text}")))


def capabilities(status: BackendStatus) -> list[str]:
    """Return the capabilities that a backend has, as words; those with a value as ``name=value``."""
    if status.capabilities is None:
        return []
    words = []
    for key, value in vars(status.capabilities).items():
        if value is True:
            words.append(key)
        elif value and value is not False:
            shown: Any = value
            if isinstance(value, list | tuple | set | frozenset):
                shown = "/".join(sorted(getattr(item, "name", str(item)).lower() for item in value))
            words.append(f"{key}={shown}")
    return words
