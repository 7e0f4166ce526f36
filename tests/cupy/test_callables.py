"""Graphed callables, segments and parameters with CuPy's arrays: what cannot be captured is found, named, or stepped around."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphcap


def test_graphed_callable(cp: Any) -> None:
    """Alternating shapes and types, new results each time, one capture per kind."""

    def chain(x: Any, y: Any) -> Any:
        for _ in range(3):
            x = x * 2 + y
        return x

    graphed = graphcap.make_graphed_callable(chain, device="cuda")
    kept = []
    for turn in range(3):
        for shape, dtype in (((5,), "f4"), ((3, 4), "f8")):
            x, y = np.full(shape, turn, dtype), np.arange(np.prod(shape), dtype=dtype).reshape(shape)
            kept.append((graphed(cp.asarray(x), cp.asarray(y)), chain(x, y)))
    assert graphed.captures == 2
    for found, wanted in kept:
        assert isinstance(found, cp.ndarray)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(cp.asnumpy(found), wanted)


def test_a_value_read_names_the_users_line(cp: Any) -> None:
    """``float()`` of an array in the function."""

    def peeks(x: Any) -> Any:
        if float(x.sum()) > 0:  # the line
            return x
        return -x

    with pytest.raises(graphcap.CaptureForbiddenError) as caught:
        graphcap.make_graphed_callable(peeks, [cp.ones(3)], device="cuda")
    notes = " ".join(getattr(caught.value, "__notes__", ()))
    assert "peeks" in notes
    assert "if float(x.sum()) > 0:  # the line" in notes


def test_cublas_is_stepped_around(cp: Any) -> None:
    """User problems 12 (cupy#6290): CuPy refuses cuBLAS in a capture; the step becomes an eager one, and the rest stays graphs."""
    a = cp.asarray(np.arange(9.0).reshape(3, 3))
    with graphcap.capture("cuda", on_forbidden="split") as graph:
        shifted = graph.step(lambda x: x + 1, a)
        product = graph.step(lambda x: x @ x, shifted)
        result = graph.step(lambda x: x / 2, product)
    assert [segment.kind for segment in graph.segments] == ["graph", "eager", "graph"]
    assert "cuBLAS" in str(graph.segments[1].reason)
    for start in (0.0, 5.0):
        plain = np.arange(start, start + 9).reshape(3, 3)
        a[...] = cp.asarray(plain)
        graph.replay()
        np.testing.assert_allclose(cp.asnumpy(result), (plain + 1) @ (plain + 1) / 2, rtol=1e-12)


def test_parameters_with_cupys_arrays(cp: Any) -> None:
    """Outside a capture the number; inside, CuPy would bake it into its kernels, which is refused with the way round."""
    dt = graphcap.parameter(2.0, name="dt")
    x = cp.arange(4, dtype="f4")
    for found in (x * dt, dt * x, (dt * 0.5 + 1) * x):
        np.testing.assert_array_equal(cp.asnumpy(found), 2 * np.arange(4, dtype="f4"))
    cell = cp.full(1, 2.0, "f4")
    with graphcap.capture("cuda") as graph:
        calls: list[Any] = [lambda: x * dt, lambda: dt * x, lambda: x + dt]
        for refused in calls:
            with pytest.raises(graphcap.CaptureForbiddenError, match="array of one item"):
                refused()
        y = x * cell
    graph.bind(factor=cell)
    graph.replay(inputs={"factor": cp.full(1, 3.0, "f4")})
    np.testing.assert_array_equal(cp.asnumpy(y), 3 * np.arange(4, dtype="f4"))
