"""Capture a call, replay it with other inputs, and compare with NumPy bit for bit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import graphcap

Plain = np.ndarray[Any, Any]
Program = Callable[[Any, dict[str, Any]], Any]

make_stream: Any = graphcap.Stream  # its metaclass builds the backend's own class

xp: Any = graphcap.array_namespace("cpu")


def leaves(value: Any) -> Iterator[Any]:
    """The parts of a result, in order."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def same(found: Any, expected: Any, where: str = "") -> None:
    """Assert that a result has the type, shape, layout and bits that NumPy gave."""
    ours, theirs = list(leaves(found)), list(leaves(expected))
    assert len(ours) == len(theirs), where
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(one, xp.ndarray):
            assert isinstance(other, (np.ndarray, np.generic, int, float, complex, bool)), (where, type(other))
            data = np.asarray(one)
            want = np.asarray(other)
            assert data.dtype == want.dtype, (where, data.dtype, want.dtype)
            assert data.shape == want.shape, (where, data.shape, want.shape)
            assert data.flags.c_contiguous == want.flags.c_contiguous, (where, data.strides, want.strides)
            assert data.flags.f_contiguous == want.flags.f_contiguous, (where, data.strides, want.strides)
            assert bits(data) == bits(want), (where, data, want)
        else:
            assert not isinstance(other, np.ndarray), (where, type(one))
            assert one == other, (where, one, other)


def bits(data: Plain) -> bytes:
    """The items as bytes in C order; every NaN is one NaN, and padding of long doubles does not count."""
    if data.dtype.kind in "fc":
        data = data.copy()
        data[np.isnan(data)] = np.nan
        if data.dtype.itemsize in (16, 32) and data.dtype.char in "gG":
            return repr(data.tolist()).encode()
    return data.tobytes()


def check(program: Program, inputs: list[dict[str, Plain]], module: Any = np) -> Any:
    """Capture `program` on the first inputs and compare its replay on each of them with NumPy on plain copies."""
    memory = {name: data.copy("K") for name, data in inputs[0].items()}
    arrays = {name: xp.asarray(data) for name, data in memory.items()}
    before = {name: data.copy("K") for name, data in memory.items()}
    graph = graphcap.Graph("cpu", keep_graph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same numerical warnings from both
        with make_stream("cpu"), graph:
            result = program(module, arrays)
        for name, data in memory.items():
            assert bits(data) == bits(before[name]), f"capture ran work: {name} has changed"
        for given in inputs:
            for name, data in given.items():
                memory[name][...] = data
            expected = program(np, {name: data.copy("K") for name, data in given.items()})
            graph.replay()
            same(result, expected)
    return graph
