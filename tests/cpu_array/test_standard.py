"""The Python array API standard: the namespace, other libraries that follow it, and exchange."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import graphcap

from .harness import make_stream, xp

# The functions of edition 2022.12, which NumPy 2.0 has; later editions by what they add.
FUNCTIONS = [
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "asarray",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "broadcast_arrays",
    "broadcast_to",
    "can_cast",
    "ceil",
    "concat",
    "conj",
    "cos",
    "cosh",
    "divide",
    "empty",
    "empty_like",
    "equal",
    "exp",
    "expand_dims",
    "expm1",
    "eye",
    "finfo",
    "flip",
    "floor",
    "floor_divide",
    "from_dlpack",
    "full",
    "full_like",
    "greater",
    "greater_equal",
    "iinfo",
    "imag",
    "isdtype",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "linspace",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "matrix_transpose",
    "max",
    "mean",
    "meshgrid",
    "min",
    "multiply",
    "negative",
    "nonzero",
    "not_equal",
    "ones",
    "ones_like",
    "permute_dims",
    "positive",
    "pow",
    "prod",
    "real",
    "remainder",
    "reshape",
    "result_type",
    "roll",
    "round",
    "sign",
    "sin",
    "sinh",
    "sort",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "take",
    "tan",
    "tanh",
    "tensordot",
    "tril",
    "triu",
    "trunc",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "var",
    "vecdot",
    "where",
    "zeros",
    "zeros_like",
]
ADDED = {
    "2023.12": [
        "clip",
        "copysign",
        "cumulative_sum",
        "hypot",
        "maximum",
        "minimum",
        "moveaxis",
        "repeat",
        "searchsorted",
        "signbit",
        "tile",
        "unstack",
    ],
    "2024.12": ["count_nonzero", "cumulative_prod", "diff", "nextafter", "reciprocal", "take_along_axis"],
}
LINALG = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
FFT = [
    "fft",
    "ifft",
    "fftn",
    "ifftn",
    "rfft",
    "irfft",
    "rfftn",
    "irfftn",
    "hfft",
    "ihfft",
    "fftfreq",
    "rfftfreq",
    "fftshift",
    "ifftshift",
]
DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def expected() -> list[str]:
    found = list(FUNCTIONS)
    for edition, names in ADDED.items():
        if edition <= xp.__array_api_version__:
            found += names
    return found


def test_all_functions_of_the_declared_edition_are_there() -> None:
    missing = [name for name in expected() if not callable(getattr(xp, name, None))]
    assert missing == []
    assert [name for name in LINALG if not callable(getattr(xp.linalg, name, None))] == []
    assert [name for name in FFT if not callable(getattr(xp.fft, name, None))] == []
    assert [name for name in [*DTYPES, "e", "pi", "inf", "nan", "newaxis"] if not hasattr(xp, name)] == []


def test_arrays_have_what_the_standard_asks_for() -> None:
    a = xp.ones((2, 3))
    for name in [
        "dtype",
        "device",
        "mT",
        "ndim",
        "shape",
        "size",
        "T",
        "to_device",
        "__array_namespace__",
        "__dlpack__",
        "__dlpack_device__",
    ]:
        assert hasattr(a, name), name
    assert a.__array_namespace__() is xp
    assert a.__array_namespace__(api_version="2021.12") is xp
    with pytest.raises(ValueError, match=r"2999\.12"):
        a.__array_namespace__(api_version="2999.12")
    assert a.device == "cpu"
    assert a.to_device("cpu") is a
    with pytest.raises(ValueError, match="cuda"):
        a.to_device("cuda")
    with pytest.raises(ValueError, match="gpu"):
        xp.zeros(3, device="gpu")


def test_inspection() -> None:
    info = xp.__array_namespace_info__()
    assert info.default_device() in info.devices()
    assert set(info.default_dtypes(device="cpu")) == {"real floating", "complex floating", "integral", "indexing"}
    assert set(info.dtypes()) == set(DTYPES)
    assert set(info.dtypes(kind=("bool", "real floating"))) == {"bool", "float32", "float64"}
    assert info.capabilities()["data-dependent shapes"]
    with pytest.raises(ValueError, match="text"):
        info.dtypes(kind="text")


def test_results_are_arrays_never_scalars() -> None:
    a = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    for value in (
        a[0, 0],
        xp.sum(a),
        a.max(),
        xp.linalg.det(a),
        a @ a,
        a[0] @ a[0],
        xp.asarray(3),
        np.mean(a),
        +a[1, 1],
    ):
        assert type(value) is xp.ndarray
        assert value.__array_namespace__() is xp
    assert float(xp.sum(a)) == 10
    assert isinstance(xp.linalg.slogdet(a).logabsdet, xp.ndarray)
    assert all(isinstance(part, xp.ndarray) for part in xp.unique_counts(a))


def test_creation_functions_take_the_standard_s_arguments() -> None:
    for made in (
        xp.arange(5, dtype=xp.int32, device="cpu"),
        xp.asarray([1, 2], dtype=xp.float32, device="cpu", copy=True),
        xp.empty((2,), dtype=xp.float32, device="cpu"),
        xp.eye(2, 3, k=1, dtype=xp.float32, device="cpu"),
        xp.full((2,), 3, dtype=xp.float64, device="cpu"),
        xp.linspace(0, 1, num=5, endpoint=False, device="cpu"),
        xp.ones(2, dtype=xp.bool, device="cpu"),
        xp.zeros_like(xp.ones(3), dtype=xp.int8, device="cpu"),
    ):
        assert type(made) is xp.ndarray
    assert xp.full((2,), 3).dtype == np.asarray(3).dtype


def test_exchange_by_dlpack_and_interfaces_shares_memory() -> None:
    data = np.arange(4.0)
    a = xp.asarray(data)
    assert np.shares_memory(np.asarray(a), data)
    assert np.shares_memory(np.from_dlpack(a), data)
    assert a.__dlpack_device__() == (1, 0)
    b = xp.from_dlpack(data)
    b += 1
    assert data.tolist() == [1, 2, 3, 4]
    assert np.asarray(xp.from_dlpack(a)) is not None
    dates = xp.asarray(np.array(["2024-01-01"], "M8[D]"))
    assert np.asarray(dates).dtype == "M8[D]"
    fields = xp.asarray(np.zeros(2, [("x", "f4"), ("y", "i8")]))
    assert np.asarray(fields).dtype.names == ("x", "y")
    assert np.asarray(fields["y"]).dtype == "i8"
    things = xp.asarray(np.array([{}, None], object))
    assert np.asarray(things).tolist() == [{}, None]
    assert np.asarray(xp.asarray(np.arange(3)), np.float32).dtype == "f4"
    assert np.array(a, copy=True) is not None
    with pytest.raises(ValueError, match="copy"):
        np.array(a, dtype=np.int8, copy=False)


def test_an_array_lives_on_through_what_shares_its_memory() -> None:
    view = np.asarray(xp.full(1000, 7.0)[10:20])
    for _ in range(5):
        xp.zeros(1000)
    assert view.tolist() == [7.0] * 10


def test_array_api_compat_and_extra_accept_the_arrays() -> None:
    compat = pytest.importorskip("array_api_compat")
    extra: Any = pytest.importorskip("array_api_extra")
    a = xp.asarray(np.arange(6.0).reshape(2, 3))
    assert compat.is_array_api_obj(a)
    assert not compat.is_numpy_array(a)
    assert compat.array_namespace(a, a + 1) is xp
    assert compat.device(a) == "cpu"
    assert compat.size(a) == 6
    assert compat.to_device(a, "cpu") is a
    assert type(extra.atleast_nd(a, ndim=3, xp=xp)) is xp.ndarray
    assert np.asarray(extra.cov(a)).tolist() == np.cov(np.asarray(a)).tolist()
    assert np.asarray(extra.sinc(a)).tolist() == np.sinc(np.asarray(a)).tolist()
    if hasattr(extra, "pad"):
        assert np.asarray(extra.pad(a, 1, xp=xp)).tolist() == np.pad(np.asarray(a), 1).tolist()
    if hasattr(extra, "at"):
        assert np.asarray(extra.at(a, 0).set(5.0)).tolist()[0] == [5.0] * 3


SCIPY = """
import json, numpy as np, graphcap
import scipy, scipy.stats, scipy.special, scipy.fft, scipy.signal, scipy.cluster.vq
xp = graphcap.array_namespace("cpu")
data = np.random.default_rng(0).normal(size=(6, 5))
other = np.random.default_rng(1).normal(size=(6, 5))
a, b = xp.asarray(data), xp.asarray(other)
calls = {
    "fft.fft": lambda m, x, y: scipy.fft.fft(x),
    "fft.rfftn": lambda m, x, y: scipy.fft.rfftn(x),
    "fft.fftshift": lambda m, x, y: scipy.fft.fftshift(x),
    "special.expit": lambda m, x, y: scipy.special.expit(x),
    "special.logsumexp": lambda m, x, y: scipy.special.logsumexp(x, axis=1),
    "special.softmax": lambda m, x, y: scipy.special.softmax(x, axis=0),
    "special.xlogy": lambda m, x, y: scipy.special.xlogy(m.abs(x), m.abs(y)),
    "stats.skew": lambda m, x, y: scipy.stats.skew(x),
    "stats.kurtosis": lambda m, x, y: scipy.stats.kurtosis(x, axis=1),
    "stats.zscore": lambda m, x, y: scipy.stats.zscore(x),
    "stats.moment": lambda m, x, y: scipy.stats.moment(x, 3),
    "stats.hmean": lambda m, x, y: scipy.stats.hmean(m.abs(x)),
    "stats.pearsonr": lambda m, x, y: scipy.stats.pearsonr(x[:, 0], y[:, 0]).statistic,
    "stats.ttest_ind": lambda m, x, y: scipy.stats.ttest_ind(x, y).pvalue,
    "cluster.vq.whiten": lambda m, x, y: scipy.cluster.vq.whiten(x),
    "signal.detrend": lambda m, x, y: scipy.signal.detrend(x),
}
newer = {"special.softmax", "signal.detrend"}  # of SciPy 1.16 and later
results = {}
for name, call in calls.items():
    if name in newer and tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 16):
        continue
    want = np.asarray(call(np, data, other))
    try:
        found = call(xp, a, b)
        results[name] = "ok" if type(found) is xp.ndarray and np.allclose(np.asarray(found), want, rtol=1e-12) else f"{type(found)}"
    except Exception as error:
        results[name] = repr(error)
