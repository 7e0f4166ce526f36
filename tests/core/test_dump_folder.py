"""``GRAPHCAP_DUMP=folder`` writes every captured graph, and never costs one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap import dot


def _capture(keep_graph: bool = False) -> tuple[graphcap.Graph, Any]:
    make: Any = graphcap.Stream
    target = np.zeros(4)
    graph, stream = graphcap.Graph("cpu", keep_graph), make("cpu")
    with stream, graph:
        stream.fill(target, 1.0)
        stream.fill(target, 2.0)
    return graph, target


@pytest.mark.parametrize("keep_graph", [False, True])
def test_every_graph_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, keep_graph: bool) -> None:
    """Issue 5, item 9: one readable file for each capture, in a folder that is made if need be."""
    folder = tmp_path / "a" / "b"
    monkeypatch.setenv("GRAPHCAP_DUMP", str(folder))
    graphs = [_capture(keep_graph) for _ in range(3)]
    files = sorted(folder.iterdir())
    assert len(files) == 3
    assert all(len(dot.read(file).nodes) == 2 for file in files)
    for graph, target in graphs:
        graph.replay()
        assert (target == 2).all()


def test_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A graph that cannot be dumped is still a graph; a warning tells why there is no file."""
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    monkeypatch.setenv("GRAPHCAP_DUMP", str(blocker))
    with pytest.warns(graphcap.GraphcapWarning, match="GRAPHCAP_DUMP"):
        graph, target = _capture()
    graph.replay()
    assert (target == 2).all()
    assert blocker.read_text() == "in the way"


def test_failed_captures_write_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A capture that was thrown away has nothing to write."""
    monkeypatch.setenv("GRAPHCAP_DUMP", str(tmp_path))
    make: Any = graphcap.Stream
    stream = make("cpu")
    with pytest.raises(ZeroDivisionError), stream, graphcap.Graph("cpu"):
        stream.fill(np.zeros(4), 1.0)
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_unasked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Unset or empty means no dumps and no kept template."""
    monkeypatch.chdir(tmp_path)
    for value in (None, ""):
        if value is None:
            monkeypatch.delenv("GRAPHCAP_DUMP", raising=False)
        else:
            monkeypatch.setenv("GRAPHCAP_DUMP", value)
        graph, _ = _capture()
        with pytest.raises(graphcap.GraphStateError):
            graph.topology()
    assert list(tmp_path.iterdir()) == []
