"""NumPy functions that work item by item, or along one axis with few rules of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphcap.backends.cpu.array._base import Array, operand
from graphcap.backends.cpu.array._copies import assign
from graphcap.backends.cpu.array._dispatch import recorded
from graphcap.backends.cpu.array._infer import record_function, record_shaped
from graphcap.backends.cpu.array._recording import refuse
from graphcap.backends.cpu.array._ufuncs import as_array, target_of
from graphcap.backends.cpu.stream import CPUStream

__all__: list[str] = []


@recorded("round around")
def _round(stream: CPUStream, function: Callable[..., Any], a: Any, decimals: Any = 0, out: Any = None) -> Any:
    data = as_array(a, stream)
    options = {"decimals": decimals} if out is None else {"decimals": decimals, "out": out}
    return record_shaped(stream, function, (data,), options, data.shape, takes_out=data.dtype.kind in "iufc")


@recorded("isneginf isposinf")
def _infinite(stream: CPUStream, function: Callable[..., Any], x: Any, out: Any = None) -> Any:
    return record_function(stream, function, x) if out is None else record_function(stream, function, x, out=out)


@recorded("nan_to_num")
def _nan_to_num(
    stream: CPUStream, function: Callable[..., Any], x: Any, copy: bool = True, *args: Any, **kwargs: Any
) -> Any:
    result = record_function(stream, function, x, True, *args, **kwargs)
    if copy or not isinstance(x, (Array, np.ndarray)):
        return result
    assign(stream, target_of(x, stream), operand(result, stream))
    return x


@recorded("histogram histogram2d histogramdd histogram_bin_edges")
def _histogram(stream: CPUStream, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if any(isinstance(value, str) for value in (*args, kwargs.get("bins"))):
        refuse(
            f"numpy.{function.__name__}() with a rule for the bins",
            "how many bins there are depends on values",
            "Give the number of bins, or their edges.",
        )
    return record_function(stream, function, *args, **kwargs)


@recorded(
    "angle isclose iscomplex isreal i0 sinc unwrap interp diff ediff1d gradient trapezoid convolve correlate "
    "isin in1d polyval polyadd polysub polyder polyint fix "
    "busday_count busday_offset is_busday"
)
def _general(stream: CPUStream, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return record_function(stream, function, *args, **kwargs)


@recorded(
    "ndim shape size can_cast common_type result_type min_scalar_type iscomplexobj isrealobj einsum_path",
    "no value is read",
)
def _types_and_shapes(stream: CPUStream, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*[operand(value, stream) for value in args], **kwargs)
