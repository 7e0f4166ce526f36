"""The conformance suite: what every backend must do, as pytest classes. See ``docs/conformance.md``.

A backend joins with one fixtures class, in a test module of its own::

    from graphcap.testing import BackendFixtures, conformance_classes

    class MyFixtures(BackendFixtures):
        device = "my_npu"

        def launch_axpy(self, stream, out, a, x, y):
            stream.launch(my_kernel, out, a, x, y)

    globals().update(conformance_classes(MyFixtures))

Another project's CUDA graph tests run on the emulated device, without a GPU, by the plug-in
:mod:`graphcap.testing.emulated_device` (``pytest -p graphcap.testing.emulated_device --emulated-device=cupy``).

Needs pytest, which nothing else in graphcap imports.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

from graphcap.testing.fixtures import BackendFixtures, scalar

_MODULES = (
    "contract",
    "states",
    "recording",
    "forks",
    "begin_end",
    "invalidation",
    "body_errors",
    "lifetimes",
    "graphs",
    "pools",
    "allocation",
    "comfort",
    "programs",
    "parameters",
    "segments",
)
pytest.register_assert_rewrite("graphcap.testing.case", *(f"graphcap.testing.{name}" for name in _MODULES))

__all__ = ["BackendFixtures", "conformance_classes", "scalar"]


def conformance_classes(fixtures: type[BackendFixtures], *, module: str | None = None) -> dict[str, type[Any]]:
    """The suite bound to a backend: test classes by name, to be put into a test module's namespace.

    Parameters
    ----------
    fixtures
        The backend's fixtures.
    module
        The name of the module that they are put into; the caller's if not given.
    """
    home = module or sys._getframe(1).f_globals["__name__"]
    bound: dict[str, type[Any]] = {}
    for case in _cases():
        name = f"Test{case.__name__}"
        bound[name] = type(name, (case,), {"fixtures_class": fixtures, "__module__": home, "__doc__": case.__doc__})
    return bound


def _cases() -> list[type[Any]]:
    modules = (importlib.import_module(f"{__name__}.{name}") for name in _MODULES)
    return [getattr(module, name) for module in modules for name in module.__all__]
