"""``check_pool_order``, and kinds D and H of the recorded user problems: graphs that share a pool, and outputs that a replay overwrites."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.testing import BackendFixtures
from graphcap.testing.case import NBYTES, N, allocated, reserved, vector

xp = graphcap.array_namespace("cpu")


def _made(
    fx: BackendFixtures, stream: Any, pool: Any, x: Any, factor: float, **options: Any
) -> tuple[graphcap.Graph, Any]:
    """A graph whose one output is ``factor * x + x``, in memory of its pool."""
    graph = graphcap.Graph(fx.device, pool=pool, **options)
    with stream, graph:
        output = fx.allocate(NBYTES)
        fx.launch_axpy(stream, output, factor, x, x)
    return graph, output


def _with_temporary(fx: BackendFixtures, stream: Any, pool: Any, x: Any, out: Any) -> graphcap.Graph:
    """A graph that writes ``3 * x`` to `out` by way of a temporary, filled by copies, of which all backends know what they do."""
    graph = graphcap.Graph(fx.device, pool=pool)
    with stream, graph:
        temporary = fx.allocate(NBYTES)
        stream.copy(temporary, x)
        fx.launch_axpy(stream, out, 2, temporary, x)
        del temporary
    return graph


def test_pytorch_137844_an_output_where_another_graph_has_a_temporary(fx: BackendFixtures) -> None:
    """https://github.com/pytorch/pytorch/issues/137844 and pytorch#166975: "does it not overwrite?" It does, and this tells.

    The first graph's temporary is free when the second is captured, so the second's output lies there. Replayed in the order
    of capture all is well; the first graph after the second overwrites the second's output.
    """
    stream, pool = fx.make_stream(), graphcap.graph_pool_handle()
    x, out = fx.upload(vector(1)), fx.upload(np.zeros(N, np.float32))
    first = _with_temporary(fx, stream, pool, x, out)
    second, output = _made(fx, stream, pool, x, 4)
    found = graphcap.check_pool_order([first, second])
    first.replay(stream)
    second.replay(stream)
    np.testing.assert_array_equal(fx.download(output), 5 * vector(1))
    first.replay(stream)
    overwritten = not (fx.download(output) == 5 * vector(1)).all()
    assert bool(found.overwritten) == overwritten, "what is told is what happens"
    if fx.device_type in ("cuda", "cpu"):  # where nodes do not keep their operands; the CPU's launches do
        assert overwritten == (fx.device_type == "cuda")
    for conflict in found.overwritten:
        assert (conflict.kind, conflict.graph, conflict.by) == ("overwritten", 1, 0)
        assert (conflict.address, conflict.nbytes) == (output.ptr, NBYTES)
        assert conflict.node.startswith("node 0 (memcpy")
        assert f"replaying graph 0 overwrites the output of graph 1 at {output.ptr:#x}" in str(found)
    del output
    gc.collect()
    assert not graphcap.check_pool_order([first, second]).overwritten, "nobody can read it any more"


def test_outputs_that_lived_do_not_conflict(fx: BackendFixtures) -> None:
    """pytorch#166975: any order is fine as long as each output lived while the next graph was captured."""
    stream, pool = fx.make_stream(), graphcap.graph_pool_handle()
    x = fx.upload(vector(2))
    made = [_made(fx, stream, pool, x, factor) for factor in (1, 2, 3)]
    found = graphcap.check_pool_order(graph for graph, _ in made)
    assert not found
    assert str(found) == "The order of replays does not matter to any live array."
    for graph, _ in (*made[::-1], *made):
        graph.replay(stream)
    for factor, (_, output) in zip((1, 2, 3), made, strict=True):
        np.testing.assert_array_equal(fx.download(output), (factor + 1) * vector(2))


def test_graphs_of_different_pools_never_meet(fx: BackendFixtures) -> None:
    stream, x, out = fx.make_stream(), fx.upload(vector(1)), fx.upload(np.zeros(N, np.float32))
    first = _with_temporary(fx, stream, None, x, out)
    second, output = _made(fx, stream, None, x, 4)
    assert not graphcap.check_pool_order([first, second])
    assert output is not None


def test_what_one_graph_takes_from_another(fx: BackendFixtures) -> None:
    """A chain through the pool: the second reads the first's output, so the first must be replayed before it."""
    stream, pool = fx.make_stream(), graphcap.graph_pool_handle()
    x, out = fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
    first, output = _made(fx, stream, pool, x, 1)
    second = graphcap.Graph(fx.device, pool=pool)
    with stream, second:
        stream.copy(out, output)
    found = graphcap.check_pool_order([first, second])
    assert [(c.kind, c.graph, c.by, c.address) for c in found] == [("input", 1, 0, output.ptr)]
    assert found.inputs == tuple(found)
    assert not found.overwritten
    assert "replay graph 0 first" in str(found)


