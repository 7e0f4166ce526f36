"""Writing a file whole or not at all."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from typing import Final

from graphcap._typing import PathLike

__all__ = ["whole_file", "write_whole"]

_numbers: Final = itertools.count(1)


@contextlib.contextmanager
def whole_file(path: PathLike) -> Iterator[str]:
    """A draft beside `path`, which takes its place when the ``with`` block ends and is removed when it raises.

    The draft exists, empty, when the block begins. Its name is this call's own, so that processes and threads which
    write to one path do not meet.

    Raises
    ------
    OSError
        The place cannot be written; `path` is as it was.
    """
    draft = f"{os.fspath(path)}.{os.getpid()}.{next(_numbers)}.partial"
    with open(draft, "wb"):
        pass  # a place that cannot be written says so in Python's own words
    try:
        yield draft
        os.replace(draft, path)
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise


def write_whole(path: PathLike, data: bytes) -> None:
    """Write `data` to `path`. Raises as :func:`whole_file`."""
    with whole_file(path) as draft, open(draft, "wb") as file:
        file.write(data)
