r"""The label of a node as CUDA and HIP print it -> kind, name, parameters (dot-formats 1.3, 3, R5, R7).

Two forms. A *record* starts with a brace, its type keyword stands on the first or second line, and every other line
is a row ``| …`` that is read by the names in it; unknown rows are kept. A *plain* label is ``K``, then a keyword, a
kernel's name or ``graph_M``, then more lines.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from graphcap.dot._words import KINDS, parameter, snake, value_of
from graphcap.topology import NodeKind

__all__ = ["Label", "graph_name", "parse_label"]

_ESCAPABLE = '<>{}| \\"'
_LAUNCH = "\\<\\<\\<"
_LAUNCH_END = "\\>\\>\\>"


class Label(NamedTuple):
    """What a label tells."""

    kind: NodeKind
    name: str
    params: dict[str, Any]
    graphs: tuple[str, ...]


def graph_name(word: str) -> bool:
    """Say whether a word is ``graph_M``, the only way in which a driver's dump names a nested graph."""
    digits = word[6:]
    return word[:6] == "graph_" and digits.isdecimal() and digits.isascii()


def _keyword(word: str) -> str:
    """Return the word if it looks like a type keyword (capitals and underscores), else an empty string."""
    bare = word.replace("_", "")
    return word if len(bare) >= 2 and bare.isascii() and bare.isalnum() and bare.isupper() else ""


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    i = 0
    while True:
        at = text.find("\\", i)
        if at < 0 or at + 1 >= len(text):
            parts.append(text[i:])
            return "".join(parts)
        parts.append(text[i:at])
        following = text[at + 1]
        parts.append(following if following in _ESCAPABLE else "\\" + following)
        i = at + 2


def parse_launch(text: str) -> dict[str, Any]:
    r"""Read what stands between ``<<<`` and ``>>>``: ``4,256,0``, ``\{16,10,2\},128,0``, ``(1,1,1),(64,1,1),0``.

    Dimensions come out as three ints (CUDA leaves trailing ones out); what is not a launch gives nothing.
    """
    text = text.replace("\\", "")
    groups: list[tuple[int, ...]] = []
    i, n = 0, len(text)
    while i < n and len(groups) < 8:
        char = text[i]
        if char in "{(":
            end = text.find("}" if char == "{" else ")", i)
            end = n if end < 0 else end
            body, i = text[i + 1 : end], end + 1
        elif char in ", \t":
            i += 1
            continue
        else:
            end = text.find(",", i)
            end = n if end < 0 else end
            body, i = text[i:end], end
        numbers = [value_of(part, "") for part in body.split(",")[:4]]
        if not all(type(number) is int for number in numbers):
            break
        groups.append(tuple(numbers))
    params: dict[str, Any] = {}
    for key, group in zip(("grid", "block"), groups, strict=False):
        params[key] = (*group, 1, 1)[:3]
    if len(groups) >= 3 and len(groups[-1]) == 1:
        params["shared_bytes"] = groups[-1][0]
    if len(groups) >= 4 and len(groups[2]) == 3:  # the newest HIP prints a remainder before the shared memory
        params["remainder"] = groups[2]
    return params


def _fields(row: str) -> list[str]:
    """Split a row at unescaped bars and braces into its texts, without blanks around them."""
    if "\\" not in row:
        return [part for part in (piece.strip(" {}\t") for piece in row.split("|")) if part]
    fields: list[str] = []
    current: list[str] = []
    i, n = 0, len(row)
    while i < n:
        char = row[i]
        if char == "\\" and i + 1 < n:
            current.append(row[i : i + 2])
            i += 2
            continue
        if char == "|":
            fields.append("".join(current))
            current = []
        elif char not in "{}":
            current.append(char)
        i += 1
    fields.append("".join(current))
    return [_unescape(field) for field in (field.strip() for field in fields) if field]


def _half(fields: list[str], kind: NodeKind) -> dict[str, Any]:
    """Names in the first half, values in the second."""
    middle = len(fields) // 2
    params: dict[str, Any] = {}
    for word, text in zip(fields[:middle], fields[middle:], strict=False):
        if word != "ID":
            key = parameter(word, kind)
            params[key] = value_of(text, key)
    return params


def _policy_row(fields: list[str], kind: NodeKind) -> dict[str, Any]:
    if len(fields) != 11:
        return {}
    base = value_of(fields[6], "base_address")
    nbytes, *rest = (value_of(text, "") for text in fields[7:])
    if not base and not nbytes:
        return {}  # no window: the default
    names = ("access_policy_address", "access_policy_bytes", "hit_ratio", "hit_property", "miss_property")
    return dict(zip(names, (base, nbytes, *rest), strict=False))


