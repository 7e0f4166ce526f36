"""The README lists the skips that are allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import skips


def test_the_readme_lists_the_allowed_skips() -> None:
    """Word for word, from the table that the test run goes by."""
    text = (Path(__file__).parents[1] / "README.md").read_text()
    assert skips.table() in text


@pytest.mark.parametrize("reason", ["", "because", "unconditional skip", "flaky"])
def test_an_unknown_reason_is_not_allowed(reason: str) -> None:
    """A skip must say why, and the reason must be a known one."""
    assert not skips.is_allowed(reason)
