"""The native replay against NumPy's own calls: random programs over views, broadcasts, overlaps, copies and dead intermediates.

The oracle is the same list of calls made one after the other by NumPy.
"""

from __future__ import annotations

import contextlib
import platform
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphcap.backends.cpu.backend import cpu_backend
from graphcap.backends.cpu.memory_view import PoolMemory
from graphcap.backends.cpu.native import executable, strips, unavailable_reason, walker
from graphcap.backends.cpu.native.executable import NativeExecutable
from graphcap.backends.cpu.work import Work
from graphcap.errors import GraphStateError
from graphcap.topology import NodeKind
from tests.cpu_native.tuning import as_if_large

pytestmark = pytest.mark.skipif(walker() is None, reason=unavailable_reason() or "-")

Array = np.ndarray[Any, Any]
BINARY: Final = [np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.divide, np.power, np.hypot, np.less]
UNARY: Final = [np.negative, np.absolute, np.sqrt, np.sin, np.exp, np.rint, np.square, np.logical_not, np.isfinite]
DTYPES: Final = ["?", "i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"]


def work_of(function: Any, inputs: tuple[Any, ...], out: Array, **kwargs: Any) -> Work:
    """A ufunc call with an output, as the array namespace records it."""
    return Work(
        NodeKind.KERNEL,
        function.__name__,
        partial(function, *inputs, out, **kwargs),
        reads=tuple(value for value in inputs if isinstance(value, np.ndarray)),
        writes=(out,),
        function=function,
        args=(*inputs, out),
        kwargs=kwargs,
    )


def copy_of(target: Array, source: Array) -> Work:
    """A copy, as a stream or an assignment records it."""
    return Work(
        NodeKind.MEMCPY,
        "memcpy",
        partial(np.copyto, target, source),
        reads=(source,),
        writes=(target,),
        function=np.copyto,
        args=(target, source),
    )


def native(nodes: list[Work], threads: int = 1) -> NativeExecutable:
    """The executable under test, without gates."""
    return NativeExecutable(walker(), nodes, ([],), lambda: None, threads)


