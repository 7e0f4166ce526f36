"""A framework that is not imported costs nothing, and one without current streams of its own makes no replay slower."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from graphcap.backends import base
from tests.interop.kit import child

_FRAMEWORKS = "{'numba', 'numba_cuda', 'llvmlite', 'rmm', 'cupy', 'torch', 'jax', 'jaxlib', 'cuda'}"


@pytest.mark.parametrize(
    "code",
    [
        "import graphcap; graphcap.Graph('cpu')",
        "import graphcap; s = graphcap.Stream('cpu'); m = s.allocate(8); g = graphcap.Graph('cpu')\n"
        "with s, g: s.fill(m, 1)\n"
        "g.replay()",
        "import graphcap.interop, graphcap.interop.arrays, graphcap.interop.rmm",
    ],
)
def test_none_of_them_is_imported(code: str) -> None:
    code += f"\nimport sys; print({_FRAMEWORKS} & {{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"


def test_cuda_work_imports_none_but_the_bindings() -> None:
    printed = child(
        """
        import sys
        s = graphcap.Stream("cuda")
        m = s.allocate(8)
        g = graphcap.Graph("cuda")
        with s, g:
            s.fill(m, 1)
        g.replay(); g.replay()
        print({'numba', 'llvmlite', 'rmm', 'cupy', 'torch', 'jax'} & set(sys.modules), "cuda.core" in sys.modules)
        print([entry.hook for entry in graphcap.backends.base._hooks["CUDA"]])
        """
    )
    assert printed.splitlines() == ["set() False", "[None, None, None]"]


def test_the_cpu_has_no_hooks_to_look_through() -> None:
    assert base.framework_hooks("CPU") == ()


needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed")


@needs_numba
def test_replays_stay_thin_with_numba_and_cuda_core_imported() -> None:
    """The armed replay makes no look-up at all; CuPy, which has current streams, takes it away."""
    printed = child(
        """
        import sys, types
        from graphcap.backends.cuda import replaying
        from numba import cuda
        import cuda.core
        s = graphcap.Stream("cuda")
        m = s.allocate(8)
        g = graphcap.Graph("cuda")
        with s, g:
            s.fill(m, 1)
        with s:
            g.replay()
            print(g.replay in replaying._armed)
            calls = []
            original = graphcap.backends.base.framework_hooks
            graphcap.backends.base.framework_hooks = lambda name: calls.append(name) or original(name)
            for _ in range(10):
                g.replay()
            print(calls)
        """.replace("import cuda.core", "import importlib; importlib.import_module('cuda.core')")
    )
    assert printed.splitlines() == ["True", "[]"]


def test_a_hook_that_cannot_be_loaded_is_told_once_and_breaks_nothing() -> None:
    printed = child(
        """
        graphcap.backends.base.register_framework_hook("CUDA", "json", "graphcap.no_such_module:hook", own_streams=False)
        s = graphcap.Stream("cuda")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                with s:
                    pass
        print(len(caught), caught[0].category.__name__, caught[0].message)
        """
    )
    assert printed.startswith("1 GraphcapWarning json takes no part")
    assert "no_such_module" in printed


@needs_numba
def test_numbas_simulator_takes_no_part() -> None:
    printed = child(
        """
        from numba import cuda
        s = graphcap.Stream("cuda")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                with s:
                    pass
        print(len(caught), caught[0].message)
        """,
        NUMBA_ENABLE_CUDASIM="1",
    )
    assert printed.startswith("1 numba.cuda takes no part")
