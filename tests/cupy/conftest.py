"""The CuPy that these tests use: the tree on the emulated device, or the one that is installed on a real driver.

CuPy is imported when the first test asks for it, so that collecting these tests costs other ones nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulated_device import cupy_tree, loader


@pytest.fixture(scope="session")
def cp() -> Any:
    """CuPy."""
    try:
        cupy_tree.load()
    except cupy_tree.Unavailable as error:
        pytest.skip(f"no CuPy for the tests: {error}")
    return sys.modules["cupy"]


@pytest.fixture
def emulated() -> None:
    """Skips the test on a real driver."""
    if loader.load() != "emulated":
        pytest.skip("about the emulated device, not a GPU")


@pytest.fixture
def seeds() -> Iterator[range]:
    """Seeds of the order of work; the first seed is put back."""
    from tests.standins.interface import reseed

    yield range(6)
    reseed(0)


@pytest.fixture(autouse=True)
def _left_as_found(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test: device 0, no work under way, nothing held by CuPy's pools."""
    yield
    if _mode_is_set():
        cupy = sys.modules["cupy"]
        cupy.cuda.Device(0).use()
        cupy.cuda.runtime.deviceSynchronize()
        cupy.get_default_memory_pool().free_all_blocks()
        cupy.get_default_pinned_memory_pool().free_all_blocks()


def _mode_is_set() -> bool:
    return "cupy" in sys.modules and cupy_tree.is_loaded()
