"""Kind A of the recorded user problems: stale and aliased pointers. Each ends in the right result, a warning, or an error by
name, on every backend on which it can occur. The table of ``docs/lifetimes.md`` has a row for each.
"""

from __future__ import annotations

import gc
import warnings
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.testing import BackendFixtures
from graphcap.testing.case import NBYTES, N, allocated, vector
from tests.lifetimes.kit import raw_axpy


def _zeros(fx: BackendFixtures) -> Any:
    return fx.upload(np.zeros(N, np.float32))


def _refill(fx: BackendFixtures, buffer: Any, values: Any) -> None:
    fx.helper.copy(buffer, values)
    fx.helper.synchronize()


def test_cupy_9655_an_input_whose_name_is_bound_anew_stays_the_graphs(fx: BackendFixtures) -> None:
    """https://github.com/cupy/cupy/issues/9655 and scenario 1: ``A = A * 2`` captured; the second launch gave garbage."""
    stream = fx.make_stream()
    first = array = fx.upload(vector(1))
    graph = graphcap.Graph(fx.device)
    with stream, graph:
        made = fx.allocate(NBYTES)
        fx.launch_axpy(stream, made, 1, array, array)
        array = made
        del made
    address = first.ptr
    del first
    gc.collect()
    canaries = [buffer for _ in range(25) for buffer in fx.poison(NBYTES, stream)]
    assert len(canaries) >= 200
    assert address not in [canary.ptr for canary in canaries]
    for _ in range(3):
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(array), 2 * vector(1))
    for canary in canaries:
        np.testing.assert_array_equal(fx.download(canary, np.uint8), np.full(NBYTES, 0xAB, np.uint8))


def test_cubecl_1612_freed_intermediates_stay_out_of_the_eager_pool(fx: BackendFixtures) -> None:
    """https://github.com/tracel-ai/cubecl/issues/1612 and scenario 1: NaN after the second replay."""
    stream = fx.make_stream()
    x, y = fx.upload(vector(1)), _zeros(fx)
    one = fx.upload(np.ones(N, np.float32))
    graph = graphcap.Graph(fx.device)
    with stream, graph:
        t = fx.allocate(NBYTES)
        address = t.ptr
        fx.launch_axpy(stream, t, 1, x, x)
        fx.launch_axpy(stream, y, 1, t, one)
        del t
    canaries = [buffer for _ in range(25) for buffer in fx.poison(NBYTES, stream)]
    assert not any(canary.ptr <= address < canary.ptr + NBYTES for canary in canaries)
    for turn in range(3):
        _refill(fx, x, vector(turn))
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(y), 2 * vector(turn) + 1)
    for canary in canaries:
        np.testing.assert_array_equal(fx.download(canary, np.uint8), np.full(NBYTES, 0xAB, np.uint8))


def test_cupy_8318_two_like_graphs_each_write_their_own_output(fx: BackendFixtures) -> None:
    """https://github.com/cupy/cupy/issues/8318: of two identical graphs the first "did not work"."""
    stream = fx.make_stream()
    x, y = fx.upload(vector(1)), fx.upload(vector(5))
    graphs, outputs = [], []
    for array in (x, y):
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            made = fx.allocate(NBYTES)
            fx.launch_axpy(stream, made, 3, array, array)
            array = made  # the program of the issue
        graphs.append(graph)
        outputs.append(made)
        del made, array
    for graph in (*graphs, *graphs[::-1]):
        graph.replay(stream)
    np.testing.assert_array_equal(fx.download(outputs[0]), 4 * vector(1))
    np.testing.assert_array_equal(fx.download(outputs[1]), 4 * vector(5))


