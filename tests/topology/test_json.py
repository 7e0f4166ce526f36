"""Topology -> JSON -> topology, the schema, and what a wrong text is told."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings

import graphcap.topology
from graphcap.errors import GraphStructureError
from graphcap.topology import GraphTopology, Node, NodeKind

from .strategies import topologies

SCHEMA = json.loads((Path(graphcap.topology.__file__).parent / "topology-1.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@given(topologies())
@settings(max_examples=80, deadline=None)
def test_json_is_an_identity_and_keeps_to_the_schema(graph: GraphTopology) -> None:
    text = graph.to_json()
    assert text.isascii()
    VALIDATOR.validate(json.loads(text))
    again = GraphTopology.from_json(text)
    assert again == graph
    assert again.to_json() == text
    assert GraphTopology.from_json(graph.to_json(indent=1).encode()) == graph


def test_the_schema_knows_every_kind_and_refuses_what_the_reader_refuses() -> None:
    assert SCHEMA["$defs"]["node"]["properties"]["kind"]["enum"] == [kind.value for kind in NodeKind]
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({"format": "graphcap.topology", "version": 2, "name": "", "nodes": [], "edges": []})


def good() -> dict[str, object]:
    graph = GraphTopology([Node(0, NodeKind.KERNEL, "k", {"grid": (1,)}), Node(1, NodeKind.HOST)], [(0, 1)], name="g")
    data: dict[str, object] = json.loads(graph.to_json())
    return data


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "other"}, "not a topology"),
        ({"version": 9}, "version 9 is not known"),
        ({"nodes": {}}, "a list was expected"),
        ({"nodes": [1]}, r"nodes\[0\]: a node is an object"),
        ({"nodes": [{"id": 0, "kind": "copy"}]}, r"nodes\[0\].*no such kind"),
        ({"nodes": [{"id": 0, "kind": "host", "params": {"a": {"$x": 1}}}]}, r"nodes\[0\].*is not a parameter's value"),
        ({"nodes": [{"id": 0, "kind": "host", "params": {"a": {"$float": "x"}}}]}, r"nodes\[0\]"),
        ({"nodes": [{"id": 0, "kind": "host", "graphs": [1]}]}, r"nodes\[0\].graphs: names are strings"),
        ({"edges": [[0]]}, r"edges\[0\]: an edge is"),
        ({"edges": [[0, True]]}, r"edges\[0\]: an edge is"),
        ({"edges": [[0, 1, "full", "x", 0]]}, r"edges\[0\]: an edge is"),
        ({"edges": [[0, 5]]}, "has no node 5"),
        ({"graphs": {"x": []}}, r"graphs\['x'\]"),
        ({"undeclared": [1.5]}, "ids are ints or strings"),
        ({"name": 3}, "a str was expected"),
    ],
)
def test_a_wrong_text_is_told_where_it_is_wrong(change: dict[str, object], says: str) -> None:
    with pytest.raises(GraphStructureError, match=says) as caught:
        GraphTopology.from_json(json.dumps({**good(), **change}))
    assert "schema" in caught.value.cure


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "nul", '"x"'])
def test_what_is_not_json_is_told_so(text: str) -> None:
    with pytest.raises(GraphStructureError, match=r"not JSON|not a topology"):
        GraphTopology.from_json(text)


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_text(json.dumps(good()))
    assert GraphTopology.from_json(path).name == "g"
    with pytest.raises(OSError, match="none"):
        GraphTopology.from_json(tmp_path / "none.json")
