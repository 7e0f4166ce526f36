"""Whether the driver that answers is the emulated one: for the few tests that steer what no real device lets one steer."""

from __future__ import annotations


def is_emulated() -> bool:
    """Whether an emulated driver answers."""
    try:
        from tests.emulated_device import loader
    except ImportError:
        return False
    return loader.load() == "emulated"