print(json.dumps(results))
"""


def test_scipy_s_array_api_functions_run_on_the_arrays() -> None:
    """In an interpreter of its own: SciPy reads the setting when it is imported."""
    pytest.importorskip("scipy", minversion="1.14")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCIPY],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    results = json.loads(run.stdout.splitlines()[-1])
    assert {name: told for name, told in results.items() if told != "ok"} == {}


def test_functions_of_the_standard_are_recorded() -> None:
    """A program written for any array API namespace, captured."""

    def softmax(x: Any) -> Any:
        space = x.__array_namespace__()
        e = space.exp(x - space.max(x, axis=-1, keepdims=True))
        return e / space.sum(e, axis=-1, keepdims=True)

    data = np.random.default_rng(3).normal(size=(4, 5))
    a = xp.asarray(data)
    graph = graphcap.Graph("cpu")
    with make_stream("cpu"), graph:
        out = softmax(a)
    data *= 2
    graph.replay()
    e = np.exp(data - np.max(data, axis=-1, keepdims=True))
    assert np.asarray(out).tobytes() == (e / np.sum(e, axis=-1, keepdims=True)).tobytes()


def test_public_functions_keep_numpy_s_signature() -> None:
    for name in ("sum", "concatenate", "where"):
        assert getattr(xp, name).__name__ == name
    assert inspect.signature(xp.sum) == inspect.signature(np.sum)
