"""CUDA's graph implementation: the driver's own graph, template and executable."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from graphcap._capture_state import Move
from graphcap._files import whole_file
from graphcap.backends.base import Backend
from graphcap.backends.cuda import _calls as calls
from graphcap.backends.cuda import _driver as driver
from graphcap.backends.cuda import _graph_calls as graph_calls
from graphcap.backends.cuda.backend import CUDABackend, cuda_backend
from graphcap.backends.cuda.captures import Capture, Conditional
from graphcap.backends.cuda.context import DeviceGuard, Relaxed, primary_context
from graphcap.backends.cuda.describe import describe
from graphcap.backends.cuda.nodes import NodeHandle, find_node, first_difference
from graphcap.backends.cuda.pointers import known_outside, pointer_uses
from graphcap.backends.cuda.replaying import disarm, replay_function
from graphcap.backends.cuda.scalars import NodeBinding
from graphcap.backends.cuda.stream import CUDAStream
from graphcap.backends.cuda.watching import LineWatch
from graphcap.backends.graph_impl import GraphImpl
from graphcap.backends.lifetimes import PointerUse
from graphcap.backends.owners import Owner
from graphcap.backends.parameter_uses import Use
from graphcap.backends.streams import Stream
from graphcap.errors import (
    DriverError,
    GraphcapError,
    GraphcapWarning,
    GraphStateError,
    GraphStructureError,
    GraphUpdateError,
)
from graphcap.interface import CaptureStatus, GraphCaptureMode, GraphImplArgs, GraphImplInterface, MempoolId

if TYPE_CHECKING:
    from graphcap.topology import GraphTopology

__all__ = ["INSTANTIATE_FLAGS", "CUDAGraphImpl"]

INSTANTIATE_FLAGS: Final = {"auto_free_on_launch": 1, "upload": 2, "device_launch": 4, "use_node_priority": 8}
"""The driver's instantiation flags by name (S-D36)."""

_DEFAULT_FLAGS: Final = ("auto_free_on_launch", "use_node_priority")
_MODES: Final = {
    GraphCaptureMode.GLOBAL: calls.Mode.GLOBAL,
    GraphCaptureMode.THREAD_LOCAL: calls.Mode.THREAD_LOCAL,
    GraphCaptureMode.RELAXED: calls.Mode.RELAXED,
}
_WRONG_THREAD: Final = 908
_NO_CONTEXT: Final = 201


