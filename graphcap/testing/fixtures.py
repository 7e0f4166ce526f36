"""What a backend tells the suite about itself: one class."""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import graphcap
from graphcap import registry
from graphcap.backends.base import Backend, Capabilities
from graphcap.backends.parameters import Scalar
from graphcap.topology import NodeKind

__all__ = ["BackendFixtures", "FloatArray", "scalar"]

FloatArray = NDArray[np.float32]


class BackendFixtures(abc.ABC):
    """A backend under test. A subclass names the device and launches one kernel; all else has a default.

    One object is made for each test. What the backend can do is not told here but by its
    :class:`graphcap.Capabilities`: a test that needs more is skipped, with the missing capability as the reason.

    Attributes
    ----------
    device
        The device string: ``"cpu"``, ``"cuda"``, ``"xpu"``.
    seeds
        The whole suite runs once for each of these: seeds of a scheduler that decides in which order independent work
        runs. A backend whose order cannot be chosen keeps the default.
    kinds
        The node kind that one call of ``copy``, ``fill``, ``launch`` and ``host_call`` leaves in a topology. A backend
        whose driver uses other words says so here.
    """

    device: ClassVar[str]
    seeds: ClassVar[Sequence[int]] = (0,)
    kinds: ClassVar[Mapping[str, NodeKind]] = {
        "copy": NodeKind.MEMCPY,
        "fill": NodeKind.MEMSET,
        "launch": NodeKind.KERNEL,
        "host_call": NodeKind.HOST,
    }

    # -- to be supplied ------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def launch_axpy(self, stream: graphcap.Stream, out: Any, a: Any, x: Any, y: Any) -> None:
        """Submit one kernel that computes ``out = a * x + y`` over float32 items, element by element.

        Parameters
        ----------
        stream
            Where to submit it; it may be capturing.
        out, x, y
            Buffers of equal size; `out` may be `x` or `y`. Number of items: ``out.nbytes // 4``.
        a
            A small whole number, so that the result is exact whichever way the device rounds. On a backend with the
            capability ``parameters`` it may be a ``graphcap.parameter`` of type float32, or an expression of some, which goes
            to the kernel as it is: :func:`scalar` tells the two apart.
        """

    # -- around each test ----------------------------------------------------------------------------------------

    def start(self, seed: int) -> None:  # noqa: B027  # a hook: most backends need none
        """Called before each test, with one of :attr:`seeds`."""

    def finish(self) -> None:  # noqa: B027  # as above
        """Called after each test, once the suite has let go of all its objects: the place for leak checks."""

    # -- vocabulary of the tests ---------------------------------------------------------------------------------

    @property
    def backend(self) -> Backend:
        """The backend under test."""
        return registry.get_backend(self.device.partition(":")[0])

    @property
    def device_type(self) -> str:
        """The device's type without an index."""
        return self.device.partition(":")[0]

    @property
    def capabilities(self) -> Capabilities:
        """What the backend declares."""
        return self.backend.capabilities

    def make_stream(self, *, blocking: bool = False) -> graphcap.Stream:
        """A new stream."""
        make: Any = graphcap.Stream  # to type checkers it is an abstract class; calling it builds the backend's own
        made: graphcap.Stream = make(self.device, blocking=blocking)
        return made

    def default_stream(self) -> graphcap.Stream:
        """The device's default stream, which cannot be captured."""
        return self.backend.default_stream(self.backend.current_device())

    @functools.cached_property
    def helper(self) -> graphcap.Stream:
        """The stream on which the tests prepare and look; no test captures it."""
        return self.make_stream()

    def let_go(self) -> None:
        """Drop what this object made for itself; called before :meth:`finish`."""
        self.__dict__.pop("helper", None)

    def allocate(self, nbytes: int, stream: graphcap.Stream | None = None) -> Any:
        """A buffer with unknown contents, first used on `stream` (the current one if not given)."""
        return graphcap.allocate(nbytes, device=self.device) if stream is None else stream.allocate(nbytes)

    def upload(self, array: Any) -> Any:
        """A buffer of the device with the bytes of a host array. Not while the calling thread captures."""
        host = np.ascontiguousarray(array)
        buffer = self.helper.allocate(host.nbytes)
        self.helper.copy(buffer, host)
        self.helper.synchronize()
        return buffer

    def download(self, buffer: Any, dtype: Any = np.float32) -> NDArray[Any]:
        """The contents of a buffer, after all work of the device is done. Not while anything captures."""
        graphcap.synchronize(self.device)
        host = np.empty(buffer.nbytes // np.dtype(dtype).itemsize, dtype)
        self.helper.copy(host, buffer)
        self.helper.synchronize()
        return host

    def poison(self, nbytes: int, *streams: graphcap.Stream) -> list[Any]:
        """Buffers that take the free memory of this size that uploads and `streams` left; all their bytes are 0xAB."""
        taken = [stream.allocate(nbytes) for stream in (self.helper, *streams) for _ in range(8)]
        for buffer in taken:
            self.helper.fill(buffer, 0xAB)
        self.helper.synchronize()
        return taken


def scalar(a: Any) -> Any:
    """The factor of :meth:`BackendFixtures.launch_axpy` as a kernel's argument: a float32, or a parameter as it is."""
    return a if isinstance(a, Scalar) else np.float32(a)
