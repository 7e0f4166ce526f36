"""What users hand to copies, fills and kernels, brought to what dpctl takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from graphcap.backends.guests import host_array
from graphcap.backends.parameters import Scalar
from graphcap.backends.xpu import _dpctl
from graphcap.backends.xpu.buffer import XPUBuffer

__all__ = ["Operand", "array_of", "kernel_argument", "pattern_of", "resolve", "sizes"]

_UNTYPED: Final = np.dtype(np.uint8)


@dataclass(frozen=True)
class Operand:
    """Memory that takes part in a copy or a fill.

    Attributes
    ----------
    memory
        What dpctl's memcpy takes: a dpctl memory object, or a host array of bytes. ``None`` for no bytes at all.
    pointer
        The USM address; 0 for host memory that is no USM.
    nbytes, dtype
        Size, and type of one item; ``uint8`` for untyped memory.
    order
        ``"C"`` or ``"F"``: how the items of a multi-dimensional array lie.
    owner
        What the user gave: it keeps the memory alive.
    """

    memory: Any
    pointer: int
    nbytes: int
    dtype: np.dtype[Any]
    order: str
    owner: object

    @property
    def is_usm(self) -> bool:
        return self.pointer != 0


def resolve(value: Any, what: str, *, writable: bool = False) -> Operand:
    """The memory behind `value`: a graphcap buffer, a dpctl memory object, a USM array, or a host array.

    Parameters
    ----------
    what
        How a message names it.
    writable
        Refuse read-only memory.

    Raises
    ------
    TypeError
        `value` has no memory that XPU work can use.
    ValueError
        It is not contiguous, or read-only although `writable`.
    """
    if isinstance(value, XPUBuffer):
        return Operand(value.memory, value.ptr, value.nbytes, _UNTYPED, "C", value)
    if _dpctl.is_memory(value):
        return Operand(value, value._pointer, value.nbytes, _UNTYPED, "C", value)
    array = _usm_ndarray(value)
    if array is not None:
        return _from_usm_ndarray(value, array, what, writable)
    if _has_interface(value):
        return _usm_array(value, value.__sycl_usm_array_interface__, what, writable)
    if isinstance(value, (bytes, bytearray, memoryview)):
        value = np.frombuffer(value, np.uint8)
    if isinstance(value, (np.ndarray, np.generic)):
        return _host_array(np.asarray(value), value, what, writable)
    guest = host_array(value, what)
    if guest is not None:
        return _host_array(guest, (value, guest), what, writable)
    raise TypeError(
        f"{what}: expected a graphcap buffer, dpctl memory, a USM array, or an array of NumPy or another library in host memory, "
        f"not {type(value).__name__}."
    )


def array_of(value: Any) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """Shape and type of a USM array; bytes for memory without a type; ``None`` for anything that is no USM memory."""
    if isinstance(value, XPUBuffer) or _dpctl.is_memory(value):
        return (int(value.nbytes),), _UNTYPED
    array = _usm_ndarray(value)
    if array is not None:
        return tuple(map(int, array.shape)), np.dtype(array.dtype)
    if _has_interface(value):
        interface = value.__sycl_usm_array_interface__
        return tuple(map(int, interface["shape"])), np.dtype(interface["typestr"])
    return None


def _has_interface(value: Any) -> bool:
    """Whether `value` has a USM interface. It is not read here: reading it may wait for the queue."""
    name = "__sycl_usm_array_interface__"
    return hasattr(type(value), name) or name in getattr(value, "__dict__", ())


def _usm_ndarray(value: Any) -> Any:
    """The ``usm_ndarray`` that `value` is, or that a dpnp array wraps; ``None`` for anything else.

    Their USM interface, and dpnp's ``get_array()``, wait for the array's queue, which ends the process while it records. So
    these two are read by their plain attributes.
    """
    for candidate in (getattr(value, "_array_obj", None), value):
        if hasattr(type(candidate), "usm_data"):
            return candidate
    return None


def _from_usm_ndarray(value: Any, array: Any, what: str, writable: bool) -> Operand:
    dtype = np.dtype(array.dtype)
    if writable and not array.flags.writable:
        raise ValueError(f"{what}: the memory is read-only.")
    order = _order(array.shape, array.strides, what)
    nbytes = int(np.prod(array.shape, dtype=np.int64)) * dtype.itemsize
    if nbytes == 0:
        return Operand(None, 0, 0, dtype, order, value)
    pointer = int(array._pointer)
    memory = _dpctl.memory_at(pointer, nbytes, array.sycl_queue, value)
    return Operand(memory, pointer, nbytes, dtype, order, value)


def _usm_array(value: Any, interface: dict[str, Any], what: str, writable: bool) -> Operand:
    dtype = np.dtype(interface["typestr"])
    shape = tuple(int(extent) for extent in interface["shape"])
    pointer, read_only = interface["data"]
    if read_only and writable:
        raise ValueError(f"{what}: the memory is read-only.")
    order = _order(shape, interface.get("strides"), what)
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    pointer = int(pointer) + int(interface.get("offset", 0)) * dtype.itemsize
    if nbytes == 0:
        return Operand(None, 0, 0, dtype, order, value)
    memory = _dpctl.memory_at(pointer, nbytes, _queue_of(interface["syclobj"], what), value)
    return Operand(memory, pointer, nbytes, dtype, order, value)


def _queue_of(syclobj: Any, what: str) -> Any:
    if _dpctl.is_queue(syclobj):
        return syclobj
    queue = getattr(syclobj, "sycl_queue", None)
    if queue is None:
        raise TypeError(f"{what}: its USM interface names no queue but {type(syclobj).__name__}.")
    return queue


def _order(shape: Sequence[int], strides: Sequence[int] | None, what: str) -> str:
    """``"C"`` or ``"F"`` for strides counted in items."""
    if strides is None:
        return "C"
    for order, axes in (("C", range(len(shape) - 1, -1, -1)), ("F", range(len(shape)))):
        step = 1
        for axis in axes:
            if shape[axis] != 1 and strides[axis] != step:
                break
            step *= shape[axis]
        else:
            return order
    if 0 in shape:
        return "C"
    raise ValueError(f"{what}: the array is not contiguous. Copy it to a contiguous one first.")


def _host_array(array: np.ndarray[Any, Any], owner: object, what: str, writable: bool) -> Operand:
    if writable and not array.flags.writeable:
        raise ValueError(f"{what}: the memory is read-only.")
    if array.dtype.hasobject:
        raise TypeError(f"{what}: an array of Python objects has no bytes that a device could use.")
    if array.flags.c_contiguous:
        order, flat = "C", array.reshape(-1)
    elif array.flags.f_contiguous:
        order, flat = "F", array.T.reshape(-1)
    else:
        raise ValueError(f"{what}: the array is not contiguous. Copy it to a contiguous one first.")
    memory = flat.view(np.uint8) if array.nbytes else None
    return Operand(memory, 0, array.nbytes, array.dtype, order, owner)


def pattern_of(value: Any, dtype: np.dtype[Any]) -> bytes:
    """The bytes of one item of `dtype` that holds `value`.

    Raises
    ------
    ValueError
        `value` does not fit.
    """
    item = np.empty((), dtype)
    try:
        with np.errstate(over="raise", invalid="raise"):
            item[...] = value
    except (OverflowError, FloatingPointError, TypeError, ValueError) as error:
        raise ValueError(f"fill(): {value!r} does not fit an item of type {dtype}.") from error
    return item.tobytes()


def kernel_argument(value: Any, position: int) -> tuple[Any, Operand | None]:
    """A kernel's argument as dpctl takes it, and the memory behind it if there is any.

    Memory goes by address, scalars by value: NumPy scalars, 0-d host arrays and parameters of a NumPy type, whose type
    decides the size. Python numbers have no size and are refused.

    Raises
    ------
    TypeError
        A Python number, a host array, or anything else that no kernel can use.
    ValueError
        A USM array that is not contiguous, or has no bytes.
    """
    if isinstance(value, _dpctl.KERNEL_ARGUMENTS):
        return value, None
    what = f"launch(): argument {position}"
    if isinstance(value, Scalar):
        if value.dtype is None:
            raise TypeError(
                f"{what}: the parameter {value} is a Python number, which has no fixed size. Make it with the type that the "
                "kernel declares: graphcap.parameter(value, dtype=numpy.float32)."
            )
        value = value.now()
    if isinstance(value, XPUBuffer) or _usm_ndarray(value) is not None or _has_interface(value):
        operand = resolve(value, what)
        if operand.memory is None:
            raise ValueError(f"{what}: the memory is empty, so it has no address.")
        return operand.memory, operand
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        if value.dtype.hasobject:
            raise TypeError(f"{what}: a Python object cannot be passed to a kernel.")
        return _dpctl.RawKernelArg(np.array(value)), None
    if isinstance(value, np.ndarray):
        raise TypeError(f"{what}: a kernel cannot use host memory. Copy the array to a buffer first: stream.copy().")
    if isinstance(value, (bool, int, float, complex)):
        example = "numpy.int32" if isinstance(value, int) else "numpy.float32"
        raise TypeError(
            f"{what}: a Python {type(value).__name__} has no fixed size. Give a NumPy scalar of the type that the kernel "
            f"declares, such as {example}({value!r})."
        )
    raise TypeError(f"{what}: a kernel cannot use an object of type {type(value).__name__}.")


def sizes(value: Any, what: str) -> tuple[int, ...]:
    """A global or local size: one to three positive integers, or one integer.

    Raises
    ------
    TypeError, ValueError
        Anything else.
    """
    given = (value,) if isinstance(value, (int, np.integer)) else tuple(value)
    if not all(isinstance(extent, (int, np.integer)) and not isinstance(extent, bool) for extent in given):
        raise TypeError(f"launch(): {what} must be integers, not {value!r}.")
    found = tuple(int(extent) for extent in given)
    if not 1 <= len(found) <= 3 or min(found) < 1:
        raise ValueError(f"launch(): {what} must be one to three positive integers, not {value!r}.")
    return found
