"""The user's object: a graph, and a context manager that captures into it."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from graphcap import memory, registry
from graphcap._device import Device, default_device, resolve, type_of
from graphcap._gc_pause import GCPause
from graphcap._inputs import check_bound, load_inputs, named_parameters
from graphcap._typing import PathLike
from graphcap.backends import streams
from graphcap.backends.base import framework_hooks
from graphcap.backends.extents import Declared
from graphcap.backends.lifetimes import level_of
from graphcap.backends.parameter_uses import ParameterUses
from graphcap.backends.parameters import Parameter
from graphcap.backends.streams import Stream
from graphcap.errors import (
    BackendNotFoundError,
    CaptureStateError,
    GraphcapWarning,
    GraphStateError,
    UnsupportedError,
    add_note,
)
from graphcap.interface import (
    NO_POOL,
    GraphCaptureMode,
    GraphImplArgs,
    GraphImplInterface,
    MempoolId,
)
from graphcap.interface import (
    capture_mode as parse_mode,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from graphcap.topology import GraphTopology

__all__ = ["Graph", "pool_id_of"]

_dump_numbers: Final = itertools.count(1)


class Graph:
    """A capture of work on a device's stream, to be replayed any number of times.

    ``with stream, graph:`` captures the work that the body submits to the current stream, and replays nothing. Order
    matters: the stream must still be current when the capture ends, so it is entered first.

    If the body raises, the capture is thrown away, the exception passes unchanged, and the same object can capture again.

    Parameters
    ----------
    device
        ``"cuda"``, ``"cuda:1"``, ``"cpu"``, …; ``GRAPHCAP_DEVICE`` or the first usable device if not given.
    keep_graph
        Keep the template: ``topology()``, ``debug_dump()`` and ``instantiate()`` work after the capture.
    pool
        A pool to allocate from: a :class:`MempoolId`, a :class:`MemPool`, or another captured :class:`Graph`. A new one if
        not given. Graphs that share a pool must be replayed in the order in which they were captured, one at a time.
    capture_mode
        See :class:`graphcap.GraphCaptureMode`.
    lifetimes
        What the end of a capture does about pointers in its nodes whose owner is not known, so that the memory may be freed
        before a replay: ``"warn"`` (:class:`UnownedPointerWarning`), ``"strict"`` (:class:`UnownedPointerError`, and the
        capture is thrown away), ``"off"``. See ``docs/lifetimes.md``.

    Raises
    ------
    ValueError, TypeError
        An unknown mode, level or device, or a pool id that cannot be one.
    PoolStateError
        `pool` was never issued.
    BackendNotFoundError, BackendUnavailableError
        There is no such backend, or it is not usable here.
    """

    def __init__(
        self,
        device: str | None = None,
        keep_graph: bool = False,
        *,
        pool: Any = None,
        capture_mode: GraphCaptureMode | int | str = GraphCaptureMode.DEFAULT,
        lifetimes: str = "warn",
    ) -> None:
        text = default_device() if device is None else device
        name, index = type_of(text)
        self._gc = GCPause()
        self._exit = contextlib.ExitStack()
        self._bound: dict[str, Any] = {}
        self._mode = parse_mode(capture_mode)
        level = level_of(lifetimes)
        self._pool = pool_id_of(pool)
        impl = registry.create_graph_impl(name, GraphImplArgs(keep_graph=bool(keep_graph)))
        if impl is None:
            raise BackendNotFoundError(name, registry.known_backends())
        if index is not None:
            resolve(text)  # an index past the last device is refused here, not at the first capture
        self._name = name
        self._index = index
        self._impl: GraphImplInterface = impl
        if level != "warn":
            if not hasattr(impl, "lifetimes"):
                raise UnsupportedError(name, f"Graph(lifetimes={level!r})", "lifetimes")
            impl.lifetimes = level
        make_replay: Callable[[Callable[..., None]], Callable[..., None]] | None = getattr(
            impl, "replay_function", None
        )
        if make_replay is not None and type(self).replay is Graph.replay:
            # A backend may bring a replay of its own that does the same with less cost per call.
            self.__dict__["replay"] = make_replay(_general_replay(weakref.ref(self)))

    # -- how the next capture is made ------------------------------------------------------------------------------

    @property
    def device(self) -> str:
        """The device string that the graph was made with."""
        return self._name.lower() if self._index is None else f"{self._name.lower()}:{self._index}"

    @property
    def capture_mode(self) -> GraphCaptureMode:
        """The mode of the next capture; may be set between captures."""
        return self._mode

    @capture_mode.setter
    def capture_mode(self, mode: GraphCaptureMode | int | str) -> None:
        self._mode = parse_mode(mode)

    @property
    def graph_pool(self) -> MempoolId | None:
        """The pool that the next capture will share, or ``None`` for a new one; may be set between captures."""
        return None if self._pool == NO_POOL else self._pool

    @graph_pool.setter
    def graph_pool(self, pool: Any) -> None:
        self._pool = pool_id_of(pool)

    # -- capture -----------------------------------------------------------------------------------------------------

    def capture_begin(self) -> None:
        """Begin to capture the current stream. ``with graph:`` is the usual way.

        Raises
        ------
        CaptureStateError
            A capture is open on this graph, or it already holds one (call ``reset()``); the current stream is the
            default stream, takes part in a capture already, or belongs to another device.
        PoolStateError
            The pool is open in another capture, or was another capture's own and is gone.
        """
        with contextlib.ExitStack() as stack:
            if self._index is not None:
                self._enter_device(stack)
            if os.environ.get("GRAPHCAP_DUMP"):
                self._impl.enable_debug_mode()
            self._gc.begin()
            stack.callback(self._gc.end)
            self._impl.capture_begin(self._pool, self._mode)
            self._exit = stack.pop_all()

    def capture_end(self) -> None:
        """End the capture. Without ``keep_graph`` the graph is instantiated at once and the template dropped.

        Raises
        ------
        CaptureStateError
            No capture is open here; the current stream or the thread is not that of ``capture_begin``. The capture goes
            on.
        UnjoinedStreamError, CaptureInvalidatedError
            The capture cannot become a graph. It is over, and the graph is new.
        UnownedPointerError
            With ``lifetimes="strict"``: a node uses memory whose owner is not known. It is over, and the graph is new.

        Warns
        -----
        EmptyGraphWarning
            Nothing was captured.
        UnownedPointerWarning
            A node uses memory whose owner is not known.
        ReusedMemoryWarning
            An array made in the capture is overwritten by each replay, and never written by the captured work.
        """
        try:
            self._impl.capture_end()
        except CaptureStateError:
            raise  # nothing was undone: the capture is still open and can be ended rightly
        except BaseException:
            self._exit.close()
            raise
        self._exit.close()
        self._dump_if_asked()

    def __enter__(self) -> Self:
        self.capture_begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                self.capture_end()
            except CaptureStateError:
                # The block is left, so nobody can end it rightly any more: throw it away, then tell.
                self.reset()
                raise
            return
        try:
            self.reset()
        except Exception as second:
            add_note(error, f"then throwing the capture away failed too: {second}")
            for note in getattr(second, "__notes__", ()):
                add_note(error, note)
        for hook in framework_hooks(self._name):
            explained = hook.explain(error)
            if explained is not None:
                raise explained from error

    # -- the graph ---------------------------------------------------------------------------------------------------

    def instantiate(self) -> None:
        """Make the executable from the template, again if there is one. Does nothing when the template is gone.

        Raises
        ------
        GraphStateError
            Nothing was captured yet, or a capture is open.
        """
        self._impl.instantiate()

    def replay(self, stream: Any = None, *, inputs: Mapping[str, Any] | None = None) -> None:
        """Launch the graph on the current stream of its device, or on `stream`; returns before it is done.

        Parameters
        ----------
        stream
            A stream of the graph's device, graphcap's or one that it can wrap.
        inputs
            New contents for arrays named by :meth:`bind`, copied in on the same stream before the launch; and new values of
            parameters by their names (:func:`graphcap.parameter`), which later replays keep.

        Raises
        ------
        GraphStateError
            Nothing was captured yet, or a capture is open on this graph.
        CaptureForbiddenError
            The stream is capturing (E-17).
        ValueError
            `stream` is of another device. Or `inputs` names something that is neither bound nor a parameter, or gives an array
            of another shape or dtype; nothing was copied or set then.
        TypeError
            `inputs` gives something that is no array of the device, or no number of a parameter's kind.
        OverflowError, ArithmeticError
            A number does not fit where the graph uses the parameter; see :attr:`graphcap.Parameter.value`.
        StalePointerError
            In debug mode, or for inputs that are not kept: memory that a node uses is gone or has moved. Nothing was launched.
        Exception
            What a host call of an earlier replay raised.
        """
        if stream is None and inputs is None:
            self._impl.replay()
            return
        with contextlib.ExitStack() as stack:
            if stream is not None:
                stack.enter_context(Stream.wrap(stream, self.device))
            if inputs is not None:
                self._load(inputs)
            self._impl.replay()

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters that the captured work uses and that have a name of their own or by :meth:`bind`, by name.

        Of two with the same name of their own neither is here: bind them by other names.
        """
        return named_parameters(self.used_parameters(), self._bound)

    def used_parameters(self) -> tuple[Parameter, ...]:
        """All parameters that the captured work uses, named or not, in the order of their first use."""
        uses: ParameterUses | None = getattr(self._impl, "parameters", None)
        return () if uses is None else uses.parameters

    def bind(self, **arrays: Any) -> None:
        """Name arrays that the captured work reads, so that ``replay(inputs=...)`` can give them new contents.

        The graph keeps them alive. Names stay until ``reset()``; binding a name again replaces it. A parameter that was made
        without a name, or that is known by another one, can be bound too.

        Raises
        ------
        TypeError
            Something given is no array of the graph's device.
        ValueError
            A parameter is given that the graph does not use.
        """
        backend = registry.get_backend(self._name)
        check_bound(backend, self.device, self.used_parameters(), arrays)
        for name, array in arrays.items():
            self.retain(array)
            self._bound[name] = array

    def _load(self, inputs: Mapping[str, Any]) -> None:
        backend = registry.get_backend(self._name)
        load_inputs(backend, self.device, self._index, self.used_parameters(), self._bound, inputs)

    def reset(self) -> None:
        """Make the graph new: an open capture is thrown away, the executable, template and pool use are given up.

        Safe with a replay in flight. Arrays that were made in the capture stay valid.
        """
        try:
            self._impl.reset()
        finally:
            self._bound.clear()
            self._exit.close()

    def pool(self) -> MempoolId:
        """The id of the pool that the capture used; other captures may share it.

        Raises
        ------
        GraphStateError
            Before a successful capture and after ``reset()``.
        """
        return self._impl.pool()

    def enable_debug_mode(self) -> None:
        """Before a capture: keep its template, and turn on the backend's extra validation. Never turned off.

        Every replay first checks that what owns the memory of its nodes is alive and where it was (``StalePointerError``).
        """
        self._impl.enable_debug_mode()

    def debug_dump(self, path: PathLike) -> None:
        """Write the graph in the backend's own format: the driver's DOT on CUDA, SYCL's on XPU, graphcap's on the CPU.

        Raises
        ------
        GraphStateError
            No template is live; the message names the options that keep it.
        OSError
            The file cannot be written. Nothing is left half-written.
        """
        self._impl.debug_dump(path)

    def topology(self) -> GraphTopology:
        """Nodes, edges, kinds and parameters as plain data.

        Raises
        ------
        GraphStateError
            No template is live; the message names the options that keep it.
        """
        found: GraphTopology = self._beyond("topology", "topology()")()
        return found

    def retain(self, owner: Any, *, address: int | None = None, nbytes: int = 1) -> Any:
        """Keep an object alive as long as the graph (until ``reset()``); gives it back.

        Parameters
        ----------
        owner
            Any object. Where its memory lies is known for buffers and for whatever has an array interface; pointers to it are
            then owned.
        address, nbytes
            Memory that `owner` keeps, for an object that does not tell it.
        """
        self._beyond("retain", "retain()")(owner if address is None else Declared(owner, address, nbytes))
        return owner

    def update(self, other: Graph) -> None:
        """Give this executable the node parameters of `other`, which was captured with the same topology.

        Raises
        ------
        GraphUpdateError
            The two differ too much; this graph still replays as before.
        UnsupportedError
            The backend lacks ``graph_update``.
        TypeError
            `other` is no Graph.
        """
        if not isinstance(other, Graph):
            raise TypeError(f"update(): expected a captured Graph, not {type(other).__name__}.")
        self._beyond("update", "update()")(other._impl)

    def upload(self) -> None:
        """Send the executable to the device now, so that the first replay does not pay for it.

        Raises
        ------
        UnsupportedError
            The backend lacks ``upload``.
        """
        self._beyond("upload", "upload()")()

    def node(self, which: int | str) -> Any:
        """One node of the executable, to be given other arguments or to be switched off between replays.

        Parameters
        ----------
        which
            Its id in :meth:`topology` (the order of creation), or its name if no other node has the same.

        Raises
        ------
        KeyError
            There is no such node, or several have that name.
        GraphStateError
            No template is live; the message names the options that keep it.
        UnsupportedError
            The backend lacks ``node_update``.
        """
        return self._beyond("node", "node()")(which)

    @property
    def impl(self) -> GraphImplInterface:
        """The backend's implementation, for what only one backend has."""
        return self._impl

    # -- pieces ------------------------------------------------------------------------------------------------------

    def _beyond(self, attribute: str, operation: str) -> Callable[..., Any]:
        found: Callable[..., Any] | None = getattr(self._impl, attribute, None)
        if found is None:
            raise UnsupportedError(self._name, f"Graph.{operation}", attribute)
        return found

    def _enter_device(self, stack: contextlib.ExitStack) -> None:
        assert self._index is not None, "only called for a device with an index"
        backend = registry.get_backend(self._name)
        made = streams.innermost(backend)
        if made is not None and made.device_index != self._index:
            raise CaptureStateError(
                f"capture_begin() on {self.device}",
                f"the current stream is {made!r}, of another device",
                f"Make a stream of {self.device} current first.",
            )
        stack.enter_context(Device(backend, self._index).backend.device_guard(self._index))

    def _dump_if_asked(self) -> None:
        folder = os.environ.get("GRAPHCAP_DUMP")
        if not folder:
            return
        path = os.path.join(folder, f"graph-{os.getpid()}-{next(_dump_numbers)}.dot")
        try:
            os.makedirs(folder, exist_ok=True)
            self._impl.debug_dump(path)
        except OSError as error:
            warnings.warn(f"GRAPHCAP_DUMP: {path} was not written: {error}", GraphcapWarning, stacklevel=4)

    def __repr__(self) -> str:
        state = getattr(getattr(self._impl, "state", None), "state", None)
        return f"<graphcap.Graph {self.device}{'' if state is None else ' ' + state.value}>"

    def __copy__(self) -> NoReturn:
        raise TypeError("a Graph cannot be copied: it owns device handles. Capture again instead.")

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Graph cannot be pickled: it owns device handles. Capture again instead.")

    def __del__(self, _at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        pause = getattr(self, "_gc", None)
        if pause is not None and not _at_exit():
            pause.end()


def _general_replay(reference: weakref.ref[Graph]) -> Callable[..., None]:
    """The class's own ``replay``, without keeping the graph alive."""

    def replay(stream: Any = None, *, inputs: Mapping[str, Any] | None = None) -> None:
        graph = reference()
        if graph is None:
            raise GraphStateError("replay(stream, inputs=...)", "the Graph is gone", "Keep the Graph, not its method.")
        Graph.replay(graph, stream, inputs=inputs)

    return replay


def pool_id_of(pool: Any) -> MempoolId:
    """The id behind whatever names a pool: ``None``, a pair of ints, a :class:`MemPool`, a captured :class:`Graph`.

    Raises
    ------
    TypeError
        Anything else.
    PoolStateError
        The id was never issued, or cannot be one.
    """
    if pool is None:
        return NO_POOL
    if callable(getattr(pool, "pool", None)):  # a graph, whole or in segments
        return MempoolId(*pool.pool())
    given = getattr(pool, "id", pool)
    if not (isinstance(given, tuple) and len(given) == 2 and all(isinstance(half, int) for half in given)):
        raise TypeError(f"pool: expected a MempoolId, a MemPool or a captured Graph, not {type(pool).__name__}.")
    found = MempoolId(*given)
    return found if found == NO_POOL else memory.validate_pool_id(found)
