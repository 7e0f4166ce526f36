"""Damaged, cut, foreign and hostile files: what can be read is read, and the rest is told with its line."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import graphcap.dot
from graphcap.errors import DotSyntaxError
from graphcap.topology import GraphTopology

from .producers import K, cuda, hip, sycl

CHAIN = [K("KERNEL", f"_Z{i}kPf", (i + 1,), (128,)) for i in range(6)]
EDGES = [(i, i + 1) for i in range(5)]
WHOLE = cuda({1: (CHAIN, EDGES)})


def read(data: bytes | str) -> GraphTopology:
    return graphcap.dot.read(data.encode() if isinstance(data, str) else data)


@pytest.mark.parametrize("nothing", [b"", b" \n\t\n", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_an_empty_file_names_the_usual_causes(nothing: bytes, tmp_path: Path) -> None:
    path = tmp_path / "empty.dot"
    path.write_bytes(nothing)
    with pytest.raises(DotSyntaxError, match=r"empty\.dot.*the file is empty.*keep_graph=True") as caught:
        graphcap.dot.read(path)
    assert caught.value.file == str(path)


@pytest.mark.parametrize(
    "text", ["digraph dot {\n}\n", "digraph dot {\n", 'digraph dot {\nsubgraph cluster_1 {\nlabel="graph_1" graph[style="dashed"];\n}\n}\n']
)  # fmt: skip
def test_a_graph_without_nodes_reads_and_names_the_usual_causes(text: str) -> None:
    graph = read(text)
    assert len(graph) == 0
    assert any("no nodes" in w and "keep_graph=True" in w for w in graph.warnings)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"Traceback (most recent call last):\n", 1),
        (b'{"a": 1}', 1),
        (b"// hello\n\n# x\nELF\x00\x01", 4),
        (b"\x7fELF", 1),
    ],
)
def test_what_is_no_dot_is_refused_with_its_line(data: bytes, line: int) -> None:
    with pytest.raises(DotSyntaxError, match="not a DOT file") as caught:
        read(data)
    assert caught.value.line == line
    assert "digraph" in caught.value.expected


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        graphcap.dot.read(tmp_path / "none.dot")


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_byte_order_marks_change_nothing(newline: str, mark: bytes) -> None:
    assert read(mark + WHOLE.replace("\n", newline).encode()) == read(WHOLE)


def test_a_shell_that_writes_utf_16_is_read_too() -> None:
    assert read(WHOLE.encode("utf-16")) == read(WHOLE)
    assert read(b"\xfe\xff" + WHOLE.encode("utf-16-be")) == read(WHOLE)


def test_bytes_that_are_no_text_stay_inside_their_name() -> None:
    graph = read(WHOLE.encode().replace(b"_Z0kPf", b"_Z\xff\x000k"))
    assert graph.node(0).name == "_Z\ufffd\x000k"
    assert len(graph.edges) == 5


def test_comments_before_the_graph_are_passed_over() -> None:
    assert read("// made by hand\n# in 2026\n\n" + WHOLE) == read(WHOLE)


def test_every_cut_of_a_file_reads_and_says_so() -> None:
    starts = [WHOLE.index(f'"graph_1_node_{i}"[') for i in range(6)]
    for cut in range(30, len(WHOLE) - 3, 7):
        graph = read(WHOLE[:cut])
        begun = sum(start + len('"graph_1_node_0"[') <= cut for start in starts)
        assert len(graph) == begun
        assert graph.warnings, cut


def test_every_beginning_may_be_missing() -> None:
    starts = [WHOLE.index(f'"graph_1_node_{i}"[') for i in range(6)]
    for cut in range(0, starts[5], 11):
        graph = read(WHOLE[cut:])
        assert len(graph) == sum(start >= cut for start in starts)
        assert [n.name for n in graph] == [k.name for k in CHAIN[6 - len(graph) :]]
        if cut > WHOLE.index("graph[style"):
            assert graph.warnings


def test_a_cut_inside_a_label_names_node_and_line() -> None:
    cut = WHOLE.index("func handle", WHOLE.index('"graph_1_node_3"['))
    graph = read(WHOLE[:cut])
    line = WHOLE[: WHOLE.index('"graph_1_node_3"[')].count("\n") + 1
    assert f"line {line}: node graph_1_node_3 is cut off inside its label; what is there was kept" in graph.warnings
    assert graph.node(3).name == CHAIN[3].name
    assert graph.node(3).params["grid"] == (4, 1, 1)


def test_damage_in_the_middle_loses_only_itself() -> None:
    lines = WHOLE.splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line.startswith('"graph_1_node_2"['))
    lines[at:at] = ["garbage from another program\n", "more of it\n"]
    graph = read("".join(lines))
    assert len(graph) == 6
    assert len(graph.edges) == 5
    assert graph.warnings == (
        f"line {at + 1}: 2 lines here belong to no statement: skipped",
        "skipped, because they could not be read: 1 statement",
    )
    assert graph.source is not None
    assert graph.source.skipped == 1


def test_a_label_that_is_never_closed_ends_at_the_next_node() -> None:
    broken = WHOLE.replace('}"];', "}", 2)
    graph = read(broken)
    assert len(graph) == 6
    assert sum("cut off inside its label" in w for w in graph.warnings) == 2


def test_a_broken_label_does_not_hide_that_the_file_is_cut() -> None:
    broken = WHOLE.replace('}"];', "}", 1).removesuffix("}\n}\n")
    said = "\n".join(read(broken).warnings)
    assert "cut off inside its label" in said
    assert "ends before its closing braces" in said


def test_repeated_and_strange_statements_are_told() -> None:
    extra = (
        '"graph_1_node_0"[style="bold" shape="octagon" label="0\nagain\n"];\n'
        '"somebody"[label="x"];\n"graph_1_node_0" -> "graph_2_node_0" [headlabel=0];\n'
        '"graph_1_node_0" -> "graph_1_node_1" [headlabel=0];\n"graph_1_node_0" -> \n'
        '"graph_1_node_5" -> "graph_1_node_77" [headlabel=0];\n'
    )
    graph = read(WHOLE.replace("}\n}\n", "") + extra + "}\n}\n")
    assert graph.node(0).name == CHAIN[0].name
    assert len(graph.edges) == 6
    assert graph.undeclared == (77,)
    text = "\n".join(graph.warnings)
    for said in ("told again; the first one counts", "'somebody' is not named", "joins two graphs", "counts once",
                 "to no statement: skipped", "graph_1_node_77"):  # fmt: skip
        assert said in text


def test_many_faults_are_summed_up() -> None:
    graph = read(WHOLE + "junk\n".join('"odd"[label="x"];\n' for _ in range(300)))
    assert len(graph.warnings) < 60
    assert "more warnings" in graph.warnings[-2]
    assert "could not be read: " in graph.warnings[-1]


def test_sycl_and_hip_survive_cuts_too() -> None:
    text = sycl([("CGExecKernel", "_ZTSk", "")] * 5, [(i, i + 1) for i in range(4)])
    for cut in range(20, len(text), 5):
        assert len(read(text[:cut])) <= 5
    text = hip({3: (CHAIN, EDGES)}, mode="params")
    for cut in range(20, len(text), 5):
        assert len(read(text[:cut])) <= 6
    assert len(read(text[40:])) == 6


def test_our_own_text_survives_damage() -> None:
    text = graphcap.dot.write(read(WHOLE))
    for cut in range(60, len(text), 9):
        graph = read(text[:cut])
        assert len(graph) <= 6
    for old, new in (('kind="kernel"', 'kind="teapot"'), ('params="{', 'params="['), ('"n1"', '"q1"'), ('}"];', '}"')):
        graph = read(text.replace(old, new, 1))
        assert graph.warnings
        assert len(graph) + len(graph.undeclared) >= 5


def seconds(text: str) -> float:
    start = time.process_time()
    try:
        read(text)
    except DotSyntaxError:
        pass
    return time.process_time() - start


HOSTILE: dict[str, Callable[[int], str]] = {
    "open quotes": lambda n: 'digraph dot {\n"graph_1_node_0"[label="' + '"' * n,
    "backslashes": lambda n: 'digraph dot {\n"graph_1_node_0"[label="' + '\\"' * n,
    "blanks": lambda n: 'digraph dot {\n"graph_1_node_0"[label="x"' + " " * n,
    "blank lines": lambda n: "digraph dot {\n" + " " * 50 + "\n" * n + '"graph_1_node_0"[label="0',
    "half nodes": lambda n: "digraph dot {\n" + '"graph_1_node_0"[\n' * (n // 18),
    "half edges": lambda n: "digraph dot {\n" + '"graph_1_node_0" ->\n' * (n // 18),
    "one long line": lambda n: 'digraph dot {\n"graph_1_node_0"[style="bold" shape="record" label="{KERNEL\n| ' + "a|{" * n,
    "braces": lambda n: "digraph g " + "{" * n,
    "closing braces": lambda n: "digraph g {\n" + "}\n" * n,
    "subgraphs": lambda n: "digraph g {" + "subgraph x {" * (n // 12),
    "html": lambda n: "digraph g { a [label=" + "<" * n,
    "unclosed strings": lambda n: "digraph g {\n" + 'a -> "b\n' * (n // 8),
    "escaped quotes outside": lambda n: 'digraph g {\n"x\n' + '\\"\n' * (n // 3),
    "html lines": lambda n: "digraph g {\n" + "<\n" * (n // 2),
    "arrows": lambda n: "digraph g {" + "a->" * (n // 3),
    "digits": lambda n: 'digraph dot {\n"graph_1_node_' + "9" * n + '"[label="0"];\n',
    "own": lambda n: 'digraph graphcap {\ngraph [comment="graphcap.topology 1"];\n"n0" [kind="kernel", a="' + "\\x" * n,
    "own nesting": lambda n: 'digraph graphcap {\ngraph [comment="graphcap.topology 1"];\n"n0" [kind="kernel", '
    'params="' + "[" * n + '"];\n',
    "sycl": lambda n: 'digraph dot {\n"0x1" [style=bold, label="ID = 0x1\\nTYPE = X' + "\\n" * n,
    "sycl many": lambda n: "digraph dot {\n" + '"0x1" [style=bold, label="ID = \n' * (n // 30),
    "launch": lambda n: 'digraph dot {\n"graph_1_node_0"[style="bold" shape="record" label="{KERNEL\n| {ID | 0 | k'
    + "\\<\\<\\<" * n,
    "edges": lambda n: 'digraph dot {\n"graph_1_node_0"[label="0"];\n' + '"graph_1_node_0" -> "graph_1_node_0"\n' * (n // 40),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_take_linear_time(name: str) -> None:
    make = HOSTILE[name]
    assert seconds(make(400_000)) < 8.0  # of processor time; a quadratic reader takes minutes here
