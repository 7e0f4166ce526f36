"""``backend_status()["XPU"]`` tells what is missing and what to do about it."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from typing import Any

import pytest

from graphcap.backends.xpu import discovery
from tests.xpu.child import run_child

pytestmark = pytest.mark.needs_no_dpctl


def versions(monkeypatch: pytest.MonkeyPatch, found: dict[str, str]) -> None:
    """Let these distributions be the installed ones."""

    def version(name: str) -> str:
        if name not in found:
            raise importlib.metadata.PackageNotFoundError(name)
        return found[name]

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_no_dpctl_where_there_are_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, {})
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "platform", "linux")
    missing = discovery.dpctl_missing()
    assert missing is not None
    assert missing.cure == "Install it: pip install dpctl."
    assert not missing.installed


def test_no_dpctl_where_there_are_no_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, {})
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    missing = discovery.dpctl_missing()
    assert missing is not None
    assert "aarch64" in missing.cure
    assert "pip install" not in missing.cure


@pytest.mark.parametrize(
    ("version", "good"), [("0.21.4", False), ("0.9", False), ("0.22.0", True), ("0.22.1+5.gabc", True), ("1.0", True)]
)
def test_version_of_dpctl(monkeypatch: pytest.MonkeyPatch, version: str, good: bool) -> None:
    versions(monkeypatch, {"dpctl": version})
    missing = discovery.dpctl_missing()
    assert (missing is None) == good
    if missing is not None:
        assert version in missing.reason
        assert missing.installed


def test_devices_of_one_backend_only() -> None:
    """A GPU shows up once per SYCL backend; Level Zero is preferred, and a CPU only stands in where there is no GPU."""
    cpu, gpu_cl, gpu_ze = ["cpu"], ["gpu through opencl"], ["gpu through level zero", "another"]
    everything: dict[tuple[str, str], list[Any]] = {
        ("opencl", "cpu"): cpu,
        ("opencl", "gpu"): gpu_cl,
        ("level_zero", "gpu"): gpu_ze,
    }
    assert discovery.choose_devices(everything) == gpu_ze
    del everything["level_zero", "gpu"]
    assert discovery.choose_devices(everything) == gpu_cl
    everything["opencl", "gpu"] = []
    assert discovery.choose_devices(everything) == cpu
    assert discovery.choose_devices({}) == []


def test_no_device_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "opencl_runtime_library", lambda: "/somewhere/libintelocl.so")
    monkeypatch.delenv("OCL_ICD_FILENAMES", raising=False)
    monkeypatch.delenv("ONEAPI_DEVICE_SELECTOR", raising=False)
    unregistered = discovery.no_device()
    assert "not registered" in unregistered.reason
    assert "OCL_ICD_FILENAMES" in unregistered.cure
    assert "register_opencl_cpu" in unregistered.cure
    monkeypatch.setenv("OCL_ICD_FILENAMES", "/somewhere/libintelocl.so")
    monkeypatch.setenv("ONEAPI_DEVICE_SELECTOR", "opencl:cpu")
    selected = discovery.no_device()
    assert "opencl:cpu" in selected.reason
    assert "*:cpu" in selected.cure
    monkeypatch.delenv("ONEAPI_DEVICE_SELECTOR")
    monkeypatch.setattr(discovery, "opencl_runtime_library", lambda: None)
    bare = discovery.no_device()
    assert "Intel GPU" in bare.cure
    assert "intel-opencl-rt" in bare.cure


def test_registration_keeps_what_the_user_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "opencl_runtime_library", lambda: "/somewhere/libintelocl.so")
    monkeypatch.setenv("OCL_ICD_FILENAMES", "/mine.so")
    monkeypatch.setenv("ONEAPI_DEVICE_SELECTOR", "level_zero:*")
    assert discovery.register_opencl_cpu()
    import os

    assert os.environ["OCL_ICD_FILENAMES"] == "/mine.so"
    assert os.environ["ONEAPI_DEVICE_SELECTOR"] == "level_zero:*"
    monkeypatch.setattr(discovery, "opencl_runtime_library", lambda: None)
    assert not discovery.register_opencl_cpu()


CHILD = """
import sys, warnings
import graphcap
assert "dpctl" not in sys.modules
assert graphcap.has_graph_impl("xpu")
import graphcap.backends.xpu
assert "dpctl" not in sys.modules
status = graphcap.backend_status()["XPU"]
print(status.ok, status.installed)
print(status.reason)
print(status.cure)
try:
    graphcap.Graph("xpu")
except graphcap.BackendUnavailableError as error:
    print("Graph:", error)
try:
    graphcap.create_graph_impl("xpu")
except graphcap.BackendUnavailableError as error:
    print("create_graph_impl:", type(error.__cause__).__name__)
"""


def test_status_without_dpctl() -> None:
    """The names are known, nothing is imported, and everything says how to install it."""
    hide = """
import importlib.metadata as metadata
real = metadata.version
def version(name):
    if name == "dpctl":
        raise metadata.PackageNotFoundError(name)
    return real(name)
metadata.version = version
"""
    done = run_child(hide + CHILD, head="")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "False False"
    assert lines[1] == "dpctl is not installed"
    assert lines[3].startswith("Graph: backend 'XPU' is not usable here: dpctl is not installed.")
    assert lines[4] == "create_graph_impl: ImportError"
    if platform.machine() == "x86_64" and sys.platform == "linux":
        assert lines[2] == "Install it: pip install dpctl."


@pytest.mark.skipif(discovery.dpctl_missing() is not None, reason="XPU: dpctl is not installed")
@pytest.mark.skipif(discovery.opencl_runtime_library() is None, reason="XPU: intel-opencl-rt is not installed")
def test_status_without_the_registration() -> None:
    """dpctl and the OpenCL runtime are installed by pip, but nobody registered the runtime: the status says so."""
    environment = {"OCL_ICD_FILENAMES": None, "ONEAPI_DEVICE_SELECTOR": "*:cpu"}
    done = run_child(CHILD, head="", environment=environment)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    if lines[0] == "True True":
        pytest.skip("XPU: this machine registers an OpenCL CPU device of its own")
    assert lines[0] == "False True"
    assert "not registered" in lines[1]
    assert "OCL_ICD_FILENAMES" in lines[2]
