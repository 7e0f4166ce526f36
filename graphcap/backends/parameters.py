"""Scalars that captured work reads anew at every replay: a parameter, and what arithmetic makes of parameters.

A :class:`Parameter` stands where a Python number would: an operand, a kernel's argument. Work that is captured with it remembers the
use, and a replay takes the value that the parameter has by then. ``dt * 2`` is an :class:`Expression`, worked out again
whenever ``dt`` changes. What would need the number now (``float(dt)``, ``if dt > 0:``) reads it, and is refused during a
capture: the graph would keep the number of that moment for ever.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from graphcap.backends.scalar import PYTHON_NUMBERS, Expression, Scalar, fitted, is_capturing
from graphcap.errors import CaptureForbiddenError

if TYPE_CHECKING:
    from graphcap.backends.parameter_uses import ParameterUses

__all__ = ["Expression", "Parameter", "Scalar", "current_value", "fitted", "parameter", "refuse_in_host_call"]

_RANKS: Final = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_KINDS: Final[dict[type, str]] = {bool: "b", int: "i", float: "f", complex: "c"}


class Parameter(Scalar):
    """A number that captured work reads anew at every replay. Made by :func:`parameter`.

    Attributes
    ----------
    name
        The name by which ``replay(inputs=...)`` knows it; ``None`` if it was given none.
    """

    __slots__ = ("_dependents", "_value", "name")

    def __init__(self, value: Any, name: str | None, dtype: Any) -> None:
        self.name = name
        self._dependents: list[weakref.ref[ParameterUses]] = []
        self._value: Any = None
        if dtype is not None:
            kind = np.dtype(dtype)
            if kind.kind not in _RANKS:
                raise TypeError(f"parameter(dtype={kind}): a boolean, integer, real or complex type is needed.")
            self._value = kind.type()
        elif isinstance(value, np.generic) and value.dtype.kind in _RANKS:
            self._value = value.dtype.type()
        elif type(value) in PYTHON_NUMBERS:
            self._value = value
        else:
            raise TypeError(
                f"parameter(): expected a Python number or a NumPy scalar, not {type(value).__name__}. (Arrays are not "
                "parameters: g.bind(x=array) and replay(inputs={'x': new}) give them new contents.)"
            )
        self._value = self.accepted(value)

    @property
    def parameters(self) -> tuple[Parameter, ...]:  # type: ignore[override]  # computed, where an expression keeps them
        return (self,)

    @property
    def value(self) -> Any:
        """The value for the next replay of every graph that uses the parameter; may be set. Replays in flight keep theirs.

        Raises
        ------
        CaptureForbiddenError
            Read or set while the current stream captures.
        TypeError
            Set to something of another kind: a float where an integer was, a complex number where a real one was.
        OverflowError
            Set to what does not fit the type that a node of a live graph takes it in. Nothing is changed then.
        ArithmeticError, ValueError
            An expression of the parameter cannot be worked out for it. Nothing is changed then.
        """
        return self.read("the value")

    @value.setter
    def value(self, value: Any) -> None:
        from graphcap.backends.parameter_uses import set_values  # it works on this class

        if is_capturing():
            raise CaptureForbiddenError(
                f"setting {self}",
                "the current stream is capturing, and an assignment in Python is no work that a replay repeats",
                "Set it before the capture, or before a replay: g.replay(inputs={...}).",
            )
        set_values({self: value})

    def accepted(self, value: Any) -> Any:
        """`value` as the type that the parameter was made with.

        Raises
        ------
        TypeError
            It is of another kind.
        OverflowError
            It does not fit.
        """
        own = self._value
        kind = own.dtype.kind if isinstance(own, np.generic) else _KINDS[type(own)]
        given = value.dtype.kind if isinstance(value, np.generic) else _KINDS.get(type(value))
        if given is None and hasattr(type(value), "__index__") and not isinstance(value, Scalar):
            value, given = operator.index(value), "i"
        if given is None or _RANKS.get(given, 9) > _RANKS[kind] or (given == "b") != (kind == "b"):
            what = own.dtype if isinstance(own, np.generic) else type(own).__name__
            raise TypeError(f"{self} takes values of type {what}, not {value!r} of type {type(value).__name__}.")
        if isinstance(own, np.generic):
            return fitted(value, own.dtype, str(self))[()]
        if isinstance(value, np.generic):
            value = value.item()
        try:
            return type(own)(value)
        except OverflowError:
            raise OverflowError(f"{self}: {value!r} does not fit a {type(own).__name__}.") from None

    def evaluate(self, values: Mapping[Parameter, Any]) -> Any:
        return values.get(self, self._value)

    def add_dependent(self, uses: ParameterUses) -> None:
        """Let a graph know of new values, as long as it lives."""
        self._dependents = [known for known in self._dependents if known() is not None]
        self._dependents.append(weakref.ref(uses))

    def dependents(self) -> list[ParameterUses]:
        """The graphs that are to know of new values."""
        return [found for known in self._dependents if (found := known()) is not None]

    def __repr__(self) -> str:
        return self.name or f"parameter({self._value!r})"

    def __copy__(self) -> NoReturn:
        raise TypeError(f"{self} cannot be copied: graphs look at this very object. Use parameter() to make another.")

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self} cannot be pickled: graphs look at this very object. Send its value instead.")


def parameter(value: Any, *, name: str | None = None, dtype: Any = None) -> Parameter:
    """A number that can be changed from replay to replay, in every graph that was captured with it.

    It is used as a number is: an operand of array arithmetic on the CPU (``u + dt * lap``), an argument of
    ``stream.launch`` and ``stream.fill`` on every backend. Arithmetic on it (``dt / dx**2``, ``numpy.sqrt(dt)``) gives an expression
    that is worked out again whenever it changes. A plain number is baked into the graph, as ever.

    ``dt.value = 0.2``, or ``g.replay(inputs={"dt": 0.2})`` for a parameter with a name, holds from the next replay on, in all
    graphs that use it; replays in flight keep the value they were launched with.

    Parameters
    ----------
    value
        A Python ``bool``, ``int``, ``float`` or ``complex``, which takes the type of the array that it meets (NEP 50) or of the kernel's
        parameter; or a NumPy scalar, which keeps its own. The kind is fixed from here on; a float parameter takes integers.
    name
        For ``replay(inputs=...)``, messages and topologies.
    dtype
        A NumPy type, instead of giving a NumPy scalar. XPU kernels need one: a Python number has no size there.

    Raises
    ------
    TypeError
        `value` is no number, or of another kind than `dtype`; `name` is no string.
    OverflowError
        `value` does not fit `dtype`.
    """
    if name is not None and not isinstance(name, str):
        raise TypeError(f"parameter(name={name!r}): a string is needed.")
    return Parameter(value, name, dtype)


def current_value(value: Any) -> Any:
    """The value now of a scalar; anything else as it is. For work that runs at once."""
    return value.now() if isinstance(value, Scalar) else value


def refuse_in_host_call(args: tuple[Any, ...]) -> None:
    """Refuse a scalar among the arguments of a host call.

    Raises
    ------
    TypeError
        There is one. A host call may run long after its replay was asked for, so no one value would be right.
    """
    for position, value in enumerate(args):
        if isinstance(value, Scalar):
            raise TypeError(
                f"host_call(): argument {position} is the parameter {value}. Let the function itself read its `.value` when "
                "it runs, or give the number to a kernel."
            )
