"""The transition table: complete, in keeping with the rules, and equal to its document."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphcap._capture_state import TRANSITIONS, CaptureState, Move, Refusal, State, diagram
from graphcap.errors import CaptureInvalidatedError, CaptureStateError, GraphcapError, GraphStateError

_ROOT = Path(__file__).parents[2]
_PAIRS = [(state, move) for state in State for move in Move]

# The legal moves of design sections 1 and 4, written from the rules and not from the table.
_LEGAL: dict[tuple[State, Move], State] = {
    (State.NEW, Move.BEGIN): State.ACTIVE,
    (State.ACTIVE, Move.END_TEMPLATE): State.TEMPLATE,  # rule 10: keep_graph keeps the template
    (State.ACTIVE, Move.END_EXECUTABLE): State.EXECUTABLE,  # rule 10: otherwise instantiated, template dropped
    (State.ACTIVE, Move.END_BOTH): State.TEMPLATE_EXECUTABLE,  # rule 13: debug mode keeps it as well
    (State.ACTIVE, Move.INVALIDATE): State.INVALIDATED,  # rule 4
    (State.INVALIDATED, Move.INVALIDATE): State.INVALIDATED,
    (State.NEW, Move.ABANDON): State.NEW,
    (State.ACTIVE, Move.ABANDON): State.NEW,  # rule 5
    (State.INVALIDATED, Move.ABANDON): State.NEW,
    (State.TEMPLATE, Move.INSTANTIATE): State.TEMPLATE_EXECUTABLE,
    (State.TEMPLATE, Move.REPLAY): State.TEMPLATE_EXECUTABLE,  # rule 10: instantiates on first use
    (State.TEMPLATE, Move.POOL): State.TEMPLATE,
    (State.TEMPLATE, Move.INSPECT): State.TEMPLATE,
    **{(State.EXECUTABLE, move): State.EXECUTABLE for move in (Move.INSTANTIATE, Move.REPLAY, Move.UPDATE, Move.POOL)},
    **{
        (State.TEMPLATE_EXECUTABLE, move): State.TEMPLATE_EXECUTABLE
        for move in (Move.INSTANTIATE, Move.REPLAY, Move.UPDATE, Move.POOL, Move.INSPECT)
    },
    **{(state, Move.RESET): State.NEW for state in State},
}


@pytest.mark.parametrize(("state", "move"), _PAIRS, ids=lambda value: value.name)
def test_every_pair_has_its_row(state: State, move: Move) -> None:
    """Issue 2, item 3: legal moves lead where the rules say; every illegal move has an error, a state and a cure."""
    row = TRANSITIONS[state, move]
    expected = _LEGAL.get((state, move))
    if expected is not None:
        assert row is expected
        return
    assert isinstance(row, Refusal)
    assert row.state
    if move is not Move.INVALIDATE:  # no user asks for that, so none needs a cure
        assert row.cure
    if state is State.INVALIDATED:
        assert row.error is CaptureInvalidatedError  # rule 4: every later call on that capture
    elif move in (Move.BEGIN, Move.END_TEMPLATE, Move.END_EXECUTABLE, Move.END_BOTH, Move.ABANDON, Move.INVALIDATE):
        assert row.error is CaptureStateError
    else:
        assert row.error is GraphStateError  # rule 11


def test_no_row_too_many() -> None:
    """The table is over states and moves, and nothing else."""
    assert set(TRANSITIONS) == set(_PAIRS)


@given(st.lists(st.sampled_from(list(Move)), max_size=30))
def test_walks(moves: list[Move]) -> None:
    """A failed move leaves the state as it was; ``check`` never changes anything; a new graph has no cause."""
    here = CaptureState()
    for move in moves:
        before, cause = here.state, here.cause
        expected = _LEGAL.get((before, move))
        if expected is None:
            with pytest.raises(GraphcapError) as caught:
                here.check(move)
            with pytest.raises(type(caught.value)):
                here.move(move)
            assert caught.value.asked == move.value
            assert (here.state, here.cause) == (before, cause)
        else:
            assert here.check(move) is expected
            assert (here.state, here.cause) == (before, cause)
            here.move(move)
            assert here.state is expected
        if here.state is State.NEW:
            assert here.cause is None


def test_first_cause_is_kept_and_chained() -> None:
    """Rule 4: the first cause, through any number of offences; gone with the reset."""
    here = CaptureState()
    first, second = RuntimeError("first"), RuntimeError("second")
    with pytest.raises(CaptureStateError):
        here.invalidate(first)
    here.move(Move.BEGIN)
    here.invalidate(first)
    here.invalidate(second)
    with pytest.raises(CaptureInvalidatedError) as caught:
        here.check(Move.REPLAY)
    assert caught.value.__cause__ is first
    here.move(Move.RESET)
    assert here.cause is None
    with pytest.raises(GraphStateError) as later:
        here.check(Move.REPLAY)
    assert later.value.__cause__ is None


def test_document_is_the_table() -> None:
    """Issue 2, item 3: ``docs/states.md`` is what the module prints."""
    found = subprocess.run(
        [sys.executable, "-W", "ignore::RuntimeWarning", "-m", "graphcap._capture_state"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (_ROOT / "docs" / "states.md").read_text(encoding="utf-8") == found.stdout


def test_diagram_has_every_legal_move() -> None:
    """The picture: each legal move is on an arrow between its states."""
    lines = diagram().splitlines()
    for (source, move), target in _LEGAL.items():
        if source is target and move in (Move.RESET, Move.ABANDON):
            continue
        start = f"    {source.name.lower()} --> {target.name.lower()}: "
        assert any(line.startswith(start) and move.value in line for line in lines), (source, move)
