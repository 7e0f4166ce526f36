"""Scalars that captured work reads anew at every replay: a parameter, and what arithmetic makes of parameters.

A :class:`Parameter` stands where a Python number would: an operand, a kernel's argument. Work that is captured with it remembers the
use, and a replay takes the value that the parameter has by then. ``dt * 2`` is an :class:`Expression`, worked out again
whenever ``dt`` changes. What would need the number now (``float(dt)``, ``if dt > 0:``) reads it, and is refused during a
capture: the graph would keep the number of that moment for ever.
"""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from graphcap.backends import base, streams
from graphcap.errors import CaptureError, CaptureForbiddenError, DriverError, add_note

if TYPE_CHECKING:
    from graphcap.backends.parameter_uses import ParameterUses
    from graphcap.backends.streams import Stream

__all__ = ["Expression", "Parameter", "Scalar", "current_value", "fitted", "parameter", "refuse_in_host_call"]

_WEAK: Final = (bool, int, float, complex)
_RANKS: Final = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_KINDS: Final[dict[type, str]] = {bool: "b", int: "i", float: "f", complex: "c"}


_SAFE: Final = {"d": float("inf"), "f": 3e38}
"""Below this no real number becomes infinite, by type character."""


class Scalar:
    """A parameter, or an expression of parameters.

    Python numbers in it are *weak*, as everywhere in NumPy: they take the type of the array they meet. NumPy scalars have a
    type of their own, which :attr:`dtype` tells.
    """

    __slots__ = ("__weakref__",)

    parameters: tuple[Parameter, ...]
    """The parameters on which the value depends, each once."""

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The NumPy type; ``None`` for a Python number."""
        value = self.now()
        return value.dtype if isinstance(value, np.generic) else None

    def now(self) -> Any:
        """The value, for work that runs at once. Never to be kept in a graph."""
        return self.evaluate({})

    def evaluate(self, values: Mapping[Parameter, Any]) -> Any:
        """The value if these parameters had these values (and all others the ones they have)."""
        raise NotImplementedError

    def read(self, call: str) -> Any:
        """The value, for a call that needs it now.

        Raises
        ------
        CaptureForbiddenError
            A current stream of the calling thread captures.
        """
        if _is_capturing():
            raise CaptureForbiddenError(
                f"{call} of {self}",
                "the current stream is capturing: the graph would keep the number of this moment, whatever the parameter's "
                "value is at a replay",
                "Use the parameter itself as an operand or as a kernel's argument; arithmetic on it is worked out again at "
                "each replay. What must be decided in Python is decided before the capture; for arrays of other libraries, keep the "
                "number in an array of one item, and give it new contents: bind(), replay(inputs=...).",
            )
        return self.now()

    # -- what needs the number -----------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(self.read("bool()"))

    def __int__(self) -> int:
        return int(self.read("int()"))

    def __float__(self) -> float:
        return float(self.read("float()"))

    def __complex__(self) -> complex:
        return complex(self.read("complex()"))

    def __index__(self) -> int:
        return operator.index(self.read("use as an integer"))

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.read("round()"), digits)

    def __trunc__(self) -> int:
        found: int = math.trunc(self.read("math.trunc()"))
        return found

    def __floor__(self) -> int:
        found: int = math.floor(self.read("math.floor()"))
        return found

    def __ceil__(self) -> int:
        found: int = math.ceil(self.read("math.ceil()"))
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.read("numpy.asarray()"), dtype)

    def __format__(self, form: str) -> str:
        return str(self) if not form else format(self.read("format()"), form)

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Of numbers alone: an expression. With plain arrays: the value now. Other arrays decide by themselves."""
        for value in (*inputs, *kwargs.get("out", ())):
            if _is_device_array(value):
                continue
            if not isinstance(value, (Scalar, np.generic, np.ndarray, *_WEAK)) and hasattr(value, "__array_ufunc__"):
                return NotImplemented
        numbers = all(isinstance(value, (Scalar, np.generic, *_WEAK)) for value in inputs)
        if numbers and method == "__call__" and not kwargs and ufunc.nout == 1:
            return Expression(ufunc, inputs, f"{ufunc.__name__}({', '.join(map(_text, inputs))})")
        given = [value.read(f"numpy.{ufunc.__name__}()") if isinstance(value, Scalar) else value for value in inputs]
        return getattr(ufunc, method)(*given, **kwargs)

    def _binary(self, function: Callable[..., Any], symbol: str, other: Any, *, swapped: bool = False) -> Any:
        operands = (other, self) if swapped else (self, other)
        if isinstance(other, (Scalar, np.generic, *_WEAK)):
            return Expression(function, operands, f"({_text(operands[0])} {symbol} {_text(operands[1])})")
        if _is_device_array(other):
            number = self.read(f"arithmetic with {type(other).__module__}.{type(other).__name__}")
            return function(other, number) if swapped else function(number, other)
        return NotImplemented

    __hash__ = object.__hash__

    if TYPE_CHECKING:  # what is set below, told to type checkers

        def __add__(self, other: Any) -> Any: ...
        def __radd__(self, other: Any) -> Any: ...
        def __sub__(self, other: Any) -> Any: ...
        def __rsub__(self, other: Any) -> Any: ...
        def __mul__(self, other: Any) -> Any: ...
        def __rmul__(self, other: Any) -> Any: ...
        def __truediv__(self, other: Any) -> Any: ...
        def __rtruediv__(self, other: Any) -> Any: ...
        def __floordiv__(self, other: Any) -> Any: ...
        def __rfloordiv__(self, other: Any) -> Any: ...
        def __mod__(self, other: Any) -> Any: ...
        def __rmod__(self, other: Any) -> Any: ...
        def __pow__(self, other: Any) -> Any: ...
        def __rpow__(self, other: Any) -> Any: ...
        def __and__(self, other: Any) -> Any: ...
        def __rand__(self, other: Any) -> Any: ...
        def __or__(self, other: Any) -> Any: ...
        def __ror__(self, other: Any) -> Any: ...
        def __xor__(self, other: Any) -> Any: ...
        def __rxor__(self, other: Any) -> Any: ...
        def __lshift__(self, other: Any) -> Any: ...
        def __rlshift__(self, other: Any) -> Any: ...
        def __rshift__(self, other: Any) -> Any: ...
        def __rrshift__(self, other: Any) -> Any: ...
        def __eq__(self, other: object) -> Any: ...
        def __ne__(self, other: object) -> Any: ...
        def __lt__(self, other: Any) -> Any: ...
        def __le__(self, other: Any) -> Any: ...
        def __gt__(self, other: Any) -> Any: ...
        def __ge__(self, other: Any) -> Any: ...
        def __neg__(self) -> Any: ...
        def __pos__(self) -> Any: ...
        def __invert__(self) -> Any: ...
        def __abs__(self) -> Any: ...


