"""The contract between graphcap and a backend: what a graph implementation must offer, and in which order it is called.

This is the device-neutral graph interface of PyTorch (``GraphImplInterface``) restated in Python. A backend writer
implements :class:`GraphImplInterface` and registers a factory (:func:`graphcap.register_graph_impl`); everything that
users see (:class:`graphcap.Graph`, :func:`graphcap.capture`) is built on these eight methods.

Order of calls::

    impl = factory(GraphImplArgs(keep_graph=...))
    impl.capture_begin(pool, mode)      # on the current stream of the current device
    ...                                 # work is submitted to the stream: recorded, never run
    impl.capture_end()                  # same stream, same thread (unless the mode is RELAXED)
    impl.instantiate()                  # only needed with keep_graph=True; replay() does it on first use
    impl.replay()                       # any number of times, on the then current stream of the capture's device
    impl.reset()                        # back to a new object; never raises for a state it finds

State after a failure: a call that raises leaves the object as it was before the call, with one exception:
``capture_end`` always ends the capture, whatever it raises, and the object is new again (S-B17, E-4).
"""

from __future__ import annotations

import abc
import enum
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NoReturn

__all__ = [
    "NO_POOL",
    "CaptureStatus",
    "DeviceType",
    "GraphCaptureMode",
    "GraphImplArgs",
    "GraphImplInterface",
    "MempoolId",
    "MempoolId_t",
    "capture_mode",
    "device_type_name",
]


class DeviceType(str):
    """The name of a kind of device, in the upper-case spelling that PyTorch prints.

    An open set: any identifier is accepted, so that a backend outside this tree needs no change here. Names compare
    and hash as their upper-case text, whatever the case they were given in.

    Parameters
    ----------
    name
        Letters, digits and underscores, starting with a letter: ``"cuda"``, ``"XPU"``, ``"my_npu"``.

    Raises
    ------
    TypeError
        If `name` is not a string.
    ValueError
        If `name` is not such an identifier; a device *index* (``"cuda:1"``) is one case of it.
    """

    __slots__ = ()

    CPU: Final[DeviceType]  # type: ignore[misc]  # set below the class: a str cannot hold itself while it is being made
    CUDA: Final[DeviceType]  # type: ignore[misc]  # as above
    XPU: Final[DeviceType]  # type: ignore[misc]  # as above
    HPU: Final[DeviceType]  # type: ignore[misc]  # as above
    MTIA: Final[DeviceType]  # type: ignore[misc]  # as above
    PRIVATEUSEONE: Final[DeviceType]  # type: ignore[misc]  # as above

    def __new__(cls, name: str) -> DeviceType:
        if isinstance(name, DeviceType):
            return name
        if not isinstance(name, str):
            raise TypeError(f"a device type is a string such as 'cuda', not {type(name).__name__}")
        if ":" in name:
            raise ValueError(f"device type {name!r}: a device type has no index. Use {name.split(':', 1)[0]!r}.")
        if not (name.isidentifier() and name.isascii() and name[0].isalpha()):
            raise ValueError(f"device type {name!r}: use letters, digits and underscores, starting with a letter.")
        return super().__new__(cls, name.upper())

    def __repr__(self) -> str:
        return f"DeviceType({str(self)!r})"

    @classmethod
    def known(cls) -> Iterator[DeviceType]:
        """The names that PyTorch itself prints, in its order."""
        return (cls(name) for name in _KNOWN_DEVICE_TYPES)


_KNOWN_DEVICE_TYPES: Final = (
    "CPU", "CUDA", "MKLDNN", "OPENGL", "OPENCL", "IDEEP", "HIP", "FPGA", "MAIA", "XLA", "VULKAN", "METAL", "XPU", "MPS",
    "META", "HPU", "VE", "LAZY", "IPU", "MTIA", "PRIVATEUSEONE",
)  # fmt: skip
for _name in _KNOWN_DEVICE_TYPES:
    setattr(DeviceType, _name, DeviceType(_name))
del _name


def device_type_name(device_type: str, lower_case: bool = False) -> str:
    """The printed name of a device type.

    Parameters
    ----------
    device_type
        A :class:`DeviceType` or its name in any case.
    lower_case
        Give ``"cuda"`` instead of ``"CUDA"``.

    Raises
    ------
    TypeError, ValueError
        As :class:`DeviceType`.
    """
    name = str(DeviceType(device_type))
    return name.lower() if lower_case else name


class GraphCaptureMode(enum.IntEnum):
    """How strictly a capture forbids unsafe calls, and where (S-D8 to S-D11)."""

    DEFAULT = 0
    """The backend's own default: ``THREAD_LOCAL`` on CUDA and CPU."""
    GLOBAL = 1
    """Unsafe calls are forbidden to every thread of the process whose own mode is not relaxed or thread-local."""
    THREAD_LOCAL = 2
    """Unsafe calls are forbidden to the thread that began the capture."""
    RELAXED = 3
    """Only calls that conflict with the capture itself are forbidden; the capture may end on another thread."""


_MODE_NAMES: Final = {mode.name.lower(): mode for mode in GraphCaptureMode}


