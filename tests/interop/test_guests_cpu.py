"""PyTorch's and JAX's arrays as guests on the CPU backend: real libraries, values against NumPy."""

from __future__ import annotations

import gc
import importlib
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphcap
from graphcap.interop import arrays

xp = graphcap.array_namespace("cpu")


def _numpy() -> Callable[[Any], Any]:
    return np.array


def _torch() -> Callable[[Any], Any]:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    return lambda values: torch.from_numpy(np.array(values))


def _jax() -> Callable[[Any], Any]:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    jax.config.update("jax_enable_x64", True)
    return lambda values: jax.numpy.asarray(np.array(values))


def _foreign() -> Callable[[Any], Any]:
    """A library that has DLPack and nothing else."""

    class Foreign:
        def __init__(self, values: Any) -> None:
            self.inner = np.array(values)

        def __dlpack__(self, **options: Any) -> Any:
            return self.inner.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    return Foreign


_LIBRARIES = {"numpy": _numpy, "torch": _torch, "jax": _jax, "dlpack alone": _foreign}
_WRITABLE = [name for name in _LIBRARIES if name != "jax"]


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Makes an array of the library that the test names."""
    return _LIBRARIES[request.param]()


def values(array: Any) -> Any:
    """The values of any of these, as a list."""
    return np.from_dlpack(array).tolist()


everywhere = pytest.mark.parametrize("make", list(_LIBRARIES), indirect=True)
where_writable = pytest.mark.parametrize("make", _WRITABLE, indirect=True)


@everywhere
def test_a_captured_copy_reads_the_guest_at_each_replay(make: Callable[[Any], Any]) -> None:
    stream = graphcap.Stream("cpu")
    guest, target = make([1.0, 2.0, 3.0]), xp.zeros(3)
    graph = graphcap.Graph("cpu")
    with stream, graph:
        stream.copy(target, guest)
    assert np.asarray(target).tolist() == [0, 0, 0]
    graph.replay()
    assert np.asarray(target).tolist() == [1, 2, 3]


@where_writable
def test_a_guest_is_written_in_place(make: Callable[[Any], Any]) -> None:
    stream = graphcap.Stream("cpu")
    guest, source = make([0.0, 0.0]), xp.asarray([4.0, 5.0])
    filled = make([0, 0, 0])
    graph = graphcap.Graph("cpu")
    with stream, graph:
        stream.copy(guest, source)
        stream.fill(filled, 7)
    assert values(guest) == [0, 0]
    graph.replay()
    assert (values(guest), values(filled)) == ([4, 5], [7, 7, 7])


@everywhere
def test_the_graph_keeps_the_guests_memory(make: Callable[[Any], Any]) -> None:
    """User problems A: the guest is dropped, and many others of its size are made."""
    stream = graphcap.Stream("cpu")
    target = xp.zeros(1000)
    guest = make(np.arange(1000.0))
    graph = graphcap.Graph("cpu")
    with stream, graph:
        stream.copy(target, guest)
    del guest
    gc.collect()
    junk = [make(np.full(1000, -1.0)) for _ in range(50)]
    graph.replay()
    assert np.asarray(target).tolist() == list(range(1000))
    assert len(junk) == 50


def test_the_memory_is_let_go_with_the_graph() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    base = np.arange(10.0)
    alive = weakref.ref(base)
    guest = torch.from_numpy(base)
    stream, target = graphcap.Stream("cpu"), xp.zeros(10)
    graph = graphcap.Graph("cpu")
    with stream, graph:
        stream.copy(target, guest)
    del guest, base
    gc.collect()
    assert alive() is not None
    graph.reset()
    gc.collect()
    assert alive() is None


@everywhere
def test_bound_inputs(make: Callable[[Any], Any]) -> None:
    x = xp.ones(3)
    with graphcap.capture("cpu") as graph:
        y = x * 2.0
    graph.bind(x=x)
    graph.replay(inputs={"x": make([1.0, 2.0, 3.0])})
    assert np.asarray(y).tolist() == [2, 4, 6]
    for wrong in ([1.0, 2.0], [1, 2, 3]):
        with pytest.raises(ValueError, match="x"):
            graph.replay(inputs={"x": make(wrong)})


@where_writable
def test_a_bound_guest_gets_new_contents(make: Callable[[Any], Any]) -> None:
    guest, y = make([0.0, 0.0]), xp.zeros(2)
    stream = graphcap.Stream("cpu")
    graph = graphcap.Graph("cpu")
    with stream, graph:
        stream.copy(y, guest)
    graph.bind(guest=guest)
    graph.replay(inputs={"guest": make([8.0, 9.0])})
    assert values(guest) == [8, 9]
    assert np.asarray(y).tolist() == [8, 9]


@everywhere
def test_graphed_callables_take_guests_and_their_results_are_taken_by_the_library(make: Callable[[Any], Any]) -> None:
    f = graphcap.make_graphed_callable(lambda a, b: a * b + 1.0, device="cpu")
    for start in (0.0, 5.0):
        found = f(make([start, start + 1]), make([10.0, 20.0]))
        assert values(found) == [start * 10 + 1, (start + 1) * 20 + 1]
    assert f.captures == 1
    f(make([0.0]), make([1.0]))
    assert f.captures == 2


def test_results_go_back_without_a_copy() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    jax = pytest.importorskip("jax", reason="jax is not installed")
    with graphcap.capture("cpu") as graph:
        y = xp.asarray([1.0, 2.0]) * 3.0
    graph.replay()
    tensor = torch.from_dlpack(y)
    assert tensor.tolist() == [3, 6]
    assert jax.numpy.from_dlpack(y).tolist() == [3, 6]
    tensor[0] = 9
    assert np.asarray(y).tolist() == [9, 6], "the same memory"
    buffer: Any = graphcap.allocate(16, "cpu")
    torch.from_dlpack(buffer)[:] = 5
    assert np.asarray(buffer).tolist() == [5] * 16


def test_a_librarys_own_function_is_a_kernel_node() -> None:
    """A guest given to ``launch`` arrives as it is: PyTorch's functions work on PyTorch's tensors."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    a, b, out = torch.arange(4.0), torch.ones(4), torch.zeros(4)
    stream = graphcap.Stream("cpu")
    graph = graphcap.Graph("cpu", keep_graph=True)
    with stream, graph:
        stream.launch(torch.add, a, b, out=out)
        stream.launch(torch.mul, out, out, out=out)
    assert out.tolist() == [0] * 4
    assert len(graph.topology().nodes) == 2
    for start in (0.0, 3.0):
        a.copy_(torch.arange(start, start + 4))
        graph.replay()
        assert out.tolist() == [(start + i + 1) ** 2 for i in range(4)]


