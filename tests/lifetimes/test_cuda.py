"""CUDA: pointers of other libraries are seen in every kind of node, told of, and looked at again where that was asked for."""

from __future__ import annotations

import gc
import importlib
import weakref
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.backends.cuda import _calls as calls
from graphcap.backends.cuda import cuda_backend
from graphcap.testing.case import NBYTES, N, vector
from tests.cuda import kit
from tests.cuda.kit import host, make_stream
from tests.lifetimes.kit import Tensor, foreign_memory

driver: Any = importlib.import_module("cuda.bindings.driver")


def _launch(stream: Any, out: Any, x: Any) -> None:
    stream.launch(kit.kernel("axpy_to"), 1, 128, out, np.float32(1), x, x, np.int32(N))


def _new(**options: Any) -> graphcap.Graph:
    return graphcap.Graph("cuda", **options)


def test_unowned_pointers_are_listed_by_node() -> None:
    """Scenario 2: an undeclared input of another library is a warning at the user's line, with the cure."""
    stream = make_stream()
    out, graph = stream.allocate(NBYTES), _new()
    with foreign_memory(NBYTES) as address:
        with pytest.warns(graphcap.UnownedPointerWarning) as caught, stream, graph:
            stream.fill(out, 0)
            _launch(stream, out, np.uint64(address))
        message = caught[0].message
        assert isinstance(message, graphcap.UnownedPointerWarning)
        assert len(caught) == 1, "one warning for each graph"
        assert caught[0].filename == __file__
        assert [
            f"node 1 (kernel 'axpy_to'): argument {i} = {address:#x}" in message.pointers[i - 2] for i in (2, 3)
        ] == [
            True,
            True,
        ]
        assert "device memory of another library" in str(message)
        assert "graph.retain" in str(message)
        graph.replay(stream)  # the warning took nothing away
        stream.synchronize()


def test_off_says_nothing_and_strict_refuses() -> None:
    stream = make_stream()
    out, quiet, strict = stream.allocate(NBYTES), _new(lifetimes="off"), _new(lifetimes="strict")
    with foreign_memory(NBYTES) as address:
        with stream, quiet:
            _launch(stream, out, np.uint64(address))
        with pytest.raises(graphcap.UnownedPointerError), stream, strict:
            _launch(stream, out, np.uint64(address))
        with pytest.raises(graphcap.UnownedPointerError), graphcap.capture("cuda", strict=True):
            _launch(graphcap.current_stream("cuda"), out, np.uint64(address))
    with stream, strict:
        stream.fill(out, 1)
    with pytest.raises(ValueError, match="'off', 'warn', 'strict'"):
        _new(lifetimes="loud")


def test_a_retained_array_owns_its_memory() -> None:
    """The easy way to declare: ``retain``, also in a tuple; an object that tells nothing is declared with its address."""
    stream = make_stream()
    out = stream.allocate(NBYTES)
    with foreign_memory(NBYTES) as address:
        for owner, options in (
            (Tensor(address, N), {}),
            ((1, [Tensor(address, N)]), {}),
            (object(), {"address": address, "nbytes": NBYTES}),
        ):
            graph = _new(lifetimes="strict")
            with stream, graph:
                assert graph.retain(owner, **options) is owner
                _launch(stream, out, np.uint64(address + 4))
            graph.reset()
        graph = _new(lifetimes="strict")
        with (
            pytest.raises(graphcap.UnownedPointerError, match="argument 2"),
            stream,
            graph,
        ):
            graph.retain(Tensor(address, 2))
            _launch(stream, out, np.uint64(address + 8))


