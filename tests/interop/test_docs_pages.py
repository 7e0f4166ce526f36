"""The programs in the pages on callables, parameters, segments, lifetimes and other frameworks run as printed.

Each block runs with the names that it takes for granted. A block that is added to a page has to be added here.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import graphcap
from tests.backends import fixtures_of
from tests.cuda import kit as cuda_kit

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("callables", "parameters", "segments", "lifetimes", "interop")
CHECKS: Final[dict[str, Callable[[Callable[..., dict[str, Any]]], None]]] = {}
"""By page and the number of the block: prepares names, runs the block, and looks at what came of it."""

xp = graphcap.array_namespace("cpu")
Run = Callable[..., dict[str, Any]]


def blocks() -> dict[str, str]:
    found = {}
    for page in PAGES:
        texts = re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), flags=re.DOTALL)
        found.update({f"{page}-{number}": text for number, text in enumerate(texts)})
    return found


def check(name: str) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    def keep(function: Callable[[Run], None]) -> Callable[[Run], None]:
        CHECKS[name] = function
        return function

    return keep


@pytest.mark.parametrize("name", blocks())
def test_block(name: str) -> None:
    assert name in CHECKS, "a new block: say here what it takes for granted, and what comes of it"

    def run(**names: Any) -> dict[str, Any]:
        names = {"graphcap": graphcap, **names}
        exec(compile(blocks()[name], f"docs/{name}", "exec"), names)  # the page's own text
        return names

    CHECKS[name](run)


def test_no_check_is_left_over() -> None:
    assert CHECKS.keys() == blocks().keys()


@check("callables-0")
def _decorator(run: Run) -> None:
    u, v = np.arange(4.0), np.ones(4)
    names = run(u=u, v=v)
    np.testing.assert_array_equal(names["out"], u + 0.5)
    names["step"](u, v, scale=0.5)
    assert names["step"].captures == 1


@check("callables-1")
def _chain(run: Run) -> None:
    def norm(x: Any) -> Any:
        return x, float(x.max())

    f = run(smooth=lambda x: x + 1, norm=norm, scale=lambda pair: pair[0] / pair[1])["f"]
    for values in (np.arange(3.0), np.ones(3)):
        np.testing.assert_array_equal(f(values), (values + 1) / (values + 1).max())
    assert [segment.kind for segment in f.graphs[0].segments] == ["graph", "eager", "graph"]


def _cuda_arrays() -> Any:
    fx = fixtures_of("cuda")
    fx.start(fx.seeds[0])
    return fx


def _vector(value: float) -> Any:
    return np.full(16, value, np.float32)


@check("callables-2")
def _bound(run: Run) -> None:
    fx = _cuda_arrays()
    dt = graphcap.parameter(np.float32(1), name="dt")
    x, new = fx.upload(_vector(1)), fx.upload(_vector(3))

    def work(x: Any) -> Any:
        out = graphcap.allocate(x.nbytes, device="cuda")
        fx.launch_axpy(graphcap.current_stream("cuda"), out, dt, x, x)
        return out

    names = run(work=work, x=x, new=new)
    np.testing.assert_array_equal(fx.download(names["y"]), np.float32(0.2) * _vector(3) + _vector(3))


@check("parameters-0")
def _parameter(run: Run) -> None:
    u = xp.ones(3)
    names = run(u=u, laplacian=lambda u: u * 0 + 1)
    np.testing.assert_array_equal(np.asarray(names["u"]), np.float64(1) + 0.1 + 0.2 + 0.05)


@check("segments-0")
def _segments(run: Run) -> None:
    fx = _cuda_arrays()
    u = fx.upload(_vector(2))

    def residual(u: Any) -> Any:
        out = graphcap.allocate(u.nbytes, device="cuda")
        fx.launch_axpy(graphcap.current_stream("cuda"), out, 1, u, u)
        return out

    def norm(r: Any) -> Any:
        host, stream = np.empty(16, np.float32), graphcap.current_stream("cuda")
        stream.copy(host, r)
        stream.synchronize()
        return host.max()

    def correct(u: Any, r: Any, size: Any) -> None:
        fx.launch_axpy(graphcap.current_stream("cuda"), u, size, r, u)

    names = run(u=u, residual=residual, norm=norm, correct=correct)
    assert [segment.kind for segment in names["g"].segments] == ["graph", "eager", "graph"]
    np.testing.assert_array_equal(fx.download(u), _vector(4 * 4 + 2))  # the warm-up was undone, one replay was done


@check("lifetimes-0")
def _order(run: Run) -> None:
    fx = _cuda_arrays()
    stream = fx.make_stream()
    x, out = fx.upload(_vector(1)), fx.upload(_vector(0))

    def step(out: Any, x: Any) -> None:
        fx.launch_axpy(stream, out, 1, x, x)

    names = run(stream=stream, x=x, out=out, step=step)
    (conflict,) = graphcap.check_pool_order([names["first"], names["second"]])
    said = re.sub(r"0x[0-9a-f]+", "0x7f…", str(conflict))
    printed = " ".join(re.findall(r"^# (.*)$", blocks()["lifetimes-0"], flags=re.MULTILINE))
    assert said == printed


class Copying:
    """In place of a Numba kernel, which only a GPU runs: launched in the same way, it copies its second argument to its first."""

    def __getitem__(self, configuration: tuple[Any, ...]) -> Callable[[Any, Any], None]:
        def launch(out: Any, x: Any) -> None:
            out.copy_to_device(x, *configuration[2:])

        return launch


@check("interop-0")
def _numba(run: Run) -> None:
    cuda: Any = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
    x, y = cuda.to_device(np.full(16, 5.0)), cuda.to_device(np.zeros(16))
    names = run(kernel=Copying(), x=x, y=y, n=16)
    x.copy_to_device(np.full(16, 6.0))
    cuda.synchronize()
    names["g"].replay()
    graphcap.synchronize("cuda")
    np.testing.assert_array_equal(y.copy_to_host(), np.full(16, 6.0))


@check("interop-1")
def _cuda_core(run: Run) -> None:
    core: Any = importlib.import_module("cuda.core")
    device = core.Device()
    device.set_current()
    before = device.memory_resource
    try:
        names = run(device=device, nbytes=64, stream=cuda_kit.make_stream())
        assert names["buffer"].size == 64
        names["buffer"].close()
    finally:
        device.memory_resource = before


@check("interop-2")
def _rmm(run: Run) -> None:
    rmm: Any = pytest.importorskip("rmm", reason="rmm is not installed")
    if cuda_kit.is_emulated():  # RMM asks NVIDIA's runtime library for the device, which takes a real driver only
        with pytest.raises(importlib.import_module("rmm._cuda.gpu").CUDARuntimeError):
            run()
        return
    before = rmm.mr.get_current_device_resource()
    try:
        run()
        assert rmm.mr.get_current_device_resource() is not before
    finally:
        rmm.mr.set_current_device_resource(before)
