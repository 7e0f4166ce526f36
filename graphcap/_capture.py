"""``capture()``: the comfortable way into a graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from graphcap._device import guard, resolve
from graphcap._graph import Graph
from graphcap.backends import streams
from graphcap.backends.streams import Stream
from graphcap.errors import add_note
from graphcap.interface import GraphCaptureMode

__all__ = ["capture"]


@contextlib.contextmanager
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
) -> Iterator[Graph]:
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

    Yields
    ------
    Graph
        Replayable once the block has been left without an exception.

    Raises
    ------
    ValueError
        `strict` together with `stream`; `stream` is of another device; `warmup_count` is not positive; `lifetimes` is no level.
    TypeError
        With ``keep_inputs=False``: the memory of an input is not known, or it cannot be referred to weakly.
    Exception
        What the warm-up or the body raises, unchanged; the capture is thrown away. And everything that
        :meth:`Graph.capture_begin` and :meth:`Graph.capture_end` raise.
    """
    found = resolve(device)
    if strict and stream is not None:
        raise ValueError("capture(strict=True) makes its own blocking stream; leave `stream` out.")
    if warmup_count < 1:
        raise ValueError(f"capture(warmup_count={warmup_count}): at least 1. Leave `warmup` out to have none.")
    level = lifetimes or ("strict" if strict else "warn")
    name = device or found.backend.name.lower()
    graph = Graph(name, keep_graph=True, pool=pool, capture_mode=capture_mode, lifetimes=level)
    kept = list(preserve)
    with guard(found):
        index = found.current
        outer = streams.current_stream(found.backend, index)
        if stream is None:
            side = found.backend.create_stream(index, blocking=strict)
        else:
            side = Stream.wrap(stream, f"{found.backend.name.lower()}:{index}")
        try:
            with side:
                if side != outer:
                    side.wait(outer)
                if warmup is not None:
                    with side.preserved(kept):
                        for _ in range(warmup_count):
                            warmup()
                with graph:
                    for value in (*kept, *inputs) if keep_inputs else kept:
                        graph.retain(value)
                    for value in () if keep_inputs else inputs:
                        graph._beyond("watch", "capture(keep_inputs=False)")(value)
                    yield graph
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
