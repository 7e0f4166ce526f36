"""The life of one graph as a transition table: from new, through a capture, to a template and an executable.

The table knows no backend. A backend asks :meth:`CaptureState.check` before it touches its driver, does the work, and
then calls :meth:`CaptureState.move`; so a failed move, and a failure of the driver between the two, leave the state as
it was. Every illegal move is a row of the table too, with the error class, the state in words, and the cure.

``docs/states.md`` holds a diagram generated from this table (``python -m graphcap._capture_state``); a test keeps the
two equal.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from graphcap.errors import CaptureInvalidatedError, CaptureStateError, GraphcapError, GraphStateError

__all__ = ["TRANSITIONS", "CaptureState", "Move", "Refusal", "State", "diagram"]


class State(enum.Enum):
    """What a graph object holds."""

    NEW = "new"
    ACTIVE = "active"
    INVALIDATED = "invalidated"
    TEMPLATE = "template"
    EXECUTABLE = "executable"
    TEMPLATE_EXECUTABLE = "template+executable"


class Move(enum.Enum):
    """What can be asked of a graph object. The value is the public call as messages name it."""

    BEGIN = "capture_begin()"
    INVALIDATE = "(a forbidden call)"
    END_TEMPLATE = "capture_end() with keep_graph=True"
    END_EXECUTABLE = "capture_end()"
    END_BOTH = "capture_end() in debug mode"
    ABANDON = "(the capture is thrown away)"
    INSTANTIATE = "instantiate()"
    REPLAY = "replay()"
    UPDATE = "update()"
    POOL = "pool()"
    INSPECT = "topology() or debug_dump()"
    RESET = "reset()"


@dataclass(frozen=True)
class Refusal:
    """An illegal move: the error it raises, the state in words, the cure."""

    error: type[GraphcapError]
    state: str
    cure: str


_NEW, _ACTIVE, _BROKEN = State.NEW, State.ACTIVE, State.INVALIDATED
_TEMPLATE, _EXEC, _BOTH = State.TEMPLATE, State.EXECUTABLE, State.TEMPLATE_EXECUTABLE

_RECORDED: Final = (_TEMPLATE, _EXEC, _BOTH)
_OPEN_CAPTURE: Final = "a capture is open on this graph"
_END_FIRST: Final = "End the capture first (leave the `with` block, or call capture_end())."
_CAPTURE_FIRST: Final = "Capture first: `with stream, graph: ...`."


def _table() -> dict[tuple[State, Move], State | Refusal]:
    table: dict[tuple[State, Move], State | Refusal] = {}

    def allow(move: Move, **to: State) -> None:
        for source, target in to.items():
            table[State[source], move] = target

    allow(Move.BEGIN, NEW=_ACTIVE)
    allow(Move.INVALIDATE, ACTIVE=_BROKEN, INVALIDATED=_BROKEN)
    allow(Move.END_TEMPLATE, ACTIVE=_TEMPLATE)
    allow(Move.END_EXECUTABLE, ACTIVE=_EXEC)
    allow(Move.END_BOTH, ACTIVE=_BOTH)
    allow(Move.ABANDON, NEW=_NEW, ACTIVE=_NEW, INVALIDATED=_NEW)
    allow(Move.INSTANTIATE, TEMPLATE=_BOTH, EXECUTABLE=_EXEC, TEMPLATE_EXECUTABLE=_BOTH)
    allow(Move.REPLAY, TEMPLATE=_BOTH, EXECUTABLE=_EXEC, TEMPLATE_EXECUTABLE=_BOTH)
    allow(Move.UPDATE, EXECUTABLE=_EXEC, TEMPLATE_EXECUTABLE=_BOTH)
    allow(Move.POOL, TEMPLATE=_TEMPLATE, EXECUTABLE=_EXEC, TEMPLATE_EXECUTABLE=_BOTH)
    allow(Move.INSPECT, TEMPLATE=_TEMPLATE, TEMPLATE_EXECUTABLE=_BOTH)
    for state in State:
        table[state, Move.RESET] = _NEW

    def refuse(move: Move, states: tuple[State, ...], error: type[GraphcapError], state: str, cure: str) -> None:
        for source in states:
            table[source, move] = Refusal(error, state, cure)

    broken = "the capture on this graph was invalidated earlier"
    ends = (Move.END_TEMPLATE, Move.END_EXECUTABLE, Move.END_BOTH)
    for move in Move:
        if (_BROKEN, move) not in table and move not in ends:
            refuse(move, (_BROKEN,), CaptureInvalidatedError, broken, "End it with capture_end() or reset().")
    for move in ends:
        refuse(move, (_NEW,), CaptureStateError, "no capture is open on this graph", "Call capture_begin() first.")
        refuse(move, _RECORDED, CaptureStateError, "the capture on this graph has ended already", "End it once only.")
        # The one row that both moves and raises: ending is the only way out of an invalidated capture (rule 4).
        refuse(
            move, (_BROKEN,), CaptureInvalidatedError, broken, "Nothing was recorded. Mend the cause, capture again."
        )

    refuse(Move.BEGIN, (_ACTIVE,), CaptureStateError, _OPEN_CAPTURE, _END_FIRST)
    refuse(
        Move.BEGIN,
        _RECORDED,
        CaptureStateError,
        "this graph already holds a capture",
        "Call reset() or use a new Graph.",
    )
    no_capture = "no capture is open on this graph"
    refuse(Move.INVALIDATE, (_NEW, *_RECORDED), CaptureStateError, no_capture, "")
    refuse(Move.ABANDON, _RECORDED, CaptureStateError, no_capture, "Use reset().")
    for move in (Move.INSTANTIATE, Move.REPLAY, Move.UPDATE, Move.POOL, Move.INSPECT):
        refuse(move, (_NEW,), GraphStateError, "nothing was captured yet", _CAPTURE_FIRST)
        refuse(move, (_ACTIVE,), GraphStateError, _OPEN_CAPTURE, _END_FIRST)
    refuse(
        Move.UPDATE,
        (_TEMPLATE,),
        GraphStateError,
        "the graph is captured but not instantiated",
        "Call instantiate() first.",
    )
    refuse(
        Move.INSPECT,
        (_EXEC,),
        GraphStateError,
        "the template is gone: capture_end() dropped it",
        "Use Graph(keep_graph=True), capture(), or enable_debug_mode() before the capture.",
    )
    return table


TRANSITIONS: Final = _table()
"""``(state, move) -> state`` where the move is legal, ``-> Refusal`` where it is not. Every pair has a row."""


class CaptureState:
    """Where one graph object stands, and what broke its capture if something did."""

    __slots__ = ("cause", "state")

    def __init__(self) -> None:
        self.state = State.NEW
        self.cause: BaseException | None = None

    def check(self, move: Move, asked: str | None = None) -> State:
        """The state that `move` would lead to; changes nothing.

        Raises
        ------
        CaptureStateError, CaptureInvalidatedError, GraphStateError
            The move is not legal now: the class, state and cure of its row in the table.
        """
        target = TRANSITIONS[self.state, move]
        if isinstance(target, State):
            return target
        error = target.error(asked or move.value, target.state, target.cure)
        if self.state is State.INVALIDATED:
            raise error from self.cause
        raise error

    def move(self, move: Move) -> None:
        """Make a legal move. Raises as :meth:`check`; a move that raises changes nothing."""
        self.state = self.check(move)
        if self.state is State.NEW:
            self.cause = None

    def invalidate(self, cause: BaseException | None) -> None:
        """Note that the open capture is broken. The first cause is kept (rule 4)."""
        target = self.check(Move.INVALIDATE)
        if self.state is State.ACTIVE:
            self.cause = cause
        self.state = target


def diagram() -> str:
    """The legal moves as a Mermaid state diagram, in the table's order."""
    rows: dict[tuple[State, State], list[str]] = {}
    for (source, move), target in TRANSITIONS.items():
        if isinstance(target, State) and not (source is target and move in (Move.RESET, Move.ABANDON)):
            rows.setdefault((source, target), []).append(move.value)
    name = {state: state.name.lower() for state in State}
    lines = ["stateDiagram-v2", f"    [*] --> {name[State.NEW]}"]
    lines += [f'    state "{state.value}" as {name[state]}' for state in State if state.value != name[state]]
    lines += [f"    {name[a]} --> {name[b]}: {', '.join(moves)}" for (a, b), moves in rows.items()]
    lines.append(f"    {name[State.INVALIDATED]} --> {name[State.NEW]}: capture_end() (raises CaptureInvalidatedError)")
    return "\n".join(lines) + "\n"


def document() -> str:
    """The text of ``docs/states.md``: the diagram, and every illegal move with its error."""
    lines = [
        "# States of a graph",
        "",
        "Generated from `graphcap/_capture_state.py` by `python -m graphcap._capture_state`; a test keeps it equal.",
        "",
        "```mermaid",
        diagram().rstrip(),
        "```",
        "",
        "| state | asked | error | why | cure |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {source.value} | {move.value} | `{row.error.__name__}` | {row.state} | {row.cure} |"
        for (source, move), row in sorted(TRANSITIONS.items(), key=lambda item: _order(item[0]))
        if isinstance(row, Refusal)
    ]
    return "\n".join(lines) + "\n"


def _order(pair: tuple[State, Move]) -> tuple[int, int]:
    return list(State).index(pair[0]), list(Move).index(pair[1])


if __name__ == "__main__":
    print(document(), end="")