def test_cuda_python_166_buffers_of_the_function_that_built_the_graph(fx: BackendFixtures) -> None:
    """https://github.com/NVIDIA/cuda-python/issues/166: the graph read garbage once the function had returned."""
    out = _zeros(fx)

    def build() -> graphcap.Graph:
        stream = fx.make_stream()
        on_device, on_host = fx.upload(vector(2)), vector(7)
        staged = stream.allocate(NBYTES)
        graph = graphcap.Graph(fx.device)
        with stream, graph:
            stream.copy(staged, on_host)
            fx.launch_axpy(stream, out, 2, on_device, staged)
        return graph

    graph = build()
    gc.collect()
    _ = [np.full(N, -1, np.float32) for _ in range(64)], fx.poison(NBYTES)
    for _ in range(2):
        graph.replay(fx.helper)
        np.testing.assert_array_equal(fx.download(out), 2 * vector(2) + vector(7))


def test_cuda_python_2039_a_buffer_made_in_the_argument_list(fx: BackendFixtures) -> None:
    """https://github.com/NVIDIA/cuda-python/issues/2039: the only reference died before the launch."""
    out, stream = _zeros(fx), fx.make_stream()
    made = [fx.upload(vector(4)), fx.upload(vector(3))]
    graph = graphcap.Graph(fx.device)
    with stream, graph:
        fx.launch_axpy(stream, out, 2, made.pop(), made.pop())
    gc.collect()
    _ = fx.poison(NBYTES, stream)
    graph.replay(stream)
    np.testing.assert_array_equal(fx.download(out), 2 * vector(3) + vector(4))


def test_pytorch_170646_declared_inputs_are_kept(fx: BackendFixtures) -> None:
    """https://github.com/pytorch/pytorch/pull/170646 and scenario 2: an input freed between capture and replay."""
    out, x = _zeros(fx), fx.upload(vector(6))
    with graphcap.capture(fx.device, inputs=[x]) as graph:
        fx.launch_axpy(graphcap.current_stream(fx.device), out, 1, x, x)
    address = x.ptr
    del x
    gc.collect()
    assert address not in [buffer.ptr for buffer in fx.poison(NBYTES)]
    graph.replay(fx.helper)
    np.testing.assert_array_equal(fx.download(out), 2 * vector(6))


def test_pytorch_174649_bare_addresses_of_graphcaps_memory_are_kept(with_addresses: BackendFixtures) -> None:
    """https://github.com/pytorch/pytorch/pull/174649: a check by tensors misses what is launched past the framework.

    Addresses are looked up, so the graph holds the block, whoever frees it. (OpenCL devices refuse bare addresses when such a
    graph is replayed; what the graph holds is the same.)
    """
    fx = with_addresses
    stream, out, x = fx.make_stream(), _zeros(fx), fx.upload(vector(6))
    before = allocated(fx.device)
    graph = graphcap.Graph(fx.device, keep_graph=True, lifetimes="strict")
    with stream, graph:
        raw_axpy(fx, stream, out, 2, x.ptr, x.ptr)
    address = x.ptr
    del x
    gc.collect()
    assert allocated(fx.device) == before
    assert address not in [buffer.ptr for buffer in fx.poison(NBYTES, stream)]
    if fx.device_type == "cuda":
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(out), 3 * vector(6))
    graph.reset()
    graphcap.synchronize(fx.device)
    assert allocated(fx.device) < before, "the block is free once the graph is"


def test_pytorch_170646_memory_freed_in_the_body_is_named(with_addresses: BackendFixtures) -> None:
    """As above, but the array dies before the capture ends: there is nothing left to hold, and that is told."""
    fx = with_addresses
    stream, out, x = fx.make_stream(), _zeros(fx), fx.upload(vector(6))
    address = x.ptr
    graph = graphcap.Graph(fx.device, keep_graph=True)
    with pytest.warns(graphcap.UnownedPointerWarning, match="freed already") as caught, stream, graph:
        raw_axpy(fx, stream, out, 2, address, address)
        del x
    assert isinstance(caught[0].message, graphcap.UnownedPointerWarning)
    assert caught[0].filename == __file__
    assert [hex(address) in line for line in caught[0].message.pointers] == [True, True]
    strict = graphcap.Graph(fx.device, lifetimes="strict")
    with pytest.raises(graphcap.UnownedPointerError, match=f"node 0 .kernel .*{address:#x}") as refused, stream, strict:
        raw_axpy(fx, stream, out, 2, address, address)
    assert len(refused.value.pointers) == 2
    with pytest.raises(graphcap.GraphStateError):
        strict.replay(stream)
    with stream, strict:  # the object is new
        stream.fill(out, 0)
    strict.replay(stream)


