"""The kernel library is loaded for this folder alone; on a GPU the same programs go to NVRTC.

Read before the driver is loaded, so nothing here may import ``cuda.*`` at its top.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.emulated_device import loader
from tests.emulated_device.kernel_library import build

if TYPE_CHECKING:
    from tests.emulated_device.harness import Board


@pytest.fixture(scope="session", autouse=True)
def kernel_library() -> None:
    if loader.load() == "emulated":
        build.load()


@pytest.fixture
def board() -> Iterator[Board]:
    from tests.emulated_device import harness

    with harness.board() as made:
        yield made
