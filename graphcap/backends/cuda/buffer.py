"""Device buffers and pinned host buffers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphcap.backends.buffer import Buffer
from graphcap.backends.cuda.context import DeviceGuard
from graphcap.errors import CaptureForbiddenError, UnsupportedError
from graphcap.interface import CaptureStatus

if TYPE_CHECKING:
    from graphcap.backends.cuda.stream import CUDAStream
    from graphcap.memory import Block, CachingAllocator

__all__ = ["CUDABuffer", "PinnedBuffer"]

_DLPACK_CUDA: Final = 2
_LEGACY: Final = 1


class CUDABuffer(Buffer):
    """A buffer of device memory: ``cupy.asarray(buffer)``, ``torch.from_dlpack(buffer)``, and the like, as bytes.

    The array interface names the stream that the buffer was made for, so that another library orders its work after what was
    submitted there; while that stream captures it names none, because waiting for it would break the capture.
    """

    __slots__ = ("stream",)

    def __init__(self, stream: CUDAStream, block: Block | None, nbytes: int) -> None:
        super().__init__(stream.backend, stream.device_index, block, nbytes)
        self.stream = stream

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        capturing = self.stream.capture_status is not CaptureStatus.NONE
        return {
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "data": (self.ptr, False),
            "strides": None,
            "version": 3,
            "stream": None if capturing else self.stream.handle or _LEGACY,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_DLPACK_CUDA, self.device_index)

    def check_export(self, stream: int | None, dl_device: tuple[int, int] | None, copy: bool | None) -> None:
        """Refuse what an export cannot do, and let the consumer's stream wait for the buffer's. Raises as :meth:`__dlpack__`.

        In a capture of the consumer's alone nothing waits: work that was submitted eagerly cannot be waited for in a graph,
        so whoever replays it puts that work before the replay.
        """
        if copy:
            raise BufferError("a graphcap buffer is exported as it is; copy it with Stream.copy() first.")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the buffer lies on {self.device}, not on DLPack device {tuple(dl_device)}.")
        if stream == 0:
            raise BufferError("__dlpack__(stream=0): DLPack forbids 0; the legacy default stream is 1.")
        if stream == -1:
            return
        consumer = self.backend.wrap_stream(_LEGACY if stream is None else stream, self.device_index)
        if consumer == self.stream:
            return
        if self.stream.capture_status is not CaptureStatus.NONE:
            if consumer.is_default or consumer.capture_id != self.stream.capture_id:
                raise CaptureForbiddenError(
                    f"__dlpack__(stream={stream})",
                    f"{self.stream!r}, which the buffer was made for, captures, and {consumer!r} takes no part in that",
                    "Make the capturing stream the importing library's current one, or ask for no ordering: stream=-1.",
                )
        elif consumer.capture_status is not CaptureStatus.NONE:
            return
        consumer.wait(self.stream)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of the buffer's bytes.

        Parameters
        ----------
        stream
            The consumer's stream, which is made to wait for the buffer's own; ``None`` is the legacy default stream, -1 asks for
            no ordering.

        Raises
        ------
        UnsupportedError
            cuda.core, which makes the capsule, is not installed.
        BufferError
            A copy or another device is asked for, or `stream` is 0, which DLPack does not allow.
        CaptureForbiddenError
            The buffer's stream captures, and `stream` (the legacy default stream, if not given) takes no part in that capture.
        """
        self.check_export(stream, dl_device, copy)
        try:
            core: Any = importlib.import_module("cuda.core")
        except ImportError as error:
            raise UnsupportedError("CUDA", "Buffer.__dlpack__()", "dlpack", "pip install cuda-core") from error
        with DeviceGuard(self.device_index):
            view = core.Buffer.from_handle(self.ptr, self.nbytes, owner=self)
            return view.__dlpack__(stream=-1, max_version=max_version)


class PinnedBuffer(Buffer):
    """A buffer of page-locked host memory: ``numpy.asarray(buffer)`` is a view of its bytes.

    Copies from and to it run without a stop of the host. A graph that captured such a copy keeps the buffer (S-C34).
    """

    __slots__ = ()

    on_host = True

    def __init__(self, stream: CUDAStream, allocator: CachingAllocator, block: Block | None, nbytes: int) -> None:
        super().__init__(stream.backend, stream.device_index, block, nbytes)
        self._allocator = allocator if block is not None else None

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if not self.nbytes:
            return {"shape": (0,), "typestr": "|u1", "data": (_EMPTY_ADDRESS, False), "version": 3}
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.ptr, False), "version": 3}

    def __dlpack__(self, **options: Any) -> Any:
        return np.asarray(self).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU: what NumPy exports; the memory is the host's

    def record_stream(self, stream: Any) -> None:
        if self.block is not None and self._allocator is not None:
            self._allocator.record_stream(self.block, stream.handle)


_EMPTY: Final = np.zeros(1, np.uint8)
_EMPTY_ADDRESS: Final = int(_EMPTY.__array_interface__["data"][0])
