"""A file is written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphcap
from graphcap._files import whole_file, write_whole


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    """And a failure, of any kind, leaves it and nothing else."""
    path = tmp_path / "file"
    write_whole(path, b"old")
    with pytest.raises(KeyboardInterrupt), whole_file(path) as draft:
        Path(draft).write_bytes(b"half")
        assert path.read_bytes() == b"old"
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_one_path_do_not_meet(tmp_path: Path) -> None:
    """Each has a draft of its own; the last to finish wins, whole."""
    path = tmp_path / "file"
    with whole_file(path) as one:
        with whole_file(path) as two:
            assert one != two
            Path(one).write_bytes(b"one")
            Path(two).write_bytes(b"two")
        assert path.read_bytes() == b"two"
    assert path.read_bytes() == b"one"


@pytest.mark.parametrize("layout", ["graphcap", "pytorch"])
def test_a_place_that_cannot_be_written(tmp_path: Path, layout: str) -> None:
    """Python's own error, and nothing is made."""
    with pytest.raises(OSError, match="nowhere"):
        graphcap.memory_snapshot("cpu", layout=layout, path=tmp_path / "nowhere" / "file")
    assert list(tmp_path.iterdir()) == []
