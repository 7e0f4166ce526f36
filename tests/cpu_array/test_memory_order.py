"""The orders "C", "F", "A" and "K" of arrays of every layout: transposed, backwards, of one item along an axis, broadcast."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphcap

xp = graphcap.array_namespace("cpu")
BASE = np.arange(24.0).reshape(2, 3, 4)
SLICES = (
    (slice(None),) * 3,
    (slice(None, None, -1),) * 3,
    (slice(None, None, -1), slice(None), slice(0, 1)),
    (slice(0, 1), slice(None, None, 2), slice(None, None, -1)),
)


def views(x: Any) -> Iterator[Any]:
    """Views of an array of three axes, by whichever library made it."""
    for axes in itertools.permutations(range(3)):
        turned = np.transpose(x, axes)
        yield from (turned[cut] for cut in SLICES)
        yield _repeated(turned[0], 0)
        for at in range(4):
            yield _repeated(turned, at)
            yield _repeated(_repeated(turned[::-1], at), 1)
    yield np.broadcast_to(x[0, 0, 0], (2, 3))


def _repeated(x: Any, at: int) -> Any:
    """Twice the same along a new axis, without a copy."""
    new = np.expand_dims(x, at)
    return np.broadcast_to(new, (*new.shape[:at], 2, *new.shape[at + 1 :]))


@pytest.mark.parametrize("order", "CFAK")
@pytest.mark.parametrize("method", ["ravel", "flatten", "copy", "reshape"])
@pytest.mark.parametrize("captured", [True, False], ids=["captured", "eager"])
def test_order_of_items(method: str, order: str, captured: bool) -> None:
    """The items as NumPy orders them, a view where NumPy gives one, a copy where it gives one."""
    if (method, order) == ("reshape", "K"):
        return  # NumPy has no such order there

    def work(view: Any) -> Any:
        return view.reshape(-1, order=order) if method == "reshape" else getattr(view, method)(order=order)

    plain = BASE.copy()
    x = xp.asarray(plain)
    for number, (view, own) in enumerate(zip(views(plain), views(x), strict=True)):
        if captured:
            with graphcap.capture("cpu") as graph:
                found = work(own) + 0, work(own)
            graph.replay()
        else:
            found = work(own) + 0, work(own)
        wanted = work(view)
        for one in found:
            np.testing.assert_array_equal(np.asarray(one), wanted, err_msg=f"view {number}")
        shares = np.may_share_memory(np.asarray(found[1]), plain)
        assert shares == np.may_share_memory(wanted, plain), f"view {number}"
