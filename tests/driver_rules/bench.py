"""The bench a rule is tested on: fresh streams, events, memory and graphs, all taken away again afterwards."""

from __future__ import annotations

import concurrent.futures
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from cuda.bindings import driver as cu

from tests.driver_rules import driving
from tests.driver_rules.driving import BLOCKING, MODES, NON_BLOCKING, Code, HostFunctions, Status, code, ok, status_of

T = TypeVar("T")

PATIENCE = 30.0  # seconds before work given to another thread counts as hung


class OtherThread:
    """One more thread with the same context current, alive until closed, so that it can begin and later end a capture."""

    def __init__(self, context: Any) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(
            1,
            initializer=lambda: ok(cu.cuCtxSetCurrent(context)),  # a context is current per thread
        )

    def __call__(self, fn: Callable[..., T], *args: Any) -> T:
        """``fn(*args)``, run there; its result or its exception."""
        return self._pool.submit(fn, *args).result(timeout=PATIENCE)

    def close(self) -> None:
        self._pool.shutdown(wait=True)


class Bench:
    """Makes what a test needs and takes all of it away.

    Everything is made before a capture begins: creating it later could itself be one of the calls under test.
    """

    def __init__(self, context: Any, device: Any) -> None:
        self.context = context
        self.device = device
        self.host = HostFunctions()
        self._streams: dict[int, Any] = {}
        self._events: dict[int, Any] = {}
        self._graphs: dict[int, Any] = {}
        self._execs: dict[int, Any] = {}
        self._buffers: set[int] = set()
        self._threads: list[OtherThread] = []
        self._undo: list[Callable[[], Any]] = []
        self.scratch = self.buffer(4096)

    # -- things --------------------------------------------------------------------------------------------------

    def stream(self, *, blocking: bool = False, priority: int = 0) -> Any:
        """A new stream; non-blocking unless said, so that the legacy stream plays no part."""
        made = ok(cu.cuStreamCreateWithPriority(BLOCKING if blocking else NON_BLOCKING, priority))
        self._streams[int(made)] = made
        return made

    def streams(self, count: int, *, blocking: bool = False) -> list[Any]:
        """Several new streams."""
        return [self.stream(blocking=blocking) for _ in range(count)]

    def event(self, *, timing: bool = False) -> Any:
        """A new event, without timing unless said."""
        made = ok(cu.cuEventCreate(0 if timing else 2))
        self._events[int(made)] = made
        return made

    def recorded_event(self) -> Any:
        """An event recorded outside any capture, its work done."""
        event, stream = self.event(), self.stream()
        ok(cu.cuEventRecord(event, stream))
        ok(cu.cuStreamSynchronize(stream))
        return event

    def buffer_unchecked(self, nbytes: int) -> int:
        """Device memory as it comes: for use while a capture is open, when nothing may be synchronised."""
        made = int(ok(cu.cuMemAlloc(nbytes)))
        self._buffers.add(made)
        return made

    def buffer(self, nbytes: int = 256) -> int:
        """Device memory, zeroed."""
        made = self.buffer_unchecked(nbytes)
        ok(cu.cuMemsetD8(made, 0, nbytes))
        ok(cu.cuCtxSynchronize())
        return made

    def free(self, pointer: int) -> None:
        """Device memory of `buffer` given back early."""
        self._buffers.discard(pointer)
        ok(cu.cuMemFree(pointer))

    def graph(self) -> Any:
        """A new empty graph."""
        return self.keep_graph(ok(cu.cuGraphCreate(0)))

    def keep_graph(self, graph: Any) -> Any:
        """Has ``graph`` destroyed afterwards; gives it back."""
        self._graphs[int(graph)] = graph
        return graph

    def instantiate(self, graph: Any, flags: int = 0) -> Any:
        """An executable of ``graph``."""
        return self.keep_exec(ok(cu.cuGraphInstantiate(graph, flags)))

    def forget_graph(self, graph: Any) -> None:
        """Leaves ``graph`` to its fate: for one that a broken capture may or may not have taken along."""
        self._graphs.pop(int(graph), None)

    def later(self, undo: Callable[[], Any]) -> None:
        """Has ``undo()`` called afterwards, once no capture is open; it has to succeed."""
        self._undo.append(undo)

    def keep_exec(self, executable: Any) -> Any:
        """Has ``executable`` destroyed afterwards; gives it back."""
        self._execs[int(executable)] = executable
        return executable

    def other_thread(self) -> OtherThread:
        """One more thread."""
        made = OtherThread(self.context)
        self._threads.append(made)
        return made

    # -- what a test destroys itself ---------------------------------------------------------------------------------

    def destroy_stream(self, stream: Any) -> int:
        """cuStreamDestroy; the code."""
        self._streams.pop(int(stream), None)
        return code(cu.cuStreamDestroy(stream))

    def destroy_event(self, event: Any) -> int:
        """cuEventDestroy; the code."""
        self._events.pop(int(event), None)
        return code(cu.cuEventDestroy(event))

    def destroy_graph(self, graph: Any) -> int:
        """cuGraphDestroy; the code. On a refusal the graph stays with the bench."""
        answer = code(cu.cuGraphDestroy(graph))
        if answer == Code.SUCCESS:
            self._graphs.pop(int(graph), None)
        return answer

    def destroy_exec(self, executable: Any) -> int:
        """cuGraphExecDestroy; the code. On a refusal the executable stays with the bench."""
        answer = code(cu.cuGraphExecDestroy(executable))
        if answer == Code.SUCCESS:
            self._execs.pop(int(executable), None)
        return answer

    # -- capture -----------------------------------------------------------------------------------------------------

    def begin(self, stream: Any, mode: str = "global") -> None:
        """Begins a capture."""
        ok(cu.cuStreamBeginCapture(stream, MODES[mode]))

    def end(self, stream: Any) -> Any:
        """Ends a capture; the graph, which the bench destroys later."""
        return self.keep_graph(ok(cu.cuStreamEndCapture(stream)))

    def end_code(self, stream: Any) -> int:
        """Ends a capture, or tries to; the code. A graph that comes of it is destroyed."""
        answer = cu.cuStreamEndCapture(stream)
        if code(answer) == Code.SUCCESS:
            ok(cu.cuGraphDestroy(answer[1]))
        return code(answer)

    def work(self, stream: Any, value: int = 1) -> None:
        """One piece of work in a stream: a memset of 16 bytes of the scratch buffer (so one node when captured)."""
        ok(cu.cuMemsetD8Async(self.scratch, value, 16, stream))

    def work_code(self, stream: Any) -> int:
        """As `work`; the code."""
        return code(cu.cuMemsetD8Async(self.scratch, 1, 16, stream))

    def fork(self, source: Any, target: Any, event: Any | None = None) -> Any:
        """Has ``target`` wait for what ``source`` has so far, by an event; the event."""
        event = event or self.event()
        ok(cu.cuEventRecord(event, source))
        ok(cu.cuStreamWaitEvent(target, event, 0))
        return event

    def fork_joined(self, source: Any, targets: list[Any], join: Any | None = None) -> None:
        """Forks each of ``targets`` from ``source``, gives each work, and joins them into ``join`` (``source``)."""
        for target in targets:
            self.fork(source, target)
            self.work(target)
            self.fork(target, join or source)

    def invalidate(self, stream: Any) -> None:
        """Breaks the capture of ``stream`` by a forbidden call (S-D15)."""
        assert code(cu.cuStreamQuery(stream)) == Code.CAPTURE_UNSUPPORTED
        assert status_of(stream) == Status.INVALIDATED

    # -- graphs --------------------------------------------------------------------------------------------------------

    def memset_params(self, pointer: int | None = None, value: int = 1, width: int = 16, **other: int) -> Any:
        """Parameters of a memset node: ``width`` elements of one byte unless said."""
        params = cu.CUDA_MEMSET_NODE_PARAMS()
        params.dst = cu.CUdeviceptr(self.scratch if pointer is None else pointer)
        params.value = value
        params.elementSize = other.get("element_size", 1)
        params.width = width
        params.height = other.get("height", 1)
        params.pitch = other.get("pitch", 0)
        return params

    def add_memset(self, graph: Any, after: list[Any] | None = None, **params: Any) -> Any:
        """A memset node in ``graph``."""
        after = after or []
        return ok(cu.cuGraphAddMemsetNode(graph, after, len(after), self.memset_params(**params), self.context))

    def copy_params(self, target: int, source: int, nbytes: int, *, to: str = "device", of: str = "device") -> Any:
        """Parameters of a one-dimensional copy between ``"device"`` and ``"host"`` memory."""
        kinds = {"device": cu.CUmemorytype.CU_MEMORYTYPE_DEVICE, "host": cu.CUmemorytype.CU_MEMORYTYPE_HOST}
        params = cu.CUDA_MEMCPY3D()
        params.srcMemoryType, params.dstMemoryType = kinds[of], kinds[to]
        if of == "device":
            params.srcDevice = cu.CUdeviceptr(source)
        else:
            params.srcHost = source
        if to == "device":
            params.dstDevice = cu.CUdeviceptr(target)
        else:
            params.dstHost = target
        params.WidthInBytes, params.Height, params.Depth = nbytes, 1, 1
        return params

    def add_copy(self, graph: Any, params: Any, after: list[Any] | None = None) -> Any:
        """A memcpy node in ``graph``."""
        after = after or []
        return ok(cu.cuGraphAddMemcpyNode(graph, after, len(after), params, self.context))

    def add_empty(self, graph: Any, after: list[Any] | None = None) -> Any:
        """An empty node in ``graph``."""
        after = after or []
        return ok(cu.cuGraphAddEmptyNode(graph, after, len(after)))

    def add_edge(self, graph: Any, source: Any, target: Any) -> int:
        """cuGraphAddDependencies of one plain edge; the code."""
        return code(driving.add_dependencies(graph, [source], [target], None, 1))

    def chain(self, graph: Any, length: int) -> list[Any]:
        """A chain of memset nodes in ``graph``."""
        made: list[Any] = []
        for _ in range(length):
            made.append(self.add_memset(graph, made[-1:]))
        return made

    def read(self, pointer: int, nbytes: int) -> bytes:
        """What device memory holds, after all work is done."""
        ok(cu.cuCtxSynchronize())
        into = bytearray(nbytes)
        ok(cu.cuMemcpyDtoH(driving.address_of(into), pointer, nbytes))
        return bytes(into)

    def run(self, executable: Any, stream: Any | None = None) -> None:
        """Launches an executable and waits for it."""
        stream = stream or self.stream()
        ok(cu.cuGraphLaunch(executable, stream))
        ok(cu.cuStreamSynchronize(stream))

    # -- afterwards ------------------------------------------------------------------------------------------------------

    def close(self) -> list[str]:
        """Takes everything away, whatever state a failed test has left; what was not as it should be is in the answer."""
        left = [f"{stream} is {status_of(stream).name}" for stream in self._streams.values() if status_of(stream)]
        ends: list[Callable[[Any], int]] = [self.end_code]
        ends += [functools.partial(thread, self.end_code) for thread in self._threads]
        for end in ends:
            for (
                stream
            ) in self._streams.values():  # from each thread in turn: a capture may be bound to the one it began in
                if status_of(stream):
                    end(stream)
        for thread in self._threads:
            thread.close()
        undo: list[Callable[[], Any]] = [cu.cuCtxSynchronize, *reversed(self._undo)]
        undo += [functools.partial(cu.cuGraphExecDestroy, each) for each in self._execs.values()]
        undo += [functools.partial(cu.cuGraphDestroy, each) for each in self._graphs.values()]
        undo += [functools.partial(cu.cuEventDestroy, each) for each in self._events.values()]
        undo += [functools.partial(cu.cuStreamDestroy, each) for each in self._streams.values()]
        undo += [functools.partial(cu.cuMemFree, each) for each in self._buffers]
        codes = [code(each()) for each in undo]
        return left + [f"clean-up gave {each!r}" for each in codes if each != Code.SUCCESS]
