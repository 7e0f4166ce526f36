"""Any DOT, token by token: for files that the full parser refuses (damaged) or would take too long for (large).

One pass, no recursion, no backtracking. What it leaves out of the DOT language: edges from or to whole subgraphs.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterator

from graphcap.dot._scan import Report

__all__ = ["Collector", "read_tokens"]

_TOKEN = re.compile(
    r"""[\s,;]+ | //[^\n]* | ^\#[^\n]* | (?P<arrow>->|--) | (?P<punctuation>[{}\[\]=:+])
    | (?P<word>[^\s,;{}\[\]=:+"<>/#-][^\s,;{}\[\]=:+"<>-]*|-?[0-9.]+)""",
    re.VERBOSE | re.MULTILINE,
)

_BRACKET = re.compile("[<>]")
_KEYWORDS = ("digraph", "graph", "strict", "subgraph")


class Collector:
    """Nodes, edges and attributes of a plain graph, in the order of the file."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, str]] = {}
        self.edges: list[tuple[str, str, dict[str, str]]] = []
        self.places: list[int] = []
        self.clusters: list[str] = []
        self.directed = True

    def node(self, id_: str, told: dict[str, str]) -> None:
        """Add what a statement tells of a node."""
        self.nodes.setdefault(id_, {}).update(told)

    def edge(self, source: str, target: str, told: dict[str, str], place: int = 0) -> None:
        """Add an edge; its ends become nodes, as DOT has it."""
        self.nodes.setdefault(source, {})
        self.nodes.setdefault(target, {})
        self.edges.append((source, target, told))
        self.places.append(place)


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _string(text: str, start: int) -> int:
    """Return where the string that opens at ``start`` closes; -1 where it never does."""
    at = text.find('"', start + 1)
    while at >= 0:
        back = at
        while text[back - 1] == "\\":
            back -= 1
        if (at - back) % 2 == 0:
            return at
        at = text.find('"', at + 1)
    return -1


def _html(text: str, start: int) -> int:
    """Return where the ``<…>`` that opens at ``start`` closes, brackets balanced; -1 where it never does."""
    depth = 0
    for match in _BRACKET.finditer(text, start):
        depth += 1 if match[0] == "<" else -1
        if not depth:
            return match.start()
    return -1


def _tokens(text: str, start: int) -> Iterator[tuple[str, str, int]]:
    offset, n = start, len(text)
    closes = {'"': _string, "<": _html}  # a mark that never closes is looked for once only, so time stays linear
    while offset < n:
        char = text[offset]
        if char in '"<':
            end = closes[char](text, offset) if char in closes else -1
            if end < 0:
                closes.pop(char, None)
                end = _line_end(text, offset)
            value = text[offset + 1 : end]
            yield "id", value.replace('\\"', '"').replace("\\\n", "") if char == '"' else value, offset
            offset = end + 1
            continue
        if text.startswith("/*", offset):
            end = text.find("*/", offset)
            offset = n if end < 0 else end + 2
            continue
        match = _TOKEN.match(text, offset)
        if match is None:
            yield "bad", char, offset
            offset += 1
            continue
        if match["word"]:
            yield "id", match["word"], offset
        elif match["arrow"]:
            yield "arrow", match["arrow"], offset
        elif match["punctuation"]:
            yield match["punctuation"], match["punctuation"], offset
        elif ";" in match[0]:
            yield ";", ";", offset
        offset = match.end()
    yield ";", ";", n


class _Stream:
    """The tokens one by one, with a look at the next two."""

    def __init__(self, tokens: Iterator[tuple[str, str, int]]) -> None:
        self._tokens = tokens
        self._ahead: deque[tuple[str, str, int]] = deque()
        self._last = (";", ";", 0)

    def peek(self, far: int = 0) -> tuple[str, str, int]:
        while len(self._ahead) <= far:
            token = next(self._tokens, None)
            if token is None:
                return "", "", self._last[2]
            self._ahead.append(token)
        return self._ahead[far]

    def take(self) -> tuple[str, str, int]:
        token = self.peek()
        if self._ahead:
            self._last = self._ahead.popleft()
        return token


class _Reader:
    def __init__(self, text: str, start: int, report: Report) -> None:
        self.stream = _Stream(_tokens(text, start))
        self.report = report
        self.found = Collector()
        self.chain: list[str] = []  # the ids of the current statement, as arrows join them
        self.arrow = False
        self.depth = 0
        self.bad = 0

    def close(self, told: dict[str, str], place: int) -> None:
        chain = self.chain
        if len(chain) == 1 and chain[0].lower() not in ("node", "edge", "graph"):
            self.found.node(chain[0], told)
        for source, target in itertools.pairwise(chain):
            self.found.edge(source, target, told, place)
        chain.clear()
        self.arrow = False

    def keyword(self, word: str, place: int) -> None:
        self.close({}, place)
        following = self.stream.peek()
        name = self.stream.take()[1] if following[0] == "id" and word != "strict" else ""
        if word == "graph" and self.stream.peek()[0] == "{" and not self.depth:
            self.found.directed = False
        if word == "subgraph" and name.startswith("cluster"):
            self.found.clusters.append(name)
        if word == "graph" and self.stream.peek()[0] == "[":
            self.chain.append("graph")

    def attributes(self) -> dict[str, str]:
        told: dict[str, str] = {}
        while self.stream.peek()[0] not in ("]", "{", "}", "arrow", ""):
            key = self.stream.take()
            if key[0] == "id" and self.stream.peek()[0] == "=" and self.stream.peek(1)[0] == "id":
                self.stream.take()
                told[key[1]] = self.stream.take()[1]
        if self.stream.peek()[0] == "]":
            self.stream.take()
        return told

    def run(self) -> None:
        while True:
            what, value, place = self.stream.take()
            if not what:
                return
            if what == "id" and self.stream.peek()[0] == "=":
                self.close({}, place)
                self.stream.take()
                if self.stream.peek()[0] == "id":
                    self.stream.take()  # a graph's attribute
            elif what == "id" and value.lower() in _KEYWORDS and not self.arrow:
                self.keyword(value.lower(), place)
            elif what == "id":
                if self.chain and not self.arrow:
                    self.close({}, place)
                self.chain.append(value)
                self.arrow = False
            elif what == "arrow":
                self.arrow = bool(self.chain)
            elif what == ":":
                if self.stream.peek()[0] == "id":
                    self.stream.take()  # a port
            elif what == "[":
                self.close(self.attributes(), place)
            elif what in "{};":
                self.close({}, place)
                self.depth += {"{": 1, "}": -1}.get(what, 0)
            else:
                self.bad += 1
                self.report.skipped += 1
                if self.bad <= 5:
                    self.report.warn(f"{value!r} is out of place here and was skipped", place)


def read_tokens(text: str, start: int, report: Report) -> Collector:
    """Collect what can be read from ``start`` on; what cannot is reported."""
    reader = _Reader(text, start, report)
    reader.run()
    if reader.depth > 0:
        report.warn("the file ends before its closing braces: it was cut off", len(text))
    return reader.found
