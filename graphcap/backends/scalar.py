"""A number that may change from replay to replay, and what arithmetic makes of such numbers. Parameters are made of this."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphcap.backends import base, streams
from graphcap.errors import CaptureError, CaptureForbiddenError, DriverError, add_note

if TYPE_CHECKING:
    from graphcap.backends.parameters import Parameter
    from graphcap.backends.streams import Stream

__all__ = ["PYTHON_NUMBERS", "Expression", "Scalar", "fitted", "is_capturing"]

PYTHON_NUMBERS: Final = (bool, int, float, complex)
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
        if is_capturing():
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
            if not isinstance(value, (Scalar, np.generic, np.ndarray, *PYTHON_NUMBERS)) and hasattr(
                value, "__array_ufunc__"
            ):
                return NotImplemented
        numbers = all(isinstance(value, (Scalar, np.generic, *PYTHON_NUMBERS)) for value in inputs)
        if numbers and method == "__call__" and not kwargs and ufunc.nout == 1:
            return Expression(ufunc, inputs, f"{ufunc.__name__}({', '.join(map(_text, inputs))})")
        given = [value.read(f"numpy.{ufunc.__name__}()") if isinstance(value, Scalar) else value for value in inputs]
        return getattr(ufunc, method)(*given, **kwargs)

    def _binary(self, function: Callable[..., Any], symbol: str, other: Any, *, swapped: bool = False) -> Any:
        operands = (other, self) if swapped else (self, other)
        if isinstance(other, (Scalar, np.generic, *PYTHON_NUMBERS)):
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


def is_capturing() -> bool:
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
