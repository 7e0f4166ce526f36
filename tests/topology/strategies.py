"""Hypothesis strategies for topologies of every shape that the model allows."""

from __future__ import annotations

from hypothesis import strategies as st

from graphcap.topology import Edge, GraphTopology, Node, NodeKind

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(allow_nan=False),  # a complex NaN equals nothing, itself included
    st.text(max_size=12),
    st.binary(max_size=6),
)
values = st.one_of(
    scalars, st.lists(scalars, max_size=3).map(tuple), st.lists(st.lists(scalars, max_size=2), max_size=2)
)
keys = st.one_of(st.sampled_from(["grid", "bytes", "src", "dtype", "node_handle"]), st.text(max_size=6))
ids = st.one_of(st.integers(-3, 30), st.text(max_size=5))
names = st.one_of(st.sampled_from(["saxpy", "_Z3addPfS_", 'f<"x\\">|{y}', "a\nb", ""]), st.text(max_size=10))


@st.composite
def levels(draw: st.DrawFn, graph_names: list[str], name: str, *, acyclic: bool = False) -> GraphTopology:
    """One graph without its nested graphs."""
    chosen = draw(st.lists(ids, max_size=8, unique=True))
    undeclared = draw(st.integers(0, min(2, len(chosen)))) if not acyclic else 0
    node_ids, rest = chosen[: len(chosen) - undeclared], chosen[len(chosen) - undeclared :]
    nodes = [
        Node(
            id_,
            draw(st.sampled_from(NodeKind)),
            draw(names),
            draw(st.dictionaries(keys, values, max_size=3)),
            tuple(draw(st.lists(st.sampled_from([*graph_names, "elsewhere"]), max_size=2))),
        )
        for id_ in node_ids
    ]
    n = len(chosen)
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=12)) if n else []
    if acyclic:
        pairs = [(min(p), max(p)) for p in pairs if p[0] != p[1]]
    edges = {
        Edge(
            chosen[a],
            chosen[b],
            *draw(
                st.one_of(
                    st.just(("full", 0, 0)),
                    st.tuples(st.sampled_from(["full", "programmatic"]), st.integers(0, 3), st.integers(0, 3)),
                )
            ),
        ): None
        for a, b in pairs
    }
    return GraphTopology(nodes, edges, undeclared=rest, name=name, origin=draw(st.sampled_from(["", "cuda", 'x"\\'])))


@st.composite
def topologies(draw: st.DrawFn, *, acyclic: bool = False) -> GraphTopology:
    """A graph with nested graphs, shared and missing references and odd names."""
    graph_names = draw(st.lists(st.text(max_size=6), max_size=4, unique=True))
    root, inner = (graph_names[0], graph_names[1:]) if graph_names else ("", [])
    graphs = {name: draw(levels(graph_names, name)) for name in inner}
    return draw(levels(graph_names, root, acyclic=acyclic)).with_graphs(graphs)
