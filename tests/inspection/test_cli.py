"""The command ``graphcap``: what it prints, its JSON, its exit codes, its one-line errors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import graphcap
import graphcap.dot
from graphcap.cli import app
from graphcap.inspection.explanations import EXPLANATIONS, explain
from graphcap.topology import GraphTopology

from ..dot.producers import K, cuda
from .graphs import dump, nested, step


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin)


def data(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "step.dot"
    path.write_text(dump())
    return str(path)


def test_show_prints_the_numbers(file: str) -> None:
    result = run("show", file)
    assert result.exit_code == 0
    assert "5 nodes (3 kernel, 1 memcpy, 1 child_graph), 3 edges, depth 3, width 2" in result.stdout
    assert "from cuda, 2 graphs (clusters)" in result.stdout
    assert "saxpy(float, float const*, float*)" in result.stdout
    assert "memcpy DtoH: 4.0 KiB" in result.stdout
    assert "roots (2)" in result.stdout


def test_show_json_of_one_and_of_several(file: str, tmp_path: Path) -> None:
    one = data("show", file)
    assert {"nodes": 5, "edges": 3, "graphs": 2, "warnings": []}.items() <= one.items()
    assert one["kinds"] == {"kernel": 3, "memcpy": 1, "child_graph": 1}
    (tmp_path / "b.json").write_text(nested().to_json())
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "no_suffix").write_text(dump())
    (tmp_path / "notes.txt").write_text("nothing to see")
    several = data("show", file, str(tmp_path / "b.json"))
    assert [item["nodes"] for item in several] == [5, 6]
    folder = data("show", str(tmp_path))
    assert [Path(item["file"]).name for item in folder] == ["b.json", "no_suffix", "step.dot"]


def test_show_reads_standard_input() -> None:
    result = run("show", "-", "--json", stdin=dump().encode())
    assert json.loads(result.stdout)["nodes"] == 5


def test_show_tells_of_bodies_that_were_not_entered(tmp_path: Path) -> None:
    path = tmp_path / "x.dot"
    path.write_text(cuda({1: ([K("CHILD", graphs=("graph_9",))], [])}))
    result = run("show", str(path))
    assert "warning: graph_9 is held by a node but is not in this file" in result.stdout


def test_one_bad_file_among_several_is_told_and_the_others_are_shown(file: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.dot"
    bad.write_text("Segmentation fault\n")
    result = run("show", str(bad), file)
    assert result.exit_code == 2
    assert "5 nodes" in result.stdout
    assert "not a DOT file" in result.stderr


def test_nodes_filters_and_sorts(file: str) -> None:
    rows = data("nodes", file, "--kind", "kernel", "--sort", "name")
    assert [row["demangled"].split("(")[0] for row in rows] == ["saxpy", "scale", "child"]
    assert rows[0]["graph"] == "graph_1"
    assert rows[0]["params"]["grid"] == [4, 1, 1]
    assert [row["id"] for row in data("nodes", file, "--name", "sca")] == [1]
    assert [row["id"] for row in data("nodes", file, "--sort", "bytes", "--limit", "1")] == [2]
    assert [row["kind"] for row in data("nodes", file, "--kind", "memcpy", "--kind", "child-graphs")] == [
        "memcpy", "child_graph",
    ]  # fmt: skip
    text = run("nodes", file, "--full").stdout
    assert "saxpy(float, float const*, float*)" in text
    assert "node_handle=0x" in text
    assert run("nodes", file, "--kind", "teapot").exit_code == 2


def test_nodes_come_in_the_order_of_the_edges(tmp_path: Path) -> None:
    path = tmp_path / "x.dot"
    path.write_text(cuda({1: ([K("KERNEL", f"k{i}") for i in range(3)], [(2, 1), (1, 0)])}))
    assert [row["id"] for row in data("nodes", str(path))] == [2, 1, 0]
    assert [row["id"] for row in data("nodes", str(path), "--sort", "id")] == [0, 1, 2]


def test_path_of_ordered_and_of_parallel_nodes(file: str) -> None:
    assert data("path", file, "saxpy", "3") == {"ordered": True, "reversed": False, "path": [0, 2, 3]}
    assert data("path", file, "graph_1_node_3", "graph_1_node_0")["reversed"] is True
    assert run("path", file, "saxpy", "3").exit_code == 0
    apart = run("path", file, "saxpy", "scale")
    assert apart.exit_code == 1
    assert "may run in parallel" in apart.stdout
    assert run("path", file, "saxpy", "child").exit_code == 2  # in different graphs
    several = run("path", file, "s", "3")
    assert several.exit_code == 2
    assert "means 2 nodes: 0, 1" in several.stderr


@pytest.mark.parametrize("to", ["dot", "json", "mermaid", "html"])
def test_convert_to_text(file: str, to: str, tmp_path: Path) -> None:
    out = tmp_path / f"out.{to}"
    assert run("convert", file, "--to", to, "-o", str(out)).exit_code == 0
    text = out.read_text(encoding="utf-8")
    assert text == run("convert", file, "--to", to).stdout
    if to == "dot":
        assert graphcap.dot.read(out) == graphcap.dot.read(file)
    if to == "json":
        assert GraphTopology.from_json(out) == graphcap.dot.read(file)
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_convert_to_pictures_by_suffix(file: str, tmp_path: Path) -> None:
    for name, start in (("a.svg", b"<?xml"), ("a.png", b"\x89PNG")):
        assert run("convert", file, "-o", str(tmp_path / name)).exit_code == 0
        assert (tmp_path / name).read_bytes().startswith(start)


def test_convert_without_graphviz_names_the_cure_and_writes_nothing(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    result = run("convert", file, "-o", str(tmp_path / "x.svg"))
    assert result.exit_code == 2
    assert "Graphviz is not installed" in result.stderr
    assert not (tmp_path / "x.svg").exists()
    assert run("convert", file).exit_code == 2  # to what?


def test_diff_exit_codes(file: str, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(step(grid=8).to_json())
    same = tmp_path / "same.dot"
    same.write_text(dump().replace("graph_1", "graph_77").replace("cluster_1 ", "cluster_77 "))
    equal = run("diff", file, str(same))
    assert (equal.exit_code, equal.stdout.strip()) == (0, "no difference")
    differ = run("diff", file, str(other))
    assert differ.exit_code == 1
    assert "node added" in differ.stdout or "nodes added" in differ.stdout
    assert data("diff", file, str(other))["same"] is False
    assert run("diff", file, str(tmp_path / "none.dot")).exit_code == 2
    assert run("diff", "-", "-").exit_code == 2


def test_check_exit_codes(file: str) -> None:
    assert (
        run("check", file, "--forbid", "memset,mem_alloc", "--require", "saxpy", "--require", "memcpy").exit_code == 0
    )
    failed = run("check", file, "--forbid", "memcpy", "--require", "gemm")
    assert failed.exit_code == 1
    assert "expected no 'memcpy'; there are 1: 2 (memcpy)" in failed.stdout
    assert "expected a node named 'gemm'" in failed.stdout
    assert len(data("check", file, "--forbid", "memcpy")["failures"]) == 1
    assert run("check", file).exit_code == 2


CODES = (900, 901, 902, 903, 904, 905, 906, 907, 908, 910, 1, 2, 400, 401, 700, 801)


@pytest.mark.parametrize("code", CODES)
def test_explain_by_code_and_by_every_name(code: int) -> None:
    result = run("explain", str(code))
    assert result.exit_code == 0
    assert "Usual causes" in result.stdout
    assert "What helps" in result.stdout
    (found,) = explain(str(code))
    for name in found.spellings:
        assert explain(name)[0] is found
        assert explain(f"RuntimeError: {name}: something failed")[0] is found
    for words in found.words:
        assert found in explain(f"CUDA error: {words}\nCUDA kernel errors might be reported later")


def test_explain_knows_graphcaps_errors_and_says_when_it_does_not() -> None:
    assert explain("UnjoinedStreamError: stream 3 was forked")[0].code == 904
    assert {e.code for e in explain("CaptureForbiddenError")} == {900, 906, 907}
    assert data("explain", "EmptyGraphWarning")[0]["meaning"]
    unknown = run("explain", "flux", "capacitor")
    assert unknown.exit_code == 2
    assert "900 STREAM_CAPTURE_UNSUPPORTED" in unknown.stderr
    for item in EXPLANATIONS:
        assert getattr(graphcap, item.error, None) is not None, item.error
        assert item.causes
        assert item.cures
        assert item.sources


def test_backends_says_what_is_usable() -> None:
    status = data("backends")
    assert status["CPU"]["ok"] is True
    for one in status.values():
        assert one["ok"] or (one["reason"] and one["cure"])
    assert "CPU: usable" in run("backends").stdout


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file is empty"),
        (b"hello\n", "not a DOT file"),
        (b'{"format": "graphcap.topology", "version": 99}', "version 99 is not known"),
        (b"{", "not JSON"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.dot"
    path.write_bytes(content)
    for command in (["show"], ["nodes"], ["path"], ["convert", "--to", "dot"], ["check", "--forbid", "memcpy"]):
        tail = ["a", "b"] if command == ["path"] else []
        result = run(command[0], str(path), *tail, *command[1:])
        assert result.exit_code == 2
        assert says in result.stderr
        assert str(path) in result.stderr
        assert "Traceback" not in result.output
        assert result.stdout == ""


def test_missing_files_and_empty_folders(tmp_path: Path) -> None:
    missing = run("show", str(tmp_path / "none.dot"))
    assert (missing.exit_code, "No such file" in missing.stderr) == (2, True)
    empty = run("show", str(tmp_path))
    assert (empty.exit_code, "holds no graph dumps" in empty.stderr) == (2, True)


def test_a_truncated_file_is_shown_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "cut.dot"
    path.write_text(dump()[:700])
    result = run("show", str(path))
    assert result.exit_code == 0
    assert "cut off" in result.stdout


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "x.dot"
    path.write_text(cuda({1: ([K("KERNEL", "evil\x1b[31m[bold]:x:\x07")], [])}))
    for arguments in (
        ("show", str(path)),
        ("nodes", str(path)),
        ("path", str(path), "0", "0"),
        ("check", str(path), "--forbid", "evil"),
    ):
        text = run(*arguments).output
        assert "\x1b" not in text
        assert "\x07" not in text
    assert "[bold]:x:" in run("show", str(path)).stdout


def child(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False, **more)


def test_python_m_graphcap_works_and_completes() -> None:
    assert child("-m", "graphcap", "--version").stdout.strip() == graphcap.__version__
    done = child("-m", "graphcap", "explain", "904")
    assert done.returncode == 0
    assert done.stdout.startswith("904 STREAM_CAPTURE_UNJOINED")
    shown = child(
        "-c", "import sys; sys.argv=['graphcap']; from graphcap.cli import main; main()",
        env={**os.environ, "_GRAPHCAP_COMPLETE": "complete_bash", "COMP_WORDS": "graphcap ex", "COMP_CWORD": "1"},
    )  # fmt: skip
    assert shown.stdout.strip() == "explain"


def test_without_its_libraries_the_command_says_one_line() -> None:
    done = child("-c", "import sys; sys.modules['typer'] = None; from graphcap.cli import main; main()")
    assert done.returncode == 2
    assert done.stderr.strip().count("\n") == 0
    assert "pip install typer rich" in done.stderr
    assert done.stdout == ""


def test_importing_graphcap_loads_neither_the_command_line_nor_its_libraries() -> None:
    done = child(
        "-c", "import graphcap, sys; print([m for m in ('typer', 'rich', 'networkx', 'pydot') if m in sys.modules])"
    )
    assert done.stdout.strip() == "[]"


def test_a_slow_file_shows_progress_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    from graphcap import cli
    from graphcap.inspection import tables

    started: list[str] = []

    class Status:
        def __init__(self, what: str) -> None:
            self.what = what

        def start(self) -> None:
            started.append(self.what)

        def stop(self) -> None:
            started.append("stop")

    class Console:
        def __init__(self, terminal: bool) -> None:
            self.is_terminal = terminal

        def status(self, what: str) -> Status:
            return Status(what)

    monkeypatch.setattr(cli, "_SLOW", 0.01)
    for terminal, expected in ((True, ["reading …", "stop"]), (False, [])):
        started.clear()
        monkeypatch.setattr(tables, "console", lambda stderr, terminal=terminal: Console(terminal))
        with cli._progress("reading …"):
            time.sleep(0.2)
        assert started == expected