class CUDAGraphImpl(GraphImpl):
    """A CUDA graph.

    Parameters
    ----------
    args
        See :class:`graphcap.interface.GraphImplArgs`.

    Raises
    ------
    BackendUnavailableError
        As :class:`CUDABackend`.
    """

    backend: ClassVar[Callable[[], Backend]] = staticmethod(cuda_backend)
    _backend: CUDABackend
    _capture: Capture | None = None
    _watch: LineWatch | None = None
    _template: int = 0
    _executable: int = 0

    def __init__(self, args: GraphImplArgs) -> None:
        self._flags: tuple[str, ...] = _DEFAULT_FLAGS
        self._launchable: Any = None
        """The executable as the launch function takes it; ``None`` while there is none."""
        self._used: dict[int, CUDAStream] = {}
        """The streams that this graph was launched on."""
        self._conditionals: dict[int, Conditional] = {}
        self._bindings: dict[int, NodeBinding] = {}
        """The nodes of the template that take values of parameters."""
        self._replay_function: weakref.ref[Any] | None = None
        super().__init__(args)
        self._launch_function = driver.entry("cuGraphLaunch", 10000, "int (*)(void *, void *)")

    # -- capture -------------------------------------------------------------------------------------------------

    def _begin(self, stream: Stream, mode: GraphCaptureMode) -> Callable[[int], bool]:
        assert isinstance(stream, CUDAStream), "the current stream of a CUDA device is a CUDA stream"
        self._backend.trash.empty()
        driver_mode = _MODES[mode]
        with DeviceGuard(stream.device_index):
            calls.begin_capture(stream.handle, driver_mode)
            try:
                info = calls.capture_info(stream.handle)
            except BaseException:
                code, graph = driver.answer("cuStreamEndCapture", stream.handle)
                self._backend.trash.destroy("cuGraphDestroy", 0 if code else int(graph), stream.device_index)
                raise
        # Weak: a graph that is dropped in the middle of its capture ends it in its finalizer.
        own = weakref.ref(self)
        capture = Capture(stream, info.id, driver_mode, lambda owner: _retain(own, owner), lambda: _pool_of(own))
        self._capture = capture
        self._conditionals = capture.conditionals
        self._backend.captures.opened(capture, info.id)
        self._backend.pinned_allocator(stream.device_index).capture_began()
        if self.debug:
            self._watch = LineWatch(capture)
        return capture.belongs

    def _end(self) -> int:
        capture = self._capture
        assert capture is not None, "only called while a capture is open"
        self._unwatch()
        with DeviceGuard(capture.origin.device_index):
            loose = capture.unjoined()
            code, graph = driver.answer("cuStreamEndCapture", capture.origin.handle)
            if code:
                error = driver.mapped("cuStreamEndCapture", code, "capture_end()")
                if code == 904:
                    raise capture.unjoined_error(error, loose)
                raise self._backend.captures.refused(error, capture.origin.handle)
            self._template = int(graph)
            self._bindings = capture.bindings
            self._over(capture)
            if capture.failed_body is not None:
                self._drop_template()
                raise self._backend.captures.invalidated(capture, "capture_end()")
            return graph_calls.node_count(self._template)

    def _abandon(self) -> None:
        capture = self._capture
        if capture is None:
            self._drop_template()
            return
        try:
            with DeviceGuard(capture.origin.device_index):
                self._end_anyhow(capture)
        finally:
            self._over(capture)
            self._drop_template()

    def _end_anyhow(self, capture: Capture) -> None:
        handle = capture.origin.handle
        if calls.capture_status(handle) is CaptureStatus.NONE:
            return
        code, graph = driver.answer("cuStreamEndCapture", handle)
        if not code:
            self._template = int(graph)
        elif code == _WRONG_THREAD and not capture.origin.renew():
            self._backend.end_later(capture.origin, self._thread)
        elif code != _WRONG_THREAD and calls.capture_status(handle) is not CaptureStatus.NONE:
            code, graph = driver.answer("cuStreamEndCapture", handle)  # a passing failure: once more
            self._template = 0 if code else int(graph)

    def _over(self, capture: Capture) -> None:
        """The driver's capture is over: let everything that waited for it go on."""
        self._capture = None
        self._unwatch()
        self._backend.captures.closed(capture)
        self._backend.pinned_allocator(capture.origin.device_index).capture_ended()
        self._backend.trash.empty()

    def _unwatch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()

    def _broken_by(self) -> BaseException | None:
        self._unwatch()
        return None if self._capture is None else self._capture.cause

    # -- memory --------------------------------------------------------------------------------------------------

    def _inspect_memory(self) -> list[Warning]:
        with DeviceGuard(self.device_index), Relaxed():
            return super()._inspect_memory()

    def _pointers(self) -> Iterable[PointerUse]:
        return pointer_uses(self._template, self._conditionals)

    def _outside(self, address: int) -> tuple[Owner | None, str] | None:
        return known_outside(address)

    def _marker(self) -> Callable[[], object]:
        capture = self._capture
        assert capture is not None, "only asked for while a capture is open"
        return lambda: capture.frontier

    def _positions(self, marks: Sequence[object]) -> list[int]:
        place = {node: index + 1 for index, node in enumerate(graph_calls.nodes(self._template))} if marks else {}
        return [
            max((place.get(node, 0) for node in mark), default=0) if isinstance(mark, tuple) else 0 for mark in marks
        ]

    def _check_memory(self) -> None:
        with DeviceGuard(self.device_index), Relaxed():
            super()._check_memory()

    # -- executable ----------------------------------------------------------------------------------------------

    def instantiate(self, flags: Iterable[str] | None = None) -> None:
        """Make an executable from the template, again if there is one.

        Parameters
        ----------
        flags
            Names of :data:`INSTANTIATE_FLAGS`, for this and later instantiations; ``auto_free_on_launch`` and
            ``use_node_priority`` if never given.

        Raises
        ------
        ValueError
            An unknown name.
        GraphStateError
            Nothing was captured yet, or the template is gone and `flags` are given.
        GraphStructureError
            The driver finds that the graph cannot be replayed.
        """
        if flags is not None:
            chosen = tuple(flags)
            unknown = [name for name in chosen if name not in INSTANTIATE_FLAGS]
            if unknown or isinstance(flags, str):
                raise ValueError(f"instantiate(flags={flags!r}): a list of {', '.join(INSTANTIATE_FLAGS)} is expected.")
            self._check(Move.INSTANTIATE)
            if not self._template:
                raise GraphStateError(
                    "instantiate(flags=...)", "the template is gone", "Capture with keep_graph=True, or use capture()."
                )
            self._flags = chosen
        super().instantiate()

    def _instantiate(self) -> None:
        word = sum(INSTANTIATE_FLAGS[name] for name in set(self._flags))
        upload_stream = 0
        with DeviceGuard(self.device_index), Relaxed():
            if word & INSTANTIATE_FLAGS["upload"]:
                upload_stream = self._backend.launch_stream(self.device_index).handle
            made = graph_calls.instantiate(self._template, word, upload_stream)
        if made.code:
            raise self._not_instantiated(made)
        self._drop_executable()
        self._executable = made.executable
        if self.parameters is None:
            self._launchable = driver.ffi().cast("void *", made.executable)
        else:  # made of the template, which has the values of the capture
            for binding in self._bindings.values():
                binding.changed = True

    def _not_instantiated(self, made: graph_calls.Instantiated) -> GraphcapError:
        error = driver.mapped("cuGraphInstantiateWithParams", made.code, "instantiate()")
        reason = made.result.removeprefix("CUDA_GRAPH_INSTANTIATE_").lower()
        if reason in ("success", "error"):
            return error
        where = f" at {self._name_of(made.node)}" if made.node else ""
        structural = GraphStructureError(
            "instantiate()",
            f"the driver cannot instantiate the graph: {reason}{where}",
            "Capture the work differently.",
        )
        structural.__cause__ = error if error.__cause__ is None else error.__cause__
        return structural

    def replay(self) -> None:
        launchable = self._launchable
        if launchable is None:
            if not self._executable:
                super().replay()  # nothing captured, a capture open, or a template only: says so, or instantiates
                return
            launchable = self._with_new_values()
        backend = self._backend
        if backend.host_errors.kept:
            backend.host_errors.raise_first()
        if self._checks is not None:
            self._check_memory()
        stream = backend.launch_stream(self.device_index)
        code = self._launch_function(launchable, stream.pointer)
        if code:
            self._launch_failed(code, stream)
        if stream.handle not in self._used:
            self._used[stream.handle] = stream

    def replay_function(self, general: Callable[..., None]) -> Callable[..., None]:
        """A replay with less cost per call, for the user's object; see ``replaying``."""
        return replay_function(self, general)

    # -- parameters ----------------------------------------------------------------------------------------------

    def _end_move(self) -> Move:
        bound = self._capture is not None and self._capture.bindings
        move = super()._end_move()
        # New values reach an executable by way of the template's nodes, so those have to live.
        return Move.END_BOTH if bound and move is Move.END_EXECUTABLE else move

    def _parameter_uses(self) -> list[Use]:
        return [use for binding in self._bindings.values() for use in binding.uses]

    def _parameters_changed(self) -> None:
        self._launchable = None
        function = None if self._replay_function is None else self._replay_function()
        if function is not None:
            disarm(function)

    def _with_new_values(self) -> Any:
        """Give the executable's nodes the present values of parameters; the executable as the launch function takes it.

        Raises
        ------
        GraphUpdateError
            The driver refuses them.
        """
        launchable = self._launchable = driver.ffi().cast("void *", self._executable)
        try:
            if self.parameters is not None:
                self.parameters.refresh()
                context = primary_context(self.device_index)
                with DeviceGuard(self.device_index), Relaxed():
                    for node, binding in self._bindings.items():
                        if binding.changed:
                            binding.push(self._executable, node, context)
        except DriverError as error:
            self._launchable = None  # the next replay tries again
            raise GraphUpdateError(
                "a new value of a parameter",
                f"the driver refuses it: {error.name} ({error.code})",
                "Capture the work anew with a plain number.",
            ) from error
        except BaseException:
            self._launchable = None
            raise
        return launchable

    def _launch(self) -> None:
        self.replay()

    def _launch_failed(self, code: int, stream: CUDAStream) -> None:
        if code == _NO_CONTEXT:  # a thread that never used CUDA: with the context current it works
            with DeviceGuard(self.device_index):
                code = self._launch_function(self._launchable, stream.pointer)
        if code:
            raise self._backend.captures.refused(driver.mapped("cuGraphLaunch", code, "replay()"), stream.handle)

    def upload(self) -> None:
        """Send the executable to the device now, on the current stream.

        Raises
        ------
        GraphStateError
            Nothing was captured yet, or a capture is open.
        """
        self._check(Move.REPLAY, "upload()")
        if not self._executable:
            self.instantiate()
        if self._launchable is None:
            self._with_new_values()
        stream = self._backend.launch_stream(self.device_index)
        with DeviceGuard(self.device_index):
            graph_calls.upload(self._executable, stream.handle, "upload()")
        self._used.setdefault(stream.handle, stream)

    # -- letting go ----------------------------------------------------------------------------------------------

    def _drop_template(self) -> None:
        template, self._template = self._template, 0
        self._backend.trash.destroy("cuGraphDestroy", template, max(self.device_index, 0))
        self._bindings = {}

    def _drop_executable(self) -> None:
        executable, self._executable = self._executable, 0
        self._launchable = None
        self._disarm()
        self._backend.trash.destroy("cuGraphExecDestroy", executable, max(self.device_index, 0))

    def _disarm(self) -> None:
        """Let the next replay of the user's object go the long way."""
        function = None if self._replay_function is None else self._replay_function()
        if function is not None:
            disarm(function)

    def _release_owned(self, owned: list[object]) -> None:
        used, self._used = self._used, {}
        self._backend.trash.retire(owned, list(used.values()), max(self.device_index, 0))

    # -- inside --------------------------------------------------------------------------------------------------

    def raw_graph(self) -> int:
        """The driver's template (``CUgraph``), which stays this object's own: do not destroy it.

        Raises
        ------
        GraphStateError
            No template is live; the message names the options that keep it.
        """
        self._check(Move.INSPECT, "raw_graph()")
        return self._template

    def raw_graph_exec(self) -> int:
        """The driver's executable (``CUgraphExec``), until the next ``instantiate`` or ``reset``.

        Raises
        ------
        GraphStateError
            The graph is not instantiated.
        """
        self._check(Move.UPDATE, "raw_graph_exec()")
        return self._executable

    def _topology(self) -> GraphTopology:
        with DeviceGuard(self.device_index):
            scalars = {node: binding.names for node, binding in self._bindings.items()}
            return describe(self._template, self._conditionals, scalars)

    def _dump(self, path: str) -> None:
        with whole_file(path) as draft, DeviceGuard(self.device_index):
            graph_calls.print_dot(self._template, draft)

    # -- change --------------------------------------------------------------------------------------------------

    def update(self, other: GraphImplInterface) -> None:
        """Give the executable the node parameters of another captured graph of the same topology.

        The other graph needs a live template. What its nodes use is owned by this graph too from then on.

        Raises
        ------
        GraphUpdateError
            The driver refuses: the message has its reason and the first node that differs. This graph replays as before.
        GraphStateError
            This graph is not instantiated, or the other has no live template.
        TypeError
            `other` is no CUDA graph.
        """
        self._check(Move.UPDATE)
        if not isinstance(other, CUDAGraphImpl):
            raise TypeError(f"update(): expected a CUDA graph, not {type(other).__name__}.")
        other._check(Move.INSPECT, "update() from a graph")
        if other._bindings and not self._template:
            raise GraphUpdateError(
                "update()",
                "the other graph has parameters, and this one has no template through which they could be changed later",
                "Capture this graph with keep_graph=True.",
            )
        with DeviceGuard(self.device_index), Relaxed():
            done = graph_calls.update(self._executable, other._template)
        if done.code:
            raise self._not_updated(done, other)
        self._take_bindings(other)
        self._owned.append((list(other._owned), _PoolUse(other)))
        if self._checks is not other._checks:
            self._disarm()
            self._checks = other._checks

    def rebind(self, node: int, binding: NodeBinding | None) -> None:
        """A node of the executable was given other arguments: it takes these parameters from now on, or none."""
        if binding is None and node not in self._bindings:
            return
        self._bindings = {known: held for known, held in self._bindings.items() if known != node}
        if binding is not None:
            self._bindings[node] = binding
        self._parameters_taken_anew()

    def _parameters_taken_anew(self) -> None:
        if self.parameters is not None:
            self.parameters.refresh()  # what waited goes to the bindings, which stay
        self.parameters = None
        self._take_parameters()
        self._parameters_changed()

    def _take_bindings(self, other: CUDAGraphImpl) -> None:
        """After an update: the executable has the other graph's values, and its parameters from now on."""
        if not self._bindings and not other._bindings:
            return
        with DeviceGuard(self.device_index):
            own, others = graph_calls.nodes(self._template), graph_calls.nodes(other._template)
        self._bindings = {own[others.index(node)]: binding.copy() for node, binding in other._bindings.items()}
        for binding in self._bindings.values():
            binding.changed = True
        self._parameters_taken_anew()

    def _not_updated(self, done: graph_calls.Updated, other: CUDAGraphImpl) -> GraphcapError:
        error = driver.mapped("cuGraphExecUpdate", done.code, "update()")
        if not isinstance(error, GraphUpdateError):
            return error
        reason = done.result.removeprefix("CU_GRAPH_EXEC_UPDATE_ERROR_").lower().replace("_", " ")
        found = first_difference(self, other, done.node)
        refused = GraphUpdateError(
            "update()",
            f"the driver refuses: {reason}" + (f"; the first difference is {found}" if found else ""),
            "The graph still replays as before. Capture it anew, or change only what an update may change.",
        )
        refused.__cause__ = error.__cause__
        return refused

    def node(self, which: int | str) -> NodeHandle:
        """One node of the executable, to be changed between replays.

        Parameters
        ----------
        which
            Its id in :meth:`topology` (creation order), or its name if no other node has the same.

        Raises
        ------
        KeyError
            There is no such node, or several have that name.
        GraphStateError
            No template is live, or the graph is not instantiated.
        """
        self._check(Move.INSPECT, "node()")
        if not self._executable:
            self.instantiate()
        return find_node(self, which)

    def _name_of(self, node: int) -> str:
        handles = graph_calls.nodes(self._template)
        if node not in handles:
            return "a node of a nested graph"
        index = handles.index(node)
        described = self._topology().node(index)
        return (
            f"node {index} ({described.kind} {described.name!r})"
            if described.name
            else f"node {index} ({described.kind})"
        )


class _PoolUse:
    """One use of another graph's pool: its addresses are in this graph's executable now."""

    def __init__(self, other: CUDAGraphImpl) -> None:
        self._pool = other.pool()
        self._allocator = other._backend.allocator(other.device_index)
        self._allocator.retain_pool(self._pool)

    def __del__(self) -> None:
        try:
            self._allocator.release_pool(self._pool)
        except Exception as error:
            warnings.warn(f"giving a pool back failed: {error}", GraphcapWarning, stacklevel=1)


def _retain(reference: weakref.ref[CUDAGraphImpl], owner: object) -> None:
    found = reference()
    if found is not None:
        found.retain(owner)


def _pool_of(reference: weakref.ref[CUDAGraphImpl]) -> MempoolId | None:
    found = reference()
    return None if found is None else found._pool
