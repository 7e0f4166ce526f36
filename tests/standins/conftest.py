"""What the tests of the stand-in libraries share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.emulated_device import control

if TYPE_CHECKING:  # pytest reads this file before the driver is loaded, and the harness imports the bindings
    from tests.emulated_device.harness import Board


@pytest.fixture(autouse=True)
def emulated() -> None:
    """Skips the tests on a real driver. What CuPy does through the stand-ins is tested in ``tests/cupy``, there too."""
    from tests.emulated_device import harness

    if not harness.emulated():
        pytest.skip("a real device has libraries of its own")


@pytest.fixture
def board() -> Iterator[Board]:
    """A context that must be left as it was found."""
    from tests.emulated_device import harness

    with harness.board() as made:
        yield made
    control.seed(0)
