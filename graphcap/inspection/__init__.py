"""Looking inside graphs: live ones, and the dumps of any producer.

`load` takes a live graph or a file; `summarize`, `diff`, `assert_topology` and `topologies_agree` ask; `to_html`,
`to_mermaid` and `render` draw. None of it needs a device.
"""

from __future__ import annotations

from graphcap.inspection.agreement import disagreements, topologies_agree
from graphcap.inspection.assertions import GraphAssertion, assert_topology
from graphcap.inspection.compare import GraphDiff, diff
from graphcap.inspection.load import load
from graphcap.inspection.mermaid import to_mermaid
from graphcap.inspection.page import to_html
from graphcap.inspection.picture import render
from graphcap.inspection.summary import Summary, summarize

__all__ = [
    "GraphAssertion",
    "GraphDiff",
    "Summary",
    "assert_topology",
    "diff",
    "disagreements",
    "load",
    "render",
    "summarize",
    "to_html",
    "to_mermaid",
    "topologies_agree",
]