def same_bits(one: Array, other: Array) -> bool:
    """Equal bit by bit, any NaN being as good as any other of its sort."""
    if one.dtype.kind in "fc":
        flat, wanted = np.atleast_1d(one).view(one.real.dtype), np.atleast_1d(other).view(other.real.dtype)
        nan = np.isnan(flat)
        whole = f"u{flat.itemsize}"
        return bool((nan == np.isnan(wanted)).all() and (flat.view(whole) == wanted.view(whole))[~nan].all())
    return bool((one == other).all())


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[Array], Callable[[list[Array]], list[Work]]]:
    """A few arrays, and a recipe for calls on views of them."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    rows, columns = draw(st.sampled_from([(1, 7), (5, 1), (3, 40), (9, 130), (2, 3000), (70, 600)]))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    count = draw(st.integers(2, 4))
    arrays = []
    for _ in range(count):
        values = rng.integers(-4, 100, (rows + 2, columns + 2)) * rng.choice([0, 1, 1, 1.5])
        with np.errstate(all="ignore"):
            arrays.append(values.astype(dtype))
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["binary", "binary", "unary", "copy", "scalar"]),
                st.integers(0, 99),
                st.tuples(*[st.integers(0, count - 1)] * 3),
                st.tuples(*[st.integers(0, 6)] * 3),
            ),
            min_size=1,
            max_size=12,
        )
    )

    def view(array: Array, which: int) -> Array:
        full = array[1:-1, 1:-1]
        return [
            full,
            array[:-2, 1:-1],
            array[1:-1, 2:],
            full[::-1],
            full[:1],
            full[:, :1],
            full[:, ::-1],
        ][which]

    def build(given: list[Array]) -> list[Work]:
        nodes = []
        for kind, choice, (a, b, c), (va, vb, vc) in steps:
            out = view(given[c], vc if vc not in (4, 5) else 0)
            one, two = view(given[a], va), view(given[b], vb)
            if kind == "copy":
                nodes.append(copy_of(out, one))
            elif kind == "unary":
                nodes.append(work_of(UNARY[choice % len(UNARY)], (one,), out, casting="unsafe"))
            elif kind == "scalar":
                nodes.append(work_of(np.multiply, (one, choice % 3), out))
            else:
                function = BINARY[choice % len(BINARY)]
                nodes.append(work_of(function, (one, two), out))
        return nodes

    return arrays, build


def run_by_numpy(nodes: list[Work]) -> str:
    """Call after call; gives the type of what it raised, if anything."""
    try:
        for node in nodes:
            node.call()
    except (TypeError, ValueError) as error:
        return type(error).__name__
    return ""


@pytest.mark.parametrize("tuned", [contextlib.nullcontext, as_if_large])
@pytest.mark.parametrize("threads", [1, 2, 4])
@settings(max_examples=80)
@given(program=programs())
def test_same_bits_as_numpy(
    threads: int,
    tuned: Callable[[], contextlib.AbstractContextManager[None]],
    program: tuple[list[Array], Callable[[list[Array]], list[Work]]],
) -> None:
    """Any program, over overlapping and broadcast views, on any number of threads."""
    with tuned():
        compare(threads, *program)


def compare(threads: int, arrays: list[Array], build: Callable[[list[Array]], list[Work]]) -> None:
    """Replay a program twice and compare with NumPy."""
    mine, theirs = [array.copy() for array in arrays], [array.copy() for array in arrays]
    nodes, wanted = build(mine), build(theirs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        replay = native(nodes, threads).replay
        for _ in range(2):
            failure = run_by_numpy(wanted)
            if failure:
                with pytest.raises((TypeError, ValueError)) as caught:
                    replay()
                assert type(caught.value).__name__ == failure
                return
            replay()
            for one, other in zip(mine, theirs, strict=True):
                assert same_bits(one, other)


def temporary(shape: tuple[int, ...], dtype: str = "f8") -> tuple[Any, Array]:
    """Memory that dies with the first result, and an array over it that does not own it."""
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    backend = cpu_backend()
    buffer = backend.allocate(nbytes, 0, backend.default_stream(0))
    return buffer, np.asarray(PoolMemory(buffer, nbytes)).view(dtype).reshape(shape)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("shape", [(100_000,), (301, 402), (100_001,), (40, 50, 60), (3, 70_000)])
def test_dead_intermediates_are_not_stored(shape: tuple[int, ...], threads: int) -> None:
    """What nobody can reach after the capture is never written; what somebody holds is."""
    rng = np.random.default_rng(1)
    x, y, out = rng.random(shape), rng.random(shape), np.zeros(shape)
    dead_owner, dead = temporary(shape)
    held_owner, held = temporary(shape)
    dead[...] = held[...] = -7.0
    nodes = [
        work_of(np.add, (x, y), dead),
        work_of(np.multiply, (dead, y), held),
        work_of(np.subtract, (held, dead), out),
    ]
    del dead_owner
    native(nodes, threads).replay()
    assert np.array_equal(held, (x + y) * y)
    assert np.array_equal(out, (x + y) * y - (x + y))
    assert (dead == -7.0).all()
    del held_owner


def test_a_partial_use_keeps_the_store() -> None:
    """An intermediate that is read by a view, or by NumPy itself, lives in its own memory."""
    x, out, total = np.arange(100_000.0), np.zeros(99_998), np.zeros(())
    owner, dead = temporary(x.shape)
    nodes = [
        work_of(np.add, (x, 1.0), dead),
        work_of(np.add, (dead[2:], dead[:-2]), out),
        Work(NodeKind.KERNEL, "sum", partial(np.add.reduce, dead, out=total), reads=(dead,), writes=(total,)),
    ]
    del owner
    native(nodes).replay()
    assert np.array_equal(out, x[2:] + x[:-2] + 2.0)
    assert total == (x + 1.0).sum()


def test_memory_used_twice_is_two_intermediates() -> None:
    """A dead intermediate and a live result in the same memory, one after the other."""
    x = np.arange(100_000.0)
    first_owner, first = temporary(x.shape)
    second_owner = cpu_backend().default_stream(0).allocate(8)  # any living owner
    second: Any = PoolMemory(second_owner, first.nbytes)
    second.__array_interface__ = {**second.__array_interface__, "data": (first.__array_interface__["data"][0], False)}
    result = np.asarray(second).view(np.float64)
    out = np.zeros_like(x)
    nodes = [
        work_of(np.add, (x, 1.0), first),
        work_of(np.multiply, (first, 3.0), out),
        work_of(np.multiply, (out, 2.0), result),
    ]
    keep = first_owner.block
    assert keep is not None
    native(nodes).replay()
    assert np.array_equal(result, (x + 1.0) * 6.0)
    del second_owner


@pytest.mark.parametrize("size", [5, 40_000])
@pytest.mark.parametrize("mode", ["warn", "raise", "ignore", "call", "print"])
def test_floating_point_errors_as_in_numpy(mode: Any, size: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The error state of the capture belongs to the node, whatever is in force at the replay."""
    x, zero, out, later = np.ones(size), np.zeros(size), np.zeros(size), np.zeros(size)
    seen: list[tuple[str, int]] = []
    state = {"divide": mode, "over": "warn", "under": "ignore", "invalid": "warn"}
    call = None if mode != "call" else lambda kind, flag: seen.append((kind, flag))
    node = work_of(np.divide, (x, zero), out)
    node.errstate = {**state, "call": call}
    run = native([node, work_of(np.add, (x, 1.0), later)])
    with np.errstate(all="ignore"):
        if mode == "warn":
            with pytest.warns(RuntimeWarning, match="^divide by zero encountered in divide$"):
                run.replay()
        elif mode == "raise":
            with pytest.raises(FloatingPointError, match="divide by zero encountered in divide") as caught:
                run.replay()
            assert any("node 0 ('divide')" in note for note in getattr(caught.value, "__notes__", ()))
        else:
            run.replay()
    if mode == "call":
        assert seen == [("divide by zero", 1)]
    if mode == "print":
        assert "divide by zero encountered in divide" in capsys.readouterr().out
    assert np.isinf(out).all()
    x[:], zero[:] = 3.0, 2.0
    run.replay()
    assert (out == 1.5).all()
    assert (later == 4.0).all()


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (np.add, (np.float16(60_000), np.float16(60_000))),
        (np.multiply, (np.float16(6e-8), np.float16(0.1))),
        (np.exp, (np.float32(1_000),)),
        (np.exp, (np.float64(1_000),)),
        (np.square, (np.float32(3e38),)),
        (np.power, (1e-300, 4.0)),
        (np.divide, (np.float16(1), np.float16(0))),
        (np.sqrt, (np.float32(-1),)),
    ],
)
def test_every_way_of_raising_is_seen(function: Any, values: tuple[Any, ...]) -> None:
    """Some loops raise in the x87 unit, where overflow and underflow cannot be raised otherwise. The oracle is eager NumPy.

    The work after it is not blamed, nor is the next replay.
    """
    inputs = tuple(np.full(64, value) for value in values)
    with warnings.catch_warnings(record=True) as eager, np.errstate(all="warn"):
        warnings.simplefilter("always")
        wanted = function(*inputs)
    assert len(eager) == 1
    one, two, out = np.ones(64), np.ones(64), np.zeros(64)
    nodes = [work_of(function, inputs, np.empty_like(wanted)), work_of(np.add, (one, two), out)]
    for node in nodes:
        node.errstate = dict.fromkeys(("divide", "over", "under", "invalid"), "warn")
    run = native(nodes)
    with warnings.catch_warnings(record=True) as replayed:
        warnings.simplefilter("always")
        run.replay()
    assert [str(warning.message) for warning in replayed] == [str(warning.message) for warning in eager]
    for array in inputs:
        array[:] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.replay()


