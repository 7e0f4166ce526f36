"""What Numba does while a capture is open: arrays that captured work uses are kept, work that would be missed is refused.

Numba has no hook for this. So while a capture is open, and only then, five of its functions are replaced by ones that look at the
stream and go on to the original: the four copies of ``numba.cuda.cudadrv.driver`` and the launch of
``numba.cuda.dispatcher``. ``tests/interop/test_pins_numba.py`` fails if a release moves them; at run time a warning then says
what is not watched.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from graphcap._this_thread import ThreadMark, thread_mark
from graphcap.backends.cuda import cuda_backend
from graphcap.backends.cuda._calls import Mode
from graphcap.backends.streams import Stream
from graphcap.errors import GraphcapWarning
from graphcap.interop import _explain
from graphcap.interop._blocks import LEGACY, BlockTable, handle_of, numba_base

__all__ = ["POINTS", "Guard"]


class Point(NamedTuple):
    """A function of Numba, by the module that it is looked up in at each call."""

    module: str
    name: str
    what: str


_DEFAULT_STREAMS: Final = (0, LEGACY, 2)
"""The driver's numbers of the legacy default stream and of the thread's own."""
_DRIVER: Final = "numba.cuda.cudadrv.driver"
POINTS: Final = (
    Point(_DRIVER, "host_to_device", "copy from the host"),
    Point(_DRIVER, "device_to_host", "copy to the host"),
    Point(_DRIVER, "device_to_device", "copy between device arrays"),
    Point(_DRIVER, "device_memset", "fill"),
    Point("numba.cuda.dispatcher", "launch", "kernel launch"),
)


class Guard:
    """Watches Numba's calls from the first open capture to the last.

    Parameters
    ----------
    blocks
        Numba's memory that came from graphcap.
    cure
        How to name a stream to Numba.
    """

    def __init__(self, blocks: BlockTable, cure: str) -> None:
        self._blocks = blocks
        self._cure = cure
        self._lock = threading.Lock()
        self._open = 0
        self._originals: dict[Point, Any] = {}
        self._threads: Counter[ThreadMark] = Counter()
        """The threads that began an open capture, relaxed ones left out."""
        self._pools: dict[Any, tuple[int, int]] = {}
        """The pool of each open capture."""

    @contextlib.contextmanager
    def watching(self, stream: Stream, pool: tuple[int, int]) -> Iterator[None]:
        """While the ``with`` is open, a capture on `stream` into `pool` is."""
        backend: Any = stream.backend
        capture = backend.captures.of_stream(stream.handle)
        thread = thread_mark()
        strict = capture.mode is not Mode.RELAXED
        with self._lock:
            if not self._open:
                self._install()
            self._open += 1
            self._pools[capture] = pool
            self._threads[thread] += strict
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1
                self._threads[thread] -= strict
                if not self._threads[thread]:
                    del self._threads[thread]
                del self._pools[capture]
                if not self._open:
                    self._remove()

    def _install(self) -> None:
        missing = []
        for point in POINTS:
            module = importlib.import_module(point.module)
            original = getattr(module, point.name, None)
            if original is None:
                missing.append(f"{point.module}.{point.name}")
                continue
            self._originals[point] = original
            make = self._launch if point.name == "launch" else self._transfer
            setattr(module, point.name, make(point, original))
        if missing:
            warnings.warn(
                f"this release of numba-cuda lacks {', '.join(missing)}: inside captures, work on Numba's default stream is "
                "not refused, and arrays that captured work uses are not kept. Keep them yourself (Graph.retain).",
                GraphcapWarning,
                stacklevel=2,
            )

    def _remove(self) -> None:
        while self._originals:
            point, original = self._originals.popitem()
            setattr(importlib.import_module(point.module), point.name, original)

    # -- the functions in place of Numba's -------------------------------------------------------------------------

    def _transfer(self, point: Point, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def transfer(dst: Any, src: Any, size: Any, stream: Any = 0) -> Any:
            self._look(point, stream, (dst, src))
            return original(dst, src, size, stream=stream)

        return transfer

    def _launch(self, point: Point, original: Callable[..., Any]) -> Callable[..., Any]:
        dispatch: Any = importlib.import_module(point.module)
        arguments: Callable[[], Any] = getattr(dispatch._dispatcher, "get_current_launch_args", tuple)

        @functools.wraps(original)
        def launch(stream: Any, config: Any, kernel: Any, *args: Any) -> Any:
            self._look(point, stream, (kernel, *(arguments() or ())))
            return original(stream, config, kernel, *args)

        return launch

    def _look(self, point: Point, stream: Any, owners: tuple[Any, ...]) -> None:
        handle = handle_of(stream) if stream else 0
        backend = cuda_backend()
        capture = None
        if handle not in (0, LEGACY):
            with backend.device_guard(backend.current_device()):
                capture = backend.captures.of_stream(handle)
        if capture is None:
            if handle in _DEFAULT_STREAMS and self._threads[thread_mark()] > 0:
                raise _explain.refused(
                    f"numba.cuda: {point.what}",
                    "it goes to Numba's default stream, which is not captured: it would run now, and not when the graph is "
                    "replayed",
                    self._cure,
                )
            return
        for owner in owners:
            if not self._is_of_pool(owner, self._pools.get(capture)):
                capture.retain(owner)

    def _is_of_pool(self, owner: Any, pool: tuple[int, int] | None) -> bool:
        """Whether an array lies in the capture's own pool, whose temporaries the captured program may use again."""
        block = self._blocks.block(numba_base(owner))
        return block is not None and block.pool_id == pool
