"""All rows, in the order of the questions."""

from __future__ import annotations

from tests.driver_rules.probes import capture_rows, graph_rows, matrix_rows, odd_rows
from tests.driver_rules.probes.rows import ROWS, Row

QUESTIONS = range(1, 16)


def all_rows() -> list[Row]:
    """Every row of the fifteen questions."""
    assert all((capture_rows, matrix_rows, graph_rows, odd_rows))  # importing them has entered their rows
    return sorted(ROWS, key=lambda row: row.question)
