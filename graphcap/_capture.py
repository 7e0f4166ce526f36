"""``capture()``: the comfortable way into a graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Literal, NamedTuple, overload

from graphcap._device import Device, guard, resolve
from graphcap._graph import Graph
from graphcap._segments import SegmentedGraph
from graphcap.backends import streams
from graphcap.backends.streams import Stream
from graphcap.errors import add_note
from graphcap.interface import GraphCaptureMode

__all__ = ["capture"]


@overload
def capture(
    device: str | None = None,
    *,
    warmup: Callable[[], Any] | None = None,
    warmup_count: int = 1,
    preserve: Iterable[Any] = (),
    inputs: Iterable[Any] = (),
    keep_inputs: bool = True,
    pool: Any = None,
    capture_mode: GraphCaptureMode | int | str = GraphCaptureMode.DEFAULT,
    stream: Any = None,
    strict: bool = False,
    lifetimes: str | None = None,
    on_forbidden: Literal["raise"] = "raise",
) -> contextlib.AbstractContextManager[Graph]: ...
@overload
def capture(
    device: str | None = None,
    *,
    warmup: Callable[[], Any] | None = None,
    warmup_count: int = 1,
    preserve: Iterable[Any] = (),
    inputs: Iterable[Any] = (),
    keep_inputs: bool = True,
    pool: Any = None,
    capture_mode: GraphCaptureMode | int | str = GraphCaptureMode.DEFAULT,
    stream: Any = None,
    strict: bool = False,
    lifetimes: str | None = None,
    on_forbidden: Literal["split"],
) -> contextlib.AbstractContextManager[SegmentedGraph]: ...
def capture(
    device: str | None = None,
    *,
    warmup: Callable[[], Any] | None = None,
    warmup_count: int = 1,
    preserve: Iterable[Any] = (),
    inputs: Iterable[Any] = (),
    keep_inputs: bool = True,
    pool: Any = None,
    capture_mode: GraphCaptureMode | int | str = GraphCaptureMode.DEFAULT,
    stream: Any = None,
    strict: bool = False,
    lifetimes: str | None = None,
    on_forbidden: str = "raise",
) -> Any:
    """Capture the body's work on a side stream of its own; the graph keeps its template, so it can be inspected.

    Order: the side stream waits for the work of the current stream; `warmup` runs on it, eagerly; the arrays in `preserve`
    get their earlier contents back; the body is captured; afterwards, also when something raised, the current stream waits
    for the side stream.

    Parameters
    ----------
    device
        As for :class:`Graph`.
    warmup
        Called without arguments before the capture, so that what happens only once (loading kernels, filling caches,
        planning) is not captured.
    warmup_count
        How often.
    preserve
        Arrays or buffers that the warm-up changes and the captured program must find unchanged: a warm-up that advances a
        time step would be a silent error. The graph keeps them.
    inputs
        Arrays made before the capture that its work uses; the graph keeps them. graphcap's own memory is kept anyway.
    keep_inputs
        False: do not keep `inputs`, but check before each replay that they are alive and where they were
        (``StalePointerError``).
    pool, capture_mode
        As for :class:`Graph`.
    stream
        Capture on this stream instead of a new one.
    strict
        Let fail what would otherwise go wrong unseen: capture on a *blocking* stream, so that work which leaks to the legacy
        default stream fails instead of running unrecorded (S-D22), and with ``lifetimes="strict"`` if not given.
    lifetimes
        As for :class:`Graph`.
    on_forbidden
        What a call that may not happen in a capture does. ``"raise"``: it raises. ``"split"``, for callables made of steps:
        the block gives a :class:`SegmentedGraph`; its body runs eagerly, once more than `warmup`, and says by
        ``g.step(function, ...)`` what the steps are; a step that cannot be captured becomes an eager step between two graphs.
        See ``docs/segments.md``.

    Yields
    ------
    Graph
        Replayable once the block has been left without an exception. With ``on_forbidden="split"`` a :class:`SegmentedGraph`.

    Raises
    ------
    ValueError
        `strict` together with `stream`; `stream` is of another device; `warmup_count` is not positive; `lifetimes` is no level;
        `on_forbidden` is neither "raise" nor "split"; ``keep_inputs=False`` together with "split".
    TypeError
        With ``keep_inputs=False``: the memory of an input is not known, or it cannot be referred to weakly.
    Exception
        What the warm-up or the body raises, unchanged; the capture is thrown away. And everything that
        :meth:`Graph.capture_begin` and :meth:`Graph.capture_end` raise.
    """
    if on_forbidden not in ("raise", "split"):
        raise ValueError(f"capture(on_forbidden={on_forbidden!r}): use 'raise' or 'split'.")
    if on_forbidden == "split" and not keep_inputs:
        raise ValueError("capture(on_forbidden='split') keeps its inputs: the steps hold them. Leave keep_inputs out.")
    if strict and stream is not None:
        raise ValueError("capture(strict=True) makes its own blocking stream; leave `stream` out.")
    if warmup_count < 1:
        raise ValueError(f"capture(warmup_count={warmup_count}): at least 1. Leave `warmup` out to have none.")
    made = _Options(
        resolve(device), device, warmup, warmup_count, list(preserve), list(inputs), keep_inputs, pool, capture_mode
    )
    level = lifetimes or ("strict" if strict else "warn")
    body = _into_segments if on_forbidden == "split" else _into_graph
    return _captured(made, stream, strict, partial(body, made, level))


class _Options(NamedTuple):
    found: Device
    device: str | None
    warmup: Callable[[], Any] | None
    warmup_count: int
    preserve: list[Any]
    inputs: list[Any]
    keep_inputs: bool
    pool: Any
    capture_mode: GraphCaptureMode | int | str

    @property
    def text(self) -> str:
        return self.device or self.found.backend.name.lower()


@contextlib.contextmanager
def _captured(
    options: _Options, stream: Any, blocking: bool, body: Callable[[Stream], contextlib.AbstractContextManager[Any]]
) -> Iterator[Any]:
    """Around both ways: the side stream, before and after it the current stream."""
    found = options.found
    with guard(found):
        index = found.current
        outer = streams.current_stream(found.backend, index)
        if stream is None:
            side = found.backend.create_stream(index, blocking=blocking)
        else:
            side = Stream.wrap(stream, f"{found.backend.name.lower()}:{index}")
        try:
            with side:
                if side != outer:
                    side.wait(outer)
                with body(side) as made:
                    yield made
        except BaseException as error:
            # The warm-up's work and what `preserve` restores may still run: whoever catches this must come after them.
            if side != outer:
                try:
                    outer.wait(side)
                except Exception as second:
                    add_note(error, f"then letting {outer!r} wait for the side stream failed too: {second}")
            raise
        if side != outer:
            outer.wait(side)


@contextlib.contextmanager
def _into_graph(options: _Options, level: str, side: Stream) -> Iterator[Graph]:
    graph = Graph(options.text, keep_graph=True, pool=options.pool, capture_mode=options.capture_mode, lifetimes=level)
    if options.warmup is not None:
        with side.preserved(options.preserve):
            for _ in range(options.warmup_count):
                options.warmup()
    with graph:
        for value in (*options.preserve, *options.inputs) if options.keep_inputs else options.preserve:
            graph.retain(value)
        for value in () if options.keep_inputs else options.inputs:
            graph._beyond("watch", "capture(keep_inputs=False)")(value)
        yield graph


@contextlib.contextmanager
def _into_segments(options: _Options, level: str, side: Stream) -> Iterator[SegmentedGraph]:
    made = SegmentedGraph(options.found, options.text, side, options.pool, options.capture_mode, lifetimes=level)
    for owner in (*options.preserve, *options.inputs):
        made.retain(owner)
    try:
        with side.preserved(options.preserve):
            if options.warmup is not None:
                for _ in range(options.warmup_count):
                    options.warmup()
            yield made
        made.finish()
    except BaseException:
        made.reset()
        raise