def test_a_kernel_that_is_given_another_graphs_output_may_overwrite_it(fx: BackendFixtures) -> None:
    """What a kernel does with a pointer is not known, but for the CPU, where a read-only view is only read."""
    stream, pool = fx.make_stream(), graphcap.graph_pool_handle()
    x, out = fx.upload(vector(2)), fx.upload(np.zeros(N, np.float32))
    first, output = _made(fx, stream, pool, x, 1)
    second = graphcap.Graph(fx.device, pool=pool)
    with stream, second:
        fx.launch_axpy(stream, out, 1, output, output)
    kinds = {conflict.kind for conflict in graphcap.check_pool_order([first, second]).overwritten}
    assert kinds == ({"overwritten"} if fx.device_type == "cpu" else {"may be overwritten"})


@pytest.mark.parametrize("replay", ["native", "python"])
def test_cpu_arrays_are_known_exactly(replay: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Array work of the CPU: temporaries are used again within the pool, and every read and write is known."""
    if replay == "python":
        monkeypatch.setenv("GRAPHCAP_CPU_REPLAY", "python")
    x, pool = xp.asarray(vector(1)), graphcap.graph_pool_handle()
    make: Any = graphcap.Stream
    stream = make("cpu")
    with graphcap.capture("cpu", pool=pool, stream=stream) as first:
        temporary = xp.cumsum(x)
        total = xp.flip(temporary) + x
        del temporary
    with graphcap.capture("cpu", pool=pool, stream=stream) as second:
        output = xp.cumsum(total)
    found = graphcap.check_pool_order([first, second])
    assert {c.kind for c in found.overwritten} == {"overwritten"}
    assert [(c.graph, c.by) for c in found.overwritten] == [(1, 0)]
    assert [(c.graph, c.by) for c in found.inputs] == [(1, 0)]
    first.replay()
    second.replay()
    expected = np.cumsum(np.flip(np.cumsum(vector(1))) + vector(1))
    np.testing.assert_array_equal(np.asarray(output), expected)
    first.replay()
    assert not (np.asarray(output) == expected).all()


def test_graphs_in_segments(fx: BackendFixtures) -> None:
    """A graph in segments counts as one: its pieces are looked at, and named, but never held against each other."""
    stream, pool = fx.make_stream(), graphcap.graph_pool_handle()
    x, out = fx.upload(vector(1)), fx.upload(np.zeros(N, np.float32))
    kept: dict[str, Any] = {}

    def by_way_of_a_temporary() -> None:
        temporary = fx.allocate(NBYTES)
        stream.copy(temporary, x)
        stream.copy(out, temporary)

    def keep(name: str, source: Any) -> None:
        if stream.is_capturing:
            kept.clear()  # of an attempt before this one
            kept[name] = fx.allocate(NBYTES)
            stream.copy(kept[name], source)

    def wait() -> None:
        stream.synchronize()

    def use(name: str) -> None:
        if stream.is_capturing:
            stream.copy(out, kept[name])

    with graphcap.capture(fx.device, pool=pool, stream=stream, on_forbidden="split") as first:
        first.step(wait)
        first.step(by_way_of_a_temporary)
    with graphcap.capture(fx.device, pool=pool, stream=stream, on_forbidden="split") as second:
        second.step(keep, "early", x)
        second.step(wait)
        second.step(use, "early")
    third = graphcap.Graph(fx.device, pool=pool)
    with stream, third:
        stream.copy(out, kept["early"])
    assert [segment.kind for segment in second.segments] == ["graph", "eager", "graph"]

    found = graphcap.check_pool_order([first, second, third])
    assert [(c.kind, c.graph, c.by) for c in found.inputs] == [("input", 2, 1)], (
        "what a graph takes from itself is its own"
    )
    first.replay(stream)
    second.replay(stream)
    np.testing.assert_array_equal(fx.download(kept["early"]), vector(1))
    stream.fill(x, 0)
    first.replay(stream)
    stream.synchronize()
    overwritten = not (fx.download(kept["early"]) == vector(1)).all()
    assert [(c.kind, c.graph, c.by) for c in found.overwritten] == ([("overwritten", 1, 0)] if overwritten else [])
    assert all(c.node.startswith("segment 1, node 0") for c in found.overwritten)
    if fx.device_type == "cuda":  # nodes of the others keep what they use
        assert overwritten


def test_refusals() -> None:
    graph = graphcap.Graph("cpu")
    with pytest.raises(graphcap.GraphStateError, match="graph 0: nothing is captured"):
        graphcap.check_pool_order([graph])
    with pytest.raises(TypeError, match="item 0 is a int"):
        graphcap.check_pool_order([1])  # type: ignore[list-item]  # on purpose
    with graphcap.capture("cpu", on_forbidden="split") as steps:
        steps.step(np.negative, xp.arange(3.0))
        with pytest.raises(graphcap.GraphStateError, match="graph 0: the capture is still open"):
            graphcap.check_pool_order([steps])
    assert not graphcap.check_pool_order([steps])
    steps.reset()
    with pytest.raises(graphcap.GraphStateError, match="graph 0: nothing is captured"):
        graphcap.check_pool_order([steps])


def test_cuda_needs_to_have_looked() -> None:
    from tests.cuda.kit import make_stream

    stream = make_stream()
    memory, graph = stream.allocate(64), graphcap.Graph("cuda", lifetimes="off")
    with stream, graph:
        stream.fill(memory, 0)
    with pytest.raises(graphcap.GraphStateError, match="lifetimes='off'"):
        graphcap.check_pool_order([graph])


# -- D: pools ----------------------------------------------------------------------------------------------------------


def test_vllm_9724_a_dropped_output_frees_its_memory_for_the_next_graph(fx: BackendFixtures) -> None:
    """https://github.com/vllm-project/vllm/pull/9724: outputs kept alive pinned pool memory for every size.

    The pool belongs to the graphs, so an output need not be kept for the sake of its memory: dropped, it is used again.
    """
    stream, pool = fx.make_stream(), graphcap.graph_pool_handle()
    graphs = []
    for size in range(1, 6):
        graph = graphcap.Graph(fx.device, pool=pool)
        with stream, graph:
            output = fx.allocate(4 << 20)
            stream.fill(output, size)
            del output
        graphs.append(graph)
    keeps_operands = fx.device_type not in ("cuda",)
    assert reserved(fx.device, pool) <= (5 if keeps_operands else 1) * (20 << 20)


def test_local_inference_lab_180_a_pool_with_live_arrays_and_no_graph_is_used_again(fx: BackendFixtures) -> None:
    """https://github.com/local-inference-lab/vllm/pull/180: such a pool could not be opened again."""
    stream, pool, x = fx.make_stream(), graphcap.graph_pool_handle(), fx.upload(vector(1))
    graph, output = _made(fx, stream, pool, x, 1)
    graph.replay(stream)
    graph.reset()
    again, second = _made(fx, stream, pool, x, 2)
    again.replay(stream)
    np.testing.assert_array_equal(fx.download(output), 2 * vector(1))
    np.testing.assert_array_equal(fx.download(second), 3 * vector(1))


def test_scenario_9_an_array_cached_in_the_capture_lives_until_it_is_dropped(fx: BackendFixtures) -> None:
    """Scenario 9: reserved bytes come back to where they were but for arrays that are still alive."""
    stream, x, cache = fx.make_stream(), fx.upload(vector(1)), []
    graphcap.empty_cache(fx.device)
    before, graph = allocated(fx.device), graphcap.Graph(fx.device)
    for _ in range(20):
        with stream, graph:
            made = fx.allocate(NBYTES)
            fx.launch_axpy(stream, made, 1, x, x)
            cache.append(made)
            del made
        graph.replay(stream)
        stream.synchronize()
        graph.reset()
        gc.collect()
        del cache[:-1]
    np.testing.assert_array_equal(fx.download(cache[0]), 2 * vector(1))
    del cache[:]
    graphcap.synchronize(fx.device)
    assert allocated(fx.device) == before


# -- H: outputs that the next replay overwrites ------------------------------------------------------------------------


def _callable(fx: BackendFixtures, outputs: str) -> Any:
    def double(x: Any) -> Any:
        stream = graphcap.current_stream(fx.device)
        made = stream.allocate(x.nbytes)
        fx.launch_axpy(stream, made, 1, x, x)
        return made

    return graphcap.make_graphed_callable(double, device=fx.device, outputs=outputs)


def test_pytorch_148439_copied_outputs_stay(fx: BackendFixtures) -> None:
    """https://github.com/pytorch/pytorch/issues/148439: the one clear rule: outputs are copies unless asked otherwise."""
    stream, f = fx.make_stream(), _callable(fx, "copy")
    with stream:
        results = [f(fx.upload(vector(turn))) for turn in range(3)]
    for turn, result in enumerate(results):
        np.testing.assert_array_equal(fx.download(result), 2 * vector(turn))
    f.reset()


def test_pytorch_104435_static_outputs_are_the_graphs_own(fx: BackendFixtures) -> None:
    """https://github.com/pytorch/pytorch/issues/104435: asked for by name, and then the next call overwrites them."""
    stream, f = fx.make_stream(), _callable(fx, "static")
    with stream:
        first = f(fx.upload(vector(1)))
        second = f(fx.upload(vector(7)))
    assert second is first
    np.testing.assert_array_equal(fx.download(first), 2 * vector(7))
    f.reset()


def test_scenario_17_inputs_and_replays_are_in_one_order(fx: BackendFixtures) -> None:
    """Scenario 17 (ninfer-3090#38): 146 of 200 replays read stale input. ``replay(inputs=)`` keeps one order."""
    count = 1 << 18
    stream = fx.make_stream()
    x, out = fx.upload(np.zeros(count, np.float32)), fx.upload(np.zeros(count, np.float32))
    graph = graphcap.Graph(fx.device)
    with stream, graph:
        fx.launch_axpy(stream, out, 1, x, x)
    graph.bind(x=x)
    given = [fx.upload(np.full(count, turn, np.float32)) for turn in range(4)]
    stale = 0
    for turn in range(200):
        graph.replay(stream, inputs={"x": given[turn % 4]})
        if turn % 20 == 19:
            stale += int(fx.download(out)[-1] != 2 * (turn % 4))
    assert stale == 0
