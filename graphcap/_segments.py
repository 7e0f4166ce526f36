"""Captures of callables made of steps: what cannot be captured becomes an eager step between graphs.

``with capture(..., on_forbidden="split") as g:`` gives a :class:`SegmentedGraph`. Its body runs eagerly, once, and says by ``g.step(f, x)``
what the steps are; that is the warm-up, and gives each step's results their place. When the body is left, the steps are captured
one after the other into a graph. A step that may not be captured is left out: the graph ends before it (and is captured again
without what the step had recorded so far), the step is called eagerly at each replay, and the next graph begins after it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from graphcap import memory
from graphcap._device import Device, guard
from graphcap._graph import Graph, pool_id_of
from graphcap._inputs import check_bound, load_inputs, named_parameters
from graphcap._segment_topology import describe
from graphcap._steps import (
    HandedOn,
    Step,
    adopted,
    holds,
    is_number,
    kept,
    leaves_of,
    name_of,
    other_result,
    results_of,
)
from graphcap._trees import Leaf, rebuild
from graphcap._typing import PathLike
from graphcap.backends import streams
from graphcap.backends.base import Backend, framework_hooks
from graphcap.backends.graph_memory import issue
from graphcap.backends.parameter_uses import set_values
from graphcap.backends.parameters import Parameter, Scalar, parameter
from graphcap.backends.streams import Stream
from graphcap.errors import (
    CaptureError,
    CaptureForbiddenError,
    CaptureInvalidatedError,
    EmptyGraphWarning,
    GraphcapError,
    GraphStateError,
    add_note,
)
from graphcap.interface import CaptureStatus, GraphCaptureMode, MempoolId
from graphcap.topology import GraphTopology

__all__ = ["Segment", "SegmentedGraph"]


@dataclass(frozen=True)
class Segment:
    """One piece of a :class:`SegmentedGraph`.

    Attributes
    ----------
    kind
        ``"graph"`` or ``"eager"``.
    steps
        The names of the steps in it; an eager segment has one.
    graph
        The graph; ``None`` for an eager segment.
    reason
        Why an eager step is no part of a graph: the error of the attempt; ``None`` for a graph.
    """

    kind: str
    steps: tuple[str, ...]
    graph: Graph | None = None
    reason: GraphcapError | None = None

    def __repr__(self) -> str:
        return f"<{self.kind} segment: {', '.join(self.steps)}>"


class _AbandonedError(Exception):
    """Leaves the capture of a segment; never seen outside."""


class SegmentedGraph:
    """Graphs and eager steps in order, replayed as one. Made by ``capture(..., on_forbidden="split")``.

    Attributes
    ----------
    device
        The device string.
    segments
        What a replay does, in order; known once the ``with`` block has been left.
    """

    def __init__(
        self,
        device: Device,
        text: str,
        stream: Stream,
        pool: Any,
        capture_mode: GraphCaptureMode | int | str,
        **options: Any,
    ) -> None:
        self.device = text
        self.segments: list[Segment] = []
        self._backend: Backend = device.backend
        self._index = device.index
        self._stream: Stream | None = stream
        self._pool: MempoolId = memory.new_user_pool_id() if pool is None else pool_id_of(pool)
        self._owners: list[Any] = [pool]
        self._new_graph = partial(Graph, text, keep_graph=True, pool=self._pool, capture_mode=capture_mode, **options)
        self._steps: list[Step] = []
        self._eager: dict[int, Step] = {}
        self._links: dict[int, list[tuple[Parameter, Scalar]]] = {}
        self._bound: dict[str, Any] = {}
        self._handed_on = HandedOn()
        self._finished = False
        self._inside = threading.local()

    # -- steps ---------------------------------------------------------------------------------------------------

    def step(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call ``fn(*args, **kwargs)`` now, as the next step of what is captured.

        Parameters
        ----------
        fn
            Any callable. It is called again when it is captured, possibly several times, and if it cannot be captured at
            every replay; so it should do its work on its arguments and on arrays that live on.
        *args, **kwargs
            Arrays, what earlier steps gave, and anything else; what is no array or number is the same at every replay.

        Returns
        -------
        Any
            What `fn` gave. Arrays in it are the places into which each replay puts the step's results. Numbers come as
            :class:`graphcap.Parameter`, so that later steps take the number of their own replay. Anything else is what `fn`
            gave now; later steps take what it gives in their own replay instead.

        Raises
        ------
        GraphStateError
            The ``with`` block of the capture has been left.
        Exception
            What `fn` raises.
        """
        if getattr(self._inside, "step", False):
            return fn(*args, **kwargs)  # a step of a step is part of it
        stream = self._stream
        if stream is None:
            raise GraphStateError(
                f"step({name_of(fn)})", "the capture is over", "Call step() inside `with capture(...) as g:`."
            )
        step = Step(fn, adopted(self._backend, args), adopted(self._backend, kwargs))
        with self._at(step, "ran for the first time"):
            result = self._call_eagerly(step)
        self._steps.append(step)
        return self._place(step, result, stream)

    def _place(self, step: Step, result: Any, stream: Stream) -> Any:
        """Take a step's first results as the places of all later ones."""
        found: list[Leaf] = []
        leaves_of(self._backend, result, found)
        values = []
        step.places = {leaf.place: leaf.value for leaf in found}
        for value, place in found:
            own: Any = value
            if self._backend.array_key(value) is not None:
                own = self._backend.adopt_array(value)
                step.arrays.append(Leaf(own, place))
            elif is_number(value) or isinstance(value, Scalar):
                value = value.now() if isinstance(value, Scalar) else value
                own = parameter(value, name=f"{step.name}{''.join(f'[{part!r}]' for part in place)}")
                step.numbers.append((place, own))
                self._handed_on.numbers[id(own)] = own
            elif value is not None:
                step.opaque.append(Leaf(value, place))
                self._handed_on.give(step, step.opaque[-1])
            values.append(own)
        step.result = rebuild(result, found, values)
        return step.result

    def _call_eagerly(self, step: Step) -> Any:
        args, kwargs = self._arguments(step, plain=True)
        return step.fn(*args, **kwargs)

    def _arguments(self, step: Step, *, plain: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What a step is called with: what earlier steps gave in this pass."""
        args: tuple[Any, ...] = self._handed_on.latest(step.args, plain=plain)
        kwargs: dict[str, Any] = self._handed_on.latest(step.kwargs, plain=plain)
        return args, kwargs

    @contextlib.contextmanager
    def _at(self, step: Step, when: str) -> Iterator[None]:
        self._inside.step = True
        try:
            yield
        except Exception as error:
            add_note(error, f"raised in step {self._number(step)} ({step.name!r}) when it {when}")
            raise
        finally:
            self._inside.step = False

    def _number(self, step: Step) -> int:
        return next((i for i, known in enumerate(self._steps) if known is step), len(self._steps))

    # -- capture -------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Capture the steps; called when the ``with`` block is left."""
        stream, self._stream = self._stream, None
        assert stream is not None, "called once"
        first = 0
        while first < len(self._steps):
            stop, reason = self._capture(first, len(self._steps), stream)
            if reason is not None and stop > first:
                end = stop
                # Again without the half of the step. Only what differs from call to call can come up anew.
                while True:
                    stop, again = self._capture(first, end, stream)
                    if again is None:
                        break
                    end, reason = stop, again
                    if stop == first:
                        break
            if reason is not None:
                step = self._steps[stop]
                self._eager[len(self.segments)] = step
                self.segments.append(Segment("eager", (step.name,), reason=reason))
                stop += 1
            first = stop
        self._finished = True
        if not self.segments:
            issue([EmptyGraphWarning("the capture has no steps: nothing is replayed.")])

    def _capture(self, first: int, stop: int, stream: Stream) -> tuple[int, GraphcapError | None]:
        """Capture steps into a graph until one cannot be: then nothing is kept. Gives where it stopped, and why."""
        graph = self._new_graph()
        position, reason = first, None
        try:
            with graph:
                while position < stop:
                    reason = self._takes_opaque(position)
                    if reason is None:
                        reason = self._record(self._steps[position], stream)
                    if reason is not None:
                        raise _AbandonedError
                    position += 1
        except _AbandonedError:
            return position, reason
        except CaptureError as error:
            names = ", ".join(step.name for step in self._steps[first:stop])
            add_note(error, f"while the steps {names} were captured as one segment")
            raise
        for step in self._steps[first:stop]:
            graph.retain(step)
        self._links[len(self.segments)] = [link for step in self._steps[first:stop] for link in step.links]
        self.segments.append(Segment("graph", tuple(step.name for step in self._steps[first:stop]), graph))
        return stop, None

    def _record(self, step: Step, stream: Stream) -> GraphcapError | None:
        """Capture one step; the error if it may not be."""
        try:
            with self._at(step, "was captured"):
                args, kwargs = self._arguments(step, plain=False)
                result = step.fn(*args, **kwargs)
                if stream.capture_status is CaptureStatus.INVALIDATED:
                    return CaptureInvalidatedError(step.name, "the step broke the capture", "It is called eagerly.")
                new = results_of(step, self._backend, result)
                self._store(step, new, stream, self._backend.store_array)
                step.links = self._followed(step, new)
                self._handed_on.give_again(step, new)
        except (CaptureForbiddenError, CaptureInvalidatedError) as error:
            return kept(step, error)
        except Exception as error:
            for hook in framework_hooks(self._backend.name):
                explained = hook.explain(error)
                if isinstance(explained, (CaptureForbiddenError, CaptureInvalidatedError)):
                    explained.__cause__ = error
                    return kept(step, explained)
            raise
        return None

    def _followed(self, step: Step, new: Mapping[tuple[Any, ...], Any]) -> list[tuple[Parameter, Scalar]]:
        """The numbers of a captured step's result that are made of parameters, and so change from replay to replay."""
        for place, number in step.numbers:
            if not isinstance(new[place], Scalar) and not is_number(new[place]):
                raise other_result(step, place, self._backend, number.now(), new[place])
        return [(number, new[place]) for place, number in step.numbers if isinstance(new[place], Scalar)]

    def _takes_opaque(self, position: int) -> GraphcapError | None:
        """Why a step must be eager whatever it does: it takes an object that an eager step makes anew at every replay."""
        step = self._steps[position]
        for source in self._eager.values():
            for value, _ in source.opaque:
                if holds((step.args, step.kwargs), value):
                    return CaptureForbiddenError(
                        f"step {position} ({step.name!r}) in a graph",
                        f"it takes the {type(value).__name__} that the eager step {source.name!r} makes anew at every replay",
                        "Pass it on as arrays or numbers, which a graph can take anew.",
                    )
        return None

    def _store(
        self,
        step: Step,
        new: Mapping[tuple[Any, ...], Any],
        stream: Stream,
        store: Callable[[Any, Any, Stream], None],
    ) -> None:
        """Put a step's arrays into their places."""
        for value, place in step.arrays:
            given = new[place]
            if given is value:
                continue
            if self._backend.array_key(given) != self._backend.array_key(value):
                raise other_result(step, place, self._backend, value, given)
            store(value, given, stream)

    # -- replay --------------------------------------------------------------------------------------------------

    def replay(self, stream: Any = None, *, inputs: Mapping[str, Any] | None = None) -> None:
        """Replay all segments in order, on the current stream of the device or on `stream`.

        Graphs are launched and eager steps are called, each in the stream's order. An eager step that reads values waits for
        them, as it does without a graph.

        Raises
        ------
        GraphStateError
            The ``with`` block of the capture has not been left, or was left by an exception, or the graph was reset.
        CaptureForbiddenError
            The stream is capturing.
        GraphStructureError
            An eager step gave arrays of another shape or type, or other numbers or objects, than at the capture.
        Exception
            What an eager step raises, with a note that names it; the segments after it were not replayed. And what
            :meth:`Graph.replay` raises.
        """
        self.check_finished("replay()")
        with contextlib.ExitStack() as stack:
            stack.enter_context(guard(Device(self._backend, self._index)))
            if stream is not None:
                stack.enter_context(Stream.wrap(stream, self.device))
            current = streams.current_stream(self._backend, self._index)
            if current.is_capturing:
                raise CaptureForbiddenError(
                    "replay() of a graph in segments",
                    f"{current!r} is capturing, and a graph that is replayed cannot be recorded",
                    "Replay before or after the capture, or capture the steps themselves.",
                )
            if inputs is not None:
                load_inputs(self._backend, self.device, self._index, self._used(), self._bound, inputs)
            for position, segment in enumerate(self.segments):
                if segment.graph is not None:
                    for number, scalar in self._links[position]:
                        set_values({number: scalar.now()})
                    segment.graph.replay()
                else:
                    self._run(self._eager[position], current)

    def _run(self, step: Step, stream: Stream) -> None:
        with self._at(step, "was called between graphs of a replay; what comes after it was not replayed"):
            new = results_of(step, self._backend, self._call_eagerly(step))
            numbers = {}
            for place, number in step.numbers:
                given = new[place]
                if isinstance(given, Scalar):
                    given = given.now()
                if not is_number(given):
                    raise other_result(step, place, self._backend, number.now(), given)
                numbers[number] = given
            self._store(step, new, stream, self._backend.load_array)
            if numbers:
                set_values(numbers)
            self._handed_on.give_again(step, new)

    # -- the whole -----------------------------------------------------------------------------------------------

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters that ``replay(inputs=...)`` can set: those of all segments, but not what steps hand on."""
        return named_parameters(self._used(), self._bound)

    def _used(self) -> tuple[Parameter, ...]:
        graphs = [segment.graph for segment in self.segments if segment.graph is not None]
        used = {id(one): one for graph in graphs for one in graph.used_parameters()}
        return tuple(one for key, one in used.items() if key not in self._handed_on.numbers)

    def bind(self, **arrays: Any) -> None:
        """Name arrays that steps read; as :meth:`Graph.bind`."""
        check_bound(self._backend, self.device, self._used(), arrays)
        self._bound.update(arrays)

    def retain(self, owner: Any) -> Any:
        """Keep an object alive as long as this object (until ``reset()``); gives it back."""
        self._owners.append(owner)
        return owner

    def pool(self) -> MempoolId:
        """The pool that all graphs share."""
        return self._pool

    def topology(self) -> GraphTopology:
        """One node per segment in order, a ``child_graph`` or a ``host`` node of type "eager step"; the graphs nested in it.

        Raises
        ------
        GraphStateError
            The capture is still open, was left by an exception, or was reset.
        """
        self.check_finished("topology()")
        return describe(self.segments, self._backend.name.lower())

    def debug_dump(self, path: PathLike) -> None:
        """Write the topology as graphcap's DOT; each segment's graph has a ``debug_dump`` of its own in the backend's format.

        Raises
        ------
        GraphStateError
            The capture is still open, was left by an exception, or was reset.
        OSError
            The file cannot be written. Nothing is left half-written.
        """
        from graphcap import dot  # the writer is needed by those who dump, not by those who replay
        from graphcap._files import write_whole

        write_whole(path, dot.write(self.topology()).encode())

    def reset(self) -> None:
        """Give up graphs, steps and all that they hold. Safe with a replay in flight."""
        segments, self.segments = self.segments, []
        for segment in segments:
            if segment.graph is not None:
                segment.graph.reset()
        self._stream, self._finished = None, False
        self._steps, self._eager, self._links = [], {}, {}
        self._bound, self._handed_on, self._owners = {}, HandedOn(), []

    def check_finished(self, asked: str) -> None:
        """Raise if the capture is open or nothing is captured.

        Raises
        ------
        GraphStateError
            As said; with `asked` as what was asked.
        """
        if not self._finished:
            raise GraphStateError(
                asked,
                "the capture is still open"
                if self._stream is not None
                else "nothing is captured in it: there are no segments",
                "Leave the `with capture(...)` block first; capture again after an exception or reset().",
            )

    def __repr__(self) -> str:
        kinds = ", ".join(segment.kind for segment in self.segments)
        return f"<graphcap.SegmentedGraph {self.device} [{kinds}]>"
