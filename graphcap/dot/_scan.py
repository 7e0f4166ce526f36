"""From text to statements. Every dialect that producers of device graphs print puts one statement at a line's start.

The scanner never gives up: a statement ends at the next line that starts one, even inside a string that nobody closed
(dot-formats R4), and what belongs to no statement is reported and left out. Each character is looked at a bounded
number of times, so the time is linear whatever the damage.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Gap", "Lines", "Report", "Statement", "attributes", "closing_quote", "gap_lines", "plural", "statements"]

# Each alternative is tried once at a line's start and scans that line at most once.
_START = re.compile(
    r"""^[ \t]*(?:"(?P<id>[^"\n]*)"[ \t]*(?P<what>\[|->)|subgraph[ \t]+"?(?P<cluster>cluster\w*)"?)""", re.MULTILINE
)
_TARGET = re.compile(r'[ \t]*"([^"\n]*)"[ \t]*')
_ATTRIBUTE = re.compile(r'[\s,;]*([A-Za-z_]\w*)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s,;\]"]+))', re.DOTALL)


def plural(count: int, noun: str) -> str:
    """Return ``1 node``, ``2 nodes``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class Statement(NamedTuple):
    """A node (``what`` is ``[``), an edge (``->``) or the start of a cluster (``{``), and where it stands."""

    what: str
    name: str
    target: str
    start: int  # of the statement
    body: int  # after ``[``, ``->`` with its target, or the cluster's name
    stop: int  # where the next statement starts


class Gap(NamedTuple):
    """Text between statements: braces, graph attributes, or damage."""

    start: int
    stop: int


class Lines:
    """Line numbers (from 1) of offsets."""

    __slots__ = ("_ends", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: list[int] | None = None

    def __call__(self, offset: int) -> int:
        """Return the line of an offset."""
        if self._ends is None:  # only files with something to report pay for this
            self._ends = [m.start() for m in re.finditer("\n", self._text)]
        return bisect_right(self._ends, offset - 1) + 1


class Report:
    """What a reader has to say about a file: warnings with line numbers, and a count of what was skipped."""

    LIMIT = 50

    def __init__(self, text: str) -> None:
        self.line = Lines(text)
        self.skipped = 0
        self._told: list[str] = []
        self._untold = 0

    def warn(self, message: str, offset: int | None = None, *, skipped: int = 0) -> None:
        """Note a warning; past `LIMIT` warnings they are only counted."""
        self.skipped += skipped
        if len(self._told) >= self.LIMIT:
            self._untold += 1
            return
        self._told.append(f"line {self.line(offset)}: {message}" if offset is not None else message)

    def warnings(self) -> tuple[str, ...]:
        """Return the warnings in the order of their discovery, with a closing summary where there is one."""
        told = list(self._told)
        if self._untold:
            told.append(f"{self._untold} more warnings of this kind are left out")
        if self.skipped:
            told.append(f"skipped, because they could not be read: {plural(self.skipped, 'statement')}")
        return tuple(told)


def statements(text: str) -> Iterator[Statement | Gap]:
    """Yield the statements of a text in order, and the text before the first one as a gap.

    A statement reaches to the next one's start; the reader of its body finds where it really ends and hands the rest
    to `gap_lines`.
    """
    starts = _START.finditer(text)
    match = next(starts, None)
    yield Gap(0, match.start() if match else len(text))
    while match is not None:
        following = next(starts, None)
        stop = following.start() if following else len(text)
        if match["cluster"]:
            yield Statement("{", match["cluster"], "", match.start(), match.end(), stop)
        elif match["what"] == "[":
            yield Statement("[", match["id"], "", match.start(), match.end(), stop)
        else:
            target = _TARGET.match(text, match.end(), stop)
            if target:
                yield Statement("->", match["id"], target[1], match.start(), target.end(), stop)
            else:
                yield Gap(match.start(), stop)
        match = following


def gap_lines(text: str, start: int, stop: int) -> Iterator[tuple[int, str]]:
    """Yield the lines between two statements that say something, with their offsets; blanks and comments do not."""
    offset = start
    while offset < stop:
        end = text.find("\n", offset, stop)
        end = stop if end < 0 else end
        line = text[offset:end].strip(" \t;")
        if line and not line.startswith(("//", "#", "/*", "*")):
            yield offset, line
        offset = end + 1


def closing_quote(text: str, start: int, stop: int) -> int:
    r"""Return where a label's closing quote stands: the first one outside ``\"`` with ``]`` after it; -1 for none."""
    at = text.find('"', start, stop)
    while at >= 0:
        after = at + 1
        while after < stop and text[after] in " \t\n":
            after += 1
        if after < stop and text[after] == "]" and not _escaped(text, at, start):
            return at
        at = text.find('"', max(after, at + 1), stop)
    return -1


def _escaped(text: str, at: int, start: int) -> bool:
    back = at
    while back > start and text[back - 1] == "\\":
        back -= 1
    return (at - back) % 2 == 1


def attributes(text: str, start: int, stop: int) -> tuple[dict[str, str], int]:
    r"""Read ``key=value`` pairs, quoted or bare, parted by blanks, commas or nothing.

    Returns
    -------
    tuple
        The pairs (the last of a repeated key counts), with ``\"`` turned into ``"``, and the offset behind the closing
        bracket; the offset is negative where the list is not closed.
    """
    found: dict[str, str] = {}
    offset = start
    while match := _ATTRIBUTE.match(text, offset, stop):
        quoted = match[2]
        found[match[1]] = quoted.replace('\\"', '"') if quoted is not None else match[3]
        offset = match.end()
    while offset < stop and text[offset] in " \t\n,;":
        offset += 1
    if offset < stop and text[offset] == "]":
        return found, offset + 1
    return found, -1
