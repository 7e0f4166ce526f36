"""``import graphcap`` is light: no device library, no device context, no test tools."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import graphcap

_ROOT = Path(__file__).parents[2]
# device libraries, frameworks, and what only some users need
_HEAVY = {
    "cuda",
    "dpctl",
    "dpnp",
    "cupy",
    "numba",
    "torch",
    "jax",
    "rmm",
    "llvmlite",
    "cffi",
    "pytest",
    "hypothesis",
    "networkx",
    "pydot",
    "typer",
}
_HEAVY |= {"matplotlib", "rich", "scipy", "sycl"}


def _child(code: str) -> dict[str, object]:
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    answer: dict[str, object] = json.loads(found.stdout)
    return answer


def _loaded_after(code: str) -> set[str]:
    report = (
        "import sys, json; print(json.dumps({'modules': sorted({name.partition('.')[0] for name in sys.modules})}))"
    )
    modules = _child(f"{code}; {report}")["modules"]
    assert isinstance(modules, list)
    return set(modules)


@pytest.mark.parametrize(
    "code",
    [
        "import graphcap",
        "import graphcap; graphcap.known_backends(); graphcap.has_graph_impl('cuda'); graphcap.has_graph_impl('xpu')",
        "import graphcap; graphcap.graph_pool_handle(); graphcap.Graph('cpu')",
    ],
)
def test_no_device_library_is_loaded(code: str) -> None:
    """Design 2: neither the import nor asking for names loads one; nor does work on the CPU."""
    assert not _loaded_after(code) & _HEAVY


def test_no_backend_is_loaded() -> None:
    """Design 2: not even graphcap's own backend packages."""
    code = (
        "import graphcap, sys, json;"
        "print(json.dumps({'backends': [n for n in sys.modules if n.startswith('graphcap.backends.')]}))"
    )
    backends = _child(code)["backends"]
    assert isinstance(backends, list)
    assert not [name for name in backends if name.split(".")[2] in ("cpu", "cuda", "xpu")]


def test_public_names() -> None:
    """Design 3: every public name is there, once, and the error tree is among them."""
    assert len(set(graphcap.__all__)) == len(graphcap.__all__)
    assert all(hasattr(graphcap, name) for name in graphcap.__all__)
    wanted = "Graph capture Stream Event current_stream synchronize graph_pool_handle MemPool use_mem_pool allocate"
    wanted += (
        " memory_stats memory_snapshot empty_cache array_namespace known_backends available_backends backend_status"
    )
    wanted += (
        " register_graph_impl unregister_graph_impl has_graph_impl create_graph_impl MempoolId MempoolId_t DeviceType"
    )
    wanted += " GraphCaptureMode GraphImplArgs GraphImplInterface device_type_name GraphcapError EmptyGraphWarning"
    assert set(wanted.split()) <= set(graphcap.__all__)


def test_reading_order_is_told() -> None:
    """Design 2: the reading order for a newcomer stands at the top of the package."""
    text = graphcap.__doc__ or ""
    places = [text.index(f"``{name}``") for name in ("interface", "_graph", "backends/base", "backends/cpu")]
    assert places == sorted(places)


def test_interpreter_exit_is_quiet() -> None:
    """Issue 5, item 1: graphs, captures and buffers that are alive at the very end make no noise, however late they die."""
    code = """if True:
        import sys, graphcap
        sys.unraisablehook = lambda found: None  # keeps this namespace alive until modules are taken apart
        stream, other = graphcap.Stream("cpu"), graphcap.Stream("cpu")
        graph, second = graphcap.Graph("cpu", keep_graph=True), graphcap.Graph("cpu")
        pool = graphcap.MemPool("cpu")
        with stream, graph:
            buffer = graphcap.allocate(64, "cpu")
            stream.fill(buffer, 0)
            stream.host_call(print)
        graph.instantiate()
        other.__enter__()
        second.capture_begin()
        inside = other.allocate(64)
    """
    found = subprocess.run([sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
