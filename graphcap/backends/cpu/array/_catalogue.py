"""What happens to each public NumPy name while a stream captures: recorded, refused, or not seen.

The tables here are explicit, and the functions that are recorded or refused by rule bring their own (``_dispatch``,
``_refused``). A name that is in none of them has no entry; a test fails for it, so a new NumPy release cannot add a function
unnoticed.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from graphcap.backends.cpu.array._dispatch import RECORDED_NAMES, find
from graphcap.backends.cpu.array._namespace import public_names
from graphcap.backends.cpu.array._refused import REFUSALS

__all__ = ["METHODS", "MODULES", "OTHER_VERSIONS", "Entry", "entry", "method_entry", "method_names", "names"]

MODULES: Final[tuple[str, ...]] = (
    "",
    "linalg",
    "fft",
    "random",
    "strings",
    "char",
    "emath",
    "lib",
    "lib.stride_tricks",
    "lib.array_utils",
    "rec",
    "ctypeslib",
    "polynomial",
    "polynomial.polynomial",
    "polynomial.chebyshev",
    "polynomial.legendre",
    "polynomial.laguerre",
    "polynomial.hermite",
    "polynomial.hermite_e",
    "polynomial.polyutils",
    "ma",
)
"""The public modules whose names are listed."""


@dataclass(frozen=True)
class Entry:
    """What happens to a function or method during capture."""

    status: str
    """``"recorded"``, ``"refused"`` or ``"not seen"``."""
    how: str
    """For a recorded one how; for another one why, and what to do instead."""


_CONVERTS: Final = Entry(
    "refused",
    "it converts operands to plain arrays, which needs their values; use the function of the namespace, or stream.launch",
)
_CLASSES: Final = Entry("refused", "its constructor converts to plain arrays, which needs values; use stream.launch")
_UNSEEN: Final = Entry(
    "not seen", "takes no array; gives plain arrays or Python values now (that of the namespace gives a constant)"
)
_NO_VALUE: Final = Entry("recorded", "no value is read")
_SETTING: Final = Entry("not seen", "about NumPy itself, not about arrays")
_RANDOM: Final = Entry(
    "refused",
    "with arrays, and always in the namespace: numbers would be drawn once, at capture; fill an array in stream.launch. "
    "numpy.random with plain operands is not seen",
)
_WHOLE_MODULE: Final = Entry("refused", "the functions of this module convert to plain arrays; use stream.launch")
_TYPE: Final = Entry("not seen", "a type; as a call it converts values, which is refused for an array")

_GROUPS: Final[tuple[tuple[Entry, str], ...]] = (
    (
        _UNSEEN,
        "arange bartlett blackman diag_indices empty eye full hamming hanning identity indices kaiser mask_indices ones tri "
        "tril_indices triu_indices zeros fromfunction frombuffer fromfile fromiter fromregex fromstring genfromtxt load "
        "loadtxt fft.fftfreq fft.rfftfreq broadcast_shapes base_repr binary_repr format_float_positional "
        "format_float_scientific bmat datetime_data promote_types issubdtype isdtype mintypecode typename frompyfunc "
        "lib.array_utils.normalize_axis_index lib.array_utils.normalize_axis_tuple",
    ),
    (_NO_VALUE, "isscalar isfortran lib.array_utils.byte_bounds"),
    (
        _CONVERTS,
        "array asarray asanyarray ascontiguousarray asfortranarray asarray_chkfinite asmatrix require from_dlpack nested_iters "
        "iterable lib.stride_tricks.as_strided char.array char.asarray char.compare_chararrays char.multiply char.partition "
        "char.rpartition",
    ),
    (
        _SETTING,
        "errstate geterr geterrcall getbufsize seterr seterrcall setbufsize get_include get_printoptions printoptions "
        "set_printoptions info show_config show_runtime test linalg.test fft.test random.test lib.test ma.test rec.test "
        "ctypeslib.test polynomial.test lib.add_docstring lib.add_newdoc lib.tracemalloc_domain lib.NumpyVersion "
        "lib.Arrayterator busdaycalendar polynomial.set_default_printstyle linalg.LinAlgError",
    ),
    (
        _CLASSES,
        "broadcast chararray matrix memmap ndarray ndenumerate ndindex nditer flatiter poly1d recarray record vectorize ufunc "
        "char.chararray",
    ),
    (
        _TYPE,
        "bool bool_ byte bytes_ cdouble character clongdouble complex128 complex192 complex256 complex64 complexfloating csingle "
        "datetime64 double dtype finfo flexible float128 float16 float32 float64 float96 floating generic half iinfo inexact "
        "int16 int32 int64 int8 int_ intc integer intp long longdouble longlong number object_ short signedinteger single str_ "
        "timedelta64 ubyte uint uint16 uint32 uint64 uint8 uintc uintp ulong ulonglong unsignedinteger ushort void",
    ),
    (
        Entry("recorded", "the swaps that were drawn at capture; NumPy warns that it does not know the array"),
        "random.shuffle",
    ),
    (
        Entry("recorded", "node, by the function behind it"),
        "row_stack trapz strings.count strings.endswith strings.find strings.index strings.rfind strings.rindex strings.startswith "
        "strings.lstrip strings.rstrip strings.strip strings.slice char.count char.endswith char.find char.index char.rfind char.rindex "
        "char.startswith char.lstrip char.rstrip char.strip",
    ),
)

_TABLE: Final[dict[str, Entry]] = {name: known for known, group in _GROUPS for name in group.split()}

_MODULE_DEFAULTS: Final[dict[str, Entry]] = {
    "random": _RANDOM,
    "rec": _WHOLE_MODULE,
    "ctypeslib": _WHOLE_MODULE,
    "polynomial": _WHOLE_MODULE,
    "ma": _WHOLE_MODULE,
}
"""Modules none of whose functions dispatch: one entry for all names, those of later releases too."""

OTHER_VERSIONS: Final[dict[str, str]] = {
    "cumulative_sum": "from 2.1",
    "cumulative_prod": "from 2.1",
    "unstack": "from 2.1",
    "matvec": "from 2.2",
    "vecmat": "from 2.2",
    "strings.partition": "from 2.1",
    "strings.rpartition": "from 2.1",
    "strings.slice": "from 2.3",
    "polynomial.polynomial.polyvalnd": "from 2.5",
    "polynomial.chebyshev.chebvalnd": "from 2.5",
    "polynomial.legendre.legvalnd": "from 2.5",
    "polynomial.laguerre.lagvalnd": "from 2.5",
    "polynomial.hermite.hermvalnd": "from 2.5",
    "polynomial.hermite_e.hermevalnd": "from 2.5",
    "in1d": "to 2.3",
    "trapz": "to 2.3",
    "chararray": "to 2.3",
    "complex192": "on some machines",
    "float96": "on some machines",
    "complex256": "on some machines",
    "float128": "on some machines",
}
"""Names that not every supported NumPy has."""


def names(module: str) -> list[str]:
    """The public callables of a NumPy module, by their names below ``numpy``."""
    found = find(module) if module else np
    if not isinstance(found, types.ModuleType):
        return []
    prefix = f"{module}." if module else ""
    listed = public_names(found)
    if module and hasattr(found, "__all__"):
        listed = sorted(set(listed) & set(found.__all__))
    return [prefix + name for name in listed if callable(getattr(found, name))]


def entry(name: str) -> Entry | None:
    """What happens to a NumPy function during capture; ``None`` if that was never decided."""
    if name in RECORDED_NAMES:
        return Entry("recorded", RECORDED_NAMES[name])
    if name in REFUSALS:
        why, cure = REFUSALS[name]
        return Entry("refused", f"{why}. {cure}")
    if name in _TABLE:
        return _TABLE[name]
    found = find(name)
    if isinstance(found, np.ufunc):
        return Entry("recorded", "node, and so are its methods (reduce, accumulate, reduceat, outer, at)")
    return _MODULE_DEFAULTS.get(name.partition(".")[0]) if "." in name else None


_READS: Final = Entry("refused", "it needs values. Call it before or after the capture (after replay())")
_HANDS_OUT: Final = Entry(
    "refused", "it would hand out the memory to code that is not seen. Use it outside the capture"
)
_METHOD_GROUPS: Final[tuple[tuple[Entry, str], ...]] = (
    (
        Entry("recorded", "node"),
        "all any argmax argmin argpartition argsort astype byteswap choose clip conj conjugate copy cumprod cumsum dot fill "
        "flatten max mean min partition prod put repeat round searchsorted setfield sort std sum take trace var "
        "__abs__ __add__ __and__ __copy__ __deepcopy__ __divmod__ __eq__ __floordiv__ __ge__ __gt__ __iadd__ __iand__ "
        "__ifloordiv__ __ilshift__ __imatmul__ __imod__ __imul__ __invert__ __ior__ __ipow__ __irshift__ __isub__ "
        "__itruediv__ __ixor__ __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ "
        "__radd__ __rand__ __rdivmod__ __rfloordiv__ __rlshift__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rrshift__ "
        "__rshift__ __rsub__ __rtruediv__ __rxor__ __setitem__ __sub__ __truediv__ __xor__",
    ),
    (
        Entry("recorded", "view, no node"),
        "T mT diagonal getfield real squeeze swapaxes to_device transpose view",
    ),
    (Entry("recorded", "view where NumPy gives one, else node"), "imag ravel reshape"),
    (
        Entry(
            "recorded", "slices are views; a single item or integer arrays a node; reading through a mask is refused"
        ),
        "__getitem__",
    ),
    (
        Entry("recorded", "no value is read"),
        "device dtype flags itemsize nbytes ndim setflags shape size strides __len__ __array_namespace__ __array_ufunc__ "
        "__array_function__ __dlpack_device__ __class_getitem__",
    ),
    (
        _READS,
        "item tolist tobytes tostring tofile dump dumps __array__ __bool__ __complex__ __contains__ __float__ __format__ "
        "__index__ __int__ __iter__ __reduce__ __reduce_ex__ __repr__ __setstate__ __str__ __sizeof__",
    ),
    (_HANDS_OUT, "base ctypes data flat __array_interface__ __array_struct__ __buffer__ __dlpack__"),
    (
        Entry("refused", "the shape of what it gives depends on values; keep the full shape (xp.where)"),
        "nonzero compress",
    ),
    (Entry("refused", "it would move the memory; make a new array: xp.resize(a, shape)"), "resize"),
    (Entry("not seen", "gone since NumPy 2.0: NumPy itself raises"), "itemset newbyteorder ptp"),
    (
        Entry("not seen", "NumPy's own machinery of subclasses, which this type is not"),
        "__array_finalize__ __array_priority__ __array_wrap__ __delitem__ __hash__",
    ),
)
METHODS: Final[dict[str, Entry]] = {name: known for known, group in _METHOD_GROUPS for name in group.split()}


def method_names() -> Iterator[str]:
    """The methods and attributes of ``numpy.ndarray``, with the special methods that it defines itself."""
    for name in sorted(dir(np.ndarray)):
        found = getattr(np.ndarray, name, None)
        if name.startswith("_") and not name.startswith("__"):
            continue  # NumPy's own: from 2.5 there are some
        if not name.startswith("_") or (
            name not in _OBJECT and name not in ("__doc__", "__new__", "__init__") and callable_or_data(found)
        ):
            yield name


_OBJECT: Final = frozenset(dir(object)) - {
    "__eq__",
    "__format__",
    "__ge__",
    "__gt__",
    "__hash__",
    "__le__",
    "__lt__",
    "__ne__",
    "__reduce__",
    "__reduce_ex__",
    "__repr__",
    "__str__",
    "__sizeof__",
}


def callable_or_data(found: Any) -> bool:
    """Whether an attribute of the class is a method or a descriptor, and not a plain constant."""
    return callable(found) or hasattr(found, "__get__") or found is None


def method_entry(name: str) -> Entry | None:
    """What happens to a method or attribute during capture; ``None`` if that was never decided."""
    return METHODS.get(name)