def _pointer_row(fields: list[str], kind: NodeKind) -> dict[str, Any]:
    values = [value_of(text, "src") for text in fields[10:18]]
    if len(values) < 8:
        return {}
    params: dict[str, Any] = {"src": values[1], "dst": values[5]}
    for key, value in (("src_pitch_bytes", values[0]), ("dst_pitch_bytes", values[4])):
        if value:
            params[key] = value
    for key, value in (("src_size", values[2:4]), ("dst_size", values[6:8])):
        if any(value):
            params[key] = tuple(value)
    return params


def _extent_row(fields: list[str], kind: NodeKind) -> dict[str, Any]:
    told: dict[str, list[Any]] = {}
    group = ""
    i = 0
    while i < len(fields):
        if fields[i] in ("srcPos", "dstPos", "Extent"):
            group = fields[i]
            i += 1
        elif i + 1 < len(fields):
            told.setdefault(group, []).append(value_of(fields[i + 1], ""))
            i += 2
        else:
            break
    params: dict[str, Any] = {}
    for key, name in (("srcPos", "src_position"), ("dstPos", "dst_position")):
        if any(told.get(key, ())):
            params[name] = tuple(told[key])
    extent = told.get("Extent", [])
    if len(extent) == 3 and all(type(value) is int for value in extent):
        params["bytes"] = extent[0] * extent[1] * extent[2]
        if extent[1:] != [1, 1]:
            params.update(width_bytes=extent[0], height=extent[1], depth=extent[2])
    return params


def _pool_row(fields: list[str], kind: NodeKind) -> dict[str, Any]:
    names = ("allocation_type", "handle_types", "location", "device")
    return dict(zip(names, (value_of(text, "") for text in fields[6:10]), strict=False))


def _copy_kind_row(fields: list[str], kind: NodeKind) -> dict[str, Any]:
    direction, _, rest = fields[1].partition(" ") if len(fields) > 1 else ("", "", "")
    params: dict[str, Any] = {"direction": direction} if direction else {}
    source, to, target = rest.strip("()").partition(" to ")
    if to:
        params.update(src_memory=source.lower(), dst_memory=target.lower())
    return params


_ROWS = {
    "accessPolicyWindow": _policy_row,
    "srcPtr": _pointer_row,
    "srcPos": _extent_row,
    "poolProps": _pool_row,
    "kind": _copy_kind_row,
    "ID": _half,
    "node handle": _half,
    "bytesize": _half,
    "dptr": _half,
}
_FLAGS = ("cooperative",)
_row_memory: dict[tuple[NodeKind, str], dict[str, Any]] = {}


def _row(row: str, kind: NodeKind) -> dict[str, Any]:
    known = _row_memory.get((kind, row))
    if known is not None:
        return known
    fields = _fields(row)
    params: dict[str, Any] = {}
    if fields:
        reader = _ROWS.get(fields[0])
        if reader is not None:
            params = reader(fields, kind)
        elif len(fields) == 1:
            params = {"text": fields[0]}
        elif len(fields) == 2:
            key = parameter(fields[0], kind)
            value = value_of(fields[1], key)
            params = {key: bool(value) if fields[0] in _FLAGS and value in (0, 1) else value}
        else:
            params = {snake(fields[0]): tuple(fields[1:])}
    if len(row) < 200:
        if len(_row_memory) > 4096:
            _row_memory.clear()  # rows with addresses fill it; those without come back at once
        _row_memory[kind, row] = params
    return params


def _finish(kind: NodeKind, name: str, params: dict[str, Any], graphs: list[str], branches: list[str]) -> Label:
    if kind is NodeKind.MEMSET and "bytes" not in params:
        sizes = [params.get(key, 1) for key in ("element_bytes", "width", "height", "depth")]
        if "width" in params and all(type(value) is int for value in sizes):
            params["bytes"] = sizes[0] * sizes[1] * sizes[2] * sizes[3]
            for key in ("height", "depth"):
                if params.get(key) == 1:
                    del params[key]
            if not params.get("dst_pitch_bytes"):
                params.pop("dst_pitch_bytes", None)
    if kind is NodeKind.CONDITIONAL:
        if isinstance(params.get("condition"), str):
            params["condition"] = params["condition"].lower()
        if graphs:
            params["branches"] = tuple(branches)
    elif kind is NodeKind.UNKNOWN and graphs and "type" not in params:
        kind = NodeKind.CHILD_GRAPH
    return Label(kind, name, params, tuple(graphs))


