"""Every public NumPy name has a decision, and behaves as the table says: nothing slips through a capture unseen."""

from __future__ import annotations

import io
import operator
import pickle
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import graphcap
from graphcap.backends.cpu.array import document
from graphcap.backends.cpu.array._catalogue import MODULES, OTHER_VERSIONS, entry, method_entry, method_names, names
from graphcap.backends.cpu.array._dispatch import RECORDED_NAMES, find
from graphcap.backends.cpu.array._refused import REFUSALS

from .harness import make_stream, xp
from .samples import METHODS

DOCS: Final = Path(__file__).parents[2] / "docs" / "numpy.md"
ALL_NAMES: Final = [name for module in MODULES for name in names(module)]

SIDE_EFFECTS: Final = frozenset(
    [
        "test",
        "show_config",
        "show_runtime",
        "info",
        "seterr",
        "seterrcall",
        "setbufsize",
        "set_printoptions",
        "printoptions",
        "errstate",
        "get_include",
        "linalg.test",
        "fft.test",
        "random.test",
        "lib.test",
        "ma.test",
        "rec.test",
        "ctypeslib.test",
        "polynomial.test",
        "random.seed",
        "random.set_state",
        "random.set_bit_generator",
        "lib.add_docstring",
        "lib.add_newdoc",
        "lib.tracemalloc_domain",
        "polynomial.set_default_printstyle",
        "ma.set_fill_value",
        "geterr",
        "geterrcall",
        "getbufsize",
        "get_printoptions",
        "linalg.LinAlgError",
    ]
)
"""Not called blindly: they change NumPy for everybody, or are no business of arrays."""

TAKES_ANYTHING: Final = frozenset(
    # They look at nothing but types, or keep the object as it is.
    [
        "isscalar",
        "iterable",
        "isfortran",
        "typename",
        "mintypecode",
        "issubdtype",
        "isdtype",
        "promote_types",
        "frompyfunc",
        "vectorize",
        "dtype",
        "lib.Arrayterator",
        "lib.array_utils.byte_bounds",
        "ma.isMA",
        "ma.isMaskedArray",
        "ma.isarray",
        "ma.is_mask",
        "ma.is_masked",
        "ma.getmask",
        "ma.ndim",
        "ma.shape",
        "ma.size",
        "ma.ids",
        "ma.iscontiguous",
        "ctypeslib.as_ctypes_type",
        "random.get_state",
        "random.default_rng",
        "random.get_bit_generator",
        "fft.fftfreq",
        "fft.rfftfreq",
        "bmat",
        "random.shuffle",
        "ma.common_fill_value",
        "ma.minimum_fill_value",
        "ma.maximum_fill_value",
        "polynomial.polyutils.RankWarning",
        "ma.MAError",
        "ma.MaskError",
        "ma.isMaskedArray",
        "ma.nomask",
        "finfo",
        "iinfo",
        "ma.ndenumerate",
        "ma.flatnotmasked_edges",
        "ma.flatnotmasked_contiguous",
        "ma.clump_unmasked",
        "ma.clump_masked",
        "ma.count_masked",
        "ma.getmaskarray",
        "ma.default_fill_value",
        "ma.make_mask_descr",
        "ctypeslib.ndpointer",
    ]
)


def test_every_function_has_a_decision() -> None:
    """Fails when a NumPy release adds a function: decide whether it is recorded, refused or not seen."""
    assert [name for name in ALL_NAMES if entry(name) is None] == []


def test_every_method_has_a_decision() -> None:
    assert [name for name in method_names() if method_entry(name) is None] == []


def test_no_decision_about_a_name_that_does_not_exist() -> None:
    stale = [name for name in (*RECORDED_NAMES, *REFUSALS) if find(name) is None and name not in OTHER_VERSIONS]
    assert stale == []


def test_every_name_of_numpy_is_in_the_namespace() -> None:
    public = {name for name in dir(np) if not name.startswith("_")}
    missing = {
        name for name in public if not hasattr(xp, name) and not isinstance(getattr(np, name, None), types.ModuleType)
    }
    assert missing == set()
    for module in ("linalg", "fft", "random", "strings", "char"):
        assert set(names(module)) <= {f"{module}.{name}" for name in dir(getattr(xp, module))}


