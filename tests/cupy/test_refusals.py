"""What the emulated device does not offer is refused in words, and never seems to work."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.emulated_device import cupy_tree

pytestmark = pytest.mark.usefixtures("emulated")

NOT_SUPPORTED = 801


@pytest.mark.parametrize(
    "call",
    [
        lambda r: r.mallocArray(0, 4, 4),
        lambda r: r.malloc3DArray(0, 4, 4, 4),
        lambda r: r.freeArray(1),
        lambda r: r.createTextureObject(0, 0),
        lambda r: r.destroyTextureObject(1),
        lambda r: r.createSurfaceObject(0),
        lambda r: r.destroySurfaceObject(1),
        lambda r: r.memcpy2DToArray(1, 0, 0, 1, 4, 4, 4, 3),
        lambda r: r.memcpy2DFromArray(1, 4, 1, 0, 0, 4, 4, 3),
        lambda r: r.ipcGetMemHandle(1),
        lambda r: r.ipcOpenMemHandle(bytes(64)),
        lambda r: r.ipcGetEventHandle(1),
        lambda r: r.ipcOpenEventHandle(bytes(64)),
        lambda r: r.memAdvise(0, 64, 1, 0),
        lambda r: r.memPrefetchAsync(0, 64, 0, 0),
    ],
)
def test_runtime_calls_that_are_not_offered(cp: Any, call: Callable[[Any], object]) -> None:
    """Number 801, as the driver says it; the error does not stay."""
    with pytest.raises(
        cp.cuda.runtime.CUDARuntimeError, match="cudaErrorNotSupported: operation not supported"
    ) as caught:
        call(cp.cuda.runtime)
    assert caught.value.status == NOT_SUPPORTED
    assert float(cp.ones(2).sum()) == 2


def test_bit_generators(cp: Any) -> None:
    """The newer random interface says what to use."""
    for make in (cp.random.default_rng, cp.random.XORWOW, cp.random.Philox4x3210, cp.random.MRG32k3a):
        with pytest.raises(NotImplementedError, match=r"not on the emulated device.*Use cupy.random"):
            make()
    with pytest.raises(NotImplementedError, match=re.escape("cupy.random.Generator: ")):
        cp.random.Generator(None)


@pytest.mark.filterwarnings("ignore:.*[Jj]itify.*:DeprecationWarning")
def test_jitify(cp: Any) -> None:
    """By CuPy's option."""
    kernel = cp.RawKernel('extern "C" __global__ void nothing() {}', "nothing", jitify=True)
    with pytest.raises(NotImplementedError, match="Jitify is not on the emulated device"):
        kernel((1,), (1,), ())


def test_libraries_of_which_nothing_is_there(cp: Any) -> None:
    """cuSOLVER's own status."""
    with pytest.raises(RuntimeError, match="NOT_SUPPORTED"):
        cp.linalg.svd(cp.ones((3, 3)))


def test_nvcc(cp: Any) -> None:
    """The program that CuPy would start refuses, and CuPy hands its words on."""
    done = subprocess.run([os.environ["NVCC"], "x.cu", "-o", "x"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "emulated device" in done.stderr
    with pytest.raises(Exception, match="emulated device"):
        cp.RawKernel('extern "C" __global__ void nothing() {}', "nothing", backend="nvcc").compile()


def test_arrays_of_the_host(cp: Any) -> None:
    """CuPy's own refusal stays what it is."""
    with pytest.raises(TypeError, match="Unsupported type"):
        cp.sin(np.ones(3))


def test_replaced_modules_offer_every_public_name(cp: Any) -> None:
    """Against the text of the modules whose place they take."""
    import cupy.cuda.jitify
    import cupy.random._generator_api

    text = cupy_tree.sdist() / "cupy"
    for module, file in (
        (cupy.cuda.jitify, "cuda/jitify.pyx"),
        (cupy.random._generator_api, "random/_generator_api.pyx"),
    ):
        source = (text / file).read_text()
        wanted = set(re.findall(r"^(?:cpdef [\w ]*?|def |class |cdef class )(\w+)(?=[(:])", source, re.MULTILINE))
        wanted -= {name for name in wanted if name.startswith("_FeistelBijection")}  # a parameter of its kernel
        assert wanted - set(dir(module)) == set()
    generator = (text / "random/_generator_api.pyx").read_text().split("\nclass Generator:")[1].split("\ndef ")[0]
    wanted = set(re.findall(r"^    def ([a-z]\w*)\(", generator, re.MULTILINE))
    assert wanted
    assert wanted - set(dir(cupy.random.Generator)) == set()
