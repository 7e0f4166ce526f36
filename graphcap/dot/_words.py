"""The words that CUDA and HIP print for node types and parameters, and what they are here."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any

from graphcap.topology import NodeKind, is_address

__all__ = ["KINDS", "parameter", "snake", "value_of"]

KINDS: MappingProxyType[str, NodeKind] = MappingProxyType(
    {
        "KERNEL": NodeKind.KERNEL,
        "MEMCPY": NodeKind.MEMCPY,
        "MEMSET": NodeKind.MEMSET,
        "HOST": NodeKind.HOST,
        "HOST_FUNC": NodeKind.HOST,
        "GRAPH": NodeKind.CHILD_GRAPH,
        "CHILD_GRAPH": NodeKind.CHILD_GRAPH,
        "EMPTY": NodeKind.EMPTY,
        "EVENT_RECORD": NodeKind.EVENT_RECORD,
        "EVENT_WAIT": NodeKind.EVENT_WAIT,
        "WAIT_EVENT": NodeKind.EVENT_WAIT,
        "MEM_ALLOC": NodeKind.MEM_ALLOC,
        "MEM_FREE": NodeKind.MEM_FREE,
        "CONDITIONAL": NodeKind.CONDITIONAL,
        "EXT_SEMAS_SIGNAL": NodeKind.EXT_SEMAPHORE_SIGNAL,
        "EXT_SEMAS_WAIT": NodeKind.EXT_SEMAPHORE_WAIT,
        "EXT_SEMAPHORE_SIGNAL": NodeKind.EXT_SEMAPHORE_SIGNAL,
        "EXT_SEMAPHORE_WAIT": NodeKind.EXT_SEMAPHORE_WAIT,
        "EXTERNAL_SEMAPHORE_SIGNAL": NodeKind.EXT_SEMAPHORE_SIGNAL,
        "EXTERNAL_SEMAPHORE_WAIT": NodeKind.EXT_SEMAPHORE_WAIT,
        "BATCH_MEM_OP": NodeKind.BATCH_MEM_OP,
        "MEMCPY_BATCH": NodeKind.MEMCPY_BATCH,
        "BATCH_MEMCPY": NodeKind.MEMCPY_BATCH,
    }
)

_PARAMETERS = {
    "node handle": "node_handle",
    "func handle": "function_address",
    "fn": "function_address",
    "pitch": "dst_pitch_bytes",
    "value": "value",
    "elementSize": "element_bytes",
    "bytesize": "bytes",
    "event": "address",
    "Handle": "condition_handle",
    "Conditional Handle": "condition_handle",
    "Type": "condition",
    "Conditional Type": "condition",
    "StreamId": "stream",
    "DeviceId": "device",
    "cluster dim": "cluster",
    "preferred cluster dim": "preferred_cluster",
    "cluster scheduling policy preference": "cluster_scheduling_policy",
}


def snake(word: str) -> str:
    """Return a producer's name of a parameter in our spelling: ``hitRatio`` and ``hit ratio`` give ``hit_ratio``."""
    text = re.sub(r"[^0-9A-Za-z]", "_", word.strip())[:80]
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text).lower()


def parameter(word: str, kind: NodeKind) -> str:
    """Return our name for a producer's parameter."""
    if word == "dptr":
        return "dst" if kind is NodeKind.MEMSET else "address"
    known = _PARAMETERS.get(word)
    return known if known is not None else snake(word)


def _number(text: str) -> int | None:
    digits = text[1:] if text[:1] == "-" else text
    # int() also takes other scripts' digits and underscores, and is slow on very long numbers.
    return int(text) if digits.isdecimal() and digits.isascii() and len(digits) <= 40 else None


def value_of(text: str, name: str) -> Any:
    """Return a printed value with its type: int (also of ``0x…`` and ``(nil)``), float, tuple of ints, or str."""
    text = text.strip()
    if text[:2] in ("0x", "0X") and 2 < len(text) <= 42:
        try:
            return int(text, 16)
        except ValueError:
            return text
    if text in ("(nil)", "nil"):
        return 0
    if is_address(name) and 8 <= len(text) <= 40:  # addresses without 0x (dot-formats R10)
        try:
            return int(text, 16)
        except ValueError:
            return text
    number = _number(text)
    if number is not None:
        return number
    if text[:1] == "(" and text[-1:] == ")" and len(text) <= 200:
        parts = [_number(part.strip()) for part in text[1:-1].split(",")]
        return text if None in parts else tuple(parts)
    if len(text) <= 40 and text.replace(".", "", 1).lstrip("-").isdigit():
        try:
            return float(text)
        except ValueError:
            return text
    return text