def test_the_document_agrees_with_the_tables() -> None:
    """Whole where it was made with this NumPy; row by row otherwise."""
    text = DOCS.read_text(encoding="utf-8")
    if f"Made with NumPy {np.__version__}." in text:
        assert text == document.document(), "run: python -m graphcap.backends.cpu.array.document docs/numpy.md"
    for module, name, known in document.rows():
        if module == "ndarray" or name not in OTHER_VERSIONS:
            assert f"| `{name}` | {known.status} | {known.how} |" in text or f"| `{name}` (" in text, name


def outcome(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
    """What a call does inside a capture: ("raised", error), or ("returned", result, nodes recorded)."""
    graph = graphcap.Graph("cpu")
    stream = make_stream("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with stream, graph:
            before = len(stream.capture.nodes)
            try:
                result = function(*args, **(kwargs or {}))
            except Exception as error:
                return "raised", error
            return "returned", result, len(stream.capture.nodes) - before


def arrays() -> list[Any]:
    return [
        xp.asarray(np.arange(9.0).reshape(3, 3) + np.eye(3)),
        xp.asarray(np.array([0, 1, 2])),
        xp.asarray(np.array([True, False, True])),
        xp.asarray(np.array(["ab", "c"])),
        xp.asarray(np.array(2.0)),
    ]


def holds_plain(value: Any) -> bool:
    """Whether a result is data that left the capture: plain arrays, or scalars made of values."""
    if isinstance(value, (tuple, list)):
        return any(holds_plain(item) for item in value)
    return isinstance(value, (np.ndarray, np.generic)) and not isinstance(value, xp.ndarray)


def holds_array(value: Any) -> bool:
    """Whether there is an array of the namespace in a result."""
    return isinstance(value, xp.ndarray) or (
        isinstance(value, (tuple, list)) and any(holds_array(item) for item in value)
    )


@pytest.mark.parametrize("name", [name for name in ALL_NAMES if name not in SIDE_EFFECTS | TAKES_ANYTHING])
def test_nothing_slips_through_unseen(name: str) -> None:
    """Called with arrays in a capture, a function records them, gives arrays, or raises; it never gives plain data."""
    function = find(name)
    known = entry(name)
    assert known is not None
    for operand in arrays():
        for count in (1, 2, 3):
            what, result, *nodes = outcome(function, (operand,) * count)
            if what == "raised":
                continue
            # Python code above NumPy may come down to what is recorded, and then gives arrays.
            assert known.status != "not seen", f"numpy.{name} of {count} arrays returned {result!r}"
            if known.how != "no value is read":
                assert not holds_plain(result), f"numpy.{name} of {count} arrays returned {result!r}"
            if known.status == "refused":
                assert nodes[0] or holds_array(result), f"numpy.{name} of {count} arrays returned {result!r}"


SPECIAL_CALLS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "apply_along_axis": lambda f, a: f(np.sum, 0, a),
    "apply_over_axes": lambda f, a: f(np.sum, a, 0),
    "piecewise": lambda f, a: f(a, [a > 0], [1, 2]),
    "save": lambda f, a: f(io.BytesIO(), a),
    "savetxt": lambda f, a: f(io.StringIO(), a),
    "savez": lambda f, a: f(io.BytesIO(), a),
    "savez_compressed": lambda f, a: f(io.BytesIO(), a),
    "compress": lambda f, a: f([True, False, True], a),
    "extract": lambda f, a: f(a > 0, a),
    "trim_zeros": lambda f, a: f(a[0]),
    "polyfit": lambda f, a: f(a[0], a[1], 1),
    "linalg.lstsq": lambda f, a: f(a, a),
    "emath.logn": lambda f, a: f(2, a),
    "emath.power": lambda f, a: f(a, 2),
    "datetime_as_string": lambda f, a: f(xp.asarray(np.array(["2024-01-01"], "M8[D]"))),
}
TEXT: Final = {
    "center": (5,),
    "ljust": (5,),
    "rjust": (5,),
    "zfill": (5,),
    "partition": ("a",),
    "rpartition": ("a",),
    "replace": ("a", "b"),
    "mod": (1,),
    "multiply": (2,),
    "translate": ("a" * 256,),
    "join": (["a", "b"],),
    "slice": (1,),
}


TWO_OPERANDS: Final = frozenset(
    [
        "allclose",
        "array_equal",
        "array_equiv",
        "shares_memory",
        "may_share_memory",
        "intersect1d",
        "union1d",
        "setdiff1d",
        "setxor1d",
        "polydiv",
        "polymul",
        "in1d",
    ]
)


@pytest.mark.parametrize("name", [name for name in REFUSALS if find(name) is not None])
def test_a_refused_function_says_so(name: str) -> None:
    function = find(name)
    a = arrays()[0]
    last = name.rpartition(".")[2]
    if name.startswith(("strings.", "char.")):
        text = arrays()[3]
        second = (text,) if last in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal") else ()
        what, error = outcome(function, (text, *TEXT.get(last, second)))[:2]
    elif name in SPECIAL_CALLS:
        what, error = outcome(SPECIAL_CALLS[name], (function, a))[:2]
    else:
        count = 2 if name in TWO_OPERANDS else 1
        what, error = outcome(function, (a,) * count)[:2]
    assert what == "raised"
    assert isinstance(error, graphcap.CaptureForbiddenError), error
    assert error.cure
    # poly and roots are asked for their operands by iteration, before NumPy tells who was called.
    # Functions that do not dispatch in an old NumPy fail at the conversion.
    assert last in error.asked or name in ("poly", "roots") or not hasattr(function, "_implementation"), error


@pytest.mark.parametrize("name", [name for name in METHODS if hasattr(np.ndarray, name)])
def test_methods_with_samples_are_called_recorded(name: str) -> None:
    known = method_entry(name)
    assert known is not None
    assert known.status == "recorded"


def test_recorded_methods_have_samples() -> None:
    public = [name for name in method_names() if not name.startswith("_")]
    recorded = [name for name in public if getattr(method_entry(name), "status", "") == "recorded"]
    assert sorted(recorded) == sorted(name for name in METHODS if hasattr(np.ndarray, name))


REFUSED_USES: Final[dict[str, Callable[[Any], Any]]] = {
    "item": lambda a: a.item(0),
    "tolist": lambda a: a.tolist(),
    "tobytes": lambda a: a.tobytes(),
    "tofile": lambda a: a.tofile(io.BytesIO()),
    "dump": lambda a: a.dump(io.BytesIO()),
    "dumps": lambda a: a.dumps(),
    "nonzero": lambda a: a.nonzero(),
    "compress": lambda a: a.compress([True]),
    "resize": lambda a: a.resize(2),
    "base": lambda a: a.base,
    "ctypes": lambda a: a.ctypes,
    "data": lambda a: a.data,
    "flat": lambda a: a.flat,
    "__array__": lambda a: a.__array__(),
    "__bool__": lambda a: 1 if a.any() else 0,
    "__complex__": lambda a: complex(a[0]),
    "__contains__": lambda a: 1 in a,
    "__float__": lambda a: float(a[0]),
    "__format__": lambda a: f"{a}",
    "__index__": lambda a: operator.index(a.astype(int)[0]),
    "__int__": lambda a: int(a[0]),
    "__iter__": lambda a: list(a),
    "__reduce__": lambda a: a.__reduce__(),
    "__reduce_ex__": lambda a: pickle.dumps(a),
    "__repr__": repr,
    "__str__": str,
    "__array_interface__": lambda a: a.__array_interface__,
    "__dlpack__": lambda a: a.__dlpack__(),
}
UNLIKE_NUMPY: Final = {"__setstate__", "__sizeof__", "__array_struct__", "__buffer__", "tostring"}
"""The type does not have them, or has ``object``'s."""


@pytest.mark.parametrize("name", sorted(REFUSED_USES))
def test_a_refused_use_of_an_array(name: str) -> None:
    a = xp.asarray(np.arange(3.0))
    what, error = outcome(REFUSED_USES[name], (a,))[:2]
    assert what == "raised"
    assert isinstance(error, graphcap.CaptureForbiddenError), error
    assert error.cure
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            REFUSED_USES[name](a)  # at any other time it is NumPy's own answer
        except graphcap.CaptureForbiddenError as error_outside:
            pytest.fail(str(error_outside))
        except Exception as error_of_numpy:
            with pytest.raises(type(error_of_numpy)):
                REFUSED_USES[name](np.arange(3.0)[:])


def test_refused_methods_have_samples() -> None:
    refused = {name for name in method_names() if getattr(method_entry(name), "status", "") == "refused"}
    assert refused - UNLIKE_NUMPY == set(REFUSED_USES)


LEAKS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "assignment of all": lambda plain, a: operator.setitem(plain, ..., a),
    "assignment of a slice": lambda plain, a: operator.setitem(plain, slice(0, 3), a),
    "assignment of an item": lambda plain, a: operator.setitem(plain, 0, a[0]),
    "index": lambda plain, a: plain[a.astype(int)],
    "asarray": lambda plain, a: np.asarray(a),
    "array of a list": lambda plain, a: np.array([a, a]),
    "fromiter": lambda plain, a: np.fromiter(a, float),
    "scalar": lambda plain, a: np.float64(a[0]),
    "method": lambda plain, a: plain.dot(a),
    "take": lambda plain, a: plain.take(a.astype(int)),
    "fill": lambda plain, a: plain.fill(a[0]),
    "put": lambda plain, a: plain.put([0], a[0]),
    "searchsorted": lambda plain, a: plain.searchsorted(a),
    "flat": lambda plain, a: setattr(plain, "flat", a),
    "memoryview": lambda plain, a: memoryview(a),
    "bytes": lambda plain, a: bytes(a),
    "random": lambda plain, a: np.random.default_rng(0).normal(a),
    "permutation": lambda plain, a: np.random.permutation(a),
    "choice": lambda plain, a: np.random.default_rng(0).choice(a),
    "nditer": lambda plain, a: np.nditer(a),
    "sum of Python": lambda plain, a: sum(a),
    "max of Python": lambda plain, a: max(a),
    "range": lambda plain, a: range(a.astype(int)[1]),
    "dlpack": lambda plain, a: np.from_dlpack(a),
    "mask": lambda plain, a: a[a > 1],
    "mask of a plain array": lambda plain, a: plain[a > 1],
    "masked values": lambda plain, a: operator.setitem(a, a > 1, plain),
    "where alone": lambda plain, a: np.where(a > 1),
    "slice bound": lambda plain, a: a[: a.astype(int)[1]],
    "namespace random": lambda plain, a: xp.random.normal(size=3),
    "namespace asnumpy": lambda plain, a: xp.asnumpy(a),
    "namespace shape": lambda plain, a: xp.zeros(a.astype(int)),
    "masked array": lambda plain, a: np.ma.array(a),
    "poly1d": lambda plain, a: np.poly1d(a),
    "vectorize": lambda plain, a: np.vectorize(abs)(a),
    "copyto of a list": lambda plain, a: np.copyto(plain, [a[0], a[1], a[2]]),
    "math": lambda plain, a: __import__("math").sin(a[0]),
}


