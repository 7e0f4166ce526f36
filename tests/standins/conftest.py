"""What the tests of the stand-in libraries share."""

from __future__ import annotations

import gc
import pathlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.emulated_device import control, cupy_tree

if TYPE_CHECKING:  # pytest reads this file before the driver is loaded, and the harness imports the bindings
    from tests.emulated_device.harness import Board


HERE = pathlib.Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The worker that imports CuPy runs all tests that use it."""
    for item in items:
        if HERE in item.path.parents and item.path.name.startswith("test_cupy"):
            item.add_marker(pytest.mark.xdist_group("cupy"))


@pytest.fixture(scope="module", autouse=True)
def _nothing_of_cupys_left() -> None:
    """What tests of CuPy left to the garbage collector does not go while another test counts."""
    if cupy_tree.is_loaded():
        gc.collect()


@pytest.fixture
def emulated() -> None:
    """Skips the test on a real driver."""
    from tests.emulated_device import harness

    if not harness.emulated():
        pytest.skip("a real device has libraries of its own")


@pytest.fixture(autouse=True)
def _of_what(request: pytest.FixtureRequest) -> None:
    """The tests through CuPy run on a GPU too, with the libraries that are there; the others are about the stand-ins alone."""
    if not request.path.name.startswith("test_cupy"):
        request.getfixturevalue("emulated")


@pytest.fixture
def board() -> Iterator[Board]:
    """A context that must be left as it was found."""
    from tests.emulated_device import harness

    with harness.board() as made:
        yield made
    control.seed(0)


@pytest.fixture(scope="session")
def cp() -> Any:
    """CuPy: from the tree, or on a real driver the one that is installed."""
    try:
        cupy_tree.load()
    except cupy_tree.Unavailable as error:
        pytest.skip(f"no CuPy for the tests: {error}")
    return sys.modules["cupy"]


@pytest.fixture
def seeds() -> Iterator[range]:
    """Seeds of the order of work; the first seed is put back."""
    from tests.standins.interface import reseed

    yield range(6)
    reseed(0)
