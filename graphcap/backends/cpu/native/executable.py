"""The native executable: blocks of inner loops and, between them, NumPy's own calls."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from graphcap.backends.cpu.errors import DEFAULT_ERRORS, note_failure, reentered
from graphcap.backends.cpu.native import geometry, thresholds
from graphcap.backends.cpu.native.hazards import Footprint, access, pool_memory
from graphcap.backends.cpu.native.liveness import Liveness
from graphcap.backends.cpu.native.loops import Loop, recognise
from graphcap.backends.cpu.native.strips import Run, SerialRun, StripRun
from graphcap.backends.cpu.work import Work

__all__ = ["NativeExecutable", "thread_count"]

_BITS: Final = {"divide": 1, "over": 2, "under": 4, "invalid": 8}
_WORDS: Final = {1: "divide by zero", 2: "overflow", 4: "underflow", 8: "invalid value"}
_DEFAULT_MASK: Final = sum(bit for name, bit in _BITS.items() if DEFAULT_ERRORS[name] != "ignore")


def thread_count() -> int:
    """``GRAPHCAP_CPU_THREADS`` (at most 1,024), else the cores that this process may use.

    Raises
    ------
    ValueError
        The variable is not a positive whole number.
    """
    text = os.environ.get("GRAPHCAP_CPU_THREADS")
    if text is None:
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError(f"GRAPHCAP_CPU_THREADS={text!r}: a positive whole number is needed.")
    return min(int(text), 1024)  # more than the extension ever uses


class NativeExecutable:
    """Replays a list of recorded work natively where NumPy has a loop for it.

    Attributes
    ----------
    replay
        Replays once. A function of the extension, so that nothing stands between the caller and the walk.
    in_use
        Dead once nobody can be replaying any more: the walk, also one under way on another thread, owns what it refers to.
    touched
        Address ranges of the capture's own memory that a replay touches; intermediates in scratch memory are not in it.
    """

    def __init__(
        self,
        walk: Any,
        nodes: Sequence[Work],
        gates: tuple[list[Any], ...],
        check: Callable[[], None],
        threads: int,
        refresh: Callable[[], object] | None = None,
    ) -> None:
        self._nodes = nodes
        runs = _plan(nodes)
        alone = [nodes[run] for run in runs if isinstance(run, int)]
        liveness = Liveness(
            (run for run in runs if isinstance(run, Run)),
            (array for work in alone for array in (*work.reads, *work.writes, *work.args, *work.kwargs.values())),
        )
        self.touched = list(_touched_ranges(runs, alone, liveness))
        items: list[Any] = []
        first_nodes: list[int] = []
        for group in _side_by_side(runs, threads):
            blocks = []
            for run in group:
                block = _build(walk, run, liveness)
                if block is None:
                    # The space cannot be walked natively: NumPy's own calls, in order.
                    assert isinstance(run, Run), "only runs are built"
                    for node in run.nodes():
                        items.append(self._call(node))
                        first_nodes.append(node)
                elif isinstance(run, int):
                    items.append(self._call(run))
                    first_nodes.append(run)
                else:
                    blocks.append(block)
            if blocks:
                first = next(run for run in group if isinstance(run, Run))
                items.append(blocks[0] if len(blocks) == 1 else tuple(blocks))
                first_nodes.append(first.nodes()[0])
        calls_numpy = any(callable(item) for item in items)
        if refresh is not None:  # inside the walk, where no other replay of it is under way
            items.insert(0, refresh)
            first_nodes.insert(0, 0)
        reports = _Reports(nodes, first_nodes)
        self.in_use: weakref.ref[object] = weakref.ref(reports)
        self._walk = walk.Walk(tuple(items), reports.floating_point, gates, check, reports.failed, threads)
        self.replay: Callable[[], None] = _guarded(self._walk.replay) if calls_numpy else self._walk.replay

    def _call(self, node: int) -> Callable[[], Any]:
        return self._nodes[node].call


def _guarded(replay: Callable[[], None]) -> Callable[[], None]:
    """A replay that calls NumPy, under NumPy's default error state (a node captured under another one brings its own)."""

    def guarded() -> None:
        with np.errstate(**DEFAULT_ERRORS):
            replay()

    return guarded


class _Reports:
    """What the walk calls back for. Apart from the executable, which owns the walk: a cycle would keep the graph's
    memory until the next garbage collection.
    """

    def __init__(self, nodes: Sequence[Work], first_nodes: list[int]) -> None:
        self._nodes = nodes
        self._first_nodes = first_nodes

    def floating_point(self, node: int, bits: int) -> None:
        """Do with a node's floating-point errors what the error state of its capture says, as NumPy does.

        Node -1 tells that a node of the graph asked for a replay of the graph.
        """
        if node < 0:
            raise reentered()
        work = self._nodes[node]
        state: Mapping[str, Any] = DEFAULT_ERRORS if work.errstate is None else work.errstate
        try:
            for name, bit in _BITS.items():
                if bits & bit:
                    _tell(work.name, state[name], _WORDS[bit], bit, state.get("call"))
        except Exception as error:  # also a warning that a filter turns into one, and what a callback raises
            error.graphcap_node = node  # type: ignore[attr-defined]  # read by failed, which names the node
            raise

    def failed(self, item: int, error: BaseException | None) -> None:
        node = getattr(error, "graphcap_node", self._first_nodes[item])
        if error is not None:
            note_failure(error, node, self._nodes[node].name)


