"""Topology -> SVG or PNG, by Graphviz."""

from __future__ import annotations

import shutil
import subprocess
from typing import Literal

import graphcap.dot
from graphcap.errors import GraphcapError
from graphcap.topology import GraphTopology

__all__ = ["render"]

_LARGE = 3000  # nodes that Graphviz lays out in bearable time


def render(
    topology: GraphTopology, format: Literal["svg", "png"] = "svg", *, fold: bool = False, seconds: float = 300.0
) -> bytes:
    """Return a picture of the graph.

    Parameters
    ----------
    topology
        Any graph.
    format
        ``svg``, or ``png`` (which Graphviz cuts at 32767 pixels: use ``svg`` for long graphs).
    fold
        Draw a sequence of nodes that repeats once.
    seconds
        The time that Graphviz may take.

    Raises
    ------
    GraphcapError
        Graphviz is not installed, fails, or takes too long; the message says what to do.
    """
    program = shutil.which("dot")
    if program is None:
        raise GraphcapError(
            f"a picture as {format.upper()}",
            "Graphviz is not installed (its program `dot` is not on PATH)",
            "Install it (Debian: apt install graphviz; macOS: brew install graphviz; Windows: winget install graphviz), "
            "or convert to html or mermaid, which need nothing.",
        )
    text = graphcap.dot.write(topology, fold=fold, links=True)
    try:
        done = subprocess.run(
            [program, f"-T{format}"], input=text.encode(), capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise GraphcapError(
            f"a picture as {format.upper()}",
            f"Graphviz took more than {seconds:.0f} s for {len(list(topology.all_nodes()))} nodes",
            "Fold repeats (--fold), or convert to html, which draws large graphs at once.",
        ) from None
    if done.returncode or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise GraphcapError(
            f"a picture as {format.upper()}", f"Graphviz failed: {said[0]}", "Convert to html, or fold repeats."
        )
    return done.stdout
