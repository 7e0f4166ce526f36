"""``make_graphed_callable``: a function that is captured once per kind of input and replayed from then on."""

from __future__ import annotations

import functools
import threading
import types
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, overload

from graphcap import memory
from graphcap._capture import capture
from graphcap._device import Device, default_device, guard, resolve
from graphcap._graph import Graph, pool_id_of
from graphcap._inputs import apart
from graphcap._segments import SegmentedGraph
from graphcap._trees import Leaf, find, flatten, rebuild
from graphcap._user_line import line_of
from graphcap.backends import streams
from graphcap.backends.parameters import Parameter
from graphcap.backends.streams import Event, Stream
from graphcap.errors import CaptureForbiddenError, GraphcapWarning, add_note

__all__ = ["GraphedCallable", "make_graphed_callable"]

_OUTPUTS: Final = ("copy", "static")
_WARN_AT: Final = frozenset({10, 100, 1_000, 10_000})
_REMEMBERED: Final = 1_000
"""Kinds of input whose graphs were dropped, to be told of when they come again. More would be a leak: a key holds objects."""


class GraphedCallable:
    """What :func:`make_graphed_callable` gives.

    Attributes
    ----------
    captures, calls
        How often the function was captured, and called.
    last_capture
        Why it was captured the last time: which argument changed how.
    """

    def __init__(
        self,
        fn: Callable[..., Any] | Sequence[Callable[..., Any]],
        device: str | None,
        warmup: int,
        preserve: Iterable[Any],
        pool: Any,
        outputs: str,
        max_graphs: int,
        on_forbidden: str,
    ) -> None:
        given: Any = fn
        self._steps: list[Callable[..., Any]] = list(given) if isinstance(given, (list, tuple)) else [given]
        if not self._steps or not all(map(callable, self._steps)):
            what = (
                type(fn).__name__ if callable(fn) or not isinstance(fn, (list, tuple)) else "a list with something else"
            )
            raise TypeError(f"make_graphed_callable(): expected a function, or a list of functions, not {what}.")
        if on_forbidden not in ("raise", "split"):
            raise ValueError(f"make_graphed_callable(on_forbidden={on_forbidden!r}): use 'raise' or 'split'.")
        if outputs not in _OUTPUTS:
            raise ValueError(f"make_graphed_callable(outputs={outputs!r}): use 'copy' or 'static'.")
        if max_graphs < 1 or warmup < 0:
            raise ValueError("make_graphed_callable(): max_graphs must be at least 1, warmup at least 0.")
        self._fn = self._steps[0] if len(self._steps) == 1 else _chain(self._steps)
        functools.update_wrapper(self, self._fn, updated=())  # a callable object's own attributes are not this one's
        self.__name__ = getattr(self._fn, "__name__", type(self._fn).__name__)
        self._split = on_forbidden == "split"
        self._device: Device = resolve(device)
        self._device_name = default_device() if device is None else device
        self._warmup = warmup
        self._preserve = tuple(preserve)
        self._pool = memory.new_user_pool_id() if pool is None else pool_id_of(pool)
        self._pool_owner = pool  # a MemPool lives as long as its graphs may be captured again
        self._outputs = outputs
        self._max_graphs = max_graphs
        self._backend = self._device.backend
        self._array_key = self._backend.array_key
        self._asynchronous = self._backend.capabilities.asynchronous
        self._last: tuple[Stream, Event] | None = None
        """Where the last call ran, on a device that may still be at it: its graphs share inputs and memory."""
        self._quick: dict[tuple[Hashable | None, ...], _Captured] = {}
        """The graphs whose arguments are arrays alone, by their keys (``None`` in a key: not an array, never stored)."""
        self._graphs: OrderedDict[Hashable, _Captured] = OrderedDict()
        self._lock = threading.RLock()
        self._dropped: dict[Hashable, int] = {}
        self._last_leaves: dict[str, str] = {}
        self.captures = 0
        self.calls = 0
        self.last_capture = ""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Replay the function for these inputs; capture it first if inputs of this kind were not seen.

        Raises
        ------
        TypeError
            An argument is neither an array of the device nor hashable.
        CaptureForbiddenError
            The function reads a value, or does something else that cannot be captured; a note names the line.
        Exception
            What the function raises while it is captured.
        """
        if self._device.index is None:
            return self._call(args, kwargs)
        with guard(self._device):
            return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        backend = self._backend
        stream = streams.current_stream(backend, self._device.index)
        if stream.is_capturing:
            return self._fn(*args, **kwargs)  # part of the outer capture
        with self._lock:
            self.calls += 1
            if self._last is not None and self._last[0] != stream:
                stream.wait(self._last[1])
            found = None if kwargs else self._find_quickly(args)
            if found is not None:
                values: Sequence[Any] = args
            else:
                leaves: list[Leaf] = []
                key = flatten(backend, (args, kwargs), leaves)
                found = self._graphs.get(key) or self._capture(key, args, kwargs, leaves)
                values = [leaf.value for leaf in leaves]
                if not kwargs and all(len(leaf.place) == 2 for leaf in leaves) and len(leaves) == len(args):
                    self._quick[tuple(map(self._array_key, args))] = found
            if len(self._graphs) > 1:
                self._graphs.move_to_end(found.key)
            if self._outputs == "static":  # only then may the caller have got hold of the static inputs
                values = apart(backend, found.inputs, values, stream)
            try:
                for load, value in zip(found.loads, values, strict=True):
                    load(value, stream)
                found.replay()
                result = found.result
                if self._outputs == "copy":
                    result = found.copies(backend, stream, values[0] if values else None)
            finally:  # what was submitted before an error is in flight too
                if self._asynchronous:
                    self._last = (stream, stream.record(None if self._last is None else self._last[1]))
            return result

    def _find_quickly(self, args: tuple[Any, ...]) -> _Captured | None:
        """The graph for plain positional arrays, without looking through a nest."""
        return self._quick.get(tuple(map(self._array_key, args)))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: the instance is the first argument, and each has graphs of its own (it is part of the kind of input)."""
        return self if instance is None else types.MethodType(self, instance)

    @property
    def graphs(self) -> list[Graph | SegmentedGraph]:
        """The graphs that are held now, least recently used first."""
        return [held.graph for held in self._graphs.values()]

    def reset(self) -> None:
        """Drop all graphs; the next call captures again."""
        with self._lock:
            for held in self._graphs.values():
                held.graph.reset()
            self._graphs.clear()
            self._quick.clear()

    def _capture(
        self, key: Hashable, args: tuple[Any, ...], kwargs: Mapping[str, Any], leaves: list[Leaf]
    ) -> _Captured:
        backend = self._device.backend
        stream = streams.current_stream(backend, self._device.index)
        inputs = [backend.clone_array(leaf.value, stream) for leaf in leaves]
        static_args, static_kwargs = rebuild((args, kwargs), leaves, inputs)
        self._explain(key, args, kwargs)
        result: Any = None

        def run() -> Any:
            return self._fn(*static_args, **static_kwargs)

        def run_steps(split: SegmentedGraph) -> Any:
            value = split.step(self._steps[0], *static_args, **static_kwargs)
            for step in self._steps[1:]:
                value = split.step(step, value)
            return value

        options: dict[str, Any] = {
            "warmup": run if self._warmup else None,
            "warmup_count": max(self._warmup, 1),
            "preserve": [*inputs, *self._preserve],
            "pool": self._pool,
        }
        graph: Graph | SegmentedGraph
        try:
            if self._split:
                with capture(self._device_name, on_forbidden="split", **options) as graph:
                    result = run_steps(graph)
            else:
                with capture(self._device_name, **options) as graph:
                    result = run()
        except CaptureForbiddenError as error:
            line = line_of(self._fn, error)
            add_note(error, f"while {self.__name__} was captured as a graphed callable{line}")
            raise
        for owner in (*inputs, self._fn, self._pool_owner):
            graph.retain(owner)
        self.captures += 1
        held = self._graphs[key] = _Captured(key, graph, inputs, result, backend)
        if len(self._graphs) > self._max_graphs:
            old, dropped = self._graphs.popitem(last=False)
            dropped.graph.reset()
            self._quick = {quick: other for quick, other in self._quick.items() if other is not dropped}
            self._dropped[old] = self._dropped.pop(old, 0)
            if len(self._dropped) > _REMEMBERED:
                del self._dropped[next(iter(self._dropped))]
        return held

    def _explain(self, key: Hashable, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Say why the function is captured (again), and warn when it keeps being captured for inputs seen before."""
        described = _describe(self._device, args, kwargs)
        if not self.captures:
            self.last_capture = "first call"
        else:
            changed = [
                f"{name}: {self._last_leaves.get(name, 'not given')} -> {described.get(name, 'not given')}"
                for name in dict.fromkeys([*self._last_leaves, *described])
                if self._last_leaves.get(name) != described.get(name)
            ]
            self.last_capture = "; ".join(changed) or "its graph was dropped to make room"
        self._last_leaves = described
        count = self.captures + 1
        if count in _WARN_AT and count * 2 > self.calls:
            warnings.warn(
                f"{self.__name__} was captured {count} times in {self.calls} calls ({self.last_capture}). What changes from "
                "call to call costs a capture each time: pad arrays to fewer shapes, and give a number that changes as a "
                "graphcap.parameter().",
                GraphcapWarning,
                stacklevel=5,
            )
        elif key in self._dropped:
            self._dropped[key] += 1
            if self._dropped[key] in (1, 10, 100, 1000):
                warnings.warn(
                    f"{self.__name__} is captured again for inputs that it was captured for before, because more than "
                    f"{self._max_graphs} kinds of input take turns ({self.last_capture}). Raise max_graphs, or pad the "
                    "inputs to fewer shapes.",
                    GraphcapWarning,
                    stacklevel=5,
                )

    def __repr__(self) -> str:
        return f"<graphed callable {self.__name__} on {self._device_name}: {len(self._graphs)} graphs>"

    __name__: str
    __wrapped__: Callable[..., Any]


def _chain(steps: list[Callable[..., Any]]) -> Callable[..., Any]:
    def chain(*args: Any, **kwargs: Any) -> Any:
        value = steps[0](*args, **kwargs)
        for step in steps[1:]:
            value = step(value)
        return value

    chain.__name__ = " -> ".join(getattr(step, "__name__", type(step).__name__) for step in steps)
    return chain


class _Captured:
    """One captured kind of input: the graph, its static inputs, and what the function returned."""

    __slots__ = ("_is_array", "graph", "inputs", "key", "leaves", "loads", "numbers", "replay", "result")

    def __init__(
        self, key: Hashable, graph: Graph | SegmentedGraph, inputs: list[Any], result: Any, backend: Any
    ) -> None:
        self.key = key
        self.graph = graph
        self.inputs = inputs
        self.loads = [backend.loader(target) for target in inputs]
        self.result = result
        self.replay = graph.replay
        self.leaves: list[Leaf] = []
        flatten(backend, result, self.leaves, others=True)
        self._is_array = len(self.leaves) == 1 and not self.leaves[0].place
        self.numbers = find(result, Parameter)
        """What steps gave as numbers: the caller gets those of his call."""

    def copies(self, backend: Any, stream: Any, like: Any) -> Any:
        """The function's result with every array of it copied."""
        if self._is_array:
            return backend.result_array(self.result, stream, like)
        values = [backend.result_array(leaf.value, stream, like) for leaf in self.leaves]
        values += [leaf.value.now() for leaf in self.numbers]
        return rebuild(self.result, [*self.leaves, *self.numbers], values)


@overload
def make_graphed_callable(
    fn: Callable[..., Any] | Sequence[Callable[..., Any]],
    sample_args: Iterable[Any] | None = None,
    *,
    sample_kwargs: Mapping[str, Any] | None = None,
    device: str | None = None,
    warmup: int = 1,
    preserve: Iterable[Any] = (),
    pool: Any = None,
    outputs: str = "copy",
    max_graphs: int = 16,
    on_forbidden: str = "raise",
) -> GraphedCallable: ...
@overload
def make_graphed_callable(
    fn: None = None,
    sample_args: Iterable[Any] | None = None,
    *,
    sample_kwargs: Mapping[str, Any] | None = None,
    device: str | None = None,
    warmup: int = 1,
    preserve: Iterable[Any] = (),
    pool: Any = None,
    outputs: str = "copy",
    max_graphs: int = 16,
    on_forbidden: str = "raise",
) -> Callable[[Callable[..., Any]], GraphedCallable]: ...
def make_graphed_callable(
    fn: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
    sample_args: Iterable[Any] | None = None,
    *,
    sample_kwargs: Mapping[str, Any] | None = None,
    device: str | None = None,
    warmup: int = 1,
    preserve: Iterable[Any] = (),
    pool: Any = None,
    outputs: str = "copy",
    max_graphs: int = 16,
    on_forbidden: str = "raise",
) -> Any:
    """Wrap a function so that it is captured once per kind of input and replayed from then on; also a decorator.

    A call copies its array arguments into static inputs (only where the memory differs), replays the graph on the current
    stream, and gives the result; all in stream order. Inputs of another kind (structure, shape, dtype, or another value
    of anything that is not an array) are captured into a graph of their own. Inside another capture the function is
    simply called, and becomes part of that capture.

    Parameters
    ----------
    fn
        A function of arrays and of anything hashable, in nested tuples, lists and dicts, by position or by name. It must
        not write to its array arguments: they are copies, so the caller would not see it. A list of functions is a chain:
        each takes what the one before gave. A number is part of the kind of input; one that changes from call to call is
        better a :func:`graphcap.parameter`, which is not.
    sample_args, sample_kwargs
        Arguments to capture for at once. Without them the first call captures.
    device
        As for :class:`graphcap.Graph`.
    warmup
        How often the function runs eagerly before a capture.
    preserve
        Arrays that the warm-up must leave as they were: state that the function advances.
    pool
        Memory that all graphs of this callable share; a new pool if not given.
    outputs
        ``"copy"``: each call gives new arrays. ``"static"``: each call gives the graph's own arrays, which the next call
        for inputs of the same kind overwrites (and one of another kind may, since the graphs share memory).
    max_graphs
        The graphs held at a time; the least recently used one is dropped to make room.
    on_forbidden
        ``"split"``: a function of the chain that cannot be captured (it reads a value, say) is called eagerly between the graphs
        of the others; see :class:`SegmentedGraph`. ``"raise"``: it raises.

    Returns
    -------
    GraphedCallable
        Or, without `fn`, a decorator that gives one.

    Raises
    ------
    TypeError, ValueError
        An argument of this function is not what it should be.
    Exception
        With `sample_args`, what :meth:`GraphedCallable.__call__` raises.
    """
    if fn is None:
        return lambda given: make_graphed_callable(
            given,
            sample_args,
            sample_kwargs=sample_kwargs,
            device=device,
            warmup=warmup,
            preserve=preserve,
            pool=pool,
            outputs=outputs,
            max_graphs=max_graphs,
            on_forbidden=on_forbidden,
        )
    if isinstance(sample_args, (str, Mapping)) or (sample_args is not None and not isinstance(sample_args, Iterable)):
        raise TypeError(
            f"make_graphed_callable(sample_args={type(sample_args).__name__}): a tuple of arguments is needed; for one argument "
            "(x,). Those by name go to sample_kwargs."
        )
    made = GraphedCallable(fn, device, warmup, preserve, pool, outputs, max_graphs, on_forbidden)
    if sample_args is not None or sample_kwargs is not None:
        if sample_args is not None and made._array_key(sample_args) is not None:
            raise TypeError(
                "make_graphed_callable(sample_args=...): an array was given; a tuple of arguments is needed: (x,)."
            )
        made(*(() if sample_args is None else sample_args), **(sample_kwargs or {}))
    return made


def _describe(device: Device, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Each argument's kind in words, by name."""
    found = {f"argument {index}": value for index, value in enumerate(args)}
    found.update({f"argument {name!r}": value for name, value in kwargs.items()})
    return {name: _kind(device, value) for name, value in found.items()}


def _kind(device: Device, value: Any) -> str:
    key = device.backend.array_key(value)
    if key is not None:
        return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(_kind(device, item) for item in value)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!r}: {_kind(device, item)}" for name, item in value.items()) + "}"
    return repr(value)