def test_pointers_inside_structs() -> None:
    """A struct passed by value may hold pointers; its other words, and padding, are no pointers."""
    stream, out = make_stream(), kit.device(np.zeros(N)).buffer
    ends = np.dtype([("n", "<i4"), ("in", "<u8"), ("out", "<u8")], align=True)
    with foreign_memory(NBYTES) as address:
        told = pytest.warns(graphcap.UnownedPointerWarning, match=f"argument 0 at byte 8 = {address:#x} ")
        with told as caught, stream, _new():
            stream.launch(kit.kernel("copy_ends"), 1, 128, np.array((N, address, out.ptr), ends))
        assert len(caught[0].message.pointers) == 1  # type: ignore[union-attr]  # a warning of the class asked for
    x, graph = kit.device(vector(5)).buffer, _new(lifetimes="strict")
    with stream, graph:
        stream.launch(kit.kernel("copy_ends"), 1, 128, np.array((N, x.ptr, out.ptr), ends))
    address = x.ptr
    del x
    gc.collect()
    assert address not in [stream.allocate(NBYTES).ptr for _ in range(16)]
    graph.replay(stream)
    np.testing.assert_array_equal(host(out), vector(5))


def test_launch_arguments_are_owned() -> None:
    """What graphcap itself is given it keeps, whatever made it."""
    stream = make_stream()
    out = stream.allocate(NBYTES)
    with foreign_memory(NBYTES) as address:
        graph = _new(lifetimes="strict")
        tensor = Tensor(address, N)
        alive = weakref.ref(tensor)
        with stream, graph:
            stream.fill(tensor, 0)
            _launch(stream, out, tensor)
            stream.copy(out, tensor)
        del tensor
        gc.collect()
        assert alive() is not None
        graph.replay(stream)
        graph.reset()
        graphcap.synchronize("cuda")
        assert alive() is None


def test_pytorch_174649_launches_past_graphcap() -> None:
    """https://github.com/pytorch/pytorch/pull/174649: raw driver launches count. Known memory is held, other memory told of."""
    stream = make_stream()
    out, x = stream.allocate(NBYTES), kit.device(vector(3)).buffer
    values = (out.ptr, 2.0, x.ptr, x.ptr, N)
    types = (np.uint64, np.float32, np.uint64, np.uint64, np.int32)
    packed = [np.array([value], kind) for value, kind in zip(values, types, strict=True)]
    pointers = np.array([array.ctypes.data for array in packed], np.uint64)
    function = driver.CUfunction(int(kit.kernel("axpy_to").handle))
    graph = _new(lifetimes="strict")
    with stream, graph:
        code, *_ = driver.cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, stream.handle, pointers.ctypes.data, 0)
        assert not code
    address = x.ptr
    del x
    gc.collect()
    taken = [stream.allocate(NBYTES) for _ in range(16)]
    assert address not in [buffer.ptr for buffer in taken]
    graph.replay(stream)
    np.testing.assert_array_equal(host(out), 3 * vector(3))


def test_candle_3352_host_memory_of_foreign_copies() -> None:
    """https://github.com/huggingface/candle/pull/3352: a copy past graphcap reads host memory that nobody keeps."""
    stream = make_stream()
    out, source = stream.allocate(NBYTES), vector(4)

    def copy(address: int) -> None:
        code, *_ = driver.cuMemcpyHtoDAsync(out.ptr, address, NBYTES, stream.handle)
        assert not code

    with pytest.warns(graphcap.UnownedPointerWarning, match="node 0 .memcpy.: source = "), stream, _new():
        copy(source.ctypes.data)
    graph = _new(lifetimes="strict")
    with stream, graph:
        graph.retain(source)
        copy(source.ctypes.data)
    del source
    gc.collect()
    graph.replay(stream)
    np.testing.assert_array_equal(host(out), vector(4))


def test_foreign_host_calls() -> None:
    """cuda-python#790: the data of a host call past graphcap is nobody's, unless its object is retained."""
    stream = make_stream()
    memory = stream.allocate(64)
    data = (print, 1)

    def submit() -> None:
        stream.fill(memory, 0)
        info = calls.capture_info(stream.handle)
        foreign = driver.CUDA_HOST_NODE_PARAMS()
        foreign.fn = driver.CUhostFn(_harmless())
        foreign.userData = id(data)
        frontier = [driver.CUgraphNode(node) for node in info.frontier]
        code, node = driver.cuGraphAddHostNode(driver.CUgraph(info.graph), frontier, len(frontier), foreign)
        assert not code
        calls.set_frontier(stream.handle, int(node))

    with pytest.warns(graphcap.UnownedPointerWarning, match="data of a host call of another library"), stream, _new():
        submit()
    graph = _new(lifetimes="strict")
    with stream, graph:
        graph.retain([data])
        submit()


