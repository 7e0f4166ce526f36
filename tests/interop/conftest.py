"""Numba takes one memory manager for the life of a process: graphcap's, before any test here uses Numba."""

from __future__ import annotations

import importlib
import importlib.util
import warnings

import pytest


@pytest.fixture(autouse=True, scope="session")
def numba_with_graphcaps_memory() -> None:
    """As a user would turn it on, first thing in the program."""
    if importlib.util.find_spec("numba_cuda") is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # what numba-cuda meets in NumPy 2.5 as it is imported
            adapter = importlib.import_module("graphcap.interop.numba")
        adapter.use_graphcap_memory()