def test_exporting_in_a_capture_is_refused_with_the_call() -> None:
    """The array has no values yet: a library that read it would read nonsense."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(graphcap.CaptureForbiddenError, match="__dlpack__"), graphcap.capture("cpu"):
        torch.from_dlpack(xp.ones(3) * 2.0)


def test_what_cannot_be_used_is_said() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    jax = pytest.importorskip("jax", reason="jax is not installed")
    stream, target = graphcap.Stream("cpu"), xp.zeros(3)
    for bad, words in (
        (torch.ones(3, requires_grad=True), "detach"),
        (torch.ones(3, dtype=torch.bfloat16), "bfloat16"),
        (torch.ones(3, dtype=torch.complex128).conj(), "conjugate"),
        (jax.numpy.ones(3, dtype=jax.numpy.bfloat16), "bfloat16"),
    ):
        with pytest.raises(TypeError, match=words):
            stream.copy(target, bad)
    with pytest.raises(ValueError, match="read-only"):
        stream.copy(jax.numpy.zeros(3), target)
    with pytest.raises(ValueError, match="bytes"):
        stream.copy(target, torch.ones(4, dtype=torch.float64))
    with pytest.raises(TypeError, match="array or a buffer"):
        stream.copy(target, object())
    deleted = jax.numpy.ones(3)
    deleted.delete()
    with pytest.raises(TypeError, match="deleted"):
        stream.copy(target, deleted)


def test_strided_guests_are_copied_right() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    guest = torch.arange(12.0, dtype=torch.float64).reshape(3, 4).t()[::2]
    target = xp.zeros((2, 3))
    stream = graphcap.Stream("cpu")
    stream.copy(target, guest)
    assert np.asarray(target).tolist() == guest.tolist()


# -- graphcap.interop.arrays -----------------------------------------------------------------------------------------------


def test_a_buffer_as_an_array() -> None:
    buffer = graphcap.allocate(100, "cpu")
    array = arrays.as_array(buffer, (2, 3), np.float64)
    array[...] = 4
    assert np.asarray(buffer).view(np.uint8)[:48].tobytes() == np.full(6, 4.0).tobytes()
    assert arrays.as_array(buffer, 5, "i4").shape == (5,)
    with pytest.raises(ValueError, match="104 bytes"):
        arrays.as_array(buffer, 13, np.float64)
    gc.collect()
    before = graphcap.memory_stats("cpu")["allocated_bytes.current"]
    del buffer
    gc.collect()
    assert graphcap.memory_stats("cpu")["allocated_bytes.current"] == before, "the array keeps the buffer"


@everywhere
def test_a_view_of_a_guest(make: Callable[[Any], Any]) -> None:
    view = arrays.from_dlpack(make([1.0, 2.0]), device="cpu")
    assert (type(view), view.tolist()) == (np.ndarray, [1, 2])
    with pytest.raises((ValueError, graphcap.BackendError)):
        arrays.from_dlpack(make([1.0]), device="cuda")
    with pytest.raises(TypeError, match="exports no memory"):
        arrays.from_dlpack(object(), device="cpu")


def test_nothing_of_this_loads_a_library() -> None:
    import subprocess
    import sys

    code = (
        "import sys, graphcap.interop.arrays, numpy as np; s = graphcap.Stream('cpu'); a = np.zeros(3); s.copy(a, np.ones(3));"
        "print({'torch', 'jax', 'numba', 'cuda', 'rmm', 'cupy'} & {n.partition('.')[0] for n in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"


def test_graphcap_is_imported_before_or_after() -> None:
    """The libraries are found by what their arrays offer, so the order of imports is of no account."""
    assert importlib.import_module("graphcap") is graphcap
