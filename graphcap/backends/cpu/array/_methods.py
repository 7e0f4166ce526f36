"""Methods and attributes, as ``numpy.ndarray`` has them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from graphcap.backends.cpu.array import _dispatch
from graphcap.backends.cpu.array._base import Array, operand, plain, view, wrap
from graphcap.backends.cpu.array._copies import assign
from graphcap.backends.cpu.array._memory import Plain
from graphcap.backends.cpu.array._recording import capturing_stream, check_readable, refuse

__all__ = ["Methods"]

_NO_VALUE: Final = np._NoValue
_TYPE: Final = type


def _call(function: Any, *args: Any, **kwargs: Any) -> Any:
    return _dispatch.call_function(function, args, {k: v for k, v in kwargs.items() if v is not _NO_VALUE})


class Attributes(Array):
    """What can be known without reading a value."""

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        return self.graphcap_data.dtype

    @property
    def shape(self) -> Any:
        return self.graphcap_data.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        found = self._reshaped_view(shape)
        self.graphcap_data, self._pool = found.graphcap_data, found._pool

    def _reshaped_view(self, shape: Any) -> Any:
        from graphcap.backends.cpu.array._views import reshaped_view  # needs the class

        return reshaped_view(self, shape)

    @property
    def ndim(self) -> int:
        return self.graphcap_data.ndim

    @property
    def size(self) -> int:
        return self.graphcap_data.size

    @property
    def nbytes(self) -> int:
        return self.graphcap_data.nbytes

    @property
    def itemsize(self) -> int:
        return self.graphcap_data.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        return self.graphcap_data.strides

    @property
    def flags(self) -> Any:
        return self.graphcap_data.flags

    @property
    def device(self) -> str:
        """The device, as the array API standard has it: ``"cpu"``."""
        return "cpu"

    @property
    def T(self) -> Any:  # noqa: N802  # NumPy's name
        return self.transpose()

    @property
    def mT(self) -> Any:  # noqa: N802  # NumPy's name
        if self.ndim < 2:
            raise ValueError("matrix transpose with ndim < 2 is undefined")
        return _call(np.swapaxes, self, -1, -2)

    @property
    def real(self) -> Any:
        return _call(np.real, self)

    @real.setter
    def real(self, value: Any) -> None:
        _dispatch.set_item(_call(np.real, self), ..., value)

    @property
    def imag(self) -> Any:
        return _call(np.imag, self)

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")
        _dispatch.set_item(_call(np.imag, self), ..., value)

    @property
    def data(self) -> memoryview:
        return self._plain("ndarray.data").data

    @property
    def base(self) -> Any:
        return self._plain("ndarray.base").base

    @property
    def ctypes(self) -> Any:
        return self._plain("ndarray.ctypes").ctypes

    @property
    def flat(self) -> Any:
        return self._plain("ndarray.flat").flat

    @flat.setter
    def flat(self, value: Any) -> None:
        self._plain("assignment to ndarray.flat").flat[...] = plain(value)

    def _plain(self, call: str) -> Plain:
        check_readable(call)
        data: Plain = plain(self)
        return data

    def transpose(self, *axes: Any) -> Any:
        """A view with the axes permuted."""
        order = axes[0] if len(axes) == 1 else (axes or None)
        return _call(np.transpose, self, order)


class Moving(Attributes):
    """Shape, type and place."""

    __slots__ = ()

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        new = shape[0] if len(shape) == 1 else shape
        kwargs: dict[str, Any] = {"order": order}
        if copy is not None:
            kwargs["copy"] = copy
        return _call(np.reshape, self, new, **kwargs)

    def ravel(self, order: str = "C") -> Any:
        return _call(np.ravel, self, order=order)

    def flatten(self, order: str = "C") -> Any:
        flat = _call(np.ravel, self, order=order)
        return _call(np.copy, flat) if np.may_share_memory(flat.graphcap_data, self.graphcap_data) else flat

    def resize(self, *new_shape: Any, refcheck: bool = True) -> None:
        if capturing_stream("ndarray.resize()") is not None:
            refuse("ndarray.resize()", "it would move the array's memory", "Make a new array: xp.resize(a, shape).")
        raise ValueError("cannot resize this array: it does not own its data")

    def squeeze(self, axis: Any = None) -> Any:
        return _call(np.squeeze, self, axis=axis)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        return _call(np.swapaxes, self, axis1, axis2)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        return _call(np.diagonal, self, offset, axis1, axis2)

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        """The same memory as another type."""
        if type is not None or (isinstance(dtype, _TYPE) and issubclass(dtype, np.ndarray)):
            refuse("ndarray.view(type=...)", "an array of this namespace has no subclasses", "Leave `type` out.")
        owning, pool = self.graphcap_data, self._pool
        if dtype is None:
            return view(self, owning.view(), None if pool is owning else pool.view())
        return view(self, owning.view(dtype), None if pool is owning else pool.view(dtype))

    def getfield(self, dtype: Any, offset: int = 0) -> Any:
        owning, pool = self.graphcap_data, self._pool
        return view(self, owning.getfield(dtype, offset), None if pool is owning else pool.getfield(dtype, offset))

    def setfield(self, val: Any, dtype: Any, offset: int = 0) -> None:
        _dispatch.set_item(self.getfield(dtype, offset), ..., val)

    def setflags(self, write: bool | None = None, align: bool | None = None, uic: bool | None = None) -> None:
        for data in (self.graphcap_data, self._pool):
            data.setflags(write=write, align=align, uic=uic)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        if stream is not None:
            raise ValueError("The stream argument in to_device() is not supported")
        if device != "cpu":
            raise ValueError(f"Unsupported device: {device!r}. The only one is 'cpu'.")
        return self

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        stream = capturing_stream("ndarray.astype()")
        if stream is None:
            data = plain(self)
            found = data.astype(dtype, order, casting, subok, copy)
            return self if found is data else wrap(found)
        from graphcap.backends.cpu.array._creation import converted  # needs the class

        return converted(stream, self, dtype, order, casting, copy)

    def copy(self, order: str = "C") -> Any:
        return _call(np.copy, self, order=order)

    def byteswap(self, inplace: bool = False) -> Any:
        stream = capturing_stream("ndarray.byteswap()")
        if stream is None:
            found = plain(self).byteswap(inplace)
            return self if inplace else wrap(found)
        from graphcap.backends.cpu.array._infer import record_function

        result = record_function(stream, np.ndarray.byteswap, self)
        if not inplace:
            return result
        assign(stream, operand(self, stream), operand(result, stream))
        return self

    def fill(self, value: Any) -> None:
        stream = capturing_stream("ndarray.fill()")
        if stream is None:
            plain(self).fill(plain(value))
        else:
            assign(stream, operand(self, stream), operand(value, stream))


class Computing(Moving):
    """Methods that are functions of the same name."""

    __slots__ = ()

    def all(self, axis: Any = None, out: Any = None, keepdims: Any = _NO_VALUE, *, where: Any = _NO_VALUE) -> Any:
        return _call(np.all, self, axis=axis, out=out, keepdims=keepdims, where=where)

    def any(self, axis: Any = None, out: Any = None, keepdims: Any = _NO_VALUE, *, where: Any = _NO_VALUE) -> Any:
        return _call(np.any, self, axis=axis, out=out, keepdims=keepdims, where=where)

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, **options: Any) -> Any:
        return _call(np.sum, self, axis=axis, dtype=dtype, out=out, **options)

    def prod(self, axis: Any = None, dtype: Any = None, out: Any = None, **options: Any) -> Any:
        return _call(np.prod, self, axis=axis, dtype=dtype, out=out, **options)

    def max(self, axis: Any = None, out: Any = None, **options: Any) -> Any:
        return _call(np.max, self, axis=axis, out=out, **options)

    def min(self, axis: Any = None, out: Any = None, **options: Any) -> Any:
        return _call(np.min, self, axis=axis, out=out, **options)

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, **options: Any) -> Any:
        return _call(np.mean, self, axis=axis, dtype=dtype, out=out, **options)

    def std(self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, **options: Any) -> Any:
        return _call(np.std, self, axis=axis, dtype=dtype, out=out, ddof=ddof, **options)

    def var(self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, **options: Any) -> Any:
        return _call(np.var, self, axis=axis, dtype=dtype, out=out, ddof=ddof, **options)

    def cumsum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        return _call(np.cumsum, self, axis=axis, dtype=dtype, out=out)

    def cumprod(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        return _call(np.cumprod, self, axis=axis, dtype=dtype, out=out)

    def argmax(self, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        return _call(np.argmax, self, axis=axis, out=out, keepdims=keepdims)

    def argmin(self, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        return _call(np.argmin, self, axis=axis, out=out, keepdims=keepdims)

    def argsort(self, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
        return _call(np.argsort, self, axis=axis, kind=kind, order=order, stable=stable)

    def argpartition(self, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
        return _call(np.argpartition, self, kth, axis=axis, kind=kind, order=order)

    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> Any:
        return _call(np.searchsorted, self, v, side=side, sorter=sorter)

    def clip(self, min: Any = None, max: Any = None, out: Any = None, **options: Any) -> Any:
        return _call(np.clip, self, min, max, out=out, **options)

    def round(self, decimals: int = 0, out: Any = None) -> Any:
        return _call(np.round, self, decimals, out=out)

    def conj(self) -> Any:
        return _dispatch.call_ufunc(np.conjugate, "__call__", (self,), {}) if self.dtype.kind in "cO" else self

    def conjugate(self) -> Any:
        return self.conj()

    def dot(self, b: Any, out: Any = None) -> Any:
        return _call(np.dot, self, b, out=out)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
        return _call(np.trace, self, offset, axis1, axis2, dtype=dtype, out=out)

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
        return _call(np.take, self, indices, axis=axis, out=out, mode=mode)

    def choose(self, choices: Any, out: Any = None, mode: str = "raise") -> Any:
        return _call(np.choose, self, choices, out=out, mode=mode)

    def repeat(self, repeats: Any, axis: Any = None) -> Any:
        return _call(np.repeat, self, repeats, axis=axis)

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        _call(np.put, self, indices, values, mode=mode)

    def sort(self, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
        self._in_place(np.ndarray.sort, (axis,), {"kind": kind, "order": order, "stable": stable})

    def partition(self, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> None:
        self._in_place(np.ndarray.partition, (plain(kth), axis), {"kind": kind, "order": order})

    def _in_place(self, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        stream = capturing_stream(f"ndarray.{method.__name__}()")
        if stream is None:
            method(plain(self), *args, **{key: value for key, value in kwargs.items() if value is not None})
            return
        from graphcap.backends.cpu.array._reductions import sort_in_place  # needs the class

        sort_in_place(stream, method, operand(self, stream), args, kwargs)


class Methods(Computing):
    """All methods; here those whose result's shape depends on values, or that hand values out."""

    __slots__ = ()

    def nonzero(self) -> Any:
        return _call(np.nonzero, self)

    def compress(self, condition: Any, axis: Any = None, out: Any = None) -> Any:
        return _call(np.compress, condition, self, axis=axis, out=out)

    def item(self, *args: Any) -> Any:
        return self._plain("ndarray.item()").item(*args)

    def tolist(self) -> Any:
        return self._plain("ndarray.tolist()").tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        return self._plain("ndarray.tobytes()").tobytes(order)

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        self._plain("ndarray.tofile()").tofile(fid, sep, format)

    def dump(self, file: Any) -> None:
        self._plain("ndarray.dump()").dump(file)

    def dumps(self) -> bytes:
        return self._plain("ndarray.dumps()").dumps()