def _forward(function: Callable[..., Any], symbol: str) -> Callable[[Any, Any], Any]:
    def method(self: Scalar, other: Any) -> Any:
        return self._binary(function, symbol, other)

    return method


def _backward(function: Callable[..., Any], symbol: str) -> Callable[[Any, Any], Any]:
    def method(self: Scalar, other: Any) -> Any:
        return self._binary(function, symbol, other, swapped=True)

    return method


def _unary(function: Callable[..., Any], form: str) -> Callable[[Any], Any]:
    def method(self: Scalar) -> Any:
        return Expression(function, (self,), form.format(self))

    return method


_ARITHMETIC: Final[dict[str, tuple[Callable[..., Any], str]]] = {
    "add": (operator.add, "+"),
    "sub": (operator.sub, "-"),
    "mul": (operator.mul, "*"),
    "truediv": (operator.truediv, "/"),
    "floordiv": (operator.floordiv, "//"),
    "mod": (operator.mod, "%"),
    "pow": (operator.pow, "**"),
    "and": (operator.and_, "&"),
    "or": (operator.or_, "|"),
    "xor": (operator.xor, "^"),
    "lshift": (operator.lshift, "<<"),
    "rshift": (operator.rshift, ">>"),
}
_COMPARISONS: Final[dict[str, tuple[Callable[..., Any], str]]] = {
    "eq": (operator.eq, "=="),
    "ne": (operator.ne, "!="),
    "lt": (operator.lt, "<"),
    "le": (operator.le, "<="),
    "gt": (operator.gt, ">"),
    "ge": (operator.ge, ">="),
}
for _name, (_function, _symbol) in _ARITHMETIC.items():
    setattr(Scalar, f"__{_name}__", _forward(_function, _symbol))
    setattr(Scalar, f"__r{_name}__", _backward(_function, _symbol))