@pytest.mark.parametrize("how", ["log", "call"])
def test_missing_callback_is_numpys_error(how: Any) -> None:
    """As eager NumPy, in its own words: these states need a function, or something with a ``write``."""
    x, zero, out = np.ones(4), np.zeros(4), np.zeros(4)
    node = work_of(np.divide, (x, zero), out)
    node.errstate = {"divide": how, "over": "warn", "under": "ignore", "invalid": "warn"}
    nothing: Any = None
    with np.errstate(divide=how, call=nothing), pytest.raises(NameError) as eager:
        np.divide(x, zero)
    with pytest.raises(NameError) as replayed:
        native([node]).replay()
    assert " ".join(str(replayed.value).split()) == " ".join(str(eager.value).split())


def test_warning_that_is_an_error_names_its_node() -> None:
    """A filter may turn the warning into an exception; the note names the node, not the first one beside it."""
    x, zero, one, two = np.ones(4), np.zeros(4), np.zeros(4), np.zeros(4)
    run = native([work_of(np.add, (x, 1.0), one), work_of(np.divide, (x, zero), two)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="divide by zero") as caught:
            run.replay()
    assert getattr(caught.value, "__notes__", None) == ["raised in node 1 ('divide') of a graph that was replayed"]


def test_objects_and_python_functions_go_through_numpy() -> None:
    """What has no loop that may run without the interpreter is NumPy's own call, and its error names the node."""
    function: Any = np.frompyfunc(lambda value: 1 / value, 1, 1)
    values, out = np.array([1, 2, 0], dtype=object), np.empty(3, dtype=object)
    x, y = np.ones(3), np.zeros(3)
    run = native([work_of(np.add, (x, 1.0), y), work_of(function, (values,), out)])
    with pytest.raises(ZeroDivisionError) as caught:
        run.replay()
    assert any("node 1" in note for note in getattr(caught.value, "__notes__", ()))
    values[2] = 4
    run.replay()
    assert list(out) == [1.0, 0.5, 0.25]


def test_gates_are_asked_before_a_replay() -> None:
    """A list that is not empty sends the replay to its check first."""
    gate: list[int] = []
    out = np.zeros(3)

    def check() -> None:
        raise RuntimeError("gate")

    run = NativeExecutable(walker(), [work_of(np.add, (out, 1.0), out)], (gate,), check, 1)
    run.replay()
    gate.append(1)
    with pytest.raises(RuntimeError, match="gate"):
        run.replay()
    assert (out == 1.0).all()


def test_a_graph_does_not_replay_itself() -> None:
    """From inside its own replay, by a node that is a Python callable."""
    run: NativeExecutable
    node = Work(NodeKind.KERNEL, "inner", lambda: run.replay())
    run = native([node])
    with pytest.raises(GraphStateError, match="by this very thread"):
        run.replay()


@pytest.mark.parametrize("text", ["0", "-1", "two", ""])
def test_thread_count_is_checked(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is no positive number is refused."""
    monkeypatch.setenv("GRAPHCAP_CPU_THREADS", text)
    with pytest.raises(ValueError, match="GRAPHCAP_CPU_THREADS"):
        executable.thread_count()


def test_any_large_thread_count_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """More threads than a C int can count are as many as there may be."""
    monkeypatch.setenv("GRAPHCAP_CPU_THREADS", "9" * 30)
    x, out = np.ones(300_000), np.zeros(300_000)
    run = NativeExecutable(walker(), [work_of(np.add, (x, 1.0), out)], (), lambda: None, executable.thread_count())
    run.replay()
    assert (out == 2.0).all()


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="rounding as on Linux on x86-64 is not installed here",
)
def test_threads_round_as_the_one_that_replays() -> None:
    """Results do not depend on the number of threads, also where a thread was told to round in another way."""
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    ffi.cdef("int fesetround(int); int fegetround(void);")
    libm = ffi.dlopen("libm.so.6")
    x, out = np.ones(4_000_000), np.zeros(4_000_000)
    run = NativeExecutable(walker(), [work_of(np.add, (x, 1e-20), out)], (), lambda: None, 4)
    run.replay()  # the threads begin in the usual mode
    assert (out == 1.0).all()
    before = libm.fegetround()
    assert libm.fesetround(0x800) == 0  # upward
    try:
        run.replay()
    finally:
        libm.fesetround(before)
    assert (out == np.nextafter(1.0, 2.0)).all()
    run.replay()
    assert (out == 1.0).all()


def test_runs_are_native_at_all() -> None:
    """The tests above would pass on NumPy's calls alone: these programs must become blocks."""
    small, large = np.ones(10), np.ones(100_000)
    for array in (small, large):
        plan = executable._plan([work_of(np.add, (array, 1.0), array), work_of(np.multiply, (array, 2.0), array)])
        assert [type(run) for run in plan] in ([strips.SerialRun], [strips.StripRun])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [10, 100_000])
def test_assignments_are_native_copies(dtype: str, size: int) -> None:
    """``a[...] = b`` and ``a[...] = 3`` as the array namespace records them: with a casting, which equal dtypes do not need."""
    source, target, strided = (
        (np.arange(size) % 100).astype(dtype),
        np.zeros(size, dtype),
        np.zeros(2 * size, dtype)[::2],
    )
    constant = np.ones((), dtype)
    nodes = [copy_of(target, source), copy_of(strided, constant)]
    for node in nodes:
        node.kwargs = {"casting": "unsafe"}
    plan = executable._plan(nodes)
    assert sum(len(run.nodes()) for run in plan if not isinstance(run, int)) == 2
    native(nodes).replay()
    assert target.tobytes() == source.tobytes()
    assert strided.tobytes() == np.ones(size, dtype).tobytes()
    constant[...] = 0
    native([copy_of(target, constant)]).replay()
    assert target.tobytes() == np.zeros(size, dtype).tobytes()
    other = np.zeros(size, "f8" if dtype != "f8" else "f4")
    assert executable._plan([copy_of(other, source)]) == [0], "a cast stays NumPy's own call"
