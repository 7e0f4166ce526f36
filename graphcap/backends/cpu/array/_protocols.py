"""How other code meets an array: NumPy's and Python's protocols. What reads values is refused during capture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphcap.backends.cpu.array import _dispatch
from graphcap.backends.cpu.array._base import Array, known_operand, plain
from graphcap.backends.cpu.array._memory import Plain, is_managed
from graphcap.backends.cpu.array._recording import check_readable

__all__ = ["Protocols"]

_CPU: Final = (1, 0)  # kDLCPU


class Protocols(Array):
    """Dispatch of ufuncs and functions, exchange with other libraries, and Python's conversions."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __array_priority__ = 1000.0

    # -- NumPy's and the array API's dispatch ------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        for value in inputs:
            if not known_operand(value):
                return NotImplemented
        return _dispatch.call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        for kind in types:
            override = getattr(kind, "__array_function__", None)
            if not issubclass(kind, Array) and override is not np.ndarray.__array_function__:
                return NotImplemented
        return _dispatch.call_function(function, args, kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The namespace that works on this array.

        Raises
        ------
        ValueError
            It does not conform to `api_version` of the array API standard.
        """
        from graphcap.backends.cpu import array as namespace  # it holds this class

        namespace.check_api_version(api_version)
        return namespace

    # -- exchange ----------------------------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Plain:
        data = self._read("numpy.asarray() of a graphcap array (__array__)")
        if copy is None:
            return data if dtype is None else data.astype(dtype, copy=False)
        if copy:
            return np.array(data, dtype)
        if dtype is not None and np.dtype(dtype) != data.dtype:
            raise ValueError("Unable to avoid copy while creating an array as requested: the type differs.")
        return data

    @property
    def __array_interface__(self) -> dict[str, Any]:
        data = self._read("numpy.asarray() or another conversion to a plain array (__array_interface__)")
        if not is_managed(data.dtype):
            raise AttributeError("references have no array interface")  # NumPy goes on to __array__
        interface: dict[str, Any] = data.__array_interface__
        return interface

    def __dlpack__(self, **options: Any) -> Any:
        return self._read("__dlpack__").__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU

    def __buffer__(self, flags: int) -> memoryview:
        return self._read("the buffer protocol").data

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._read("pickling an array").copy(),)

    def __copy__(self) -> Any:
        return _dispatch.call_function(np.copy, (self,), {"order": "K"})

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.__copy__()

    # -- Python's conversions ----------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(self._read("bool() of an array, as in `if a.any():`"))

    def __int__(self) -> int:
        return int(self._read("int() of an array"))

    def __float__(self) -> float:
        return float(self._read("float() of an array"))

    def __complex__(self) -> complex:
        return complex(self._read("complex() of an array"))

    def __index__(self) -> int:
        return self._read("use of an array as a Python integer (__index__)").__index__()

    def __len__(self) -> int:
        return len(self.graphcap_data)

    def __iter__(self) -> Iterator[Any]:
        data = self._read("iteration over an array")
        if data.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[index] for index in range(len(data)))

    def __contains__(self, item: object) -> bool:
        return plain(item) in self._read("`in` an array")

    def __repr__(self) -> str:
        return repr(self._read("repr() of an array"))

    def __str__(self) -> str:
        return str(self._read("str() or print() of an array"))

    def __format__(self, form: str) -> str:
        return format(self._read("format() of an array"), form)

    # -- indexing ----------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        return _dispatch.get_item(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _dispatch.set_item(self, key, value)

    def __delitem__(self, key: Any) -> None:
        raise ValueError("cannot delete array elements")

    # -- pieces ------------------------------------------------------------------------------------------------

    def _read(self, call: str) -> Plain:
        """The data, for a call that reads values.

        Raises
        ------
        CaptureForbiddenError
            The current stream is capturing.
        CaptureIsolationError
            The array was made in a capture that is still open.
        """
        check_readable(call)
        data: Plain = plain(self)
        return data


def _rebuild(data: Plain) -> Any:
    from graphcap.backends.cpu.array._creation import array  # needs this module

    return array(data)
