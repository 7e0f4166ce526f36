"""Kernel arguments: from Python values to the parameter memory that the driver reads at the launch."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from graphcap.backends.cuda import _graph_calls as graph_calls
from graphcap.backends.cuda.operands import Operand, device_operand
from graphcap.backends.parameters import Scalar

__all__ = ["KernelRef", "Parameters", "dimensions", "kernel_ref", "packed_pointers"]

_SCALARS: Final[dict[type, str]] = {bool: "?", int: "i8", float: "f8", complex: "c16"}
_layouts: Final[weakref.WeakKeyDictionary[Any, tuple[graph_calls.ParameterSlot, ...]]] = weakref.WeakKeyDictionary()


class KernelRef:
    """A kernel as the driver knows it.

    Attributes
    ----------
    handle
        What is launched.
    owner
        Keeps the module that holds the kernel loaded; ``None`` for a raw handle.
    layout
        Offset and size of each parameter; ``None`` where the driver cannot tell.
    """

    __slots__ = ("handle", "layout", "owner")

    def __init__(self, handle: int, owner: object, layout: tuple[graph_calls.ParameterSlot, ...] | None) -> None:
        self.handle, self.owner, self.layout = handle, owner, layout


def kernel_ref(kernel: Any) -> KernelRef:
    """The kernel behind a ``cuda.core.Kernel``, or behind a raw ``CUfunction`` or ``CUkernel`` handle.

    Raises
    ------
    TypeError
        `kernel` is neither.
    """
    inner = getattr(kernel, "handle", None)
    given = kernel if inner is None else inner
    try:
        handle = int(given)
    except (TypeError, ValueError):
        raise TypeError(
            f"launch(): expected a cuda.core.Kernel or the handle of a kernel, not {type(kernel).__name__}."
        ) from None
    if not handle:
        raise ValueError("launch(): the kernel's handle is null.")
    if inner is None:
        return KernelRef(handle, None, _layout_of(handle, given))
    layout: tuple[graph_calls.ParameterSlot, ...] | None
    try:
        layout = _layouts.get(kernel)
        if layout is None:
            layout = _layout_of(handle, given)
            if layout is not None:
                _layouts[kernel] = layout
    except TypeError:  # a kernel object that can be neither hashed nor referred to weakly
        layout = _layout_of(handle, given)
    return KernelRef(handle, kernel, layout)


def _layout_of(handle: int, given: Any) -> tuple[graph_calls.ParameterSlot, ...] | None:
    """Ask the driver. A plain int may be a function or a kernel, and asking the wrong way is undefined: not asked."""
    name = type(given).__name__
    if name == "CUkernel":
        return graph_calls.parameter_layout(0, handle)
    if name == "CUfunction":
        return graph_calls.parameter_layout(handle, 0)
    return None


def packed_pointers(values: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """The array of pointers to packed arguments that the driver takes; it lasts as long as the values do."""
    return np.array([*[value.__array_interface__["data"][0] for value in values], 0], np.uintp)


def dimensions(value: int | Sequence[int], what: str) -> tuple[int, int, int]:
    """A launch dimension as three ints.

    Raises
    ------
    ValueError
        Not 1 to 3 positive ints.
    """
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(given) <= 3 or not all(isinstance(n, (int, np.integer)) and n > 0 for n in given):
        raise ValueError(f"launch(): {what} {value!r} must be one to three positive ints.")
    x, y, z = (*(int(n) for n in given), 1, 1)[:3]
    return x, y, z


class Parameters:
    """Arguments packed for the driver; alive during the call only, for the driver copies them (S-D, kernelParams).

    Parameters
    ----------
    args
        Parameters (their value now; :attr:`scalars` has them), buffers and device arrays (their address), NumPy scalars (as they are), Python ``bool``, ``int`` and ``float`` (as
        the parameter's size says; 8 bytes where the driver cannot tell), NumPy structured scalars or arrays of one item
        (structs by value), and objects with an ``int()`` such as condition handles.
    layout
        The kernel's parameters, if known: the number and sizes are then checked, which the driver does not do.
    consumer
        As for :func:`graphcap.backends.cuda.operands.operand`.

    Raises
    ------
    TypeError
        An argument of another type, or the wrong number of arguments.
    ValueError
        An argument whose size is not the parameter's, or an int that does not fit.
    """

    def __init__(
        self,
        args: Sequence[Any],
        layout: tuple[graph_calls.ParameterSlot, ...] | None,
        consumer: Callable[[], int] | None = None,
    ) -> None:
        self._order = () if consumer is None else (consumer,)
        if layout is not None and len(layout) != len(args):
            raise TypeError(f"launch(): the kernel takes {len(layout)} arguments, {len(args)} were given.")
        self.operands: list[Operand] = []
        self.scalars: list[tuple[int, Scalar]] = []
        """The parameters among the arguments, by position."""
        self.values: list[np.ndarray[Any, Any]] = []
        for index, arg in enumerate(args):
            self.values.append(self._pack(index, arg, None if layout is None else layout[index].nbytes))
        self._pointers = packed_pointers(self.values)

    @property
    def address(self) -> int:
        """The address of the array of pointers."""
        return int(self._pointers.__array_interface__["data"][0])

    def _pack(self, index: int, arg: Any, nbytes: int | None) -> np.ndarray[Any, Any]:
        number = isinstance(arg, (int, float))
        memory = None if number else device_operand(arg, f"launch() argument {index}", *self._order)
        if memory is not None:
            self.operands.append(memory)
            value = np.array([memory.address], np.uintp)
        elif isinstance(arg, np.generic) or (isinstance(arg, np.ndarray) and arg.size == 1):
            value = np.array(arg).reshape(1)
        elif isinstance(arg, (bool, int, float, complex)):
            value = self._number(index, arg, nbytes)
        elif isinstance(arg, Scalar):
            self.scalars.append((index, arg))
            return self._pack(index, arg.now(), nbytes)
        elif hasattr(arg, "__int__") and not isinstance(arg, (np.ndarray, str)):
            value = self._number(index, int(arg), nbytes)
        else:
            raise TypeError(
                f"launch(): argument {index} is of type {type(arg).__name__}. Give device buffers or arrays, numbers, or "
                f"NumPy scalars; host arrays must be copied to the device first."
            )
        if nbytes is not None and value.nbytes != nbytes:
            raise ValueError(
                f"launch(): argument {index} has {value.nbytes} bytes ({value.dtype}), the kernel's parameter {nbytes}."
            )
        return value

    @staticmethod
    def _number(index: int, arg: complex, nbytes: int | None) -> np.ndarray[Any, Any]:
        if isinstance(arg, bool) and nbytes not in (None, 1):
            arg = int(arg)
        code = _SCALARS[bool if isinstance(arg, bool) else next(t for t in (int, float, complex) if isinstance(arg, t))]
        if nbytes is not None and code != "?":
            code = f"{code[0]}{nbytes}"
        if code[0] == "i" and isinstance(arg, int) and arg >= 1 << (8 * int(code[1:]) - 1):
            code = f"u{code[1:]}"
        try:
            return np.array([arg], code)
        except (OverflowError, TypeError) as error:
            raise ValueError(
                f"launch(): argument {index}, {arg!r}, does not fit a parameter of {nbytes} bytes."
            ) from error