def test_warp_1398_arrays_of_the_capture_are_real_before_the_first_replay(fx: BackendFixtures) -> None:
    """https://github.com/NVIDIA/warp/issues/1398: eager use of an array made in a capture was an illegal access."""
    stream, x = fx.make_stream(), fx.upload(vector(2))
    graph = graphcap.Graph(fx.device)
    with stream, graph:
        made = fx.allocate(NBYTES)
        fx.launch_axpy(stream, made, 2, x, x)
    _refill(fx, made, vector(9))
    np.testing.assert_array_equal(fx.download(made), vector(9))
    graph.replay(stream)
    np.testing.assert_array_equal(fx.download(made), 3 * vector(2))


def test_warp_1373_scratch_that_grows_within_the_capture(fx: BackendFixtures) -> None:
    """https://github.com/NVIDIA/warp/issues/1373: an earlier node kept the address of the scratch that was freed."""
    stream, x = fx.make_stream(), fx.upload(vector(1))
    out, large = _zeros(fx), fx.upload(np.arange(4 << 20, dtype=np.float32))
    graph = graphcap.Graph(fx.device)
    with stream, graph:
        scratch = fx.allocate(NBYTES)
        fx.launch_axpy(stream, scratch, 1, x, x)
        fx.launch_axpy(stream, out, 1, scratch, x)
        scratch = fx.allocate(16 << 20)
        stream.copy(scratch, large)
    graphcap.empty_cache(fx.device)
    for turn in range(3):
        _refill(fx, x, vector(turn))
        graph.replay(stream)
        np.testing.assert_array_equal(fx.download(out), 3 * vector(turn))
        np.testing.assert_array_equal(fx.download(scratch), np.arange(4 << 20, dtype=np.float32))


def test_llama_cpp_26771_emptying_the_cache_leaves_the_graphs_memory(fx: BackendFixtures) -> None:
    """https://github.com/ggml-org/llama.cpp/pull/26771: a page fault on replay after the pool was flushed."""
    stream, x, out = fx.make_stream(), fx.upload(vector(3)), _zeros(fx)
    graph = graphcap.Graph(fx.device)
    graph.enable_debug_mode()  # looks at every segment before the replay
    with stream, graph:
        inner = fx.allocate(32 << 20)
        stream.fill(inner, 0)
        small = fx.allocate(NBYTES)
        fx.launch_axpy(stream, small, 1, x, x)
        fx.launch_axpy(stream, out, 1, small, x)
        del inner, small
    del x
    graphcap.empty_cache(fx.device)
    graph.replay(stream)
    np.testing.assert_array_equal(fx.download(out), 3 * vector(3))


def test_candle_3352_host_sources_of_copies_are_kept(fx: BackendFixtures) -> None:
    """https://github.com/huggingface/candle/pull/3352: host vectors of memcpy nodes were dropped after the capture."""
    stream, out = fx.make_stream(), _zeros(fx)
    graph = graphcap.Graph(fx.device, lifetimes="strict")
    with stream, graph:
        stream.copy(out, next(map(np.copy, [vector(8)])))
    gc.collect()
    _ = [np.full(N, -1, np.float32) for _ in range(64)]
    graph.replay(stream)
    np.testing.assert_array_equal(fx.download(out), vector(8))


