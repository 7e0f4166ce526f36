"""DOT text -> topology, whoever wrote it: finding out the dialect, and saying clearly what is no DOT at all."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from graphcap.dot import _driver, _own, _plain, _sycl
from graphcap.dot._build import EMPTY_CAUSES
from graphcap.errors import DotSyntaxError
from graphcap.topology import GraphTopology

__all__ = ["read", "read_bytes"]

_COMMENT = re.compile(r"\s*(?://[^\n]*|#[^\n]*|/\*.*?\*/)?", re.DOTALL)
_HEADER = re.compile(r"(?:strict\s+)?(?:di)?graph\b", re.IGNORECASE)
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


def _decode(data: bytes) -> str:
    """Bytes to text: byte order marks and CRLF go, what is no UTF-8 becomes replacement characters (R12)."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            text = data[len(mark) :].decode(encoding, errors="replace")
            break
    else:
        text = data.decode("utf-8", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _header(text: str, file: str | None) -> int:
    """Return where ``digraph`` or ``graph`` starts.

    Raises
    ------
    DotSyntaxError
        The text does not start as DOT does.
    """
    offset = 0
    while match := _COMMENT.match(text, offset):
        if match.end() == offset:
            break
        offset = match.end()
    head = text[offset : offset + 400]
    if not _HEADER.match(head):
        shown = head.split("\n", 1)[0][:60]
        raise DotSyntaxError(
            f"this is not a DOT file; it starts with {shown!r}",
            file=file,
            line=text.count("\n", 0, offset) + 1,
            expected="'digraph' or 'graph', as a graph dump starts",
        )
    return offset


def _dialect(text: str) -> Callable[[str, str | None], GraphTopology] | None:
    if _own.LOOKS_LIKE.search(text, 0, 4096):
        return _own.read_own
    if _driver.LOOKS_LIKE.search(text):
        return _driver.read_driver
    if _sycl.LOOKS_LIKE.search(text):
        return _sycl.read_sycl
    return None


def read(source: str | os.PathLike[str] | bytes | bytearray | memoryview) -> GraphTopology:
    """Read a graph dump.

    Parameters
    ----------
    source
        A path, or the file's bytes. Takes what the CUDA driver (11 to 13, any flags), HIP, SYCL and graphcap print,
        and any other DOT as a plain graph.

    Returns
    -------
    GraphTopology
        The graph that no other graph holds, with the others in `GraphTopology.graphs`. `GraphTopology.warnings` tells
        in words, with line numbers, what was damaged or skipped; `GraphTopology.source` tells the dialect and counts.
        Time and memory are linear in the size of the file. What a dump does not tell (arguments of kernels, kinds of
        dependencies in CUDA's) is missing here, never guessed.

    Raises
    ------
    DotSyntaxError
        The file is empty (the message lists the usual causes), or is no DOT at all.
    OSError
        The file cannot be read.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return read_bytes(bytes(source))
    return read_bytes(Path(source).read_bytes(), os.fspath(source))


def read_bytes(data: bytes, file: str | None = None) -> GraphTopology:
    """Read a dump's bytes as `read` does; ``file`` is the name that messages give."""
    text = _decode(data)
    del data
    if not text.strip("\0 \t\n"):
        raise DotSyntaxError(f"the file is empty. {EMPTY_CAUSES}", file=file, expected="a graph dump")
    dialect = _dialect(text)
    if dialect is not None:
        return dialect(text, file)
    start = _header(text, file)
    return _plain.read_plain(text, start, file)
