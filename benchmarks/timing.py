"""Timing with its spread: peers take turns within one run, so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Timing", "race"]


class Timing(NamedTuple):
    """Seconds per call: the median of the rounds, and the quartiles."""

    median: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """In microseconds, with the spread."""
        return f"{self.median * 1e6:,.2f} ({self.low * 1e6:,.2f}-{self.high * 1e6:,.2f})"


def race(peers: dict[str, Callable[[], object]], *, rounds: int = 15, seconds: float = 0.02) -> dict[str, Timing]:
    """Time each peer, in turns.

    Parameters
    ----------
    peers
        Name -> a call without arguments.
    rounds
        Turns of each peer.
    seconds
        About how long one turn of one peer takes.
    """
    counts = {}
    for name, call in peers.items():
        call()
        began = time.perf_counter()
        call()
        counts[name] = max(1, int(seconds / max(time.perf_counter() - began, 1e-7)))
    samples: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(rounds):
        for name, call in peers.items():
            count = range(counts[name])
            began = time.perf_counter()
            for _ in count:
                call()
            samples[name].append((time.perf_counter() - began) / len(count))
    return {name: _summary(values) for name, values in samples.items()}


def _summary(values: list[float]) -> Timing:
    low, _, high = statistics.quantiles(values, n=4)
    return Timing(statistics.median(values), low, high)
