"""The main job as a user runs it: its result, what it writes, and every bad input."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphcap import dot

TERRAIN = Path(__file__).parents[2] / "examples" / "terrain.py"


def terrain(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the example in a process of its own."""
    command = [sys.executable, str(TERRAIN), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def model(folder: Path, **changes: Any) -> Path:
    """A small elevation model."""
    z = np.random.default_rng(0).random(changes.get("shape", (20, 30))) * 100
    path = folder / "model.npy"
    np.save(path, z.astype(changes.get("dtype", "f8")))
    return path


def test_result_table_and_files(tmp_path: Path) -> None:
    """The shipped model, a few steps: no difference, a table, a picture and the graph."""
    done = terrain("--steps", 30, "--out", tmp_path / "new" / "folder")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "largest difference 0"
    for word in ("nodes", "edges", "pool bytes", "eager NumPy", "replayed", "ratio"):
        assert word in done.stdout
    out = tmp_path / "new" / "folder"
    assert (out / "terrain.png").read_bytes().startswith(b"\x89PNG")
    graph = dot.read(out / "terrain.dot")
    assert not graph.warnings
    assert f"│ {len(graph.nodes)}" in done.stdout
    expected = {"terrain.png", "terrain.dot"} | ({"terrain.svg"} if shutil.which("dot") else set())
    assert {path.name for path in out.iterdir()} == expected


@pytest.mark.parametrize(
    "changes", [{}, {"shape": (3, 3)}, {"dtype": "i2"}, {"dtype": "f4"}, {"shape": (3, 200)}, {"dtype": ">f8"}]
)
def test_own_models(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Any .npy file of numbers, bit by bit."""
    done = terrain("--input", model(tmp_path, **changes), "--steps", 7, "--quiet", "--out", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "largest difference 0\n", "")


def test_npz(tmp_path: Path) -> None:
    """An archive's `elevation`, or its first array."""
    z = np.random.default_rng(0).random((9, 9))
    np.savez(tmp_path / "a.npz", other=np.zeros(3), elevation=z)
    np.savez(tmp_path / "b.npz", anything=z)
    for name in ("a.npz", "b.npz"):
        done = terrain("--input", tmp_path / name, "--steps", 2, "--quiet", "--out", tmp_path)
        assert done.returncode == 0, done.stderr


def _bad(folder: Path) -> dict[str, list[object]]:
    np.save(folder / "flat.npy", np.zeros(5))
    np.save(folder / "tiny.npy", np.zeros((2, 9)))
    holes = np.zeros((5, 5))
    holes[2, 2] = np.nan
    np.save(folder / "nan.npy", holes)
    np.save(folder / "text.npy", np.array([["a", "b"]]))
    np.save(folder / "object.npy", np.array([[None]], dtype=object), allow_pickle=True)
    (folder / "junk.npy").write_bytes(b"not an array")
    (folder / "empty.npy").write_bytes(b"")
    np.savez(folder / "none.npz")
    (folder / "file").write_text("in the way")
    good = model(folder)
    return {
        "missing": ["--input", folder / "nope.npy"],
        "folder": ["--input", folder],
        "1-D": ["--input", folder / "flat.npy"],
        "too small": ["--input", folder / "tiny.npy"],
        "NaN": ["--input", folder / "nan.npy"],
        "text": ["--input", folder / "text.npy"],
        "objects": ["--input", folder / "object.npy"],
        "junk": ["--input", folder / "junk.npy"],
        "empty": ["--input", folder / "empty.npy"],
        "empty archive": ["--input", folder / "none.npz"],
        "output in the way": ["--input", good, "--out", folder / "file" / "x"],
        "read-only output": ["--input", good, "--out", "/proc/graphcap"],
        "no such backend": ["--input", good, "--device", "abacus"],
        "no such index": ["--input", good, "--device", "cpu:7"],
        "not a device": ["--input", good, "--device", "cpu:x"],
        "no steps": ["--input", good, "--steps", 0],
        "steps no number": ["--input", good, "--steps", "many"],
    }


@pytest.mark.parametrize("case", [
    "missing", "folder", "1-D", "too small", "NaN", "text", "objects", "junk", "empty", "empty archive",
    "output in the way", "read-only output", "no such backend", "no such index", "not a device", "no steps",
    "steps no number",
])  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path, case: str) -> None:
    """Nothing is half-written, and no traceback is shown."""
    arguments = _bad(tmp_path)[case]
    out = tmp_path / "out"
    done = terrain(*arguments, *([] if "--out" in arguments else ["--out", out]))
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 or case == "steps no number"  # argparse shows its usage first
    assert not out.exists() or not list(out.iterdir())
