"""The stand-ins' lists of names against the wheel that they serve."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest

from tests.emulated_device import cupy_tree, standins

pytestmark = pytest.mark.usefixtures("emulated")


def test_the_lists_are_what_the_wheel_links(cp: Any) -> None:
    """A new CuPy that wants other functions, or other versions of the libraries, shows here."""
    files = [str(path) for path in cupy_tree.tree().site.rglob("*.so")]
    out = subprocess.run(["nm", "-D", "--undefined-only", *files], check=True, capture_output=True, text=True).stdout
    wanted: dict[str, set[str]] = {}
    for name, soname in re.findall(r" U (\w+)@(lib\S+\.so\.\d+)$", out, re.MULTILINE):
        wanted.setdefault(soname, set()).add(name)
    wanted = {soname: found for soname, found in wanted.items() if soname.startswith(("libcu", "libnv"))}
    wanted.pop("libcudart.so.13", None)
    listed = {
        library.soname: set(standins.names(name)) for name, library in standins.LIBRARIES.items() if library.names
    }
    assert wanted == listed


def test_cupy_sees_the_versions(cp: Any) -> None:
    assert cp.cuda.curand.getVersion() == 10400
    assert cp.cuda.cublas.getVersion(cp.cuda.device.get_cublas_handle()) // 10000 == 13
    assert cp.cuda.cufft.getVersion() // 1000 == 12