def test_aiter_5393_a_cache_first_built_in_the_capture_is_told_of(fx: BackendFixtures) -> None:
    """https://github.com/ROCm/aiter/pull/5393: a cached workspace was overwritten by every replay.

    It lies where a temporary of the same capture was, and no captured work writes it. Where nodes keep their operands, as on
    the XPU, the memory is not used twice, so there is nothing to tell.
    """
    stream, x, out = fx.make_stream(), fx.upload(vector(1)), _zeros(fx)
    graph = graphcap.Graph(fx.device)
    addresses = []

    def capture() -> Any:
        with stream, graph:
            temporary = fx.allocate(NBYTES)
            addresses.append(temporary.ptr)
            fx.launch_axpy(stream, temporary, 1, x, x)
            fx.launch_axpy(stream, out, 1, temporary, x)
            del temporary
            workspace = fx.allocate(NBYTES)
            addresses.append(workspace.ptr)
            return workspace

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        workspace = capture()
    assert {warning.category for warning in told} <= {graphcap.ReusedMemoryWarning}
    _refill(fx, workspace, vector(50))
    graph.replay(stream)
    kept = bool((fx.download(workspace) == vector(50)).all())
    assert (addresses[0] == addresses[1]) == bool(told)
    assert kept or told


def test_aiter_5393_an_output_in_reused_memory_is_no_trouble(fx: BackendFixtures) -> None:
    """The control of the test above: an output may lie where a temporary was, since the graph writes it last."""
    stream, x, out = fx.make_stream(), fx.upload(vector(1)), _zeros(fx)
    graph = graphcap.Graph(fx.device)
    with stream, graph:  # warnings are errors in these tests
        temporary = fx.allocate(NBYTES)
        fx.launch_axpy(stream, temporary, 1, x, x)
        fx.launch_axpy(stream, out, 1, temporary, x)
        del temporary
        made = fx.allocate(NBYTES)
        fx.launch_axpy(stream, made, 1, out, x)
    graph.replay(stream)
    np.testing.assert_array_equal(fx.download(made), 4 * vector(1))


def test_warp_1419_temporaries_of_forked_streams(fx: BackendFixtures) -> None:
    """https://github.com/NVIDIA/warp/pull/1419: illegal address after a few replays with allocations on a forked stream."""
    origin, fork = fx.make_stream(), fx.make_stream()
    x, left, right = fx.upload(vector(1)), _zeros(fx), _zeros(fx)
    graph = graphcap.Graph(fx.device)
    with origin, graph:
        fork.wait(origin)
        for _ in range(3):
            t = fork.allocate(NBYTES)
            fx.launch_axpy(fork, t, 1, x, x)
            fx.launch_axpy(fork, right, 1, t, x)
            u = origin.allocate(NBYTES)
            fx.launch_axpy(origin, u, 2, x, x)
            fx.launch_axpy(origin, left, 2, u, x)
            del t, u
        origin.wait(fork)
    for turn in range(5):
        _refill(fx, x, vector(turn))
        graph.replay(origin)
        np.testing.assert_array_equal(fx.download(right), 3 * vector(turn))
        np.testing.assert_array_equal(fx.download(left), 7 * vector(turn))


def test_libceed_1987_an_input_that_moved_is_copied_in(fx: BackendFixtures) -> None:
    """https://github.com/CEED/libCEED/pull/1987: a moved input meant recapturing by hand; here it is handed to the replay."""
    stream, x, out = fx.make_stream(), fx.upload(vector(1)), _zeros(fx)
    graph = graphcap.Graph(fx.device)
    with stream, graph:
        fx.launch_axpy(stream, out, 1, x, x)
    graph.bind(x=x)
    for turn in range(3):
        moved = fx.upload(vector(10 * turn))
        assert moved.ptr != x.ptr
        graph.replay(stream, inputs={"x": moved})
        np.testing.assert_array_equal(fx.download(out), 2 * vector(10 * turn))
