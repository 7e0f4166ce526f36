"""The part of a graph implementation that is the same for all backends: states, streams, threads, pools, lifetimes.

A backend derives from :class:`GraphImpl` and supplies the device parts (the methods with an underscore). What is
decided here is decided once, so that the same mistake raises the same error on every backend:

- the order of calls, from the transition table of :mod:`graphcap._capture_state`;
- the stream rules (rule 2): not the default stream, not one that captures already, end where it began;
- pools: routing starts before the device's capture begins and always ends with it (S-B8, S-B17); a use of the pool is
  counted once per capture and given back once, on every path;
- what the graph owns (rule 12), and frameworks' hooks around the capture.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
import weakref
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

from graphcap import memory
from graphcap._capture_state import CaptureState, Move, State
from graphcap._this_thread import ThreadMark, thread_mark
from graphcap.backends.base import Backend, framework_hooks
from graphcap.backends.graph_memory import GraphMemory, issue
from graphcap.backends.parameter_uses import ParameterUses, Use
from graphcap.backends.streams import Stream, current_stream
from graphcap.errors import (
    CaptureStateError,
    EmptyGraphWarning,
    GraphcapWarning,
    UnsupportedError,
    add_note,
)
from graphcap.interface import (
    NO_POOL,
    CaptureStatus,
    GraphCaptureMode,
    GraphImplArgs,
    GraphImplInterface,
    MempoolId,
)
from graphcap.memory.claims import HandOuts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphcap.topology import GraphTopology

__all__ = ["GraphImpl"]

_EMPTY: Final = (
    "the capture recorded no work. Was the work submitted to another stream or another device, or done by calls that the "
    "backend cannot see?"
)


class GraphImpl(GraphMemory, GraphImplInterface):
    """A graph implementation whose device parts are still to be supplied.

    Parameters
    ----------
    args
        See :class:`graphcap.interface.GraphImplArgs`.
    """

    backend: ClassVar[Callable[[], Backend]]
    """How to get the one :class:`Backend` object of this type; a static method of the subclass."""

    def __init__(self, args: GraphImplArgs) -> None:
        super().__init__()
        self.keep_graph: Final = args.keep_graph
        self.debug = False
        self.state = CaptureState()
        self.stream: Stream | None = None
        """The origin stream of the capture; kept until ``reset`` so that its handle stays valid."""
        self.device_index = -1
        self.mode = GraphCaptureMode.DEFAULT
        self._backend = type(self).backend()
        self._thread: ThreadMark | None = None
        self._pool: MempoolId | None = None
        self._nested_pools: tuple[MempoolId, ...] = ()  # of `use_mem_pool` scopes inside the capture (S-C48)
        self._hooks = contextlib.ExitStack()
        self.parameters: ParameterUses | None = None
        """Where the nodes use parameters; ``None`` where none does."""
        self._warned_mode = False

    # -- device parts --------------------------------------------------------------------------------------------

    @abstractmethod
    def _begin(self, stream: Stream, mode: GraphCaptureMode) -> Callable[[int], bool]:
        """Begin the device's capture. Give back the routing filter: does this stream handle belong to the capture?"""

    @abstractmethod
    def _end(self) -> int:
        """End the device's capture in any case; give the number of nodes of the template that is now held.

        Raises
        ------
        UnjoinedStreamError, CaptureInvalidatedError, DriverError
            The capture gave no template; nothing is held then.
        """

    @abstractmethod
    def _abandon(self) -> None:
        """End the device's capture if it is open and drop what came of it. Must not fail for a broken capture."""

    @abstractmethod
    def _instantiate(self) -> None:
        """Make an executable from the live template; only on success drop the earlier one."""

    @abstractmethod
    def _launch(self) -> None:
        """Launch the executable on the current stream of :attr:`device_index`."""

    @abstractmethod
    def _drop_template(self) -> None:
        """Let the template go, if there is one (destruction waits while captures are open)."""

    @abstractmethod
    def _drop_executable(self) -> None:
        """Let the executable go, if there is one; safe while it runs."""

    @abstractmethod
    def _topology(self) -> GraphTopology:
        """The live template as data."""

    @abstractmethod
    def _dump(self, path: str) -> None:
        """Write the live template to `path` in the backend's own format."""

    def _broken_by(self) -> BaseException | None:
        """What invalidated the open capture, as far as it was seen."""
        return None

    def _release_owned(self, owned: list[object]) -> None:
        """Let go of what the graph owned. An asynchronous backend keeps it until replays in flight are done."""
        owned.clear()

    def _parameter_uses(self) -> list[Use]:
        """Where the nodes of the template take values of parameters."""
        return []

    def _parameters_changed(self) -> None:
        """New values wait for the next replay. Called on any thread; must not raise."""

    # -- the contract --------------------------------------------------------------------------------------------

    def capture_begin(
        self, pool: MempoolId = NO_POOL, capture_mode: GraphCaptureMode = GraphCaptureMode.DEFAULT
    ) -> None:
        self._check(Move.BEGIN)
        mode = self._mode(GraphCaptureMode(capture_mode))
        index = self._backend.current_device()
        stream = current_stream(self._backend, index)
        self._check_stream(stream)
        allocator = self._backend.allocator(index)
        pool_id = memory.new_graph_pool_id() if pool == NO_POOL else memory.validate_pool_id(pool)
        allocator.release_freeable_pools(keep=pool_id)
        route = _Route()
        with contextlib.ExitStack() as undo:
            # Routing first: memory freed or allocated between the two must see the pool (S-B8).
            allocator.begin_allocate_to_pool(pool_id, route)
            undo.callback(allocator.release_pool, pool_id)
            undo.callback(self._end_routing, allocator, pool_id)
            route.belongs = self._begin(stream, mode)
            undo.callback(self._abandon)
            self._given = route.log
            self._given.mark = self._marker()
            allocator.capture_began()
            undo.callback(allocator.capture_ended)
            self._hooks = self._enter_hooks(stream, pool_id)
            undo.pop_all()
        self.state.move(Move.BEGIN)
        self.stream, self.device_index, self.mode = stream, index, mode
        self._thread, self._pool = thread_mark(), pool_id

    def capture_end(self) -> None:
        move = self._end_move()
        self._notice_invalidation()
        if self.state.state is not State.INVALIDATED:
            self._check(move)
        stream = self.stream
        assert stream is not None, "an open capture has a stream"
        self._check_end(stream)
        try:
            if self.state.state is State.INVALIDATED:
                self.state.check(move)
            count = self._end()
        except BaseException as error:
            self._throw_away(after=error)
            raise
        try:
            self._leave_capture()
            trouble = self._inspect_memory()
            self._take_parameters()
            if move is not Move.END_TEMPLATE:
                self._instantiate()
            if move is Move.END_EXECUTABLE:
                self._drop_template()
        except BaseException:
            self._forget()
            raise
        self.state.move(move)
        if count == 0:
            trouble.insert(0, EmptyGraphWarning(_EMPTY))
        issue(trouble)

    def instantiate(self) -> None:
        self._check(Move.INSTANTIATE)
        if self.state.state is not State.EXECUTABLE:
            self._instantiate()
        self.state.move(Move.INSTANTIATE)

    def replay(self) -> None:
        self._check(Move.REPLAY)
        if self.state.state is State.TEMPLATE:
            self._instantiate()
            self.state.move(Move.INSTANTIATE)
        if self._checks is not None:
            self._check_memory()
        self._launch()

    def reset(self) -> None:
        if self.state.state in (State.ACTIVE, State.INVALIDATED):
            self._throw_away()
        else:
            self._forget()

    def pool(self) -> MempoolId:
        self._check(Move.POOL)
        assert self._pool is not None, "a captured graph has a pool"
        return self._pool

    def enable_debug_mode(self) -> None:
        self.debug = True

    def debug_dump(self, path: str | os.PathLike[str]) -> None:
        self._check(Move.INSPECT, "debug_dump()")
        self._dump(os.fspath(path))

    # -- beyond the contract -------------------------------------------------------------------------------------

    def topology(self) -> GraphTopology:
        """The live template as data.

        Raises
        ------
        GraphStateError
            No template is live.
        """
        self._check(Move.INSPECT, "topology()")
        return self._topology()

    def update(self, other: GraphImplInterface) -> None:
        """Give the executable the node parameters of another captured graph of the same topology."""
        raise UnsupportedError(self._backend.name, "Graph.update()", "graph_update")

    def upload(self) -> None:
        """Send the executable to the device ahead of its first replay."""
        raise UnsupportedError(self._backend.name, "Graph.upload()", "upload")

    def __del__(self, _at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        if not hasattr(self, "_warned_mode"):
            return  # __init__ did not finish
        try:
            self.reset()
        except Exception as error:
            if _at_exit():
                return  # modules are being taken apart, this one too: the process gives everything back
            warnings.warn(f"dropping a graph failed: {error}", GraphcapWarning, stacklevel=1)

    # -- pieces --------------------------------------------------------------------------------------------------

    def _allocators(self) -> Sequence[memory.CachingAllocator]:
        return self._backend.allocators()

    def _logged(self, belongs: Callable[[int], bool]) -> _Route:
        """A routing filter for a further manager of the device's memory, with the same log."""
        route = _Route()
        route.belongs = belongs
        if self._given is not None:
            route.log = self._given
        return route

    def _own_pools(self) -> frozenset[MempoolId]:
        return frozenset(self._nested_pools if self._pool is None else (self._pool, *self._nested_pools))

    def _check(self, move: Move, asked: str | None = None) -> State:
        if self.state.state is State.ACTIVE:
            self._notice_invalidation()
        return self.state.check(move, asked)

    def _notice_invalidation(self) -> None:
        """Take over from the stream that the open capture was broken (by whatever, graphcap or not)."""
        if self.state.state is not State.ACTIVE or self.stream is None:
            return
        if self.stream.capture_status is CaptureStatus.INVALIDATED:
            self.state.invalidate(self._broken_by())

    def _end_move(self) -> Move:
        if self.keep_graph:
            return Move.END_TEMPLATE
        return Move.END_BOTH if self.debug else Move.END_EXECUTABLE

    def _mode(self, mode: GraphCaptureMode) -> GraphCaptureMode:
        modes = self._backend.capabilities.capture_modes
        if mode is GraphCaptureMode.DEFAULT:
            return GraphCaptureMode.THREAD_LOCAL if GraphCaptureMode.THREAD_LOCAL in modes else mode
        if mode in modes:
            return mode
        if not self._warned_mode:
            self._warned_mode = True
            warnings.warn(
                f"backend {self._backend.name} has no capture mode {mode.name.lower()!r}; its own mode is used.",
                GraphcapWarning,
                stacklevel=3,
            )
        return GraphCaptureMode.DEFAULT

    def _check_stream(self, stream: Stream) -> None:
        if stream.is_default:
            raise CaptureStateError(
                "capture_begin()",
                f"the current stream of {stream.device} is its default stream, which cannot be captured",
                "Make another stream current: `with graphcap.Stream(...), graph: ...`, or use graphcap.capture().",
            )
        if stream.capture_status is not CaptureStatus.NONE:
            raise CaptureStateError(
                "capture_begin()",
                f"{stream!r} takes part in another capture",
                "End that capture first, or use another stream.",
            )

    def _check_end(self, stream: Stream) -> None:
        if self.mode is not GraphCaptureMode.RELAXED and thread_mark() is not self._thread:
            raise CaptureStateError(
                "capture_end()",
                "the capture began on another thread, and its mode is not relaxed",
                "End it on the thread that began it, or capture with capture_mode='relaxed'.",
            )
        current = current_stream(self._backend, self.device_index)
        if current != stream:
            raise CaptureStateError(
                "capture_end()",
                f"the current stream is {current!r}, but the capture began on {stream!r}",
                "End it while its own stream is current: `with stream, graph:` nests them the right way.",
            )

    def _enter_hooks(self, stream: Stream, pool: MempoolId) -> contextlib.ExitStack:
        with contextlib.ExitStack() as stack:
            for hook in framework_hooks(self._backend.name):
                undo = hook.capture_begun(stream, pool, self.retain)
                if undo is not None:
                    stack.callback(undo)
            return stack.pop_all()

    def _leave_capture(self) -> None:
        """What must happen whenever the device's capture is over, however it ended (S-B17)."""
        assert self._pool is not None, "an open capture has a pool"
        allocator = self._backend.allocator(self.device_index)
        try:
            self._hooks.close()
        finally:
            allocator.capture_ended()
            self._end_routing(allocator, self._pool)

    def _take_parameters(self) -> None:
        uses = self._parameter_uses()
        if uses:
            own = weakref.ref(self)

            def changed() -> None:
                found = own()
                if found is not None:
                    found._parameters_changed()

            self.parameters = ParameterUses(uses, changed)

    def _end_routing(self, allocator: memory.CachingAllocator, pool: MempoolId) -> None:
        self._nested_pools += allocator.end_allocate_to_pool(pool)

    def _abandon_pools(self) -> None:
        """As :meth:`_leave_capture`, and give the pools back, for a capture of which nothing is kept.

        A finalizer may come here in the middle of the allocator's own operations, which no other way would bear.
        """
        pool, self._pool = self._pool, None
        assert pool is not None, "an open capture has a pool"
        try:
            self._hooks.close()
        finally:
            self._backend.allocator(self.device_index).abandon_capture(pool, began=True)

    def _throw_away(self, after: BaseException | None = None) -> None:
        """End an open or broken capture and make the object new. A second failure is noted on the first (rule 5)."""
        failure = after
        for step in (self._abandon, self._abandon_pools, self._forget):
            try:
                step()
            except Exception as error:
                if failure is None:
                    failure = error
                else:
                    add_note(failure, f"then, while the capture was thrown away: {error}")
        if failure is not None and after is None:
            raise failure

    def _forget(self) -> None:
        """Give back the pool use, drop the handles, let go of what was owned; the object is new."""
        pool, self._pool = self._pool, None
        nested, self._nested_pools = self._nested_pools, ()
        owned, self._owned = self._owned, []
        self._forget_memory()
        self.parameters = None
        try:
            self._drop_executable()
            self._drop_template()
        finally:
            self.state.move(Move.RESET)
            if pool is not None:
                allocator = self._backend.allocator(self.device_index)
                for held in (pool, *nested):
                    allocator.release_pool(held)
            self._release_owned(owned)
            self.stream = None


class _Route:
    """The routing filter of a capture; nothing belongs to it until the device's capture has begun (S-B13)."""

    __slots__ = ("belongs", "log")

    def __init__(self) -> None:
        self.belongs: Callable[[int], bool] = _nothing
        self.log = HandOuts(int)

    def __call__(self, stream: int) -> bool:
        return self.belongs(stream)


def _nothing(stream: int) -> bool:
    return False