for _name, (_function, _symbol) in _COMPARISONS.items():
    setattr(Scalar, f"__{_name}__", _forward(_function, _symbol))
for _name, _function, _symbol in (
    ("neg", operator.neg, "(-{})"),
    ("pos", operator.pos, "(+{})"),
    ("invert", operator.invert, "(~{})"),
    ("abs", abs, "abs({})"),
):
    setattr(Scalar, f"__{_name}__", _unary(_function, _symbol))


class Expression(Scalar):
    """What arithmetic makes of parameters; worked out again whenever one of them changes.

    Raises
    ------
    ArithmeticError, TypeError, ValueError
        What the arithmetic raises for the present values.
    """

    __slots__ = ("_function", "_kind", "_operands", "_text", "parameters")

    def __init__(self, function: Callable[..., Any], operands: tuple[Any, ...], text: str) -> None:
        self._function = function
        self._operands = operands
        self._text = text
        found = [p for value in operands if isinstance(value, Scalar) for p in value.parameters]
        self.parameters = tuple({id(p): p for p in found}.values())
        self._kind: type | None = None
        self._kind = type(self.evaluate({}))

    def evaluate(self, values: Mapping[Parameter, Any]) -> Any:
        given = [value.evaluate(values) if isinstance(value, Scalar) else value for value in self._operands]
        try:
            with np.errstate(all="ignore"):
                found = self._function(*given)
        except (ArithmeticError, ValueError) as error:
            add_note(error, f"while {self} was worked out for {_told(self.parameters, values)}")
            raise
        if self._kind is not None and type(found) is not self._kind:
            raise TypeError(
                f"{self} is of type {self._kind.__name__}, but for {_told(self.parameters, values)} it would be of type "
                f"{type(found).__name__}. The type is fixed once the expression is made."
            )
        return found

    def __repr__(self) -> str:
        return self._text


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
        elif type(value) in _WEAK:
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

        if _is_capturing():
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


def _is_device_array(value: Any) -> bool:
    """An array of CuPy or its like, which put numbers into their kernels' arguments by themselves: it needs the number."""
    return hasattr(type(value), "__cuda_array_interface__") or hasattr(type(value), "__sycl_usm_array_interface__")


def fitted(value: Any, dtype: np.dtype[Any], where: str) -> np.ndarray[Any, Any]:
    """`value` as a 0-d array of `dtype`, cut to a whole number where `dtype` is an integer (as an assignment does).

    Raises
    ------
    OverflowError
        It does not fit: an integer out of range, or a finite number that would become infinite.
    """
    number = value.item() if isinstance(value, np.generic) and value.dtype.char not in "gG" else value
    if type(number) is float and abs(number) < _SAFE.get(dtype.char, 0.0):  # the usual case, without the checks below
        return np.array(number, dtype)
    try:
        if dtype.kind in "iu" and isinstance(number, float):
            number = int(number)
        with np.errstate(all="ignore"):
            made = np.array(number, dtype)
    except (OverflowError, ValueError):
        raise OverflowError(f"{where}: {value!r} does not fit {dtype}.") from None
    if dtype.kind in "fc" and not np.isfinite(made) and np.isfinite(number):
        raise OverflowError(f"{where}: {value!r} does not fit {dtype}, where it would be infinite.")
    return made


def _is_capturing() -> bool:
    """Whether a current stream of the calling thread captures, on whatever backend."""
    try:
        return any(stream.is_capturing for stream in _current_streams())
    except CaptureError:
        return True  # the question itself is refused only while something captures (906)
    except DriverError:
        return False  # inside a host call a driver answers nothing, and nothing is captured there


def _current_streams() -> Iterator[Stream]:
    yield from (stream for stream, _ in reversed(streams.local.stack))
    for name in list(base._hooks):
        if base.framework_hooks(name):  # a framework that is imported may have made a stream current by itself
            from graphcap import registry  # of this layer, and needs the backends

            backend = registry.get_backend(name)
            foreign = backend.foreign_current_stream(backend.current_device())
            if foreign is not None:
                yield foreign


def _text(value: Any) -> str:
    return repr(value)


def _told(parameters: tuple[Parameter, ...], values: Mapping[Parameter, Any]) -> str:
    return ", ".join(f"{p.name or 'the parameter'} = {p.evaluate(values)!r}" for p in parameters)