def _harmless() -> int:
    """The address of a C function ``void (void *)`` that does nothing of note."""
    from graphcap.backends.cuda import _driver

    ffi = _driver.ffi()
    made = ffi.callback("void(void *)", lambda data: None)
    _kept.append(made)
    return int(ffi.cast("uintptr_t", made))


_kept: list[Any] = []


def test_pointers_in_conditional_bodies() -> None:
    """The bodies of conditional nodes are looked at too, and the node that holds them is named."""
    backend = cuda_backend()
    if not backend.capabilities.conditional_nodes:
        pytest.skip(f"backend {backend.name} lacks the capability 'conditional_nodes'")
    stream = make_stream()
    out, graph = stream.allocate(NBYTES), _new()
    with foreign_memory(NBYTES) as address:
        with (
            pytest.warns(graphcap.UnownedPointerWarning, match=r"node 0 of body 0 of node \d") as caught,
            stream,
            graph,
        ):
            condition = stream.condition(default=1)
            with stream.if_(condition) as body:
                _launch(body, out, np.uint64(address))
        assert "kernel 'axpy_to'" in str(caught[0].message)


def test_memory_nodes_are_the_graphs_own() -> None:
    """Memory that an allocation node makes belongs to the graph."""
    stream, graph = make_stream(), _new(lifetimes="strict")
    with stream, graph:
        code, address = driver.cuMemAllocAsync(NBYTES, stream.handle)
        assert not code
        out = Tensor(int(address), N)
        driver.cuMemsetD8Async(address, 1, NBYTES, stream.handle)
        stream.launch(
            kit.kernel("axpy_to"),
            1,
            128,
            np.uint64(out.address),
            np.float32(1),
            np.uint64(out.address),
            np.uint64(out.address),
            np.int32(N),
        )
        driver.cuMemFreeAsync(address, stream.handle)
    graph.replay(stream)
    stream.synchronize()


# -- debug mode --------------------------------------------------------------------------------------------------------


def test_freed_foreign_memory_is_stale_in_debug_mode() -> None:
    """Undeclared, told of, freed, replayed: debug mode asks the driver and refuses before anything is launched."""
    stream = make_stream()
    out, graph = stream.allocate(NBYTES), _new()
    graph.enable_debug_mode()
    with foreign_memory(NBYTES) as address:
        with pytest.warns(graphcap.UnownedPointerWarning), stream, graph:
            _launch(stream, out, np.uint64(address))
        for _ in range(3):
            graph.replay(stream)
        stream.synchronize()
    with pytest.raises(graphcap.StalePointerError) as refused:
        graph.replay(stream)
    error = refused.value
    assert isinstance(error, graphcap.GraphError)
    assert (error.node, error.argument, error.address) == ("node 0 (kernel 'axpy_to')", "argument 2", address)
    assert len(error.others) == 0, "one look at each address"
    assert "given back to the driver" in str(error)


@pytest.mark.parametrize("mode", ["debug", "strict"])
def test_flashinfer_4553_a_workspace_that_was_resized(mode: str) -> None:
    """https://github.com/flashinfer-ai/flashinfer/pull/4553: ``resize_`` moved the storage under an older graph."""
    stream = make_stream()
    out = stream.allocate(NBYTES)
    graph = _new(lifetimes="strict" if mode == "strict" else "warn")
    if mode == "debug":
        graph.enable_debug_mode()
    with foreign_memory(NBYTES) as old, foreign_memory(2 * NBYTES) as new:
        workspace = Tensor(old, N)
        with stream, graph:
            _launch(stream, out, workspace)
        with stream:
            for _ in range(3):
                graph.replay()
            stream.synchronize()
            workspace.address, workspace.count = new, 2 * N
            with pytest.raises(graphcap.StalePointerError, match=f"Tensor .* lies at {new:#x} by now") as refused:
                graph.replay()
        assert refused.value.address == old


