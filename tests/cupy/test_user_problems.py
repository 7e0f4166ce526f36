"""What goes wrong for users of CuPy's graphs elsewhere, by kind; each with its report. None ends in a silent wrong result."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphcap


@pytest.fixture(autouse=True)
def _settled(cp: Any) -> None:
    gc.collect()
    graphcap.synchronize("cuda")
    graphcap.empty_cache("cuda")


# -- A: stale and aliased pointers ------------------------------------------------------------------------------------


def test_cupy_8318_two_graphs_of_one_reduction_each_write_their_own_result(cp: Any) -> None:
    total = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = a", "0", "squares")
    x = cp.arange(100.0)
    total(x)
    with graphcap.capture("cuda") as first:
        a = total(x)
    with graphcap.capture("cuda") as second:
        b = total(x)
    for n in (100, 50):
        x[...] = cp.arange(100.0) * (cp.arange(100) < n)
        first.replay()
        second.replay()
        assert float(a) == float(b) == sum(i * i for i in range(n))


def test_cuda_python_166_a_builder_functions_local_arrays_live_on(cp: Any) -> None:
    def build() -> tuple[graphcap.Graph, Any]:
        weights = cp.full(5000, 3.0)
        weights * 2
        with graphcap.capture("cuda") as graph:
            result = weights * 2
        return graph, result

    graph, result = build()
    gc.collect()
    scribble = [cp.zeros(5000) for _ in range(20)]
    graph.replay()
    assert (cp.asnumpy(result) == 6).all()
    assert all((cp.asnumpy(one) == 0).all() for one in scribble)


def test_flashinfer_4553_a_workspace_that_is_replaced_stays_for_older_graphs(cp: Any) -> None:
    workspace = {"buffer": cp.zeros(1000)}
    x = cp.arange(1000.0)

    def step() -> Any:
        workspace["buffer"][...] = x + 1
        return workspace["buffer"] * 2

    step()
    with graphcap.capture("cuda") as graph:
        y = step()
    workspace["buffer"] = cp.zeros(2000)  # grown: the old one has no name any more
    others = [cp.full(1000, -1.0) for _ in range(20)]
    graph.replay()
    assert cp.asnumpy(y).tolist() == [2.0 * (n + 1) for n in range(1000)]
    assert all((cp.asnumpy(one) == -1).all() for one in others)


def test_aiter_5393_an_array_cached_in_the_capture_in_reused_memory_is_told(cp: Any) -> None:
    cache: dict[str, Any] = {}
    x = cp.arange(1000.0)
    x * 2 + 1

    def step() -> Any:
        scratch = x * 2
        result = scratch + 1
        del scratch
        cache["workspace"] = cp.empty(1000)  # lies where the temporary lay
        return result

    with pytest.warns(graphcap.ReusedMemoryWarning, match="earlier temporary"), graphcap.capture("cuda") as graph:
        y = step()
    graph.replay()
    assert cp.asnumpy(y).tolist() == [2.0 * n + 1 for n in range(1000)]


def test_cubecl_1612_the_eager_pool_never_hands_out_the_graphs_freed_temporaries(cp: Any) -> None:
    x = cp.arange(1000.0)
    (x * 2 + 1) * 3
    with graphcap.capture("cuda") as graph:
        y = (x * 2 + 1) * 3
    eager = [cp.full(1000, -1.0) for _ in range(200)]
    for _ in range(3):
        graph.replay()
        assert cp.asnumpy(y).tolist() == [(2.0 * n + 1) * 3 for n in range(1000)]
    assert all((cp.asnumpy(one) == -1).all() for one in eager)


# -- B: forbidden calls -----------------------------------------------------------------------------------------------

_READS: dict[str, Callable[[Any, Any], Any]] = {
    "get": lambda cp, a: a.get(),
    "float": lambda cp, a: float(a[0]),
    "if": lambda cp, a: bool(a[0]),
    "asnumpy": lambda cp, a: cp.asnumpy(a),
    "item": lambda cp, a: a[0].item(),
    "stream synchronize": lambda cp, a: cp.cuda.get_current_stream().synchronize(),
    "device synchronize": lambda cp, a: cp.cuda.Device().synchronize(),
    "nonzero": lambda cp, a: cp.nonzero(a),
}


def _names_the_line(error: BaseException, line: int) -> bool:
    """Whether the traceback of an error or of its cause, or what it says, leads to a line of this file."""
    told = [str(error), *getattr(error, "__notes__", ())]
    if any(f"{__file__}:{line}" in one for one in told):
        return True
    causes = [error, *([error.__cause__] if error.__cause__ else [])]
    frames = [frame for one in causes for frame in traceback.extract_tb(one.__traceback__)]
    return any(frame.filename == __file__ and frame.lineno == line for frame in frames)


@pytest.mark.parametrize("what", _READS)
def test_cuda_jl_1229_reads_and_waits_are_named_with_the_users_line(cp: Any, what: str) -> None:
    a = cp.ones(4)
    read = _READS[what]
    read(cp, a)  # compiles
    with pytest.raises(graphcap.CaptureError) as caught, graphcap.capture("cuda") as graph:
        a + 1
        read(cp, a)
    assert isinstance(caught.value, graphcap.CaptureForbiddenError | graphcap.CaptureInvalidatedError)
    assert _names_the_line(caught.value, read.__code__.co_firstlineno)
    with pytest.raises(graphcap.GraphStateError):
        graph.replay()  # no partial graph
    with graphcap.capture("cuda") as graph:
        b = a + 1
    graph.replay()
    assert cp.asnumpy(b).tolist() == [2] * 4


def test_host_data_in_a_capture_is_refused_and_the_way_out_works(cp: Any) -> None:
    with pytest.raises(graphcap.CaptureForbiddenError, match=r"Stream\.copy"), graphcap.capture("cuda"):
        cp.asarray([1.0, 2.0])
    host = np.array([1.0, 2.0])
    a = cp.zeros(2)
    with graphcap.capture("cuda") as graph:
        graphcap.current_stream("cuda").copy(a, host)
        b = a * 2
    del host
    graph.replay()
    assert cp.asnumpy(b).tolist() == [2, 4]


# -- E: libraries -----------------------------------------------------------------------------------------------------


def test_cupy_6290_a_refused_product_leaves_no_partial_graph_and_no_memory(cp: Any) -> None:
    a = cp.eye(32)
    a @ a
    graphcap.synchronize("cuda")
    graphcap.empty_cache("cuda")
    before = graphcap.memory_stats("cuda")["reserved_bytes.current"]
    for _ in range(50):
        with (
            pytest.raises(graphcap.CaptureForbiddenError, match=r"cuBLAS.*6290") as caught,
            graphcap.capture("cuda") as graph,
        ):
            b = a + 1
            b @ a
        assert isinstance(caught.value.__cause__, NotImplementedError)
        with pytest.raises(graphcap.GraphStateError):
            graph.replay()
        del graph, b, caught
        gc.collect()
    graphcap.empty_cache("cuda")
    assert graphcap.memory_stats("cuda")["reserved_bytes.current"] == before


def test_cupy_6290_the_way_out_graph_product_graph(cp: Any) -> None:
    x = cp.arange(9.0).reshape(3, 3)
    x @ (x + 1) - x
    pool = graphcap.graph_pool_handle()
    with graphcap.capture("cuda", pool=pool) as before:
        b = x + 1
    c = cp.empty((3, 3))
    with graphcap.capture("cuda", pool=pool) as after:
        y = c - x
    for scale in (1, 2):
        x[...] = cp.arange(9.0).reshape(3, 3) * scale
        before.replay()
        cp.matmul(x, b, out=c)
        after.replay()
        wanted = np.arange(9.0).reshape(3, 3) * scale
        assert cp.asnumpy(y).tolist() == (wanted @ (wanted + 1) - wanted).tolist()


# -- F: several streams -----------------------------------------------------------------------------------------------


def test_fork_and_join_through_cupys_events(cp: Any) -> None:
    x = cp.arange(1000.0)
    (x + 1) * (x * 2)
    side = cp.cuda.Stream(non_blocking=True)
    with graphcap.capture("cuda") as graph:
        main = cp.cuda.get_current_stream()
        side.wait_event(main.record())
        with side:
            a = x * 2
        b = x + 1
        main.wait_event(side.record())
        y = a * b
    assert len(graph.topology().roots) == 2
    for scale in (1, 3):
        x[...] = cp.arange(1000.0) * scale
        cp.cuda.runtime.deviceSynchronize()
        graph.replay()
        n = np.arange(1000.0) * scale
        assert cp.asnumpy(y).tolist() == ((n + 1) * (n * 2)).tolist()


def test_deepep_62_a_fork_that_is_not_joined_is_named(cp: Any) -> None:
    x = cp.arange(10.0)
    x * 2
    side = cp.cuda.Stream(non_blocking=True)
    with pytest.raises(graphcap.UnjoinedStreamError), graphcap.capture("cuda"):
        side.wait_event(cp.cuda.get_current_stream().record())
        with side:
            x * 2
    gc.collect()
    with graphcap.capture("cuda") as graph:
        y = x * 2
    graph.replay()
    assert cp.asnumpy(y).tolist() == [2.0 * n for n in range(10)]
    with side:
        assert cp.asnumpy(x * 3).tolist() == [3.0 * n for n in range(10)]


# -- H: outputs that the next replay overwrites ------------------------------------------------------------------------


def test_pytorch_104435_results_of_a_graphed_callable_are_the_callers(cp: Any) -> None:
    step = graphcap.make_graphed_callable(lambda x: x * 2 + 1, device="cuda")
    first = step(cp.arange(5.0))
    second = step(cp.arange(5.0) * 10)
    assert cp.asnumpy(first).tolist() == [1, 3, 5, 7, 9]
    assert cp.asnumpy(second).tolist() == [1, 21, 41, 61, 81]
    assert step.captures == 1
    assert type(first) is cp.ndarray


def test_static_results_are_said_to_be_overwritten_and_are(cp: Any) -> None:
    step = graphcap.make_graphed_callable(lambda x: x * 2, device="cuda", outputs="static")
    first = step(cp.arange(3.0))
    second = step(cp.ones(3))
    assert first.data.ptr == second.data.ptr
    assert cp.asnumpy(first).tolist() == [2, 2, 2]


# -- K: modules that are loaded inside a capture -----------------------------------------------------------------------


def test_soma_15_a_kernel_compiled_inside_the_capture_is_recorded(cp: Any) -> None:
    x = cp.arange(10.0)
    fresh = cp.ElementwiseKernel(
        "float64 x", "float64 y", f"y = x + {np.random.default_rng().integers(1 << 40)} * 0 + 5", "fresh"
    )
    with graphcap.capture("cuda") as graph:
        y = fresh(x)
    graph.replay()
    assert cp.asnumpy(y).tolist() == [n + 5.0 for n in range(10)]
    assert graph.topology().counts() == {"kernel": 1}


def test_mujoco_warp_350_a_kernel_lives_as_long_as_the_graph(cp: Any) -> None:
    x = cp.zeros(32, cp.float32)
    kernel = cp.RawKernel('extern "C" __global__ void six(float *a) { a[threadIdx.x] += 6; }', "six")
    kernel.compile()
    with graphcap.capture("cuda") as graph:
        kernel((1,), (32,), (x,))
    del kernel
    cp.clear_memo()
    gc.collect()
    graph.replay()
    graph.replay()
    assert (cp.asnumpy(x) == 12).all()


# -- L: host functions and host memory --------------------------------------------------------------------------------


def test_cupy_9274_an_exception_of_a_host_function_surfaces(cp: Any) -> None:
    hits: list[int] = []

    def call(what: list[int]) -> None:
        what.append(1)
        if len(what) == 2:
            raise ArithmeticError("the second time")

    with graphcap.capture("cuda") as graph:
        graphcap.current_stream("cuda").host_call(call, hits)
    graph.replay()
    graphcap.synchronize("cuda")
    graph.replay()
    with pytest.raises(ArithmeticError, match="the second time"):
        graphcap.synchronize("cuda")
    graph.replay()
    graphcap.synchronize("cuda")
    assert len(hits) == 3


def test_paddle_37774_the_pinned_source_of_a_captured_copy_is_kept(cp: Any) -> None:
    def pinned() -> Any:
        memory = cp.cuda.alloc_pinned_memory(64)
        host: Any = np.frombuffer(memory, np.float64, 8)
        host[...] = np.arange(8)
        return host

    a = cp.zeros(8)
    source = pinned()
    with graphcap.capture("cuda") as graph:
        graphcap.current_stream("cuda").copy(a, source)
        b = a + 1
    del source
    gc.collect()
    other = [pinned() for _ in range(10)]
    for one in other:
        one[...] = -1
    graph.replay()
    assert cp.asnumpy(b).tolist() == list(range(1, 9))
