"""Where the nodes of a graph use parameters, and how a new value gets there: checked everywhere first, then taken over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from graphcap.backends.parameters import Parameter, Scalar

__all__ = ["ParameterUses", "Use", "set_values"]

_lock: Final = threading.RLock()
"""Guards values and what is pending; never held while a graph replays."""


class Use:
    """One place in a captured graph that takes a scalar's value.

    Attributes
    ----------
    scalar
        The parameter or expression.
    where
        The place in words, for messages.
    packed
        The value at the capture, as the place takes it.
    """

    __slots__ = ("_pack", "_store", "packed", "scalar", "seen", "where")

    def __init__(
        self,
        scalar: Scalar,
        where: str,
        pack: Callable[[Any], Any],
        store: Callable[[Any], None] | None = None,
    ) -> None:
        self.scalar = scalar
        self.where = where
        self._pack = pack
        self._store = store
        self.seen = scalar.now()
        self.packed = self.pack(self.seen)

    def pack(self, value: Any) -> Any:
        """`value` as the place takes it; raises what says that it does not fit."""
        return self._pack(value)

    def store(self, packed: Any) -> None:
        """Put a packed value in its place. Only while no replay reads the place."""
        self.packed = packed
        if self._store is not None:
            self._store(packed)


class ParameterUses:
    """All uses of parameters in one graph.

    Parameters
    ----------
    uses
        Each place once.
    changed
        Called when values wait to be taken over by :meth:`refresh`; from any thread, and it must not raise.

    Attributes
    ----------
    parameters
        The parameters, in the order of first use.
    pending
        Values that the next replay takes over, by place. Empty is the fast path.
    """

    def __init__(self, uses: Iterable[Use], changed: Callable[[], None]) -> None:
        self.uses = tuple({id(use): use for use in uses}.values())
        self._changed = changed
        found = {id(p): p for use in self.uses for p in use.scalar.parameters}
        self.parameters: tuple[Parameter, ...] = tuple(found.values())
        self._by_parameter = {
            one: [i for i, use in enumerate(self.uses) if any(own is one for own in use.scalar.parameters)]
            for one in self.parameters
        }
        self.pending: dict[int, Any] = {}
        with _lock:
            for index, use in enumerate(self.uses):
                value = use.scalar.now()
                if not _same(value, use.seen):  # changed between its use and the end of the capture
                    self.pending[index] = use.pack(value)
            for one in self.parameters:
                one.add_dependent(self)

    def proposed(self, values: Mapping[Parameter, Any]) -> dict[int, Any]:
        """What these values would put into which place; raises if one does not fit."""
        found = {}
        for one in values:
            for index in self._by_parameter.get(one, ()):
                use = self.uses[index]
                found[index] = use.pack(use.scalar.evaluate(values))
        return found

    def accept(self, proposal: dict[int, Any]) -> None:
        """Let the next replay take a proposal over."""
        self.pending = {**self.pending, **proposal}
        self._changed()

    def refresh(self) -> list[Use]:
        """Put what is pending into its places; gives the uses that changed. Only while no replay reads them."""
        if not self.pending:
            return []
        with _lock:
            pending, self.pending = self.pending, {}
            for index, packed in pending.items():
                self.uses[index].store(packed)
        return [self.uses[index] for index in pending]


def set_values(values: Mapping[Parameter, Any]) -> None:
    """Give several parameters new values at once: all of them, or none if one does not fit somewhere.

    Raises
    ------
    TypeError, OverflowError, ArithmeticError, ValueError
        As setting :attr:`Parameter.value`.
    """
    with _lock:
        new = {one: one.accepted(value) for one, value in values.items()}
        new = {one: value for one, value in new.items() if not _same(value, one._value)}
        dependents = {id(uses): uses for one in new for uses in one.dependents()}
        proposals = [(uses, uses.proposed(new)) for uses in dependents.values()]
        for one, value in new.items():
            one._value = value
        for uses, proposal in proposals:
            uses.accept(proposal)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same bits."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (bool, int)):
        return bool(one == other)
    if isinstance(one, float) and one:
        return bool(one == other)
    return np.asarray(one).tobytes() == np.asarray(other).tobytes()
