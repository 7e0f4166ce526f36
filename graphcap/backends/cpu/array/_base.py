"""What an array is made of, and how arrays are taken apart into plain NumPy arrays and put together again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphcap.backends.cpu.array._memory import Plain, allocate, current
from graphcap.backends.cpu.captures import open_captures
from graphcap.backends.cpu.stream import CPUStream
from graphcap.backends.parameters import Scalar
from graphcap.errors import CaptureIsolationError

if TYPE_CHECKING:
    from graphcap.backends.buffer import Buffer

__all__ = ["Array", "adopt", "empty", "known_operand", "operand", "operands", "plain", "plains", "view", "wrap"]


class Array:
    """The data of an array. The class that users see adds operators, protocols and methods.

    Attributes
    ----------
    graphcap_data
        The plain view that keeps the memory alive.
    """

    __slots__ = ("__weakref__", "_buffer", "_capture", "_home", "_pool", "graphcap_data")

    graphcap_data: Plain
    _pool: Plain
    """The same view without a hold on the memory; for work recorded in the capture in which the array was made."""
    _buffer: Buffer | None
    """The buffer behind the memory, if it is the memory manager's."""
    _capture: int
    """The id of the capture in which the array was made, or 0."""
    _home: int
    """The handle of the stream to which the memory belongs."""


_class: list[type[Array]] = [Array]
_new = object.__new__


def set_class(cls: type[Array]) -> type[Array]:
    """Class decorator: the class of every array that is made from now on."""
    _class[0] = cls
    return cls


def wrap(data: Plain, pool: Plain | None = None, buffer: Buffer | None = None, capture: int = 0, home: int = 0) -> Any:
    """An array over plain views."""
    array = _new(_class[0])
    array.graphcap_data = data
    array._pool = data if pool is None else pool
    array._buffer = buffer
    array._capture = capture
    array._home = home
    return array


def empty(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    strides: tuple[int, ...] | None = None,
    stream: CPUStream | None = None,
) -> Any:
    """A new array, uninitialised, whose memory belongs to `stream` (the current one if not given)."""
    on = current() if stream is None else stream
    owning, pool, buffer = allocate(shape, dtype, strides, on)
    capture = on.capture
    return wrap(owning, pool, buffer, 0 if capture is None else capture.id, on.handle)


def view(array: Any, owning: Plain, pool: Plain | None) -> Any:
    """An array that shares the memory of `array`; `pool` is ``None`` where `array` has no separate pool view."""
    return wrap(owning, pool, array._buffer, array._capture, array._home)


def adopt(value: Any) -> Any:
    """What eager NumPy gave, with every ndarray and scalar in it as an array of this namespace."""
    kind = type(value)
    if kind is np.ndarray:
        return wrap(value)
    if isinstance(value, np.generic):
        return wrap(np.asarray(value))
    if kind is list or kind is tuple:
        return kind([adopt(item) for item in value])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*[adopt(item) for item in value])
    if isinstance(value, np.ndarray):
        return wrap(value.view(np.ndarray))
    return value


def plain(value: Any) -> Any:
    """`value` for eager NumPy: the plain view of an array, anything else as it is.

    Raises
    ------
    CaptureIsolationError
        The array was made in a capture that is still open, so nothing has been computed yet.
    """
    if isinstance(value, Array):
        if value._capture and open_captures:
            _check_apart(value, 0)
        return value.graphcap_data
    return _number(value) if isinstance(value, Scalar) else value


def plains(value: Any) -> Any:
    """As :func:`plain`, inside lists, tuples and dicts too."""
    if isinstance(value, Array):
        return plain(value)
    kind = type(value)
    if kind is list or kind is tuple:
        return kind([plains(item) for item in value])
    if kind is dict:
        return {key: plains(item) for key, item in value.items()}
    if kind is slice:
        return slice(plains(value.start), plains(value.stop), plains(value.step))
    return _number(value) if isinstance(value, Scalar) else value


def _number(value: Scalar) -> Any:
    """The number of a parameter for eager NumPy; refused where it would become a constant of a capture."""
    if open_captures and current().capture is not None:
        return value.read("making a constant")
    return value.now()


def operand(value: Any, stream: CPUStream) -> Any:
    """`value` for work that is recorded on `stream`: a plain view, or anything that is not an array as it is.

    An array made in this capture gives its pool view. Any other, plain ndarrays too, is used by reference and lives as
    long as the graph.
    """
    if isinstance(value, Array):
        capture = stream.capture
        own = 0 if capture is None else capture.id
        buffer = value._buffer
        if buffer is not None and value._home != stream.handle:
            buffer.record_stream(stream)
        if value._capture == own:
            return value._pool
        if value._capture:
            _check_apart(value, own)
        return value.graphcap_data
    if isinstance(value, np.ndarray):
        return value if type(value) is np.ndarray else value.view(np.ndarray)
    if isinstance(value, np.generic):
        return np.asarray(value)
    return value


def operands(value: Any, stream: CPUStream, arrays: list[Plain]) -> Any:
    """As :func:`operand`, inside lists, tuples and dicts too; the plain views met are appended to `arrays`."""
    kind = type(value)
    if kind is list or kind is tuple:
        return kind([operands(item, stream, arrays) for item in value])
    if kind is dict:
        return {key: operands(item, stream, arrays) for key, item in value.items()}
    found = operand(value, stream)
    if type(found) is np.ndarray:
        arrays.append(found)
    return found


def known_operand(value: Any) -> bool:
    """Whether `value` may stand beside an array in a ufunc or function; another library's array decides by itself."""
    override = getattr(type(value), "__array_ufunc__", None)
    return override is None or isinstance(value, (Array, np.generic, Scalar)) or override is np.ndarray.__array_ufunc__


def _check_apart(array: Array, own: int) -> None:
    if array._capture != own and any(capture.id == array._capture for capture in open_captures):
        raise CaptureIsolationError(
            "use of an array outside the capture that makes it",
            "the array was made in a capture that is still open, so its values have not been computed yet",
            "Use it on a stream that takes part in that capture, or after the capture has ended and the graph was replayed.",
        )
