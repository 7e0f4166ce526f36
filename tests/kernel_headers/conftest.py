from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.emulated_device.harness import Board


@pytest.fixture
def board() -> Iterator[Board]:
    """A current context; what a test allocates in it goes back at the test's end."""
    from tests.emulated_device import harness  # not earlier: the driver is loaded after this file

    with harness.board() as made:
        yield made
