"""The examples on CUDA, in this process: CuPy's kernels round each operation by itself, as NumPy does."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from graphcap import dot

EXAMPLES = Path(__file__).parents[2] / "examples"


def _example(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_terrain(cp: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    terrain = _example("terrain", monkeypatch)
    code = terrain.main(["--device", "cuda", "--steps", "5", "--quiet", "--out", str(tmp_path)])
    told = capsys.readouterr()
    assert (code, told.out, told.err) == (0, "largest difference 0\n", "")
    graph = dot.read(tmp_path / "terrain.dot")
    assert graph.counts()["kernel"] >= 10
    assert (tmp_path / "terrain.png").read_bytes().startswith(b"\x89PNG")


def test_terrain_from_a_file_with_an_index(cp: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "model.npy", np.random.default_rng(1).random((20, 31)) * 100)
    terrain = _example("terrain", monkeypatch)
    arguments = ["--device", "cuda:0", "--steps", "40", "--quiet", "--input", str(tmp_path / "model.npy")]
    assert terrain.main([*arguments, "--out", str(tmp_path)]) == 0


def test_jacobi(cp: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    jacobi = _example("jacobi", monkeypatch)
    assert jacobi.main(["--device", "cuda", "--cells", "12", "--tolerance", "1e-3"]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[-1] == "largest difference 0"
    assert "kernel" in told
