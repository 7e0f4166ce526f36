"""The words for what a node does, and the names (with units) of what is known about it."""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType

__all__ = ["ADDRESS_PARAMETERS", "PARAMETERS", "NodeKind", "is_address"]


class NodeKind(str, Enum):
    """What a node does. A member equals its word: ``NodeKind.MEMCPY == "memcpy"``.

    `UNKNOWN` is for a node whose producer uses a word that has no member here; the word itself is then in the
    parameter ``type``, so that nothing is lost (dot-formats R6).
    """

    KERNEL = "kernel"
    MEMCPY = "memcpy"
    MEMSET = "memset"
    HOST = "host"
    CHILD_GRAPH = "child_graph"
    EMPTY = "empty"
    EVENT_RECORD = "event_record"
    EVENT_WAIT = "event_wait"
    MEM_ALLOC = "mem_alloc"
    MEM_FREE = "mem_free"
    CONDITIONAL = "conditional"
    EXT_SEMAPHORE_SIGNAL = "ext_semaphore_signal"
    EXT_SEMAPHORE_WAIT = "ext_semaphore_wait"
    BATCH_MEM_OP = "batch_mem_op"
    MEMCPY_BATCH = "memcpy_batch"
    MEM_PREFETCH = "mem_prefetch"
    MEM_ADVISE = "mem_advise"
    NATIVE_COMMAND = "native_command"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return str(self.value)

    @classmethod
    def parse(cls, word: str) -> NodeKind:
        """Return the kind that a word in any letter case names.

        Parameters
        ----------
        word
            ``"memcpy"``, ``"MEM_ALLOC"``, ``"mem-alloc"``; a plural is accepted (``"kernels"``).

        Raises
        ------
        ValueError
            The word names no kind; the message lists the words there are.
        """
        key = word.strip().lower().replace("-", "_")
        for candidate in (key, key.removesuffix("s"), key.removesuffix("ies") + "y"):
            if candidate in _BY_WORD:
                return _BY_WORD[candidate]
        raise ValueError(f"{word!r} is not a node kind. The kinds are: {', '.join(_BY_WORD)}.")


_BY_WORD: dict[str, NodeKind] = {kind.value: kind for kind in NodeKind}

#: Parameter name -> what it holds. Sizes say ``bytes`` in their name; a shape or a launch dimension is a tuple of
#: ints, x first. A producer leaves out what it does not know: a missing name means "not told", never zero.
PARAMETERS: MappingProxyType[str, str] = MappingProxyType(
    {
        "grid": "kernel: blocks (work-groups) per dimension, 1 to 3 ints",
        "block": "kernel: threads (work-items) per block, 1 to 3 ints",
        "shared_bytes": "kernel: dynamic shared memory of one block",
        "cooperative": "kernel: bool, launched cooperatively",
        "priority": "kernel: launch priority",
        "cluster": "kernel: blocks per cluster, 3 ints; zeros mean no cluster",
        "function_address": "kernel, host: address or handle of the function",
        "arguments": "kernel, host: what the producer tells of the arguments, a tuple of strings",
        "bytes": "memcpy, memset, mem_alloc, mem_prefetch: bytes that move, are set, or are allocated",
        "direction": "memcpy: HtoD, DtoH, DtoD, HtoH (A in place of a letter for an array)",
        "src": "memcpy: address read from",
        "dst": "memcpy, memset: address written to",
        "width_bytes": "memcpy: bytes of one row",
        "height": "memcpy, memset: rows",
        "depth": "memcpy, memset: planes",
        "src_pitch_bytes": "memcpy: bytes from one row of the source to the next",
        "dst_pitch_bytes": "memcpy, memset: bytes from one row of the destination to the next",
        "value": "memset: the value of one element",
        "element_bytes": "memset: size of one element",
        "width": "memset: elements of one row",
        "shape": "memcpy, memset, host: shape of the array, a tuple of ints",
        "dtype": "memcpy, memset, host: NumPy's name of the element type",
        "address": "mem_alloc, mem_free, event: address of the memory, or handle of the event",
        "device": "mem_alloc, mem_prefetch: device index",
        "condition": "conditional: if, while or switch",
        "branches": "conditional: one word per body in `Node.graphs`: true, false, or the case's number",
        "condition_handle": "conditional: the driver's handle of the condition",
        "node_handle": "the driver's handle of the node",
        "parameters": "kernel, memset: the graphcap.parameter values that it takes, a tuple of strings",
        "steps": "child_graph, host: of a capture in segments, the names of the steps, a tuple of strings",
        "reason": "host: of an eager step between graphs, why it was not captured",
        "stream": "number of the stream that the node was captured from, or is assigned to",
        "type": "the producer's own word, where no kind fits or the word says more than the kind",
    }
)

#: Parameters that differ from run to run although the graph is the same: addresses and handles (dot-formats R10).
ADDRESS_PARAMETERS = frozenset({"src", "dst", "address"})
_ADDRESS_ENDINGS = ("_address", "_handle", "_pointer")


def is_address(parameter: str) -> bool:
    """Say whether a parameter holds an address or a handle, which two captures of the same work never share."""
    return parameter in ADDRESS_PARAMETERS or parameter.endswith(_ADDRESS_ENDINGS)