def test_a_closed_buffer_is_stale_in_debug_mode() -> None:
    """A cuda.core buffer that its user closes lives on as an object, but its memory does not."""
    core: Any = importlib.import_module("cuda.core")
    stream = make_stream()
    out, graph = stream.allocate(NBYTES), _new(lifetimes="strict")
    graph.enable_debug_mode()
    with foreign_memory(NBYTES) as address:
        buffer = core.Buffer.from_handle(address, NBYTES)
        with stream, graph:
            graph.retain(buffer)
            _launch(stream, out, np.uint64(address))
        graph.replay(stream)
        stream.synchronize()
        buffer.close()
        with pytest.raises(graphcap.StalePointerError, match="Buffer that it belongs to was closed"):
            graph.replay(stream)


def test_inputs_that_are_not_kept_are_looked_at_in_every_mode() -> None:
    """Scenario 2, ``keep_inputs=False``: the array is not kept; a replay after its death is refused, with who let it go."""
    out, x = make_stream().allocate(NBYTES), kit.device(vector(2))
    with graphcap.capture("cuda", inputs=[x], keep_inputs=False) as graph:
        _launch(graphcap.current_stream("cuda"), out, x)
    address, alive = x.buffer.ptr, weakref.ref(x)
    stream = make_stream()
    with stream:
        for _ in range(3):
            graph.replay()
        np.testing.assert_array_equal(host(out), 2 * vector(2))
        del x
        assert alive() is None, "it is not kept"
        with pytest.raises(graphcap.StalePointerError, match=f"{address:#x}.*DeviceArray of {NBYTES} bytes") as refused:
            graph.replay()
    assert "test_cuda.py" in refused.value.freed_by
    unknown = graphcap.capture("cuda", inputs=[object()], keep_inputs=False)
    with pytest.raises(TypeError, match="memory of a object is not known"), unknown:
        pass


def test_a_node_that_was_given_other_memory_is_looked_at_there() -> None:
    """After ``set_args`` the old owner may go, and the new one may not."""
    stream = make_stream()
    out, graph = stream.allocate(NBYTES), _new()
    graph.enable_debug_mode()
    with foreign_memory(NBYTES) as first, foreign_memory(NBYTES) as second:
        old, new = Tensor(first, N), Tensor(second, N)
        with stream, graph:
            _launch(stream, out, old)
        graph.node(0).set_args(out, np.float32(1), new, new, np.int32(N))
        old.address = first + 4
        graph.replay(stream)
        stream.synchronize()
        new.address = second + 4
        with pytest.raises(graphcap.StalePointerError, match=f"node 0 as it was changed.*{second:#x}"):
            graph.replay(stream)


def test_a_graph_that_is_checked_never_takes_the_short_way() -> None:
    """The short way of replays looks at nothing; it is for graphs that have nothing to look at."""
    stream = make_stream()
    out, x = stream.allocate(NBYTES), kit.device(vector(2))
    plain, checked = _new(), _new()
    checked.enable_debug_mode()
    for graph in (plain, checked):
        with stream, graph:
            _launch(stream, out, x)
    impl: Any = checked.impl
    looks = []
    check = impl._checks.check

    def looked() -> None:
        looks.append(1)
        check()

    impl._checks.check = looked
    with stream:
        for _ in range(4):
            plain.replay()
            checked.replay()
    assert len(looks) == 4
    plain.update(checked)
    with stream:
        plain.replay()
    assert len(looks) == 5, "what was looked at in the other graph is looked at here from now on"


def test_aiter_5393_a_cache_first_built_in_the_capture() -> None:
    """https://github.com/ROCm/aiter/pull/5393: it lies where an earlier temporary was, and no node writes it."""
    stream, graph = make_stream(), _new()
    out, x = stream.allocate(NBYTES), kit.device(vector(1))
    with (
        pytest.warns(graphcap.ReusedMemoryWarning, match=f"array of {NBYTES} bytes.*overwrites it by node 0"),
        stream,
        graph,
    ):
        temporary = stream.allocate(NBYTES)
        _launch(stream, temporary, x)
        _launch(stream, out, temporary)
        del temporary
        workspace = stream.allocate(NBYTES)
    stream.copy(workspace, vector(50))
    graph.replay(stream)
    assert not (host(workspace) == vector(50)).all(), "so the warning was right"
