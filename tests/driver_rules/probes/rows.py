"""A row: one small question to a driver, with the answer as plain data."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from cuda.bindings import driver as cu

from tests.driver_rules.bench import Bench
from tests.driver_rules.driving import Code, code, nodes_of, status_of

Answer = dict[str, Any]
Ask = Callable[[Bench], Answer]

MODE_NAMES = ("global", "thread_local", "relaxed")


class Row(NamedTuple):
    """One row of a question."""

    question: int
    name: str
    ask: Ask


ROWS: list[Row] = []


def row(question: int, name: str) -> Callable[[Ask], Ask]:
    """Enters a function as one row."""

    def enter(ask: Ask) -> Ask:
        ROWS.append(Row(question, name, ask))
        return ask

    return enter


def table(question: int, **axes: Any) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Enters one row for every combination of the axes, each handed to the function by name."""

    def enter(ask: Callable[..., Answer]) -> Callable[..., Answer]:
        for values in itertools.product(*axes.values()):
            chosen = dict(zip(axes, values, strict=True))
            name = ask.__name__ + ": " + ", ".join(f"{key} {value}" for key, value in chosen.items())

            def asked(bench: Bench, chosen: dict[str, Any] = chosen) -> Answer:
                return ask(bench, **chosen)

            ROWS.append(Row(question, name, asked))
        return ask

    return enter


def finish(stream: Any) -> Answer:
    """Status of a stream, then the code of ending its capture, and how many nodes came of it."""
    status = int(status_of(stream))
    answer = cu.cuStreamEndCapture(stream)
    ended = code(answer) == Code.SUCCESS
    return {"status": status, "end": int(code(answer)), "nodes": len(nodes_of(answer[1])) if ended else None}
