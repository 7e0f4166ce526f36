"""The CPU's graph implementation."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from graphcap._files import write_whole
from graphcap.backends.base import Backend
from graphcap.backends.cpu.backend import CPUBackend, cpu_backend
from graphcap.backends.cpu.captures import Capture, forbid, lock, open_captures
from graphcap.backends.cpu.describe import describe
from graphcap.backends.cpu.native import walker
from graphcap.backends.cpu.native.executable import NativeExecutable, thread_count
from graphcap.backends.cpu.pointers import first_write, pointer_uses, pool_uses
from graphcap.backends.cpu.replay import PythonExecutable
from graphcap.backends.cpu.stream import CPUStream
from graphcap.backends.graph_impl import GraphImpl
from graphcap.backends.lifetimes import PointerUse
from graphcap.backends.parameter_uses import Use
from graphcap.backends.streams import Stream, current_stream
from graphcap.errors import CaptureForbiddenError
from graphcap.interface import GraphCaptureMode, MempoolId
from graphcap.memory import CachingAllocator

if TYPE_CHECKING:
    from graphcap.topology import GraphTopology

__all__ = ["CPUGraphImpl"]


class CPUGraphImpl(GraphImpl):
    """A captured CPU graph: the template is the list of recorded work, the executable a list of bound calls."""

    backend: ClassVar[Callable[[], Backend]] = staticmethod(cpu_backend)
    _backend: CPUBackend
    _capture: Capture | None = None
    _template: Capture | None = None
    _executable: PythonExecutable | NativeExecutable | None = None

    def _begin(self, stream: Stream, mode: GraphCaptureMode) -> Callable[[int], bool]:
        assert isinstance(stream, CPUStream), "the current stream of the CPU is a CPU stream"
        capture = self._capture = Capture(stream, mode)
        capture.begin()
        return lambda handle: any(member.handle == handle for member in capture.streams)

    def _end(self) -> int:
        capture, self._capture = self._capture, None
        assert capture is not None, "only called while a capture is open"
        capture.end()
        self._template = capture
        return len(capture.nodes)

    def _parameter_uses(self) -> list[Use]:
        return [] if self._template is None else self._template.uses

    # -- memory --------------------------------------------------------------------------------------------------

    def _pointers(self) -> Iterable[PointerUse]:
        assert self._template is not None, "only called while a template is live"
        return pointer_uses(self._template.nodes, everything=self.debug)

    def _marker(self) -> Callable[[], object]:
        capture = self._capture
        assert capture is not None, "only asked for while a capture is open"
        return lambda: len(capture.nodes)

    def _positions(self, marks: Sequence[object]) -> list[int]:
        return [mark if isinstance(mark, int) else 0 for mark in marks]

    def _first_write(self, position: int, low: int, high: int) -> int | None:
        assert self._template is not None, "only called while a template is live"
        return first_write(self._template.nodes, position, low, high)

    def _with_extents(self, uses: list[PointerUse], rows: Sequence[object]) -> list[PointerUse]:
        return []  # asked for later, and exact

    def _pool_uses(self, uses: list[PointerUse] | None) -> Callable[[], Iterable[PointerUse]] | None:
        assert self._template is not None, "only called while a template is live"
        nodes, own = self._template.nodes, weakref.ref(self)

        def later() -> Iterable[PointerUse]:
            graph = own()
            executable = None if graph is None or graph._template is not None else graph._executable
            return pool_uses(nodes, executable.touched if isinstance(executable, NativeExecutable) else None)

        return later

    # -- executable ----------------------------------------------------------------------------------------------

    def _abandon(self) -> None:
        capture, self._capture = self._capture, None
        if capture is not None:
            capture.close()

    def _broken_by(self) -> BaseException | None:
        return None if self._capture is None else self._capture.cause

    def _instantiate(self) -> None:
        assert self._template is not None, "only called while a template is live"
        errors = self._backend.host_errors
        gates = (open_captures, errors.kept)
        refresh = None if self.parameters is None else self.parameters.refresh
        walk = walker()
        if walk is None or os.environ.get("GRAPHCAP_CPU_REPLAY") == "python":
            self._executable = PythonExecutable(self._template.nodes, gates, self._check_replay, refresh)
        else:
            self._executable = NativeExecutable(
                walk, self._template.nodes, gates, self._check_replay, thread_count(), refresh
            )
        if self._checks is None:
            # The executable's own function takes this method's place: nothing stands between the caller and the walk.
            self.__dict__["replay"] = self._executable.replay

    def _launch(self) -> None:
        assert self._executable is not None, "only called while an executable is live"
        self._executable.replay()

    @staticmethod
    def _check_replay() -> None:
        """Called before a replay while a capture is open or a host call has failed."""
        backend = cpu_backend()
        stream = current_stream(backend, 0)
        assert isinstance(stream, CPUStream), "the current stream of the CPU is a CPU stream"
        with lock:
            capture = stream.capture
            if capture is not None:  # E-17
                capture.check_valid("replay()")
                error = CaptureForbiddenError(
                    "replay()",
                    f"{stream!r} is capturing, and a graph that is replayed cannot be recorded",
                    "Replay before or after the capture, on another stream (replay(stream=...)), or capture the work itself.",
                )
                raise forbid(error, capture)
        backend.host_errors.raise_first()

    def _drop_template(self) -> None:
        self._template = None
        if isinstance(self._executable, NativeExecutable) and self._pool is not None:
            # Nothing can be instantiated from the nodes again, so the stores that the strips made dead need no memory.
            self._backend.allocator(0).trim_pool(self._pool, self._executable.touched)

    def _drop_executable(self) -> None:
        self.__dict__.pop("replay", None)
        self._executable = None

    def _forget(self) -> None:
        """As for all backends; but a replay under way (on another thread, or that of a node which asks for this) keeps the
        memory and the owners until it is over (rule 12).
        """
        in_use = None if self._executable is None else self._executable.in_use
        if in_use is None:
            super()._forget()
            return
        pool, self._pool = self._pool, None
        nested, self._nested_pools = self._nested_pools, ()
        owned, self._owned = self._owned, []
        kept = _Kept(self._backend.allocator(0), nested if pool is None else (pool, *nested), owned)
        try:
            super()._forget()
        finally:
            last_user = in_use()
            if last_user is None:
                kept.release()
            else:
                weakref.finalize(last_user, kept.release).atexit = False

    def _topology(self) -> GraphTopology:
        assert self._template is not None, "only called while a template is live"
        return describe(self._template)

    def _dump(self, path: str) -> None:
        from graphcap import dot  # the writer is needed by those who dump, not by those who replay

        text = dot.write(self._topology())
        write_whole(path, text.encode())


class _Kept:
    """Pool uses and owners of a graph that was reset, until :meth:`release`."""

    def __init__(self, allocator: CachingAllocator, pools: tuple[MempoolId, ...], owned: list[object]) -> None:
        self._allocator = allocator
        self._pools = pools
        self._owned = owned

    def release(self) -> None:
        """Give all back. May come from a finalizer."""
        self._owned.clear()
        for pool in self._pools:
            self._allocator.release_pool(pool)
