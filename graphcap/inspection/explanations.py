"""What the error codes and messages around capture mean, what usually causes them, and what helps.

The codes and their meaning follow the driver's documentation; causes and cures come from the rules and the reports
collected in the reference pages, whose marks stand behind each text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["EXPLANATIONS", "Explanation", "explain"]


@dataclass(frozen=True)
class Explanation:
    """One error.

    Attributes
    ----------
    code
        The number that the driver and the runtime share; 0 for errors of graphcap alone.
    name
        The driver's suffix in capitals (``STREAM_CAPTURE_UNSUPPORTED``), or the class of graphcap's error.
    error
        The class that graphcap raises.
    meaning, causes, cures
        In words.
    sources
        Rules of the reference pages.
    """

    code: int
    name: str
    error: str
    meaning: str
    causes: tuple[str, ...]
    cures: tuple[str, ...]
    sources: str
    words: tuple[str, ...] = ()

    @property
    def spellings(self) -> tuple[str, ...]:
        """The names under which the error is met: driver, runtime, HIP."""
        if not self.code:
            return (self.name,)
        camel = "".join(part.capitalize() for part in self.name.split("_"))
        return (f"CUDA_ERROR_{self.name}", f"cudaError{camel}", f"hipError{camel}")


EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        900,
        "STREAM_CAPTURE_UNSUPPORTED",
        "CaptureForbiddenError",
        "A call that must not happen while a stream captures; the whole capture is invalidated.",
        (
            "synchronizing or querying the capturing stream, an event of it, or the device (.get(), print, .item())",
            "allocating or freeing device or pinned memory with a synchronous call (cudaMalloc, cudaHostAlloc, cudaFree)",
            "a library's first call: lazy module load, plan or workspace creation, autotuning",
            "another thread synchronizing or querying an event while the capture is in global mode",
            "launching an executable graph into a capturing stream; a garbage collection that destroys one",
            "capturing on the legacy stream",
        ),
        (
            "run the work once before capturing (capture(..., warmup=work))",
            "take synchronization, printing and copies to the host out of the body",
            "allocate from a graph pool: graphcap.use_mem_pool, or the arrays of the backend",
            "capture_mode='thread_local' keeps other threads out of it, 'relaxed' allows potentially unsafe calls",
        ),
        "S-D13, S-D15, E-D10, E-D12, E-D41",
        ("operation not permitted when stream is capturing", "not permitted when stream is capturing"),
    ),
    Explanation(
        901,
        "STREAM_CAPTURE_INVALIDATED",
        "CaptureInvalidatedError",
        "The capture was broken by an earlier error; this is the consequence, not the cause.",
        (
            "an earlier call returned 900 or 906 and its error was swallowed (a library, a finalizer, another thread)",
            "ending the capture on a stream that is not its origin",
        ),
        (
            "look at the first error: graphcap chains it as __cause__",
            "end the capture (that alone leaves the state); all streams are usable again at once",
            "pause the garbage collector while capturing, as graphcap.capture does",
        ),
        "S-D4, E-1, E-4",
        ("operation failed due to a previous error during capture",),
    ),
    Explanation(
        902,
        "STREAM_CAPTURE_MERGE",
        "CaptureIsolationError",
        "A wait would join two captures into one; both are invalidated.",
        ("waiting for an event that another capture recorded", "a nested capture that touches the outer one"),
        ("end one capture before the other uses its events", "capture both parts in one capture"),
        "S-D21, E-15",
        ("would merge", "merge of two independent capture sequences", "operation would result in a merge"),
    ),
    Explanation(
        903,
        "STREAM_CAPTURE_UNMATCHED",
        "CaptureStateError",
        "The capture was not begun on this stream.",
        ("ending on a forked stream, or on the stream that happens to be current",),
        ("end on the stream on which the capture began (with stream, graph: does)",),
        "S-D2, E-1",
        ("capture was not initiated in this stream",),
    ),
    Explanation(
        904,
        "STREAM_CAPTURE_UNJOINED",
        "UnjoinedStreamError",
        "A stream was forked into the capture and never joined back, so the graph would have loose ends.",
        (
            "side.wait(event) without a later origin.wait(side.record())",
            "more work on a side stream after it was joined",
            "a library that uses streams of its own",
        ),
        ("before the end: record an event on the side stream and let the origin wait for it",),
        "S-D24, E-D24",
        ("contains a fork that was not joined", "unjoined work"),
    ),
    Explanation(
        905,
        "STREAM_CAPTURE_ISOLATION",
        "CaptureIsolationError",
        "A dependency would cross into the capture from work that is not part of it.",
        ("a captured stream waits for an event that was recorded before the capture began",),
        ("synchronize before capturing instead of waiting inside it", "record the event inside the capture"),
        "S-D21, E-D21",
        ("dependency created on uncaptured work", "would have crossed", "isolation"),
    ),
    Explanation(
        906,
        "STREAM_CAPTURE_IMPLICIT",
        "CaptureForbiddenError",
        "The legacy default stream was used while a blocking stream captures: an implicit dependency.",
        (
            "work launched without a stream inside the body (a library that ignores the current stream)",
            "a synchronous copy or memset",
            "capturing on a stream that was made without the non-blocking flag",
        ),
        (
            "make the framework use the current stream (graphcap.Stream does for the frameworks it knows)",
            "use asynchronous copies on the capturing stream",
            "capture on a non-blocking stream only if nothing goes to the default stream: it would run outside the graph",
        ),
        "S-D22, E-D19, E-D22",
        ("disallowed implicit dependency", "implicit dependency on a prior uncaptured operation", "legacy stream"),
    ),
    Explanation(
        907,
        "CAPTURED_EVENT",
        "CaptureForbiddenError",
        "The event was last recorded in a capturing stream, so it stands for a node and cannot be queried or waited for.",
        ("event.synchronize() or event.query() in the body", "timing with events inside a capture"),
        ("wait on a stream (stream.wait(event)), not on the host", "time whole replays, outside the capture"),
        "S-D15, E-D15",
        ("operation not permitted on an event last recorded in a capturing stream",),
    ),
    Explanation(
        908,
        "STREAM_CAPTURE_WRONG_THREAD",
        "CaptureStateError",
        "A capture that is not relaxed was ended by another thread than the one that began it.",
        ("begin and end in different threads of a pool", "a generator or async task that moved between threads"),
        ("begin and end in one thread, or use capture_mode='relaxed'",),
        "S-D2, E-D2",
        ("wrong thread",),
    ),
    Explanation(
        910,
        "GRAPH_EXEC_UPDATE_FAILURE",
        "GraphUpdateError",
        "An executable graph could not be updated in place; it still replays as before.",
        (
            "another topology: nodes, edges or the order of edges differ",
            "a node that changed its type, its function's device, or a copy's direction",
        ),
        ("instantiate anew", "graphcap diff OLD NEW shows what changed"),
        "S-D42, E-D42",
        ("graph update failed", "update was not performed"),
    ),
    Explanation(
        918,
        "GRAPH_RECAPTURE_FAILURE",
        "GraphUpdateError",
        "Newer toolkits: capturing into an existing graph was refused because the work differs from what it holds.",
        ("the recaptured work has another topology",),
        ("capture into a new graph",),
        "S-D11",
    ),
    Explanation(
        1,
        "INVALID_VALUE",
        "DriverError",
        "An argument is wrong. Around capture: a null handle, or a call on a graph that cannot take it.",
        (
            "a destroyed or null graph, node or event",
            "waiting, from outside, for an event of an invalidated capture",
            "a child graph that holds conditional nodes",
        ),
        ("look at the call that graphcap names",),
        "E-D21, E-D49, E-D52",
        ("invalid argument", "invalid value"),
    ),
    Explanation(
        2,
        "OUT_OF_MEMORY",
        "OutOfMemoryError",
        "The device has no memory left for the request.",
        (
            "every capture with pool=None keeps a pool of its own",
            "graphs of many shapes, each with its own pool",
            "memory cached by another allocator of the same process (a framework's)",
        ),
        (
            "share one pool between graphs that never run at the same time (pool=other.pool())",
            "drop graphs that are no longer needed, then graphcap.empty_cache()",
            "graphcap.memory_snapshot() shows who holds what",
        ),
        "S-C19, design rule 17",
        ("out of memory",),
    ),
    Explanation(
        201,
        "INVALID_CONTEXT",
        "DriverError",
        "No context, or another device's, is current in this thread.",
        ("a new thread that never touched the device", "a stream of another device"),
        ("make the device current in the thread: a graphcap.Stream('cuda:1') as context manager does",),
        "design section 3",
        ("invalid device context",),
    ),
    Explanation(
        304,
        "OPERATING_SYSTEM",
        "DriverError",
        "A call to the operating system failed; for a graph dump: the file could not be written.",
        ("an empty path, a missing folder, no permission",),
        ("give a path in a folder that exists and can be written",),
        "E-D52",
    ),
    Explanation(
        400,
        "INVALID_HANDLE",
        "DriverError",
        "A handle (stream, event, graph, function) is not valid here.",
        (
            "a stream or event that was destroyed, or belongs to another context",
            "a kernel loaded on another device",
            "an executable graph whose template's module was unloaded",
        ),
        ("keep the objects alive as long as the graph: graph.retain(obj)",),
        "design rule 12",
        ("invalid resource handle", "invalid handle"),
    ),
    Explanation(
        401,
        "ILLEGAL_STATE",
        "CaptureStateError",
        "The object is in a state that cannot serve the call, such as beginning a capture on a stream that captures.",
        ("begin twice on one stream", "ending a capture that was never begun", "begin on an invalidated stream"),
        ("end the open capture first; stream.is_capturing tells",),
        "S-D1, E-6",
        ("operation not permitted in current state", "illegal state"),
    ),
    Explanation(
        600,
        "NOT_READY",
        "DriverError",
        "Not an error: work asked about is not finished yet.",
        ("a query of a stream or event",),
        ("ask again, or synchronize",),
        "S-D15",
    ),
    Explanation(
        700,
        "ILLEGAL_ADDRESS",
        "DriverError",
        "A kernel touched memory that is not mapped; the context is lost. With graphs: often memory freed since capture.",
        (
            "an input or output array that died after the capture (replays use the same addresses for ever)",
            "a workspace that a library freed or moved",
            "host memory of a captured copy that was temporary",
        ),
        (
            "graph.retain(array), or allocate what the graph uses from its pool",
            "write new inputs into the captured arrays in place of making new ones",
            "compute-sanitizer on one replay names the kernel",
        ),
        "design rule 12; user problems, kind A",
        ("an illegal memory access was encountered", "illegal address"),
    ),
    Explanation(
        716,
        "MISALIGNED_ADDRESS",
        "DriverError",
        "A kernel used an address that its access width does not allow; the context is lost.",
        ("a slice that starts at an odd element given to a vectorized kernel",),
        ("keep the alignment that the kernel had at capture",),
        "user problems, kind A",
        ("misaligned address",),
    ),
    Explanation(
        719,
        "LAUNCH_FAILED",
        "DriverError",
        "A kernel failed while it ran; the context is lost.",
        ("stale memory, as with 700", "an assertion in device code"),
        ("as with 700",),
        "user problems, kind A",
        ("unspecified launch failure",),
    ),
    Explanation(
        801,
        "NOT_SUPPORTED",
        "UnsupportedError",
        "The device, driver or operation does not support this.",
        (
            "conditional nodes before driver 12.3, memory nodes in conditional bodies",
            "cooperative or cluster launches on a device without them",
            "a graph of another device",
        ),
        ("graphcap backends shows what the backend can do", "update the driver"),
        "S-D50, E-D50",
        ("operation not supported", "not supported"),
    ),
    Explanation(
        0,
        "EmptyGraphWarning",
        "EmptyGraphWarning",
        "The capture ended with no node in it; replaying it does nothing.",
        (
            "the work went to another stream than the capturing one",
            "the framework uses the default stream, whatever stream is current",
            "lazy work that runs only after the body",
        ),
        ("check the current stream inside the body (graphcap.current_stream())",),
        "design rule 7; user problems, kind J",
        ("empty graph", "no node"),
    ),
    Explanation(
        0,
        "GraphStateError",
        "GraphStateError",
        "The graph is in a state that cannot serve the call.",
        ("a replay before the capture ended", "a dump or topology after keep_graph=False dropped the template"),
        ("keep_graph=True, or enable_debug_mode() before the capture",),
        "design rules 10, 11, 13",
        ("keep_graph", "debug_dump"),
    ),
    Explanation(
        0,
        "DotSyntaxError",
        "DotSyntaxError",
        "The file is empty, or is no DOT text.",
        ("torch's debug_dump after the graph was instantiated without keep_graph=True wrote nothing",),
        ("CUDAGraph(keep_graph=True); call debug_dump before instantiate; enable_debug_mode() before the capture",),
        "dot-formats 1.1, R13",
    ),
)


def _bare(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def explain(error: str) -> list[Explanation]:
    """Return the explanations that a code, a name or a message asks for, the best first; empty where none fits.

    Parameters
    ----------
    error
        ``"900"``, ``"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"``, ``"cudaErrorCapturedEvent"``, ``"UnjoinedStreamError"``, or a
        whole message that holds any of these.
    """
    text = error.strip()
    if text.isdecimal() and text.isascii() and len(text) < 9:
        return [e for e in EXPLANATIONS if e.code == int(text) and e.code]
    bare = _bare(text)
    named = [e for e in EXPLANATIONS if any(_bare(name) in bare for name in (*e.spellings, e.name))]
    if named:  # the longest name wins: STREAM_CAPTURE_UNSUPPORTED over NOT_SUPPORTED
        return sorted(named, key=lambda e: -len(e.name))
    said = [e for e in EXPLANATIONS if any(word in text.lower() for word in e.words)]
    classes = [e for e in EXPLANATIONS if _bare(e.error) in bare]
    numbers = {int(n) for n in re.findall(r"(?<![\w.])\d{1,4}(?![\w.])", text)[:20]}
    coded = [e for e in EXPLANATIONS if e.code > 99 and e.code in numbers]
    found = list(dict.fromkeys([*coded, *said, *classes]))
    if not found and len(bare) >= 4:
        found = [e for e in EXPLANATIONS if any(bare in _bare(name) for name in e.spellings)]
    return found