def _record(text: str) -> Label:
    first, *lines = text[1:].split("\n")
    word, bar, rest = first.partition("|")
    if bar:
        lines.insert(0, bar + rest)
    keyword = word.strip()
    while not keyword and lines and not lines[0].lstrip().startswith("|"):
        keyword = lines.pop(0).strip()
    kind = KINDS.get(keyword, NodeKind.UNKNOWN)
    params: dict[str, Any] = {"type": keyword} if kind is NodeKind.UNKNOWN and keyword else {}
    name = ""
    graphs: list[str] = []
    branches: list[str] = []
    for line in lines:
        row = line.strip()
        if row[:1] != "|":
            continue  # the closing brace
        launch = row.rfind(_LAUNCH)
        if kind is NodeKind.KERNEL and not name and "ID" in row[:8]:
            parts = row.split("|", 3)  # "", " {ID ", " K (topoId: T) ", name and launch
            if len(parts) == 4:
                called = parts[3]
                if launch >= 0:
                    called = row[len(row) - len(called) : launch]
                    end = row.find(_LAUNCH_END, launch)
                    params.update(parse_launch(row[launch + len(_LAUNCH) : end if end >= 0 else len(row)]))
                else:
                    called = called.strip().removesuffix("}")
                name = _unescape(called.strip())
            continue
        if "graph_" in row:
            fields = _fields(row)
            named = [i for i, field in enumerate(fields) if graph_name(field)]
            if named:
                for i in named:
                    graphs.append(fields[i])
                    branches.append(fields[i - 1].lower() if i and i - 1 not in named else str(len(branches)))
                continue
        params.update(_row(row, kind))
    return _finish(kind, name, params, graphs, branches)


def _tuple_line(kind: NodeKind, inner: str) -> dict[str, Any]:
    """HIP's short form of a copy, ``(HtoD,4194304)``, and of a memset, ``(value,bytes)``."""
    first, comma, second = inner.partition(",")
    params: dict[str, Any] = {}
    if kind is NodeKind.MEMSET:
        params["value"] = value_of(first, "value")
    else:
        params["direction"] = first.strip()
    if comma:
        params["bytes"] = value_of(second, "bytes")
    return params


def _first_word(line: str) -> str:
    """Return what a plain label's first line says after its node number and ``(topoId: T)``."""
    rest = line.lstrip("0123456789")
    if rest == line:
        return line
    rest = rest.strip()
    if rest.startswith("(topoId"):
        rest = rest.partition(")")[2].strip()
    return rest


def _plain(text: str, shape: str, style: str) -> Label:
    first, *lines = text.split("\n")
    words = [word for word in (_first_word(first.strip()), *(line.strip() for line in lines)) if word]
    kind: NodeKind | None = None
    name = ""
    params: dict[str, Any] = {}
    graphs: list[str] = []
    extra: list[str] = []
    if words:
        head = words[0]
        bold = shape == "octagon" or style == "bold"
        if bold and not (head == "KERNEL" and len(words) > 1):
            kind, name, words = NodeKind.KERNEL, _unescape(head), words[1:]
        elif head in KINDS:
            kind, words = KINDS[head], words[1:]
            if kind is NodeKind.KERNEL and words and not words[0].startswith(_LAUNCH):
                name, words = _unescape(words[0]), words[1:]
        elif _keyword(head):
            kind, params["type"], words = NodeKind.UNKNOWN, head, words[1:]
    for word in words:
        if graph_name(word):
            graphs.append(word)
        elif word.startswith(_LAUNCH):
            params.update(parse_launch(word[len(_LAUNCH) :].partition(_LAUNCH_END)[0]))
            kind = kind or NodeKind.KERNEL
        elif word[0] == "(" and word[-1] == ")" and kind is not None:
            params.update(_tuple_line(kind, word[1:-1]))
        elif ":" in word:
            key, _, value = word.partition(":")
            key = parameter(key.strip(), kind or NodeKind.UNKNOWN)
            params[key] = value_of(value, key)
        else:
            extra.append(word)
    if kind is None and "condition" in params:
        kind = NodeKind.CONDITIONAL
    if kind is None and graphs:
        kind = NodeKind.CHILD_GRAPH
    if kind is None:
        kind = NodeKind.UNKNOWN
        if extra:
            params["type"] = extra.pop(0)
    if extra:
        params["text"] = tuple(extra)
    names = {"if": ["true", "false"]}.get(str(params.get("condition", "")).lower(), [])
    branches = [names[i] if i < len(names) else str(i) for i in range(len(graphs))]
    return _finish(kind, name, params, graphs, branches)


def parse_label(label: str, shape: str, style: str) -> Label:
    """Return what a node's label tells.

    Parameters
    ----------
    label
        The text between the label's quotes; cut off anywhere is fine.
    shape, style
        The node's attributes, which alone tell a kernel's plain label from the others'.
    """
    text = label.strip(" \t\n")
    return _record(text) if text[:1] == "{" else _plain(text, shape, style)
