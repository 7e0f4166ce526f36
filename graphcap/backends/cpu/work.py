"""One piece of work on the CPU: run now, or kept as a node of a capture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphcap.topology import NodeKind

__all__ = ["Work"]


class Work:
    """A bound call with what it reads and writes.

    Attributes
    ----------
    kind, name
        For the topology.
    call
        Runs the work; takes nothing. Its result is ignored.
    function, args, kwargs
        The same call taken apart, so that a native replay can recognise it (a ufunc with its operands, say); `function`
        is ``None`` where there is nothing to recognise.
    reads, writes
        The ``numpy.ndarray`` views that the call reads and writes.
    params
        Further parameters for the topology.
    errstate
        NumPy's floating-point error state that was in force, as arguments of ``numpy.errstate``, and already part of
        `call`; ``None`` for NumPy's default, which the replay puts in force around all nodes.
    """

    __slots__ = ("args", "call", "errstate", "function", "kind", "kwargs", "name", "params", "reads", "writes")

    def __init__(
        self,
        kind: NodeKind,
        name: str,
        call: Callable[[], Any],
        *,
        reads: tuple[Any, ...] = (),
        writes: tuple[Any, ...] = (),
        function: Callable[..., Any] | None = None,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        errstate: Mapping[str, Any] | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.call = call
        self.reads = reads
        self.writes = writes
        self.function = function
        self.args = args
        self.kwargs = {} if kwargs is None else kwargs
        self.params = {} if params is None else params
        self.errstate = errstate