def _tell(name: str, how: str, kind: str, bit: int, call: Any) -> None:
    text = f"{kind} encountered in {name}"
    if how == "warn":
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    elif how == "raise":
        raise FloatingPointError(text)
    elif how == "call":
        if call is None:
            raise NameError(f"python callback specified for {kind} (in {name}) but no function found.")
        call(kind, bit)
    elif how == "print":
        print(f"Warning: {text}")
    elif how == "log":
        if call is None:
            raise NameError(f"log specified for {kind} (in {name}) but no object with write method found.")
        call.write(f"Warning: {text}\n")


def _plan(nodes: Sequence[Work]) -> list[Run | int]:
    """Cut the nodes, in order, into runs of native work and single calls (by node index)."""
    plan: list[Run | int] = []
    serial: SerialRun | None = None
    strip: StripRun | None = None
    for index, work in enumerate(nodes):
        loop = recognise(index, work)
        if loop is None:
            serial = strip = None
            plan.append(index)
            continue
        if loop.outputs[0].size == 0:
            continue
        mask = _mask(work)
        if max(array.nbytes for array in loop.outputs) <= thresholds.SERIAL_BYTES:
            space = geometry.simplify(
                loop.outputs[0].shape, tuple(array.strides for array in (*loop.inputs, *loop.outputs))
            )
            if len(space.shape) == 1:
                strip = None
                if serial is None or not serial.take(loop, mask, space):
                    serial = SerialRun()
                    taken = serial.take(loop, mask, space)
                    assert taken, "an empty run takes any work of one dimension"
                    plan.append(serial)
                continue
        serial = None
        if strip is None or not strip.take(loop, mask):
            strip = StripRun(loop.outputs[0].shape)
            taken = strip.take(loop, mask)
            assert taken, "an empty run takes any work of its own shape"
            plan.append(strip)
    return plan


def _mask(work: Work) -> int:
    state = work.errstate
    return _DEFAULT_MASK if state is None else sum(bit for name, bit in _BITS.items() if state[name] != "ignore")


def _build(walk: Any, run: Run | int, liveness: Liveness) -> Any:
    if isinstance(run, SerialRun):
        return run.build(walk)
    if isinstance(run, StripRun):
        return run.build(walk, liveness.scratch(run))
    return run


def _side_by_side(runs: list[Run | int], threads: int) -> list[list[Run | int]]:
    """Neighbouring large runs that do not depend on one another, for several threads at once."""
    groups: list[list[Run | int]] = []
    footprint = Footprint()
    for run in runs:
        large = threads > 1 and isinstance(run, StripRun) and _touched(run.loops) >= thresholds.SIDE_BY_SIDE_BYTES
        if large and isinstance(run, StripRun):
            reads, writes = list(run.footprint.reads.values()), list(run.footprint.writes.values())
            joins = (
                bool(groups)
                and isinstance(groups[-1][0], StripRun)
                and len(groups[-1]) < 16
                and _touched(groups[-1][0].loops) >= thresholds.SIDE_BY_SIDE_BYTES
                and not footprint.clashes(reads, writes, same_elements_ok=False)
            )
            if not joins:
                groups.append([])
                footprint = Footprint()
            groups[-1].append(run)
            footprint.add(reads, writes)
        else:
            groups.append([run])
            footprint = Footprint()
    return groups


def _touched_ranges(runs: list[Run | int], alone: list[Work], liveness: Liveness) -> Iterator[tuple[int, int]]:
    seen: set[int] = set()
    for run in runs:
        if isinstance(run, int):
            continue
        dead = liveness.scratch(run) if isinstance(run, StripRun) else set()
        for loop in run.loops:
            for array in (*loop.inputs, *loop.outputs):
                memory = pool_memory(array)
                if memory is not None and id(memory) not in dead and id(memory) not in seen:
                    seen.add(id(memory))
                    yield memory.range
    for work in alone:
        for value in (*work.reads, *work.writes, *work.args, *work.kwargs.values()):
            memory = pool_memory(value)
            if memory is not None and id(memory) not in seen:
                seen.add(id(memory))
                yield memory.range


def _touched(loops: list[Loop]) -> int:
    return sum(one.high - one.low for one in {access(array) for loop in loops for array in loop.outputs})