WRAPPED: Final = {"fill", "assignment of an item"}
NO_BUFFER: Final = {"memoryview"} if sys.version_info < (3, 12) else set()


@pytest.mark.parametrize("name", sorted(LEAKS))
def test_a_way_to_plain_data_is_refused(name: str) -> None:
    plain = np.full(3, 7.0)
    a = xp.asarray(np.arange(3.0))
    what, error, *_ = outcome(LEAKS[name], (plain, a))
    assert what == "raised", error
    # Where NumPy asks an array for a Python number, it puts a ValueError of its own in front. Before Python 3.12 nothing
    # but C code can offer a buffer.
    told = error.__cause__ if name in WRAPPED else error
    assert isinstance(told, graphcap.CaptureForbiddenError) or name in NO_BUFFER, error
    assert plain.tolist() == [7, 7, 7]
    assert np.asarray(a).tolist() == [0, 1, 2]


def test_a_refusal_does_not_end_the_capture() -> None:
    a = xp.asarray(np.arange(3.0))
    with graphcap.capture("cpu") as graph:
        with pytest.raises(graphcap.CaptureForbiddenError, match=r"float\(\)"):
            float(a[1])
        b = a + 1
    graph.replay()
    assert np.asarray(b).tolist() == [1, 2, 3]


def test_an_uncovered_function_is_refused_with_the_way_out() -> None:
    a = xp.asarray(np.arange(3.0))
    seen = []

    def keep(data: Any) -> None:
        seen.append(np.unique(data).tolist())

    with graphcap.capture("cpu") as graph:
        with pytest.raises(graphcap.CaptureForbiddenError, match=r"stream\.launch"):
            np.unique(a)
        graphcap.current_stream("cpu").launch(keep, a)
    assert seen == []
    graph.replay()
    assert seen == [[0, 1, 2]]


def test_shuffle_warns_that_it_does_not_know_the_array() -> None:
    """NumPy's shuffle swaps the items of any object with a length one by one: each swap is recorded as it was drawn."""
    a = xp.asarray(np.arange(3.0))
    with pytest.warns(UserWarning, match="shuffl"):
        np.random.default_rng(0).shuffle(a)