def capture_mode(mode: GraphCaptureMode | int | str) -> GraphCaptureMode:
    """The :class:`GraphCaptureMode` for a mode, its number, or its lower-case name.

    Raises
    ------
    ValueError
        For any other number or name; raised where the mode is given, not when the capture begins.
    TypeError
        For another type.
    """
    if isinstance(mode, str):
        found = _MODE_NAMES.get(mode)
        if found is not None:
            return found
    elif isinstance(mode, int) and not isinstance(mode, bool):
        try:
            return GraphCaptureMode(mode)
        except ValueError:
            pass
    else:
        raise TypeError(f"a capture mode is a GraphCaptureMode or its name, not {type(mode).__name__}")
    raise ValueError(f"capture mode {mode!r} is unknown. Use one of: {', '.join(map(repr, _MODE_NAMES))}.")


class CaptureStatus(enum.IntEnum):
    """What a stream says of itself (the driver's own numbers)."""

    NONE = 0
    ACTIVE = 1
    INVALIDATED = 2


class MempoolId(NamedTuple):
    """The name of a private memory pool.

    ``(0, 0)`` is none; ``(n, 0)`` was made for one capture; ``(0, n)`` was made by the user
    (:func:`graphcap.graph_pool_handle`, :class:`graphcap.MemPool`). Both numbers come from process-wide counters.
    Both nonzero, negative, or never issued: refused where the id is used.
    """

    first: int
    second: int


MempoolId_t = MempoolId
NO_POOL: Final = MempoolId(0, 0)


@dataclass(frozen=True, kw_only=True)
class GraphImplArgs:
    """What a graph implementation is built from. May grow; a backend must ignore fields it does not know.

    Attributes
    ----------
    keep_graph
        Keep the template after ``capture_end`` (rule 10 of the design).
    """

    keep_graph: bool = False


class GraphImplInterface(abc.ABC):
    """One graph of one backend. Bound to a device *type* when built, to a device and a stream by ``capture_begin``.

    Implementations are not thread-safe by themselves, except that ``reset`` may run from a finalizer on any thread.
    They cannot be copied or pickled.

    Every method may raise ``DriverError`` for a failure of the device that has no class of its own.
    """

    @abc.abstractmethod
    def __init__(self, args: GraphImplArgs) -> None:
        """Build an empty graph. Must not touch the device beyond checking that it exists."""

    @abc.abstractmethod
    def capture_begin(
        self, pool: MempoolId = NO_POOL, capture_mode: GraphCaptureMode = GraphCaptureMode.DEFAULT
    ) -> None:
        """Begin to capture the current stream of the current device.

        Allocations made on captured streams come from `pool` from before the driver's capture begins until
        ``capture_end`` (S-B8, S-B13).

        Parameters
        ----------
        pool
            A pool to share, or ``MempoolId(0, 0)`` for a new one.
        capture_mode
            See :class:`GraphCaptureMode`. A backend without that mode warns once per object and uses its own.

        Raises
        ------
        CaptureStateError
            The object already captures, or already holds a template or an executable; the stream is the legacy
            default stream, or already captures.
        PoolStateError
            `pool` was never issued, is open in another capture, or was a capture's own and is gone.
        """

    @abc.abstractmethod
    def capture_end(self) -> None:
        """End the capture. Without ``keep_graph`` instantiates at once and drops the template.

        The current stream must be the one on which the capture began; otherwise nothing is undone.

        Raises
        ------
        CaptureStateError
            Nothing captures here; wrong stream; wrong thread.
        UnjoinedStreamError, CaptureInvalidatedError
            The capture cannot become a graph. It is ended all the same, and the object is new again.

        Warns
        -----
        EmptyGraphWarning
            No node was captured. The state is committed before the warning is issued.
        """

    @abc.abstractmethod
    def instantiate(self) -> None:
        """Make an executable from the template; an earlier executable is dropped.

        On a graph that is instantiated and whose template is gone it does nothing, so that portable code may always
        call it (a deliberate difference from PyTorch, S-A26).

        Raises
        ------
        GraphStateError
            Nothing was captured yet.
        """

    @abc.abstractmethod
    def replay(self) -> None:
        """Launch the graph on the current stream of the capture's device. Asynchronous; instantiates on first use.

        Raises
        ------
        GraphStateError
            Nothing was captured, or a capture is open.
        """

    @abc.abstractmethod
    def reset(self) -> None:
        """Make the object new: an open capture is ended and thrown away, pool uses are given back, handles destroyed.

        Idempotent. Safe while a replay is in flight. Destruction waits while any capture is open (rule 9).
        """

    @abc.abstractmethod
    def pool(self) -> MempoolId:
        """The id of the pool that this graph uses.

        Raises
        ------
        GraphStateError
            Before a successful capture and after ``reset``.
        """

    @abc.abstractmethod
    def enable_debug_mode(self) -> None:
        """Keep the template of later captures for ``debug_dump``, and validate more. Per object; never cleared."""

    @abc.abstractmethod
    def debug_dump(self, path: str | os.PathLike[str]) -> None:
        """Write the graph to `path` in the backend's own format (any suffix). Needs a live template.

        Raises
        ------
        GraphStateError
            No template is live: the message names the option that keeps it.
        OSError
            The file cannot be written; nothing is left half-written.
        """

    def __copy__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be copied: it owns device handles. Capture again instead.")

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be pickled: it owns device handles. Capture again instead.")
